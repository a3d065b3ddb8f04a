// SPDX-License-Identifier: Apache-2.0
#include "core/table.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/capacity.hpp"
#include "core/microbatch.hpp"
#include "core/oneloop.hpp"

namespace berth {

KeySet::KeySet(int32_t entries)
    : entries_(std::bit_ceil(static_cast<size_t>(entries) * 2 + 2)),
      mask_(entries_.size() - 1),
      shift_(64 - std::countr_zero(entries_.size())) {}

bool KeySet::contains(uint64_t key) const {
  for (size_t i = slot(key);; i = (i + 1) & mask_) {
    if (entries_[i].epoch != epoch_) return false;
    if (entries_[i].key == key) return true;
  }
}

void KeySet::insert(uint64_t key) {
  size_t i = slot(key);
  while (entries_[i].epoch == epoch_ && entries_[i].key != key) i = (i + 1) & mask_;
  entries_[i] = Entry{key, epoch_};
}

bool Table::valid(const berth_table_config &c, const berth_pool *pools) {
  if (c.struct_size != sizeof(berth_table_config) || c.rows < 1 || c.rows > kMaxRows || c.pools < 0 ||
      c.pools > kMaxPools || (c.pools > 0 && !pools) || c.adapters < 0 || c.adapters > kMaxRows || c.held_pages < 0 ||
      c.snapshots < 0) {
    return false;
  }
  bool crossed = false;
  for (int32_t p = 0; p < c.pools; ++p) {
    const berth_pool &pool = pools[p];
    if (pool.window < 1 || (pool.cross != 0 && pool.cross != 1) || pool.total < -1 || pool.page_ids < 0) return false;
    if (pool.cross == 0 && crossed) return false;
    crossed = pool.cross == 1;
  }
  return c.pools == 0 || pools[0].cross == 0;
}

Table::Table(const berth_table_config &c, const berth_pool *pool_list, int32_t prefix_keys)
    : rows(static_cast<size_t>(c.rows)),
      side(static_cast<size_t>(c.rows)),
      demand(static_cast<size_t>(c.rows) * c.pools),
      held(static_cast<size_t>(c.rows) * c.pools, berth_held{-1, 0}),
      held_pages(static_cast<size_t>(c.held_pages)),
      snapshots(static_cast<size_t>(c.snapshots)),
      pools(pool_list, pool_list + c.pools),
      adapter_pages(static_cast<size_t>(c.adapters)),
      active(static_cast<size_t>(c.rows)),
      fitting(static_cast<size_t>(c.rows)),
      receiving(static_cast<size_t>(c.rows)),
      paused(static_cast<size_t>(c.rows)),
      recomputed(static_cast<size_t>(c.rows)),
      encoders(static_cast<size_t>(c.rows)),
      generations(static_cast<size_t>(c.rows)),
      contexts(static_cast<size_t>(c.rows)),
      self_keys(prefix_keys),
      cross_keys(c.pools > 0 && pool_list[c.pools - 1].cross ? prefix_keys : 0),
      adapter_epoch(static_cast<size_t>(c.adapters)),
      row_epoch(static_cast<size_t>(c.rows)),
      list_a(static_cast<size_t>(c.rows)),
      list_b(static_cast<size_t>(c.rows)),
      list_c(static_cast<size_t>(c.rows)),
      list_d(static_cast<size_t>(c.rows)),
      chunk(static_cast<size_t>(c.rows)),
      drafts(static_cast<size_t>(c.rows)),
      sort_keys(static_cast<size_t>(c.rows)),
      sort_rows(static_cast<size_t>(c.rows)),
      sort_picks(static_cast<size_t>(c.rows)),
      held_capacity_(c.held_pages) {
  int32_t refs = 0;
  for (size_t p = 0; p < pools.size(); ++p) {
    if (!pools[p].cross) ++self_pools;
    page_ref_base[p] = refs;
    refs += pools[p].page_ids;
  }
  page_refs.resize(static_cast<size_t>(refs));
  for (berth_row &row : rows) row.seat = row.lease = row.adapter = -1;
  for (berth_side_row &row : side) row.cache_tokens = -1;
  schedule.row = -1;
}

void Table::map(berth_table_memory &out) {
  const auto address = [](const void *p) { return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(p)); };
  out.rows = static_cast<int32_t>(rows.size());
  out.row_address = address(rows.data());
  out.side_address = address(side.data());
  out.demand_address = address(demand.data());
  out.held_address = address(held.data());
  out.held_page_address = address(held_pages.data());
  out.snapshot_address = address(snapshots.data());
  out.pool_address = address(pools.data());
  out.adapter_address = address(adapter_pages.data());
  out.active_address = address(active.data());
  out.schedule_address = address(&schedule);
  out.fitting_address = address(fitting.data());
  out.receiving_address = address(receiving.data());
  out.paused_address = address(paused.data());
  out.recomputed_address = address(recomputed.data());
  out.encoder_address = address(encoders.data());
  out.context_address = address(contexts.data());
  out.generation_address = address(generations.data());
}

// ---------------------------------------------------------------------------------------- rows

namespace {

bool known_state(int32_t state) {
  switch (state) {
    case BERTH_STATE_TRANSFER_ERROR:
    case BERTH_STATE_UNKNOWN:
    case BERTH_STATE_ENCODER_INIT:
    case BERTH_STATE_CONTEXT_WAIT_SCHEDULER:
    case BERTH_STATE_GENERATION_INIT:
    case BERTH_STATE_GENERATION_TRANSFER:
    case BERTH_STATE_CONTEXT_INIT:
    case BERTH_STATE_CONTEXT_INIT_AND_TRANSFER:
    case BERTH_STATE_GENERATION_TRANSFER_COMPLETE:
    case BERTH_STATE_GENERATION:
    case BERTH_STATE_RETIRING:
    case BERTH_STATE_COMPLETE:
    case BERTH_STATE_CONTEXT_TRANSFER:
    case BERTH_STATE_CONTEXT_COMPLETE:
    case BERTH_STATE_WAIT_TOKENS: return true;
    default: return false;
  }
}

}  // namespace

berth_row_field Table::defect(int32_t index) const {
  const berth_row &r = rows[index];
  const berth_side_row &s = side[index];
  if (!(r.flags & BERTH_ROW_LIVE)) return BERTH_FIELD_LIVE;
  if (!known_state(r.state)) return BERTH_FIELD_STATE;
  if (r.prompt_tokens < 1) return BERTH_FIELD_PROMPT_TOKENS;
  if (r.cached_tokens < 0 || r.cached_tokens > r.prompt_tokens) return BERTH_FIELD_CACHED_TOKENS;
  // A context has at least one token to compute: its logits make the first output token.
  const int32_t last = r.prompt_tokens - (is_context(r.state) ? 1 : 0);
  if (r.context_cursor < 0 || r.context_cursor > last) return BERTH_FIELD_CONTEXT_CURSOR;
  if (is_context(r.state) && r.context_cursor < r.cached_tokens) return BERTH_FIELD_CONTEXT_CURSOR;
  if (r.context_chunk < 0 || r.context_chunk > r.prompt_tokens - r.context_cursor) return BERTH_FIELD_CONTEXT_CHUNK;
  if (r.generated_tokens < 0 || r.pending_tokens < 0) return BERTH_FIELD_GENERATED_TOKENS;
  if (r.max_new_tokens < 0) return BERTH_FIELD_MAX_NEW_TOKENS;
  const int64_t tokens = static_cast<int64_t>(r.prompt_tokens) + r.generated_tokens + r.pending_tokens;
  if (tokens + r.max_new_tokens > INT32_MAX - (1 << 16)) return BERTH_FIELD_MAX_NEW_TOKENS;
  if (r.adapter < -1 || r.adapter >= static_cast<int32_t>(adapter_pages.size())) return BERTH_FIELD_ADAPTER;
  if (r.adapter >= 0 && adapter_pages[r.adapter] < 0) return BERTH_FIELD_ADAPTER;
  if (r.beam_width < 1) return BERTH_FIELD_BEAM_WIDTH;
  if (r.draft_tokens < 0) return BERTH_FIELD_DRAFT_TOKENS;
  if (r.in_flight < 0) return BERTH_FIELD_IN_FLIGHT;
  if (s.reusable_tokens < 0) return BERTH_FIELD_REUSABLE_TOKENS;
  if (s.encoder_tokens < 0) return BERTH_FIELD_ENCODER_TOKENS;
  if (r.state == BERTH_STATE_ENCODER_INIT && s.encoder_tokens < 1) return BERTH_FIELD_ENCODER_TOKENS;
  if (std::isnan(s.priority)) return BERTH_FIELD_PRIORITY;
  const auto inside = [](int32_t first, int32_t count, size_t size) {
    return count >= 0 && (count == 0 || (first >= 0 && static_cast<size_t>(first) + count <= size));
  };
  if (!inside(s.snapshot_first, s.snapshot_count, snapshots.size())) return BERTH_FIELD_SNAPSHOTS;
  for (int32_t i = 0; i < s.snapshot_count; ++i) {
    const int32_t point = snapshots[static_cast<size_t>(s.snapshot_first) + i];
    if (point < 1 || (i > 0 && point <= snapshots[static_cast<size_t>(s.snapshot_first) + i - 1])) {
      return BERTH_FIELD_SNAPSHOTS;
    }
  }
  if (s.cache_tokens < -1 || (s.cache_active != 0 && s.cache_active != 1) || s.prepare_tokens < 0 ||
      s.prepare_tokens > last) {
    return BERTH_FIELD_CACHE;
  }
  for (size_t p = 0; p < pools.size(); ++p) {
    const berth_demand &d = demands(index)[p];
    if (d.remaining < 0 || d.one_step < 0 || d.two_step < 0 || d.credit < 0) return BERTH_FIELD_DEMAND;
  }
  for (size_t p = 0; p < pools.size(); ++p) {
    const berth_held &h = held[static_cast<size_t>(index) * pools.size() + p];
    if (h.count < 0 || h.first < -1) return BERTH_FIELD_HELD;
    if (h.first == -1) continue;
    if (static_cast<int64_t>(h.first) + h.count > held_capacity_) return BERTH_FIELD_HELD;
    for (int32_t i = 0; i < h.count; ++i) {
      const int32_t page = held_pages[static_cast<size_t>(h.first) + i];
      if (page < 0 || page >= pools[p].page_ids) return BERTH_FIELD_HELD;
    }
  }
  return BERTH_FIELD_NONE;
}

Status Table::check(const int32_t *indexes, int32_t n) {
  for (int32_t i = 0; i < n; ++i) {
    const int32_t index = indexes[i];
    if (index < 0 || static_cast<size_t>(index) >= rows.size()) return Status::kArgument;
    const berth_row_field field = defect(index);
    if (field != BERTH_FIELD_NONE) {
      rows[index].flags &= ~static_cast<uint32_t>(BERTH_ROW_CHECKED);
      return refuse(index, field);
    }
    rows[index].flags |= BERTH_ROW_CHECKED;
  }
  return Status::kOk;
}

// Spec 02 section 1.3.
Status Table::pause(int32_t index, int32_t max_input) {
  if (index < 0 || static_cast<size_t>(index) >= rows.size() || max_input < 1) return Status::kArgument;
  berth_row &row = rows[index];
  if (!(row.flags & BERTH_ROW_CHECKED)) return unsound(index);
  if (!is_context(row.state) && !is_generation(row.state)) return refuse(index, BERTH_FIELD_STATE);
  if (row.beam_width == 1) {
    // A request that exceeds the input limit already keeps what it has.
    const int32_t tokens = row.prompt_tokens + row.generated_tokens;
    const int32_t prompt = std::max(row.prompt_tokens, std::min(max_input, tokens));
    row.max_new_tokens = std::max(0, row.max_new_tokens - (prompt - row.prompt_tokens));
    row.prompt_tokens = prompt;
  }
  row.generated_tokens = row.pending_tokens = 0;
  row.state = BERTH_STATE_CONTEXT_INIT;
  row.context_cursor = row.cached_tokens = 0;
  row.context_chunk = row.prompt_tokens;
  row.seat = -1;
  return Status::kOk;
}

int32_t Table::outside_reason(const berth_row &row) {
  switch (row.state) {
    case BERTH_STATE_CONTEXT_WAIT_SCHEDULER:
    case BERTH_STATE_GENERATION_INIT:
    case BERTH_STATE_GENERATION_TRANSFER:
    case BERTH_STATE_CONTEXT_TRANSFER:
    case BERTH_STATE_CONTEXT_COMPLETE:
    case BERTH_STATE_WAIT_TOKENS: return BERTH_WAIT_TRANSFER;
    case BERTH_STATE_RETIRING: return BERTH_WAIT_RETIRING;
    case BERTH_STATE_ENCODER_INIT: return BERTH_WAIT_ENCODER;
    default: return awaits_encoder(row) ? BERTH_WAIT_ENCODER : BERTH_WAIT_NONE;
  }
}

// ---------------------------------------------------------------------------------------- rules

int32_t Table::rule_defect(const berth_rules &r) const {
  const auto bit = [](int32_t v) { return v == 0 || v == 1; };
  const bool own = r.set == BERTH_SET_BERTH;
  const bool one_loop = r.stages == BERTH_STAGE_ONE_LOOP;
  const bool two_stage = r.stages >= BERTH_STAGE_CAPACITY && r.stages <= BERTH_STAGE_BATCH_ACTIVE &&
                         r.stages != (BERTH_STAGE_CAPACITY | BERTH_STAGE_BATCH_ACTIVE);
  const bool batches = one_loop || (r.stages & (BERTH_STAGE_BATCH | BERTH_STAGE_BATCH_ACTIVE)) != 0;
  const bool plans = one_loop || (r.stages & BERTH_STAGE_CAPACITY) != 0;
  const auto range = [](int32_t end) { return end > BERTH_STATE_CONTEXT_INIT && end <= BERTH_STATE_COMPLETE; };
  // A unit that no batch has room for would never be scheduled.
  const auto unit_fits = [&](int32_t limit) { return !own || limit == 0 || r.chunk_unit <= limit; };
  const bool chunks = batches && r.chunking != BERTH_CHUNK_NONE;
  const bool good[] = {
      r.set == BERTH_SET_TRTLLM || own,
      one_loop || two_stage,
      r.capacity >= BERTH_POLICY_MAX_REQUESTS && r.capacity <= BERTH_POLICY_STATIC_BATCH,
      !plans || one_loop || r.max_requests >= 1,
      !plans || one_loop || r.lookahead == 1 || r.lookahead == 2,
      r.range_begin >= 0 && r.range_begin <= BERTH_STATE_CONTEXT_INIT,
      !plans || one_loop || range(r.range_end),
      !batches || range(r.batch_range_end),
      bit(r.prefix_sharing),
      (r.reuse & ~(BERTH_CACHE_SELF | BERTH_CACHE_CROSS)) == 0,
      (r.variable_window & ~(BERTH_CACHE_SELF | BERTH_CACHE_CROSS)) == 0,
      r.adapter_pages >= -1,
      !batches || r.max_batch_size >= 1,
      !batches || r.max_num_tokens >= 0,
      !batches || r.max_context_tokens >= 0,
      !batches || (r.chunking >= BERTH_CHUNK_NONE && r.chunking <= BERTH_CHUNK_FORCE),
      !chunks || (r.chunk_unit >= 1 && unit_fits(r.max_num_tokens) && unit_fits(r.max_context_tokens)),
      !one_loop || r.tokens_per_block >= 1,
      !one_loop || r.gpu_pages >= 1,
      !one_loop || r.leases >= 1,
      !one_loop || bit(r.tier_below),
      !one_loop || bit(r.recompute_pause),
      !one_loop || bit(r.reuse_late),
      !batches || bit(r.exclusive_flight),
  };
  for (size_t i = 0; i < std::size(good); ++i) {
    if (!good[i]) return static_cast<int32_t>(i) + 1;
  }
  return 0;
}

bool Table::fit_to_run(const berth_rules &rules) const {
  const berth_schedule &s = schedule;
  return rules.struct_size == sizeof(berth_rules) && rule_defect(rules) == 0 && s.active >= 0 &&
         static_cast<size_t>(s.active) <= rows.size() && s.fitting >= 0 &&
         static_cast<size_t>(s.fitting) <= rows.size();
}

void Table::begin_pass() {
  berth_schedule &s = schedule;
  s.recomputed = s.encoders = s.contexts = s.generations = s.stalled = 0;
  s.batch_tokens = 0;
  s.row = -1;
  s.field = BERTH_FIELD_NONE;
  std::memset(s.deferred, 0, sizeof s.deferred);
  std::memset(s.short_of, 0, sizeof s.short_of);
  ++epoch;
}

// With an error nothing is scheduled.
Status Table::done(Status status, bool selects) {
  berth_schedule &s = schedule;
  if (status != Status::kOk) {
    if (selects) s.fitting = s.receiving = s.paused = 0;
    s.recomputed = s.encoders = s.contexts = s.generations = 0;
    s.batch_tokens = 0;
  }
  return status;
}

Status Table::run(const berth_rules &rules, SeatGate *gate) {
  if (!fit_to_run(rules)) return Status::kArgument;
  berth_schedule &s = schedule;
  const bool selects = rules.stages != BERTH_STAGE_BATCH;  // else the caller did
  if (selects) s.receiving = s.paused = 0;
  begin_pass();
  if (rules.stages == BERTH_STAGE_ONE_LOOP) return done(run_one_loop(*this, rules), selects);
  Status status = Status::kOk;
  if (rules.stages & BERTH_STAGE_CAPACITY) {
    status = run_capacity(*this, rules, gate);  // the batch stage too, if it is wanted: in the same pass
  } else if (rules.stages & BERTH_STAGE_BATCH) {
    status = run_microbatch(*this, rules, {fitting.data(), static_cast<size_t>(s.fitting)});
  }
  if (status == Status::kOk && (rules.stages & BERTH_STAGE_BATCH_ACTIVE)) {
    status = run_microbatch(*this, rules, {active.data(), static_cast<size_t>(s.active)});
  }
  return done(status, selects);
}

Status Table::run(const berth_rules &rules, CacheManager &caches) {
  if (!fit_to_run(rules) || rules.stages != BERTH_STAGE_ONE_LOOP) return Status::kArgument;
  schedule.receiving = schedule.paused = 0;
  begin_pass();
  return done(run_one_loop(*this, rules, caches), true);
}

}  // namespace berth
