// SPDX-License-Identifier: Apache-2.0
// Spec 02 section 3. Where the two policy sets differ, docs/policies.md numbers the difference (D1, D2, ...) and so do
// the comments here.
#include "core/capacity.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "core/batch_pass.hpp"

namespace berth {

namespace {

constexpr int32_t kFits = -1;

// Many ranks of a process take turns, so a rank finds its rows outside of the near caches: each step asks for the row
// that it will need this many steps later.
constexpr int32_t kAhead = 12;

class CapacityPass {
 public:
  // batch: takes what fits at once, so that every row is read once; null: the capacity stage alone.
  CapacityPass(Table &table, const berth_rules &rules, BatchPass *batch, SeatGate *gate)
      : t_(table),
        rules_(rules),
        batch_(batch),
        gate_(gate),
        plan_(table.schedule),
        own_(rules.set == BERTH_SET_BERTH),
        most_(rules.max_requests - table.set_aside),
        pools_(static_cast<int32_t>(table.pools.size())),
        cross_(pools_ > table.self_pools),
        self_reuse_((rules.reuse & BERTH_CACHE_SELF) != 0),
        cross_reuse_(cross_ && (rules.reuse & BERTH_CACHE_CROSS) != 0),
        // Spec 02 section 3.2.
        may_delay_(rules.prefix_sharing == 1 && !(rules.variable_window & BERTH_CACHE_SELF) &&
                   (!cross_ || !(rules.variable_window & BERTH_CACHE_CROSS)) && (self_reuse_ || cross_reuse_)) {}

  Status run() {
    const Status status = select();
    plan_.fitting = fitting_;
    return batch_ && status == Status::kOk ? batch_->finish() : status;
  }

 private:
  Status select() {
    if (pools_ == 0) return max_requests();
    switch (rules_.capacity) {
      case BERTH_POLICY_MAX_REQUESTS: return max_requests();
      case BERTH_POLICY_MAX_UTILIZATION: return max_utilization();
      default: return to_completion(rules_.capacity == BERTH_POLICY_STATIC_BATCH);
    }
  }
  // Takes generations about which nothing has to be decided, from place i on, as long as they come. With kStep they
  // must have the pages of their step, which used takes; else what they need to their end is taken off the free pages.
  template <bool kStep, bool kSeats>
  int32_t plain_generations(int32_t i, int32_t end, int64_t *used);
  template <bool kStep>
  int32_t plain_generations(int32_t i, int32_t end, int64_t *used) {
    if (pools_ != 1 || full()) return i;
    return gate_ ? plain_generations<kStep, true>(i, end, used) : plain_generations<kStep, false>(i, end, used);
  }
  Status max_requests();
  Status to_completion(bool static_batch);
  void take_running(const int32_t *list, bool delays);
  Status pending(const int32_t *list, int32_t n, bool delays);
  Status max_utilization();

  // D8: where encoders widen the range, what lies between an encoder request and a context is still under way.
  bool in_range(const berth_row &row) const {
    const bool under_way = own_ && row.state > BERTH_STATE_ENCODER_INIT && row.state < BERTH_STATE_CONTEXT_INIT;
    return row.state >= rules_.range_begin && row.state < rules_.range_end && !under_way && !awaits_encoder(row);
  }
  // May be paused: it holds pages and can start again.
  bool started(const berth_row &row) const {
    return in_range(row) && (is_generation(row.state) || (is_context(row.state) && !is_first_chunk(row)));
  }
  int32_t look(int32_t index, const berth_row &row) {
    return gate_ && row.lease < 0 ? gate_->look(index) : static_cast<int32_t>(BERTH_WAIT_NONE);
  }
  bool full() const { return admitted_ + runs_ >= most_; }
  // False: no seat or lease for it.
  bool take(int32_t index, berth_row &row) {
    if (row.state == BERTH_STATE_GENERATION_INIT) {
      if (gate_ && row.lease < 0) {
        if (const int32_t reason = gate_->take(index); reason != BERTH_WAIT_NONE) {
          t_.wait(row, reason);
          return false;
        }
      }
      ++admitted_;
      Table::runs(row);
      t_.receiving[plan_.receiving++] = index;
      return true;
    }
    if (batch_) {
      // Who lacks a seat but holds KV counts among those that do.
      if (!batch_->offer(index, row) && row.lease < 0) return false;
    } else {
      Table::runs(row);
    }
    ++admitted_;
    t_.fitting[fitting_++] = index;
    return true;
  }
  // D9: who leaves the rank only after this iteration keeps its adapter's pages.
  void claim_retiree(const berth_row &row) {
    if (own_ && row.state == BERTH_STATE_RETIRING) claim(row);
  }
  void claim(const berth_row &row) {
    if (row.adapter < 0 || rules_.adapter_pages < 0) return;
    adapters_claimed_ += t_.new_adapter_pages(row);
    t_.claim_adapter(row);
  }
  bool adapter_fits(const berth_row &row) const {
    if (rules_.adapter_pages < 0) return true;
    const int64_t need = t_.new_adapter_pages(row);
    return (own_ && need == 0) || adapters_claimed_ + need <= rules_.adapter_pages;  // D4
  }
  Status rest(int32_t from, int32_t reason);

  // ---- prefix-aware delay (spec 02 section 5)

  void register_keys(int32_t index) {
    const berth_side_row &side = t_.side[index];
    if (self_reuse_ && side.first_block) t_.self_keys.insert(side.first_block);
    if (cross_reuse_ && cross_keys_ && side.cross_first_block) t_.cross_keys.insert(side.cross_first_block);
  }
  // D2, D3: berth-1 waits only for those that do run: in flight, or taken in this pass.
  bool seeds(int32_t index, const berth_row &row) const {
    // A key stays until its block can be found, which with overlap is after the context has become a generation.
    if (gate_) return row.in_flight > 0 && t_.side[index].first_block != 0;
    if (!is_context(row.state) || is_first_chunk(row)) return false;
    if (own_) return row.in_flight > 0;
    // With both stages in one call, who waits for its encoder was dropped before (spec 02 section 2).
    return rules_.stages == BERTH_STAGE_CAPACITY || !awaits_encoder(row);
  }
  void seed() {
    for (int32_t k = 0; k < plan_.active; ++k) {
      const int32_t index = t_.active[k];
      if (t_.sound(index) && seeds(index, t_.rows[index])) register_keys(index);
    }
  }
  void begin_delays(bool cross_keys) {
    cross_keys_ = cross_keys;
    t_.self_keys.clear();
    if (cross_keys_) t_.cross_keys.clear();
  }
  // Is somebody computing what this row could share? Parity registers the row here, whatever becomes of it.
  bool delayed(int32_t index, const berth_row &row) {
    if (!is_first_chunk(row)) return false;
    const berth_side_row &side = t_.side[index];
    if (self_reuse_ && side.first_block && t_.self_keys.contains(side.first_block)) return true;
    if (cross_reuse_ && cross_keys_ && side.cross_first_block && t_.cross_keys.contains(side.cross_first_block)) {
      return true;
    }
    if (!own_) register_keys(index);
    return false;
  }
  void taken_context(int32_t index, const berth_row &row) {
    if (own_ && may_delay_ && is_context(row.state)) register_keys(index);
  }

  // ---- pages

  int64_t need(const berth_row &row, const berth_demand &d, int32_t pages) const {
    const bool credited = rules_.prefix_sharing == 1 || !is_first_chunk(row);
    return static_cast<int64_t>(pages) - (credited ? d.credit : 0);
  }
  int64_t step_need(const berth_row &row, const berth_demand &d) const {
    return need(row, d, rules_.lookahead == 2 ? d.two_step : d.one_step);
  }
  bool needs_pages(int32_t index, const berth_row &row) const {
    const berth_demand *demand = t_.demands(index);
    for (int32_t p = 0; p < pools_; ++p) {
      if (step_need(row, demand[p]) > 0) return true;
    }
    return false;
  }
  // Takes what a row needs to its end, whether it is there or not, and its adapter's pages.
  void reserve(int32_t index, const berth_row &row) {
    const berth_demand *demand = t_.demands(index);
    for (int32_t p = 0; p < pools_; ++p) free_[p] -= static_cast<int64_t>(demand[p].remaining) - demand[p].credit;
    claim(row);
  }
  // D5: the first pool that could never hold what the row needs, even empty; kFits if there is none. Who hasn't started
  // must have room up to its last token, or it would be paused again and again.
  template <class Need>
  int32_t hopeless(int32_t index, const berth_row &row, Need &&of) const {
    if (!own_) return kFits;
    const bool fresh = is_first_chunk(row) || row.state == BERTH_STATE_GENERATION_INIT;
    const berth_demand *demand = t_.demands(index);
    for (int32_t p = 0; p < pools_; ++p) {
      const int64_t total = t_.pools[p].total;
      if (total >= 0 && (of(row, demand[p]) > total || (fresh && demand[p].remaining > total))) return p;
    }
    return kFits;
  }
  // D5: is it longer than a batch?
  bool never_runs(int32_t index, const berth_row &row) const { return own_ && batch_ && batch_->hopeless(index, row); }
  Status start_simulation();
  void release(int32_t index);
  void end_simulation();

  Table &t_;
  const berth_rules &rules_;
  BatchPass *const batch_;
  SeatGate *const gate_;
  berth_schedule &plan_;
  const bool own_;
  const int32_t most_;  // requests that may be admitted
  const int32_t pools_;
  const bool cross_;
  const bool self_reuse_, cross_reuse_;
  const bool may_delay_;
  bool cross_keys_ = false;
  int32_t fitting_ = 0;
  int32_t runs_ = 0;  // contexts that started and have yet to be taken
  int32_t admitted_ = 0;
  int64_t adapters_claimed_ = 0;
  int64_t free_[kMaxPools] = {};
  bool simulating_ = false;
};

// Everybody from an entry of the active list on waits, or is outside.
Status CapacityPass::rest(int32_t from, int32_t reason) {
  for (int32_t i = from; i < plan_.active; ++i) {
    const int32_t index = t_.active[i];
    if (!t_.sound(index)) return t_.unsound(index);
    berth_row &row = t_.rows[index];
    const bool inside = row.state == BERTH_STATE_GENERATION_INIT || in_range(row);
    t_.wait(row, inside ? reason : Table::outside_reason(row));
  }
  return Status::kOk;
}

static_assert(offsetof(berth_row, flags) == offsetof(berth_row, state) + 4);
static_assert(offsetof(berth_row, lease) == offsetof(berth_row, seat) + 4);
static_assert(offsetof(berth_row, in_flight) == offsetof(berth_row, adapter) + 4);
static_assert(offsetof(berth_row, beam_width) == offsetof(berth_row, adapter) + 6);

// Fields of a row that lie side by side, compared in one go: those bytes that the mask has set. Not all are whole
// fields: of a seat, a lease or an adapter the sign alone says whether there is one.
template <size_t kFrom>
class Fields {
 public:
  // The bits that count, and what they must be.
  Fields(const berth_row &mask, const berth_row &wanted) : mask_(load(mask)), wanted_(load(wanted) & mask_) {}
  uint64_t differ(const berth_row &row) const { return (load(row) & mask_) ^ wanted_; }

 private:
  static uint64_t load(const berth_row &row) {
    uint64_t word;
    std::memcpy(&word, reinterpret_cast<const char *>(&row) + kFrom, sizeof word);
    return word;
  }
  const uint64_t mask_, wanted_;
};

// One pass over rows of a cache line each is what an iteration costs, so this loop does nothing else: three words of a
// row say whether it simply runs. Who doesn't pass is left to the caller, which decides by the rules themselves.
template <bool kStep, bool kSeats>
int32_t CapacityPass::plain_generations(int32_t i, int32_t end, int64_t *used) {
  const BatchPass::Plain plain = batch_ ? batch_->plain() : BatchPass::Plain{};
  const int32_t begin = std::max(rules_.range_begin, batch_ ? plain.range_begin : 0);
  const int32_t behind = std::min(rules_.range_end, batch_ ? plain.range_end : rules_.range_end);
  if (begin > BERTH_STATE_GENERATION || behind <= BERTH_STATE_GENERATION) return i;
  const int32_t room = std::min(most_ - admitted_ - runs_, batch_ ? plain.places : end);
  const int32_t last = static_cast<int32_t>(std::min<int64_t>(end, static_cast<int64_t>(i) + room));

  berth_row mask{}, wanted{};
  constexpr int32_t kSign = std::numeric_limits<int32_t>::min();
  mask.state = -1;
  wanted.state = BERTH_STATE_GENERATION;
  mask.flags = wanted.flags = BERTH_ROW_CHECKED;
  mask.adapter = wanted.adapter = kSign;
  if (batch_) {
    mask.in_flight = rules_.exclusive_flight == 1 ? -1 : 0;
    mask.beam_width = -1;
    wanted.beam_width = static_cast<int16_t>(plain.beam);
  }
  if (kSeats && batch_) mask.seat = mask.lease = kSign;
  const Fields<offsetof(berth_row, state)> state_flags(mask, wanted);
  const Fields<offsetof(berth_row, adapter)> adapter_flight_beam(mask, wanted);
  const Fields<offsetof(berth_row, seat)> seat_lease(mask, wanted);

  const int32_t berth_demand::*const step = rules_.lookahead == 2 ? &berth_demand::two_step : &berth_demand::one_step;
  const uint32_t rows = static_cast<uint32_t>(t_.rows.size());
  const int32_t *active = t_.active.data();
  const berth_row *row_of = t_.rows.data();
  const berth_demand *demand_of = t_.demand.data();
  int32_t *fitting = t_.fitting.data() + fitting_;
  int32_t *generations = batch_ ? plain.out : nullptr;
  const int32_t started_at = i;
  const int64_t beam = batch_ ? plain.beam : 0;
  int64_t tokens = plain.tokens;
  const int64_t max_tokens = batch_ ? plain.max_tokens : std::numeric_limits<int64_t>::max();
  int64_t pages = kStep ? used[0] : free_[0];
  const int64_t free = free_[0];
  for (; i < last; ++i) {
    const uint32_t index = static_cast<uint32_t>(active[i]);
    if constexpr (kSeats) {
      if (i + kAhead < last) __builtin_prefetch(row_of + active[i + kAhead]);
    }
    if (index >= rows) break;
    const berth_row &row = row_of[index];
    uint64_t differs =
        state_flags.differ(row) | adapter_flight_beam.differ(row) | static_cast<uint16_t>(row.wait_reason);
    if constexpr (kSeats) differs |= seat_lease.differ(row);
    const berth_demand &demand = demand_of[index];
    const int64_t total = tokens + beam + row.draft_tokens;
    const int64_t after = kStep ? pages + demand.*step - demand.credit : pages - demand.remaining + demand.credit;
    if (differs || total > max_tokens || (kStep && after > free)) break;
    tokens = total;
    pages = after;
    fitting[i - started_at] = static_cast<int32_t>(index);
    if (batch_) generations[i - started_at] = static_cast<int32_t>(index);
  }
  const int32_t taken = i - started_at;
  admitted_ += taken;
  fitting_ += taken;
  (kStep ? used[0] : free_[0]) = pages;
  if (batch_) batch_->took_plain(taken, tokens);
  return i;
}

// ---------------------------------------------------------------------------------------- section 3.1

Status CapacityPass::max_requests() {
  int32_t short_of = BERTH_WAIT_NONE;  // somebody found no pages: who has none either doesn't pass it
  for (int32_t i = 0; i < plan_.active; ++i) {
    const int32_t index = t_.active[i];
    if (!t_.sound(index)) return t_.unsound(index);
    berth_row &row = t_.rows[index];
    const bool kind = row.state == BERTH_STATE_ENCODER_INIT || is_context(row.state) || is_generation(row.state);
    if (!in_range(row)) {
      t_.wait(row, Table::outside_reason(row));
      continue;
    }
    if (full()) return rest(i, BERTH_WAIT_BATCH);
    if (!kind) {
      t_.wait(row, Table::outside_reason(row));
      continue;
    }
    if (short_of != BERTH_WAIT_NONE && row.lease < 0) {
      t_.wait(row, short_of);
      continue;
    }
    look(index, row);
    if (!take(index, row) && (row.wait_reason & 0xff) == BERTH_WAIT_PAGES) short_of = row.wait_reason;
  }
  return Status::kOk;
}

// ---------------------------------------------------------------------------------------- sections 3.2, 3.3

Status CapacityPass::to_completion(bool static_batch) {
  const bool delays = may_delay_ && !static_batch;
  if (delays) begin_delays(cross_);
  for (int32_t p = 0; p < pools_; ++p) free_[p] = t_.pools[p].free;
  int32_t *receiving = t_.list_a.data(), *others = t_.list_b.data();
  int32_t *running = t_.list_d.data();
  int32_t receivings = 0, other = 0;

  const int32_t n = plan_.active;
  for (int32_t i = 0; i < n; ++i) {
    i = plain_generations<false>(i, n, nullptr);
    if (i == n) break;
    const int32_t index = t_.active[i];
    if (!t_.sound(index)) return t_.unsound(index);
    berth_row &row = t_.rows[index];
    const bool inside = in_range(row);
    if (inside && is_generation(row.state) && !full()) {
      reserve(index, row);  // before a lease is taken, which changes what the row needs
      take(index, row);
      continue;
    }
    if (inside && own_ && is_context(row.state) && !is_first_chunk(row) &&
        !full()) {  // D10: it runs, behind generations
      reserve(index, row);
      running[runs_++] = index;
      continue;
    }
    if (delays && !gate_ && seeds(index, row)) register_keys(index);
    if (row.state != BERTH_STATE_GENERATION_INIT && !inside) {
      claim_retiree(row);
      if (own_ && row.state == BERTH_STATE_GENERATION_TRANSFER) {  // D8: what is on the way will want its pages
        ++admitted_;
        reserve(index, row);
      }
      t_.wait(row, Table::outside_reason(row));
    } else if (full()) {
      take_running(running, delays);
      // What was classified so far can't be admitted either.
      for (int32_t k = 0; k < receivings; ++k) t_.wait(t_.rows[receiving[k]], BERTH_WAIT_BATCH);
      for (int32_t k = 0; k < other; ++k) t_.wait(t_.rows[others[k]], BERTH_WAIT_BATCH);
      return rest(i, BERTH_WAIT_BATCH);
    } else if (row.state == BERTH_STATE_GENERATION_INIT) {
      receiving[receivings++] = index;
    } else {
      others[other++] = index;
    }
  }

  if (delays && gate_ && receivings + other > 0) seed();
  take_running(running, delays);
  if (static_batch && (own_ ? admitted_ : fitting_) > 0) {  // D8
    for (int32_t k = 0; k < receivings; ++k) t_.wait(t_.rows[receiving[k]], BERTH_WAIT_BATCH);
    for (int32_t k = 0; k < other; ++k) t_.wait(t_.rows[others[k]], BERTH_WAIT_BATCH);
    return Status::kOk;
  }
  const Status status = pending(receiving, receivings, delays);
  return status == Status::kOk ? pending(others, other, delays) : status;
}

void CapacityPass::take_running(const int32_t *list, bool delays) {
  const int32_t n = runs_;
  runs_ = 0;
  for (int32_t k = 0; k < n; ++k) {
    take(list[k], t_.rows[list[k]]);
    if (delays) taken_context(list[k], t_.rows[list[k]]);
  }
}

// One of the two lists of the second pass.
Status CapacityPass::pending(const int32_t *list, int32_t n, bool delays) {
  const auto to_the_end = [this](const berth_row &row, const berth_demand &d) { return need(row, d, d.remaining); };
  int32_t k = 0;
  const auto leave = [&](int32_t reason) {
    for (; k < n; ++k) t_.wait(t_.rows[list[k]], reason);
    return Status::kOk;
  };
  for (; k < n; ++k) {
    const int32_t index = list[k];
    berth_row &row = t_.rows[index];
    const bool encoder = row.state == BERTH_STATE_ENCODER_INIT;
    if (encoder && !cross_) return t_.refuse(index, BERTH_FIELD_STATE);
    look(index, row);
    if (delays && row.state != BERTH_STATE_GENERATION_INIT && delayed(index, row)) {
      t_.wait(row, BERTH_WAIT_PREFIX);
      continue;
    }
    if (full()) return leave(BERTH_WAIT_BATCH);
    if (!encoder && !is_context(row.state) && row.state != BERTH_STATE_GENERATION_INIT) {
      t_.wait(row, Table::outside_reason(row));
      continue;
    }
    if (never_runs(index, row)) {
      t_.wait(row, BERTH_WAIT_TOKENS);
      continue;
    }
    if (!encoder) {
      if (const int32_t pool = hopeless(index, row, to_the_end); pool != kFits) {
        t_.wait(row, BERTH_WAIT_PAGES | pool << 8);
        continue;
      }
      const berth_demand *demand = t_.demands(index);
      for (int32_t p = 0; p < pools_; ++p) {
        const int64_t pages = to_the_end(row, demand[p]);
        if (pages > free_[p] && !(own_ && pages <= 0)) {  // D4
          // With pages it would still not run if the batch is full: that is what it waits for first.
          const bool joins = batch_ && is_context(row.state);
          const int32_t closed = joins ? batch_->keeps_out(index, row) : static_cast<int32_t>(BERTH_WAIT_NONE);
          return leave(closed != BERTH_WAIT_NONE ? closed : BERTH_WAIT_PAGES | p << 8);
        }
      }
    }
    if (!adapter_fits(row)) {
      t_.wait(row, BERTH_WAIT_ADAPTER);
      continue;
    }
    int64_t pages[kMaxPools] = {};  // now: a lease that is taken changes what the row needs
    for (int32_t p = 0; p < pools_ && !encoder; ++p) pages[p] = to_the_end(row, t_.demands(index)[p]);
    if (!take(index, row)) continue;
    claim(row);
    if (delays) taken_context(index, row);
    for (int32_t p = 0; p < pools_; ++p) free_[p] -= pages[p];
  }
  return Status::kOk;
}

// ---------------------------------------------------------------------------------------- section 3.4

// Counts who holds each page. Reads every row, so that all must be sound, those too that the pass would not have
// reached.
Status CapacityPass::start_simulation() {
  for (int32_t i = 0; i < plan_.active; ++i) {
    if (!t_.sound(t_.active[i])) return t_.unsound(t_.active[i]);
  }
  simulating_ = true;
  for (int32_t i = 0; i < plan_.active; ++i) {
    const berth_held *held = &t_.held[static_cast<size_t>(t_.active[i]) * pools_];
    for (int32_t p = 0; p < pools_; ++p) {
      if (held[p].first < 0) continue;
      int32_t *refs = t_.page_refs.data() + t_.page_ref_base[p];
      for (int32_t k = 0; k < held[p].count; ++k) ++refs[t_.held_pages[static_cast<size_t>(held[p].first) + k]];
    }
  }
  return Status::kOk;
}

// A page is free when its last holder goes.
void CapacityPass::release(int32_t index) {
  const berth_held *held = &t_.held[static_cast<size_t>(index) * pools_];
  for (int32_t p = 0; p < pools_; ++p) {
    if (held[p].first < 0) {
      free_[p] += held[p].count;
      continue;
    }
    int32_t *refs = t_.page_refs.data() + t_.page_ref_base[p];
    for (int32_t k = 0; k < held[p].count; ++k) {
      if (--refs[t_.held_pages[static_cast<size_t>(held[p].first) + k]] == 0) ++free_[p];
    }
  }
}

void CapacityPass::end_simulation() {
  if (!simulating_) return;
  for (int32_t i = 0; i < plan_.active; ++i) {
    const berth_held *held = &t_.held[static_cast<size_t>(t_.active[i]) * pools_];
    for (int32_t p = 0; p < pools_; ++p) {
      if (held[p].first < 0) continue;
      int32_t *refs = t_.page_refs.data() + t_.page_ref_base[p];
      for (int32_t k = 0; k < held[p].count; ++k) refs[t_.held_pages[static_cast<size_t>(held[p].first) + k]] = 0;
    }
  }
}

Status CapacityPass::max_utilization() {
  const auto step = [this](const berth_row &row, const berth_demand &d) { return step_need(row, d); };
  int64_t used[kMaxPools] = {};
  for (int32_t p = 0; p < pools_; ++p) free_[p] = t_.pools[p].free;
  if (may_delay_) begin_delays(false);  // only the self cache's keys count here
  bool seeded = false;
  if (own_ && rules_.adapter_pages >= 0) {
    for (int32_t i = 0; i < plan_.active; ++i) {
      if (!t_.sound(t_.active[i])) return t_.unsound(t_.active[i]);
      const berth_row &row = t_.rows[t_.active[i]];
      if (!in_range(row)) claim_retiree(row);
    }
  }

  int32_t end = plan_.active;
  int32_t i = 0;
  int32_t short_of = BERTH_WAIT_NONE;  // somebody waits for pages, and nobody could give way
  int32_t lands = -1;                  // who will in the next pass: it isn't launched again
  while (i < end) {
    if (short_of == BERTH_WAIT_NONE) i = plain_generations<true>(i, end, used);
    if (i == end) break;
    const int32_t index = t_.active[i];
    if (!t_.sound(index)) {
      end_simulation();
      return t_.unsound(index);
    }
    berth_row &row = t_.rows[index];
    if (short_of != BERTH_WAIT_NONE && (row.state == BERTH_STATE_GENERATION_INIT || in_range(row)) &&
        (i == lands || row.lease < 0 || needs_pages(index, row))) {
      t_.wait(row, short_of);
      ++i;
      continue;
    }
    if (row.state != BERTH_STATE_GENERATION_INIT && !in_range(row)) {
      if (own_ && row.state == BERTH_STATE_GENERATION_TRANSFER) {  // D8
        ++admitted_;
        if (adapter_fits(row)) claim(row);  // else it will wait for its turn like everybody
      }
      t_.wait(row, Table::outside_reason(row));
      ++i;
      continue;
    }
    if (row.state == BERTH_STATE_ENCODER_INIT && !cross_) {
      end_simulation();
      return t_.refuse(index, BERTH_FIELD_STATE);
    }
    if (const int32_t kept_out = look(index, row); kept_out != BERTH_WAIT_NONE) {  // nobody gives way for it
      t_.wait(row, kept_out);
      ++i;
      continue;
    }
    if (may_delay_ && is_first_chunk(row)) {
      if (!seeded) {
        seeded = true;
        seed();
      }
      if (delayed(index, row)) {
        t_.wait(row, BERTH_WAIT_PREFIX);
        ++i;
        continue;
      }
    }

    if (!is_generation(row.state) && never_runs(index, row)) {
      t_.wait(row, BERTH_WAIT_TOKENS);
      ++i;
      continue;
    }
    if (row.state != BERTH_STATE_ENCODER_INIT) {
      if (const int32_t pool = hopeless(index, row, step); pool != kFits) {
        t_.wait(row, BERTH_WAIT_PAGES | pool << 8);
        ++i;
        continue;
      }
    }

    int32_t reason = BERTH_WAIT_NONE;
    const berth_demand *demand = t_.demands(index);
    if (full()) {
      reason = BERTH_WAIT_BATCH;
    } else if (row.state != BERTH_STATE_ENCODER_INIT) {
      for (int32_t p = 0; p < pools_ && reason == BERTH_WAIT_NONE; ++p) {
        const int64_t pages = step(row, demand[p]);
        if (used[p] + pages > free_[p] && !(own_ && pages <= 0)) reason = BERTH_WAIT_PAGES | p << 8;  // D4
      }
    }
    if (reason == BERTH_WAIT_NONE && !adapter_fits(row)) reason = BERTH_WAIT_ADAPTER;

    if (reason == BERTH_WAIT_NONE) {
      ++i;
      int64_t pages[kMaxPools] = {};
      for (int32_t p = 0; p < pools_ && row.state != BERTH_STATE_ENCODER_INIT; ++p) pages[p] = step(row, demand[p]);
      if (!take(index, row)) continue;
      for (int32_t p = 0; p < pools_; ++p) used[p] += pages[p];
      claim(row);
      taken_context(index, row);
      continue;
    }
    if (own_) {
      if (reason == BERTH_WAIT_BATCH) break;  // D1: a pause makes no place
      if (reason == BERTH_WAIT_ADAPTER) {     // D1: nor does it free adapter pages
        t_.wait(row, reason);
        ++i;
        continue;
      }
    }

    // The last one that holds something gives it up, and everybody behind it waits with it.
    int32_t victim = end - 1;
    while (victim >= i) {
      if (!t_.sound(t_.active[victim])) {
        end_simulation();
        return t_.unsound(t_.active[victim]);
      }
      const berth_row &candidate = t_.rows[t_.active[victim]];
      // D6. What a launched batch writes can't be taken away at once.
      if (started(candidate) && !((own_ || gate_) && candidate.in_flight > 0) && !(candidate.flags & BERTH_ROW_STAYS)) {
        break;
      }
      --victim;
    }
    if (victim < i && gate_) {
      // Who holds its pages and needs no more goes on. Of those in flight the last one lands, to give way then.
      t_.wait(row, reason);
      short_of = reason;
      for (int32_t k = end - 1; k > i && lands < 0; --k) {
        const berth_row &candidate = t_.rows[t_.active[k]];
        if (started(candidate) && candidate.in_flight > 0 && !(candidate.flags & BERTH_ROW_STAYS)) lands = k;
      }
      ++i;
      continue;
    }
    const int32_t waits_from = std::max(victim, i);
    for (int32_t k = waits_from; k < end; ++k) {
      berth_row &waiting = t_.rows[t_.active[k]];
      const bool inside = waiting.state == BERTH_STATE_GENERATION_INIT || in_range(waiting);
      t_.wait(waiting, inside ? reason : Table::outside_reason(waiting));
    }
    if (victim < i) {
      end = i;
      break;
    }
    if (gate_) {
      int64_t freed[kMaxPools] = {};
      gate_->pause(t_.active[victim], freed);
      for (int32_t p = 0; p < pools_; ++p) free_[p] += freed[p];
    } else {
      if (!simulating_) {
        if (const Status status = start_simulation(); status != Status::kOk) return status;
      }
      release(t_.active[victim]);
    }
    t_.paused[plan_.paused++] = t_.active[victim];
    end = victim;
  }
  for (; i < end; ++i) {  // the request cap
    if (!t_.sound(t_.active[i])) {
      end_simulation();
      return t_.unsound(t_.active[i]);
    }
    berth_row &row = t_.rows[t_.active[i]];
    const bool inside = row.state == BERTH_STATE_GENERATION_INIT || in_range(row);
    t_.wait(row, inside ? static_cast<int32_t>(BERTH_WAIT_BATCH) : Table::outside_reason(row));
  }
  end_simulation();
  return Status::kOk;
}

}  // namespace

Status run_capacity(Table &table, const berth_rules &rules, SeatGate *gate) {
  if (!(rules.stages & BERTH_STAGE_BATCH)) return CapacityPass(table, rules, nullptr, gate).run();
  BatchPass batch(table, rules, gate);
  return CapacityPass(table, rules, &batch, gate).run();
}

}  // namespace berth
