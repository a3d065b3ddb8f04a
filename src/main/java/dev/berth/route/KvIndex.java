// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.util.Arrays;

/**
 * What the KV caches of many ranks hold, built from their events: it tells how much of a prompt
 * each rank could reuse without asking it. For a gateway ({@link RouterLedger}); the ranks of an
 * engine probe their own caches instead.
 *
 * <p>One tree over blocks of tokens for all ranks; a node knows which ranks hold it. Tokens are
 * compared, never only hashed. Events mean presence: storing twice is storing once, what is removed
 * once is gone, also where a rank has two names for the same tokens. The index holds as many blocks
 * as the ranks do and forgets a block with its last holder, unless another block that is held
 * builds on it. A gap in a rank's sequence or an unknown parent asks for a snapshot, once; until it
 * comes, what was known of the rank is kept as it is: a hint, not a promise. Not thread-safe.
 */
public final class KvIndex {
  /** What became of an event. */
  public enum Event {
    /** The index has it. */
    APPLIED,
    /** It changes nothing: known already, less than a block, or before the last one. */
    IGNORED,
    /** Events are missing before it: ask the rank for a snapshot. Said once until it comes. */
    RESYNC,
    /** As RESYNC, which was said before. */
    WAITING_FOR_SNAPSHOT
  }

  /** The parent of a scope's first block. */
  public static final long ROOT = 0;

  private static final int NONE = -1;
  private static final int INITIAL = 64;

  private final int ranks;
  private final int tokensPerBlock;
  private final int words;

  // nodes
  private int[] parents = new int[INITIAL];
  private int[] childCounts = new int[INITIAL];
  private int[] nameCounts = new int[INITIAL];
  private long[] scopes = new long[INITIAL];
  private long[] hashes = new long[INITIAL];
  private int[] tokens;
  private long[] holders;
  private int[] nextFree = new int[INITIAL];
  private int firstFree = NONE;
  private int unusedFrom;
  private int nodes;
  private int[] nodeTable = filled(2 * INITIAL);

  // blocks: what the ranks call the nodes
  private long[] blockIds = new long[INITIAL];
  private int[] blockRanks = new int[INITIAL];
  private int[] blockNodes = filled(INITIAL);
  private int blockCount;

  private final int[] blocksOf;
  private final long[] sequences;
  private final boolean[] resync;
  private final long[] alive;

  /**
   * An empty index; every rank begins with event 1.
   *
   * @param ranks 1 or more
   * @param tokensPerBlock tokens of a block, the same on every rank, 1 or more
   */
  public KvIndex(int ranks, int tokensPerBlock) {
    if (ranks < 1 || tokensPerBlock < 1) {
      throw new BerthException(
          Code.CONFIGURATION,
          "an index needs ranks and tokens a block of 1 or more, got %d and %d"
              .formatted(ranks, tokensPerBlock));
    }
    this.ranks = ranks;
    this.tokensPerBlock = tokensPerBlock;
    this.words = (ranks + Long.SIZE - 1) / Long.SIZE;
    this.tokens = new int[Math.multiplyExact(INITIAL, tokensPerBlock)];
    this.holders = new long[Math.multiplyExact(INITIAL, words)];
    this.blocksOf = new int[ranks];
    this.sequences = new long[ranks];
    this.resync = new boolean[ranks];
    this.alive = new long[words];
  }

  private static int[] filled(int length) {
    int[] table = new int[length];
    Arrays.fill(table, NONE);
    return table;
  }

  /**
   * Says what a rank's blocks are like, before its events.
   *
   * @throws BerthException {@code CONFIGURATION} if its blocks are of another size: nothing of it
   *     could ever match
   */
  public void register(int rank, int itsTokensPerBlock) {
    requireRank(rank);
    if (itsTokensPerBlock != tokensPerBlock) {
      throw new BerthException(
          Code.CONFIGURATION,
          "rank %d has blocks of %d tokens, the index of %d"
              .formatted(rank, itsTokensPerBlock, tokensPerBlock));
    }
  }

  // ------------------------------------------------------------------------------------- events

  /**
   * A rank stored a block.
   *
   * @param sequence number of the event, one more than that of the rank's last
   * @param block the rank's name for it, not {@link #ROOT}
   * @param parent its name for the block before it, {@link #ROOT} for the first of its scope
   * @param scope what keeps prompts apart (adapter, salt); the same number for the same scope on
   *     every rank
   * @param blockTokens its tokens; a partial block is ignored
   * @throws BerthException {@code ARGUMENT} for a rank that doesn't exist, the block {@link #ROOT}
   *     or more tokens than a block has
   */
  public Event stored(
      int rank, long sequence, long block, long parent, long scope, int... blockTokens) {
    requireRank(rank);
    requireBlock(block, blockTokens.length);
    Event order = inOrder(rank, sequence);
    return order == Event.APPLIED ? store(rank, block, parent, scope, blockTokens) : order;
  }

  private Event store(int rank, long block, long parent, long scope, int[] blockTokens) {
    if (blockTokens.length < tokensPerBlock) {
      return Event.IGNORED;
    }
    int above = NONE;
    if (parent != ROOT) {
      int place = blockPlace(rank, parent);
      if (blockNodes[place] == NONE) {
        return askOnce(rank);
      }
      above = blockNodes[place];
    }
    int node = child(above, scope, blockTokens, 0);
    if (node == NONE) {
      node = addNode(above, scope, blockTokens);
    }
    int place = blockPlace(rank, block);
    int before = blockNodes[place];
    boolean added = hold(node, rank);
    if (before == NONE) {
      addBlock(rank, block, node);
      nameCounts[node]++;
    } else if (before != node) {
      blockNodes[place] = node; // the name was given to another block
      nameCounts[node]++;
      release(before, rank);
    }
    return added ? Event.APPLIED : Event.IGNORED;
  }

  /** A rank dropped a block. One that isn't known is ignored. */
  public Event removed(int rank, long sequence, long block) {
    requireRank(rank);
    Event order = inOrder(rank, sequence);
    if (order != Event.APPLIED) {
      return order;
    }
    int place = blockPlace(rank, block);
    int node = blockNodes[place];
    if (node == NONE) {
      return Event.IGNORED;
    }
    removeBlock(place);
    release(node, rank);
    return Event.APPLIED;
  }

  /** An event that changes no presence (another level, a statistic): it only counts. */
  public Event passed(int rank, long sequence) {
    requireRank(rank);
    Event order = inOrder(rank, sequence);
    return order == Event.APPLIED ? Event.IGNORED : order;
  }

  /** A rank dropped everything. */
  public Event cleared(int rank, long sequence) {
    requireRank(rank);
    Event order = inOrder(rank, sequence);
    if (order == Event.APPLIED) {
      forget(rank);
    }
    return order;
  }

  /** Is this the event that comes next? */
  private Event inOrder(int rank, long sequence) {
    if (resync[rank]) {
      return Event.WAITING_FOR_SNAPSHOT;
    }
    if (sequence <= sequences[rank]) {
      return Event.IGNORED;
    }
    if (sequence != sequences[rank] + 1) {
      return askOnce(rank);
    }
    sequences[rank] = sequence;
    return Event.APPLIED;
  }

  private Event askOnce(int rank) {
    Event answer = resync[rank] ? Event.WAITING_FOR_SNAPSHOT : Event.RESYNC;
    resync[rank] = true;
    return answer;
  }

  // ---------------------------------------------------------------------------------- snapshots

  /**
   * A snapshot of a rank begins: what was known of it is forgotten, its blocks follow by {@link
   * #restore}, parents first.
   *
   * @param sequence number of the last event that is in the snapshot
   */
  public void beginSnapshot(int rank, long sequence) {
    requireRank(rank);
    forget(rank);
    sequences[rank] = sequence;
    resync[rank] = false;
  }

  /**
   * A block of a snapshot.
   *
   * @return {@link Event#RESYNC} if its parent isn't in the snapshot so far
   */
  public Event restore(int rank, long block, long parent, long scope, int... blockTokens) {
    requireRank(rank);
    requireBlock(block, blockTokens.length);
    return resync[rank]
        ? Event.WAITING_FOR_SNAPSHOT
        : store(rank, block, parent, scope, blockTokens);
  }

  /** Forgets everything of a rank: it is down, or cleared its cache. */
  public void forget(int rank) {
    requireRank(rank);
    int left = blocksOf[rank];
    for (int place = 0; left > 0 && place < blockIds.length; ) {
      if (blockNodes[place] != NONE && blockRanks[place] == rank) {
        int node = blockNodes[place];
        removeBlock(place); // another may stand here now: look again
        release(node, rank);
        left--;
      } else {
        place++;
      }
    }
  }

  /** True while a snapshot of a rank is awaited. */
  public boolean awaitsSnapshot(int rank) {
    requireRank(rank);
    return resync[rank];
  }

  /** Number of the last event of a rank that was taken. */
  public long sequence(int rank) {
    requireRank(rank);
    return sequences[rank];
  }

  // ------------------------------------------------------------------------------------- lookup

  /**
   * Sets the matches of a request: the tokens that each rank holds as whole blocks from the
   * beginning on.
   *
   * @param prompt its tokens
   * @param length how many of them are asked about, 0 .. {@code prompt.length}: for routing all but
   *     the last one, which is computed in any case (spec 01 §4.3)
   * @param out begun for the batch
   * @param item the request's index in the batch
   */
  public void match(long scope, int[] prompt, int length, PrefixMatches out, int item) {
    if (length < 0 || length > prompt.length) {
      throw new BerthException(
          Code.ARGUMENT, "length " + length + " of a prompt of " + prompt.length);
    }
    if (out.ranks() != ranks) {
      throw new BerthException(
          Code.ARGUMENT, "matches on %d ranks, the index has %d".formatted(out.ranks(), ranks));
    }
    Arrays.fill(alive, -1L);
    int node = NONE;
    int matched = 0;
    boolean any = true;
    while (any && matched + tokensPerBlock <= length) {
      node = child(node, scope, prompt, matched);
      any = false;
      for (int word = 0; word < words; word++) {
        long still = node == NONE ? 0 : alive[word] & holders[node * words + word];
        set(out, item, alive[word] & ~still, word, matched);
        alive[word] = still;
        any |= still != 0;
      }
      matched += tokensPerBlock;
    }
    for (int word = 0; any && word < words; word++) {
      set(out, item, alive[word], word, matched);
    }
  }

  private void set(PrefixMatches out, int item, long bits, int word, int matched) {
    for (long left = matched == 0 ? 0 : bits; left != 0; left &= left - 1) {
      int rank = word * Long.SIZE + Long.numberOfTrailingZeros(left);
      if (rank < ranks) {
        out.set(item, rank, matched);
      }
    }
  }

  /** Blocks that a rank holds. */
  public int blocks(int rank) {
    requireRank(rank);
    return blocksOf[rank];
  }

  /** Blocks in the tree, those included that nobody holds and something held builds on. */
  public int size() {
    return nodes;
  }

  // -------------------------------------------------------------------------------------- nodes

  /** The node of a block's tokens below another; {@link #NONE} if there is none. */
  private int child(int above, long scope, int[] from, int offset) {
    long hash = hash(above, scope, from, offset);
    int mask = nodeTable.length - 1;
    for (int at = place(hash); nodeTable[at] != NONE; at = at + 1 & mask) {
      int node = nodeTable[at];
      if (hashes[node] == hash
          && parents[node] == above
          && scopes[node] == scope
          && Arrays.equals(
              tokens,
              node * tokensPerBlock,
              (node + 1) * tokensPerBlock,
              from,
              offset,
              offset + tokensPerBlock)) {
        return node;
      }
    }
    return NONE;
  }

  private long hash(int above, long scope, int[] from, int offset) {
    long hash = (above ^ scope) * 0x9E3779B97F4A7C15L + scope;
    for (int i = offset; i < offset + tokensPerBlock; i++) {
      hash = (hash ^ from[i]) * 0x9E3779B97F4A7C15L;
      hash ^= hash >>> 29;
    }
    return hash;
  }

  private int place(long hash) {
    return (int) (hash ^ hash >>> 32) & nodeTable.length - 1;
  }

  private int addNode(int above, long scope, int[] blockTokens) {
    int node = firstFree;
    if (node == NONE) {
      if (unusedFrom == parents.length) {
        growNodes();
      }
      node = unusedFrom++;
    } else {
      firstFree = nextFree[node];
    }
    parents[node] = above;
    childCounts[node] = 0;
    nameCounts[node] = 0;
    scopes[node] = scope;
    hashes[node] = hash(above, scope, blockTokens, 0);
    System.arraycopy(blockTokens, 0, tokens, node * tokensPerBlock, tokensPerBlock);
    Arrays.fill(holders, node * words, (node + 1) * words, 0);
    enterNode(node);
    nodes++;
    if (above != NONE) {
      childCounts[above]++;
    }
    return node;
  }

  private void enterNode(int node) {
    int mask = nodeTable.length - 1;
    int at = place(hashes[node]);
    while (nodeTable[at] != NONE) {
      at = at + 1 & mask;
    }
    nodeTable[at] = node;
  }

  private boolean hold(int node, int rank) {
    int word = node * words + rank / Long.SIZE;
    long bit = 1L << rank;
    boolean added = (holders[word] & bit) == 0;
    holders[word] |= bit;
    return added;
  }

  /** A name of a node goes, and with it its rank's hold; nodes that nobody needs go, upwards. */
  private void release(int node, int rank) {
    holders[node * words + rank / Long.SIZE] &= ~(1L << rank);
    nameCounts[node]--;
    int at = node;
    while (at != NONE && nameCounts[at] == 0 && childCounts[at] == 0) {
      int above = parents[at];
      freeNode(at);
      if (above != NONE) {
        childCounts[above]--;
      }
      at = above;
    }
  }

  private void freeNode(int node) {
    int mask = nodeTable.length - 1;
    int hole = place(hashes[node]);
    while (nodeTable[hole] != node) {
      hole = hole + 1 & mask;
    }
    for (int at = hole + 1 & mask; nodeTable[at] != NONE; at = at + 1 & mask) {
      if ((at - place(hashes[nodeTable[at]]) & mask) >= (at - hole & mask)) {
        nodeTable[hole] = nodeTable[at];
        hole = at;
      }
    }
    nodeTable[hole] = NONE;
    nextFree[node] = firstFree;
    firstFree = node;
    nodes--;
  }

  private void growNodes() {
    int capacity = 2 * parents.length;
    if ((long) capacity * Math.max(tokensPerBlock, words) > Integer.MAX_VALUE) {
      throw new BerthException(
          Code.MEMORY, "an index of " + nodes + " blocks can't grow any further");
    }
    parents = Arrays.copyOf(parents, capacity);
    childCounts = Arrays.copyOf(childCounts, capacity);
    nameCounts = Arrays.copyOf(nameCounts, capacity);
    scopes = Arrays.copyOf(scopes, capacity);
    hashes = Arrays.copyOf(hashes, capacity);
    tokens = Arrays.copyOf(tokens, capacity * tokensPerBlock);
    holders = Arrays.copyOf(holders, capacity * words);
    nextFree = Arrays.copyOf(nextFree, capacity);
    nodeTable = filled(2 * capacity);
    for (int node = 0; node < unusedFrom; node++) {
      enterNode(node);
    }
  }

  // ------------------------------------------------------------------------------------- blocks

  /** Where a rank's block stands, or the free place where it would. */
  private int blockPlace(int rank, long block) {
    int mask = blockIds.length - 1;
    int place = blockHome(rank, block);
    while (blockNodes[place] != NONE && (blockIds[place] != block || blockRanks[place] != rank)) {
      place = place + 1 & mask;
    }
    return place;
  }

  private int blockHome(int rank, long block) {
    long mixed = (block ^ block >>> 32 ^ (long) rank << 40) * 0x9E3779B97F4A7C15L;
    return (int) (mixed >>> Long.numberOfLeadingZeros(blockIds.length) + 1);
  }

  private void addBlock(int rank, long block, int node) {
    if (2 * (blockCount + 1) > blockIds.length) {
      growBlocks();
    }
    int place = blockPlace(rank, block);
    blockIds[place] = block;
    blockRanks[place] = rank;
    blockNodes[place] = node;
    blockCount++;
    blocksOf[rank]++;
  }

  private void removeBlock(int place) {
    blocksOf[blockRanks[place]]--;
    blockCount--;
    int mask = blockIds.length - 1;
    int gap = place;
    for (int at = gap + 1 & mask; blockNodes[at] != NONE; at = at + 1 & mask) {
      if ((at - blockHome(blockRanks[at], blockIds[at]) & mask) >= (at - gap & mask)) {
        blockIds[gap] = blockIds[at];
        blockRanks[gap] = blockRanks[at];
        blockNodes[gap] = blockNodes[at];
        gap = at;
      }
    }
    blockNodes[gap] = NONE;
  }

  private void growBlocks() {
    long[] ids = blockIds;
    int[] its = blockRanks;
    int[] itsNodes = blockNodes;
    blockIds = new long[2 * ids.length];
    blockRanks = new int[2 * ids.length];
    blockNodes = filled(2 * ids.length);
    for (int at = 0; at < ids.length; at++) {
      if (itsNodes[at] != NONE) {
        int place = blockPlace(its[at], ids[at]);
        blockIds[place] = ids[at];
        blockRanks[place] = its[at];
        blockNodes[place] = itsNodes[at];
      }
    }
  }

  // ------------------------------------------------------------------------------------- checks

  private void requireRank(int rank) {
    if (rank < 0 || rank >= ranks) {
      throw new BerthException(Code.ARGUMENT, "rank " + rank + " is outside of " + ranks);
    }
  }

  private void requireBlock(long block, int length) {
    if (block == ROOT || length > tokensPerBlock) {
      throw new BerthException(
          Code.ARGUMENT,
          "block %d of %d tokens; blocks have %d".formatted(block, length, tokensPerBlock));
    }
  }
}
