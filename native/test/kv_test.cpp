// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <limits>
#include <memory>

#include "core/kv_cache.hpp"
#include "core/page_slots.hpp"
#include "device/host.hpp"
#include "fuzz/kv_ops.hpp"
#include "test/check.hpp"

using berth::test::Kv;
using berth::test::kv_buffer;
using berth::test::kv_config;

namespace {

const std::vector<berth_kv_buffer> kPlain = {kv_buffer(0, 0, 32)};

int32_t create(const berth_kv_config &config, const std::vector<berth_kv_buffer> &buffers = kPlain,
               const std::vector<int64_t> &pages = {8, 0, 0}) {
  berth_kv_t kv = nullptr;
  const int32_t status = berth_kv_create(&config, buffers.data(), static_cast<int32_t>(buffers.size()), pages.data(),
                                         static_cast<int32_t>(pages.size()), &kv);
  CHECK((kv != nullptr) == (status == BERTH_OK));
  if (status == BERTH_OK) CHECK(berth_kv_destroy(kv) == BERTH_OK);
  return status;
}

}  // namespace

// ------------------------------------------------------------------------------ arguments

TEST(nullPointersAreRefused) {
  const berth_kv_config config = kv_config();
  Kv kv(config, kPlain, {8, 0, 0});
  berth_kv_t out = nullptr;
  const int64_t pages[] = {8, 0, 0};
  CHECK(berth_kv_create(nullptr, kPlain.data(), 1, pages, 3, &out) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_create(&config, nullptr, 1, pages, 3, &out) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_create(&config, kPlain.data(), 0, pages, 3, &out) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_create(&config, kPlain.data(), 1, nullptr, 3, &out) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_create(&config, kPlain.data(), 1, pages, 2, &out) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_create(&config, kPlain.data(), 1, pages, 3, nullptr) == BERTH_E_ARGUMENT);
  CHECK(out == nullptr);
  int32_t n = 0;
  uint64_t word = 0;
  int64_t bytes = 0;
  uint64_t handle = 1;
  berth_kv_op op{};
  berth_kv_stats stats{};
  std::vector<berth_kv_pages> use(3);
  CHECK(berth_kv_destroy(nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_map(kv.kv, nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_map(nullptr, &kv.memory) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_apply(nullptr, &op, 1) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_apply(kv.kv, nullptr, 1) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_apply(kv.kv, &op, -1) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_apply(kv.kv, &op, (1 << 20) + 1) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_apply(kv.kv, nullptr, 0) == BERTH_OK);
  CHECK(berth_kv_grow(kv.kv, nullptr, nullptr, nullptr, 1, &n) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_grow(kv.kv, &handle, nullptr, nullptr, 1, nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_grow(nullptr, &handle, nullptr, nullptr, 1, &n) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_grow(kv.kv, &handle, nullptr, nullptr, 1, &n) == BERTH_E_NOT_FOUND);
  CHECK(berth_kv_probe(kv.kv, 0, 0, 0, nullptr, 1, &n) == BERTH_E_ARGUMENT);
  const int64_t offsets[] = {0, 4};
  CHECK(berth_kv_probe(kv.kv, 0, 0, 0, offsets, 1, nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_probe(kv.kv, 1, 0, 0, offsets, 1, &n) == BERTH_E_ARGUMENT);  // an adapter that isn't meant
  CHECK(berth_kv_probe(kv.kv, 1, 0, 4, offsets, 1, &n) == BERTH_E_ARGUMENT);
  const int64_t beyond[] = {0, 4097};
  CHECK(berth_kv_probe(kv.kv, 0, 0, 0, beyond, 1, &n) == BERTH_E_ARGUMENT);
  const int64_t back[] = {4, 4};
  CHECK(berth_kv_probe(kv.kv, 0, 0, 0, back, 1, &n) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_prepare(nullptr, nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_prepare(kv.kv, nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_epoch(nullptr, 0, 0) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_clock(nullptr, 0) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_clock(kv.kv, -1) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_run(kv.kv, -1, &n) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_run(kv.kv, 1, nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_quota(kv.kv, 1, 0) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_quota(kv.kv, 0, -1) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_blocks(kv.kv, 1, 0, 0, nullptr, 1, &n) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_blocks(kv.kv, 1, 0, 0, nullptr, 0, &n) == BERTH_E_NOT_FOUND);
  CHECK(berth_kv_sequence(kv.kv, 1, nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_describe(kv.kv, &stats, use.data(), 3) == BERTH_E_ARGUMENT);  // no size
  stats.struct_size = sizeof stats;
  CHECK(berth_kv_describe(kv.kv, &stats, use.data(), 2) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_describe(kv.kv, &stats, nullptr, 3) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_snapshot(kv.kv, nullptr, nullptr, 1, &n, &word) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_snapshot(kv.kv, nullptr, nullptr, 0, &n, &word) == BERTH_OK);
  CHECK(berth_kv_reset(nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_check(kv.kv, nullptr) == BERTH_E_ARGUMENT);
  for (const auto &[level, pool, slot] :
       {std::tuple{-1, 0, 0}, {3, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 8}, {1, 0, 0}}) {
    CHECK(berth_kv_page(kv.kv, level, pool, slot, &word, &bytes) == BERTH_E_ARGUMENT);
  }
  CHECK(berth_kv_page(kv.kv, 0, 0, 7, &word, &bytes) == BERTH_OK && word != 0 && bytes == 32);
  uint8_t id[32];
  const int32_t tokens[] = {1, 2, 3};
  CHECK(berth_kv_hash_blocks(0, 0, 0, 0, nullptr, tokens, 3, 4, id, 32, nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_hash_blocks(4, 0, 0, 0, nullptr, tokens, 3, 4, id, 32, nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_hash_blocks(1, 0, 0, 0, nullptr, tokens, 3, 0, id, 32, nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_hash_blocks(1, 0, 0, 0, nullptr, nullptr, 3, 4, id, 32, nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_kv_hash_blocks(2, 0, 0, 0, nullptr, tokens, 3, 2, id, 63, nullptr) == BERTH_E_CAPACITY);
}

TEST(everyConfigFieldHasARange) {
  using C = berth_kv_config;
  CHECK(create(kv_config()) == BERTH_OK);
  const int32_t most = std::numeric_limits<int32_t>::max();
  const std::vector<std::function<void(C &)>> wrong = {
      [](C &c) { c.struct_size = 0; },
      [](C &c) { c.tokens_per_block = 0; },
      [](C &c) { c.tokens_per_block = 1025; },
      [](C &c) { c.max_blocks = 0; },
      [](C &c) { c.max_blocks = 18; },
      [](C &c) { c.max_blocks = 1 << 28; },
      [](C &c) { c.sequences = 0; },
      [=](C &c) { c.sequences = most; },
      [](C &c) { c.rows = 0; },
      [=](C &c) { c.rows = most; },
      [](C &c) { c.beams = 0; },
      [](C &c) { c.beams = 65; },
      [](C &c) { c.rows = 1, c.beams = 2; },
      [](C &c) { c.pins = -1; },
      [](C &c) { c.scopes = 0; },
      [](C &c) { c.tenants = 0; },
      [](C &c) { c.tenants = 65; },
      [](C &c) { c.index_blocks = -1; },
      [=](C &c) { c.index_blocks = most; },
      [](C &c) { c.partial_reuse = 2; },
      [](C &c) { c.default_priority = -1; },
      [](C &c) { c.default_priority = 101; },
      [](C &c) { c.offload_min_priority = 102; },
      [](C &c) { c.max_utilisation = -1; },
      [](C &c) { c.max_utilisation = 65537; },
      [](C &c) { c.event_ring_log2 = 3; },
      [](C &c) { c.event_ring_log2 = 25; },
      [](C &c) { c.memory = 2; },
      [](C &c) { c.mode = 2; },
      [](C &c) { c.staging = 0; },
      [](C &c) { c.staging = 65; },
      [](C &c) { c.token_arena = 0; },
      [=](C &c) { c.token_arena = most; },
  };
  for (const auto &change : wrong) {
    C config = kv_config();
    change(config);
    CHECK(create(config) == BERTH_E_ARGUMENT);
  }
  CHECK(create(kv_config(), kPlain, {0, 0, 0}) == BERTH_E_ARGUMENT);
  CHECK(create(kv_config(), kPlain, {8, -1, 0}) == BERTH_E_ARGUMENT);
  CHECK(create(kv_config(), kPlain, {int64_t{1} << 31, 0, 0}) == BERTH_E_ARGUMENT);
}

TEST(hostileOperationsChangeNothing) {
  Kv kv(kv_config(), kPlain, {8, 0, 0});
  berth_kv_op open = kv.with_tokens(BERTH_KV_OPEN, 0, {1, 2, 3});
  CHECK(kv.apply(open) == BERTH_OK);
  const uint64_t s = open.handle;
  const int32_t most = std::numeric_limits<int32_t>::max();
  const int32_t least = std::numeric_limits<int32_t>::min();
  const std::vector<std::function<void(berth_kv_op &)>> wrong = {
      [](berth_kv_op &o) { o.kind = 0; },
      [](berth_kv_op &o) { o.kind = BERTH_KV_PREFETCH + 1; },
      [=](berth_kv_op &o) { o.kind = least; },
      [](berth_kv_op &o) { o.kind = BERTH_KV_OPEN, o.token_count = 0; },
      [](berth_kv_op &o) { o.kind = BERTH_KV_OPEN, o.token_count = -1; },
      [](berth_kv_op &o) { o.kind = BERTH_KV_OPEN, o.token_count = 1, o.token_offset = -1; },
      [](berth_kv_op &o) { o.kind = BERTH_KV_OPEN, o.token_count = 2, o.token_offset = 4095; },
      [](berth_kv_op &o) { o.kind = BERTH_KV_OPEN, o.token_count = 2, o.token_offset = INT64_MAX; },
      [=](berth_kv_op &o) { o.kind = BERTH_KV_OPEN, o.token_count = most, o.token_offset = INT64_MIN; },
      [](berth_kv_op &o) { o.kind = BERTH_KV_OPEN, o.token_count = 1, o.tenant = 1; },
      [](berth_kv_op &o) { o.kind = BERTH_KV_OPEN, o.token_count = 1, o.tenant = -1; },
      [](berth_kv_op &o) { o.kind = BERTH_KV_OPEN, o.token_count = 1, o.salt = 1; },
      [](berth_kv_op &o) { o.kind = BERTH_KV_LOOKUP, o.token_count = 0; },
      [=](berth_kv_op &o) { o.kind = BERTH_KV_RESUME, o.a = most; },
      [=](berth_kv_op &o) { o.kind = BERTH_KV_RESUME, o.a = least; },
      [=](berth_kv_op &o) { o.kind = BERTH_KV_RESIZE, o.a = most, o.b = -1; },
      [=](berth_kv_op &o) { o.kind = BERTH_KV_RESIZE, o.a = least, o.b = -1; },
      [=](berth_kv_op &o) { o.kind = BERTH_KV_RESIZE, o.a = 4, o.b = most; },
      [=](berth_kv_op &o) { o.kind = BERTH_KV_COMMIT, o.token_count = most; },
      [=](berth_kv_op &o) { o.kind = BERTH_KV_WIDEN, o.a = most; },
      [](berth_kv_op &o) { o.kind = BERTH_KV_WIDEN, o.a = 0; },
      [=](berth_kv_op &o) { o.kind = BERTH_KV_RETAIN, o.a = least, o.b = most; },
      [](berth_kv_op &o) { o.kind = BERTH_KV_RETAIN, o.a = 0, o.b = -2; },
      [](berth_kv_op &o) { o.kind = BERTH_KV_RETAIN, o.a = 0, o.b = -1, o.time = INT64_MIN; },
  };
  for (const auto &spoil : wrong) {
    berth_kv_op op = kv.op(BERTH_KV_SUSPEND, s);
    spoil(op);
    CHECK(kv.apply(op) == BERTH_E_ARGUMENT && op.status == BERTH_E_ARGUMENT);
    CHECK(kv.check() == 0);
  }
  for (const uint64_t handle : {uint64_t{0}, ~uint64_t{0}, s + 1, s & 0xffffffffu, s | uint64_t{2} << 32}) {
    for (int32_t kind = BERTH_KV_RESUME; kind <= BERTH_KV_PREFETCH; ++kind) {
      if (kind == BERTH_KV_LOOKUP) continue;
      CHECK(kv.run(kv.op(kind, handle)) == BERTH_E_NOT_FOUND);
    }
  }
  int32_t state[8];
  CHECK(berth_kv_sequence(kv.kv, s, state) == BERTH_OK && state[0] == 0 && state[3] == 0);
}

// ------------------------------------------------------------------------------ slots

TEST(readySlotsComeBeforeFreshOnesAndWaitingOnesLast) {
  berth::PageSlots slots(6);
  int32_t out[6];
  CHECK(slots.take(out, 4) == 0 && out[0] == 0 && out[3] == 3);
  slots.complete(10);
  slots.put(2, 10);  // ready
  slots.put(0, 12);  // waits
  slots.put(1, 11);  // was let go later with a lower epoch: waits with the one before
  CHECK(slots.free() == 5);
  CHECK(slots.take(out, 5) == 12);
  CHECK(out[0] == 2 && out[1] == 4 && out[2] == 5 && out[3] == 0 && out[4] == 1);
}

TEST(slotsBehaveAsAListOfThem) {
  std::mt19937_64 random(3);
  for (int32_t round = 0; round < 200; ++round) {
    const int32_t capacity = 1 + static_cast<int32_t>(random() % 20);
    berth::PageSlots slots(capacity);
    std::vector<std::pair<int32_t, uint64_t>> ready, waiting;  // the model
    std::vector<int32_t> held;
    int32_t issued = 0;
    uint64_t completed = 0;
    for (int32_t step = 0; step < 400; ++step) {
      const uint64_t what = random() % 3;
      if (what == 0) {
        const int32_t free = static_cast<int32_t>(ready.size() + waiting.size()) + capacity - issued;
        CHECK(slots.free() == free);
        const int32_t n = static_cast<int32_t>(random() % static_cast<uint64_t>(free + 1));
        std::vector<int32_t> got(static_cast<size_t>(n) + 1), expected;
        uint64_t wait = 0;
        while (static_cast<int32_t>(expected.size()) < n) {
          if (!ready.empty()) {
            expected.push_back(ready.front().first);
            ready.erase(ready.begin());
          } else if (issued < capacity) {
            expected.push_back(issued++);
          } else {
            expected.push_back(waiting.front().first);
            wait = std::max(wait, waiting.front().second);
            waiting.erase(waiting.begin());
          }
        }
        CHECK(slots.take(got.data(), n) == wait);
        got.resize(static_cast<size_t>(n));
        CHECK(got == expected);
        held.insert(held.end(), got.begin(), got.end());
      } else if (what == 1 && !held.empty()) {
        const size_t i = random() % held.size();
        uint64_t epoch = completed + random() % 4;
        slots.put(held[i], epoch);
        if (epoch <= completed) {
          ready.push_back({held[i], 0});
        } else {
          if (!waiting.empty()) epoch = std::max(epoch, waiting.back().second);
          waiting.push_back({held[i], epoch});
        }
        held.erase(held.begin() + static_cast<int64_t>(i));
      } else {
        completed += random() % 3;
        slots.complete(completed);
        while (!waiting.empty() && waiting.front().second <= completed) {
          ready.push_back(waiting.front());
          waiting.erase(waiting.begin());
        }
      }
    }
  }
}

// ------------------------------------------------------------------------------ stale ranges

TEST(staleBlocksAreThoseWithoutATokenThatAnybodyLooksAt) {
  std::mt19937_64 random(7);
  for (int32_t i = 0; i < 20000; ++i) {
    const int32_t tpb = 1 + static_cast<int32_t>(random() % 8);
    const berth::LifeCycle life{1 + static_cast<int32_t>(random() % 40), static_cast<int32_t>(random() % 20), 0, 0};
    const int64_t history = static_cast<int64_t>(random() % 120);
    const auto stale = life.stale(history, tpb);
    for (int64_t block = 0; block * tpb < history; ++block) {
      bool seen = block < (life.sinks + tpb - 1) / tpb;
      for (int64_t p = block * tpb; p < (block + 1) * tpb; ++p) seen = seen || p + life.window > history;
      CHECK(seen == !(block >= stale.first && block < stale.second));
    }
  }
}

// ------------------------------------------------------------------------------ the race of spec 03 section 12 item 5

namespace {

// What others do: the batch's rows are read where the caller left them, when the device gets there.
class SharedBuffer : public berth::device::HostBackend {
 public:
  using HostBackend::HostBackend;

 protected:
  void snapshot(Step &step, const berth::device::Gather &gather) override { step.gather = gather; }
};

// Two batches are launched before the device has done anything; the first table's row 0.
template <class Backend>
std::vector<int32_t> first_table() {
  berth::KvLayout layout;
  int32_t bad;
  REQUIRE(berth::KvLayout::plan(kPlain, 4, layout, bad) == berth::Status::kOk);
  berth_kv_config config = kv_config();
  config.mode = BERTH_KV_EMULATION;
  const std::vector<int64_t> pages = {8, 0, 0};
  auto backend = std::make_unique<Backend>(typename Backend::Config{
      &layout, config.rows, config.max_blocks, config.staging, Backend::Mode::kEmulation, false, pages});
  berth::KvCache cache(config, layout, pages, std::move(backend));
  berth_kv_memory memory{};
  cache.map(memory);
  int32_t *arena = reinterpret_cast<int32_t *>(static_cast<uintptr_t>(memory.token_address));
  uint64_t handles[2];
  for (int32_t i = 0; i < 2; ++i) {
    berth_kv_op op{};
    op.kind = BERTH_KV_OPEN;
    op.token_count = 1;
    arena[0] = i;
    REQUIRE(cache.apply(op) == berth::Status::kOk);
    handles[i] = op.handle;
    op.kind = BERTH_KV_RESUME;
    op.a = i;
    REQUIRE(cache.apply(op) == berth::Status::kOk);
    op.kind = BERTH_KV_RESIZE;
    op.a = 4 * (i + 1);
    op.b = -1;
    REQUIRE(cache.apply(op) == berth::Status::kOk);
  }
  std::vector<std::vector<int32_t>> tables(2, std::vector<int32_t>(2 * 16, -77));
  const int32_t query = 1;
  for (size_t i = 0; i < 2; ++i) {
    berth_kv_batch batch{};
    batch.struct_size = sizeof batch;
    batch.n = batch.contexts = batch.beam = batch.output_rows = 1;
    batch.handle_address = reinterpret_cast<uintptr_t>(&handles[i]);
    batch.query_address = reinterpret_cast<uintptr_t>(&query);
    batch.table_address = reinterpret_cast<uintptr_t>(tables[i].data());
    REQUIRE(cache.prepare(batch) == berth::Status::kOk);
  }
  cache.backend().run(1000);
  return {tables[0].begin(), tables[0].begin() + 3};
}

}  // namespace

TEST(anOverlappingBatchReadsItsOwnRows) {
  CHECK((first_table<berth::device::HostBackend>() == std::vector<int32_t>{0, -77, -77}));
}

TEST(withOneSharedBufferItWouldReadThoseOfTheNext) {
  CHECK((first_table<SharedBuffer>() == std::vector<int32_t>{1, 2, -77}));
}

// ------------------------------------------------------------------------------ broken invariants

namespace {

// A device whose table isn't what was written to it.
class ForgetfulTable : public berth::device::HostBackend {
 public:
  using HostBackend::HostBackend;
  const int32_t *table(int32_t) const noexcept override { return nothing_.data(); }

 private:
  std::vector<int32_t> nothing_ = std::vector<int32_t>(6 * 16, -1);
};

}  // namespace

TEST(afterABrokenInvariantOnlyReadingGoesOn) {
  berth::KvLayout layout;
  int32_t bad;
  REQUIRE(berth::KvLayout::plan(kPlain, 4, layout, bad) == berth::Status::kOk);
  const berth_kv_config config = kv_config();
  const std::vector<int64_t> pages = {8, 0, 0};
  berth::KvCache cache(config, layout, pages,
                       std::make_unique<ForgetfulTable>(berth::device::HostBackend::Config{
                           &layout, config.rows, config.max_blocks, config.staging,
                           berth::device::HostBackend::Mode::kSynchronous, false, pages}));
  berth_kv_op op{};
  op.kind = BERTH_KV_OPEN;
  op.token_count = 1;
  CHECK(cache.apply(op) == berth::Status::kOk);
  const uint64_t sequence = op.handle;
  op.kind = BERTH_KV_RESUME;
  CHECK(cache.apply(op) == berth::Status::kOk);
  CHECK(cache.check() == 0);
  op.kind = BERTH_KV_RESIZE;
  op.a = 4;
  op.b = -1;
  CHECK(cache.apply(op) == berth::Status::kOk);
  CHECK(cache.check() == 9);
  CHECK(cache.apply(op) == berth::Status::kState);
  CHECK(cache.grow(sequence, 1, 0) == berth::Status::kState);
  berth_kv_batch batch{};
  batch.struct_size = sizeof batch;
  CHECK(cache.prepare(batch) == berth::Status::kState);
  int32_t state[8];
  CHECK(cache.sequence(sequence, state) == berth::Status::kOk && state[3] == 4);
}

// ------------------------------------------------------------------------------ eviction

TEST(theOldestPromptGoesFirstAndItsEndBeforeItsBeginning) {
  berth_kv_config config = kv_config();
  config.max_blocks = 1024;
  config.index_blocks = 4096;
  config.memory = 0;
  Kv kv(config, kPlain, {4096, 0, 0});
  for (int32_t i = 0; i < 64; ++i) {
    std::vector<int32_t> prompt(256, i);
    berth_kv_op open = kv.with_tokens(BERTH_KV_OPEN, 0, prompt);
    CHECK(kv.apply(open) == BERTH_OK);
    berth_kv_op op = kv.op(BERTH_KV_RESUME, open.handle);
    CHECK(kv.apply(op) == BERTH_OK);
    op = kv.op(BERTH_KV_RESIZE, open.handle);
    op.a = 256;
    op.b = -1;
    CHECK(kv.apply(op) == BERTH_OK);
    op = kv.with_tokens(BERTH_KV_COMMIT, open.handle, prompt);
    CHECK(kv.apply(op) == BERTH_OK);
    CHECK(kv.run(kv.op(BERTH_KV_CLOSE, open.handle)) == BERTH_OK);
  }
  berth_kv_stats stats;
  CHECK(kv.pages(&stats)[0].cached == 4096 && stats.index_runs == 65);
  // The whole device for one sequence: every block goes, the oldest prompt first.
  berth_kv_op open = kv.with_tokens(BERTH_KV_OPEN, 0, {-1});
  CHECK(kv.apply(open) == BERTH_OK);
  CHECK(kv.run(kv.op(BERTH_KV_RESUME, open.handle)) == BERTH_OK);
  berth_kv_op op = kv.op(BERTH_KV_RESIZE, open.handle);
  op.a = 4 * 1000;
  op.b = -1;
  CHECK(kv.apply(op) == BERTH_OK);
  CHECK(kv.probe(std::vector<int32_t>(257, 14)) == 0);
  CHECK(kv.probe(std::vector<int32_t>(257, 15)) == 24 * 4);
  CHECK(kv.probe(std::vector<int32_t>(257, 16)) == 256);
  CHECK(kv.check() == 0);
}

TEST_MAIN
