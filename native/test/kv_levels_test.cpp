// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>

#include "device/file.hpp"
#include "device/io_pool.hpp"
#include "fuzz/kv_ops.hpp"
#include "test/check.hpp"
#include "test/faulty_file.hpp"

using berth::device::IoPool;
using berth::test::faulty_kv;
using berth::test::FaultyFile;
using berth::test::Kv;
using berth::test::kv_buffer;
using berth::test::kv_config;
using berth::test::kv_disk;
using berth::test::temporary_directory;

namespace {

const std::vector<berth_kv_buffer> kPlain = {kv_buffer(0, 0, 32)};

std::vector<std::byte> bytes(size_t n, int32_t seed) {
  std::vector<std::byte> all(n);
  for (size_t i = 0; i < n; ++i) all[i] = static_cast<std::byte>(static_cast<int32_t>(i) * 7 + seed);
  return all;
}

}  // namespace

// ------------------------------------------------------------------------------ files

TEST(whatMovesInPiecesMovesWhole) {
  FaultyFile::Faults faults;
  faults.short_moves = 1;
  faults.interrupted = 3;
  FaultyFile file(1000, faults);
  const auto out = bytes(777, 1);
  CHECK(berth::device::write_all(file, out, 100) == 0);
  std::vector<std::byte> in(777);
  CHECK(berth::device::read_all(file, in, 100) == 0);
  CHECK(in == out);
}

TEST(aFileThatMovesNothingIsAnError) {
  FaultyFile::Faults faults;
  faults.nothing_moves = 1;
  FaultyFile file(1000, faults);
  std::vector<std::byte> some(10);
  CHECK(berth::device::read_all(file, some, 0) == EIO);
  CHECK(berth::device::write_all(file, some, 0) == EIO);
  faults = {};
  faults.write_fails = 2;
  faults.short_moves = 1;
  FaultyFile full(1000, faults);
  CHECK(berth::device::write_all(full, some, 0) == ENOSPC);
}

TEST(aTemporaryFileHoldsItsBytesAndHasNoName) {
  std::string name = std::string(temporary_directory()) + "/berth-test-XXXXXX";
  REQUIRE(mkdtemp(name.data()) != nullptr);
  int32_t error = -1;
  bool space;
  auto file = berth::device::temporary_file(name.c_str(), 10000, &error, &space);
  REQUIRE(file != nullptr);
  const auto out = bytes(5000, 3);
  CHECK(berth::device::write_all(*file, out, 5000) == 0);
  std::vector<std::byte> in(5000);
  CHECK(berth::device::read_all(*file, in, 5000) == 0 && in == out);
  CHECK(berth::device::read_all(*file, in, 5001) == EIO);  // it ends there
  CHECK(rmdir(name.c_str()) == 0);                         // nothing is in it
}

TEST(aDirectoryThatIsNotThereAndASizeThatIsTooLargeAreToldApart) {
  int32_t error = 0;
  bool space = true;
  CHECK(berth::device::temporary_file("/nowhere/at/all", 10, &error, &space) == nullptr);
  CHECK(error == ENOENT && !space);
  CHECK(berth::device::temporary_file("/dev/null", 10, &error, &space) == nullptr);
  CHECK(error == ENOTDIR && !space);
  CHECK(berth::device::temporary_file(temporary_directory(), int64_t{1} << 62, &error, &space) == nullptr);
  CHECK((error == ENOSPC || error == EFBIG) && space);
}

// ------------------------------------------------------------------------------ threads

namespace {

// Transfers that end when they are let.
class Gate : public IoPool::Worker {
 public:
  int32_t perform(uint64_t number) noexcept override {
    ++begun;
    while (open.load() < number && only.load() != number) std::this_thread::yield();
    order[number] = ++ended;
    return number % 5 == 0 ? EIO : 0;
  }
  std::atomic<uint64_t> open{0};  // these and those before may end
  std::atomic<uint64_t> only{0};  // this too
  std::atomic<int32_t> begun{0};
  std::atomic<int32_t> ended{0};
  std::atomic<int32_t> order[64]{};
};

uint64_t finished(const IoPool &pool) {
  return std::atomic_ref<const uint64_t>(*pool.finished()).load(std::memory_order_acquire);
}

template <class Condition>
void until(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

}  // namespace

TEST(finishedNeverSkipsOneThatIsStillUnderWay) {
  Gate gate;
  IoPool pool(8, 2, gate);
  pool.submit(0);
  pool.submit(0);
  gate.only = 2;
  until([&] { return gate.ended == 1; });
  CHECK(finished(pool) == 0);
  gate.open = 2;
  pool.wait(2);
  CHECK(finished(pool) == 2 && gate.order[2] == 1 && gate.order[1] == 2);
}

TEST(whatComesAfterAnotherWaitsForIt) {
  Gate gate;
  gate.open = 63;
  for (int32_t round = 0; round < 6; ++round) {
    IoPool pool(10, 3, gate);
    for (uint64_t i = 1; i <= 10; ++i) pool.submit(i == 1 ? 0 : i - 1);
    pool.wait(10);
    for (uint64_t i = 2; i <= 10; ++i) CHECK(gate.order[i] > gate.order[i - 1]);
    CHECK(pool.outcome(5) == EIO && pool.outcome(6) == 0);
  }
}

TEST(aPoolThatEndsFinishesWhatIsUnderWayAndNothingElse) {
  Gate gate;
  std::thread opens;
  {
    IoPool pool(8, 2, gate);
    for (int32_t i = 0; i < 8; ++i) pool.submit(0);
    until([&] { return gate.begun == 2; });
    opens = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      gate.open = 8;
    });
  }
  opens.join();
  CHECK(gate.ended == gate.begun && gate.begun < 8);
}

TEST(manyTransfersFromManyThreadsAllEnd) {
  Gate gate;
  gate.open = ~uint64_t{0};
  class Count : public IoPool::Worker {
   public:
    int32_t perform(uint64_t) noexcept override { return ++n, 0; }
    std::atomic<int32_t> n{0};
  } count;
  IoPool pool(4, 4, count);
  for (uint64_t i = 1; i <= 20000; ++i) {
    if (i > 4) pool.wait(i - 4);
    pool.submit(i > 2 && i % 3 == 0 ? i - 2 : 0);
  }
  pool.wait(20000);
  CHECK(count.n == 20000);
}

// ------------------------------------------------------------------------------ a cache with a disk level

namespace {

// One sequence after another through a device of 4 pages, over a disk.
struct Tiers {
  explicit Tiers(const FaultyFile::Faults &faults = {}, int32_t mode = BERTH_KV_SYNCHRONOUS, int32_t depth = 16,
                 const std::vector<int64_t> &sizes = {4, 0, 8})
      : kv(config(mode), kPlain, faulty_kv(config(mode), kPlain, sizes, faults, 2, depth)) {}
  static berth_kv_config config(int32_t mode) {
    berth_kv_config c = kv_config();
    c.mode = mode;
    c.event_ring_log2 = 10;
    return c;
  }
  static std::vector<int32_t> tokens(int32_t first, int32_t n) {
    std::vector<int32_t> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), first);
    return all;
  }
  void stream() {
    int32_t done;
    if (kv.config.mode == BERTH_KV_EMULATION) REQUIRE(berth_kv_run(kv.kv, 1 << 20, &done) == BERTH_OK);
  }
  void settle_all() {
    for (stream(); stats().under_way != 0; stream()) REQUIRE(kv.poll(1 << 20, 1 << 20) > 0);
  }
  uint64_t open(const std::vector<int32_t> &prompt, int32_t found) {
    berth_kv_op o = kv.with_tokens(BERTH_KV_OPEN, 0, prompt);
    REQUIRE(kv.apply(o) == BERTH_OK && o.matched == found);
    return o.handle;
  }
  berth_kv_op resume(uint64_t s, int32_t row = 0) {
    berth_kv_op o = kv.op(BERTH_KV_RESUME, s);
    o.a = row;
    kv.apply(o);
    return o;
  }
  // Computes and stores the prompt's blocks; what a page holds says whose it is. dear 0: goes nowhere but out.
  void store(int32_t first, int32_t n, int32_t dear = 35) {
    const std::vector<int32_t> prompt = tokens(first, n);
    const uint64_t s = open(prompt, kv.probe(prompt));
    REQUIRE(resume(s).status == BERTH_OK);
    berth_kv_op o = kv.op(BERTH_KV_RETAIN, s);
    o.b = -1;
    o.c = dear;
    o.time = -1;
    REQUIRE(kv.apply(o) == BERTH_OK);
    o = kv.op(BERTH_KV_RESIZE, s);
    o.a = n;
    o.b = -1;
    REQUIRE(kv.apply(o) == BERTH_OK);
    stream();
    const std::vector<int32_t> list = kv.blocks(s);
    for (size_t b = 0; b < list.size(); ++b) *kv.words(0, 0, list[b]) = static_cast<uint64_t>(first) * 1000 + b;
    o = kv.with_tokens(BERTH_KV_COMMIT, s, prompt);
    REQUIRE(kv.apply(o) == BERTH_OK);
    REQUIRE(kv.run(kv.op(BERTH_KV_CLOSE, s)) == BERTH_OK);
    audit();
  }
  bool holds(uint64_t s, int32_t first, size_t blocks) {
    stream();
    const std::vector<int32_t> list = kv.blocks(s);
    bool all = list.size() >= blocks;
    for (size_t b = 0; all && b < blocks; ++b) {
      all = *kv.words(0, 0, list[b]) == static_cast<uint64_t>(first) * 1000 + b;
    }
    return all;
  }
  void audit() {
    const int32_t broken = kv.check();
    if (broken != 0) std::fprintf(stderr, "invariant %d\n", broken);
    REQUIRE(broken == 0);
    for (const berth_kv_pages &p : kv.pages()) REQUIRE(p.free + p.held + p.cached + p.moving == p.total);
  }
  berth_kv_stats stats() {
    berth_kv_stats s;
    kv.pages(&s);
    return s;
  }
  bool empty() {
    REQUIRE(berth_kv_reset(kv.kv) == BERTH_OK);
    settle_all();
    audit();
    bool all = stats().index_blocks == 0;
    for (const berth_kv_pages &p : kv.pages()) all = all && p.free == p.total;
    return all;
  }
  // 4 blocks of a prompt on the disk, none of them elsewhere.
  void sink() {
    store(0, 16);
    store(100, 16, 0);
    REQUIRE(kv.pages()[2].cached == 4);
  }

  Kv kv;
};

}  // namespace

TEST(whatIsOnTheDiskComesBackWhenTheTicketIsDone) {
  for (const int32_t mode : {BERTH_KV_SYNCHRONOUS, BERTH_KV_EMULATION}) {
    Tiers t({}, mode);
    t.sink();
    t.settle_all();
    CHECK(t.stats().written == 4 && t.stats().failed == 0);
    const uint64_t s = t.open(t.tokens(0, 17), 16);
    const berth_kv_op first = t.resume(s);
    CHECK(first.status == BERTH_E_PENDING && first.ticket == 1);
    CHECK(t.kv.pages()[0].moving == 4);
    t.audit();
    // Nothing is there until a poll says so, however long it has been.
    t.stream();
    if (mode == BERTH_KV_SYNCHRONOUS) {
      const auto *word = reinterpret_cast<const uint64_t *>(static_cast<uintptr_t>(t.kv.memory.finished_address));
      until([&] {
        return std::atomic_ref<const uint64_t>(*word).load(std::memory_order_acquire) >= t.kv.io().settled + 4;
      });
    }
    const berth_kv_op again = t.resume(s);
    CHECK(again.status == BERTH_E_PENDING && again.ticket == 1 && t.stats().under_way == 4);
    CHECK(t.kv.poll(3, 3) == 3);
    CHECK(t.resume(s).status == BERTH_E_PENDING && t.kv.io().done == 0);
    CHECK(t.kv.poll(1, 1) == 1);
    CHECK(t.kv.io().done == 1 && t.kv.ticket(1).pages == 4 && t.kv.ticket(1).failed == 0);
    CHECK(t.resume(s).status == BERTH_OK && t.holds(s, 0, 4));
    t.audit();
    CHECK(t.kv.run(t.kv.op(BERTH_KV_CLOSE, s)) == BERTH_OK && t.empty());
  }
}

TEST(whatIsStillBeingWrittenIsReadAfterIt) {
  Tiers t;
  t.sink();
  REQUIRE(t.stats().under_way > 0);
  const uint64_t s = t.open(t.tokens(0, 17), 16);
  CHECK(t.resume(s).status == BERTH_E_PENDING);
  t.settle_all();
  CHECK(t.resume(s).status == BERTH_OK && t.holds(s, 0, 4));
  CHECK(t.kv.run(t.kv.op(BERTH_KV_CLOSE, s)) == BERTH_OK && t.empty());
}

TEST(aPrefetchStopsAtTheLevelItNames) {
  Tiers t({}, BERTH_KV_SYNCHRONOUS, 16, {4, 8, 16});
  for (int32_t i = 0; i < 5; ++i) t.store(100 * i, 16);
  t.settle_all();
  REQUIRE(t.kv.pages()[2].cached >= 4);
  const uint64_t s = t.open(t.tokens(0, 17), 16);
  berth_kv_op o = t.kv.op(BERTH_KV_PREFETCH, s);
  o.a = BERTH_KV_HOST;
  CHECK(t.kv.apply(o) == BERTH_OK && o.ticket == 1);
  t.settle_all();
  CHECK(t.kv.ticket(1).ticket == 1 && t.kv.ticket(1).failed == 0);
  o = t.kv.op(BERTH_KV_PREFETCH, s);
  o.a = BERTH_KV_HOST;
  CHECK(t.kv.apply(o) == BERTH_OK && o.ticket == 0);
  // From there a resume waits for nothing.
  CHECK(t.resume(s).status == BERTH_OK && t.holds(s, 0, 4));
  o.a = BERTH_KV_DEVICE;
  CHECK(t.kv.apply(o) == BERTH_E_STATE);
  o.a = BERTH_KV_DISK;
  CHECK(t.kv.apply(o) == BERTH_E_ARGUMENT);
  o.a = -1;
  CHECK(t.kv.apply(o) == BERTH_E_ARGUMENT);
  CHECK(t.kv.run(t.kv.op(BERTH_KV_CLOSE, s)) == BERTH_OK && t.empty());
}

TEST(twoThatShareABlockWaitForOneTransfer) {
  Tiers t;
  t.sink();
  t.settle_all();
  const uint64_t a = t.open(t.tokens(0, 17), 16);
  const uint64_t b = t.open(t.tokens(0, 17), 16);
  CHECK(t.resume(a, 0).ticket == 1);
  const berth_kv_op second = t.resume(b, 1);
  CHECK(second.status == BERTH_E_PENDING && second.ticket == 1 && t.stats().under_way == 4);
  t.settle_all();
  CHECK(t.resume(a, 0).status == BERTH_OK && t.resume(b, 1).status == BERTH_OK);
  CHECK(t.kv.blocks(a) == t.kv.blocks(b) && t.holds(b, 0, 4) && t.stats().read == 4);
}

TEST(aPageThatCannotBeReadIsMissingAndWhatIsLeftIsCounted) {
  for (const int32_t mode : {BERTH_KV_SYNCHRONOUS, BERTH_KV_EMULATION}) {
    for (uint32_t nth = 1; nth <= 4; ++nth) {
      // Writes are calls too: so many of these are made before the first read.
      Tiers count({}, mode);
      count.sink();
      count.settle_all();
      FaultyFile::Faults faults;
      faults.read_fails = static_cast<uint32_t>(count.stats().written) + nth;
      Tiers t(faults, mode);
      t.sink();
      t.settle_all();
      const uint64_t s = t.open(t.tokens(0, 17), 16);
      const uint64_t other = t.open(t.tokens(0, 17), 16);
      CHECK(t.resume(s).status == BERTH_E_PENDING);
      t.settle_all();
      CHECK(t.kv.ticket(1).failed == 1 && t.kv.ticket(1).error == EIO && t.stats().failed == 1);
      t.audit();
      // With two threads which page it was depends on them; but all before it are there and the others aren't.
      const berth_kv_op o = t.resume(s);
      CHECK(o.status == BERTH_E_MISSING && o.matched % 4 == 0 && o.matched < 16);
      if (mode == BERTH_KV_EMULATION) CHECK(o.matched == static_cast<int32_t>(nth - 1) * 4);
      CHECK(t.stats().lost == 4 - o.matched / 4 && t.kv.probe(t.tokens(0, 17)) == o.matched);
      int32_t row[8];
      CHECK(berth_kv_sequence(t.kv.kv, s, row) == BERTH_OK && row[1] == o.matched && row[2] == o.matched &&
            row[3] == o.matched);
      // Said once; then it goes on from what is left, and is computed again.
      CHECK(t.resume(s).status == BERTH_OK && t.holds(s, 0, static_cast<size_t>(o.matched / 4)));
      berth_kv_op op = t.kv.op(BERTH_KV_RESIZE, s);
      op.a = 16;
      op.b = -1;
      CHECK(t.kv.apply(op) == BERTH_OK);
      const std::vector<int32_t> all = t.tokens(0, 16);
      op = t.kv.with_tokens(BERTH_KV_COMMIT, s, {all.begin() + o.matched, all.end()});
      CHECK(t.kv.apply(op) == BERTH_OK && t.kv.probe(t.tokens(0, 17)) == 16);
      // Whoever counted on them is told as well.
      const berth_kv_op told = t.resume(other, 1);
      CHECK(told.status == BERTH_E_MISSING && told.matched == o.matched);
      CHECK(t.resume(other, 1).status == BERTH_OK);
      t.audit();
      CHECK(t.kv.run(t.kv.op(BERTH_KV_CLOSE, s)) == BERTH_OK);
      CHECK(t.kv.run(t.kv.op(BERTH_KV_CLOSE, other)) == BERTH_OK && t.empty());
    }
  }
}

TEST(aPageThatCannotBeWrittenLeavesTheIndex) {
  FaultyFile::Faults faults;
  faults.write_fails = 1;
  Tiers t(faults);
  t.store(0, 16);
  t.store(100, 16, 0);
  // Opened while its pages are on their way down.
  const uint64_t s = t.open(t.tokens(0, 17), 16);
  REQUIRE(t.stats().under_way > 0);
  t.settle_all();
  CHECK(t.stats().written == 0 && t.stats().failed > 0 && t.stats().lost > 0);
  t.audit();
  const berth_kv_op o = t.resume(s);
  CHECK(o.status == BERTH_E_MISSING && o.matched < 16 && o.matched == t.kv.probe(t.tokens(0, 17)));
  CHECK(t.kv.pages()[2].cached == 0 && t.kv.pages()[2].moving == 0);
  CHECK(t.kv.run(t.kv.op(BERTH_KV_CLOSE, s)) == BERTH_OK && t.empty());
}

TEST(whatWasToBeReadAfterAWriteThatFailedIsMissing) {
  FaultyFile::Faults faults;
  faults.write_fails = 1;
  Tiers t(faults);
  t.store(0, 16);
  t.store(100, 16, 0);
  const uint64_t s = t.open(t.tokens(0, 17), 16);
  CHECK(t.resume(s).status == BERTH_E_PENDING);  // neither settled
  t.settle_all();
  CHECK(t.kv.ticket(1).failed > 0 && t.kv.ticket(1).error == ENOSPC);
  CHECK(t.resume(s).status == BERTH_E_MISSING);
  t.audit();
  CHECK(t.kv.run(t.kv.op(BERTH_KV_CLOSE, s)) == BERTH_OK && t.empty());
}

TEST(whatTheDiskCannotTakeInTimeIsDroppedAndNobodyWaits) {
  // Emulation: nothing finishes until the stream runs.
  Tiers t({}, BERTH_KV_EMULATION, 4, {4, 0, 64});
  for (int32_t i = 0; i < 8; ++i) {
    const std::vector<int32_t> prompt = t.tokens(100 * i, 16);
    const uint64_t s = t.open(prompt, 0);
    REQUIRE(t.resume(s).status == BERTH_OK);
    berth_kv_op o = t.kv.op(BERTH_KV_RESIZE, s);
    o.a = 16;
    o.b = -1;
    REQUIRE(t.kv.apply(o) == BERTH_OK);
    o = t.kv.with_tokens(BERTH_KV_COMMIT, s, prompt);
    REQUIRE(t.kv.apply(o) == BERTH_OK && t.kv.run(t.kv.op(BERTH_KV_CLOSE, s)) == BERTH_OK);
    t.audit();
    REQUIRE(t.stats().under_way <= 2);
  }
  CHECK(t.stats().offloaded == 2 && t.stats().evicted == 26);
  CHECK(t.empty());
}

TEST(aTransferCanBeCancelledAtAnyPoint) {
  for (const int32_t mode : {BERTH_KV_SYNCHRONOUS, BERTH_KV_EMULATION}) {
    for (int32_t point = 0; point < 56; ++point) {
      Tiers t({}, mode, 8, {12, 0, 24});  // so small a depth that some wait in the cache
      t.store(0, 48);
      for (int32_t i = 1; i <= 3; ++i) {
        t.store(1000 * i, 16 * i, 0);
        if (i < 3 || point % 2 == 0) t.settle_all();
      }
      const uint64_t s = t.open(t.tokens(0, 49), 48);
      t.resume(s);
      t.stream();
      t.kv.poll(point / 4, point / 4);
      t.audit();
      if (point % 4 < 2) REQUIRE(berth_kv_reset(t.kv.kv) == BERTH_OK);
      t.audit();
      REQUIRE(t.kv.run(t.kv.op(BERTH_KV_CLOSE, s)) == BERTH_OK);
      t.audit();
      for (t.stream(); t.stats().under_way != 0; t.stream()) t.kv.poll(1, 1), t.audit();
      CHECK(t.empty());
    }
  }
}

TEST(aCacheThatEndsWithTransfersUnderWayEnds) {
  for (int32_t i = 0; i < 20; ++i) {
    Tiers t;
    t.sink();
    t.resume(t.open(t.tokens(0, 17), 16));
  }
}

TEST(aSequenceThatComputesABlockOnItsWayUpKeepsItsOwn) {
  Tiers t({}, BERTH_KV_EMULATION, 16, {16, 0, 16});
  t.store(0, 16);
  t.store(100, 64, 0);
  t.settle_all();
  REQUIRE(t.kv.probe(t.tokens(0, 17)) == 16 && t.kv.pages()[2].cached == 4);
  const uint64_t a = t.open(t.tokens(0, 17), 16);
  CHECK(t.resume(a).status == BERTH_E_PENDING);
  // Somebody who looked for nothing computes the same.
  berth_kv_op o = t.kv.with_tokens(BERTH_KV_OPEN, 0, t.tokens(0, 17));
  o.flags = BERTH_KV_NO_REUSE;
  REQUIRE(t.kv.apply(o) == BERTH_OK);
  const uint64_t b = o.handle;
  REQUIRE(t.resume(b, 1).status == BERTH_OK);
  o = t.kv.op(BERTH_KV_RESIZE, b);
  o.a = 8;
  o.b = -1;
  REQUIRE(t.kv.apply(o) == BERTH_OK);
  t.stream();
  for (size_t i = 0; i < 2; ++i) *t.kv.words(0, 0, t.kv.blocks(b)[i]) = i;
  o = t.kv.with_tokens(BERTH_KV_COMMIT, b, t.tokens(0, 8));
  REQUIRE(t.kv.apply(o) == BERTH_OK);
  t.audit();
  CHECK(t.kv.pages()[2].moving == 2);
  t.settle_all();
  t.audit();
  CHECK(t.resume(a).status == BERTH_OK && t.holds(a, 0, 4));
  for (const uint64_t s : {a, b}) REQUIRE(t.kv.run(t.kv.op(BERTH_KV_CLOSE, s)) == BERTH_OK);
  CHECK(t.empty());
}

TEST(aReadWaitsForTheEpochOfItsSlot) {
  Tiers t;
  t.sink();
  t.settle_all();
  REQUIRE(berth_kv_epoch(t.kv.kv, 5, 4) == BERTH_OK);
  // All device pages are let go in an epoch that hasn't completed.
  const uint64_t other = t.open(t.tokens(900, 16), 0);
  REQUIRE(t.resume(other).status == BERTH_OK);
  berth_kv_op o = t.kv.op(BERTH_KV_RESIZE, other);
  o.a = 16;
  o.b = -1;
  REQUIRE(t.kv.apply(o) == BERTH_OK && t.kv.run(t.kv.op(BERTH_KV_CLOSE, other)) == BERTH_OK);
  t.settle_all();
  const uint64_t s = t.open(t.tokens(0, 17), t.kv.probe(t.tokens(0, 17)));
  CHECK(t.resume(s).status == BERTH_E_PENDING);
  CHECK(t.kv.poll(1, 1) == 0 && t.stats().under_way > 0);
  REQUIRE(berth_kv_epoch(t.kv.kv, 5, 5) == BERTH_OK);
  t.settle_all();
  CHECK(t.resume(s).status == BERTH_OK);
}

// ------------------------------------------------------------------------------ windows and states

TEST(theTailOfAWindowGoesDownWithItsBlocksAndComesBack) {
  berth_kv_config config = kv_config();
  config.offload_min_priority = 0;
  const std::vector<berth_kv_buffer> buffers = {kv_buffer(0, 0, 32), kv_buffer(1, 0, 64, 4)};
  const std::vector<int64_t> pages = {4, 4, 0, 0, 32, 16};
  Kv kv(config, buffers, faulty_kv(config, buffers, pages, {}));
  const auto run = [&](int32_t first) {
    const std::vector<int32_t> prompt = Tiers::tokens(first, 16);
    berth_kv_op o = kv.with_tokens(BERTH_KV_OPEN, 0, prompt);
    REQUIRE(kv.apply(o) == BERTH_OK);
    const uint64_t s = o.handle;
    o = kv.op(BERTH_KV_RESUME, s);
    REQUIRE(kv.apply(o) == BERTH_OK);
    for (int32_t to = 4; to <= 16; to += 4) {
      o = kv.op(BERTH_KV_RESIZE, s);
      o.a = to;
      o.b = -1;
      REQUIRE(kv.apply(o) == BERTH_OK);
      o = kv.with_tokens(BERTH_KV_COMMIT, s, Tiers::tokens(first + to - 4, 4));
      REQUIRE(kv.apply(o) == BERTH_OK);
    }
    REQUIRE(kv.run(kv.op(BERTH_KV_CLOSE, s)) == BERTH_OK && kv.check() == 0);
  };
  for (int32_t i = 0; i < 6; ++i) {
    run(100 * i);
    kv.poll(1 << 20, 1 << 20);
  }
  CHECK(kv.probe(Tiers::tokens(0, 17)) == 16);
  CHECK(kv.pages()[4].cached > 0 && kv.pages()[5].cached > 0);
  berth_kv_op o = kv.with_tokens(BERTH_KV_OPEN, 0, Tiers::tokens(0, 17));
  REQUIRE(kv.apply(o) == BERTH_OK && o.matched == 16);
  const uint64_t s = o.handle;
  o = kv.op(BERTH_KV_RESUME, s);
  CHECK(kv.apply(o) == BERTH_E_PENDING);
  kv.poll(1 << 20, 1 << 20);
  o = kv.op(BERTH_KV_RESUME, s);
  CHECK(kv.apply(o) == BERTH_OK && kv.check() == 0);
}

// ------------------------------------------------------------------------------ what is decided doesn't depend on time

TEST(theSameHistoryGoesTheSameWayWithAnyNumberOfThreads) {
  for (const int32_t shape : {2, 6, 7}) {
    for (uint64_t seed = 0; seed < 12; ++seed) {
      uint64_t digest = 0;
      for (const int32_t threads : {0, 1, 4}) {
        berth::test::Choices choices(seed);
        berth::test::KvWorld::Shape s = berth::test::kv_shape(shape, choices);
        s.config.mode = threads == 0 ? BERTH_KV_EMULATION : BERTH_KV_SYNCHRONOUS;
        s.threads = std::max(1, threads);
        s.faulty = false;
        berth::test::KvWorld world(s, choices);
        world.run(300);
        if (threads == 0) digest = world.digest();
        CHECK(world.digest() == digest);
      }
    }
  }
}

// ------------------------------------------------------------------------------ bad input

TEST(aDiskLevelThatCannotBeIsRefusedWithTheReason) {
  berth_kv_config config = kv_config();
  const auto create = [&](berth_kv_disk &disk, const std::vector<int64_t> &pages) {
    berth_kv_t kv = nullptr;
    config.disk_address = reinterpret_cast<uintptr_t>(&disk);
    const int32_t status = berth_kv_create(&config, kPlain.data(), 1, pages.data(), 3, &kv);
    CHECK((kv != nullptr) == (status == BERTH_OK));
    if (kv != nullptr) berth_kv_destroy(kv);
    return status;
  };
  berth_kv_disk disk = kv_disk(temporary_directory());
  CHECK(create(disk, {8, 0, 8}) == BERTH_OK && disk.error == 0 && disk.bytes == 4096);
  disk = kv_disk("/nowhere/at/all");
  CHECK(create(disk, {8, 0, 8}) == BERTH_E_IO && disk.cause == BERTH_KV_DISK_DIRECTORY && disk.error == ENOENT &&
        std::strlen(disk.text) > 0);
  CHECK(create(disk, {8, 8, 0}) == BERTH_OK);  // nothing is to lie there
  const std::vector<std::function<void(berth_kv_disk &)>> wrong = {
      [](berth_kv_disk &d) { d.struct_size = 0; },
      [](berth_kv_disk &d) { d.threads = 0; },
      [](berth_kv_disk &d) { d.threads = 65; },
      [](berth_kv_disk &d) { d.depth = 1; },
      [](berth_kv_disk &d) { d.depth = 65537; },
      [](berth_kv_disk &d) { d.directory_address = 0; },
      [](berth_kv_disk &d) { d.directory_bytes = 0; },
      [](berth_kv_disk &d) { d.directory_bytes = -1; },
      [](berth_kv_disk &d) { d.directory_bytes = 4096; },
      [](berth_kv_disk &d) { d.directory_address = reinterpret_cast<uintptr_t>("/t\0p"), d.directory_bytes = 4; },
  };
  for (const auto &spoil : wrong) {
    disk = kv_disk(temporary_directory());
    spoil(disk);
    CHECK(create(disk, {8, 0, 8}) == BERTH_E_ARGUMENT);
  }
  // Pages with memory and no place for them.
  config.disk_address = 0;
  berth_kv_t kv = nullptr;
  const int64_t pages[] = {8, 0, 8};
  CHECK(berth_kv_create(&config, kPlain.data(), 1, pages, 3, &kv) == BERTH_E_ARGUMENT);
  config.memory = 0;
  CHECK(berth_kv_create(&config, kPlain.data(), 1, pages, 3, &kv) == BERTH_OK && berth_kv_destroy(kv) == BERTH_OK);
  // More than there is room for.
  config.memory = 1;
  const std::vector<berth_kv_buffer> huge = {kv_buffer(0, 0, int64_t{1} << 40)};
  disk = kv_disk(temporary_directory());
  config.disk_address = reinterpret_cast<uintptr_t>(&disk);
  for (const int64_t n : {int64_t{1} << 20, int64_t{1} << 22}) {
    const int64_t many[] = {1, 0, n};
    kv = nullptr;
    CHECK(berth_kv_create(&config, huge.data(), 1, many, 3, &kv) == BERTH_E_IO && kv == nullptr);
    CHECK(disk.cause == BERTH_KV_DISK_SPACE && (disk.error == EFBIG || disk.error == ENOSPC));
  }
}

TEST(anAdjustmentIsGivenNumbersThatCanBe) {
  berth_kv_config config = kv_config();
  const std::vector<int64_t> pages = {8, 4, 0};
  std::vector<int64_t> most = {16, 8, 0};
  config.most_address = reinterpret_cast<uintptr_t>(most.data());
  berth_kv_t kv = nullptr;
  REQUIRE(berth_kv_create(&config, kPlain.data(), 1, pages.data(), 3, &kv) == BERTH_OK);
  int32_t pool;
  int64_t deficit;
  CHECK(berth_kv_adjust(nullptr, pages.data(), 3, &pool, &deficit) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_adjust(kv, nullptr, 3, &pool, &deficit) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_adjust(kv, pages.data(), 2, &pool, &deficit) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_adjust(kv, pages.data(), 3, nullptr, &deficit) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_adjust(kv, pages.data(), 3, &pool, nullptr) == BERTH_E_ARGUMENT);
  for (const std::vector<int64_t> &wrong : std::vector<std::vector<int64_t>>{
           {0, 4, 0}, {17, 4, 0}, {8, 9, 0}, {8, -1, 0}, {8, 4, 1}, {INT64_MIN, 4, 0}, {8, INT64_MAX, 0}}) {
    CHECK(berth_kv_adjust(kv, wrong.data(), 3, &pool, &deficit) == BERTH_E_ARGUMENT);
  }
  CHECK(berth_kv_adjust(kv, most.data(), 3, &pool, &deficit) == BERTH_OK && pool == -1 && deficit == 0);
  CHECK(berth_kv_epoch(kv, 2, 1) == BERTH_OK);
  CHECK(berth_kv_adjust(kv, pages.data(), 3, &pool, &deficit) == BERTH_E_STATE);
  CHECK(berth_kv_destroy(kv) == BERTH_OK);
  for (const std::vector<int64_t> &wrong : std::vector<std::vector<int64_t>>{{7, 8, 0}, {16, 3, 0}, {16, 8, 1}}) {
    most = wrong;
    kv = nullptr;
    CHECK(berth_kv_create(&config, kPlain.data(), 1, pages.data(), 3, &kv) == BERTH_E_ARGUMENT && kv == nullptr);
  }
}

TEST(aPollIsGivenARange) {
  Tiers t;
  int32_t n;
  CHECK(berth_kv_poll(nullptr, 0, 1, &n) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_poll(t.kv.kv, -1, 1, &n) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_poll(t.kv.kv, 2, 1, &n) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_poll(t.kv.kv, 0, 1, nullptr) == BERTH_E_ARGUMENT);
  CHECK(t.kv.poll(5, 5) == 0);  // nothing is under way
  Kv plain(kv_config(), kPlain, std::vector<int64_t>{8, 0, 0});
  CHECK(plain.poll(1, 1) == 0 && plain.memory.finished_address == 0);
}

TEST_MAIN
