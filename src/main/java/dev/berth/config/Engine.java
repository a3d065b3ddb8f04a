// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

/** Whose configuration a file holds. */
public enum Engine {
  TRTLLM("TensorRT-LLM"),
  VLLM("vLLM"),
  SGLANG("SGLang");

  private final String title;

  Engine(String title) {
    this.title = title;
  }

  /** The engine's own name. */
  public String title() {
    return title;
  }
}
