// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

/**
 * Where a request is in its life. The numeric order is a contract: "has reached X" is {@code value
 * >= X}, and a range of schedulable states is two numbers.
 *
 * <p>Source: spec 01 §1.
 */
public enum RequestState {
  TRANSFER_ERROR(-1),
  UNKNOWN(0),
  ENCODER_INIT(1),
  CONTEXT_WAIT_SCHEDULER(7),
  GENERATION_INIT(8),
  GENERATION_TRANSFER(9),
  CONTEXT_INIT(10),
  CONTEXT_INIT_AND_TRANSFER(11),
  GENERATION_TRANSFER_COMPLETE(12),
  GENERATION(13),
  /** Last forward launched, teardown in the next iteration: resident, not schedulable. */
  RETIRING(14),
  COMPLETE(20),
  CONTEXT_TRANSFER(21),
  CONTEXT_COMPLETE(22),
  WAIT_TOKENS(23);

  private static final RequestState[] BY_VALUE = new RequestState[25];

  static {
    for (RequestState state : values()) {
      BY_VALUE[state.value + 1] = state;
    }
  }

  private final int value;

  RequestState(int value) {
    this.value = value;
  }

  /** The wire value, -1 .. 23. */
  public int value() {
    return value;
  }

  /**
   * The state of a wire value.
   *
   * @throws IllegalArgumentException if no state has that value
   */
  public static RequestState of(int value) {
    RequestState state = value < -1 || value > 23 ? null : BY_VALUE[value + 1];
    if (state == null) {
      throw new IllegalArgumentException("no request state has the value " + value);
    }
    return state;
  }
}
