// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import java.util.ArrayList;
import java.util.List;

/**
 * Which faults struck while requests were where, under which settings: a cell for every triple,
 * counting worlds. What can't be is known beforehand ({@link #possible}); any other cell that stays
 * empty is a gap. Not thread-safe.
 */
public final class Coverage {
  private static final Seen[] STATES = Seen.values();
  private static final Fault[] FAULTS = Fault.values();
  private static final Setting[] SETTINGS = Setting.values();

  private final long[] cells = new long[STATES.length * FAULTS.length * SETTINGS.length];

  /** Nothing seen yet. */
  Coverage() {}

  private static int cell(Seen state, Fault fault, Setting setting) {
    return (state.ordinal() * FAULTS.length + fault.ordinal()) * SETTINGS.length
        + setting.ordinal();
  }

  /** Adds a world. */
  void add(WorldPlan world, WorldResult result) {
    for (Setting setting : SETTINGS) {
      if (setting.of(world)) {
        add(setting, result.struck());
      }
    }
  }

  private void add(Setting setting, int[] struck) {
    for (Fault fault : FAULTS) {
      int seen = struck[fault.ordinal()];
      for (int left = seen; left != 0; left &= left - 1) {
        cells[cell(STATES[Integer.numberOfTrailingZeros(left)], fault, setting)]++;
      }
    }
  }

  /** Adds what another one counted. */
  void merge(Coverage other) {
    for (int i = 0; i < cells.length; i++) {
      cells[i] += other.cells[i];
    }
  }

  /** Worlds with a setting in which a fault struck while a request was there. */
  public long worlds(Seen state, Fault fault, Setting setting) {
    return cells[cell(state, fault, setting)];
  }

  /**
   * The fewest worlds of a setting that is possible, over all settings; the number of the table.
   */
  public long fewest(Seen state, Fault fault) {
    long fewest = Long.MAX_VALUE;
    for (Setting setting : SETTINGS) {
      if (possible(state, fault, setting)) {
        fewest = Math.min(fewest, worlds(state, fault, setting));
      }
    }
    return fewest == Long.MAX_VALUE ? 0 : fewest;
  }

  /** Can there be such a cell? */
  public static boolean possible(Seen state, Fault fault, Setting setting) {
    return Possible.cell(state, fault, setting);
  }

  /** Cells that can be. */
  public static int size() {
    int n = 0;
    for (Seen state : STATES) {
      for (Fault fault : FAULTS) {
        for (Setting setting : SETTINGS) {
          n += possible(state, fault, setting) ? 1 : 0;
        }
      }
    }
    return n;
  }

  /** Names of the cells that can be and in which nothing was seen. */
  public List<String> gaps() {
    var gaps = new ArrayList<String>();
    for (Seen state : STATES) {
      for (Fault fault : FAULTS) {
        for (Setting setting : SETTINGS) {
          if (possible(state, fault, setting) && worlds(state, fault, setting) == 0) {
            gaps.add("%s × %s × %s".formatted(state.word(), fault.word(), setting.word()));
          }
        }
      }
    }
    return gaps;
  }

  /** Names of the cells that were thought impossible and in which something was seen. */
  public List<String> surprises() {
    var surprises = new ArrayList<String>();
    for (Seen state : STATES) {
      for (Fault fault : FAULTS) {
        for (Setting setting : SETTINGS) {
          if (!possible(state, fault, setting)
              && !Possible.seldom(state, fault, setting)
              && worlds(state, fault, setting) != 0) {
            surprises.add("%s × %s × %s".formatted(state.word(), fault.word(), setting.word()));
          }
        }
      }
    }
    return surprises;
  }
}
