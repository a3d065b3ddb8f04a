// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import java.util.Optional;

/**
 * What a simulation came to.
 *
 * @param seed of the first world
 * @param broken the rule that its worlds break
 * @param worlds that were run
 * @param rankIterations iterations of all ranks of all worlds; pipeline stages and idle ones don't
 *     count
 * @param medianRanks ranks of the median world
 * @param medianIterations iterations of the median world
 * @param medianRequests requests of the median world
 * @param done worlds in which everything that came was over at the end
 * @param stalled worlds in which a rank died and every other one named it in time
 * @param outOfReach worlds whose fill waited for more requests than came
 * @param coverage what was seen
 * @param failure the first world in which an invariant didn't hold
 */
public record SimulationReport(
    long seed,
    BrokenRule broken,
    long worlds,
    long rankIterations,
    int medianRanks,
    int medianIterations,
    int medianRequests,
    long done,
    long stalled,
    long outOfReach,
    Coverage coverage,
    Optional<Failure> failure) {}
