// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

/** Arrivals that honour the times of a trace. */
public interface TimedArrivals extends Arrivals {
  /** When a sent request arrived, virtual µs. */
  double arrivedAt(int tag);
}
