// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import static dev.berth.exchange.FrameBoard.HEADER_WORDS;

import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.Chunking;
import dev.berth.engine.Batch;
import dev.berth.engine.EndKind;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.KvSetup;
import dev.berth.engine.Loop;
import dev.berth.engine.RankEngine;
import dev.berth.engine.WorkerRole;
import dev.berth.exchange.FrameBoard;
import dev.berth.id.BatchPosition;
import dev.berth.request.Request;
import dev.berth.request.RequestState;
import dev.berth.request.RequestTable;
import dev.berth.request.WaitReason;
import dev.berth.route.RankState;
import java.util.Arrays;
import java.util.List;

/**
 * The books of one engine: what each of its rows must hold, be and become, from what was told to
 * the engine and what it launched. It decides nothing; after every call it compares.
 */
final class RankAudit {
  /** What can be told about a live request. */
  enum Change {
    ARRIVED,
    FAILED,
    CANCELLED,
    /** Its reader is slow. */
    HELD,
    RESUMED
  }

  private static final int NO_TRANSFER = 0;
  private static final int TO_RECEIVE = 1;
  private static final int RECEIVING = 2;
  private static final int RECEIVED = 3;

  private static final byte ALIVE = 0;

  /** What a request may lack after it was given a seat and a lease in the same pass. */
  private static final List<WaitReason> GIVE_BACK =
      List.of(WaitReason.PAGES, WaitReason.TOKENS, WaitReason.BATCH, WaitReason.PREFIX);

  private static final long CONTEXT = 1L << 32;

  private final FleetAudit fleet;
  private final EngineConfig config;
  private final RankEngine engine;
  private final RequestTable table;
  private final int rank;
  private final int rows;
  private final int limit;
  private final int drafts;
  private final int tokensPerBlock;
  private final boolean marks;
  private final boolean excluded;
  private final boolean raw;
  private final boolean whole;
  private final boolean exclusiveFlight;
  private final boolean counted;
  private final boolean promised;
  private final boolean attentionDp;
  private final long pages;

  // ---- by row
  private final int[] numberOf;
  private final int[] request;
  private final int[] prompt;
  private final int[] max;
  private final int[] before;
  private final int[] cursor;
  private final int[] generated;
  private final int[] pending;
  private final int[] inFlight;
  private final int[] pauses;
  private final int[] load;
  private final byte[] transfer;
  private final byte[] ended;
  private final boolean[] seated;
  private final boolean[] leased;
  private final boolean[] cancelled;
  private final boolean[] held;
  private final boolean[] marked;
  private final long[] stamp;
  private final int[] place;
  private final int[] live;
  private int lives;

  // ---- by sequence
  private final int[] rowOf;
  private final int[] lastRow;

  // ---- sequences that were given to the rank and have no row, in order
  private final int[] landing;
  private int landingFirst;
  private int landingCount;

  // ---- batches
  private long[] words = new long[64];
  private int[] starts = new int[64];
  private int scheduled;
  private long batches;
  private long[][] launched = new long[4][];
  private int[] launchedSize = new int[4];
  private boolean[] stops = new boolean[64];
  private boolean[] losses = new boolean[64];
  private boolean[] broken = new boolean[4];
  private final int pendingBatches;
  private final int[] pipe;
  private int piped;
  private int due = -1;
  private boolean collected;
  private boolean resultsLost;
  private boolean losesOne;
  private int launchBroke = -1;
  private int collectBroke = -1;
  private boolean endsEarly;

  // ---- ends to be told in this iteration
  private final int[] overRow;
  private int overs;
  private int tokensOut;

  // ---- what the last settle left
  private int seen;
  private int liveNow;
  private int routable;
  private long loadNow;
  private boolean settled = true;
  private final long[] seats;
  private final long[] leases;

  RankAudit(WorldPlan plan, FleetAudit fleet, RankEngine engine) {
    this.fleet = fleet;
    this.config = plan.config();
    this.engine = engine;
    this.table = engine.table();
    this.rank = engine.rank();
    this.rows = table.rows() - 1;
    var shape = config.plan().shape();
    this.limit = shape.maxNumTokens() == 0 ? Integer.MAX_VALUE : shape.maxNumTokens();
    this.drafts = shape.draftTokens();
    this.tokensPerBlock = shape.tokensPerBlock();
    this.marks = config.loop() != Loop.NON_OVERLAP;
    this.excluded = config.plan().headroom().open();
    this.raw = config.retiringTokens() == EngineConfig.RetiringTokens.RAW;
    this.whole = config.chunkedContext() == Chunking.NONE;
    this.exclusiveFlight = config.loop() == Loop.PIPELINE;
    this.counted = config.kv() instanceof KvSetup.Counted;
    this.promised = config.capacity() != CapacityRule.MAX_UTILIZATION;
    this.attentionDp = shape.attentionDp();
    this.pages = config.pages();
    this.pendingBatches =
        switch (config.loop()) {
          case NON_OVERLAP -> 0;
          case OVERLAP -> 1;
          case PIPELINE -> config.stages() - 1;
        };
    pipe = new int[pendingBatches + 2];
    numberOf = new int[rows];
    request = new int[rows];
    prompt = new int[rows];
    max = new int[rows];
    before = new int[rows];
    cursor = new int[rows];
    generated = new int[rows];
    pending = new int[rows];
    inFlight = new int[rows];
    pauses = new int[rows];
    load = new int[rows];
    transfer = new byte[rows];
    ended = new byte[rows];
    seated = new boolean[rows];
    leased = new boolean[rows];
    cancelled = new boolean[rows];
    held = new boolean[rows];
    marked = new boolean[rows];
    stamp = new long[rows];
    place = new int[rows];
    live = new int[rows];
    overRow = new int[rows];
    rowOf = new int[fleet.sequences()];
    lastRow = new int[fleet.sequences()];
    landing = new int[fleet.sequences()];
    Arrays.fill(rowOf, -1);
    Arrays.fill(lastRow, -1);
    Arrays.fill(request, -1);
    Arrays.fill(stamp, -1);
    seats = new long[(config.plan().seats().count() >> 6) + 1];
    leases = new long[(config.plan().leases().count() + config.plan().reservedLeases() >> 6) + 1];
  }

  int liveAtGather() {
    return liveNow;
  }

  int routableAtGather() {
    return routable;
  }

  boolean settledAtGather() {
    return settled;
  }

  /** Where requests of the rank were at the last settle, a bit each. */
  int seen() {
    return seen;
  }

  /** Is a sequence here, with a row? */
  boolean has(int number) {
    return rowOf[number] >= 0;
  }

  /** Sequences whose readers are slow: nothing but these can bring them further. */
  int heldNow() {
    int n = 0;
    for (int i = 0; i < lives; i++) {
      n += held[live[i]] && ended[live[i]] == ALIVE ? 1 : 0;
    }
    return n;
  }

  // ------------------------------------------------------------------------------ changes

  /** Writes down, and tells the engine. */
  void change(int number, Change change) {
    int row = lastRow[number];
    if (row < 0) {
      return;
    }
    long id = fleet.request(fleet.requestOf(number)).id();
    switch (change) {
      case ARRIVED -> engine.transferArrived(row, id);
      case FAILED -> engine.transferFailed(row, id);
      case CANCELLED -> engine.cancel(row, id);
      case HELD -> engine.hold(row, id);
      case RESUMED -> engine.resume(row, id);
    }
    if (rowOf[number] < 0 || ended[row] != ALIVE) {
      return; // late news
    }
    if (change == Change.HELD || change == Change.RESUMED) {
      held[row] = change == Change.HELD;
    } else if (change == Change.CANCELLED) {
      cancelled[row] = true;
      if (transfer[row] != RECEIVING) {
        end(row, EndKind.CANCELLED);
      }
    } else if (transfer[row] == RECEIVING) {
      if (cancelled[row]) {
        end(row, EndKind.CANCELLED);
      } else if (change == Change.FAILED) {
        end(row, EndKind.FAILED);
      } else {
        transfer[row] = RECEIVED;
        generated[row] = 1;
        if (max[row] <= 1) {
          end(row, EndKind.FINISHED);
        }
      }
    }
  }

  /** Takes back the sequences of a request that have no row yet. */
  void withdraw(int number) {
    int kept = 0;
    int gone = 0;
    for (int i = 0; i < landingCount; i++) {
      int next = landing[landingFirst + i];
      if (fleet.requestOf(next) == number) {
        gone++;
      } else {
        landing[landingFirst + kept++] = next;
      }
    }
    landingCount = kept;
    int withdrawn = gone == 0 ? 0 : engine.withdraw(fleet.request(number).id());
    if (withdrawn != gone) {
      throw broken(
          Invariant.RELEASED_ONCE,
          "request %d: %d sequences without a row are withdrawn, there were %d",
          number,
          withdrawn,
          gone);
    }
    fleet.withdrawn(number, gone);
  }

  private void end(int row, EndKind kind) {
    ended[row] = (byte) (kind.ordinal() + 1);
    if (inFlight[row] == 0) {
      overRow[overs++] = row;
    }
  }

  // ------------------------------------------------------------------------------ schedule

  /** What the engine scheduled must be possible. */
  void scheduled(Node node, long sequence) {
    tokensOut = 0;
    due = -1;
    collected = resultsLost = false;
    land(node);
    if (engine.paused() > 0) {
      giveWay();
      fleet.progress(sequence);
    }
    for (int i = 0; i < engine.receives(); i++) {
      receive(engine.receiveRow(i));
      fleet.progress(sequence);
    }
    readBatch();
    if (engine.deferred(WaitReason.SEAT) + engine.deferred(WaitReason.LEASE) > 0) {
      nothingWasLeft();
    }
  }

  /** Sequences get rows in their order, as far as there are some. */
  private void land(Node node) {
    if (landingFirst > 0 && landingCount == 0) {
      landingFirst = 0;
    }
    int admitted = node.admission.assigned(rank);
    for (int i = 0; i < admitted; i++) {
      int number = fleet.byId(node.admission.assignedId(rank, i));
      int first = fleet.firstSequence(number);
      for (int child = 0; child < fleet.request(number).admissionCost(); child++) {
        append(first + child);
      }
    }
    int free = rows - lives;
    for (; landingCount > 0 && free > 0; free--) {
      enter(landing[landingFirst++]);
      landingCount--;
    }
  }

  private void append(int number) {
    if (landingFirst + landingCount == landing.length) {
      System.arraycopy(landing, landingFirst, landing, 0, landingCount);
      landingFirst = 0;
    }
    landing[landingFirst + landingCount++] = number;
  }

  private void enter(int number) {
    int row = find(number);
    int whose = fleet.requestOf(number);
    Request r = fleet.request(whose);
    numberOf[row] = number;
    request[row] = whose;
    rowOf[number] = row;
    lastRow[number] = row;
    prompt[row] = r.promptTokens();
    max[row] = fleet.fullOutput(whose);
    boolean receives = config.role() == WorkerRole.GENERATION;
    transfer[row] = (byte) (receives ? TO_RECEIVE : NO_TRANSFER);
    cursor[row] = receives ? prompt[row] : 0;
    before[row] = generated[row] = pending[row] = inFlight[row] = pauses[row] = 0;
    load[row] = load(whose);
    ended[row] = ALIVE;
    seated[row] = leased[row] = cancelled[row] = held[row] = marked[row] = false;
    place[row] = lives;
    live[lives++] = row;
  }

  private int load(int number) {
    return (int) config.router().load().tokens(fleet.request(number).promptTokens(), match(number));
  }

  private int match(int number) {
    return config.router() instanceof dev.berth.route.RouterChoice.KvAware
        ? Matches.tokens(fleet.request(number), rank)
        : 0;
  }

  private int find(int number) {
    int whose = fleet.requestOf(number);
    int child = fleet.child(number);
    long id = fleet.request(whose).id();
    for (int row = 0; row < rows; row++) {
      if (request[row] < 0
          && table.tag(row) == whose
          && table.child(row) == child
          && table.id(row) == id) {
        return row;
      }
    }
    throw broken(
        Invariant.RANKS_AGREE,
        "sequence %d of request %d was given to the rank and has no row",
        child,
        whose);
  }

  private void giveWay() {
    int gave = 0;
    for (int i = 0; i < lives; i++) {
      int row = live[i];
      if (ended[row] != ALIVE || table.pauses(row) == pauses[row]) {
        continue;
      }
      if (inFlight[row] > 0 || !leased[row]) {
        throw broken(
            Invariant.RELEASED_ONCE,
            "request %d gave way with %d launched batches",
            request[row],
            inFlight[row]);
      }
      gave++;
      pauses[row]++;
      before[row] += generated[row];
      prompt[row] += generated[row];
      max[row] -= generated[row];
      generated[row] = cursor[row] = 0;
      transfer[row] = NO_TRANSFER;
      seated[row] = leased[row] = marked[row] = false;
    }
    if (gave != engine.paused()) {
      throw broken(Invariant.RELEASED_ONCE, "%d gave way, %d rows show it", engine.paused(), gave);
    }
  }

  private void receive(int row) {
    if (request[row] < 0 || ended[row] != ALIVE || transfer[row] != TO_RECEIVE) {
      throw broken(
          Invariant.RELEASED_ONCE, "a transfer to row %d, whose request has none due", row);
    }
    transfer[row] = RECEIVING;
    leased[row] = true;
  }

  private void readBatch() {
    Batch batch = engine.scheduled();
    scheduled = batch.size();
    batches++;
    room(scheduled);
    batch.words(words);
    int real = 0;
    long tokens = 0;
    for (int i = 0; i < scheduled; i++) {
      int row = (int) words[i];
      if (row == rows) {
        if (scheduled > 1 || !attentionDp) {
          throw broken(Invariant.THREE_COUNTS, "padding in a batch of %d", scheduled);
        }
        words[i] = -1;
        continue;
      }
      int n = (int) (words[i] >>> 33);
      real++;
      tokens += n;
      check(batch, i, row, n);
    }
    if (real > config.plan().batchPositions().count() || tokens > limit) {
      throw broken(Invariant.ONE_FORMULA, "a batch of %d requests with %d tokens", real, tokens);
    }
  }

  private void check(Batch batch, int i, int row, int n) {
    if (request[row] < 0 || ended[row] != ALIVE || held[row] || stamp[row] == batches) {
      throw broken(
          Invariant.RELEASED_ONCE,
          "batch position %d runs row %d, which nobody has who is alive, alone and not held",
          i,
          row);
    }
    stamp[row] = batches;
    if (table.seat(row) < 0 || table.lease(row) < 0) {
      throw broken(
          Invariant.NOBODY_WAITS_WHILE_HOLDING,
          "request %d is scheduled without a seat or lease",
          request[row]);
    }
    if (exclusiveFlight && inFlight[row] > 0) {
      throw broken(Invariant.RELEASED_ONCE, "request %d is in flight and scheduled", request[row]);
    }
    boolean context = (words[i] & CONTEXT) != 0;
    int first = batch.firstToken(i);
    starts[i] = first;
    int from = context && !seated[row] ? table.cachedTokens(row) : cursor[row];
    boolean fits =
        context
            ? transfer[row] == NO_TRANSFER
                && first == from
                && n > 0
                && first + n <= prompt[row]
                && (!whole || first + n == prompt[row])
            : (transfer[row] == NO_TRANSFER || transfer[row] == RECEIVED)
                && cursor[row] == prompt[row]
                && generated[row] + pending[row] > 0
                && first == prompt[row] + generated[row] + pending[row] - 1
                && n == 1 + drafts;
    if (!fits) {
      throw broken(
          Invariant.ONE_FORMULA,
          "request %d runs %d tokens from %d: prompt %d, launched %d, generated %d and %d",
          request[row],
          n,
          first,
          prompt[row],
          cursor[row],
          generated[row],
          pending[row]);
    }
    if (!context && generated[row] + pending[row] >= max[row]) {
      throw broken(
          Invariant.THREE_COUNTS, "request %d is scheduled after its last token", request[row]);
    }
    if ((long) table.pages(row) * tokensPerBlock
        < Math.min(first + n, prompt[row] + max[row] + drafts)) {
      throw broken(
          Invariant.ONE_FORMULA,
          "request %d runs to token %d on %d pages",
          request[row],
          first + n,
          table.pages(row));
    }
  }

  /**
   * Somebody was told that there is none left. Who took the last one may have had to give it back
   * since, for want of something else.
   */
  private void nothingWasLeft() {
    int givenBack = engine.paused();
    for (WaitReason reason : GIVE_BACK) {
      givenBack += engine.deferred(reason);
    }
    int seatsTaken = givenBack;
    int leasesTaken = givenBack;
    for (int i = 0; i < lives; i++) {
      seatsTaken += table.seat(live[i]) >= 0 ? 1 : 0;
      leasesTaken += table.lease(live[i]) >= 0 ? 1 : 0;
    }
    int forSeats = engine.deferred(WaitReason.SEAT);
    int forLeases = engine.deferred(WaitReason.LEASE);
    if (forSeats > 0 && seatsTaken < config.plan().seats().count()
        || forLeases > 0 && leasesTaken < config.plan().spendableLeases()) {
      throw broken(
          Invariant.EXHAUSTION_IS_A_RESULT,
          "%d wait for a seat and %d for a lease; taken or given back: %d seats, %d leases",
          forSeats,
          forLeases,
          seatsTaken,
          leasesTaken);
    }
  }

  private void room(int size) {
    if (words.length < size) {
      words = Arrays.copyOf(words, 2 * size);
      starts = Arrays.copyOf(starts, 2 * size);
      stops = Arrays.copyOf(stops, 2 * size);
      losses = Arrays.copyOf(losses, 2 * size);
    }
  }

  // ------------------------------------------------------------------------------ launch

  /** The fleet voted to hold contexts: they stand at the end of the batch and leave it. */
  void dropContexts() {
    while (scheduled > 0 && words[scheduled - 1] >= 0 && (words[scheduled - 1] & CONTEXT) != 0) {
      scheduled--;
    }
  }

  /** Batch positions that are left. */
  int batch() {
    return scheduled;
  }

  /**
   * Which batch is settled in this iteration (spec 01 §7.4, §10); the engine must come to the same.
   *
   * @param slot of the batch that is launched, -1 if none is
   * @param gated a fill gate holds the fleet
   */
  void expectDue(int slot, boolean gated) {
    due = gated ? -1 : pass(slot);
    if (due >= 0 && broken[due]) {
      Arrays.fill(losses, false);
    }
  }

  private int pass(int slot) {
    if (pendingBatches == 0) {
      return slot;
    }
    if (!exclusiveFlight) {
      boolean work = scheduled > 0 && words[0] >= 0;
      if (slot < 0 && work) {
        return -1;
      }
      int last = piped > 0 ? pipe[0] : -1;
      pipe[0] = slot;
      piped = slot < 0 ? 0 : 1;
      return last;
    }
    pipe[piped++] = slot;
    if (piped <= pendingBatches) {
      return -1;
    }
    int last = pipe[0];
    System.arraycopy(pipe, 1, pipe, 0, --piped);
    return last;
  }

  /** The forward could not be started. */
  void launchFails(int slot) {
    launchBroke = slot;
    broken[slot] = true;
  }

  /** The batch runs: from now on it holds its rows. */
  void launched(int slot, long sequence) {
    if (slot >= launched.length) {
      launched = Arrays.copyOf(launched, 2 * slot);
      launchedSize = Arrays.copyOf(launchedSize, 2 * slot);
      broken = Arrays.copyOf(broken, 2 * slot);
    }
    long[] into = launched[slot];
    if (into == null || into.length < scheduled) {
      into = new long[Math.max(8, 2 * scheduled)];
      launched[slot] = into;
    }
    launchedSize[slot] = scheduled;
    for (int i = 0; i < scheduled; i++) {
      long word = words[i];
      into[i] = word;
      if (word < 0) {
        continue;
      }
      int row = (int) word;
      boolean makes = true;
      if ((word & CONTEXT) != 0) {
        cursor[row] = starts[i] + (int) (word >>> 33);
        makes = cursor[row] == prompt[row];
      }
      into[i] = row | (makes ? CONTEXT : 0);
      inFlight[row]++;
      pending[row] += makes ? 1 : 0;
      seated[row] = leased[row] = true;
      transfer[row] = NO_TRANSFER;
      fleet.progress(sequence);
    }
  }

  /** Its results are due. Tells the engine which sequences end with them, and what was sampled. */
  void collect(Batch batch) {
    if (batch.slot() != due || broken[due]) {
      throw broken(
          Invariant.RELEASED_ONCE, "collects batch %d, batch %d is due", batch.slot(), due);
    }
    collected = true;
    endsEarly = losesOne = false;
    room(launchedSize[due]);
    for (int i = 0; i < launchedSize[due]; i++) {
      stops[i] = losses[i] = false;
      long word = launched[due][i];
      if (word < 0 || (word & CONTEXT) == 0) {
        continue;
      }
      int row = (int) word;
      int token = before[row] + generated[row] + 1;
      int stop = fleet.stopAt(request[row]);
      if (ended[row] == ALIVE && stop > 0 && token >= stop) {
        stops[i] = endsEarly = true;
        batch.stop(new BatchPosition(i));
      }
      int loss = fleet.loseAt(request[row]);
      if (ended[row] == ALIVE && loss > 0 && token >= loss) {
        losses[i] = losesOne = true;
        batch.fail(new BatchPosition(i));
      }
      if (!counted) {
        batch.sampled(new BatchPosition(i), Noise.below(Noise.of(request[row], token), 50_000));
      }
    }
  }

  /** The results of the due batch are lost on all stages of the rank. */
  void collectFails() {
    collected = resultsLost = true;
    collectBroke = due;
  }

  /** Did the last collected batch lose what a position ran? */
  boolean losesOne() {
    return losesOne;
  }

  /** Did the last collected batch end a sequence before its limit? */
  boolean endsEarly() {
    return endsEarly;
  }

  /** The batch of the last schedule in words. */
  String describeBatch() {
    var text = new java.util.StringJoiner(", ", "[", "]");
    for (int i = 0; i < scheduled; i++) {
      text.add(
          words[i] < 0
              ? "padding"
              : "%d: %d%s from %d"
                  .formatted(
                      request[(int) words[i]],
                      words[i] >>> 33,
                      (words[i] & CONTEXT) != 0 ? " of its prompt" : "",
                      starts[i]));
    }
    return text.toString();
  }

  // ------------------------------------------------------------------------------ settle

  /** The iteration is over: every row, pool and count must be what the books say. */
  void settled(long sequence) {
    if (due >= 0) {
      if (collected == broken[due]) {
        throw broken(
            Invariant.RELEASED_ONCE, "batch %d is due and was not collected, or had broken", due);
      }
      settleBatch(launchedSize[due], launched[due], sequence);
      broken[due] = false;
    }
    if (engine.tokensOut() != tokensOut) {
      throw broken(
          Invariant.RELEASED_ONCE,
          "%d tokens came out, %d were due",
          engine.tokensOut(),
          tokensOut);
    }
    tellEnds(sequence);
    compareRows();
  }

  /** A batch broke somewhere: what this rank's broken ones ran ends here. */
  void faulted(long sequence) {
    tokensOut = 0;
    endBatch(launchBroke);
    endBatch(collectBroke);
    launchBroke = collectBroke = -1;
    tellEnds(sequence);
    compareRows();
  }

  private void endBatch(int slot) {
    for (int i = 0; slot >= 0 && i < launchedSize[slot]; i++) {
      int row = (int) launched[slot][i];
      if (launched[slot][i] >= 0 && request[row] >= 0 && ended[row] == ALIVE) {
        end(row, EndKind.FAILED);
      }
    }
  }

  private void settleBatch(int size, long[] batch, long sequence) {
    for (int i = 0; i < size; i++) {
      if (batch[i] < 0) {
        continue;
      }
      int row = (int) batch[i];
      boolean makes = (batch[i] & CONTEXT) != 0;
      inFlight[row]--;
      pending[row] -= makes ? 1 : 0;
      fleet.progress(sequence);
      if (ended[row] != ALIVE) {
        if (inFlight[row] == 0) {
          overRow[overs++] = row;
        }
      } else if (resultsLost || broken[due]) {
        continue; // the next iteration ends it
      } else if (makes && losses[i]) {
        end(row, EndKind.FAILED);
      } else if (makes) {
        generated[row]++;
        tokensOut++;
        if (stops[i] || generated[row] >= max[row]) {
          end(row, EndKind.FINISHED);
        }
      }
    }
  }

  private void tellEnds(long sequence) {
    if (engine.ended() != overs) {
      throw broken(
          Invariant.RELEASED_ONCE, "%d requests ended, %d were over", engine.ended(), overs);
    }
    for (int i = 0; i < overs; i++) {
      long tag = engine.endedTag(i);
      int row = engine.endedRow(i);
      if (request[row] != tag || ended[row] == ALIVE || inFlight[row] > 0) {
        throw broken(Invariant.RELEASED_ONCE, "request %d ended and was not over", tag);
      }
      int tokens = before[row] + generated[row];
      int kind = engine.endedKind(i).ordinal() + 1;
      if (kind != ended[row]
          || engine.endedTokens(i) != tokens
          || engine.endedId(i) != fleet.request((int) tag).id()) {
        throw broken(
            Invariant.RELEASED_ONCE,
            "request %d %s with %d tokens, the books have %d and %d",
            tag,
            engine.endedKind(i),
            engine.endedTokens(i),
            ended[row],
            tokens);
      }
      fleet.ended((int) tag, rank, engine.endedKind(i), tokens);
      leave(row);
      fleet.progress(sequence);
    }
    overs = 0;
  }

  private void leave(int row) {
    rowOf[numberOf[row]] = -1;
    request[row] = -1;
    if (table.seat(row) >= 0 || table.lease(row) >= 0 || table.pages(row) != 0) {
      throw broken(Invariant.RELEASED_ONCE, "row %d is over and holds something", row);
    }
    int last = live[--lives];
    live[place[row]] = last;
    place[last] = place[row];
  }

  private void compareRows() {
    Arrays.fill(seats, 0);
    Arrays.fill(leases, 0);
    int mask = 0;
    int seatsHeld = 0;
    int leasesHeld = 0;
    long pagesHeld = 0;
    int retirees = 0;
    int endings = 0;
    long loads = 0;
    boolean all = true;
    for (int i = 0; i < lives; i++) {
      int row = live[i];
      int taken = table.pages(row);
      pagesHeld += taken;
      seatsHeld += holds(row, table.seat(row), seated[row], seats, "seat");
      leasesHeld += holds(row, table.lease(row), leased[row], leases, "lease");
      if (!leased[row] && taken != 0) {
        throw broken(
            Invariant.NOBODY_WAITS_WHILE_HOLDING,
            "request %d waits and holds %d pages",
            request[row],
            taken);
      }
      if (counted
          && promised
          && leased[row]
          && taken != Math.ceilDiv(prompt[row] + max[row] + drafts, tokensPerBlock)) {
        throw broken(
            Invariant.ONE_FORMULA,
            "request %d holds %d pages: prompt %d, output %d, drafts %d, %d a page",
            request[row],
            taken,
            prompt[row],
            max[row],
            drafts,
            tokensPerBlock);
      }
      if (ended[row] != ALIVE) {
        endings++;
        mask |= Seen.ENDING.bit();
        continue;
      }
      Seen where = where(row);
      // Through its prompt and without a token, on a worker that makes one: its batch broke, the
      // next iteration ends it.
      boolean lost = config.role() == WorkerRole.CONTEXT && where == Seen.GENERATION;
      mask |= lost ? 0 : where.bit();
      RequestState state = table.state(row);
      if (state != stateOf(where)) {
        throw broken(
            where == Seen.RETIRING || state == RequestState.RETIRING
                ? Invariant.THREE_COUNTS
                : Invariant.RANKS_AGREE,
            "request %d is %s, the books have it in %s",
            request[row],
            state,
            where);
      }
      all &= where != Seen.TRANSFER_DUE && where != Seen.IN_TRANSFER;
      boolean leftOut = where == Seen.RETIRING && excluded;
      retirees += leftOut ? 1 : 0;
      loads += leftOut && !raw ? 0 : load[row];
    }
    if (seatsHeld != engine.seatsUsed()
        || leasesHeld != engine.leasesUsed()
        || (counted ? pagesHeld != engine.pagesUsed() : pagesHeld < engine.pagesUsed())) {
      throw broken(
          Invariant.RELEASED_ONCE,
          "taken: %d seats, %d leases, %d pages; held: %d, %d, %d",
          engine.seatsUsed(),
          engine.leasesUsed(),
          engine.pagesUsed(),
          seatsHeld,
          leasesHeld,
          pagesHeld);
    }
    if (pages >= 0 && engine.pagesUsed() > pages) {
      throw broken(Invariant.ONE_FORMULA, "%d pages taken of %d", engine.pagesUsed(), pages);
    }
    for (int i = 0; i < landingCount; i++) {
      loads += load(fleet.requestOf(landing[landingFirst + i]));
    }
    seen = mask;
    settled = all;
    liveNow = lives + landingCount;
    routable = liveNow - endings - retirees;
    loadNow = loads;
  }

  private int holds(int row, int index, boolean expected, long[] taken, String what) {
    if (index >= 0 != expected) {
      throw broken(
          expected ? Invariant.RELEASED_ONCE : Invariant.NOBODY_WAITS_WHILE_HOLDING,
          "request %d has the %s %d and %s",
          request[row],
          what,
          index,
          expected ? "runs" : "waits");
    }
    if (index < 0) {
      return 0;
    }
    if (index >> 6 >= taken.length || (taken[index >> 6] >> index & 1) != 0) {
      throw broken(
          Invariant.RELEASED_ONCE,
          "request %d has the %s %d, which another one has or nobody can",
          request[row],
          what,
          index);
    }
    taken[index >> 6] |= 1L << index;
    return 1;
  }

  private Seen where(int row) {
    switch (transfer[row]) {
      case TO_RECEIVE -> {
        return Seen.TRANSFER_DUE;
      }
      case RECEIVING -> {
        return Seen.IN_TRANSFER;
      }
      case RECEIVED -> {
        return Seen.TRANSFER_COMPLETE;
      }
      default -> {
        if (cursor[row] < prompt[row]) {
          return seated[row]
              ? Seen.CHUNKED_CONTEXT
              : pauses[row] > 0 ? Seen.GAVE_WAY : Seen.CONTEXT;
        }
        marked[row] |= marks && generated[row] + pending[row] >= max[row];
        return marked[row] ? Seen.RETIRING : Seen.GENERATION;
      }
    }
  }

  private static RequestState stateOf(Seen where) {
    return switch (where) {
      case CONTEXT, CHUNKED_CONTEXT, GAVE_WAY -> RequestState.CONTEXT_INIT;
      case TRANSFER_DUE -> RequestState.GENERATION_INIT;
      case IN_TRANSFER -> RequestState.GENERATION_TRANSFER;
      case TRANSFER_COMPLETE -> RequestState.GENERATION_TRANSFER_COMPLETE;
      case GENERATION -> RequestState.GENERATION;
      case RETIRING -> RequestState.RETIRING;
      case WAITING, ENDING -> RequestState.UNKNOWN;
    };
  }

  /** What a rank tells the others at a gather. */
  void told(long[] frame) {
    long routableTold = frame[HEADER_WORDS + RankState.ACTIVE_REQUESTS];
    long retiringTold = frame[HEADER_WORDS + RankState.RETIRING_REQUESTS];
    if (routableTold != routable || routableTold + retiringTold != liveNow) {
      throw broken(
          Invariant.THREE_COUNTS,
          "tells %d routable and %d retiring requests, it has %d and %d",
          routableTold,
          retiringTold,
          routable,
          liveNow - routable);
    }
    boolean tellsError = (frame[3] >>> 32 & FrameBoard.FLAG_ERROR) != 0;
    if (tellsError != breaks()) {
      throw broken(
          Invariant.RANKS_AGREE,
          "tells %s broken batch, there is %s",
          tellsError ? "of a" : "of no",
          breaks() ? "one" : "none");
    }
    if (frame[HEADER_WORDS + RankState.ACTIVE_TOKENS] != loadNow) {
      throw broken(
          Invariant.ONE_FORMULA,
          "tells a load of %d tokens, it has %d",
          frame[HEADER_WORDS + RankState.ACTIVE_TOKENS],
          loadNow);
    }
  }

  /** Has a batch broken that the others haven't heard of? */
  boolean breaks() {
    return launchBroke >= 0 || collectBroke >= 0;
  }

  /** At the end of a world: nothing is taken. */
  void atRest() {
    if (lives + engine.seatsUsed() + engine.leasesUsed() + engine.pagesUsed() != 0) {
      throw broken(
          Invariant.RELEASED_ONCE,
          "at rest: %d live requests, %d seats, %d leases, %d pages",
          lives,
          engine.seatsUsed(),
          engine.leasesUsed(),
          engine.pagesUsed());
    }
    engine
        .kv()
        .ifPresent(kv -> {
          kv.check();
          if (kv.usage().open() != 0) {
            throw broken(
                Invariant.RELEASED_ONCE, "at rest %d sequences are open", kv.usage().open());
          }
        });
  }

  private BrokenInvariant broken(Invariant invariant, String what, Object... numbers) {
    return new BrokenInvariant(
        invariant,
        "rank %d%s: %s"
            .formatted(
                rank,
                config.stages() > 1 ? ", stage " + engine.stage() : "",
                what.formatted(numbers)));
  }
}
