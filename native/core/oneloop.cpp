// SPDX-License-Identifier: Apache-2.0
// Spec 02 section 9.
#include "core/oneloop.hpp"

#include <algorithm>
#include <limits>

#include "core/microbatch.hpp"

namespace berth {

// ---------------------------------------------------------------------------------------- counted caches

CountedCaches::CountedCaches(Table &table, const berth_rules &rules) : table_(table), rules_(rules) {
  for (int32_t i = 0; i < table.schedule.active; ++i) {
    const berth_side_row &cache = table.side[table.active[i]];
    if (cache.cache_tokens < 0) continue;
    ++caches_;
    if (counted(cache)) used_ += pages(cache.cache_tokens);
  }
}

bool CountedCaches::create(int32_t row) {
  if (caches_ >= rules_.leases) return false;
  ++caches_;
  table_.side[row].cache_tokens = 0;
  table_.side[row].cache_active = 0;
  return true;
}

bool CountedCaches::resume(int32_t row) {
  berth_side_row &cache = table_.side[row];
  if (cache.cache_active) return true;
  if (tier_below()) {
    const int64_t own = pages(cache.cache_tokens);
    if (used_ + own > rules_.gpu_pages) return false;
    used_ += own;
  }
  cache.cache_active = 1;
  return true;
}

bool CountedCaches::resize(int32_t row, int64_t tokens) {
  berth_side_row &cache = table_.side[row];
  const int64_t own = counted(cache) ? pages(cache.cache_tokens) : 0;
  if (used_ - own + pages(tokens) > rules_.gpu_pages) return false;
  used_ += pages(tokens) - own;
  cache.cache_tokens = static_cast<int32_t>(tokens);
  return true;
}

int32_t CountedCaches::prepare_context(int32_t row) {
  berth_row &r = table_.rows[row];
  berth_side_row &cache = table_.side[row];
  if (cache.cache_tokens < 0) {
    if (!is_first_chunk(r) || !create(row)) return BERTH_WAIT_LEASE;
    if (rules_.reuse & BERTH_CACHE_SELF) r.context_cursor = r.cached_tokens = cache.prepare_tokens;
  }
  return resume(row) ? BERTH_WAIT_NONE : BERTH_WAIT_PAGES;
}

// As if it had never been looked at.
void CountedCaches::release(int32_t row) {
  berth_row &r = table_.rows[row];
  if (!is_first_chunk(r)) return;
  drop(row);
  r.context_cursor = r.cached_tokens = 0;
}

bool CountedCaches::resize_context(int32_t row, int32_t tokens) {
  const berth_row &r = table_.rows[row];
  const int64_t wanted = static_cast<int64_t>(r.context_cursor) + tokens;
  if (resize(row, std::max<int64_t>(table_.side[row].cache_tokens, wanted))) return true;
  if (is_first_chunk(r)) suspend(row);
  return false;
}

int32_t CountedCaches::prepare_receive(int32_t row) {
  const berth_row &r = table_.rows[row];
  berth_side_row &cache = table_.side[row];
  if (cache.cache_tokens < 0 && !create(row)) return BERTH_WAIT_LEASE;
  if (!resume(row)) return BERTH_WAIT_PAGES;
  const int64_t wanted = static_cast<int64_t>(r.prompt_tokens) + r.draft_tokens;
  if (resize(row, std::max<int64_t>(cache.cache_tokens, wanted))) return BERTH_WAIT_NONE;
  suspend(row);
  return BERTH_WAIT_PAGES;
}

bool CountedCaches::allocate_generation(int32_t row) {
  const berth_side_row &cache = table_.side[row];
  if (cache.cache_tokens < 0 || !resume(row)) return false;
  return resize(row, static_cast<int64_t>(cache.cache_tokens) + 1 + table_.rows[row].draft_tokens);
}

void CountedCaches::suspend(int32_t row) {
  berth_side_row &cache = table_.side[row];
  if (cache.cache_tokens < 0 || !cache.cache_active) return;
  if (tier_below()) used_ -= pages(cache.cache_tokens);
  cache.cache_active = 0;
}

void CountedCaches::drop(int32_t row) {
  berth_side_row &cache = table_.side[row];
  if (cache.cache_tokens < 0) return;
  if (counted(cache)) used_ -= pages(cache.cache_tokens);
  cache.cache_tokens = -1;
  cache.cache_active = 0;
  --caches_;
}

bool CountedCaches::resident(int32_t row) const {
  return table_.side[row].cache_tokens >= 0 && table_.side[row].cache_active == 1;
}

// ---------------------------------------------------------------------------------------- the loop

namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int32_t>::max();

class OneLoop {
 public:
  OneLoop(Table &table, const berth_rules &rules, CacheManager &caches)
      : t_(table),
        rules_(rules),
        caches_(caches),
        plan_(table.schedule),
        own_(rules.set == BERTH_SET_BERTH),
        cross_(table.pools.size() > static_cast<size_t>(table.self_pools)),
        chunked_(rules.chunking != BERTH_CHUNK_NONE),
        max_tokens_(rules.max_num_tokens > 0 ? rules.max_num_tokens : kNoLimit) {}

  Status run();

 private:
  enum class Step { kNext, kStop };

  berth_row &row_at(int32_t place) { return t_.rows[t_.active[place]]; }
  bool in_range(const berth_row &row) const {
    return row.state >= rules_.range_begin && row.state < rules_.batch_range_end && !awaits_encoder(row);
  }
  // It runs in a batch that is under way, and in no other meanwhile.
  bool busy(const berth_row &row) const {
    return row.in_flight > 0 && (!caches_.overlaps() || rules_.exclusive_flight == 1);
  }
  bool started(const berth_row &row) const {
    if (row.flags & BERTH_ROW_STAYS) return false;        // it keeps its pages
    if (row.state == BERTH_STATE_RETIRING) return !own_;  // D6: its last forward is under way
    return in_range(row) && (is_generation(row.state) || (is_context(row.state) && !is_first_chunk(row)));
  }
  bool dropped(int32_t index) const { return t_.row_epoch[index] == t_.epoch; }
  bool recomputable(int32_t index) const {
    const berth_row &row = t_.rows[index];
    return started(row) && row.in_flight == 0 && row.state != BERTH_STATE_RETIRING &&
           !(is_generation(row.state) && (row.flags & BERTH_ROW_MULTIMODAL));
  }
  bool full() const { return taken_ >= rules_.max_batch_size; }
  bool adapter_fits(const berth_row &row) const {
    const int64_t need = rules_.adapter_pages < 0 ? 0 : t_.new_adapter_pages(row);
    return need == 0 || adapters_ + need <= rules_.adapter_pages;
  }
  void claim(const berth_row &row) {
    if (rules_.adapter_pages < 0) return;
    adapters_ += t_.new_adapter_pages(row);
    t_.claim_adapter(row);
  }
  void pause(int32_t index) {
    caches_.suspend(index);
    t_.paused[plan_.paused++] = index;
  }
  void recompute(int32_t index);
  Step stop(berth_wait_reason reason) {
    stopped_by_ = reason;
    return Step::kStop;
  }

  Step visit(int32_t place);
  Step generation(int32_t place);
  bool lands(int32_t place);
  bool evict_and_retry(int32_t place);
  bool recompute_and_retry(int32_t place);
  Status second_phase();
  Step context(int32_t index);
  int64_t chunk_size(int32_t index, int64_t remaining) const;
  Step no_room_for_context(int32_t index);
  bool delays_possible() const;
  bool stalled() const;

  Table &t_;
  const berth_rules &rules_;
  CacheManager &caches_;
  berth_schedule &plan_;
  const bool own_, cross_, chunked_;
  const int64_t max_tokens_;
  int64_t used_ = 0;  // tokens of the batch
  int32_t taken_ = 0;
  int64_t adapters_ = 0;
  int32_t beam_ = 0;
  int32_t end_ = 0;           // phase 1 looks at places before this
  int32_t frontier_ = 0;      // recompute victims are found before this
  int32_t evicted_from_ = 0;  // places in [evicted_from_, n) may have been suspended in this pass
  berth_wait_reason stopped_by_ = BERTH_WAIT_NONE;
  int32_t deferred_ = 0;  // entries of list_a: contexts and encoders for phase 2
  bool delays_ = false;
  bool delayed_ = false;  // somebody waits for a prefix
};

Status OneLoop::run() {
  const int32_t n = plan_.active;
  end_ = frontier_ = evicted_from_ = n;
  for (int32_t i = 0; i < n; ++i) {
    const int32_t index = t_.active[i];
    if (!t_.sound(index)) return t_.unsound(index);
    berth_row &row = t_.rows[index];
    if (row.state == BERTH_STATE_ENCODER_INIT && in_range(row) && !cross_) return t_.refuse(index, BERTH_FIELD_STATE);
    if (row.state == BERTH_STATE_RETIRING) claim(row);
    // What phase 1 never reaches waits for pages, tokens or a place; what is outside for something else.
    const bool inside = in_range(row) || row.state == BERTH_STATE_GENERATION_INIT;
    row.wait_reason = static_cast<int16_t>(busy(row) ? static_cast<int32_t>(BERTH_WAIT_IN_FLIGHT)
                                           : inside  ? static_cast<int32_t>(BERTH_WAIT_PAGES)
                                                     : Table::outside_reason(row));
  }
  int32_t place = 0;
  while (place < end_ && visit(place) == Step::kNext) ++place;
  // Who ended the phase says itself why; those behind it wait for the same. D14: but for those who receive KV, which
  // takes no place and no token, so that they don't wait for a batch that may wait for them.
  const berth_wait_reason reason = stopped_by_;
  bool receiving = own_ && (reason == BERTH_WAIT_BATCH || reason == BERTH_WAIT_TOKENS);
  for (int32_t k = place; k < end_; ++k) {
    berth_row &row = row_at(k);
    const bool receives = row.state == BERTH_STATE_GENERATION_INIT;
    if (busy(row) || dropped(t_.active[k]) || !(receives || in_range(row))) continue;
    if (receives && receiving) {
      if (visit(k) == Step::kNext) continue;
      receiving = false;
    }
    row.wait_reason = static_cast<int16_t>(receives ? stopped_by_ : reason);
  }
  const Status status = second_phase();
  if (status != Status::kOk) return status;
  bool split = false;
  for (int32_t i = 0; i < plan_.contexts && !split; ++i) {
    const berth_pick &pick = t_.contexts[i];
    split = pick.position + pick.tokens < t_.rows[pick.row].prompt_tokens;
  }
  sort_batch(t_, split, true);
  plan_.batch_tokens = used_;
  plan_.fitting = plan_.encoders + plan_.contexts + plan_.generations;
  plan_.stalled = stalled() ? 1 : 0;
  for (int32_t i = 0; i < n; ++i) {
    const int32_t reason = row_at(i).wait_reason;
    if (reason == BERTH_WAIT_NONE) continue;
    ++plan_.deferred[reason & 0xff];
    if ((reason & 0xff) == BERTH_WAIT_PAGES) ++plan_.short_of[reason >> 8];
  }
  return Status::kOk;
}

// ---------------------------------------------------------------------------------------- section 9.2

OneLoop::Step OneLoop::visit(int32_t place) {
  const int32_t index = t_.active[place];
  berth_row &row = t_.rows[index];
  if (dropped(index) || busy(row)) return Step::kNext;
  if (row.state == BERTH_STATE_GENERATION_INIT) {
    if (!adapter_fits(row)) return stop(BERTH_WAIT_ADAPTER);
    if (const int32_t reason = caches_.prepare_receive(index); reason != BERTH_WAIT_NONE) {
      row.wait_reason = static_cast<int16_t>(reason);
      return Step::kNext;
    }
    claim(row);
    row.wait_reason = BERTH_WAIT_NONE;
    t_.receiving[plan_.receiving++] = index;
    return Step::kNext;
  }
  if (full()) return stop(BERTH_WAIT_BATCH);
  if (!in_range(row)) return Step::kNext;
  if (row.state == BERTH_STATE_ENCODER_INIT || is_context(row.state)) {
    t_.list_a[deferred_++] = index;
    return Step::kNext;
  }
  return is_generation(row.state) ? generation(place) : Step::kNext;
}

OneLoop::Step OneLoop::generation(int32_t place) {
  const int32_t index = t_.active[place];
  berth_row &row = t_.rows[index];
  if (!adapter_fits(row)) return stop(BERTH_WAIT_ADAPTER);
  const int64_t n = static_cast<int64_t>(row.beam_width) + row.draft_tokens;
  if (used_ + n > max_tokens_) return stop(BERTH_WAIT_TOKENS);
  if (beam_ == 0) beam_ = row.beam_width;
  if (row.beam_width != beam_) {
    row.wait_reason = BERTH_WAIT_BATCH;
    return Step::kNext;
  }
  if (const int32_t reason = caches_.kept_out(index); reason != BERTH_WAIT_NONE) {
    row.wait_reason = static_cast<int16_t>(reason);
    return Step::kNext;
  }
  if (!caches_.allocate_generation(index) && !evict_and_retry(place) &&
      !(rules_.recompute_pause == 1 && recompute_and_retry(place))) {
    if (caches_.resident(index) && !lands(place)) pause(index);
    return stop(BERTH_WAIT_PAGES);
  }
  row.wait_reason = BERTH_WAIT_NONE;
  claim(row);
  caches_.taken(index);
  used_ += n;
  ++taken_;
  t_.generations[plan_.generations++] = index;
  return Step::kNext;
}

// Where batches overlap: it, or somebody behind it who could give way, is in flight. Nobody from it on is launched in
// this pass, so that they land, and the last one gives way then.
bool OneLoop::lands(int32_t place) {
  for (int32_t k = place; caches_.overlaps() && k < end_; ++k) {
    const berth_row &row = row_at(k);
    if (row.in_flight > 0 && (k == place || (started(row) && caches_.resident(t_.active[k])))) return true;
  }
  return false;
}

// Section 9.3: the tail gives way, one cache after the other.
bool OneLoop::evict_and_retry(int32_t place) {
  const int32_t index = t_.active[place];
  for (int32_t v = end_ - 1; v > place; --v) {
    const int32_t victim = t_.active[v];
    const berth_row &row = t_.rows[victim];
    if (row.in_flight > 0 || !started(row) || !caches_.resident(victim)) continue;
    pause(victim);
    end_ = v;
    evicted_from_ = std::min(evicted_from_, v);
    if (caches_.allocate_generation(index)) return true;
  }
  return false;
}

void OneLoop::recompute(int32_t index) {
  int32_t *first = t_.paused.data();
  int32_t *last = first + plan_.paused;
  plan_.paused = static_cast<int32_t>(std::remove(first, last, index) - first);
  caches_.drop(index);
  t_.row_epoch[index] = t_.epoch;
  t_.recomputed[plan_.recomputed++] = index;
}

// Section 9.3: caches are dropped, newest first; with a lower tier more can then be suspended.
bool OneLoop::recompute_and_retry(int32_t place) {
  const int32_t index = t_.active[place];
  const bool tier = caches_.tier_below();
  while (true) {
    int32_t victim = -1;
    int32_t at = frontier_ - 1;
    for (; at > place; --at) {
      const int32_t candidate = t_.active[at];
      if (dropped(candidate) || !recomputable(candidate)) continue;
      if (!tier && std::find(t_.paused.begin(), t_.paused.begin() + plan_.paused, candidate) !=
                       t_.paused.begin() + plan_.paused) {
        continue;
      }
      victim = candidate;
      break;
    }
    if (victim < 0 && tier) {
      for (int32_t k = 0; k < plan_.paused && victim < 0; ++k) {
        if (recomputable(t_.paused[k])) victim = t_.paused[k];
      }
      if (victim >= 0) {
        at = static_cast<int32_t>(std::find(t_.active.begin(), t_.active.begin() + plan_.active, victim) -
                                  t_.active.begin());
      }
    }
    if (victim < 0) return false;
    recompute(victim);
    frontier_ = std::min(frontier_, at);
    if (caches_.allocate_generation(index)) return true;
    if (tier && evict_and_retry(place)) return true;
  }
}

// ---------------------------------------------------------------------------------------- section 9.4

bool OneLoop::delays_possible() const {
  if (rules_.prefix_sharing != 1 || !(rules_.reuse & BERTH_CACHE_SELF) || rules_.reuse_late == 1) return false;
  int32_t first_chunks = 0;
  for (int32_t k = 0; k < deferred_; ++k) {
    const berth_row &row = t_.rows[t_.list_a[k]];
    if (!is_context(row.state)) continue;
    if (!is_first_chunk(row)) return true;
    if (++first_chunks >= 2) return true;
  }
  for (int32_t i = 0; i < plan_.active && first_chunks > 0; ++i) {
    if (t_.rows[t_.active[i]].in_flight > 0) return true;
  }
  return false;
}

Status OneLoop::second_phase() {
  delays_ = delays_possible();
  if (delays_) {
    t_.self_keys.clear();
    for (int32_t i = 0; i < plan_.active; ++i) {
      const int32_t index = t_.active[i];
      const berth_row &row = t_.rows[index];
      // Where batches overlap, a context has become a generation before its last block can be found.
      const bool computes = caches_.overlaps() || (is_context(row.state) && !is_first_chunk(row));
      if (row.in_flight > 0 && computes && t_.side[index].first_block) {
        t_.self_keys.insert(t_.side[index].first_block);
      }
    }
  }
  for (int32_t k = 0; k < deferred_; ++k) {
    const int32_t index = t_.list_a[k];
    berth_row &row = t_.rows[index];
    if (full()) {
      for (; k < deferred_; ++k) {
        if (!dropped(t_.list_a[k])) t_.rows[t_.list_a[k]].wait_reason = BERTH_WAIT_BATCH;
      }
      break;
    }
    const int64_t left = max_tokens_ - used_;
    if (chunked_ && is_context(row.state) &&
        (left <= 0 || (rules_.chunking != BERTH_CHUNK_FORCE && left < rules_.chunk_unit))) {
      if (!dropped(index)) row.wait_reason = BERTH_WAIT_TOKENS;
      continue;
    }
    if (dropped(index)) continue;
    if (const int32_t reason = caches_.kept_out(index); reason != BERTH_WAIT_NONE) {
      row.wait_reason = static_cast<int16_t>(reason);
      continue;
    }
    const uint64_t key = delays_ && is_first_chunk(row) ? t_.side[index].first_block : 0;
    if (key && t_.self_keys.contains(key)) {
      row.wait_reason = BERTH_WAIT_PREFIX;
      delayed_ = true;
      continue;
    }
    if (!adapter_fits(row)) {
      row.wait_reason = BERTH_WAIT_ADAPTER;
      continue;
    }
    if (row.state == BERTH_STATE_ENCODER_INIT) {
      const int64_t n = t_.side[index].encoder_tokens;
      if (used_ + n > max_tokens_) {
        row.wait_reason = BERTH_WAIT_TOKENS;
        break;
      }
      claim(row);
      used_ += n;
      ++taken_;
      row.wait_reason = BERTH_WAIT_NONE;
      t_.encoders[plan_.encoders++] = index;
      continue;
    }
    const int32_t before = plan_.contexts;
    const Step step = context(index);
    if (plan_.contexts == before && !dropped(index)) caches_.release(index);
    if (step == Step::kStop) break;
  }
  return Status::kOk;
}

int64_t OneLoop::chunk_size(int32_t index, int64_t remaining) const {
  const berth_row &row = t_.rows[index];
  const int64_t unit = rules_.chunk_unit;
  const int64_t limit = rules_.max_context_tokens > 0 ? rules_.max_context_tokens : kNoLimit;
  int64_t target = remaining;
  if (rules_.chunking == BERTH_CHUNK_FORCE)
    target = std::min<int64_t>(target, next_snapshot(t_, index) - row.context_cursor);
  const int64_t size = std::min({max_tokens_ - used_, target, limit});
  return size < target ? size / unit * unit : size;
}

OneLoop::Step OneLoop::context(int32_t index) {
  berth_row &row = t_.rows[index];
  const bool first = is_first_chunk(row);
  const int64_t whole = row.prompt_tokens - row.context_cursor;  // before the cache is asked
  if (const int32_t reason = caches_.prepare_context(index); reason != BERTH_WAIT_NONE) {
    row.wait_reason = static_cast<int16_t>(reason);
    return chunked_ ? Step::kNext : Step::kStop;
  }
  const int64_t remaining = row.prompt_tokens - row.context_cursor;
  // Without prefix sharing what the cache saves isn't counted as saved.
  int64_t charged = rules_.prefix_sharing == 1 || !first ? remaining : std::max(whole, remaining);
  if (chunked_) {
    charged = chunk_size(index, charged);
    if (charged <= 0) {
      row.wait_reason = BERTH_WAIT_TOKENS;
      return Step::kNext;
    }
  }
  const int64_t size = std::min(charged, remaining);
  const int32_t drafts = size == remaining ? row.draft_tokens : 0;
  charged += drafts;
  if (!chunked_ && used_ + charged > max_tokens_) {
    row.wait_reason = BERTH_WAIT_TOKENS;
    return Step::kStop;
  }
  if (!caches_.resize_context(index, static_cast<int32_t>(size) + drafts)) {
    row.wait_reason = BERTH_WAIT_PAGES;
    return no_room_for_context(index);
  }
  claim(row);
  used_ += charged;
  ++taken_;
  row.wait_reason = BERTH_WAIT_NONE;
  caches_.taken(index);
  t_.contexts[plan_.contexts++] = berth_pick{index, static_cast<int32_t>(size), row.draft_tokens, row.context_cursor};
  if (delays_ && t_.side[index].first_block) t_.self_keys.insert(t_.side[index].first_block);
  return Step::kNext;
}

// Section 9.5: without a lower tier the newest cache is dropped; its pages wait for the next iteration.
OneLoop::Step OneLoop::no_room_for_context(int32_t index) {
  if (caches_.tier_below() || rules_.recompute_pause != 1) return Step::kNext;
  for (int32_t at = plan_.active - 1; at >= 0; --at) {
    const int32_t victim = t_.active[at];
    if (victim == index || dropped(victim) || !recomputable(victim) || !caches_.resident(victim)) continue;
    const bool taken = t_.rows[victim].wait_reason == BERTH_WAIT_NONE;
    if (taken) continue;
    recompute(victim);
    return Step::kStop;
  }
  return Step::kNext;
}

// Section 9.8.
bool OneLoop::stalled() const {
  if (plan_.encoders + plan_.contexts + plan_.generations + plan_.receiving + plan_.paused + plan_.recomputed > 0) {
    return false;
  }
  if (delayed_) return false;
  bool waiting = deferred_ > 0;
  for (int32_t i = 0; i < plan_.active; ++i) {
    const berth_row &row = t_.rows[t_.active[i]];
    if (row.state == BERTH_STATE_CONTEXT_TRANSFER || row.state == BERTH_STATE_CONTEXT_COMPLETE ||
        row.state == BERTH_STATE_GENERATION_TRANSFER) {
      return false;  // pages come back when it is over
    }
    const bool generation = in_range(row) && is_generation(row.state) && row.state != BERTH_STATE_RETIRING;
    if (generation && row.in_flight == 0) waiting = true;
  }
  return waiting;
}

}  // namespace

Status run_one_loop(Table &table, const berth_rules &rules, CacheManager &caches) {
  return OneLoop(table, rules, caches).run();
}

Status run_one_loop(Table &table, const berth_rules &rules) {
  for (int32_t i = 0; i < table.schedule.active; ++i) {  // the caches read every row at once
    if (!table.sound(table.active[i])) return table.unsound(table.active[i]);
  }
  CountedCaches caches(table, rules);
  return run_one_loop(table, rules, caches);
}

}  // namespace berth
