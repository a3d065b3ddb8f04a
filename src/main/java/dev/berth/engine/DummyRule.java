// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;

/**
 * When a rank of an attention-DP fleet pads its batch, and with what: a rank without work would
 * veto the forward of all others (spec 01 §7). A rank has one dummy with one fixed id; it is
 * tentative until the fleet's vote. Not thread-safe.
 *
 * <p>An iteration is {@link #beforeScheduling}, {@link #afterScheduling}, then {@link #commit} or
 * {@link #rollBack}, and {@link #settled} after the forward that ran it.
 */
public final class DummyRule {
  /** What a dummy does in its batch. */
  public enum Role {
    /** One token of a generation. */
    GENERATION,
    /** A prompt of one token: in a fleet whose requests end with their first token. */
    CONTEXT
  }

  /** What an iteration decided about a dummy. */
  public enum Decision {
    /** None is needed. */
    NOT_NEEDED,
    /** One is alive: there are never two. */
    ALIVE,
    /** A benchmark's fill goes on: its ranks run empty together. */
    FILLING,
    /** One is needed, but KV for the whole of it isn't free: the fleet skips and tries again. */
    SHORT_OF_KV,
    /** The rank is full, retirees counted: it is left empty and vetoes. */
    FULL,
    /** One was placed. */
    PLACED
  }

  /** Where the rank's dummy is. */
  private enum Life {
    NONE,
    TENTATIVE,
    COMMITTED
  }

  private Life life = Life.NONE;
  private Role role = Role.GENERATION;

  /** No dummy, and the role of one is a generation's. */
  public DummyRule() {}

  /**
   * Takes what was routed to any rank in this iteration: in a disaggregated fleet it decides the
   * role of the next dummy. Contexts win; where neither kind was routed the role stays.
   *
   * @param contextOnly requests that end with their first token
   * @param generationOnly requests whose KV comes from elsewhere
   */
  public void routed(int contextOnly, int generationOnly) {
    if (contextOnly > 0) {
      role = Role.CONTEXT;
    } else if (generationOnly > 0) {
      role = Role.GENERATION;
    }
  }

  /** What the next dummy does. */
  public Role role() {
    return role;
  }

  /** True while a dummy is in the active list. */
  public boolean alive() {
    return life != Life.NONE;
  }

  /**
   * What a rank knows before it schedules.
   *
   * @param routable active requests, retirees left out where they are excluded
   * @param schedulable requests that a batch could come from: all active ones, retirees and dummies
   *     counted, where there is no transfer engine; else those before and in their transfer are
   *     left out
   * @param expectedActive E of the router
   * @param filling a benchmark's fill is under way and this isn't its warm-up
   * @param freePages KV pages free, {@link Long#MAX_VALUE} if they aren't limited
   * @param pagesOfADummy KV pages that the whole of a dummy takes
   */
  public record Before(
      int routable,
      int schedulable,
      int expectedActive,
      boolean filling,
      long freePages,
      long pagesOfADummy) {}

  /**
   * Whether a rank without schedulable requests gets a dummy in a fleet that expects some on every
   * rank (spec 01 §7.1). E counts as at least the rank's own routable requests: K is applied to E
   * last, so it may lie below them.
   */
  public Decision beforeScheduling(Before rank) {
    int expected = Math.max(rank.expectedActive(), rank.routable());
    if (rank.schedulable() > 0 || expected == 0) {
      return Decision.NOT_NEEDED;
    }
    return place(rank.filling(), rank.freePages(), rank.pagesOfADummy());
  }

  /**
   * What a rank knows after it scheduled.
   *
   * @param batch batch positions in use
   * @param active requests in the active list, retirees counted
   * @param cap K
   * @param expectedActive E of the router
   * @param filling as before
   * @param freePages as before
   * @param pagesOfADummy as before
   */
  public record After(
      int batch,
      int active,
      int cap,
      int expectedActive,
      boolean filling,
      long freePages,
      long pagesOfADummy) {}

  /** Whether a rank that holds requests and scheduled none gets a dummy (spec 01 §7.2). */
  public Decision afterScheduling(After rank) {
    if (rank.batch() > 0 || rank.active() == 0 || rank.expectedActive() == 0) {
      return Decision.NOT_NEEDED;
    }
    if (rank.active() >= rank.cap()) {
      return Decision.FULL;
    }
    return place(rank.filling(), rank.freePages(), rank.pagesOfADummy());
  }

  private Decision place(boolean filling, long freePages, long pages) {
    if (life != Life.NONE) {
      return Decision.ALIVE;
    }
    if (filling) {
      return Decision.FILLING;
    }
    if (freePages < pages) {
      return Decision.SHORT_OF_KV;
    }
    life = Life.TENTATIVE;
    return Decision.PLACED;
  }

  /** The fleet launches: a tentative dummy runs. */
  public void commit() {
    if (life == Life.TENTATIVE) {
      life = Life.COMMITTED;
    }
  }

  /**
   * The fleet can't launch: a tentative dummy goes at once (spec 01 §7.3).
   *
   * @return true if there was one
   */
  public boolean rollBack() {
    if (life == Life.TENTATIVE) {
      life = Life.NONE;
      return true;
    }
    return false;
  }

  /**
   * The forward that ran the dummy was issued: it goes.
   *
   * @return true if there was one
   * @throws BerthException {@code STATE} if it is still tentative
   */
  public boolean settled() {
    if (life == Life.TENTATIVE) {
      throw new BerthException(Code.STATE, "the dummy was neither committed nor rolled back");
    }
    boolean was = life == Life.COMMITTED;
    life = Life.NONE;
    return was;
  }
}
