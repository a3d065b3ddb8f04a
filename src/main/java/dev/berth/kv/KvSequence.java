// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

/**
 * A sequence as it stands: committed &lt;= history &lt;= capacity, all in tokens.
 *
 * @param active whether it holds a row of the tables
 * @param committed tokens that others can find
 * @param history tokens computed
 * @param capacity tokens that there is room for
 * @param blocks that the capacity takes
 * @param indexed the first so many blocks belong to the prefix index
 * @param row of the tables, -1 unless active
 */
public record KvSequence(
    boolean active,
    int committed,
    int history,
    int capacity,
    int blocks,
    int indexed,
    int row,
    Commits commits) {

  /** Whether commits still reach the index. The order is the ABI's. */
  public enum Commits {
    /** They do. */
    ALLOWED,
    /** They are counted, but stored no more: the index had a block that couldn't be adopted. */
    COUNTED,
    /** They are refused: the sequence was stopped. */
    STOPPED
  }

  static KvSequence of(int[] raw) {
    return new KvSequence(
        raw[0] == 1, raw[1], raw[2], raw[3], raw[4], raw[5], raw[6], Commits.values()[raw[7]]);
  }
}
