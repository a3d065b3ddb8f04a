// SPDX-License-Identifier: Apache-2.0
package dev.berth;

/**
 * Misuse of the library, or a library that cannot work here. Exhaustion is never reported this way:
 * it is a typed result of the call.
 */
public class BerthException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** What went wrong, stable across releases. */
  public enum Code {
    /** An argument outside its documented range. */
    ARGUMENT,
    /** The id already holds a slot. */
    ALREADY,
    /** The id or handle is unknown, or was released before. */
    NOT_FOUND,
    /** The handle's generation has passed: its slot belongs to somebody else by now. */
    STALE,
    /** The object was closed. */
    CLOSED,
    /** The call is not legal in the object's present state. */
    STATE,
    /** The native allocator refused. */
    MEMORY,
    /** The native library could not be found, loaded or trusted. */
    UNAVAILABLE,
    /** A configuration that cannot work. */
    CONFIGURATION,
    /** Ranks disagree about a decision that every rank must make alike. */
    DIVERGED,
    /** Requests wait for what can't come, or didn't within its bound; the message says who. */
    STALLED,
    /** A policy of the caller's own failed, or decided what can't be. The cause says what. */
    POLICY,
    /** A state that the library's own rules exclude. Please report it. */
    INTERNAL
  }

  private final Code code;

  public BerthException(Code code, String message) {
    super(message);
    this.code = code;
  }

  public BerthException(Code code, String message, Throwable cause) {
    super(message, cause);
    this.code = code;
  }

  /** The stable reason. */
  public final Code code() {
    return code;
  }
}
