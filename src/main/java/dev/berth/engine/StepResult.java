// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.util.Arrays;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * What came of a {@link StepPlan}. With several stages, of every stage of a rank alike. Belongs to
 * the engine, reused by the next step.
 */
public final class StepResult {
  private static final byte END = 1;
  private static final byte FAIL = 2;

  private final EngineConfig config;
  private final byte[][] words; // by frame and position
  private final @Nullable BrokenBatchException[] unlaunched;
  private final @Nullable BrokenBatchException[] lost;
  private final LockstepGroup.Device device = new Said();
  private boolean open;

  StepResult(EngineConfig config, int positions) {
    this.config = config;
    int world = config.ranks() * config.stages();
    words = new byte[world][positions];
    unlaunched = new @Nullable BrokenBatchException[world];
    lost = new @Nullable BrokenBatchException[world];
  }

  /** A new plan is out. */
  void begin(StepPlan plan) {
    open = true;
    for (int i = 0; i < plan.dues().size(); i++) {
      BatchView due = plan.dues().get(i);
      Arrays.fill(words[frame(due)], 0, due.size(), (byte) 0);
    }
  }

  void close() {
    open = false;
    Arrays.fill(unlaunched, null);
    Arrays.fill(lost, null);
  }

  private int frame(BatchView batch) {
    return batch.stage() * config.ranks() + batch.rank();
  }

  private int frame(RankEngine engine) {
    return engine.stage() * config.ranks() + engine.rank();
  }

  private void require(BatchView batch, int position) {
    if (!open) {
      throw new BerthException(Code.STATE, "no plan is out: its result was committed");
    }
    Objects.checkIndex(position, batch.size());
  }

  /**
   * The token that a position of a due batch made. Without it the engine counts a token that it
   * doesn't know.
   *
   * @param token 0 or more
   * @throws BerthException ARGUMENT for a negative token, STATE if no plan is out
   */
  public void token(BatchView batch, int position, int token) {
    require(batch, position);
    batch.results().token(position, token);
  }

  /** The sequence at a position of a due batch ends with the token that it made. */
  public void end(BatchView batch, int position) {
    require(batch, position);
    words[frame(batch)][position] |= END;
  }

  /** The sequence at a position of a due batch fails, without a token. */
  public void fail(BatchView batch, int position) {
    require(batch, position);
    words[frame(batch)][position] |= FAIL;
  }

  /** A batch could not be launched: its requests fail, the others go on. */
  public void notLaunched(BatchView batch, Throwable cause) {
    require(batch, 0);
    unlaunched[frame(batch)] = new BrokenBatchException("couldn't be launched: " + cause, cause);
  }

  /** The results of a due batch are lost: its requests fail, the others go on. */
  public void lost(BatchView batch, Throwable cause) {
    require(batch, 0);
    lost[frame(batch)] = new BrokenBatchException("was lost: " + cause, cause);
  }

  /** What was said, as a device says it. */
  LockstepGroup.Device device() {
    return device;
  }

  private final class Said implements LockstepGroup.Device {
    @Override
    public void launch(RankEngine engine, Batch batch) {
      BrokenBatchException broken = unlaunched[frame(engine)];
      if (broken != null) {
        throw broken;
      }
    }

    @Override
    public void collect(RankEngine engine, Batch batch) {
      BrokenBatchException broken = lost[frame(engine)];
      if (broken != null) {
        throw broken;
      }
      byte[] said = words[frame(engine)];
      for (int position = 0; position < batch.size(); position++) {
        if ((said[position] & FAIL) != 0) {
          batch.fail(position);
        } else if ((said[position] & END) != 0) {
          batch.stop(position);
        }
      }
    }
  }
}
