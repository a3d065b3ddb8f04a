// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Which rank each conversation is bound to, the least recently used forgotten first. Open
 * addressing over entries that are chained in the order of use: binding, finding and forgetting
 * take constant time, and nothing is allocated once it has grown to its bound.
 */
final class ConversationHomes {
  static final int NONE = -1;

  private static final int INITIAL = 16;

  private final int most;

  private @Nullable String[] keys = new @Nullable String[INITIAL];
  private long[] hashes = new long[INITIAL];
  private int[] ranks = new int[INITIAL];
  private int[] older = new int[INITIAL];
  private int[] newer = new int[INITIAL];

  /** Entry of each place of the table, {@link #NONE} if it is free; at most half are taken. */
  private int[] table = filled(2 * INITIAL);

  private int size;
  private int oldest = NONE;
  private int newest = NONE;

  ConversationHomes(int most) {
    this.most = most;
  }

  private static int[] filled(int length) {
    int[] table = new int[length];
    Arrays.fill(table, NONE);
    return table;
  }

  int size() {
    return size;
  }

  /** The entry of a conversation, {@link #NONE} if it has no home. */
  int find(String key) {
    long hash = hash(key);
    int mask = table.length - 1;
    for (int at = place(hash); table[at] != NONE; at = at + 1 & mask) {
      int entry = table[at];
      if (hashes[entry] == hash && key.equals(keys[entry])) {
        return entry;
      }
    }
    return NONE;
  }

  /** The rank of an entry. */
  int rank(int entry) {
    return ranks[entry];
  }

  /** Moves an entry's conversation. It becomes the most recently used. */
  void rebind(int entry, int rank) {
    ranks[entry] = rank;
    touch(entry);
  }

  /** Makes an entry the most recently used. */
  void touch(int entry) {
    if (entry != newest) {
      unchain(entry);
      chain(entry);
    }
  }

  /** Binds a conversation that has no home; the least recently used one makes room if need be. */
  void bind(String key, int rank) {
    int entry;
    if (size == most) {
      entry = oldest;
      free(placeOf(entry));
      unchain(entry);
    } else {
      if (size == keys.length) {
        grow();
      }
      entry = size++;
    }
    keys[entry] = key;
    hashes[entry] = hash(key);
    ranks[entry] = rank;
    enter(entry);
    chain(entry);
  }

  /** Conversations and ranks, least recently used first. */
  List<Map.Entry<String, Integer>> inOrderOfUse() {
    var list = new ArrayList<Map.Entry<String, Integer>>(size);
    for (int entry = oldest; entry != NONE; entry = newer[entry]) {
      String key = keys[entry];
      list.add(Map.entry(key == null ? "" : key, ranks[entry]));
    }
    return list;
  }

  /** Mixed by every character: ids that a client chooses to collide as text don't collide here. */
  private static long hash(String key) {
    long hash = key.length();
    for (int i = 0; i < key.length(); i++) {
      hash = (hash ^ key.charAt(i)) * 0x9E3779B97F4A7C15L;
      hash ^= hash >>> 29;
    }
    return hash;
  }

  private int place(long hash) {
    return (int) (hash ^ hash >>> 32) & table.length - 1;
  }

  private void enter(int entry) {
    int mask = table.length - 1;
    int at = place(hashes[entry]);
    while (table[at] != NONE) {
      at = at + 1 & mask;
    }
    table[at] = entry;
  }

  private int placeOf(int entry) {
    int mask = table.length - 1;
    int at = place(hashes[entry]);
    while (table[at] != entry) {
      at = at + 1 & mask;
    }
    return at;
  }

  /** Frees a place and moves up what would no longer be found behind it. */
  private void free(int freed) {
    int mask = table.length - 1;
    int hole = freed;
    for (int at = hole + 1 & mask; table[at] != NONE; at = at + 1 & mask) {
      int home = place(hashes[table[at]]);
      if ((at - home & mask) >= (at - hole & mask)) {
        table[hole] = table[at];
        hole = at;
      }
    }
    table[hole] = NONE;
  }

  private void chain(int entry) {
    older[entry] = newest;
    newer[entry] = NONE;
    if (newest == NONE) {
      oldest = entry;
    } else {
      newer[newest] = entry;
    }
    newest = entry;
  }

  private void unchain(int entry) {
    int before = older[entry];
    int after = newer[entry];
    if (before == NONE) {
      oldest = after;
    } else {
      newer[before] = after;
    }
    if (after == NONE) {
      newest = before;
    } else {
      older[after] = before;
    }
  }

  private void grow() {
    int capacity = (int) Math.min(2L * keys.length, most);
    keys = Arrays.copyOf(keys, capacity);
    hashes = Arrays.copyOf(hashes, capacity);
    ranks = Arrays.copyOf(ranks, capacity);
    older = Arrays.copyOf(older, capacity);
    newer = Arrays.copyOf(newer, capacity);
    table = filled(2 * Integer.highestOneBit(capacity - 1) * 2);
    for (int entry = 0; entry < size; entry++) {
      enter(entry);
    }
  }
}
