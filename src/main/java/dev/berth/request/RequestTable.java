// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.ffi.berth_cold_row;
import dev.berth.ffi.berth_row;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Objects;

/**
 * Read view of a rank's live requests: one hot row of 64 bytes (all that scheduling reads) and one
 * cold row of 64 bytes each, in memory that the native core owns. Row numbers are stable from
 * admission to teardown.
 */
public final class RequestTable {
  private final MemorySegment rows;
  private final MemorySegment cold;
  private final MemorySegment tokens;
  private final int count;

  /**
   * A view over the core's memory.
   *
   * @param rows {@code berth_row[n]}
   * @param cold {@code berth_cold_row[n]}
   * @param tokens {@code int32[n - 1][stride]}; empty if nobody has tokens
   */
  public RequestTable(MemorySegment rows, MemorySegment cold, MemorySegment tokens) {
    this.rows = rows;
    this.cold = cold;
    this.tokens = tokens;
    this.count = (int) (rows.byteSize() / berth_row.sizeof());
  }

  /** Rows, live or not, the padding request's included (it is the last one). */
  public int rows() {
    return count;
  }

  private MemorySegment row(int index) {
    return berth_row.asSlice(open(rows), Objects.checkIndex(index, count));
  }

  private MemorySegment cold(int index) {
    return berth_cold_row.asSlice(open(cold), Objects.checkIndex(index, count));
  }

  private static MemorySegment open(MemorySegment memory) {
    if (!memory.scope().isAlive()) {
      throw new BerthException(Code.CLOSED, "the engine of this table was closed");
    }
    return memory;
  }

  /** Request id of a row. */
  public long id(int row) {
    return berth_row.request_id(row(row));
  }

  /** State of a row. */
  public RequestState state(int row) {
    return RequestState.of(berth_row.state(row(row)));
  }

  /**
   * The token at a place of a row's sequence, prompt and output one after another. Of use up to
   * what is known: the prompt if its tokens came with it, and what was reported as sampled.
   *
   * @throws BerthException STATE if nobody has tokens
   */
  public int token(int row, int place) {
    if (tokens.byteSize() == 0) {
      throw new BerthException(Code.STATE, "this engine counts tokens, it doesn't keep them");
    }
    long stride = open(tokens).byteSize() / Integer.BYTES / (count - 1);
    long at = Objects.checkIndex(row, count - 1) * stride + Objects.checkIndex(place, stride);
    return tokens.getAtIndex(ValueLayout.JAVA_INT, at);
  }

  /** Prompt tokens that were found in the KV cache when the row got its pages. */
  public int cachedTokens(int row) {
    return berth_row.cached_tokens(row(row));
  }

  /** Output tokens that became part of the prompt when the row gave way. */
  public int pausedTokens(int row) {
    return berth_cold_row.paused_tokens(cold(row));
  }

  /** How often the row gave way. */
  public int pauses(int row) {
    return berth_cold_row.pauses(cold(row));
  }

  /** All output tokens whose result is settled. */
  public int outputTokens(int row) {
    return pausedTokens(row) + generatedTokens(row);
  }

  /** Prompt length in tokens; what a row that gave way had made by then is part of it. */
  public int promptTokens(int row) {
    return berth_row.prompt_tokens(row(row));
  }

  /** Output tokens whose result is settled, since the row last gave way. */
  public int generatedTokens(int row) {
    return berth_row.generated_tokens(row(row));
  }

  /** Which further sequence of its request it is: 1, 2 ...; 0 for the first one. */
  public int child(int row) {
    return Math.max(0, -berth_cold_row.children(cold(row)));
  }

  /** Output limit in tokens, of those to come since the row last gave way. */
  public int maxNewTokens(int row) {
    return berth_row.max_new_tokens(row(row));
  }

  /** Seat index, or -1. */
  public int seat(int row) {
    return berth_row.seat(row(row));
  }

  /** Lease index, or -1. */
  public int lease(int row) {
    return berth_row.lease(row(row));
  }

  /** KV pages held or promised, of all pools. */
  public int pages(int row) {
    return berth_cold_row.pages(cold(row));
  }

  /** Why the row was not scheduled in the last iteration. */
  public WaitReason waitReason(int row) {
    return WaitReason.of(berth_row.wait_reason(row(row)) & 0xff);
  }

  /** Number of the row's admission on its rank, never that of another one; 0: it never had one. */
  public long admission(int row) {
    return berth_cold_row.admission(cold(row));
  }

  /** The caller's own number. */
  public long tag(int row) {
    return berth_cold_row.tag(cold(row));
  }

  /** Iterations in which the row lacked a seat, a lease or pages. */
  public int deferrals(int row) {
    return berth_cold_row.deferrals(cold(row));
  }
}
