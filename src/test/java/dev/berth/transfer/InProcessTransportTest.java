// SPDX-License-Identifier: Apache-2.0
package dev.berth.transfer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.route.Seeds;
import dev.berth.transfer.Completion.Outcome;
import dev.berth.transfer.InProcessTransport.Checksums;
import dev.berth.transfer.InProcessTransport.Network;
import dev.berth.transfer.InProcessTransport.Options;
import dev.berth.transfer.LeaseEnd.Reason;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What every transport promises, held to the one within a process (spec 08 §11, §13 K). */
class InProcessTransportTest {
  private static final int PAGE = 48;
  private static final int PAGES = 16;

  private final Network network = new Network();
  private long now;

  /** A transport with one pool. */
  private final class Side {
    final InProcessTransport transport;
    final PageGeometry geometry;
    final MemorySegment pool;
    final Region region;

    Side(Options options) {
      this(options, new PageGeometry(PAGE, PAGES, 4, "model a"));
    }

    Side(Options options, PageGeometry geometry) {
      transport = network.open(options, () -> now);
      this.geometry = geometry;
      pool = Arena.ofAuto().allocate(geometry.pageBytes() * geometry.pages(), 64);
      region = transport.register(pool, MemoryKind.HOST, geometry);
    }

    void fill(long seed) {
      RandomGenerator random = RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
      byte[] bytes = new byte[(int) pool.byteSize()];
      random.nextBytes(bytes);
      pool.copyFrom(MemorySegment.ofArray(bytes));
    }

    MemorySegment page(int page) {
      return pool.asSlice(page * geometry.pageBytes(), geometry.pageBytes());
    }

    LeaseId offer(int... pages) {
      return transport.offer(region, PageList.of(pages), now + 1000);
    }

    Peer connect(Side other) {
      PeerTicket ticket = other.transport.ticket(other.region, now + 1000);
      return ((ConnectOutcome.Connected) transport.connect(ticket, region)).peer();
    }

    TransferId fetch(Peer peer, LeaseId lease, PageList local, PageList remote) {
      FetchOutcome outcome = transport.fetch(peer, lease, region, local, remote, now + 100);
      return ((FetchOutcome.Started) outcome).id();
    }

    List<Completion> poll() {
      var out = new Completion[64];
      return Arrays.asList(out).subList(0, transport.poll(out));
    }

    List<LeaseEnd> ends() {
      var out = new LeaseEnd[64];
      return Arrays.asList(out).subList(0, transport.pollLeases(out));
    }
  }

  private final Side source = new Side(Options.DEFAULTS);
  private final Side target = new Side(Options.DEFAULTS.with(Checksums.ON));

  private static PageList pages(int... pages) {
    return PageList.of(pages);
  }

  // ------------------------------------------------------------------------------ what is moved

  @Test
  void pagesArriveInTheOrderOfTheListsAndNothingElseChanges() {
    source.fill(1);
    target.fill(2);
    byte[] before = target.pool.toArray(java.lang.foreign.ValueLayout.JAVA_BYTE);
    LeaseId lease = source.offer(3, 0, 15);
    TransferId id = target.fetch(target.connect(source), lease, pages(7, 2, 4), pages(3, 0, 15));
    assertThat(target.poll()).containsExactly(new Completion(id, Outcome.DONE, 3 * PAGE, true, ""));
    assertThat(target.page(7).mismatch(source.page(3))).isEqualTo(-1);
    assertThat(target.page(2).mismatch(source.page(0))).isEqualTo(-1);
    assertThat(target.page(4).mismatch(source.page(15))).isEqualTo(-1);
    for (int page = 0; page < PAGES; page++) {
      if (page != 7 && page != 2 && page != 4) {
        byte[] old = Arrays.copyOfRange(before, page * PAGE, (page + 1) * PAGE);
        assertThat(target.page(page).mismatch(MemorySegment.ofArray(old))).isEqualTo(-1);
      }
    }
    assertThat(source.ends()).containsExactly(new LeaseEnd(lease, Reason.READ));
    assertThat(target.poll()).as("once").isEmpty();
    assertThat(source.ends()).as("once").isEmpty();
  }

  // ------------------------------------------------------------------------------ how it ends

  /** Page by page, whatever happens between two pages. */
  private Side slow(int pagesPerPoll) {
    return new Side(Options.DEFAULTS.with(Long.MAX_VALUE, (long) pagesPerPoll * PAGE));
  }

  @Test
  void aCancelAtAnyPointHasOneCompletionAndEndsTheLease() {
    for (int polls = 0; polls < 4; polls++) {
      Side slow = slow(1);
      LeaseId lease = source.offer(0, 1, 2, 3);
      TransferId id = slow.fetch(slow.connect(source), lease, pages(0, 1, 2, 3), pages(0, 1, 2, 3));
      for (int i = 0; i < polls; i++) {
        assertThat(slow.poll()).isEmpty();
        assertThat(slow.transport.quiesced(id)).isFalse();
      }
      slow.transport.cancel(id);
      slow.transport.cancel(id);
      assertThat(slow.poll())
          .containsExactly(new Completion(id, Outcome.CANCELLED, 0, true, polls + " of 4 pages"));
      assertThat(slow.transport.quiesced(id)).isTrue();
      assertThat(source.ends()).containsExactly(new LeaseEnd(lease, Reason.ABORTED));
      slow.fill(9);
      byte[] mine = slow.pool.toArray(java.lang.foreign.ValueLayout.JAVA_BYTE);
      assertThat(slow.poll()).isEmpty();
      assertThat(slow.pool.mismatch(MemorySegment.ofArray(mine))).as("nobody writes").isEqualTo(-1);
    }
  }

  /** Spec 06 BC-65: error, then complete: the first stands. */
  @Test
  void aTerminalStateIsFinal() {
    LeaseId lease = source.offer(1);
    TransferId id = target.fetch(target.connect(source), lease, pages(1), pages(1));
    target.transport.cancel(id);
    assertThat(target.poll()).extracting(Completion::outcome).containsExactly(Outcome.CANCELLED);
    now += 1_000;
    target.transport.cancel(id);
    assertThat(target.poll()).isEmpty();
  }

  @Test
  void aDeadlineEndsAFetchAndItsLease() {
    Side slow = slow(1);
    LeaseId lease = source.offer(0, 1);
    TransferId id = slow.fetch(slow.connect(source), lease, pages(0, 1), pages(0, 1));
    assertThat(slow.poll()).isEmpty();
    now += 100;
    assertThat(slow.poll())
        .containsExactly(new Completion(id, Outcome.TIMED_OUT, 0, true, "1 of 2 pages"));
    assertThat(source.ends()).containsExactly(new LeaseEnd(lease, Reason.ABORTED));
  }

  @Test
  void aPeerThatGoesAwayEndsItsFetches() {
    Side slow = slow(1);
    LeaseId lease = source.offer(0, 1);
    Peer peer = slow.connect(source);
    TransferId id = slow.fetch(peer, lease, pages(0, 1), pages(0, 1));
    slow.poll();
    source.transport.close();
    source.transport.close();
    assertThat(slow.poll()).extracting(Completion::outcome).containsExactly(Outcome.PEER_LOST);
    TransferId later = slow.fetch(peer, lease, pages(0), pages(0));
    assertThat(slow.poll())
        .singleElement()
        .satisfies(c -> {
          assertThat(c.id()).isEqualTo(later);
          assertThat(c.outcome()).isEqualTo(Outcome.PEER_LOST);
        });
    assertThatThrownBy(() -> source.offer(1))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.CLOSED));
    assertThat(id).isNotEqualTo(later);
  }

  @Test
  void aReaderThatGoesAwayGivesTheLeaseBack() {
    Side slow = slow(1);
    LeaseId lease = source.offer(0, 1);
    slow.fetch(slow.connect(source), lease, pages(0, 1), pages(0, 1));
    slow.poll();
    slow.transport.close();
    assertThat(source.ends()).containsExactly(new LeaseEnd(lease, Reason.ABORTED));
  }

  @Test
  void aLeaseThatNobodyTakesEndsByItself() {
    LeaseId lease = source.offer(5);
    assertThat(source.ends()).isEmpty();
    now += 1000;
    assertThat(source.ends()).containsExactly(new LeaseEnd(lease, Reason.EXPIRED));
    source.transport.withdraw(lease);
    assertThat(source.ends()).isEmpty();
  }

  @Test
  void aLeaseThatEndedUnderAFetchEndsTheFetch() {
    Side slow = slow(1);
    LeaseId lease = source.offer(0, 1);
    slow.fetch(slow.connect(source), lease, pages(0, 1), pages(0, 1));
    slow.poll();
    source.transport.withdraw(lease);
    assertThat(source.ends()).containsExactly(new LeaseEnd(lease, Reason.WITHDRAWN));
    assertThat(slow.poll()).extracting(Completion::outcome).containsExactly(Outcome.REJECTED);
    assertThat(source.ends()).as("one end").isEmpty();
  }

  @Test
  void onlyWhatIsOnOfferIsGivenAndOnce() {
    Peer peer = target.connect(source);
    LeaseId lease = source.offer(2, 3);
    target.fetch(peer, new LeaseId(77), pages(0, 1), pages(2, 3));
    target.fetch(peer, lease, pages(0, 1), pages(3, 2));
    target.fetch(peer, lease, pages(0), pages(2));
    assertThat(target.poll()).extracting(Completion::outcome).containsOnly(Outcome.REJECTED);
    assertThat(source.ends()).as("it is still on offer").isEmpty();
    target.fetch(peer, lease, pages(0, 1), pages(2, 3));
    target.fetch(peer, lease, pages(4, 5), pages(2, 3));
    assertThat(target.poll())
        .extracting(Completion::outcome)
        .containsExactlyInAnyOrder(Outcome.DONE, Outcome.REJECTED);
    assertThat(source.ends()).containsExactly(new LeaseEnd(lease, Reason.READ));
  }

  @Test
  void whatIsBeingTakenIsNotGivenASecondTime() {
    Side slow = slow(1);
    Peer peer = slow.connect(source);
    LeaseId lease = source.offer(2, 3);
    slow.fetch(peer, lease, pages(0, 1), pages(2, 3));
    assertThat(slow.poll()).as("a page of two").isEmpty();
    slow.fetch(peer, lease, pages(4, 5), pages(2, 3));
    assertThat(slow.poll())
        .extracting(Completion::outcome)
        .as("the second one is refused before the first is done")
        .contains(Outcome.REJECTED);
  }

  @Test
  void aPoolThatIsDeregisteredEndsWhatIsUnderWay() {
    Side slow = slow(1);
    LeaseId lease = source.offer(0, 1);
    slow.fetch(slow.connect(source), lease, pages(0, 1), pages(0, 1));
    slow.poll();
    slow.transport.deregister(slow.region);
    assertThat(slow.poll()).extracting(Completion::outcome).containsExactly(Outcome.CANCELLED);
    LeaseId other = source.offer(4);
    source.ends();
    source.transport.deregister(source.region);
    assertThat(source.ends()).containsExactly(new LeaseEnd(other, Reason.WITHDRAWN));
    assertThatThrownBy(() -> source.transport.deregister(source.region))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.NOT_FOUND));
  }

  // ------------------------------------------------------------------------------ back-pressure

  @Test
  void moreThanMayBeOnTheWayIsDeferredAndThatIsNoEnd() {
    Side limited = new Side(Options.DEFAULTS.with(2L * PAGE, PAGE));
    Peer peer = limited.connect(source);
    LeaseId first = source.offer(0, 1);
    LeaseId second = source.offer(2);
    limited.fetch(peer, first, pages(0, 1), pages(0, 1));
    var deferred = new FetchOutcome.Deferred(2L * PAGE, 2L * PAGE);
    for (int i = 0; i < 2; i++) {
      assertThat(
              limited.transport.fetch(peer, second, limited.region, pages(2), pages(2), now + 100))
          .isEqualTo(deferred);
      limited.poll();
    }
    TransferId id = limited.fetch(peer, second, pages(2), pages(2));
    assertThat(limited.poll()).extracting(Completion::id).containsExactly(id);
    LeaseId large = source.offer(4, 5, 6, 7);
    limited.fetch(peer, large, pages(4, 5, 6, 7), pages(4, 5, 6, 7)); // alone it may be larger
  }

  // ------------------------------------------------------------------------------ tickets

  @Test
  void everyTicketThatIsNoneIsRefused() {
    byte[] good = source.transport.ticket(source.region, now + 10).bytes();
    for (int length = 0; length < good.length + 3; length++) {
      if (length != good.length) {
        assertRefused(Arrays.copyOf(good, length), "bytes");
      }
    }
    for (int at = 0; at < good.length; at++) {
      for (int bit = 0; bit < 8; bit++) {
        byte[] bad = good.clone();
        bad[at] ^= (byte) (1 << bit);
        assertRefused(bad, "");
      }
    }
    assertThat(target.transport.connect(PeerTicket.of(good), target.region))
        .isInstanceOf(ConnectOutcome.Connected.class);
    now += 10;
    assertRefused(good, "expired");
    byte[] closed = source.transport.ticket(source.region, now + 10).bytes();
    source.transport.close();
    assertRefused(closed, "no such pool");
  }

  @Test
  void pagesOfAnotherGeometryAreRefused() {
    for (PageGeometry other :
        List.of(
            new PageGeometry(PAGE * 2, PAGES, 4, "model a"),
            new PageGeometry(PAGE, PAGES, 8, "model a"),
            new PageGeometry(PAGE, PAGES, 4, "model b"))) {
      Side foreign = new Side(Options.DEFAULTS, other);
      assertRefused(
          foreign.transport.ticket(foreign.region, now + 10).bytes(), "its pages are others");
    }
    Side larger = new Side(Options.DEFAULTS, new PageGeometry(PAGE, PAGES * 2, 4, "model a"));
    assertThat(larger.geometry.fingerprint()).isEqualTo(target.geometry.fingerprint());
    target.connect(larger);
  }

  private void assertRefused(byte[] ticket, String why) {
    assertThat(target.transport.connect(PeerTicket.of(ticket), target.region))
        .isInstanceOfSatisfying(
            ConnectOutcome.Refused.class, r -> assertThat(r.reason()).contains(why));
  }

  // ------------------------------------------------------------------------------ misuse

  @Test
  void wrongArgumentsAreRefusedBeforeAnythingHappens() {
    Peer peer = target.connect(source);
    LeaseId lease = source.offer(0);
    assertArgument(() -> source.offer(PAGES), "page 16 of a pool of 16");
    assertArgument(() -> source.offer(), "no pages");
    assertArgument(() -> PageList.of(-1), "page -1");
    assertArgument(() -> PageList.of(5, 1, 5), "page 5 stands there twice");
    assertArgument(() -> target.fetch(peer, lease, pages(PAGES), pages(0)), "page 16");
    assertArgument(() -> target.fetch(peer, lease, pages(0, 1), pages(0)), "1 pages into 2");
    assertArgument(
        () -> target.transport.notify(peer, new byte[KvTransport.MOST_MESSAGE + 1]), "4097 bytes");
    assertArgument(
        () ->
            source.transport.register(
                Arena.ofAuto().allocate(PAGE), MemoryKind.HOST, source.geometry),
        "isn't 16 pages");
    assertArgument(() -> new PageGeometry(0, 1, 1, ""), "all 1 or more");
    assertThatThrownBy(
            () -> source.transport.register(source.pool, MemoryKind.DEVICE, source.geometry))
        .hasMessageContaining("only HOST");
    assertThatThrownBy(() -> new Options(0, 1, Checksums.OFF)).hasMessageContaining("1 or more");
    assertThatThrownBy(() -> target.fetch(new Peer(9), lease, pages(0), pages(0)))
        .hasMessageContaining("isn't connected");
    assertThat(target.poll()).isEmpty();
  }

  private static void assertArgument(Runnable call, String with) {
    assertThatThrownBy(call::run)
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.ARGUMENT))
        .hasMessageContaining(with);
  }

  @Test
  void pagesOfAFetchUnderWayAreNotAnothersToWrite() {
    Peer peer = target.connect(source);
    LeaseId first = source.offer(0, 1);
    LeaseId second = source.offer(2, 3);
    TransferId id = target.fetch(peer, first, pages(4, 5), pages(0, 1));
    assertArgument(
        () -> target.fetch(peer, second, pages(6, 5), pages(2, 3)),
        "page 5 belongs to a fetch that is under way");
    target.transport.cancel(id);
    target.fetch(peer, second, pages(6, 5), pages(2, 3));
    assertThat(target.poll())
        .extracting(Completion::outcome)
        .containsExactly(Outcome.CANCELLED, Outcome.DONE);
  }

  @Test
  void messagesArriveInOrder() {
    Peer peer = target.connect(source);
    target.transport.notify(peer, new byte[] {1});
    target.transport.notify(peer, new byte[] {2, 3});
    assertThat(source.transport.nextMessage()).containsExactly(1);
    assertThat(source.transport.nextMessage()).containsExactly(2, 3);
    assertThat(source.transport.nextMessage()).isEmpty();
  }

  // ------------------------------------------------------------------------------ at random

  /** Spec 08 §13 K8: one terminal completion each, and every lease ends once. */
  @ParameterizedTest
  @EnumSource(Checksums.class)
  void manyFetchesWhilePeersComeAndGo(Checksums checksums) {
    long seed = Seeds.seed("InProcessTransportTest");
    RandomGenerator random = RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
    var sources = new ArrayList<Side>();
    for (int i = 0; i < 4; i++) {
      sources.add(new Side(Options.DEFAULTS));
      sources.get(i).fill(seed + i);
    }
    var reader = new Side(new Options(6L * PAGE, 2L * PAGE, checksums));
    var started = new HashSet<TransferId>();
    var ended = new HashMap<TransferId, Completion>();
    var offered = new HashSet<LeaseId>();
    var over = new HashSet<LeaseId>();
    var gone = new HashSet<Side>();
    var written = new BitSet();
    var writes = new HashMap<TransferId, int[]>();
    int deferred = 0;
    for (int i = 0; i < 400 || started.size() > ended.size(); i++) {
      now += random.nextInt(12);
      Side from = sources.get(random.nextInt(4));
      if (i < 400 && !gone.contains(from)) {
        int n = random.nextInt(1, 5);
        int[] list = random.ints(0, PAGES).distinct().limit(n).toArray();
        int[] free =
            random.ints(0, PAGES).filter(page -> !written.get(page)).distinct().limit(n).toArray();
        LeaseId lease =
            from.transport.offer(from.region, PageList.of(list), now + random.nextInt(1, 60));
        offered.add(lease);
        FetchOutcome outcome =
            reader.transport.fetch(
                reader.connect(from),
                lease,
                reader.region,
                PageList.of(free),
                PageList.of(list),
                now + random.nextInt(1, 40));
        switch (outcome) {
          case FetchOutcome.Started(var id) -> {
            assertThat(started.add(id)).isTrue();
            Arrays.stream(free).forEach(written::set);
            writes.put(id, free);
            if (random.nextInt(6) == 0) {
              reader.transport.cancel(id);
            }
          }
          case FetchOutcome.Deferred ignored -> deferred++;
        }
      }
      if (random.nextInt(150) == 0 && gone.size() < 3 && !gone.contains(from)) {
        for (LeaseEnd end : from.ends()) {
          over.add(end.id());
        }
        from.transport.close();
        gone.add(from);
      }
      for (Completion completion : reader.poll()) {
        assertThat(ended.put(completion.id(), completion)).as("one completion").isNull();
        Arrays.stream(writes.remove(completion.id())).forEach(written::clear);
        assertThat(completion.quiesced()).isTrue();
      }
      for (Side side : sources) {
        if (!gone.contains(side)) {
          side.ends().forEach(end -> assertThat(over.add(end.id())).as("one end").isTrue());
        }
      }
    }
    assertThat(ended.keySet()).isEqualTo(started);
    assertThat(ended.values())
        .extracting(Completion::outcome)
        .contains(Outcome.DONE, Outcome.CANCELLED, Outcome.TIMED_OUT);
    assertThat(offered).containsAll(over);
    now += 100;
    for (Side side : sources) {
      if (!gone.contains(side)) {
        side.ends().forEach(end -> over.add(end.id()));
      }
    }
    assertThat(deferred).isNotNegative();
    assertThat(over.size()).isGreaterThan(started.size() / 3);
  }
}
