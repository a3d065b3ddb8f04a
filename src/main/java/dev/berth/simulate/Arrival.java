// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import dev.berth.request.Request;

/**
 * A request of a world.
 *
 * @param at virtual time of its offer, µs
 * @param request its tag is its number in the world
 * @param name which of the world's ids it has; a later request may have the same
 * @param transferMicros how long its KV is on the way, if it is received
 */
record Arrival(long at, Request request, int name, int transferMicros) {}
