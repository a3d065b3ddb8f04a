// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * The prefix index as one would draw it on a board: a node a block, found by all the tokens up to
 * its end; the one unused for longest goes first. It counts pages too: what isn't in the index is
 * held.
 */
final class NaiveKvIndex {
  private record Key(KvScope scope, List<Integer> tokens) {}

  private static final class Node {
    int references;
    long stamp;
  }

  private final int tokensPerBlock;
  private final Map<Key, Node> nodes = new HashMap<>();
  private long clock;
  private int free;

  NaiveKvIndex(int tokensPerBlock, int pages) {
    this.tokensPerBlock = tokensPerBlock;
    this.free = pages;
  }

  private Key key(KvScope scope, int[] tokens, int blocks) {
    List<Integer> prefix = new ArrayList<>();
    for (int i = 0; i < blocks * tokensPerBlock; i++) {
      prefix.add(tokens[i]);
    }
    return new Key(scope, prefix);
  }

  /** Blocks found of all but the last token. */
  int match(KvScope scope, int[] tokens) {
    int blocks = 0;
    while ((blocks + 1) * tokensPerBlock < tokens.length
        && nodes.containsKey(key(scope, tokens, blocks + 1))) {
      blocks++;
    }
    return blocks;
  }

  private Node node(KvScope scope, int[] tokens, int blocks) {
    return Objects.requireNonNull(nodes.get(key(scope, tokens, blocks)));
  }

  void pin(KvScope scope, int[] tokens, int blocks) {
    for (int b = 1; b <= blocks; b++) {
      node(scope, tokens, b).references++;
    }
  }

  /** From the end: what builds on a block goes before it. */
  void unpin(KvScope scope, int[] tokens, int blocks) {
    for (int b = blocks; b >= 1; b--) {
      Node node = node(scope, tokens, b);
      if (--node.references == 0) {
        node.stamp = ++clock;
      }
    }
  }

  /**
   * Block number block is committed: it is new, or its page comes back and the other's is shared.
   */
  void commit(KvScope scope, int[] tokens, int block) {
    Node node = nodes.get(key(scope, tokens, block));
    if (node == null) {
      nodes.put(key(scope, tokens, block), node = new Node());
    } else {
      free++;
    }
    node.references++;
  }

  boolean take(int pages) {
    if (free + evictable() < pages) {
      return false;
    }
    free -= pages;
    while (free < 0) {
      nodes.entrySet().stream()
          .filter(n -> n.getValue().references == 0)
          .min((a, b) -> Long.compare(a.getValue().stamp, b.getValue().stamp))
          .ifPresent(n -> nodes.remove(n.getKey()));
      free++;
    }
    return true;
  }

  void give(int pages) {
    free += pages;
  }

  int free() {
    return free;
  }

  int cached() {
    return nodes.size();
  }

  int evictable() {
    return (int) nodes.values().stream().filter(n -> n.references == 0).count();
  }
}
