// SPDX-License-Identifier: Apache-2.0
package dev.berth.transfer;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.BitSet;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * The transport between caches of one process: it reads the peer's pages and writes its own, page
 * by page as it is polled. All transports of a {@link Network} are for one thread.
 */
public final class InProcessTransport implements KvTransport {
  /**
   * What can be chosen.
   *
   * @param bytesInFlight most bytes on the way from one peer, 1 or more; a single fetch may be
   *     larger
   * @param bytesPerPoll most bytes that a poll moves, 1 or more; a page is moved whole
   * @param checksums whether each page is checked after it was moved
   */
  public record Options(long bytesInFlight, long bytesPerPoll, Checksums checksums) {
    /** Nothing is held back, nothing checked. */
    public static final Options DEFAULTS =
        new Options(Long.MAX_VALUE, Long.MAX_VALUE, Checksums.OFF);

    public Options {
      if (bytesInFlight < 1 || bytesPerPoll < 1) {
        throw new BerthException(
            Code.CONFIGURATION,
            "%d bytes in flight, %d a poll: both 1 or more".formatted(bytesInFlight, bytesPerPoll));
      }
    }

    /** The same with other limits. */
    public Options with(long inFlight, long perPoll) {
      return new Options(inFlight, perPoll, checksums);
    }

    /** The same with or without checks. */
    public Options with(Checksums pages) {
      return new Options(bytesInFlight, bytesPerPoll, pages);
    }
  }

  /** CRC-32C of every page, before and after. */
  public enum Checksums {
    OFF,
    ON
  }

  /** Transports that find each other. */
  public static final class Network {
    private final Map<Long, InProcessTransport> transports = new HashMap<>();
    private long last;

    /** Nobody yet. */
    public Network() {}

    /**
     * A transport that the others find.
     *
     * @param clock µs; never goes back
     */
    public InProcessTransport open(Options options, LongSupplier clock) {
      var transport = new InProcessTransport(this, ++last, options, clock);
      transports.put(last, transport);
      return transport;
    }

    private @Nullable InProcessTransport find(long number) {
      return transports.get(number);
    }
  }

  /**
   * @param written pages that a fetch under way writes
   */
  private record Pool(MemorySegment memory, PageGeometry geometry, BitSet written) {
    MemorySegment page(int page) {
      return memory.asSlice(page * geometry.pageBytes(), geometry.pageBytes());
    }
  }

  private record Remote(long transport, long region, long fingerprint, int pages) {}

  /** Pages on offer: whoever takes them must name them all, in this order. */
  private static final class Lease {
    final long region;
    final PageList pages;
    final long until;
    boolean taken;

    Lease(long region, PageList pages, long until) {
      this.region = region;
      this.pages = pages;
      this.until = until;
    }
  }

  private static final class Fetch {
    final TransferId id;
    final Peer peer;
    final Remote remote;
    final LeaseId lease;
    final Region region;
    final PageList local;
    final PageList pages;
    final long deadline;
    final long bytes;
    int moved;

    Fetch(
        TransferId id,
        Peer peer,
        Remote remote,
        LeaseId lease,
        Region region,
        PageList local,
        PageList pages,
        long deadline,
        long bytes) {
      this.id = id;
      this.peer = peer;
      this.remote = remote;
      this.lease = lease;
      this.region = region;
      this.local = local;
      this.pages = pages;
      this.deadline = deadline;
      this.bytes = bytes;
    }
  }

  private static final int MAGIC = 0x4b565431;
  private static final int TICKET = 4 + 5 * 8 + 4 + 4;

  private final Network network;
  private final long number;
  private final Options options;
  private final LongSupplier clock;
  private final Map<Region, Pool> regions = new LinkedHashMap<>();
  private final Map<Peer, Remote> peers = new HashMap<>();
  private final Map<LeaseId, Lease> leases = new LinkedHashMap<>();
  private final Map<TransferId, Fetch> fetches = new LinkedHashMap<>();
  private final Map<Peer, Long> inFlight = new HashMap<>();
  private final Deque<Completion> completions = new ArrayDeque<>();
  private final Deque<LeaseEnd> ends = new ArrayDeque<>();
  private final Deque<byte[]> messages = new ArrayDeque<>();
  private long last;
  private boolean closed;

  private InProcessTransport(Network network, long number, Options options, LongSupplier clock) {
    this.network = network;
    this.number = number;
    this.options = options;
    this.clock = clock;
  }

  // ------------------------------------------------------------------------------ pools and peers

  @Override
  public Region register(MemorySegment pool, MemoryKind kind, PageGeometry geometry) {
    requireOpen();
    if (kind != MemoryKind.HOST) {
      throw new BerthException(Code.STATE, "pages in " + kind + " memory: only HOST");
    }
    if (pool.byteSize() != geometry.pageBytes() * geometry.pages()) {
      throw new BerthException(
          Code.ARGUMENT,
          "a pool of %d bytes isn't %d pages of %d"
              .formatted(pool.byteSize(), geometry.pages(), geometry.pageBytes()));
    }
    var region = new Region(++last);
    regions.put(region, new Pool(pool, geometry, new BitSet()));
    return region;
  }

  @Override
  public void deregister(Region region) {
    pool(region);
    for (Fetch fetch : fetches.values().toArray(Fetch[]::new)) {
      if (fetch.region.equals(region)) {
        end(fetch, Completion.Outcome.CANCELLED, "its pool was deregistered");
      }
    }
    regions.remove(region);
    for (Map.Entry<LeaseId, Lease> entry : Map.copyOf(leases).entrySet()) {
      if (entry.getValue().region == region.number()) {
        endLease(entry.getKey(), LeaseEnd.Reason.WITHDRAWN);
      }
    }
  }

  @Override
  public PeerTicket ticket(Region region, long expiresAt) {
    PageGeometry geometry = pool(region).geometry;
    ByteBuffer ticket =
        ByteBuffer.allocate(TICKET)
            .putInt(MAGIC)
            .putLong(number)
            .putLong(region.number())
            .putLong(geometry.fingerprint())
            .putLong(expiresAt)
            .putLong(++last)
            .putInt(geometry.pages());
    ticket.putInt(checksum(ticket.array(), TICKET - 4));
    return PeerTicket.of(ticket.array());
  }

  @Override
  public ConnectOutcome connect(PeerTicket ticket, Region local) {
    PageGeometry mine = pool(local).geometry;
    byte[] bytes = ticket.bytes();
    if (bytes.length != TICKET) {
      return refused("a ticket of %d bytes, not %d".formatted(bytes.length, TICKET));
    }
    ByteBuffer in = ByteBuffer.wrap(bytes);
    if (in.getInt(TICKET - 4) != checksum(bytes, TICKET - 4)) {
      return refused("its checksum is wrong");
    }
    if (in.getInt() != MAGIC) {
      return refused("it isn't a ticket of this transport");
    }
    long transport = in.getLong();
    long region = in.getLong();
    long fingerprint = in.getLong();
    long expiresAt = in.getLong();
    in.getLong(); // makes every ticket another one
    int pages = in.getInt();
    InProcessTransport other = network.find(transport);
    if (other == null || !other.regions.containsKey(new Region(region))) {
      return refused("there is no such pool");
    }
    if (expiresAt <= clock.getAsLong()) {
      return refused("it expired");
    }
    if (fingerprint != mine.fingerprint()) {
      return refused(
          "its pages are others: fingerprint %016x, here %016x"
              .formatted(fingerprint, mine.fingerprint()));
    }
    var peer = new Peer(++last);
    peers.put(peer, new Remote(transport, region, fingerprint, pages));
    return new ConnectOutcome.Connected(peer);
  }

  private static ConnectOutcome refused(String reason) {
    return new ConnectOutcome.Refused(reason);
  }

  private static int checksum(byte[] bytes, int length) {
    var crc = new CRC32C();
    crc.update(bytes, 0, length);
    return (int) crc.getValue();
  }

  // ------------------------------------------------------------------------------ leases

  @Override
  public LeaseId offer(Region region, PageList pages, long until) {
    requirePages(pool(region), pages);
    var id = new LeaseId(number << 40 | ++last);
    leases.put(id, new Lease(region.number(), pages, until));
    return id;
  }

  @Override
  public void withdraw(LeaseId lease) {
    requireOpen();
    endLease(lease, LeaseEnd.Reason.WITHDRAWN);
  }

  /** Pages that nobody reads any more, because whoever would moves only with a lease. */
  private void endLease(LeaseId id, LeaseEnd.Reason reason) {
    if (leases.remove(id) != null) {
      ends.add(new LeaseEnd(id, reason));
    }
  }

  // ------------------------------------------------------------------------------ fetches

  @Override
  public FetchOutcome fetch(
      Peer peer, LeaseId lease, Region region, PageList local, PageList remote, long deadline) {
    Remote other = remote(peer);
    Pool pool = pool(region);
    requirePages(pool, local);
    if (local.size() != remote.size()) {
      throw new BerthException(
          Code.ARGUMENT, "%d pages into %d: as many".formatted(remote.size(), local.size()));
    }
    if (pool.geometry.fingerprint() != other.fingerprint) {
      throw new BerthException(Code.ARGUMENT, "the peer's pages aren't like those of that pool");
    }
    for (int i = 0; i < local.size(); i++) {
      if (pool.written.get(local.get(i))) {
        throw new BerthException(
            Code.ARGUMENT, "page " + local.get(i) + " belongs to a fetch that is under way");
      }
    }
    long bytes = remote.size() * pool.geometry.pageBytes();
    long under = inFlight.getOrDefault(peer, 0L);
    if (under > 0 && under + bytes > options.bytesInFlight) {
      return new FetchOutcome.Deferred(under, options.bytesInFlight);
    }
    var id = new TransferId(number << 40 | ++last);
    var fetch = new Fetch(id, peer, other, lease, region, local, remote, deadline, bytes);
    fetches.put(id, fetch);
    for (int i = 0; i < local.size(); i++) {
      pool.written.set(local.get(i));
    }
    inFlight.put(peer, under + bytes);
    InProcessTransport owner = network.find(other.transport);
    Lease offered = owner == null ? null : owner.leases.get(lease);
    if (owner == null) {
      end(fetch, Completion.Outcome.PEER_LOST, "its owner is gone");
    } else if (offered == null
        || offered.taken
        || offered.region != other.region
        || !offered.pages.equals(remote)) {
      end(fetch, Completion.Outcome.REJECTED, "these pages aren't on offer under that lease");
    } else {
      offered.taken = true;
    }
    return new FetchOutcome.Started(id);
  }

  @Override
  public int poll(Completion[] out) {
    requireOpen();
    long now = clock.getAsLong();
    expire(now);
    long budget = options.bytesPerPoll;
    for (Fetch fetch : fetches.values().toArray(Fetch[]::new)) {
      if (fetch.deadline <= now) {
        end(
            fetch,
            Completion.Outcome.TIMED_OUT,
            "%d of %d pages".formatted(fetch.moved, fetch.pages.size()));
        continue;
      }
      if (budget > 0) {
        budget -= move(fetch, budget);
      }
    }
    int n = Math.min(out.length, completions.size());
    for (int i = 0; i < n; i++) {
      out[i] = completions.remove();
    }
    return n;
  }

  /** Moves some pages; how many bytes that were. */
  private long move(Fetch fetch, long budget) {
    InProcessTransport owner = network.find(fetch.remote.transport);
    if (owner == null) {
      end(fetch, Completion.Outcome.PEER_LOST, "its owner went away");
      return 0;
    }
    if (!owner.leases.containsKey(fetch.lease)) {
      end(fetch, Completion.Outcome.REJECTED, "its lease ended");
      return 0;
    }
    Pool from = owner.regions.get(new Region(fetch.remote.region));
    Pool to = pool(fetch.region);
    long bytes = 0;
    while (from != null && fetch.moved < fetch.pages.size() && bytes < budget) {
      MemorySegment source = from.page(fetch.pages.get(fetch.moved));
      MemorySegment target = to.page(fetch.local.get(fetch.moved));
      int before = options.checksums == Checksums.ON ? checksum(source) : 0;
      MemorySegment.copy(source, 0, target, 0, to.geometry.pageBytes());
      if (options.checksums == Checksums.ON && checksum(target) != before) {
        end(fetch, Completion.Outcome.CORRUPT, "page " + fetch.pages.get(fetch.moved));
        return bytes;
      }
      fetch.moved++;
      bytes += to.geometry.pageBytes();
    }
    if (fetch.moved == fetch.pages.size()) {
      end(fetch, Completion.Outcome.DONE, "");
    }
    return bytes;
  }

  private static int checksum(MemorySegment page) {
    var crc = new CRC32C();
    crc.update(page.asByteBuffer());
    return (int) crc.getValue();
  }

  /** The first end stands: the fetch is forgotten with it. Nothing is written behind it. */
  private void end(Fetch fetch, Completion.Outcome outcome, String detail) {
    if (fetches.remove(fetch.id) == null) {
      return;
    }
    inFlight.merge(fetch.peer, -fetch.bytes, Long::sum);
    BitSet written = pool(fetch.region).written;
    for (int i = 0; i < fetch.local.size(); i++) {
      written.clear(fetch.local.get(i));
    }
    long moved = outcome == Completion.Outcome.DONE ? fetch.bytes : 0;
    completions.add(new Completion(fetch.id, outcome, moved, true, detail));
    InProcessTransport owner = network.find(fetch.remote.transport);
    if (owner != null && outcome != Completion.Outcome.REJECTED) {
      owner.endLease(
          fetch.lease,
          outcome == Completion.Outcome.DONE ? LeaseEnd.Reason.READ : LeaseEnd.Reason.ABORTED);
    }
  }

  private void expire(long now) {
    for (Map.Entry<LeaseId, Lease> entry : Map.copyOf(leases).entrySet()) {
      if (entry.getValue().until <= now) {
        endLease(entry.getKey(), LeaseEnd.Reason.EXPIRED);
      }
    }
  }

  @Override
  public int pollLeases(LeaseEnd[] out) {
    requireOpen();
    expire(clock.getAsLong());
    int n = Math.min(out.length, ends.size());
    for (int i = 0; i < n; i++) {
      out[i] = ends.remove();
    }
    return n;
  }

  @Override
  public void cancel(TransferId id) {
    requireOpen();
    Fetch fetch = fetches.get(id);
    if (fetch != null) {
      end(
          fetch,
          Completion.Outcome.CANCELLED,
          "%d of %d pages".formatted(fetch.moved, fetch.pages.size()));
    }
  }

  @Override
  public boolean quiesced(TransferId id) {
    return !fetches.containsKey(id); // pages are moved by polls of this thread alone
  }

  // ------------------------------------------------------------------------------ messages

  @Override
  public void notify(Peer peer, byte[] message) {
    if (message.length > MOST_MESSAGE) {
      throw new BerthException(
          Code.ARGUMENT,
          "a message of %d bytes: at most %d".formatted(message.length, MOST_MESSAGE));
    }
    InProcessTransport owner = network.find(remote(peer).transport);
    if (owner != null) {
      owner.messages.add(message.clone());
    }
  }

  @Override
  public byte[] nextMessage() {
    requireOpen();
    byte[] message = messages.poll();
    return message == null ? new byte[0] : message;
  }

  @Override
  public Capabilities capabilities() {
    return new Capabilities(true, Set.of(MemoryKind.HOST), true);
  }

  // ------------------------------------------------------------------------------ the rest

  private Pool pool(Region region) {
    requireOpen();
    Pool pool = regions.get(region);
    if (pool == null) {
      throw new BerthException(Code.NOT_FOUND, region + " isn't registered here");
    }
    return pool;
  }

  private Remote remote(Peer peer) {
    requireOpen();
    Remote remote = peers.get(peer);
    if (remote == null) {
      throw new BerthException(Code.NOT_FOUND, peer + " isn't connected here");
    }
    return remote;
  }

  private static void requirePages(Pool pool, PageList pages) {
    if (pages.size() == 0) {
      throw new BerthException(Code.ARGUMENT, "no pages");
    }
    if (pages.last() >= pool.geometry.pages()) {
      throw new BerthException(
          Code.ARGUMENT, "page %d of a pool of %d".formatted(pages.last(), pool.geometry.pages()));
    }
  }

  private void requireOpen() {
    if (closed) {
      throw new BerthException(Code.CLOSED, "this transport is closed");
    }
  }

  /** Fetches of peers end as lost; those of this one go with it. Idempotent. */
  @Override
  public void close() {
    if (closed) {
      return;
    }
    for (Fetch fetch : fetches.values().toArray(Fetch[]::new)) {
      end(fetch, Completion.Outcome.CANCELLED, "closed");
    }
    closed = true;
    network.transports.remove(number);
    regions.clear();
  }
}
