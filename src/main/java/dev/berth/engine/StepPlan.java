// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * What an engine wants to be run in one iteration. Belongs to the engine, reused by the next step:
 * valid until its result is committed.
 */
public final class StepPlan {
  private final List<BatchView> launches = new ArrayList<>();
  private final List<BatchView> dues = new ArrayList<>();
  private final List<BatchView> launchView = Collections.unmodifiableList(launches);
  private final List<BatchView> dueView = Collections.unmodifiableList(dues);
  private final StepResult result;
  private boolean idle;

  StepPlan(StepResult result) {
    this.result = result;
  }

  void begin(boolean nothing) {
    launches.clear();
    dues.clear();
    idle = nothing;
  }

  void launch(BatchView batch) {
    launches.add(batch);
  }

  void due(BatchView batch) {
    dues.add(batch);
  }

  /** Nothing lives and nothing waits: there is nothing to run and nothing to commit. */
  public boolean idle() {
    return idle;
  }

  /** Batches to be launched, at most one of each rank and stage, first stages first. */
  public List<BatchView> launches() {
    return launchView;
  }

  /**
   * Batches whose results the commit needs, of this iteration or (with overlap) launched in an
   * earlier one; at most one of each rank and stage.
   */
  public List<BatchView> dues() {
    return dueView;
  }

  /** Where their results go. */
  public StepResult result() {
    return result;
  }
}
