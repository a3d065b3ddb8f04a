// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * The headroom gate H = attention DP ∧ pp = 1 ∧ overlap on ∧ not hybrid ∧ no MRoPE delta cache ∧
 * beam width 1 (spec 01 §6.1). Disaggregation is not an input. One gate feeds the seat pool and the
 * router.
 *
 * @param closedBy every input that keeps it closed, none if it is open
 */
public record HeadroomGate(Set<HeadroomInput> closedBy) {
  public HeadroomGate {
    closedBy =
        Collections.unmodifiableSet(
            closedBy.isEmpty() ? EnumSet.noneOf(HeadroomInput.class) : EnumSet.copyOf(closedBy));
  }

  /** The gate of a worker. */
  public static HeadroomGate of(WorkerShape shape) {
    var closed = EnumSet.noneOf(HeadroomInput.class);
    if (!shape.attentionDp()) {
      closed.add(HeadroomInput.ATTENTION_DP);
    }
    if (shape.pipelineSize() > 1) {
      closed.add(HeadroomInput.PIPELINE);
    }
    if (!shape.overlap()) {
      closed.add(HeadroomInput.OVERLAP);
    }
    if (shape.hybrid()) {
      closed.add(HeadroomInput.HYBRID);
    }
    if (shape.mropeDelta()) {
      closed.add(HeadroomInput.MROPE_DELTA);
    }
    if (shape.beamWidth() > 1) {
      closed.add(HeadroomInput.BEAM);
    }
    return new HeadroomGate(closed);
  }

  public boolean open() {
    return closedBy.isEmpty();
  }

  /** Every failing input as half a sentence, none if the gate is open. */
  public List<String> reasons() {
    var reasons = new ArrayList<String>();
    closedBy.forEach(input -> reasons.add(input.closedBecause()));
    return List.copyOf(reasons);
  }

  @Override
  public String toString() {
    return open() ? "open" : reasons().stream().collect(Collectors.joining("; ", "closed: ", ""));
  }
}
