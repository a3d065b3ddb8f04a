// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import java.util.List;

/**
 * Sizes of a {@link SchedulingTable}, fixed for its life.
 *
 * @param rows requests that it can hold, 1 .. 2^20
 * @param pools pools of pages, self before cross, 16 at most; none: requests are only counted
 * @param adapters LoRA adapters, numbered from 0
 * @param heldPagesPerRow named pages that a request can hold in one pool
 * @param snapshotPointsPerRow snapshot points of a request, for {@link Chunking#FORCE_CHUNK}
 */
public record TableShape(
    int rows, List<Pool> pools, int adapters, int heldPagesPerRow, int snapshotPointsPerRow) {
  public TableShape {
    pools = List.copyOf(pools);
  }

  /** A table whose pages are only counted, without adapters and snapshot points. */
  public static TableShape of(int rows, Pool... pools) {
    return new TableShape(rows, List.of(pools), 0, 0, 0);
  }

  /** The same with so many adapters. */
  public TableShape withAdapters(int count) {
    return new TableShape(rows, pools, count, heldPagesPerRow, snapshotPointsPerRow);
  }

  /** The same with so many named pages a request and pool. */
  public TableShape withHeldPages(int perRow) {
    return new TableShape(rows, pools, adapters, perRow, snapshotPointsPerRow);
  }

  /** The same with so many snapshot points a request. */
  public TableShape withSnapshotPoints(int perRow) {
    return new TableShape(rows, pools, adapters, heldPagesPerRow, perRow);
  }
}
