// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.internal.NativeTable;
import dev.berth.internal.NativeTable.Rows;
import dev.berth.request.WaitReason;

/**
 * What runs in this iteration: encoders, contexts and generations, each sorted by adapter (spec 02 §6.6). A view over the
 * scheduler's memory, overwritten by the next call.
 */
public final class MicroBatch {
  private final NativeTable table;

  MicroBatch(NativeTable table) {
    this.table = table;
  }

  /** Encoder requests. */
  public int encoders() {
    return table.count(Rows.ENCODERS);
  }

  /** The row of one of them. */
  public int encoder(int place) {
    return table.at(Rows.ENCODERS, place);
  }

  /** Contexts. */
  public int contexts() {
    return table.contexts();
  }

  /** The row of one of them. */
  public int contextRow(int place) {
    return table.contextRow(place);
  }

  /** Its prompt tokens in this batch, those found in the cache included. */
  public int contextTokens(int place) {
    return table.contextTokens(place);
  }

  /** Position of the first of them in the prompt. */
  public int contextPosition(int place) {
    return table.contextPosition(place);
  }

  /** Draft tokens that stay on it: chunking may have discarded some for good. */
  public int contextDrafts(int place) {
    return table.contextDrafts(place);
  }

  /** Generations. */
  public int generations() {
    return table.count(Rows.GENERATIONS);
  }

  /** The row of one of them. */
  public int generation(int place) {
    return table.at(Rows.GENERATIONS, place);
  }

  /** Copies their rows; {@code to} must have room for {@link #generations()}. Returns how many. */
  public int generations(int[] to) {
    return table.copy(Rows.GENERATIONS, to);
  }

  /** Requests of the batch. */
  public int size() {
    return encoders() + contexts() + generations();
  }

  /** Tokens to compute. Drafts of chunked contexts aren't among them. */
  public long tokens() {
    return table.batchTokens();
  }

  /** Requests that wait, for a reason. */
  public int deferred(WaitReason reason) {
    return table.deferred(reason.ordinal());
  }
}
