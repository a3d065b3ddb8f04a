// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.ffi.berth_cold_row;
import dev.berth.ffi.berth_row;
import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * Read view of a rank's live requests: one hot row of 64 bytes (all that scheduling reads) and one
 * cold row of 64 bytes each, in memory that the native core owns. Row numbers are stable from
 * admission to teardown.
 */
public final class RequestTable {
  private final MemorySegment rows;
  private final MemorySegment cold;
  private final int count;

  /**
   * A view over the core's memory.
   *
   * @param rows {@code berth_row[n]}
   * @param cold {@code berth_cold_row[n]}
   */
  public RequestTable(MemorySegment rows, MemorySegment cold) {
    this.rows = rows;
    this.cold = cold;
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

  /** Prompt length in tokens. */
  public int promptTokens(int row) {
    return berth_row.prompt_tokens(row(row));
  }

  /** Output tokens whose result is settled. */
  public int generatedTokens(int row) {
    return berth_row.generated_tokens(row(row));
  }

  /** Output limit in tokens. */
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

  /** KV pages held. */
  public int pages(int row) {
    return berth_cold_row.pages(cold(row));
  }

  /** Why the row was not scheduled in the last iteration. */
  public WaitReason waitReason(int row) {
    return WaitReason.of(berth_row.wait_reason(row(row)) & 0xff);
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
