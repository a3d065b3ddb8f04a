// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.journey.PagedDevice;
import dev.berth.journey.TinyTransformer;
import dev.berth.journey.TinyTransformer.SamplerRow;
import dev.berth.plan.TestSizes;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Deque;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.random.RandomGenerator;
import java.util.stream.IntStream;

/**
 * A random load of requests on one {@link KvCache}, run by a scheduler as plain as can be (first
 * come first served; who finds no page sends the youngest other back to recompute) and computed by
 * a {@link TinyTransformer} that knows keys, values and states only through the published tables.
 * What each request says must be what its prompt says alone.
 */
final class KvWorkload {
  private static final int LONGEST_PROMPT = 26;
  private static final int LONGEST_OUTPUT = 12;
  private static final int MOST_DRAFTS = 3;
  private static final int LEASES = 4;

  /** What happened; a suite of workloads in which something never happens says nothing of it. */
  enum Seen {
    REUSED,
    REUSED_IN_PART,
    REBASED,
    EVICTED,
    OFFLOADED,
    ONBOARDED,
    WAITED_FOR_THE_DISK,
    SUSPENDED,
    RECOMPUTED,
    CHUNKED,
    OVERLAPPED,
    DRAFT_ACCEPTED,
    DRAFT_REJECTED,
    BEAMS,
    NARROWED,
    WINDOW_LEFT,
    STATE_REUSED,
    PAST_ITS_END,
    PLANNED_DROP,
    RESET,
    KEPT_OWN_PAGES,
    MINIMAL,
    SNAPSHOT_REUSED,
    SCRATCH
  }

  /** When tokens are committed. */
  enum Commit {
    AT_LAUNCH,
    AT_SETTLE,
    AT_END
  }

  /** Layers of the model. */
  static final List<List<KvReach>> REACHES =
      List.of(
          List.of(KvReach.FULL, KvReach.FULL),
          List.of(KvReach.FULL, new KvReach.Window(5, 2)),
          List.of(KvReach.window(3), KvReach.FULL, new KvReach.Window(9, 0)),
          List.of(new KvReach.Window(7, 3), KvReach.window(4)),
          List.of(KvReach.FULL, KvReach.STATE),
          List.of(KvReach.window(6), KvReach.STATE, KvReach.FULL),
          List.of(KvReach.window(4), KvReach.window(4), KvReach.FULL, KvReach.window(4)),
          List.of(new KvReach.Window(3, 2), new KvReach.Window(3, 2)));

  private static final List<TinyTransformer> MODELS =
      REACHES.stream().map(reaches -> new TinyTransformer(7, reaches)).toList();

  /** How a workload is run. */
  record Policy(
      int reaches,
      int tokensPerBlock,
      KvConfig.Timing timing,
      int depth,
      int chunk,
      KvConfig.Partial partial,
      Commit commit,
      PagedDevice.Form form,
      int beams,
      int drafts,
      int tightness,
      int host,
      int disk,
      boolean epochs,
      boolean retention,
      boolean suspends) {

    static Policy random(RandomGenerator random) {
      int reaches = random.nextInt(REACHES.size());
      boolean state = REACHES.get(reaches).contains(KvReach.STATE);
      int depth = 1 + random.nextInt(2);
      return new Policy(
          reaches,
          1 + random.nextInt(5),
          KvConfig.Timing.values()[random.nextInt(2)],
          depth,
          random.nextBoolean() ? LONGEST_PROMPT + LONGEST_OUTPUT : 1 + random.nextInt(9),
          KvConfig.Partial.values()[random.nextInt(2)],
          Commit.values()[random.nextInt(3)],
          PagedDevice.Form.values()[random.nextInt(PagedDevice.Form.values().length)],
          state || random.nextInt(3) != 0 ? 1 : 2 + random.nextInt(2),
          state || random.nextBoolean() ? 0 : MOST_DRAFTS,
          random.nextInt(3),
          random.nextBoolean() ? 0 : random.nextInt(30),
          random.nextBoolean() ? 0 : random.nextInt(30),
          random.nextBoolean(),
          random.nextBoolean(),
          random.nextBoolean());
    }

    /** The same in what a test is about. */
    Policy with(
        int layers,
        KvConfig.Partial reuse,
        int width,
        int drafted,
        int inFlight,
        KvConfig.Timing when) {
      return new Policy(
          layers,
          tokensPerBlock,
          when,
          Math.max(1, inFlight),
          chunk,
          reuse,
          commit,
          form,
          width,
          drafted,
          tightness,
          host,
          disk,
          epochs,
          retention,
          suspends);
    }

    TinyTransformer model() {
      return MODELS.get(reaches);
    }

    KvLayout layout() {
      return KvLayout.plan(
          tokensPerBlock, PagedDevice.buffers(REACHES.get(reaches), tokensPerBlock));
    }
  }

  /** Something done to what the device reads; nothing, where the oracle must be satisfied. */
  static class Meddling {
    /** What was done. */
    int times;

    /** Before a batch is computed; the tables that attention reads instead. */
    KvTables tables(KvTables published, PagedDevice device, int rows, RandomGenerator random) {
      return published;
    }

    /**
     * After a resume.
     *
     * @param wrote whether it changed a page
     * @param undo puts every page back as it was before
     * @param redo puts every page back as it was after
     */
    void resumed(boolean wrote, Runnable undo, Runnable redo) {}

    /** Whether it wants to know what a resume wrote. */
    boolean watchesResumes() {
      return false;
    }
  }

  private final class Request {
    final int[] prompt;
    final int adapter;
    final int maxNew;
    final int beams;
    final boolean drafts;
    final List<List<Integer>> outputs = new ArrayList<>();
    final List<SamplerRow> samplers = new ArrayList<>();
    boolean done;
    boolean narrowed;

    // Of its present sequence.
    int incarnation;
    boolean open;
    long handle;
    int lease = -1;
    int width = 1; // beams that the sequence has
    int launched; // positions whose computation was launched
    int valid; // of these, positions whose tokens are known and stay
    int prefill; // tokens that were known when it was opened
    int committed;
    boolean stopped;
    boolean minimal;
    int inFlight;

    Request(int[] prompt, int adapter, int maxNew, int beams, boolean drafts) {
      this.prompt = prompt;
      this.adapter = adapter;
      this.maxNew = maxNew;
      this.beams = beams;
      this.drafts = drafts;
      for (int i = 0; i < beams; i++) {
        outputs.add(new ArrayList<>());
        samplers.add(new SamplerRow());
      }
    }

    KvScope scope() {
      return adapter == 0 ? KvScope.NONE : KvScope.lora(adapter);
    }

    int[] tokens() {
      int[] all = Arrays.copyOf(prompt, prompt.length + outputs.getFirst().size());
      for (int i = prompt.length; i < all.length; i++) {
        all[i] = outputs.getFirst().get(i - prompt.length);
      }
      return all;
    }

    boolean active() {
      return lease >= 0;
    }
  }

  private record Entry(
      Request request, int incarnation, int first, int[] inputs, int width, boolean token) {
    int count() {
      return inputs.length;
    }
  }

  private static final class Launch {
    final KvTables tables;
    final List<Entry> entries;
    final List<int[][]> sampled = new ArrayList<>(); // [entry][beam][tokens]
    boolean computed;

    Launch(KvTables tables, List<Entry> entries) {
      this.tables = tables;
      this.entries = entries;
    }
  }

  private final RandomGenerator random;
  private final Policy policy;
  private final Meddling meddling;
  private final TinyTransformer model;
  private final List<Request> requests = new ArrayList<>();
  private final List<int[]> history = new ArrayList<>();
  private final Deque<Launch> launches = new ArrayDeque<>();
  private final Set<Integer> leases = new TreeSet<>();
  private final List<Long> pins = new ArrayList<>();
  private final List<Long> plans = new ArrayList<>();
  private final Map<Seen, Integer> seen = new EnumMap<>(Seen.class);
  private final KvCache cache;
  private final KvOps ops;
  private final PagedDevice device;
  private final List<KvTables> ring = new ArrayList<>();
  private long launchNumber;
  private long settled;
  private long stream;
  private long now;

  KvWorkload(RandomGenerator random, Policy policy, Meddling meddling) {
    this.random = random;
    this.policy = policy;
    this.meddling = meddling;
    model = policy.model();
    KvLayout layout = policy.layout();
    int longest = LONGEST_PROMPT + LONGEST_OUTPUT + MOST_DRAFTS + 1;
    int blocks = (Math.ceilDiv(longest, policy.tokensPerBlock) + 3) / 4 * 4;
    long[] device = new long[layout.groups()];
    long index = 0;
    for (int l = 0; l < layout.lifeCycles(); l++) {
      boolean state = layout.lifeCycle(l).reach() instanceof KvReach.State;
      // One request alone always fits.
      long least = state ? 3 : (long) blocks * policy.beams + 2;
      device[layout.lifeCycle(l).group()] += least + random.nextInt(1 + blocks * policy.tightness);
      index += device[layout.lifeCycle(l).group()];
    }
    long[] host = new long[layout.groups()];
    long[] disk = new long[layout.groups()];
    Arrays.fill(host, policy.host);
    Arrays.fill(disk, policy.disk);
    var config =
        KvConfig.of(TestSizes.leases(LEASES), blocks, (int) index + policy.host + policy.disk)
            .withBeams(policy.beams)
            .withSequences(LEASES + 2, 3)
            .withScopes(3, 2)
            .withPartialReuse(policy.partial)
            .withTiming(policy.timing, policy.depth)
            .withMemory(KvConfig.Memory.HOST)
            .withTokenArena(4096);
    cache =
        KvCache.create(
            layout,
            config,
            KvSizes.device(device).with(KvLevel.HOST, host).with(KvLevel.DISK, disk),
            new KvDisk(Path.of(System.getProperty("java.io.tmpdir")), 2, 64));
    ops = cache.newOps(8);
    this.device = new PagedDevice(cache);
    for (int i = 0; i < policy.depth; i++) {
      int rows = (LEASES + 1) * policy.beams;
      ring.add(
          cache.newTables(
              new KvTables.Shape(
                  rows, rows * longest, (long) rows * blocks, layout.buffers().size())));
    }
    for (int lease = 0; lease < LEASES; lease++) {
      leases.add(lease);
    }
    if (random.nextInt(4) == 0) {
      cache.quota(1, 1 + random.nextInt(6));
    }
    for (int i = 0; i < 9; i++) {
      requests.add(request());
    }
  }

  /**
   * A prompt that begins as an earlier one, or goes on where an earlier request will have ended.
   */
  private Request request() {
    int[] prompt = new int[0];
    int adapter = random.nextInt(4) == 0 ? 5 : 0;
    int kept = 0;
    if (!requests.isEmpty() && random.nextInt(4) != 0) {
      Request old = requests.get(random.nextInt(requests.size()));
      prompt = said(old);
      if (random.nextBoolean() && prompt.length < LONGEST_PROMPT) {
        adapter = old.adapter;
        kept = prompt.length;
      } else {
        kept = random.nextInt(Math.min(prompt.length, LONGEST_PROMPT - 1) + 1);
      }
    }
    int room = LONGEST_PROMPT - kept;
    prompt = Arrays.copyOf(prompt, kept + 1 + random.nextInt(random.nextBoolean() ? room : 1));
    for (int i = kept; i < prompt.length; i++) {
      prompt[i] = random.nextInt(random.nextBoolean() ? 3 : TinyTransformer.VOCABULARY);
    }
    history.add(prompt);
    int beams = random.nextInt(3) == 0 ? policy.beams : 1;
    return new Request(
        prompt,
        adapter,
        1 + random.nextInt(LONGEST_OUTPUT),
        beams,
        beams == 1 && policy.drafts > 0 && random.nextBoolean());
  }

  /** A request's prompt and what it says alone. */
  private int[] said(Request r) {
    List<Integer> output = model.decode(r.prompt, r.adapter, r.maxNew);
    return IntStream.concat(Arrays.stream(r.prompt), output.stream().mapToInt(Integer::intValue))
        .toArray();
  }

  private void saw(Seen what) {
    saw(what, 1);
  }

  private void saw(Seen what, long times) {
    if (times > 0) {
      seen.merge(what, 1, Integer::sum);
    }
  }

  /** Runs it. */
  KvWorkload run() {
    try (cache) {
      int idle = 0;
      while (requests.stream().anyMatch(r -> !r.done) || !launches.isEmpty()) {
        boolean progress = launches.size() == policy.depth && settle();
        progress |= arrive();
        admit();
        chance();
        progress |= launch();
        cache.check();
        if (!progress) {
          progress = !launches.isEmpty() && settle();
        }
        idle = progress ? 0 : idle + 1;
        if (idle > 3) {
          makeRoom();
        }
        assertThat(idle).as("iterations without progress, %s", policy).isLessThan(40);
      }
      finish();
    }
    return this;
  }

  /** Some of what is on its way from and to the disk. */
  private boolean arrive() {
    if (launches.isEmpty() && cache.usage().underWay() > 0) {
      device(Long.MAX_VALUE);
    }
    return cache.settle(random.nextInt(8)) > 0;
  }

  private void finish() {
    device(Long.MAX_VALUE);
    while (cache.usage().underWay() > 0) {
      assertThat(cache.settle(1)).isEqualTo(1);
      device(Long.MAX_VALUE);
    }
    drop(pins);
    ops.clear();
    plans.forEach(ops::drop);
    assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
    KvUsage usage = cache.usage();
    saw(Seen.REBASED, usage.rebased());
    saw(Seen.EVICTED, usage.evicted());
    saw(Seen.OFFLOADED, usage.offloaded());
    saw(Seen.ONBOARDED, usage.onboarded());
    assertThat(usage.open()).isZero();
    cache.reset();
    cache.check();
    for (KvUsage.Pages pages : cache.usage().pages()) {
      assertThat(pages.free()).isEqualTo(pages.total());
    }
  }

  private void drop(List<Long> all) {
    all.forEach(cache::unpin);
    all.clear();
  }

  /** What happened. */
  Set<Seen> seen() {
    return seen.isEmpty() ? EnumSet.noneOf(Seen.class) : EnumSet.copyOf(seen.keySet());
  }

  /** What the requests said. */
  List<List<List<Integer>>> outputs() {
    return requests.stream().map(r -> r.outputs).toList();
  }

  /** What they say alone. */
  List<List<List<Integer>>> alone() {
    List<List<List<Integer>>> all = new ArrayList<>();
    for (Request r : requests) {
      List<List<Integer>> beams = new ArrayList<>();
      if (r.beams == 1) {
        beams.add(model.decode(r.prompt, r.adapter, r.maxNew));
      } else {
        for (int j = 0; j < r.beams; j++) {
          List<Integer> beam = model.decodeBeam(r.prompt, r.adapter, j, r.maxNew);
          beams.add(beam.subList(0, r.outputs.get(j).size()));
        }
        // Only a beam that was narrowed away may say less than it could.
        for (int j = 0; j < r.beams; j++) {
          int least = j == 0 || !r.narrowed ? r.maxNew : 1;
          assertThat(r.outputs.get(j)).hasSizeBetween(least, r.maxNew);
        }
      }
      all.add(beams);
    }
    return all;
  }

  // ------------------------------------------------------------------------------ admission

  private void admit() {
    for (Request r : requests) {
      if (!r.done && !r.open && r.inFlight == 0 && random.nextInt(4) != 0 && !open(r)) {
        break;
      }
    }
    for (Request r : requests) {
      if (r.open && !r.active() && !leases.isEmpty() && random.nextInt(4) != 0) {
        resume(r);
      }
    }
  }

  private boolean open(Request r) {
    int[] tokens = r.tokens();
    KvOps.Reuse reuse =
        random.nextInt(4) != 0
            ? KvOps.Reuse.FULL
            : KvOps.Reuse.values()[random.nextInt(KvOps.Reuse.values().length)];
    ops.clear();
    ops.open(r.scope(), random.nextInt(2), reuse, tokens);
    if (cache.apply(ops) != KvStatus.OK) {
      assertThat(ops.status(0)).isEqualTo(KvStatus.EXHAUSTED);
      return false;
    }
    r.open = true;
    r.handle = ops.handle(0);
    r.incarnation++;
    r.launched = r.valid = r.committed = ops.matched(0);
    r.prefill = tokens.length;
    r.width = 1;
    r.stopped = false;
    saw(Seen.REUSED, ops.matched(0));
    saw(Seen.REUSED_IN_PART, ops.partial(0));
    if (ops.matched(0) > 0 && REACHES.get(policy.reaches).contains(KvReach.STATE)) {
      saw(Seen.STATE_REUSED);
      saw(Seen.SNAPSHOT_REUSED, ops.partial(0));
    }
    if (reuse == KvOps.Reuse.KEEP_OWN_PAGES) {
      saw(Seen.KEPT_OWN_PAGES);
    }
    r.minimal = reuse == KvOps.Reuse.MIN_SNAPSHOT;
    if (policy.retention) {
      ops.clear();
      int split = random.nextInt(12);
      ops.retain(r.handle, 0, split + 1, random.nextInt(101), random.nextInt(50) - 1);
      ops.retain(r.handle, split + 1, -1, random.nextInt(101), random.nextInt(50) - 1);
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
    }
    return true;
  }

  private void resume(Request r) {
    List<Integer> free = List.copyOf(leases);
    int lease = free.get(random.nextInt(free.size()));
    List<byte[]> before = meddling.watchesResumes() ? bytes() : List.of();
    KvOutcome outcome = cache.resume(r.handle, lease * policy.beams);
    if (outcome instanceof KvOutcome.Done) {
      leases.remove(lease);
      r.lease = lease;
      if (meddling.watchesResumes()) {
        List<byte[]> after = bytes();
        boolean wrote =
            IntStream.range(0, after.size())
                .anyMatch(i -> !Arrays.equals(before.get(i), after.get(i)));
        meddling.resumed(wrote, () -> restore(before), () -> restore(after));
      }
      commit(r, r.valid);
    } else if (outcome instanceof KvOutcome.Pending) {
      saw(Seen.WAITED_FOR_THE_DISK);
    } else {
      assertThat(outcome).isInstanceOf(KvOutcome.PagesShort.class);
    }
  }

  /** Every page of the device. */
  private List<MemorySegment> pages() {
    KvLayout layout = cache.layout();
    List<MemorySegment> pages = new ArrayList<>();
    for (int pool = 0; pool < layout.pools(); pool++) {
      long n = cache.usage().pages(KvLevel.DEVICE, layout.pool(pool).group()).total();
      for (int slot = 0; slot < n; slot++) {
        pages.add(cache.page(KvLevel.DEVICE, pool, slot));
      }
    }
    return pages;
  }

  private List<byte[]> bytes() {
    return pages().stream().map(page -> page.toArray(JAVA_BYTE)).toList();
  }

  private void restore(List<byte[]> bytes) {
    List<MemorySegment> pages = pages();
    for (int i = 0; i < bytes.size(); i++) {
      pages.get(i).copyFrom(MemorySegment.ofArray(bytes.get(i)));
    }
  }

  /** Takes a request's row away: its pages stay. */
  private void suspend(Request r) {
    cache.suspend(r.handle);
    leases.add(r.lease);
    r.lease = -1;
    saw(Seen.SUSPENDED);
  }

  /** Ends the sequence; what it has stored stays for others, and for itself if it comes again. */
  private void close(Request r) {
    cache.close(r.handle);
    if (r.active()) {
      leases.add(r.lease);
    }
    r.lease = -1;
    r.open = false;
  }

  private void recompute(Request r) {
    close(r);
    if (r.beams > 1) {
      // Beams begin again from the prompt.
      r.outputs.forEach(List::clear);
      r.samplers.forEach(SamplerRow::begin);
      r.narrowed = false;
    }
    saw(Seen.RECOMPUTED);
  }

  private void makeRoom() {
    drop(pins);
    List<Request> open = requests.stream().filter(r -> r.open).toList();
    for (int i = 1; i < open.size(); i++) {
      recompute(open.get(i));
    }
  }

  /** What may happen at any time. */
  private void chance() {
    if (policy.suspends && random.nextInt(5) == 0) {
      requests.stream().filter(Request::active).findAny().ifPresent(this::suspend);
    }
    if (random.nextInt(10) == 0 && !history.isEmpty()) {
      int[] prompt = history.get(random.nextInt(history.size()));
      if (cache.pin(KvScope.NONE, prompt) instanceof KvOutcome.Done pin && pin.handle() != 0) {
        pins.add(pin.handle());
      }
    }
    if (random.nextInt(6) == 0 && !pins.isEmpty()) {
      cache.unpin(pins.remove(random.nextInt(pins.size())));
    }
    if (random.nextInt(60) == 0) {
      cache.reset();
      saw(Seen.RESET);
    }
    if (random.nextInt(4) == 0) {
      now += random.nextInt(20);
      cache.clock(now);
    }
    if (!plans.isEmpty() && random.nextInt(6) == 0) {
      ops.clear();
      ops.drop(plans.removeLast());
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
      saw(Seen.PLANNED_DROP);
    }
  }

  // ------------------------------------------------------------------------------ launching

  /** A batch of whoever has something to compute and finds the pages for it. */
  private boolean launch() {
    List<Entry> entries = new ArrayList<>();
    for (Request r : requests) {
      if (r.active() && !r.done) {
        schedule(r, entries);
      }
    }
    entries.removeIf(e -> !e.request.open || e.request.incarnation != e.incarnation);
    if (entries.isEmpty()) {
      return false;
    }
    entries.sort(Comparator.comparingInt(Entry::width));
    int contexts = (int) entries.stream().filter(e -> e.width == 1).count();
    int beam = contexts == entries.size() ? 1 : policy.beams;
    KvTables tables = ring.get((int) (launchNumber % policy.depth));
    tables.clear();
    for (Entry e : entries) {
      tables.add(e.request.handle, e.count());
    }
    var padding = KvTables.Padding.values()[random.nextInt(2)];
    assertThat(cache.prepare(tables, padding, contexts, beam)).isEqualTo(KvStatus.OK);
    var launch = new Launch(tables, entries);
    launches.addLast(launch);
    launchNumber++;
    if (policy.epochs) {
      cache.epochs(launchNumber, settled);
    }
    if (launches.size() > 1) {
      saw(Seen.OVERLAPPED);
    }
    if (policy.timing == KvConfig.Timing.SYNCHRONOUS) {
      compute(launch);
    }
    for (Entry e : entries) {
      Request r = e.request;
      r.launched = e.first + e.count();
      r.inFlight++;
      if (policy.commit == Commit.AT_LAUNCH && r.launched <= r.prefill) {
        commit(r, r.launched);
      }
    }
    return true;
  }

  private void schedule(Request r, List<Entry> entries) {
    int known = r.prompt.length + r.outputs.getFirst().size();
    int[] inputs;
    boolean token;
    if (r.launched < r.prefill) {
      int end = Math.min(r.prefill, r.launched + policy.chunk);
      inputs = Arrays.copyOfRange(r.tokens(), r.launched, end);
      token = end == r.prefill;
      if (!token) {
        saw(Seen.CHUNKED);
      }
    } else {
      // Tokens under way count as said: nothing is launched beyond the limit, but maybe beyond the
      // end.
      int made = r.launched - r.prefill + 1 + r.prefill - r.prompt.length;
      if (made >= r.maxNew || (r.inFlight > 0 && (r.drafts || r.beams > 1))) {
        return;
      }
      if (r.beams > 1 && r.width == 1 && !r.narrowed && !widen(r)) {
        return;
      }
      if (r.width > 1 && !r.narrowed && random.nextInt(12) == 0) {
        narrow(r);
      }
      token = true;
      inputs = new int[1 + (r.drafts ? drafts(r.maxNew - made - 1) : 0)];
      if (r.inFlight == 0) {
        assertThat(r.launched).isEqualTo(known - 1);
      }
      for (int i = 1; i < inputs.length; i++) {
        inputs[i] = draft(r, known - r.prompt.length + i - 1);
      }
    }
    if (room(r, r.launched + inputs.length)) {
      entries.add(new Entry(r, r.incarnation, r.launched, inputs, r.width, token));
    }
  }

  private int drafts(int most) {
    return Math.clamp(random.nextInt(policy.drafts + 1), 0, Math.max(0, most));
  }

  /** Often right. */
  private int draft(Request r, int output) {
    List<Integer> alone = model.decode(r.prompt, r.adapter, r.maxNew);
    return output < alone.size() && random.nextInt(3) != 0
        ? alone.get(output)
        : random.nextInt(TinyTransformer.VOCABULARY);
  }

  private boolean widen(Request r) {
    ops.clear();
    // What the beams share is what the history says is computed.
    ops.resize(r.handle, r.launched, r.launched);
    ops.stop(r.handle);
    ops.widen(r.handle, r.beams);
    KvStatus status = cache.apply(ops);
    if (status != KvStatus.OK) {
      assertThat(status).isEqualTo(KvStatus.EXHAUSTED);
      return false;
    }
    r.stopped = true;
    r.width = r.beams;
    saw(Seen.BEAMS);
    return true;
  }

  private void narrow(Request r) {
    ops.clear();
    ops.widen(r.handle, 1);
    assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
    r.width = 1;
    r.narrowed = true;
    saw(Seen.NARROWED);
  }

  /** Room for so many tokens, if need be at the cost of younger requests. */
  private boolean room(Request r, int capacity) {
    while (true) {
      ops.clear();
      boolean chunk = policy.form == PagedDevice.Form.BUFFERS && capacity <= r.prefill;
      if (chunk) {
        ops.resizeChunk(r.handle, capacity, r.launched);
      } else {
        ops.resize(r.handle, capacity, r.launched);
      }
      KvStatus status = cache.apply(ops);
      if (status == KvStatus.OK) {
        if (chunk) {
          sharedSlots(r);
        }
        return true;
      }
      assertThat(status).isEqualTo(KvStatus.EXHAUSTED);
      assertThat(ops.shortPages(0)).isPositive();
      List<Request> younger =
          requests.subList(requests.indexOf(r) + 1, requests.size()).stream()
              .filter(other -> other.open)
              .toList();
      if (younger.isEmpty()) {
        return false;
      }
      recompute(younger.getLast());
    }
  }

  private void sharedSlots(Request r) {
    for (int l = 0; l < cache.layout().lifeCycles(); l++) {
      if (Arrays.stream(cache.pages(r.handle, l, 0)).anyMatch(page -> page < -1)) {
        saw(Seen.SCRATCH);
      }
    }
  }

  // ------------------------------------------------------------------------------ the device

  /** The stream gets as far as a batch's tables. */
  private void device(long step) {
    if (policy.timing == KvConfig.Timing.EMULATION && step > stream) {
      stream += cache.run((int) Math.min(Integer.MAX_VALUE, step - stream));
    }
  }

  private void compute(Launch launch) {
    device(launch.tables.step());
    launch.computed = true;
    KvTables tables = meddling.tables(launch.tables, device, launch.tables.rows(), random);
    int row = 0;
    int query = 0;
    for (Entry e : launch.entries) {
      int[][] sampled = new int[e.width][];
      for (int beam = 0; beam < e.width; beam++) {
        var view = device.view(tables, launch.tables, policy.form, row + beam, row, query, e.first);
        sampled[beam] = compute(e, beam, view);
        query += e.count();
      }
      row += e.width;
      launch.sampled.add(sampled);
    }
  }

  private int[] compute(Entry e, int beam, TinyTransformer.Cache view) {
    Request r = e.request;
    SamplerRow sampler = r.samplers.get(beam);
    boolean generation = e.first >= r.prefill;
    double[][] x = new double[e.count()][];
    for (int t = 0; t < x.length; t++) {
      int token = generation && t == 0 ? sampler.lastToken() : e.inputs[t];
      x[t] = model.embed(token, e.first + t, r.adapter);
    }
    for (int layer = 0; layer < model.layers(); layer++) {
      x = model.layer(layer, x, e.first, view);
    }
    if (!e.token) {
      return new int[0];
    }
    if (!generation) {
      if (r.beams > 1) {
        return firstTokens(r, x[x.length - 1]);
      }
      return new int[] {model.sample(x[x.length - 1], sampler)};
    }
    int[] tokens = new int[x.length];
    for (int t = 0; t < x.length; t++) {
      tokens[t] = model.sample(x[t], sampler);
      if (t + 1 == x.length || tokens[t] != e.inputs[t + 1]) {
        return Arrays.copyOf(tokens, t + 1);
      }
    }
    return tokens;
  }

  /** Every beam begins with another token. */
  private int[] firstTokens(Request r, double[] x) {
    return IntStream.range(0, r.beams)
        .map(j -> {
          r.samplers.get(j).begin();
          return model.sample(x, r.samplers.get(j), j);
        })
        .toArray();
  }

  // ------------------------------------------------------------------------------ settling

  private boolean settle() {
    Launch launch = launches.removeFirst();
    if (!launch.computed) {
      compute(launch);
    }
    settled++;
    if (policy.epochs) {
      cache.epochs(launchNumber, settled);
    }
    for (int i = 0; i < launch.entries.size(); i++) {
      settle(launch.entries.get(i), launch.sampled.get(i));
    }
    return true;
  }

  private void settle(Entry e, int[][] sampled) {
    Request r = e.request;
    r.inFlight--;
    if (r.done) {
      saw(Seen.PAST_ITS_END);
      return;
    }
    boolean same = r.open && r.incarnation == e.incarnation;
    if (r.beams > 1) {
      if (same) {
        beams(r, e, sampled);
      }
    } else {
      for (int token : sampled[0]) {
        if (!ended(r)) {
          r.outputs.getFirst().add(token);
        }
      }
      if (same) {
        int kept = e.token && e.first >= r.prefill ? sampled[0].length : e.count();
        r.valid = e.first + kept;
        if (kept < e.count()) {
          saw(Seen.DRAFT_REJECTED);
          r.launched = r.valid;
          if (r.active()) {
            ops.clear();
            ops.resize(r.handle, r.launched);
            assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
          }
        }
        if (kept > 1 && e.first >= r.prefill) {
          saw(Seen.DRAFT_ACCEPTED);
        }
      }
    }
    if (ended(r)) {
      r.done = true;
      end(r);
    } else if (same) {
      commit(r, r.valid);
    }
  }

  private boolean ended(Request r) {
    List<Integer> output = r.outputs.getFirst();
    return output.size() == r.maxNew
        || (r.beams == 1 && !output.isEmpty() && output.getLast() < TinyTransformer.END_TOKENS);
  }

  private void beams(Request r, Entry e, int[][] sampled) {
    r.valid = e.first + e.count();
    if (!e.token) {
      return;
    }
    boolean prefill = e.first < r.prefill;
    for (int j = 0; j < (prefill ? r.beams : e.width); j++) {
      r.outputs.get(j).add(prefill ? sampled[0][j] : sampled[j][0]);
    }
  }

  /** Commits what is known up to a position. */
  private void commit(Request r, int to) {
    if (policy.commit != Commit.AT_END && committable(r, to) && r.width == 1) {
      ops.clear();
      ops.commit(r.handle, Arrays.copyOfRange(r.tokens(), r.committed, Math.max(r.committed, to)));
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
      r.committed = Math.max(r.committed, to);
      leftWindows(r);
    }
  }

  /** A minimal snapshot is of a history: its commits begin or end there. */
  private boolean committable(Request r, int to) {
    if (!r.active() || r.stopped) {
      return false;
    }
    int history = cache.sequence(r.handle).history();
    boolean snapshot = r.committed == history || Math.max(r.committed, to) == history;
    if (r.minimal && snapshot) {
      saw(Seen.MINIMAL);
    }
    return !r.minimal || snapshot;
  }

  private void leftWindows(Request r) {
    for (int l = 0; l < cache.layout().lifeCycles(); l++) {
      if (cache.layout().lifeCycle(l).reach() instanceof KvReach.Window
          && Arrays.stream(cache.pages(r.handle, l, 0)).anyMatch(page -> page < 0)) {
        saw(Seen.WINDOW_LEFT);
      }
    }
  }

  private void end(Request r) {
    history.add(r.tokens());
    if (!r.open) {
      return;
    }
    // What was launched past the end is in the cache, but nobody's.
    int to = Math.max(r.committed, r.valid);
    if (committable(r, to) && r.width == 1 && random.nextInt(4) != 0) {
      ops.clear();
      int[] rest = Arrays.copyOfRange(r.tokens(), r.committed, to);
      if (random.nextBoolean()) {
        ops.commitLast(r.handle, rest);
      } else {
        ops.commit(r.handle, rest);
        ops.stop(r.handle);
      }
      if (random.nextBoolean()) {
        ops.planDrop(r.handle);
      }
      KvStatus status = cache.apply(ops);
      if (ops.size() > 1 && ops.handle(ops.size() - 1) != r.handle) {
        plan(ops.handle(ops.size() - 1));
      }
      assertThat(status).isIn(KvStatus.OK, KvStatus.EXHAUSTED);
    }
    close(r);
  }

  private void plan(long plan) {
    if (plan != 0) {
      plans.add(plan);
    }
  }
}
