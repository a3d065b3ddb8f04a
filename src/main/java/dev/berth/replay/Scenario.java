// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import java.util.List;
import java.util.Optional;

/**
 * A load, the ways to run it, and what must come out.
 *
 * @param name file name without its ending
 * @param title one line for people
 * @param source where the figures were published
 * @param notes what a reader must know
 * @param load the requests
 * @param cost time of a forward
 * @param transferMicros time of a KV transfer
 * @param arms at least one
 * @param comparisons between arms
 */
public record Scenario(
    String name,
    String title,
    Optional<String> source,
    List<String> notes,
    Load load,
    CostModel cost,
    double transferMicros,
    List<Arm> arms,
    List<Comparison> comparisons) {
  public Scenario {
    notes = List.copyOf(notes);
    arms = List.copyOf(arms);
    comparisons = List.copyOf(comparisons);
  }
}
