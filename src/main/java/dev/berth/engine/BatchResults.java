// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import java.lang.foreign.MemorySegment;

/**
 * What came of a batch, said position by position while it is collected; on every stage of a rank
 * alike. Valid during the call that it is given to.
 */
public final class BatchResults {
  private final BatchView view;

  BatchResults(BatchView view) {
    this.view = view;
  }

  /**
   * The token that a position made. Without it the engine counts a token that it doesn't know:
   * readers don't get it, and nothing computed from then on can be found again.
   *
   * @param token 0 or more
   * @throws BerthException ARGUMENT for a negative token
   */
  public void token(int position, int token) {
    view.batch().sampled(position, token);
  }

  /**
   * The tokens that all positions made, {@code int32[size]}: 0 or more, -1 where none was made or
   * nobody knows it. As {@link #token} for each of them, in one copy.
   *
   * @throws BerthException ARGUMENT for another size or a token below -1; nothing was said then
   */
  public void tokens(MemorySegment all) {
    view.batch().sampled(all);
  }

  /** The sequence at a position ends with the token that it made. */
  public void end(int position) {
    view.batch().stop(position);
  }

  /** The sequence at a position fails, without a token; the others of the batch go on. */
  public void fail(int position) {
    view.batch().fail(position);
  }
}
