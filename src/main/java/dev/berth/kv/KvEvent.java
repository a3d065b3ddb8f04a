// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import dev.berth.internal.NativeKvOps;
import java.util.Arrays;

/**
 * A page of the prefix index came, went or moved.
 *
 * @param sequence 1, 2, 3 …: a gap means that events were dropped
 * @param block never used again for another block
 * @param parent the block before it; 0: the first of its scope. Only of STORED
 * @param scope only of STORED
 * @param level where the page lies now; of REMOVED where it lay
 * @param tokens of the block, only of STORED
 * @param partial whether these are less than a block
 */
public record KvEvent(
    long sequence,
    Kind kind,
    long block,
    long parent,
    KvScope scope,
    int lifeCycle,
    KvLevel level,
    KvLevel oldLevel,
    int priority,
    int[] tokens,
    boolean partial) {

  /** What happened. The order is the ABI's, from 1. */
  public enum Kind {
    /** Others can find it. */
    STORED,
    /** Nobody can any more. */
    REMOVED,
    /** It moved to another level, or is kept more or less dearly. */
    UPDATED
  }

  static KvEvent of(
      java.lang.foreign.MemorySegment record, java.util.function.IntFunction<int[]> tokens) {
    long[] l = NativeKvOps.longs(record);
    int[] i = NativeKvOps.ints(record);
    return new KvEvent(
        l[0],
        Kind.values()[i[0] - 1],
        l[1],
        l[2],
        KvScope.of(l[3], l[4], i[6]),
        i[1],
        KvLevel.values()[i[3]],
        KvLevel.values()[i[4]],
        i[5],
        tokens.apply(i[2]),
        i[7] != 0);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof KvEvent that
        && sequence == that.sequence
        && kind == that.kind
        && block == that.block
        && parent == that.parent
        && scope.equals(that.scope)
        && lifeCycle == that.lifeCycle
        && level == that.level
        && oldLevel == that.oldLevel
        && priority == that.priority
        && Arrays.equals(tokens, that.tokens)
        && partial == that.partial;
  }

  @Override
  public int hashCode() {
    return Long.hashCode(sequence * 31 + block);
  }

  @Override
  public String toString() {
    return "%d %s block %d after %d, %s, life cycle %d on %s (was %s), priority %d, %s%s"
        .formatted(
            sequence,
            kind,
            block,
            parent,
            scope,
            lifeCycle,
            level,
            oldLevel,
            priority,
            Arrays.toString(tokens),
            partial ? ", partial" : "");
  }
}
