// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import java.util.Arrays;
import java.util.Optional;

/** A versioned set of decision rules (DESIGN.md decision 5). Old sets keep their golden files. */
public enum PolicySet {
  /** What TensorRT-LLM did in September 2026: parity with its golden vectors. */
  TRTLLM_2026_09("trtllm-2026-09"),
  /** Parity where upstream is right, fixed where it is not. The default. */
  BERTH_1("berth-1");

  /** The set that is used where none is named. */
  public static final PolicySet DEFAULT = BERTH_1;

  private final String id;

  PolicySet(String id) {
    this.id = id;
  }

  /** The name that scenarios and logs carry; stable for ever. */
  public String id() {
    return id;
  }

  /** The set of that name. */
  public static Optional<PolicySet> byId(String id) {
    return Arrays.stream(values()).filter(set -> set.id.equals(id)).findFirst();
  }

  @Override
  public String toString() {
    return id;
  }
}
