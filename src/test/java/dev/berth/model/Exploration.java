// SPDX-License-Identifier: Apache-2.0
package dev.berth.model;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Optional;

/**
 * All states that a {@link FleetModel} can reach, breadth first, and the ways in which it can hang:
 * no event that must come is possible although work is left, or ranks go round for ever without
 * ever refusing an event that is always possible.
 */
final class Exploration {
  /**
   * A way into a hang, as short as can be.
   *
   * @param kind what happens there
   * @param steps events from the beginning, each with the state after it
   * @param cycle events that repeat, empty if nothing moves any more
   */
  record Hang(Kind kind, List<String> steps, List<String> cycle) {
    enum Kind {
      /** Nothing can happen but a new request. */
      STANDS_STILL,
      /** Everything goes on for ever and nothing comes of it. */
      GOES_ROUND
    }

    @Override
    public String toString() {
      var text = new StringBuilder(kind + " after " + steps.size() + " events\n");
      steps.forEach(step -> text.append("  ").append(step).append('\n'));
      if (!cycle.isEmpty()) {
        text.append("and then, again and again,\n");
        cycle.forEach(step -> text.append("  ").append(step).append('\n'));
      }
      return text.toString();
    }
  }

  private static final int MOST_EVENTS = 64;

  private final FleetModel model;
  private final boolean waitsForAll;
  private final int length;

  private byte[] states = new byte[1 << 16];
  private int size;
  private int[] table = new int[1 << 12];
  private int[] parent = new int[1 << 10];
  private byte[] cause = new byte[1 << 10];

  /** Edges of state i: {@code first[i] .. first[i + 1]}. */
  private int[] first = new int[1 << 10];

  private int edges;
  private int[] to = new int[1 << 12];
  private byte[] by = new byte[1 << 12];

  /**
   * Explores.
   *
   * @param waitsForAll a fleet that waits for requests which aren't sent yet doesn't hang
   */
  Exploration(FleetModel model, boolean waitsForAll) {
    this.model = model;
    this.waitsForAll = waitsForAll;
    this.length = model.length();
    find(model.initial(), -1, -1);
    int[] events = new int[MOST_EVENTS];
    for (int i = 0; i < size; i++) {
      byte[] state = state(i);
      int n = model.enabled(state, events);
      if (i + 2 >= first.length) {
        first = Arrays.copyOf(first, first.length * 2);
      }
      first[i] = edges;
      for (int e = 0; e < n; e++) {
        int next = find(model.after(state, events[e]), i, events[e]);
        if (edges == to.length) {
          to = Arrays.copyOf(to, edges * 2);
          by = Arrays.copyOf(by, edges * 2);
        }
        to[edges] = next;
        by[edges++] = (byte) events[e];
      }
      first[i + 1] = edges;
    }
  }

  int states() {
    return size;
  }

  int transitions() {
    return edges;
  }

  private byte[] state(int index) {
    return Arrays.copyOfRange(states, index * length, (index + 1) * length);
  }

  /** The number of a state, a new one if it wasn't seen. */
  private int find(byte[] state, int from, int event) {
    if (size * 2 >= table.length) {
      rehash();
    }
    int slot = slot(state);
    while (table[slot] != 0) {
      int index = table[slot] - 1;
      if (Arrays.equals(states, index * length, (index + 1) * length, state, 0, length)) {
        return index;
      }
      slot = slot + 1 & table.length - 1;
    }
    if ((size + 1) * length > states.length) {
      states = Arrays.copyOf(states, Math.multiplyExact(states.length, 2));
    }
    if (size == parent.length) {
      parent = Arrays.copyOf(parent, size * 2);
      cause = Arrays.copyOf(cause, size * 2);
    }
    System.arraycopy(state, 0, states, size * length, length);
    parent[size] = from;
    cause[size] = (byte) event;
    table[slot] = ++size;
    return size - 1;
  }

  private int slot(byte[] state) {
    long h = 0;
    for (byte b : state) {
      h = (h ^ b) * 0x9E3779B97F4A7C15L;
      h ^= h >>> 32;
    }
    return (int) h & table.length - 1;
  }

  private void rehash() {
    table = new int[table.length * 2];
    for (int i = 0; i < size; i++) {
      int slot = slot(state(i));
      while (table[slot] != 0) {
        slot = slot + 1 & table.length - 1;
      }
      table[slot] = i + 1;
    }
  }

  // ------------------------------------------------------------------------------ hangs

  /** Whether a state leaves nothing to wish for. */
  private boolean content(byte[] state) {
    return FleetModel.done(state) || waitsForAll && !model.allSent(state);
  }

  /** The hang that takes the fewest events to reach, if there is one. */
  Optional<Hang> hang() {
    int still = Integer.MAX_VALUE;
    for (int i = 0; i < size && still == Integer.MAX_VALUE; i++) {
      if (!anyFair(i) && !content(state(i))) {
        still = i; // states are numbered in the order of their distance
      }
    }
    int round = roundabout();
    if (Math.min(still, round) == Integer.MAX_VALUE) {
      return Optional.empty();
    }
    return Optional.of(
        still <= round
            ? new Hang(Hang.Kind.STANDS_STILL, path(still), List.of())
            : new Hang(Hang.Kind.GOES_ROUND, path(round), cycle(round)));
  }

  private boolean anyFair(int state) {
    for (int e = first[state]; e < first[state + 1]; e++) {
      if (FleetModel.fair(by[e])) {
        return true;
      }
    }
    return false;
  }

  private List<String> path(int state) {
    var steps = new ArrayList<String>();
    for (int i = state; parent[i] >= 0; i = parent[i]) {
      steps.add(FleetModel.name(cause[i]) + ": " + model.describe(state(i)));
    }
    Collections.reverse(steps);
    return steps;
  }

  private int[] component = new int[0];

  /**
   * The first state from which a run can go round for ever with work left, while no event that must
   * come is refused for ever: a strongly connected component in which each such event is taken, or
   * is impossible somewhere.
   */
  private int roundabout() {
    component = components();
    int count = Arrays.stream(component).max().orElse(-1) + 1;
    int kinds = 7 * 4;
    var inside = new boolean[count];
    var content = new boolean[count];
    var members = new int[count];
    var possible = new int[count][];
    var taken = new int[count];
    for (int i = 0; i < size; i++) {
      for (int e = first[i]; e < first[i + 1]; e++) {
        if (component[to[e]] == component[i]) {
          inside[component[i]] = true;
          taken[component[i]] |= 1 << by[e];
        }
      }
    }
    for (int i = 0; i < size; i++) {
      int c = component[i];
      if (!inside[c]) {
        continue;
      }
      members[c]++;
      content[c] |= content(state(i));
      if (possible[c] == null) {
        possible[c] = new int[kinds];
      }
      for (int e = first[i]; e < first[i + 1]; e++) {
        possible[c][by[e]]++;
      }
    }
    for (int i = 0; i < size; i++) {
      int c = component[i];
      if (inside[c] && !content[c] && goesOn(possible[c], members[c], taken[c])) {
        return i;
      }
    }
    return Integer.MAX_VALUE;
  }

  private static boolean goesOn(int[] possible, int members, int taken) {
    for (int event = 0; event < possible.length; event++) {
      boolean refused = possible[event] == members && (taken >> event & 1) == 0;
      if (refused && FleetModel.fair(event)) {
        return false;
      }
    }
    return true;
  }

  /** Strongly connected components, by Tarjan's algorithm without recursion. */
  private int[] components() {
    int[] number = new int[size];
    int[] low = new int[size];
    int[] result = new int[size];
    Arrays.fill(result, -1);
    int[] edge = Arrays.copyOf(first, size);
    int[] path = new int[size];
    int[] open = new int[size];
    int opened = 0;
    int numbered = 0;
    int found = 0;
    for (int root = 0; root < size; root++) {
      if (number[root] != 0) {
        continue;
      }
      int depth = 0;
      path[0] = root;
      number[root] = low[root] = ++numbered;
      open[opened++] = root;
      while (depth >= 0) {
        int at = path[depth];
        if (edge[at] < first[at + 1]) {
          int next = to[edge[at]++];
          if (number[next] == 0) {
            number[next] = low[next] = ++numbered;
            open[opened++] = next;
            path[++depth] = next;
          } else if (result[next] < 0) {
            low[at] = Math.min(low[at], number[next]);
          }
          continue;
        }
        if (low[at] == number[at]) {
          do {
            result[open[--opened]] = found;
          } while (open[opened] != at);
          found++;
        }
        depth--;
        if (depth >= 0) {
          low[path[depth]] = Math.min(low[path[depth]], low[at]);
        }
      }
    }
    return result;
  }

  /** The shortest way from a state back to it inside its component. */
  private List<String> cycle(int start) {
    int[] from = new int[size];
    int[] how = new int[size];
    Arrays.fill(from, -1);
    int[] queue = new int[size];
    int tail = 0;
    queue[tail++] = start;
    for (int head = 0; head < tail; head++) {
      int at = queue[head];
      for (int e = first[at]; e < first[at + 1]; e++) {
        int next = to[e];
        if (component[next] != component[start] || from[next] >= 0) {
          continue;
        }
        from[next] = at;
        how[next] = by[e];
        if (next == start) {
          return way(start, from, how);
        }
        queue[tail++] = next;
      }
    }
    throw new AssertionError("a component without a way round");
  }

  private static List<String> way(int start, int[] from, int[] how) {
    var steps = new ArrayList<String>();
    int at = start;
    do {
      steps.add(FleetModel.name(how[at]));
      at = from[at];
    } while (at != start);
    Collections.reverse(steps);
    return steps;
  }
}
