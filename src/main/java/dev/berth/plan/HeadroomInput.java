// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

/** An input of the headroom gate that can keep it closed (spec 01 §6.1). */
public enum HeadroomInput {
  ATTENTION_DP("attention DP is off"),
  PIPELINE("pipeline size is above 1"),
  OVERLAP("overlap is off"),
  HYBRID("the model is hybrid (SSM)"),
  MROPE_DELTA("the model keeps an MRoPE delta cache"),
  BEAM("beam width is above 1");

  private final String closedBecause;

  HeadroomInput(String closedBecause) {
    this.closedBecause = closedBecause;
  }

  /** Why this input keeps the gate closed, half a sentence. */
  public String closedBecause() {
    return closedBecause;
  }
}
