// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

/** What a file says about the overlap scheduler of a worker. */
public enum OverlapSetting {
  /** Nothing, which means on. */
  DEFAULT_ON("on (by default: the key is absent)"),
  ON("on"),
  OFF("off"),
  /** On, but two-model drafting forces it off. */
  FORCED_OFF("off (two-model drafting forces it off)");

  private final String text;

  OverlapSetting(String text) {
    this.text = text;
  }

  /** Whether the scheduler really overlaps. */
  public boolean effective() {
    return this == DEFAULT_ON || this == ON;
  }

  @Override
  public String toString() {
    return text;
  }
}
