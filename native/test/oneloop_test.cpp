// SPDX-License-Identifier: Apache-2.0
// Spec 02, table F: the one loop against a cache manager that says yes and no by script.
#include "core/oneloop.hpp"

#include <functional>
#include <set>
#include <vector>

#include "test/check.hpp"

using namespace berth;
using Ids = std::vector<int32_t>;

namespace {

// Everything is granted unless a script says no.
class Scripted final : public CacheManager {
 public:
  std::function<bool(int32_t row, int attempt)> generation = [](int32_t, int) { return true; };
  std::function<bool(int32_t row)> prepare = [](int32_t) { return true; };
  std::function<bool(int32_t row, int32_t tokens)> resize = [](int32_t, int32_t) { return true; };
  std::set<int32_t> active;
  bool below = false;
  int attempts = 0;
  Ids suspended, dropped, released;

  int32_t prepare_context(int32_t row) override {
    if (!prepare(row)) return BERTH_WAIT_PAGES;
    active.insert(row);
    return BERTH_WAIT_NONE;
  }
  void release(int32_t row) override {
    active.erase(row);
    released.push_back(row);
  }
  bool resize_context(int32_t row, int32_t tokens) override { return resize(row, tokens); }
  int32_t prepare_receive(int32_t) override { return BERTH_WAIT_NONE; }
  bool allocate_generation(int32_t row) override { return generation(row, ++attempts); }
  void suspend(int32_t row) override {
    active.erase(row);
    suspended.push_back(row);
  }
  void drop(int32_t row) override {
    active.erase(row);
    dropped.push_back(row);
  }
  bool resident(int32_t row) const override { return active.count(row) > 0; }
  bool tier_below() const override { return below; }
};

struct Fixture {
  static berth_table_config config() {
    berth_table_config c{};
    c.struct_size = sizeof c;
    c.rows = 16;
    c.pools = 1;
    return c;
  }
  static berth_pool pool() {
    berth_pool p{};
    p.window = 64;
    p.total = -1;
    return p;
  }

  Fixture() : only(pool()), table(config(), &only, 16) {
    rules.struct_size = sizeof rules;
    rules.stages = BERTH_STAGE_ONE_LOOP;
    rules.range_begin = BERTH_STATE_CONTEXT_INIT;
    rules.batch_range_end = BERTH_STATE_RETIRING;
    rules.prefix_sharing = 1;
    rules.adapter_pages = -1;
    rules.max_batch_size = 64;
    rules.chunk_unit = 1;
    rules.tokens_per_block = rules.gpu_pages = rules.leases = 1;
    rules.recompute_pause = 1;
  }

  int32_t add(int32_t state, int32_t prompt, int32_t cursor) {
    const int32_t index = table.schedule.active++;
    berth_row &row = table.rows[index];
    row.request_id = static_cast<uint64_t>(index);
    row.state = state;
    row.flags = BERTH_ROW_LIVE;
    row.prompt_tokens = prompt;
    row.context_cursor = cursor;
    row.max_new_tokens = 10;
    row.beam_width = 1;
    table.active[index] = index;
    return index;
  }
  int32_t generation(bool active = true) {
    const int32_t index = add(BERTH_STATE_GENERATION, 10, 10);
    if (active) caches.active.insert(index);
    return index;
  }
  int32_t context(int32_t prompt, int32_t cursor = 0) { return add(BERTH_STATE_CONTEXT_INIT, prompt, cursor); }

  void run() {
    for (int32_t i = 0; i < table.schedule.active; ++i) CHECK(table.check(&table.active[i], 1) == Status::kOk);
    ++table.epoch;
    CHECK(run_one_loop(table, rules, caches) == Status::kOk);
  }
  Ids generations() const { return list(table.generations, table.schedule.generations); }
  Ids paused() const { return list(table.paused, table.schedule.paused); }
  Ids recomputed() const { return list(table.recomputed, table.schedule.recomputed); }
  Ids contexts() const {
    Ids ids;
    for (int32_t i = 0; i < table.schedule.contexts; ++i) ids.push_back(table.contexts[i].row);
    return ids;
  }
  static Ids list(const std::vector<int32_t> &rows, int32_t n) { return Ids(rows.begin(), rows.begin() + n); }

  berth_pool only;
  Table table;
  berth_rules rules{};
  Scripted caches;
};

}  // namespace

TEST(theTokensLimitTheGenerations) {
  Fixture f;
  f.rules.max_num_tokens = 3;
  for (int i = 0; i < 5; ++i) f.generation();
  f.run();
  CHECK((f.generations() == Ids{0, 1, 2}));
}

TEST(thePlacesLimitTheGenerations) {
  Fixture f;
  f.rules.max_batch_size = 2;
  for (int i = 0; i < 3; ++i) f.generation();
  f.run();
  CHECK((f.generations() == Ids{0, 1}));
}

TEST(theSmallerOfTheTwoLimitsCounts) {
  Fixture f;
  f.rules.max_batch_size = 3;
  f.rules.max_num_tokens = 2;
  for (int i = 0; i < 5; ++i) f.generation();
  f.run();
  CHECK((f.generations() == Ids{0, 1}));
}

TEST(draftsCountAsTokens) {
  Fixture f;
  f.rules.max_num_tokens = 5;
  for (int i = 0; i < 2; ++i) f.table.rows[f.generation()].draft_tokens = 3;
  f.run();
  CHECK((f.generations() == Ids{0}));
}

TEST(aContextAndItsDraftsMustFit) {
  const struct {
    int32_t prompt;
    int16_t drafts;
    bool fits;
  } rows[] = {{80, 5, true}, {80, 20, true}, {80, 30, false}, {100, 5, false}};
  for (const auto &row : rows) {
    Fixture f;
    f.rules.max_num_tokens = 100;
    f.table.rows[f.context(row.prompt)].draft_tokens = row.drafts;
    f.run();
    CHECK(f.contexts().size() == (row.fits ? 1u : 0u));
  }
}

TEST(theTailMakesRoom) {
  Fixture f;
  f.generation();
  f.generation();
  const int32_t tail = f.generation();
  f.caches.generation = [](int32_t, int attempt) { return attempt != 2; };
  f.run();
  CHECK((f.generations() == Ids{0, 1}));
  CHECK((f.paused() == Ids{tail}));
  CHECK(f.caches.suspended.size() == 1);
}

TEST(whoCannotBeHelpedSuspendsItself) {
  Fixture f;
  f.rules.recompute_pause = 0;
  f.generation();
  f.generation();
  f.generation();
  f.caches.generation = [](int32_t row, int) { return row != 1; };
  f.run();
  CHECK((f.generations() == Ids{0}));
  CHECK((f.paused() == Ids{2, 1}));
}

TEST(withALowerTierWhatWasSuspendedIsDropped) {
  Fixture f;
  f.caches.below = true;
  f.generation();
  f.generation();
  const int32_t tail = f.generation();
  f.caches.generation = [](int32_t, int attempt) { return attempt == 1 || attempt == 4; };
  f.run();
  CHECK((f.generations() == Ids{0, 1}));
  CHECK(f.paused().empty());
  CHECK((f.recomputed() == Ids{tail}));
}

TEST(withoutRecomputeNothingIsDropped) {
  Fixture f;
  f.caches.below = true;
  f.rules.recompute_pause = 0;
  f.generation();
  f.generation();
  f.generation();
  f.caches.generation = [](int32_t, int attempt) { return attempt == 1 || attempt == 4; };
  f.run();
  CHECK((f.generations() == Ids{0}));
  CHECK((f.paused() == Ids{2, 1}));
  CHECK(f.caches.attempts == 3);
}

TEST(neitherMultimodalNorRetiringIsDropped) {
  for (int kind = 0; kind < 2; ++kind) {
    Fixture f;
    f.rules.set = BERTH_SET_BERTH;
    f.generation();
    const int32_t victim = f.generation(kind == 1);
    if (kind == 0) f.table.rows[victim].flags |= BERTH_ROW_MULTIMODAL;
    if (kind == 1) f.table.rows[victim].state = BERTH_STATE_RETIRING;
    f.caches.generation = [](int32_t row, int) { return row != 0; };
    f.run();
    CHECK(f.generations().empty());
    CHECK(f.recomputed().empty());
    CHECK((f.paused() == Ids{0}));
  }
}

TEST(whoIsNotResidentIsNotSuspended) {
  Fixture f;
  f.rules.recompute_pause = 0;
  f.generation();
  f.generation(false);
  f.caches.generation = [](int32_t row, int) { return row != 0; };
  f.run();
  CHECK((f.paused() == Ids{0}));
}

TEST(aDroppedSuspendedCacheHelpsToo) {
  Fixture f;
  f.caches.below = true;
  f.generation();
  f.generation();
  f.generation();
  f.generation(false);
  std::set<int32_t> *active = &f.caches.active;
  Ids *dropped = &f.caches.dropped;
  f.caches.generation = [active, dropped](int32_t row, int) {
    if (row == 0) return active->count(2) == 0;
    return row != 1 || (!dropped->empty() && dropped->back() == 3);
  };
  f.run();
  CHECK((f.generations() == Ids{0, 1}));
  CHECK((f.paused() == Ids{2}));
  CHECK((f.recomputed() == Ids{3}));
}

TEST(withoutATierADropLetsContextsRunToo) {
  Fixture f;
  f.generation();
  f.generation(false);
  f.context(5);
  Ids *dropped = &f.caches.dropped;
  f.caches.generation = [dropped](int32_t row, int) { return row != 0 || !dropped->empty(); };
  f.run();
  CHECK((f.generations() == Ids{0}));
  CHECK((f.recomputed() == Ids{1}));
  CHECK((f.contexts() == Ids{2}));
}

TEST(onlyAContextThatStartedIsAVictim) {
  for (const bool started : {true, false}) {
    Fixture f;
    f.rules.recompute_pause = 0;
    f.generation();
    const int32_t victim = f.context(50, started ? 20 : 0);
    f.caches.active.insert(victim);
    f.caches.generation = [](int32_t row, int attempt) { return row != 0 || attempt > 1; };
    f.run();
    if (started) {
      CHECK((f.paused() == Ids{victim}));
    } else {
      CHECK((f.paused() == Ids{0}));
    }
  }
}

TEST(aContextThatFindsNoRoomStopsNobody) {
  {
    Fixture f;
    f.rules.recompute_pause = 0;
    f.context(1000);
    f.generation();
    f.caches.resize = [](int32_t, int32_t) { return false; };
    f.run();
    CHECK((f.generations() == Ids{1}));
  }
  {
    Fixture f;
    f.rules.recompute_pause = 0;
    f.rules.max_num_tokens = 1000;
    f.context(1000);
    f.context(1000);
    f.caches.resize = [](int32_t row, int32_t) { return row == 1; };
    f.run();
    CHECK((f.contexts() == Ids{1}));
    CHECK(f.table.schedule.batch_tokens == 1000);
  }
}

TEST(aContextThatCannotBePreparedEndsThePhase) {
  Fixture f;
  f.context(10);
  f.context(10);
  f.caches.prepare = [](int32_t row) { return row != 0; };
  f.run();
  CHECK(f.contexts().empty());
}

TEST(whatWasPreparedInVainIsUndone) {
  Fixture f;
  f.rules.recompute_pause = 0;
  f.rules.reuse = BERTH_CACHE_SELF;
  const int32_t row = f.context(100);
  f.caches.resize = [](int32_t, int32_t) { return false; };
  f.run();
  CHECK((f.caches.released == Ids{row}));
  CHECK(f.caches.dropped.empty());
}

TEST(nothingToDoIsNoStall) {
  Fixture f;
  f.run();
  CHECK(f.table.schedule.stalled == 0);
}

TEST(aTransferThatHoldsPagesIsNoStall) {
  for (const int32_t state : {BERTH_STATE_UNKNOWN, BERTH_STATE_GENERATION_TRANSFER}) {
    Fixture f;
    f.rules.recompute_pause = 0;
    f.generation(false);
    f.add(state, 10, 10);
    f.caches.generation = [](int32_t, int) { return false; };
    f.run();
    CHECK(f.table.schedule.stalled == (state == BERTH_STATE_UNKNOWN ? 1 : 0));
  }
}

TEST_MAIN
