// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

/** What must hold in every world after every iteration: the ten rules of spec 06. */
public enum Invariant {
  /** Routable, live and forwardable are three counts, and each is what the requests make it. */
  THREE_COUNTS("routable, live and forwardable are three counts"),
  /** Want of a seat, lease or page is a result, told only where there is none left. */
  EXHAUSTION_IS_A_RESULT("exhaustion is a result, not an exception"),
  /** What can never fit is refused, what can't fit now keeps its place. */
  NEVER_FITS_IS_REFUSED("what can never fit is refused, what can't fit now keeps its place"),
  /** Pages, tokens and batch positions are what the one formula of each says. */
  ONE_FORMULA("one formula per quantity"),
  /** A request that doesn't run holds nothing. */
  NOBODY_WAITS_WHILE_HOLDING("acquire all or nothing; nobody waits while holding"),
  /** Everything goes back once, when its holder is over. */
  RELEASED_ONCE("release exactly once, at the terminal state"),
  /** Every rank makes the same collectives and the same decisions. */
  RANKS_AGREE("what shapes a collective comes from gathered values"),
  /** No rank and no fleet is given more than its capacity, whatever is under way. */
  OWN_DEEDS_COUNT("a snapshot never overwrites what was done since"),
  /** Work and resources make progress within a stated bound. */
  LIVENESS("with runnable work something happens within a bound"),
  /** Gates, idleness and votes follow from what is, at every iteration anew. */
  FLAGS_ARE_DERIVED("flags are derived, not latched");

  private final String text;

  Invariant(String text) {
    this.text = text;
  }

  /** Number of the rule in spec 06, 1 to 10. */
  public int number() {
    return ordinal() + 1;
  }

  /** The rule in words. */
  public String text() {
    return text;
  }
}
