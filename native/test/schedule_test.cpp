// SPDX-License-Identifier: Apache-2.0
// Random tables and rules, garbage among them: whatever a caller writes, a call gives a plan that is one or says what
// is wrong. Run under the sanitizers.
#include <cstdlib>
#include <random>
#include <set>
#include <vector>

#include "berth/berth.h"
#include "test/check.hpp"

namespace {

struct Mapped {
  explicit Mapped(const berth_table_config &config, const berth_pool *pools) {
    CHECK(berth_table_create(&config, pools, &table) == BERTH_OK);
    memory.struct_size = sizeof memory;
    CHECK(berth_table_map(table, &memory) == BERTH_OK);
  }
  ~Mapped() { CHECK(berth_table_destroy(table) == BERTH_OK); }
  Mapped(const Mapped &) = delete;
  Mapped &operator=(const Mapped &) = delete;
  template <class T>
  T *at(uint64_t address) const {
    return reinterpret_cast<T *>(static_cast<uintptr_t>(address));
  }
  berth_table_t table = nullptr;
  berth_table_memory memory{};
};

berth_table_config config(int32_t rows, int32_t pools) {
  berth_table_config c{};
  c.struct_size = sizeof c;
  c.rows = rows;
  c.pools = pools;
  c.adapters = 3;
  c.held_pages = rows * pools * 4;
  c.snapshots = rows * 2;
  return c;
}

berth_pool pool(int32_t cross) {
  berth_pool p{};
  p.window = 64;
  p.cross = cross;
  p.total = 40;
  p.page_ids = 16;
  return p;
}

berth_rules rules() {
  berth_rules r{};
  r.struct_size = sizeof r;
  r.stages = BERTH_STAGE_CAPACITY | BERTH_STAGE_BATCH;
  r.max_requests = r.max_batch_size = 8;
  r.lookahead = r.chunk_unit = 1;
  r.range_begin = 10;
  r.range_end = r.batch_range_end = 14;
  r.adapter_pages = -1;
  r.tokens_per_block = 4;
  r.gpu_pages = 20;
  r.leases = 6;
  r.exclusive_flight = 1;
  return r;
}

constexpr int32_t kStates[] = {-1, 0, 1, 7, 8, 9, 10, 11, 12, 13, 14, 20, 21, 22, 23};

}  // namespace

TEST(impossibleTablesAreRefused) {
  berth_table_t table = nullptr;
  berth_pool bad = pool(0);
  berth_table_config c = config(4, 1);
  CHECK(berth_table_create(nullptr, &bad, &table) == BERTH_E_ARGUMENT);
  CHECK(berth_table_create(&c, nullptr, &table) == BERTH_E_ARGUMENT);
  CHECK(berth_table_create(&c, &bad, nullptr) == BERTH_E_ARGUMENT);
  bad.window = 0;
  CHECK(berth_table_create(&c, &bad, &table) == BERTH_E_ARGUMENT);
  bad = pool(1);  // a cross pool alone
  CHECK(berth_table_create(&c, &bad, &table) == BERTH_E_ARGUMENT);
  c.rows = 0;
  CHECK(berth_table_create(&c, &bad, &table) == BERTH_E_ARGUMENT);
  CHECK(table == nullptr);
  CHECK(berth_table_destroy(nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_table_schedule(nullptr, nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_table_pause(nullptr, 0, 1) == BERTH_E_ARGUMENT);
}

TEST(impossibleRulesAreNamedByPosition) {
  const berth_pool p = pool(0);
  const Mapped m(config(4, 1), &p);
  int32_t rule = -1;
  berth_rules r = rules();
  CHECK(berth_rules_check(m.table, &r, &rule) == BERTH_OK && rule == 0);
  int32_t *fields = &r.set;
  const int32_t count = static_cast<int32_t>(sizeof r / sizeof(int32_t)) - 1;
  for (int32_t k = 0; k < count; ++k) {
    const int32_t kept = fields[k];
    fields[k] = -7;
    const int32_t status = berth_rules_check(m.table, &r, &rule);
    if (status != BERTH_OK) {
      CHECK(rule == k + 1);
      CHECK(berth_table_schedule(m.table, &r) == BERTH_E_ARGUMENT);
    } else {
      CHECK(k >= 16 && k < 23);  // what these stages don't read
    }
    fields[k] = kept;
  }
}

TEST(garbageNeverSchedulesAndNeverCrashes) {
  std::mt19937_64 random(20261130);
  const auto below = [&](int n) { return static_cast<int32_t>(random() % static_cast<uint64_t>(n)); };
  const int cases = std::getenv("BERTH_DEEP") ? 40000 : 3000;
  int scheduled = 0, refused = 0;
  for (int k = 0; k < cases; ++k) {
    const int32_t n = 1 + below(20);
    const int32_t pools = below(4);
    const std::vector<berth_pool> list = {pool(0), pool(pools == 3 ? 0 : 1), pool(1)};
    const Mapped m(config(n, pools), list.data());
    auto *rows = m.at<berth_row>(m.memory.row_address);
    auto *side = m.at<berth_side_row>(m.memory.side_address);
    auto *demand = m.at<berth_demand>(m.memory.demand_address);
    auto *held = m.at<berth_held>(m.memory.held_address);
    auto *active = m.at<int32_t>(m.memory.active_address);
    auto *schedule = m.at<berth_schedule>(m.memory.schedule_address);
    const bool garbage = below(3) == 0;
    for (int32_t i = 0; i < n; ++i) {
      berth_row &r = rows[i];
      r.request_id = static_cast<uint64_t>(i);
      r.flags = BERTH_ROW_LIVE;
      r.state = kStates[below(15)];
      r.prompt_tokens = 1 + below(30);
      r.cached_tokens = below(2) ? 0 : below(r.prompt_tokens);
      r.context_cursor = r.cached_tokens + below(r.prompt_tokens - r.cached_tokens);
      r.generated_tokens = below(5);
      r.max_new_tokens = 1 + below(9);
      r.adapter = below(4) - 1;
      r.beam_width = static_cast<int16_t>(1 + below(2));
      r.draft_tokens = static_cast<int16_t>(below(3));
      r.in_flight = static_cast<int16_t>(below(6) == 0);
      side[i].first_block = static_cast<uint64_t>(below(4));
      side[i].encoder_tokens = 1 + below(9);
      side[i].cache_tokens = below(12) - 1;
      side[i].cache_active = side[i].cache_tokens >= 0 ? below(2) : 0;
      for (int32_t p = 0; p < pools; ++p) {
        demand[i * pools + p] = {below(9), below(4), below(5), below(2)};
        held[i * pools + p] = {below(2) ? -1 : (i * pools + p) * 4, below(5)};
      }
      active[i] = i;
      if (garbage && below(4) == 0) {  // one field of the row becomes anything
        int32_t *words = reinterpret_cast<int32_t *>(&r);
        words[2 + below(14)] = static_cast<int32_t>(random());
      }
      if (garbage && pools > 0 && below(8) == 0) held[i * pools] = {static_cast<int32_t>(random()), below(9)};
      if (garbage && below(8) == 0) side[i].snapshot_first = static_cast<int32_t>(random()), side[i].snapshot_count = 2;
    }
    for (int32_t i = 0; i < n; ++i) {
      rows[i].flags &= ~static_cast<uint32_t>(BERTH_ROW_CHECKED);
      const int32_t status = berth_table_check(m.table, &i, 1);
      if (status != BERTH_OK) {
        CHECK(status == BERTH_E_ROW && schedule->row == i && schedule->field != BERTH_FIELD_NONE);
        CHECK(garbage);
      }
    }
    schedule->active = n;
    if (garbage && below(5) == 0) active[below(n)] = static_cast<int32_t>(random());
    berth_rules r = rules();
    r.set = below(2);
    r.capacity = below(4);
    r.chunking = below(4);
    r.chunk_unit = 1 + below(4);
    r.max_num_tokens = below(2) ? 0 : 4 + below(40);
    r.max_requests = 1 + below(10);
    r.max_batch_size = 1 + below(10);
    r.lookahead = 1 + below(2);
    r.range_begin = below(2) ? 10 : 1;
    r.prefix_sharing = below(2);
    r.reuse = below(4);
    r.adapter_pages = below(6) - 1;
    r.tier_below = below(2);
    r.recompute_pause = below(2);
    const int32_t stages[] = {1, 2, 3, 4, 8};
    r.stages = stages[below(5)];
    schedule->fitting = 0;
    const int32_t status = berth_table_schedule(m.table, &r);
    const int32_t *lists[] = {m.at<int32_t>(m.memory.fitting_address), m.at<int32_t>(m.memory.generation_address),
                              m.at<int32_t>(m.memory.encoder_address)};
    const int32_t counts[] = {r.stages == 8 ? 0 : schedule->fitting, schedule->generations, schedule->encoders};
    if (status != BERTH_OK) {
      ++refused;
      CHECK(status == BERTH_E_ROW || status == BERTH_E_ARGUMENT);
      CHECK(counts[0] + counts[1] + counts[2] + schedule->contexts == 0);
      continue;
    }
    ++scheduled;
    for (int l = 0; l < 3; ++l) {
      std::set<int32_t> seen;
      for (int32_t i = 0; i < counts[l]; ++i) {
        const int32_t row = lists[l][i];
        CHECK(row >= 0 && row < n && (rows[row].flags & BERTH_ROW_CHECKED) && seen.insert(row).second);
      }
    }
    const auto *picks = m.at<berth_pick>(m.memory.context_address);
    for (int32_t i = 0; i < schedule->contexts; ++i) {
      const berth_pick &pick = picks[i];
      CHECK(pick.tokens > 0 && pick.position + pick.tokens <= rows[pick.row].prompt_tokens);
      CHECK(pick.drafts >= 0 && pick.drafts <= rows[pick.row].draft_tokens);
    }
    const int32_t run = schedule->encoders + schedule->contexts + schedule->generations;
    if (r.stages != 1) CHECK(run <= r.max_batch_size);
  }
  CHECK(scheduled > cases / 3 && refused > cases / 20);
}

TEST_MAIN
