// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

/**
 * A device says that a rank's batch came to nothing: its forward can't be started, or its results
 * are lost. The requests of the batch fail; the group goes on.
 */
public final class BrokenBatchException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** With what broke it. */
  public BrokenBatchException(String message, Throwable cause) {
    super(message, cause);
  }

  /** With what broke it, in words. */
  public BrokenBatchException(String message) {
    super(message);
  }
}
