// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

/** Tells a subscriber of a {@link TokenStream} that its sequence didn't run to its end. */
public final class RequestEndedException extends RuntimeException {
  private static final long serialVersionUID = 1L;
  private final transient Ending ending;

  RequestEndedException(long id, Ending ending) {
    super("request " + id + ": " + ending);
    this.ending = ending;
  }

  /** How it ended. */
  public Ending ending() {
    return ending;
  }
}
