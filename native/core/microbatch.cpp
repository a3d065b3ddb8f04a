// SPDX-License-Identifier: Apache-2.0
// Spec 02 section 6. Where the two policy sets differ, docs/policies.md numbers the difference and so do the comments.
#include "core/batch_pass.hpp"

#include <algorithm>

#include "core/microbatch.hpp"

namespace berth {

namespace {

// What a chunk of so many of the remaining tokens costs when that many are expected in the cache.
int64_t cost(int64_t chunk, int64_t reuse, int64_t remaining) {
  return reuse <= 0 || reuse + chunk < remaining ? chunk : std::max<int64_t>(0, remaining - reuse);
}

}  // namespace

int64_t BatchPass::chunk_cost(int32_t place, int64_t chunk) const {
  const int32_t index = t_.list_c[place];
  return cost(chunk, reuse(index), remaining(index));
}

void BatchPass::pick(int32_t index, int64_t tokens, int32_t drafts) {
  berth_row &row = t_.rows[index];
  Table::runs(row);
  t_.contexts[contexts_++] = berth_pick{index, static_cast<int32_t>(tokens), drafts, row.context_cursor};
}

void BatchPass::consider(int32_t index, berth_row &row) {
  if (rules_.exclusive_flight == 1 && row.in_flight > 0) return t_.wait(row, BERTH_WAIT_IN_FLIGHT);
  if (row.state < rules_.range_begin || row.state >= rules_.batch_range_end || awaits_encoder(row)) {
    return t_.wait(row, Table::outside_reason(row));
  }
  if (stopped_ != BERTH_WAIT_NONE) return t_.wait(row, stopped_);

  if (own_ && hopeless(index, row)) return t_.wait(row, BERTH_WAIT_TOKENS);  // D5
  if (row.state == BERTH_STATE_ENCODER_INIT) {
    const int64_t n = t_.side[index].encoder_tokens;
    if (n > max_context_) return too_long(index, BERTH_FIELD_ENCODER_TOKENS);
    if (tokens_ + n > max_tokens_) return stop(row, BERTH_WAIT_TOKENS);
    Table::runs(row);
    adapters_ |= row.adapter >= 0;
    t_.encoders[encoders_++] = index;
    tokens_ += n;
  } else if (context(row.state) && !chunked_) {
    const int64_t n = whole_cost(index, row);
    if (n > max_context_) return too_long(index, BERTH_FIELD_PROMPT_TOKENS);
    if (tokens_ + n > max_tokens_) return stop(row, BERTH_WAIT_TOKENS);
    if (!seated(index, row)) return;
    pick(index, remaining(index), row.draft_tokens);
    tokens_ += n;
  } else if (context(row.state)) {
    // Contexts that are to be chunked never end the loop.
    if (own_ && closed_by() != BERTH_WAIT_NONE) return t_.wait(row, closed_by());  // D12
    if (!seated(index, row)) return;
    const int64_t rest = remaining(index);
    const int64_t whole = cost(rest, reuse(index), rest);
    chunk_cost_ += std::min(whole, max_context_);
    int64_t n = whole + row.draft_tokens;
    if (n > max_context_) {
      n = max_context_;
      all_fit_ = false;
    }
    t_.list_c[chunks_] = index;
    t_.chunk[chunks_] = static_cast<int32_t>(rest);
    t_.drafts[chunks_] = row.draft_tokens;
    ++chunks_;
    chunk_tokens_ += n;
  } else if (is_generation(row.state) || !own_) {  // D7: parity runs whatever else is in the range as a generation
    const int64_t n = static_cast<int64_t>(row.beam_width) + row.draft_tokens;
    if (tokens_ + n > max_tokens_) return own_ ? t_.wait(row, BERTH_WAIT_TOKENS) : stop(row, BERTH_WAIT_TOKENS);  // D13
    if (beam_ == 0) beam_ = row.beam_width;
    if (row.beam_width != beam_) return t_.wait(row, BERTH_WAIT_BATCH);
    if (!seated(index, row)) return;
    Table::runs(row);
    adapters_ |= row.adapter >= 0;
    t_.generations[generations_++] = index;
    tokens_ += n;
  } else {
    return t_.wait(row, Table::outside_reason(row));
  }
  place(1);
}

// What a context costs that isn't chunked.
int64_t BatchPass::whole_cost(int32_t index, const berth_row &row) const {
  const int64_t tokens = static_cast<int64_t>(row.prompt_tokens) + row.generated_tokens;
  return std::max<int64_t>(1, cost(tokens, reuse(index), remaining(index)) + row.draft_tokens);
}

bool BatchPass::hopeless(int32_t index, const berth_row &row) const {
  if (row.state == BERTH_STATE_ENCODER_INIT) {
    return t_.side[index].encoder_tokens > std::min(max_tokens_, max_context_);
  }
  if (is_context(row.state)) return !chunked_ && whole_cost(index, row) > std::min(max_tokens_, max_context_);
  return is_generation(row.state) && row.beam_width + row.draft_tokens > max_tokens_;
}

bool BatchPass::seated(int32_t index, berth_row &row) {
  if (!gate_ || (row.seat >= 0 && row.lease >= 0)) return true;
  const int32_t reason = gate_->take(index);
  refused_ = reason != BERTH_WAIT_NONE;
  if (refused_) t_.wait(row, reason);
  return !refused_;
}

// Parity gives up the iteration.
void BatchPass::too_long(int32_t index, berth_row_field field) {
  if (status_ == Status::kOk) status_ = t_.refuse(index, field);
}

void BatchPass::stop(berth_row &row, int32_t reason) {
  stopped_ = reason;
  t_.wait(row, reason);
}

Status BatchPass::finish() {
  if (status_ != Status::kOk) return status_;
  if (const Status status = chunk_contexts(); status != Status::kOk) return status;
  berth_schedule &plan = t_.schedule;
  plan.encoders = encoders_;
  plan.contexts = contexts_;
  plan.generations = generations_;
  plan.batch_tokens = tokens_;
  sort_batch(t_, !all_fit_, adapters_);
  return Status::kOk;
}

Status BatchPass::chunk_contexts() {
  if (chunk_tokens_ > max_tokens_ - tokens_) all_fit_ = false;
  if (rules_.chunking == BERTH_CHUNK_FORCE) all_fit_ = false;
  if (chunks_ == 0) return Status::kOk;
  if (!all_fit_) {
    const int64_t capacity = max_tokens_ == kNoLimit ? kNoLimit : max_tokens_ - tokens_;
    std::fill_n(t_.chunk.begin(), chunks_, 0);
    switch (rules_.chunking) {
      case BERTH_CHUNK_EQUAL_PROGRESS: equal_progress(capacity); break;
      case BERTH_CHUNK_FORCE:
        if (const Status status = force(capacity); status != Status::kOk) return status;
        break;
      default: first_come_first_served(capacity);
    }
    trim_drafts(capacity);
  }
  for (int32_t k = 0; k < chunks_; ++k) {
    const int32_t index = t_.list_c[k];
    berth_row &row = t_.rows[index];
    if (t_.chunk[k] > 0) {
      tokens_ += chunk_cost(k, t_.chunk[k]);
      pick(index, t_.chunk[k], t_.drafts[k]);
    } else {
      if (gate_) gate_->give_back(index);
      t_.wait(row, BERTH_WAIT_TOKENS);
    }
  }
  return Status::kOk;
}

// Section 6.2.
void BatchPass::equal_progress(int64_t capacity) {
  int64_t used = 0;
  int64_t moved = 1;
  while (moved > 0 && used < capacity) {
    moved = 0;
    for (int32_t k = 0; k < chunks_; ++k) {
      const int64_t chunk = t_.chunk[k];
      const int64_t candidate = std::min(chunk + rules_.chunk_unit, remaining(t_.list_c[k]));
      const int64_t delta = chunk_cost(k, candidate) - chunk_cost(k, chunk);
      if (used + delta > capacity || candidate > max_context_) continue;
      t_.chunk[k] = static_cast<int32_t>(candidate);
      used += delta;
      moved += candidate - chunk;
    }
  }
}

// Section 6.3.
void BatchPass::first_come_first_served(int64_t capacity) {
  const int64_t unit = rules_.chunk_unit;
  for (int32_t k = 0; k < chunks_; ++k) {
    const int64_t want = remaining(t_.list_c[k]);
    int64_t chunk = want;
    if (capacity < chunk_cost(k, want)) chunk = capacity;
    if (chunk_cost(k, chunk) > max_context_) chunk = std::min(max_context_, want);
    if (chunk < want) chunk = chunk / unit * unit;
    t_.chunk[k] = static_cast<int32_t>(chunk);
    if (capacity != kNoLimit) capacity -= chunk_cost(k, chunk);
  }
}

// Section 6.4. What is expected in the cache never discounts here.
Status BatchPass::force(int64_t capacity) {
  const int64_t unit = rules_.chunk_unit;
  if (unit > max_context_) return Status::kArgument;
  int64_t total = 0;
  for (int32_t k = 0; k < chunks_; ++k) {
    const int32_t index = t_.list_c[k];
    int64_t target = next_snapshot(t_, index) - t_.rows[index].context_cursor;
    if (target > max_context_) target = max_context_ / unit * unit;
    if (total + target > capacity) target = std::min(target, capacity - total) / unit * unit;
    t_.chunk[k] = static_cast<int32_t>(target);
    total += target;
  }
  return Status::kOk;
}

// Section 6.5: drafts beyond the unit's end are given up for good.
void BatchPass::trim_drafts(int64_t capacity) {
  const int64_t unit = rules_.chunk_unit;
  int64_t total = 0;
  for (int32_t k = 0; k < chunks_; ++k) total += chunk_cost(k, t_.chunk[k]);
  for (int32_t k = 0; k < chunks_; ++k) {
    const int64_t chunk = t_.chunk[k];
    if (chunk < remaining(t_.list_c[k]) || t_.drafts[k] == 0) continue;
    int64_t space = (unit - chunk % unit) % unit;
    space = std::max<int64_t>(0, std::min(space, max_context_ - chunk));
    int64_t keep = std::min<int64_t>(t_.drafts[k], space);
    if (capacity != kNoLimit) keep = std::max<int64_t>(0, std::min(keep, capacity - total));
    t_.drafts[k] = static_cast<int32_t>(keep);
    total += keep;
  }
}

int32_t next_snapshot(const Table &table, int32_t index) {
  const berth_row &row = table.rows[index];
  const berth_side_row &side = table.side[index];
  const int32_t *points = table.snapshots.data() + side.snapshot_first;
  const int32_t *end = points + side.snapshot_count;
  const int32_t *next = std::upper_bound(points, end, row.context_cursor);
  return next == end ? row.prompt_tokens : std::min(*next, row.prompt_tokens);
}

void sort_batch(Table &t, bool split, bool adapters) {
  berth_schedule &plan = t.schedule;
  // The place in the list makes every key unique, so the order is total and nothing depends on the sort.
  const auto key = [&t](int32_t row, size_t place) {
    return static_cast<uint64_t>(t.rows[row].adapter + 1) << 32 | place;
  };
  const auto sorted = [&t](size_t n) {
    return std::is_sorted(t.sort_keys.begin(), t.sort_keys.begin() + static_cast<std::ptrdiff_t>(n));
  };
  const auto sort_list = [&](std::vector<int32_t> &list, int32_t count) {
    const size_t n = static_cast<size_t>(count);
    if (!adapters) return;
    for (size_t i = 0; i < n; ++i) t.sort_keys[i] = key(list[i], i);
    if (sorted(n)) return;
    std::sort(t.sort_keys.begin(), t.sort_keys.begin() + count);
    for (size_t i = 0; i < n; ++i) t.sort_rows[i] = list[t.sort_keys[i] & 0xffffffffu];
    std::copy_n(t.sort_rows.begin(), n, list.begin());
  };
  sort_list(t.encoders, plan.encoders);
  sort_list(t.generations, plan.generations);
  const size_t n = static_cast<size_t>(plan.contexts);
  for (size_t i = 0; i < n; ++i) {
    const berth_pick &pick = t.contexts[i];
    const bool last = pick.position + pick.tokens == t.rows[pick.row].prompt_tokens;
    t.sort_keys[i] = key(pick.row, i) | (split && last ? 1ull << 63 : 0);
  }
  if (sorted(n)) return;
  std::sort(t.sort_keys.begin(), t.sort_keys.begin() + plan.contexts);
  for (size_t i = 0; i < n; ++i) t.sort_picks[i] = t.contexts[t.sort_keys[i] & 0xffffffffu];
  std::copy_n(t.sort_picks.begin(), n, t.contexts.begin());
}

Status run_microbatch(Table &table, const berth_rules &rules, std::span<const int32_t> list) {
  BatchPass pass(table, rules);
  for (const int32_t index : list) {
    if (!table.sound(index)) return table.unsound(index);
    pass.offer(index, table.rows[index]);
  }
  return pass.finish();
}

}  // namespace berth
