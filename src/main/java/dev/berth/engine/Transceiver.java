// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.kv.KvConfig;
import dev.berth.kv.KvLayout;
import dev.berth.kv.KvLevel;
import dev.berth.kv.KvReach;
import dev.berth.kv.KvView;
import dev.berth.transfer.Completion;
import dev.berth.transfer.ConnectOutcome;
import dev.berth.transfer.FetchOutcome;
import dev.berth.transfer.KvTransport;
import dev.berth.transfer.LeaseEnd;
import dev.berth.transfer.LeaseId;
import dev.berth.transfer.MemoryKind;
import dev.berth.transfer.PageGeometry;
import dev.berth.transfer.PageList;
import dev.berth.transfer.Peer;
import dev.berth.transfer.PeerTicket;
import dev.berth.transfer.Region;
import dev.berth.transfer.TransferId;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Joins the KV caches of one rank, of all its stages, with a {@link KvTransport}: offers what rows
 * in state 21 computed, fetches what rows in state 9 need, and tells the rank how each of them
 * ended, once.
 *
 * <p>What keeps pages safe: a row that receives is told to be arrived or failed only when nobody
 * writes its pages any more, a row that sends is told to be sent or failed only when all of its
 * leases have ended. Between the two nothing is freed, whatever was cancelled meanwhile.
 *
 * <p>Times are µs of the transport's clock. For the thread of the rank.
 */
public final class Transceiver implements AutoCloseable {
  private static final int AT_A_TIME = 64;

  /** Of a pool whose pages nobody needs any more. */
  private static final LeaseId NOTHING = new LeaseId(-1);

  /** Pools of others that one rank can fetch from. */
  static final int MOST_PEERS = 1 << 16;

  /**
   * Bounds in time.
   *
   * @param transferMicros most µs from when a row asks for its KV until it is there, 1 or more
   * @param leaseMicros most µs that KV waits to be taken, more than a transfer may last
   * @param model both sides must name the same: weights, precision, share of a tensor-parallel
   *     group
   */
  public record Options(long transferMicros, long leaseMicros, String model) {
    /** Ten seconds a transfer, sixty a lease. */
    public static final Options DEFAULT = new Options(10_000_000, 60_000_000, "");

    public Options {
      if (transferMicros < 1 || leaseMicros <= transferMicros) {
        throw new BerthException(
            Code.CONFIGURATION,
            "%d µs a transfer and %d µs a lease: 1 or more, and the lease the longer one"
                .formatted(transferMicros, leaseMicros));
      }
    }

    /** The same for another model. */
    public Options withModel(String name) {
      return new Options(transferMicros, leaseMicros, name);
    }

    /** The same with other times. */
    public Options withTimes(long transfer, long lease) {
      return new Options(transfer, lease, model);
    }
  }

  /** Hears how each row's transfer ended, once. */
  public interface Listener {
    /** The KV of a row is here. */
    default void arrived(int row, long requestId, int firstToken) {}

    /** The KV of a row will not come. */
    default void notArrived(int row, long requestId, String why) {}

    /** The KV of a row was taken. */
    default void sent(int row, long requestId) {}

    /** The KV of a row was not taken, or not as a whole. */
    default void notSent(int row, long requestId, String why) {}
  }

  /** Fetches of one row. */
  private static final class Receiving {
    final int row;
    final long id;
    final long due;
    final List<Fetch> fetches = new ArrayList<>();
    boolean begun;
    int firstToken = -1;
    String failure = "";

    Receiving(int row, long id, long due) {
      this.row = row;
      this.id = id;
      this.due = due;
    }

    void fail(String why) {
      failure = failure.isEmpty() ? why : failure;
    }
  }

  /** Pages of one pool. */
  private static final class Fetch {
    final Receiving of;
    final Region region;
    final Peer peer;
    final LeaseId lease;
    final PageList local;
    final PageList remote;
    @Nullable TransferId id;
    boolean over;
    boolean quiesced = true;

    Fetch(Receiving of, Region region, Peer peer, LeaseId lease, PageList local, PageList remote) {
      this.of = of;
      this.region = region;
      this.peer = peer;
      this.lease = lease;
      this.local = local;
      this.remote = remote;
    }
  }

  /** Leases of one row. */
  private static final class Sending {
    final int row;
    final long id;
    final List<LeaseId> leases = new ArrayList<>();
    String failure = "";

    Sending(int row, long id) {
      this.row = row;
      this.id = id;
    }
  }

  /** A pool of another rank, as one of this rank's pools sees it. */
  private record Remote(PeerTicket ticket, Region region) {}

  private final KvTransport transport;
  private final List<RankEngine> stages;
  private final Options options;
  private final Listener listener;
  private final List<List<Region>> regions = new ArrayList<>(); // [stage][pool]
  private final List<List<PeerTicket>> tickets = new ArrayList<>();
  private final Map<Remote, Peer> peers = new HashMap<>();
  private final Map<Integer, Receiving> receiving = new LinkedHashMap<>(); // by row
  private final Map<TransferId, Fetch> underWay = new HashMap<>();
  private final Map<Integer, Sending> sending = new LinkedHashMap<>(); // by row
  private final Map<LeaseId, Sending> byLease = new HashMap<>();
  private final Completion[] completions = new Completion[AT_A_TIME];
  private final LeaseEnd[] leaseEnds = new LeaseEnd[AT_A_TIME];

  /**
   * Registers the pools of a rank. The transport is this object's from now on.
   *
   * @param stages the rank's engines, first stage first; they outlive this
   * @throws BerthException CONFIGURATION if a stage has no pages with memory
   */
  public Transceiver(
      KvTransport transport, List<RankEngine> stages, Options options, Listener listener) {
    this.transport = transport;
    this.stages = List.copyOf(stages);
    this.options = options;
    this.listener = listener;
    for (RankEngine engine : this.stages) {
      KvView cache = requireMemory(engine);
      var own = new ArrayList<Region>();
      var named = new ArrayList<PeerTicket>();
      for (int pool = 0; pool < cache.layout().pools(); pool++) {
        Region region =
            transport.register(
                cache.pool(pool), MemoryKind.HOST, geometry(cache, pool, engine.stage()));
        own.add(region);
        // An address, of use with a lease only: it needs no end of its own.
        named.add(transport.ticket(region, Long.MAX_VALUE));
      }
      regions.add(own);
      tickets.add(named);
    }
  }

  private static KvView requireMemory(RankEngine engine) {
    return engine
        .kv()
        .filter(view -> view.config().memory() != KvConfig.Memory.NONE)
        .orElseThrow(() ->
            new BerthException(
                Code.CONFIGURATION,
                "rank %d, stage %d has no KV pages with memory: there is nothing to transfer"
                    .formatted(engine.rank(), engine.stage())));
  }

  private PageGeometry geometry(KvView cache, int pool, int stage) {
    KvLayout layout = cache.layout();
    KvLayout.Pool it = layout.pool(pool);
    long pages = cache.usage().pages(KvLevel.DEVICE, it.group()).total();
    return new PageGeometry(
        it.slotBytes(),
        Math.toIntExact(pages),
        layout.tokensPerBlock(),
        "%s; stage %d of %d; pool %d of %s"
            .formatted(options.model(), stage, stages.size(), pool, layout.buffers()));
  }

  // ------------------------------------------------------------------------------ sending

  /**
   * Offers what a row in state 21 computed. It ends when {@link Listener#sent} or {@link
   * Listener#notSent} tells of it.
   *
   * @param firstToken the token that it made, -1 if it isn't known
   */
  public KvHandoff offer(int row, int firstToken, long now) {
    RankEngine first = stages.getFirst();
    int prompt = first.table().promptTokens(row);
    var flow = new Sending(row, first.table().id(row));
    var parts = new ArrayList<KvHandoff.Stage>();
    for (int stage = 0; stage < stages.size(); stage++) {
      parts.add(offer(flow, stage, now));
    }
    sending.put(row, flow);
    return new KvHandoff(prompt, firstToken, parts);
  }

  /** Nobody needs what a row in state 21 computed: it ends as if it had been taken. */
  public void keep(int row) {
    sending.put(row, new Sending(row, stages.getFirst().table().id(row)));
  }

  private KvHandoff.Stage offer(Sending flow, int stage, long now) {
    RankEngine engine = stages.get(stage);
    KvLayout layout = engine.kv().orElseThrow().layout();
    int prompt = engine.table().promptTokens(flow.row);
    var all = new ArrayList<KvHandoff.Blocks>();
    for (int l = 0; l < layout.lifeCycles(); l++) {
      all.add(held(engine, flow.row, l, Math.ceilDiv(prompt, layout.tokensPerBlock())));
    }
    var offers = new ArrayList<KvHandoff.Offer>();
    for (int pool = 0; pool < layout.pools(); pool++) {
      PageList pages = ofGroup(layout, layout.pool(pool).group(), all);
      LeaseId lease = NOTHING;
      if (pages.size() > 0) {
        lease = transport.offer(regions.get(stage).get(pool), pages, now + options.leaseMicros());
        flow.leases.add(lease);
        byLease.put(lease, flow);
      }
      offers.add(new KvHandoff.Offer(tickets.get(stage).get(pool), lease));
    }
    return new KvHandoff.Stage(offers, all);
  }

  private static KvHandoff.Blocks held(RankEngine engine, int row, int lifeCycle, int blocks) {
    int[] pages = engine.pagesOf(row, lifeCycle);
    int n = Math.min(pages.length, blocks);
    List<Integer> numbers = IntStream.range(0, n).filter(b -> pages[b] >= 0).boxed().toList();
    return new KvHandoff.Blocks(
        numbers, PageList.of(numbers.stream().mapToInt(b -> pages[b]).toArray()));
  }

  private static PageList ofGroup(KvLayout layout, int group, List<KvHandoff.Blocks> all) {
    return PageList.of(
        IntStream.range(0, layout.lifeCycles())
            .filter(l -> layout.lifeCycle(l).group() == group)
            .mapToObj(l -> all.get(l).pages())
            .flatMapToInt(pages -> IntStream.range(0, pages.size()).map(pages::get))
            .toArray());
  }

  // ------------------------------------------------------------------------------ receiving

  /**
   * A row came to state 9. It ends when {@link Listener#arrived} or {@link Listener#notArrived}
   * tells of it: without a {@link #fetch} when its time is over.
   */
  public void expect(int row, long requestId, long now) {
    receiving.put(row, new Receiving(row, requestId, now + options.transferMicros()));
  }

  /**
   * Where the KV of a row that is expected can be fetched. A second one changes nothing.
   *
   * @param handoff from elsewhere: what is wrong with it ends the row's transfer
   */
  public void fetch(int row, long requestId, KvHandoff handoff) {
    Receiving flow = receiving.get(row);
    if (flow == null || flow.id != requestId || flow.begun || !flow.failure.isEmpty()) {
      return;
    }
    flow.begun = true;
    flow.firstToken = handoff.firstToken();
    Optional<String> wrong = plan(flow, handoff);
    if (wrong.isPresent()) {
      flow.fetches.clear();
      flow.fail(wrong.get());
    }
  }

  /** What is to be fetched; or why it can't be. */
  private Optional<String> plan(Receiving flow, KvHandoff handoff) {
    int prompt = stages.getFirst().table().promptTokens(flow.row);
    if (handoff.promptTokens() != prompt) {
      return Optional.of(
          "the KV of %d tokens for a prompt of %d".formatted(handoff.promptTokens(), prompt));
    }
    if (handoff.stages().size() != stages.size()) {
      return Optional.of(
          "the KV of %d stages for %d".formatted(handoff.stages().size(), stages.size()));
    }
    for (int stage = 0; stage < stages.size(); stage++) {
      Optional<String> wrong = plan(flow, stage, handoff.stages().get(stage));
      if (wrong.isPresent()) {
        return wrong;
      }
    }
    return Optional.empty();
  }

  private Optional<String> plan(Receiving flow, int stage, KvHandoff.Stage part) {
    RankEngine engine = stages.get(stage);
    KvLayout layout = engine.kv().orElseThrow().layout();
    if (part.offers().size() != layout.pools() || part.blocks().size() != layout.lifeCycles()) {
      return Optional.of(
          "%d pools and %d life cycles, here %d and %d"
              .formatted(
                  part.offers().size(), part.blocks().size(), layout.pools(), layout.lifeCycles()));
    }
    var here = new ArrayList<KvHandoff.Blocks>();
    for (int l = 0; l < layout.lifeCycles(); l++) {
      List<Integer> blocks = part.blocks().get(l).numbers();
      OptionalInt missing = missing(layout, l, engine.table().promptTokens(flow.row), blocks);
      if (missing.isPresent()) {
        return Optional.of(
            "block %d of life cycle %d isn't there".formatted(missing.getAsInt(), l));
      }
      int[] own = engine.pagesOf(flow.row, l);
      if (blocks.stream().anyMatch(b -> b >= own.length || own[b] < 0)) {
        return Optional.of("life cycle %d has blocks that there is no page for".formatted(l));
      }
      here.add(
          new KvHandoff.Blocks(
              blocks, PageList.of(blocks.stream().mapToInt(b -> own[b]).toArray())));
    }
    for (int pool = 0; pool < layout.pools(); pool++) {
      int group = layout.pool(pool).group();
      PageList remote;
      try {
        remote = ofGroup(layout, group, part.blocks());
      } catch (BerthException e) {
        return Optional.of(String.valueOf(e.getMessage()));
      }
      if (remote.size() == 0) {
        continue;
      }
      KvHandoff.Offer offer = part.offers().get(pool);
      Region region = regions.get(stage).get(pool);
      var key = new Remote(offer.ticket(), region);
      Peer peer = peers.get(key);
      if (peer == null) {
        if (peers.size() >= MOST_PEERS) {
          return Optional.of("a rank fetches from %d pools at most".formatted(MOST_PEERS));
        }
        switch (transport.connect(offer.ticket(), region)) {
          case ConnectOutcome.Refused(String reason) -> {
            return Optional.of("its ticket is refused: " + reason);
          }
          case ConnectOutcome.Connected(Peer connected) -> peer = connected;
        }
        peers.put(key, peer);
      }
      PageList local = ofGroup(layout, group, here);
      flow.fetches.add(new Fetch(flow, region, peer, offer.lease(), local, remote));
    }
    return Optional.empty();
  }

  /** The first block that what follows a prompt reads and that isn't among these (spec 03 §10). */
  static OptionalInt missing(KvLayout layout, int lifeCycle, int prompt, List<Integer> blocks) {
    int perBlock = layout.tokensPerBlock();
    int all = Math.ceilDiv(prompt, perBlock);
    IntStream needed =
        switch (layout.lifeCycle(lifeCycle).reach()) {
          case KvReach.Full ignored -> IntStream.range(0, all);
          case KvReach.State ignored -> IntStream.of(0);
          case KvReach.Window(int tokens, int sinks) ->
              IntStream.range(0, all)
                  .filter(b -> b * perBlock < sinks || (b + 1L) * perBlock > prompt + 1L - tokens);
        };
    var there = new HashSet<>(blocks);
    return needed.filter(b -> !there.contains(b)).findFirst();
  }

  // ------------------------------------------------------------------------------ both

  /** Nobody wants a row's request any more: its transfer ends as soon as it can. */
  public void giveUp(int row, long requestId) {
    Receiving in = receiving.get(row);
    if (in != null && in.id == requestId) {
      in.fail("it was given up");
    }
    Sending out = sending.get(row);
    if (out != null && out.id == requestId) {
      fail(out, "it was given up");
    }
  }

  private void fail(Sending flow, String why) {
    if (flow.failure.isEmpty()) {
      flow.failure = why;
      flow.leases.forEach(transport::withdraw);
    }
  }

  /** Transfers that haven't ended. */
  public int underWay() {
    return receiving.size() + sending.size();
  }

  /** Lets things move, begins what waits, and tells the rank what ended. */
  public void poll(long now) {
    int n = transport.poll(completions);
    for (int i = 0; i < n; i++) {
      ended(completions[i]);
    }
    n = transport.pollLeases(leaseEnds);
    for (int i = 0; i < n; i++) {
      ended(leaseEnds[i]);
    }
    Arrays.fill(completions, null);
    Arrays.fill(leaseEnds, null);
    for (Iterator<Receiving> all = receiving.values().iterator(); all.hasNext(); ) {
      Receiving flow = all.next();
      if (goesOn(flow, now)) {
        continue;
      }
      if (!room()) {
        return;
      }
      all.remove();
      tell(flow);
    }
    for (Iterator<Sending> all = sending.values().iterator(); all.hasNext(); ) {
      Sending flow = all.next();
      if (!flow.leases.isEmpty()) {
        continue;
      }
      if (!room()) {
        return;
      }
      all.remove();
      tell(flow);
    }
  }

  private boolean room() {
    return stages.stream().allMatch(engine -> engine.changeRoom() > 0);
  }

  private void ended(Completion completion) {
    Fetch fetch = underWay.remove(completion.id());
    if (fetch == null) {
      return;
    }
    fetch.over = true;
    fetch.quiesced = completion.quiesced();
    if (completion.outcome() != Completion.Outcome.DONE) {
      fetch.of.fail(completion.outcome() + ": " + completion.detail());
    }
  }

  private void ended(LeaseEnd end) {
    Sending flow = byLease.remove(end.id());
    if (flow == null) {
      return;
    }
    flow.leases.remove(end.id());
    if (end.reason() != LeaseEnd.Reason.READ) {
      fail(flow, "its pages weren't taken: " + end.reason());
    }
  }

  /** Begins what can begin. False: it is over. */
  private boolean goesOn(Receiving flow, long now) {
    if (flow.failure.isEmpty() && now >= flow.due) {
      flow.fail(flow.begun ? "it took too long" : "nobody said where it is");
    }
    boolean over = flow.begun || !flow.failure.isEmpty();
    for (Fetch fetch : flow.fetches) {
      if (!flow.failure.isEmpty()) {
        stop(fetch);
      } else if (fetch.id == null) {
        begin(fetch);
      }
      over &= fetch.over && quiesced(fetch);
    }
    return !over;
  }

  private void begin(Fetch fetch) {
    FetchOutcome outcome =
        transport.fetch(
            fetch.peer, fetch.lease, fetch.region, fetch.local, fetch.remote, fetch.of.due);
    if (outcome instanceof FetchOutcome.Started(TransferId id)) {
      fetch.id = id;
      underWay.put(id, fetch);
    } // else as much is on the way as may be: the pages are there, it waits
  }

  private void stop(Fetch fetch) {
    if (fetch.id == null) {
      fetch.over = true;
    } else if (!fetch.over) {
      transport.cancel(fetch.id);
    }
  }

  private boolean quiesced(Fetch fetch) {
    if (!fetch.quiesced && fetch.id != null) {
      fetch.quiesced = transport.quiesced(fetch.id);
    }
    return fetch.quiesced;
  }

  private void tell(Receiving flow) {
    for (RankEngine engine : stages) {
      if (flow.failure.isEmpty()) {
        engine.transferArrived(flow.row, flow.id, flow.firstToken);
      } else {
        engine.transferFailed(flow.row, flow.id);
      }
    }
    if (flow.failure.isEmpty()) {
      listener.arrived(flow.row, flow.id, flow.firstToken);
    } else {
      listener.notArrived(flow.row, flow.id, flow.failure);
    }
  }

  private void tell(Sending flow) {
    for (RankEngine engine : stages) {
      if (flow.failure.isEmpty()) {
        engine.transferSent(flow.row, flow.id);
      } else {
        engine.transferFailed(flow.row, flow.id);
      }
    }
    if (flow.failure.isEmpty()) {
      listener.sent(flow.row, flow.id);
    } else {
      listener.notSent(flow.row, flow.id, flow.failure);
    }
  }

  /** Ends all transfers and the transport; the rank is told of nothing more. */
  @Override
  public void close() {
    transport.close();
    receiving.clear();
    sending.clear();
    underWay.clear();
    byLease.clear();
  }
}
