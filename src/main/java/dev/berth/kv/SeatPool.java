// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import dev.berth.id.Seat;
import dev.berth.plan.KeyedBy;
import dev.berth.plan.RegisteredPool;
import dev.berth.plan.Seats;
import java.util.List;

/**
 * The seats of one rank: who holds which row of everything keyed by a live, schedulable sequence.
 */
public final class SeatPool extends SlotPool<Seat> {
  private SeatPool(Seats seats, int reserved, Quarantine quarantine) {
    super("seat pool", seats.count(), reserved, quarantine);
  }

  /**
   * A pool whose seats are reusable as soon as they are released, with none reserved.
   *
   * @throws dev.berth.BerthException ARGUMENT beyond 2^20 seats, MEMORY, UNAVAILABLE
   */
  public static SeatPool create(Seats seats) {
    return new SeatPool(seats, 0, Quarantine.OFF);
  }

  /**
   * A pool.
   *
   * @param reserved seats behind the plan's, for padding requests, 0 to 2^20
   * @throws dev.berth.BerthException ARGUMENT beyond 2^20 seats, MEMORY, UNAVAILABLE
   */
  public static SeatPool create(Seats seats, int reserved, Quarantine quarantine) {
    return new SeatPool(seats, reserved, quarantine);
  }

  @Override
  public List<RegisteredPool> registered() {
    return List.of(RegisteredPool.of("seat pool", KeyedBy.SEAT, usage().capacity()));
  }

  @Override
  Seat slot(int index) {
    return new Seat(index);
  }

  @Override
  String message(SlotUsage usage) {
    return "no free seat: " + usage.describe();
  }
}
