// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import java.util.OptionalInt;
import java.util.OptionalLong;

/**
 * The first decision of a run that isn't the logged one.
 *
 * @param iteration steps before it, idle ones included
 * @param decision what was decided
 * @param stage the pipeline stage, if the decision is a rank's
 * @param rank the rank, if the decision is a rank's
 * @param request the request that it is about, if it is about one
 * @param logged what the log says
 * @param came what the run came to
 */
public record Difference(
    long iteration,
    Decision decision,
    OptionalInt stage,
    OptionalInt rank,
    OptionalLong request,
    String logged,
    String came) {
  /** Kinds of decisions, in the order in which an iteration makes them. */
  public enum Decision {
    /** Whether an offered request waits, is refused or is there already. */
    OFFER,
    /** Whether a request still waited when it was taken out. */
    WITHDRAWAL,
    /** Whether an input is possible at all. */
    INPUT,
    /** Whether the fleet is idle. */
    IDLE,
    /** Whether the gate is open, and whether it holds the forward. */
    GATE,
    /** Admission budget, requests charged, the router's target. */
    BUDGET,
    /** Who is admitted, to which rank. */
    ASSIGNMENT,
    /** Who runs, in which order, with how many tokens. */
    BATCH,
    /** Whether a rank is padded. */
    PADDING,
    /** Who waits for what. */
    DEFERRAL,
    /** Whose KV is asked for. */
    RECEIVE,
    /** Whether the fleet may queue. */
    VOTE,
    /** Whether a rank launches. */
    LAUNCH,
    /** Who ended, how, with how many tokens. */
    END,
    /** Requests, seats, leases and pages of a rank. */
    POOLS,
    /** The rolling hash of all decisions. */
    HASH,
    /** Whether the step comes to its end. */
    FAILURE
  }

  /** One line: where, what, who, and both sides. */
  public String describe() {
    var text = new StringBuilder("iteration ").append(iteration);
    rank.ifPresent(r -> text.append(", rank ").append(r));
    stage.ifPresent(s -> text.append(s > 0 ? ", stage " + s : ""));
    request.ifPresent(id -> text.append(", request ").append(id));
    return text.append(", ")
        .append(decision.name().toLowerCase(java.util.Locale.ROOT))
        .append(": logged ")
        .append(logged)
        .append(", came ")
        .append(came)
        .toString();
  }
}
