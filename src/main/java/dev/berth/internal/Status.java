// SPDX-License-Identifier: Apache-2.0
package dev.berth.internal;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.ffi.BerthNative;

/** Maps the status of a native call to what Java callers see. */
public final class Status {
  private Status() {}

  /** Returns quietly on OK, throws the typed exception of any other status. */
  public static void check(int status, String what) {
    if (status != BerthNative.BERTH_OK()) {
      throw exception(status, what);
    }
  }

  /** The exception of a status that isn't OK. */
  public static BerthException exception(int status, String what) {
    return new BerthException(
        code(status), what + ": " + text(status) + " (status " + status + ")");
  }

  private static String text(int status) {
    return BerthNative.berth_status_text(status).reinterpret(256).getString(0);
  }

  private static Code code(int status) {
    if (status == BerthNative.BERTH_E_ARGUMENT()) {
      return Code.ARGUMENT;
    } else if (status == BerthNative.BERTH_E_ALREADY()) {
      return Code.ALREADY;
    } else if (status == BerthNative.BERTH_E_NOT_FOUND()) {
      return Code.NOT_FOUND;
    } else if (status == BerthNative.BERTH_E_STALE()) {
      return Code.STALE;
    } else if (status == BerthNative.BERTH_E_MEMORY()) {
      return Code.MEMORY;
    } else if (status == BerthNative.BERTH_E_STATE()) {
      return Code.STATE;
    } else {
      return Code.INTERNAL;
    }
  }
}
