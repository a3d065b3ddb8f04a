// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.engine.RankEngine;
import dev.berth.request.RequestTable;

/**
 * What the pools of a rank say is taken, and what its rows say they hold; whatever is taken beyond
 * that is held by nobody and never comes back.
 */
record Holdings(
    long seatsTaken,
    long seatsHeld,
    long leasesTaken,
    long leasesHeld,
    long pagesTaken,
    long pagesHeld) {
  /** As of the last settle, or of a later admission: rows may hold more by now, never less. */
  static Holdings of(RankEngine engine) {
    RequestTable table = engine.table();
    long seats = 0;
    long leases = 0;
    long pages = 0;
    int padding = table.rows() - 1;
    for (int row = 0; row < padding; row++) {
      seats += table.seat(row) >= 0 ? 1 : 0;
      leases += table.lease(row) >= 0 ? 1 : 0;
      pages += table.pages(row);
    }
    return new Holdings(
        engine.seatsUsed(), seats, engine.leasesUsed(), leases, engine.pagesUsed(), pages);
  }

  /** Seats, leases and pages that no row holds. */
  long leaked() {
    return Math.max(0, seatsTaken - seatsHeld)
        + Math.max(0, leasesTaken - leasesHeld)
        + Math.max(0, pagesTaken - pagesHeld);
  }
}
