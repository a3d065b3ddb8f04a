// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.route.RankState;

/** What the two collectives of an iteration carry behind the frame's header. */
final class Payload {
  /** Collective A: the rank state, then what gates need. */
  static final int GATHER_WORDS = RankState.WORDS + 6;

  /** 1 if no request of the rank is before, in or after a failed transfer. */
  static final int FILL_OK = RankState.WORDS;

  /** Requests whose KV arrived since the last gather. */
  static final int FILL_PROGRESS = RankState.WORDS + 1;

  /** Generation requests whose KV is here. */
  static final int FILL_RESIDENT = RankState.WORDS + 2;

  /** Requests whose KV hasn't been asked for. */
  static final int FILL_INIT = RankState.WORDS + 3;

  /** Requests whose KV is on the way. */
  static final int FILL_TRANSFER = RankState.WORDS + 4;

  /** {@link #FILLING} and {@link #WARMING_UP}, as the rank has it. */
  static final int FILL_FLAGS = RankState.WORDS + 5;

  static final int FILLING = 1;

  static final int WARMING_UP = 2;

  /** Collective B. */
  static final int VOTE_WORDS = 8;

  /** Batch positions in use, the dummy's included. */
  static final int BATCH = 0;

  /** Contexts, and a context's dummy: as scheduled, before contexts are held. */
  static final int CONTEXTS = 1;

  /** Generations, and a generation's dummy, but for one that an empty batch got. */
  static final int GENERATIONS = 2;

  static final int REAL_GENERATIONS = 3;

  static final int TOKENS = 4;

  /** Hash of who was admitted where: alike on all ranks of a stage. */
  static final int ADMISSION = 5;

  /** 1 if requests of the rank wait for KV that nothing there will make room for. */
  static final int STUCK = 7;

  /** Of the tokens, those of requests' contexts: they leave with contexts that are held. */
  static final int CONTEXT_TOKENS = 6;

  private Payload() {}
}
