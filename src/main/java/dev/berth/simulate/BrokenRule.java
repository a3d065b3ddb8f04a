// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import java.util.Arrays;
import java.util.Optional;

/** A rule that a world breaks on purpose, to show that the simulator notices. */
public enum BrokenRule {
  /** None. */
  NONE("none", "nothing is broken"),
  /** Retirees are charged although there is headroom (spec 06 BC-01, BC-73). */
  RETIRING_CHARGED("retiring-charged", "retiring requests are charged against the budget"),
  /** The fill gate asks for a number of residents (spec 06 BC-03). */
  COUNT_GATE("count-gate", "the fill gate counts residents"),
  /** Retirees are scheduled again. */
  RANGE_END_20("range-end-20", "the schedulable range ends at 20"),
  /** Only the last pipeline stage marks retirees (spec 06 BC-39). */
  LAST_STAGE_MARK("last-stage-mark", "only the last pipeline stage marks retiring requests"),
  /** A fleet with nothing but retirees blocks (spec 06 BC-04, BC-74). */
  ROUTABLE_IDLE("routable-idle", "idle is asked of routable requests"),
  /** The router may pass K (spec 06 BC-13). */
  CAP_OFF("cap-off", "the router's hard cap is off"),
  /** One rank doesn't hear of a cancel (spec 06 BC-07, BC-71). */
  LOCAL_CANCEL("local-cancel", "a waiting request is cancelled on one rank only"),
  /** A rank that makes no frame is waited for without end (spec 06 BC-69). */
  NO_WATCH("no-watch", "collectives are waited for without a bound");

  private final String id;
  private final String text;

  BrokenRule(String id, String text) {
    this.id = id;
    this.text = text;
  }

  /** The name that the command line takes. */
  public String id() {
    return id;
  }

  /** What is wrong in such a world. */
  public String text() {
    return text;
  }

  /** The rule of that name. */
  public static Optional<BrokenRule> byId(String id) {
    return Arrays.stream(values()).filter(rule -> rule.id.equals(id)).findFirst();
  }
}
