// SPDX-License-Identifier: Apache-2.0
#include "core/rank_core.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/oneloop.hpp"
#include "core/selection.hpp"

namespace berth {

namespace {

constexpr uint8_t kTornDown = 0x80;  // in end_kind_: everything went back, the active list hasn't dropped the row yet

constexpr int32_t kStateOrder[] = {-1, 0, 1, 7, 8, 9, 10, 11, 12, 13, 14, 20, 21, 22, 23};

struct StateIndex {
  uint8_t of[25];
  constexpr StateIndex() : of() {
    for (uint8_t i = 0; i < 15; ++i) of[kStateOrder[i] + 1] = i;
  }
};
constexpr StateIndex kStateIndex;

// Positions of a sequence are ints: prompt and output together must be countable.
bool countable(int32_t prompt_tokens, int32_t max_new_tokens) {
  return max_new_tokens <= std::numeric_limits<int32_t>::max() - prompt_tokens;
}

// Ranks take turns, so a rank finds its rows outside of the near caches. Each pass asks for the row that it will need
// this many steps later.
constexpr int32_t kAhead = 12;

constexpr int64_t kManyPages = int64_t{1} << 44;

// One step of a rolling hash.
constexpr uint64_t mixed(uint64_t hash, uint64_t value) {
  const uint64_t h = (hash ^ value) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 32);
}

bool promises(const berth_core_config &core) { return core.capacity != BERTH_POLICY_MAX_UTILIZATION; }

bool has_windows(const KvCache &kv) {
  const auto &lives = kv.layout().life_cycles();
  return std::any_of(lives.begin(), lives.end(), [](const LifeCycle &life) { return !life.full(); });
}

berth_table_config table_config(const berth_core_config &core, int32_t pools) {
  berth_table_config config{};
  config.struct_size = sizeof config;
  config.rows = core.rows + 1;
  config.pools = pools;
  return config;
}

// What a pool looks back on is the cache's business.
std::vector<berth_pool> pools_of(const berth_core_config &core, const KvCache &kv) {
  std::vector<berth_pool> pools;
  for (int32_t p = 0; p < kv.layout().groups(); ++p) {
    const int64_t total = core.pages < 0 ? -1 : kv.slots(0, p);
    pools.push_back(berth_pool{std::numeric_limits<int32_t>::max(), 0, 0, total, 0, 0});
  }
  return pools;
}

// Does the scheduler count who may hold KV? Without a transceiver nobody holds any who isn't in the batch or behind it:
// leases limit that. Parity doesn't count transfers, so there take() does (a cap would end the pass before who holds a
// seat is reached).
bool counts_kv(const berth_core_config &core) {
  return (core.transceiver && core.policy_set == BERTH_SET_BERTH) ||
         (core.capacity == BERTH_POLICY_MAX_REQUESTS && !core.selects);  // it has nothing else
}

// In order, those that hold KV may come behind one that doesn't yet: then the scheduler's count isn't enough.
bool counts_residents(const berth_core_config &core) {
  const bool in_order = !core.one_loop && (core.capacity == BERTH_POLICY_MAX_UTILIZATION || core.selects);
  return core.transceiver && (core.policy_set == BERTH_SET_TRTLLM || in_order);
}

berth_rules rules_of(const berth_core_config &core, const KvCache &kv) {
  berth_rules rules{};
  rules.struct_size = sizeof rules;
  rules.set = core.policy_set;
  rules.stages = core.one_loop ? BERTH_STAGE_ONE_LOOP : BERTH_STAGE_CAPACITY | BERTH_STAGE_BATCH;
  rules.capacity = core.capacity;
  rules.max_requests = counts_kv(core) ? core.max_resident : std::numeric_limits<int32_t>::max();
  rules.lookahead = 1;
  rules.range_begin = BERTH_STATE_CONTEXT_INIT;
  rules.range_end = rules.batch_range_end = core.range_end;
  rules.adapter_pages = -1;
  rules.max_batch_size = core.max_batch_size;
  rules.max_num_tokens = core.max_num_tokens;
  rules.chunking = core.chunking;
  rules.chunk_unit = 1;
  rules.tokens_per_block = rules.gpu_pages = rules.leases = rules.tier_below = 1;  // its caches are this core's
  rules.exclusive_flight = core.exclusive_flight;
  rules.prefix_sharing = core.prefix_sharing;
  rules.reuse = kv.counted() ? 0 : BERTH_CACHE_SELF;
  rules.variable_window = has_windows(kv) ? BERTH_CACHE_SELF : 0;
  return rules;
}

// Rows of the block tables that requests never have: with no lease in reserve, the dummy still has one.
int32_t padding_rows(const berth_core_config &config) { return std::max(config.reserved_leases, 1); }

}  // namespace

bool RankCore::valid(const berth_core_config &c) {
  const auto flag = [](int32_t v) { return v == 0 || v == 1; };
  return c.struct_size == sizeof(berth_core_config) && c.rows >= 1 && c.rows <= kMaxRows && c.seats >= 1 &&
         c.seats <= kMaxRows && c.leases >= 1 && c.leases <= kMaxRows && c.reserved_leases >= 0 &&
         c.reserved_leases <= kMaxRows && c.max_batch_size >= 1 && c.max_batch_size <= kMaxRows &&
         c.max_num_tokens >= 0 && c.max_seq_len >= 0 && c.draft_tokens >= 0 && c.draft_tokens < 1 << 15 &&
         c.admission_cap >= 1 && c.max_resident >= 1 && c.range_end > BERTH_STATE_CONTEXT_INIT &&
         c.range_end <= BERTH_STATE_COMPLETE && c.pending_batches >= 0 && c.pending_batches <= 64 &&
         flag(c.exclusive_flight) && flag(c.mark_retiring) && c.retiring >= BERTH_RETIRING_CHARGED &&
         c.retiring <= BERTH_RETIRING_EXCLUDED_TOKENS_CHARGED && c.padding >= BERTH_PAD_NONE &&
         c.padding <= BERTH_PAD_BOTH && flag(c.transceiver) && (c.exclusive_flight == 1 || c.pending_batches <= 1) &&
         (c.chunking == BERTH_CHUNK_NONE || c.chunking == BERTH_CHUNK_FCFS) && c.tokens_per_block >= 1 &&
         c.pages >= -1 && (c.policy_set == BERTH_SET_TRTLLM || c.policy_set == BERTH_SET_BERTH) &&
         c.capacity >= BERTH_POLICY_MAX_REQUESTS && c.capacity <= BERTH_POLICY_STATIC_BATCH &&
         (c.pause == BERTH_PAUSE_RECOMPUTE || c.pause == BERTH_PAUSE_SUSPEND) && flag(c.prefix_sharing) &&
         flag(c.one_loop) && flag(c.selects) &&
         (c.one_loop == 0 || (c.capacity == BERTH_POLICY_MAX_UTILIZATION && c.selects == 0)) &&
         c.pad_count >= BERTH_PAD_ACTIVE && c.pad_count <= BERTH_PAD_SCHEDULABLE && flag(c.sends);
}

bool RankCore::valid(const berth_core_config &c, const berth_kv_config &kv) {
  const int64_t longest = int64_t{c.max_seq_len} + c.draft_tokens;
  // Who is scheduled past its end would compute where there are no pages.
  return kv.struct_size == sizeof kv && kv.memory != BERTH_KV_COUNTED && c.max_seq_len >= 1 && c.pages == 0 &&
         c.range_end <= BERTH_STATE_RETIRING && c.tokens_per_block == kv.tokens_per_block &&
         longest <= int64_t{kv.max_blocks} * kv.tokens_per_block &&
         kv.sequences >= c.leases + (c.padding == BERTH_PAD_NONE ? 0 : 1) && kv.beams == 1 &&
         kv.rows >= int64_t{c.leases} + padding_rows(c) && kv.max_utilisation == 65536 &&
         kv.mode == BERTH_KV_SYNCHRONOUS;
}

RankCore::Counted RankCore::counted(const berth_core_config &core) {
  Counted counted{};
  berth_kv_config &c = counted.config;
  c.struct_size = sizeof c;
  c.tokens_per_block = core.tokens_per_block;
  c.max_blocks = std::numeric_limits<int32_t>::max();
  c.sequences = c.rows = core.leases + 1;  // the dummy's
  c.beams = c.scopes = c.tenants = c.staging = c.token_arena = 1;
  c.max_utilisation = 65536;
  c.memory = BERTH_KV_COUNTED;
  counted.layout = KvLayout::counted(core.tokens_per_block);
  counted.pages = {core.pages < 0 ? kManyPages : std::min(core.pages, kManyPages), 0, 0};
  return counted;
}

RankCore::RankCore(const berth_core_config &config, KvCache &kv)
    : config_(config),
      dummy_(config.rows),
      batch_capacity_(config.max_batch_size + 1),
      ring_size_(config.pending_batches + 2),
      token_limit_(config.max_num_tokens > 0 ? config.max_num_tokens : std::numeric_limits<int32_t>::max()),
      table_(table_config(config, kv.layout().groups()), pools_of(config, kv).data(),
             config.prefix_sharing ? config.rows : 0),
      rules_(rules_of(config, kv)),
      seats_(config.seats, 1, false),
      leases_(config.leases, config.reserved_leases, false),
      kv_(kv),
      promises_(promises(config)),
      caches_(!kv.counted()),
      counts_kv_(counts_kv(config)),
      counts_residents_(counts_residents(config)),
      pages_(kv, RankPages::Config{config.rows + 1, 1 + config.draft_tokens, kv.counted() ? 0 : config.max_seq_len}),
      rows_(table_.rows),
      cold_(static_cast<size_t>(config.rows) + 1),
      load_(static_cast<size_t>(config.rows) + 1),
      end_kind_(static_cast<size_t>(config.rows) + 1),
      free_rows_(static_cast<size_t>(config.rows)),
      active_(table_.active),
      admits_(static_cast<size_t>(config.rows)),
      arrivals_(static_cast<size_t>(config.rows)),
      changes_(static_cast<size_t>(config.rows)),
      receives_(static_cast<size_t>(config.rows) + 1),
      encodes_(static_cast<size_t>(config.rows) + 1),
      sends_(static_cast<size_t>(config.rows) + 1),
      done_(static_cast<size_t>(config.rows) + 1),
      entries_(static_cast<size_t>(ring_size_) * batch_capacity_),
      results_(static_cast<size_t>(ring_size_) * batch_capacity_),
      sampled_(static_cast<size_t>(ring_size_) * batch_capacity_),
      slot_launch_(static_cast<size_t>(ring_size_)),
      table_rows_(kv.counted() ? 0 : static_cast<size_t>(batch_capacity_)),
      slot_size_(static_cast<size_t>(ring_size_)),
      slot_busy_(static_cast<size_t>(ring_size_)),
      pipe_(static_cast<size_t>(ring_size_)),
      claims_(2 * static_cast<size_t>(config.rows) + 2),
      in_order_(static_cast<size_t>(config.rows) + 1) {
  for (int32_t i = 0; i < config.rows; ++i) free_rows_[i] = config.rows - 1 - i;  // lowest row on top
  berth_row &dummy = rows_[dummy_];
  dummy.request_id = std::numeric_limits<uint64_t>::max();
  dummy.flags = BERTH_ROW_DUMMY;
  dummy.state = BERTH_STATE_GENERATION;
  dummy.prompt_tokens = dummy.context_cursor = dummy.max_new_tokens = 1;
  dummy.seat = config.seats;                                      // the reserved seat
  dummy.lease = config.reserved_leases > 0 ? config.leases : -1;  // the first reserved lease
  iteration_.batch_slot = -1;
  describe();
}

void RankCore::map(berth_core_memory &out) {
  const auto address = [](const void *p) { return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(p)); };
  out.rows = config_.rows + 1;
  out.row_address = address(rows_.data());
  out.cold_address = address(cold_.data());
  out.iteration_address = address(&iteration_);
  out.admit_address = address(admits_.data());
  out.change_address = address(changes_.data());
  out.receive_address = address(receives_.data());
  out.done_address = address(done_.data());
  out.entry_address = address(entries_.data());
  out.result_address = address(results_.data());
  out.sampled_address = address(sampled_.data());
  out.active_address = address(active_.data());
  out.free_address = address(free_rows_.data());
  out.token_address = pages_.tokens() ? address(pages_.token_data()) : 0;
  out.token_stride = pages_.tokens() ? config_.max_seq_len : 0;
  out.ring = ring_size_;
  out.entries_per_batch = batch_capacity_;
  out.seats = seats_.capacity();
  out.leases = leases_.capacity();
  out.reserved_leases = leases_.reserved();
  out.batch_positions = batch_capacity_ - 1;
  out.encode_address = address(encodes_.data());
  out.send_address = address(sends_.data());
  out.table_rows = kv_.counted() ? 0 : kv_.rows() - padding_rows(config_);
  out.zero = 0;
}

void RankCore::mix(uint64_t value) { iteration_.decision_hash = mixed(iteration_.decision_hash, value); }

// Tokens that it has pages for at its end.
int64_t RankCore::end_of(const berth_row &row) const {
  return int64_t{row.prompt_tokens} + row.max_new_tokens + config_.draft_tokens;
}

// Who gives way comes back with what it made as its prompt, be it all but the last token.
int64_t RankCore::longest_context(int64_t prompt_tokens, int64_t max_new_tokens) {
  return prompt_tokens + max_new_tokens - 1;
}

// Is it promised its pages up to its last token? By the policy, or because it couldn't come back: its context might be
// longer than a batch.
bool RankCore::stays(int64_t prompt_tokens, int64_t max_new_tokens) const {
  return promises_ ||
         (config_.chunking == BERTH_CHUNK_NONE && longest_context(prompt_tokens, max_new_tokens) > token_limit_);
}

RankCore::Fit RankCore::fits(int32_t state, int32_t prompt_tokens, int32_t max_new_tokens) const {
  const int64_t longest = config_.max_seq_len > 0 ? config_.max_seq_len : std::numeric_limits<int32_t>::max();
  if (!countable(prompt_tokens, max_new_tokens) || int64_t{prompt_tokens} + max_new_tokens > longest) {
    return Fit{BERTH_WAIT_TOKENS, int64_t{prompt_tokens} + max_new_tokens, longest};
  }
  if (state == BERTH_STATE_CONTEXT_INIT && config_.chunking == BERTH_CHUNK_NONE && prompt_tokens > token_limit_) {
    return Fit{BERTH_WAIT_TOKENS, prompt_tokens, token_limit_};
  }
  const int64_t context =
      stays(prompt_tokens, max_new_tokens) ? prompt_tokens : longest_context(prompt_tokens, max_new_tokens);
  for (int32_t p = 0; config_.pages >= 0 && p < pages_.pools(); ++p) {
    const int64_t end = int64_t{prompt_tokens} + max_new_tokens + config_.draft_tokens;
    const int64_t need = std::max(pages_.most(p, end), pages_.whole(p, context));
    if (need > pages_.total(p)) return Fit{BERTH_WAIT_PAGES, need, pages_.total(p)};
  }
  return Fit{BERTH_WAIT_NONE, 0, 0};
}

// ---------------------------------------------------------------------------------------- the one loop

// A cache takes the pages of its whole prompt at once, so that no context stands still in the middle of its prompt; one
// that is suspended leaves its pages and comes back as a context, which finds what of it is still there.
class RankCore::LoopCaches final : public CacheManager {
 public:
  explicit LoopCaches(RankCore &core) : core_(core) {}

  int32_t kept_out(int32_t row) override {
    if (core_.rows_[row].lease < 0) core_.look(row);
    return core_.rows_[row].seat < 0 && core_.seats_.used() == core_.seats_.capacity() ? BERTH_WAIT_SEAT
                                                                                       : BERTH_WAIT_NONE;
  }
  void taken(int32_t row) override { core_.claim(row, true); }
  void release(int32_t row) override { core_.give_back(row); }
  bool overlaps() const override { return true; }
  int32_t prepare_context(int32_t row) override { return core_.claim(row, true); }
  bool resize_context(int32_t, int32_t) override { return true; }
  int32_t prepare_receive(int32_t row) override {
    core_.look(row);
    return core_.claim(row, false);
  }
  bool allocate_generation(int32_t row) override {
    const int64_t end = core_.end_of_step(row);
    if (end <= core_.pages_.room(row)) return true;
    for (int32_t p = 0; p < core_.pages_.pools(); ++p) {
      const int32_t pages = core_.table_.demands(row)[p].one_step;
      if (pages > 0 && pages > core_.pages_.free(p)) return false;
    }
    return core_.grow(row, end);
  }
  void suspend(int32_t row) override {
    int64_t freed[kMaxPools] = {};
    core_.pause(row, freed);
  }
  void drop(int32_t row) override { suspend(row); }
  bool resident(int32_t row) const override { return core_.rows_[row].lease >= 0; }
  bool tier_below() const override { return true; }

 private:
  RankCore &core_;
};

// ---------------------------------------------------------------------------------------- schedule

Status RankCore::schedule() {
  if (config_.selects) return Status::kState;
  if (const Status entered = enter(); entered != Status::kOk) return entered;
  LoopCaches caches(*this);
  const Status planned = config_.one_loop ? table_.run(rules_, caches) : table_.run(rules_, this);
  return planned == Status::kOk ? build_batch() : planned;
}

Status RankCore::begin() {
  if (!config_.selects) return Status::kState;
  if (const Status entered = enter(); entered != Status::kOk) return entered;
  begin_selection(table_, rules_, *this);
  phase_ = Phase::kSelect;
  return Status::kOk;
}

Status RankCore::select() {
  if (phase_ != Phase::kSelect) return Status::kState;
  if (const Status selected = run_selection(table_, rules_, *this); selected != Status::kOk) return selected;
  return build_batch();
}

// All that comes before it is decided who runs.
Status RankCore::enter() {
  if (phase_ != Phase::kSchedule) return Status::kState;
  if (!inboxes_valid()) return Status::kArgument;
  if (iteration_.admits > static_cast<int32_t>(free_rows_.size())) return Status::kExhausted;
  berth_iteration &it = iteration_;
  clear_outboxes();

  // The caller knows which rows they get, and may have put tokens there: taken before anybody leaves.
  for (int32_t i = 0; i < it.admits; ++i) {
    arrivals_[static_cast<size_t>(i)] = free_rows_.back();
    free_rows_.pop_back();
  }
  apply_changes();
  admit();
  it.resident = active_count_;
  idle_ = needs_pad_before();
  open_plan();
  it.admits = it.changes = 0;
  return Status::kOk;
}

void RankCore::clear_outboxes() {
  berth_iteration &it = iteration_;
  it.done = it.receives = it.sends = it.stale_changes = it.tokens_out = 0;
  it.batch = it.contexts = it.generations = it.real = it.batch_tokens = it.padded = 0;
  it.launched = it.due = it.paused = it.short_of_pages = it.pad_short = it.encodes = 0;
  it.batch_hash = 0;
  it.due_slot = it.launched_slot = -1;
  std::memset(it.deferred, 0, sizeof it.deferred);
  claim_count_ = 0;
}

bool RankCore::inboxes_valid() const {
  const berth_iteration &it = iteration_;
  if (it.admits < 0 || it.admits > config_.rows || it.changes < 0 || it.changes > config_.rows) return false;
  if (it.dummy_role != BERTH_DUMMY_GENERATION && it.dummy_role != BERTH_DUMMY_CONTEXT) return false;
  for (int32_t i = 0; i < it.admits; ++i) {
    const berth_admit &a = admits_[i];
    if (a.state != BERTH_STATE_CONTEXT_INIT && a.state != BERTH_STATE_GENERATION_INIT) return false;
    if (a.prompt_tokens < 1 || a.max_new_tokens < 1 || a.load_tokens < 0) return false;
    if (a.children < -kMaxRows || a.children > kMaxRows) return false;
    if (a.cached_tokens < 0 || a.cached_tokens > a.prompt_tokens) return false;
    if (a.encoder_tokens < 0 || (a.encoder_tokens > 0 && !is_context(a.state))) return false;
    if (!countable(a.prompt_tokens, a.max_new_tokens)) return false;
    if ((a.tokens != 0 && !(a.tokens == 1 && caches_)) || (a.scope & ~3) != 0) return false;
    if (caches_ && (int64_t{a.prompt_tokens} + a.max_new_tokens > config_.max_seq_len || a.cached_tokens != 0)) {
      return false;
    }
  }
  for (int32_t i = 0; i < it.changes; ++i) {
    const berth_change &c = changes_[i];
    if (c.row < 0 || c.row >= config_.rows || c.kind < BERTH_CHANGE_ARRIVED || c.kind > BERTH_CHANGE_ENCODED ||
        c.token < -1) {
      return false;
    }
  }
  return true;
}

void RankCore::apply_changes() {
  for (int32_t i = 0; i < iteration_.changes; ++i) {
    const berth_change &change = changes_[i];
    berth_row &row = rows_[change.row];
    const bool live = (row.flags & BERTH_ROW_LIVE) && row.request_id == change.request_id && !end_kind_[change.row];
    const bool sending = live && is_sent(row);
    const bool in_transfer = sending || (live && row.state == BERTH_STATE_GENERATION_TRANSFER);
    const bool anywhere =
        change.kind == BERTH_CHANGE_CANCEL || change.kind == BERTH_CHANGE_HOLD || change.kind == BERTH_CHANGE_RESUME;
    const bool expected =
        anywhere || (change.kind == BERTH_CHANGE_ENCODED ? (row.flags & BERTH_ROW_ENCODER_RUNNING) != 0 : in_transfer);
    if (!live || !expected) {
      ++iteration_.stale_changes;
      continue;
    }
    if (change.kind == BERTH_CHANGE_HOLD || change.kind == BERTH_CHANGE_RESUME) {
      hold(row, change.kind == BERTH_CHANGE_HOLD);
      continue;
    }
    if (change.kind == BERTH_CHANGE_ENCODED) {
      row.flags &= ~uint32_t{BERTH_ROW_ENCODER_PENDING | BERTH_ROW_ENCODER_RUNNING};
    } else if (change.kind == BERTH_CHANGE_CANCEL) {
      row.flags |= BERTH_ROW_CANCELLED;
      if (!in_transfer) end(change.row, BERTH_END_CANCELLED);  // else: pages leave when nobody writes or reads them
    } else if (row.flags & BERTH_ROW_CANCELLED) {
      end(change.row, BERTH_END_CANCELLED);
    } else if (change.kind == BERTH_CHANGE_FAILED) {
      row.state = BERTH_STATE_TRANSFER_ERROR;
      end(change.row, BERTH_END_FAILED);
    } else if (sending) {
      row.state = BERTH_STATE_CONTEXT_COMPLETE;
      end(change.row, BERTH_END_FINISHED);
    } else {
      row.state = BERTH_STATE_GENERATION_TRANSFER_COMPLETE;
      row.generated_tokens = 1;  // the context worker made the first token
      if (caches_) {
        pages_.advance(change.row, row.prompt_tokens);
        pages_.computed(change.row, row.prompt_tokens);
        if (change.token >= 0) pages_.append(change.row, row.prompt_tokens, change.token);
      }
      ask_for_next(change.row);
      if (row.generated_tokens >= row.max_new_tokens) end(change.row, BERTH_END_FINISHED);
    }
  }
  drop_ended();
}

void RankCore::hold(berth_row &row, bool held) {
  if (((row.flags & BERTH_ROW_HELD) != 0) == held) return;
  row.flags ^= BERTH_ROW_HELD;
  held_ += held ? 1 : -1;
}

void RankCore::admit() {
  for (int32_t i = 0; i < iteration_.admits; ++i) {
    const berth_admit &a = admits_[i];
    const int32_t index = arrivals_[static_cast<size_t>(i)];
    berth_row &row = rows_[index];
    row = berth_row{};
    row.request_id = a.request_id;
    row.state = a.state;
    row.flags = BERTH_ROW_LIVE | BERTH_ROW_CHECKED;  // the inbox was checked
    if (stays(a.prompt_tokens, a.max_new_tokens)) row.flags |= BERTH_ROW_STAYS;
    row.prompt_tokens = a.prompt_tokens;
    row.max_new_tokens = a.max_new_tokens;
    row.cached_tokens = a.cached_tokens;
    // At least one token is computed: its logits make the first output token.
    row.context_cursor =
        a.state == BERTH_STATE_GENERATION_INIT ? a.prompt_tokens : std::min(a.cached_tokens, a.prompt_tokens - 1);
    row.seat = row.lease = row.adapter = -1;
    row.beam_width = 1;
    // Drafts are for tokens that are generated.
    row.draft_tokens = static_cast<int16_t>(a.state == BERTH_STATE_GENERATION_INIT ? config_.draft_tokens : 0);
    table_.side[index] = berth_side_row{};
    table_.side[index].cache_tokens = -1;
    table_.side[index].encoder_tokens = a.encoder_tokens;
    if (a.encoder_tokens > 0) {
      row.flags |= BERTH_ROW_ENCODER_PENDING;
      encoders_.push_back(index);
    }
    pages_.admit(index, KvScope{a.lora, a.salt, static_cast<uint32_t>(a.scope)}, a.tokens ? a.prompt_tokens : 0);
    set_demand(index);
    berth_cold_row &cold = cold_[index];
    cold = berth_cold_row{};
    cold.tag = a.tag;
    cold.admitted_at = iteration_.number;
    cold.load_tokens = load_[index] = a.load_tokens;
    cold.children = a.children;
    cold.admission = ++admissions_;
    active_[active_count_++] = index;
    mix(a.request_id);
  }
}

// Is that work that keeps a rank from being padded? Who is held isn't: a reader that is slow must not stop the fleet.
bool RankCore::counts_as_work(const berth_row &row) const {
  if ((row.flags & BERTH_ROW_HELD) || row.state == BERTH_STATE_CONTEXT_TRANSFER) return false;
  switch (config_.pad_count) {
    case BERTH_PAD_ACTIVE: return true;
    case BERTH_PAD_KV_HERE:
      return row.state != BERTH_STATE_GENERATION_INIT && row.state != BERTH_STATE_GENERATION_TRANSFER;
    default: return row.state >= BERTH_STATE_CONTEXT_INIT && row.state < BERTH_STATE_RETIRING;
  }
}

// Spec 01 section 7.1. The router's cap is applied last, so E may be less than what the rank has.
bool RankCore::needs_pad_before() const {
  const berth_iteration &it = iteration_;
  if (config_.padding == BERTH_PAD_NONE || it.filling) return false;
  const auto last = active_.begin() + active_count_;
  return std::max(it.expected, it.routable) > 0 &&
         std::none_of(active_.begin(), last, [this](int32_t row) { return counts_as_work(rows_[row]); });
}

// Spec 01 section 7.2: a rank at its cap is left empty, and so vetoes the forward.
bool RankCore::needs_pad_after() const {
  const berth_iteration &it = iteration_;
  return config_.padding == BERTH_PAD_BOTH && !it.filling && !dummy_active_ && slot_size_[building_] == 0 &&
         active_count_ > 0 && it.expected > 0 && active_count_ < config_.admission_cap;
}

// Spec 01 section 8.3, before anybody held back a transfer that fits. While a gate holds, nobody runs to an end.
bool RankCore::stuck() const {
  const berth_iteration &it = iteration_;
  if (!config_.transceiver || it.receives > 0 || held_after_end_ > 0 || (it.real > 0 && !it.filling)) return false;
  bool waits = false;
  for (int32_t i = 0; i < active_count_; ++i) {
    const berth_row &row = rows_[active_[i]];
    if (row.state == BERTH_STATE_GENERATION_TRANSFER || row.in_flight > 0) return false;
    waits = waits || row.state == BERTH_STATE_GENERATION_INIT;
  }
  return waits;
}

// All of it or none: without its pages the batch stays empty, and the fleet skips and tries again.
bool RankCore::place_dummy(int32_t role) {
  const int32_t tokens = role == BERTH_DUMMY_CONTEXT ? 1 : 1 + config_.draft_tokens;
  const RankPages::Request dummy{dummy_, config_.leases, tokens, tokens, false, false};
  berth_demand *demand = &table_.demand[static_cast<size_t>(dummy_) * pages_.pools()];
  pages_.look(dummy, demand);
  bool there = true;
  for (int32_t p = 0; p < pages_.pools(); ++p) there = there && demand[p].one_step <= pages_.free(p);
  int32_t matched = 0;
  if (!there || !pages_.open(dummy, matched)) {
    iteration_.pad_short = 1;
    return false;
  }
  active_[active_count_++] = dummy_;
  dummy_active_ = true;
  put(dummy_, BERTH_ENTRY_DUMMY, 1, 0);
  return true;
}

void RankCore::remove_dummy() {
  if (!dummy_active_) return;
  for (int32_t i = active_count_ - 1; i >= 0; --i) {
    if (active_[i] == dummy_) {
      std::copy(active_.begin() + i + 1, active_.begin() + active_count_, active_.begin() + i);
      break;
    }
  }
  --active_count_;
  dummy_active_ = false;
  pages_.close(dummy_);
}

// Who waits for its encoder to be started.
void RankCore::count_encoders() {
  iteration_.encoder_items = static_cast<int32_t>(encoders_.size());
  iteration_.encoder_tokens = 0;
  for (const int32_t row : encoders_) iteration_.encoder_tokens += table_.side[row].encoder_tokens;
}

void RankCore::start_encoders() {
  for (const int32_t row : encoders_) {
    rows_[row].flags |= BERTH_ROW_ENCODER_RUNNING;
    encodes_[iteration_.encodes++] = row;
    mix(rows_[row].request_id);
  }
  encoders_.clear();
}

// What a plan goes by besides rows and rules.
void RankCore::open_plan() {
  building_ = static_cast<int32_t>(std::find(slot_busy_.begin(), slot_busy_.end(), 0) - slot_busy_.begin());
  slot_size_[building_] = 0;
  table_.schedule.active = active_count_;
  for (int32_t p = 0; p < pages_.pools(); ++p) table_.pools[p].free = std::max<int64_t>(0, pages_.free(p));
  resident_ = 0;
  if (counts_residents_) {
    for (int32_t i = 0; i < table_.schedule.active; ++i) {
      const berth_row &row = rows_[active_[i]];
      if (row.lease >= 0 && row.state != BERTH_STATE_RETIRING) ++resident_;
    }
  }
  if (config_.transceiver && config_.policy_set == BERTH_SET_BERTH && config_.range_end > BERTH_STATE_RETIRING) {
    // Retirees that take part hold KV no longer than this iteration: they keep nobody out.
    rules_.max_requests = config_.max_resident;
    for (int32_t i = 0; i < table_.schedule.active; ++i) {
      if (rows_[active_[i]].state == BERTH_STATE_RETIRING) ++rules_.max_requests;
    }
  }
  set_held_aside();
}

Status RankCore::build_batch() {
  const berth_schedule &plan = table_.schedule;
  std::copy(std::begin(plan.deferred), std::end(plan.deferred), iteration_.deferred);
  take_held_back();
  start_receives();
  count_deferrals();
  for (int32_t i = 0; i < plan.generations; ++i) {
    if (i + kAhead < plan.generations) __builtin_prefetch(&rows_[table_.generations[i + kAhead]]);
    const int32_t index = table_.generations[i];
    const berth_row &row = rows_[index];
    const int32_t tokens = row.beam_width + row.draft_tokens;
    const int32_t position = row.prompt_tokens + row.generated_tokens + row.pending_tokens - 1;
    if (int64_t{position} + tokens > pages_.room(index) && !grow(index, int64_t{position} + tokens)) {
      ++iteration_.short_of_pages;
      defer(index, BERTH_WAIT_PAGES);
      continue;
    }
    put(index, BERTH_ENTRY_GENERATION, tokens, position);
  }
  for (int32_t i = 0; i < plan.contexts; ++i) {
    const berth_pick &pick = table_.contexts[i];
    rows_[pick.row].context_chunk = pick.tokens;
    put(pick.row, BERTH_ENTRY_CONTEXT, pick.tokens, pick.position);
  }
  berth_iteration &it = iteration_;
  // A dummy's pages come last: before, it could keep who needs all of them from its transfer for ever.
  if (idle_ && place_dummy(it.dummy_role)) {
    it.padded = 1;
  } else if (!idle_ && needs_pad_after() && place_dummy(BERTH_DUMMY_GENERATION)) {
    it.padded = 2;
  }
  count_encoders();
  it.stuck = stuck() ? 1 : 0;
  it.batch = slot_size_[building_];
  it.batch_slot = building_;
  if (it.real > 0) mix(it.batch_hash);
  phase_ = Phase::kLaunch;
  return Status::kOk;
}

// The scheduler doesn't see who is held. What they hold is theirs: it is accounted for where it was given.
void RankCore::set_held_aside() {
  if (held_ == 0) return;
  const int32_t n = table_.schedule.active;
  std::copy_n(active_.begin(), n, in_order_.begin());
  int32_t kept = 0;
  int32_t leases = 0;
  for (int32_t i = 0; i < n; ++i) {
    const berth_row &row = rows_[active_[i]];
    if (!(row.flags & BERTH_ROW_HELD)) {
      active_[kept++] = active_[i];
    } else if (row.lease >= 0) {
      ++leases;
    }
  }
  table_.schedule.active = kept;
  if (counts_kv_) table_.set_aside = leases;
}

void RankCore::take_held_back() {
  if (held_ == 0) return;
  table_.set_aside = 0;
  const int32_t n = active_count_;
  std::copy_n(in_order_.begin(), n, active_.begin());
  for (int32_t i = 0; i < n; ++i) {
    if (rows_[active_[i]].flags & BERTH_ROW_HELD) defer(active_[i], BERTH_WAIT_READER);
  }
}

// What starts to receive here stays started whatever the vote says: its claim isn't among those that go back.
void RankCore::start_receives() {
  const berth_schedule &plan = table_.schedule;
  if (plan.receiving == 0) return;
  for (int32_t i = 0; i < plan.receiving; ++i) {
    const int32_t index = table_.receiving[i];
    rows_[index].state = BERTH_STATE_GENERATION_TRANSFER;
    defer(index, BERTH_WAIT_TRANSFER);
    receives_[iteration_.receives++] = index;
  }
  claim_count_ = static_cast<int32_t>(
      std::remove_if(claims_.begin(), claims_.begin() + claim_count_,
                     [this](const Claim &claim) { return rows_[claim.row].state == BERTH_STATE_GENERATION_TRANSFER; }) -
      claims_.begin());
}

// Keeps in the row how often it lacked something that others hold.
void RankCore::count_deferrals() {
  const int32_t *deferred = iteration_.deferred;
  if (deferred[BERTH_WAIT_SEAT] + deferred[BERTH_WAIT_LEASE] + deferred[BERTH_WAIT_PAGES] == 0) return;
  for (int32_t i = 0; i < active_count_; ++i) {
    const int32_t reason = rows_[active_[i]].wait_reason & 0xff;
    if (reason == BERTH_WAIT_SEAT || reason == BERTH_WAIT_LEASE || reason == BERTH_WAIT_PAGES) {
      ++cold_[active_[i]].deferrals;
    }
  }
}

int32_t RankCore::take(int32_t index) {
  if (keeps_out(rows_[index])) return BERTH_WAIT_BATCH;
  return claim(index, rows_[index].state != BERTH_STATE_GENERATION_INIT);
}

// A request that would be received passes nobody that holds KV: it comes without a seat, and who was passed keeps its
// own.
bool RankCore::keeps_out(const berth_row &row) const {
  return counts_residents_ && row.state == BERTH_STATE_GENERATION_INIT && resident_ >= config_.max_resident;
}

void RankCore::give_back(int32_t index) {
  for (int32_t i = claim_count_ - 1; i >= 0; --i) {
    if (claims_[i].row != index) continue;
    undo(claims_[i]);
    claims_[i] = claims_[--claim_count_];
    return;
  }
}

RankPages::Request RankCore::request_of(int32_t index) const {
  const berth_row &row = rows_[index];
  return RankPages::Request{index,
                            row.lease,
                            row.prompt_tokens,
                            end_of(row),
                            row.state != BERTH_STATE_GENERATION_INIT,
                            (row.flags & BERTH_ROW_STAYS) != 0};
}

// What it lacks besides its lease; with it, it was promised the rest.
void RankCore::set_demand(int32_t index) {
  berth_demand *demand = &table_.demand[static_cast<size_t>(index) * pages_.pools()];
  if (rows_[index].lease >= 0) {
    std::fill_n(demand, pages_.pools(), berth_demand{});
  } else {
    const RankPages::Outlook outlook = pages_.look(request_of(index), demand);
    table_.side[index].reusable_tokens = outlook.matched;
    table_.side[index].first_block = config_.prefix_sharing ? outlook.next_key : 0;
  }
}

// Others may have stored or evicted what it would find.
int32_t RankCore::look(int32_t index) {
  if (caches_) set_demand(index);
  return keeps_out(rows_[index]) ? BERTH_WAIT_BATCH : BERTH_WAIT_NONE;
}

// Tokens that there must be room for when a generation runs.
int64_t RankCore::end_of_step(int32_t index) const {
  const berth_row &row = rows_[index];
  return int64_t{row.prompt_tokens} + row.generated_tokens + row.pending_tokens + row.beam_width + row.draft_tokens - 1;
}

// Without a promise: what its next step takes.
void RankCore::ask_for_next(int32_t index) {
  if (rows_[index].flags & BERTH_ROW_STAYS) return;
  const int64_t end = end_of_step(index);
  berth_demand *demand = &table_.demand[static_cast<size_t>(index) * pages_.pools()];
  if (end > pages_.room(index)) {
    pages_.step(index, end, demand);
  } else if (demand->one_step != 0) {
    std::fill_n(demand, pages_.pools(), berth_demand{});
  }
}

// Spec 02 section 1.3. Stays so on a veto, as evictions do. Nothing launched holds the row.
void RankCore::pause(int32_t index, int64_t *freed) {
  berth_row &row = rows_[index];
  berth_cold_row &cold = cold_[index];
  for (int32_t p = 0; p < pages_.pools(); ++p) freed[p] = -pages_.free(p);
  if (config_.pause == BERTH_PAUSE_SUSPEND) pages_.store(index);
  pages_.close(index);
  for (int32_t p = 0; p < pages_.pools(); ++p) freed[p] += pages_.free(p);
  if (row.seat >= 0) seats_.release(cold.seat_handle, 0);
  leases_.release(cold.lease_handle, 0);
  row.lease = -1;
  --resident_;
  cold.pages = 0;
  cold.paused_tokens += row.generated_tokens;
  ++cold.pauses;
  table_.pause(index, std::numeric_limits<int32_t>::max());
  row.context_chunk = 0;
  row.draft_tokens = 0;
  set_demand(index);
  ++iteration_.paused;
  mix(~row.request_id);
}

// Pages for so many tokens of a row that is in the batch. False: there are none.
bool RankCore::grow(int32_t index, int64_t tokens) {
  const int32_t room = pages_.room(index);
  if (!pages_.grow(index, tokens)) return false;
  if (pages_.room(index) != room) claims_[claim_count_++] = Claim{index, kGrowth, room};
  note_pages(index);
  return true;
}

void RankCore::note_pages(int32_t index) {
  cold_[index].pages =
      static_cast<int32_t>(std::min<int64_t>(pages_.pages(index), std::numeric_limits<int32_t>::max()));
}

int32_t RankCore::claim(int32_t index, bool wants_seat) {
  berth_row &row = rows_[index];
  berth_cold_row &cold = cold_[index];
  const bool wants_lease = row.lease < 0;
  wants_seat = wants_seat && row.seat < 0;
  if (!wants_lease && !wants_seat) return BERTH_WAIT_NONE;
  const uint64_t key = cold.admission;  // unique for ever, unlike a caller's id
  Claim claim{index, 0, 0};
  if (wants_lease) {
    for (int32_t p = 0; p < pages_.pools(); ++p) {
      const berth_demand &demand = table_.demands(index)[p];
      if (demand.one_step > pages_.free(p)) return BERTH_WAIT_PAGES | p << 8;
    }
    if (leases_.acquire(key, 0, cold.lease_handle) != Status::kOk) return BERTH_WAIT_LEASE;
    row.lease = static_cast<int32_t>(cold.lease_handle & 0xffffffffu);
    claim.what = kLease;
    ++resident_;
    int32_t matched = 0;
    if (!pages_.open(request_of(index), matched)) {
      undo(claim);
      return BERTH_WAIT_PAGES;
    }
    if (caches_ && is_context(row.state)) {
      row.cached_tokens = row.context_cursor = matched;
      table_.side[index].reusable_tokens = 0;
    }
    note_pages(index);
    set_demand(index);
  }
  if (wants_seat) {
    if (seats_.acquire(key, 0, cold.seat_handle) != Status::kOk) {
      undo(claim);  // nobody waits while holding
      return BERTH_WAIT_SEAT;
    }
    row.seat = static_cast<int32_t>(cold.seat_handle & 0xffffffffu);
    claim.what |= kSeat;
  }
  claims_[claim_count_++] = claim;
  return BERTH_WAIT_NONE;
}

void RankCore::undo(const Claim &claim) {
  berth_row &row = rows_[claim.row];
  berth_cold_row &cold = cold_[claim.row];
  if (claim.what & kGrowth) {
    pages_.shrink(claim.row, claim.room);
    note_pages(claim.row);
  }
  if (claim.what & kSeat) {
    seats_.release(cold.seat_handle, 0);
    row.seat = -1;
  }
  if (claim.what & kLease) {
    leases_.release(cold.lease_handle, 0);
    row.lease = -1;
    --resident_;
    pages_.close(claim.row);
    cold.pages = 0;
    if (caches_ && is_context(row.state)) row.cached_tokens = row.context_cursor = 0;
    set_demand(claim.row);
  }
}

void RankCore::put(int32_t row, int32_t kind, int32_t tokens, int32_t position) {
  berth_iteration &it = iteration_;
  batch_of(building_)[slot_size_[building_]++] = berth_entry{row, kind, tokens, position};
  it.batch = slot_size_[building_];
  it.batch_tokens += tokens;
  if (kind == BERTH_ENTRY_CONTEXT) {
    ++it.contexts;
  } else {
    ++it.generations;
  }
  if (kind != BERTH_ENTRY_DUMMY) {
    ++it.real;
    it.batch_hash = with(it.batch_hash, batch_of(building_)[it.batch - 1]);
  }
}

uint64_t RankCore::with(uint64_t hash, const berth_entry &entry) const {
  return mixed(hash, rows_[entry.row].request_id ^ (static_cast<uint64_t>(entry.tokens) << 33) ^
                         (uint64_t{entry.kind == BERTH_ENTRY_CONTEXT} << 32));
}

// A gate holds them (spec 01 section 9). They stand at the end of the batch.
void RankCore::drop_contexts() {
  berth_iteration &it = iteration_;
  if (it.contexts == 0) return;
  const berth_entry *batch = batch_of(building_);
  for (; it.contexts > 0; --it.contexts, --it.batch, --it.real) {
    const berth_entry &entry = batch[it.batch - 1];
    it.batch_tokens -= entry.tokens;
    rows_[entry.row].context_chunk = 0;
    give_back(entry.row);
    defer(entry.row, BERTH_WAIT_GATE);
  }
  slot_size_[building_] = it.batch;
  it.batch_hash = 0;
  for (int32_t i = 0; i < it.batch; ++i) {
    if (batch[i].kind != BERTH_ENTRY_DUMMY) it.batch_hash = with(it.batch_hash, batch[i]);
  }
  mix(it.batch_hash);
}

void RankCore::defer(int32_t row, int32_t reason) {
  rows_[row].wait_reason = static_cast<int16_t>(reason);
  ++iteration_.deferred[reason];
}

// ---------------------------------------------------------------------------------------- launch

Status RankCore::launch() {
  if (phase_ != Phase::kLaunch) return Status::kState;
  berth_iteration &it = iteration_;
  if (it.contexts_held) drop_contexts();
  if (it.encode) start_encoders();
  const bool launched = it.can_queue == 1 && it.held == 0 && it.batch > 0;
  if (launched) {
    commit_batch();
  } else {
    roll_back();
  }
  it.launched = launched ? 1 : 0;
  it.launched_slot = launched ? building_ : -1;
  it.due_slot = it.held ? -1 : due_slot(launched);
  it.due = it.due_slot < 0 ? 0 : slot_size_[it.due_slot];
  if (it.due_slot >= 0) {
    const size_t first = static_cast<size_t>(it.due_slot) * batch_capacity_;
    std::memset(&results_[first], 0, static_cast<size_t>(it.due));
    std::fill_n(sampled_.begin() + static_cast<std::ptrdiff_t>(first), it.due, -1);
  }
  phase_ = Phase::kSettle;
  return Status::kOk;
}

void RankCore::commit_batch() {
  slot_busy_[building_] = 1;
  slot_launch_[building_] = ++launches_;
  const berth_entry *batch = batch_of(building_);
  const int32_t size = slot_size_[building_];
  for (int32_t i = 0; i < size; ++i) {
    if (i + kAhead < size) __builtin_prefetch(&rows_[batch[i + kAhead].row], 1);
    if (batch[i].kind == BERTH_ENTRY_DUMMY) continue;
    berth_row &row = rows_[batch[i].row];
    ++row.in_flight;
    if (batch[i].kind == BERTH_ENTRY_CONTEXT) {
      row.context_cursor += row.context_chunk;
      row.context_chunk = 0;
      if (row.context_cursor < row.prompt_tokens) continue;
    }
    if (row.state < BERTH_STATE_GENERATION) {
      row.state = BERTH_STATE_GENERATION;
      row.draft_tokens = static_cast<int16_t>(config_.draft_tokens);
    }
    ++row.pending_tokens;
    ask_for_next(batch[i].row);
  }
}

void RankCore::roll_back() {
  while (claim_count_ > 0) undo(claims_[--claim_count_]);
  const berth_entry *batch = batch_of(building_);
  for (int32_t i = 0; i < slot_size_[building_]; ++i) {
    rows_[batch[i].row].context_chunk = 0;
    if (iteration_.held && batch[i].kind != BERTH_ENTRY_DUMMY) defer(batch[i].row, BERTH_WAIT_GATE);
  }
  remove_dummy();
}

// Which batch's results this iteration settles. Overlap (spec 01 section 7.4): a rank with work of its own while a peer
// is empty keeps its previous batch pending; a dummy isn't work of its own, it went back with the veto.
int32_t RankCore::due_slot(bool launched) {
  if (config_.pending_batches == 0) return launched ? building_ : -1;
  if (!config_.exclusive_flight) {
    if (!launched && iteration_.real > 0) return -1;
    const int32_t due = pipe_count_ > 0 ? pipe_[0] : -1;
    pipe_[0] = building_;
    pipe_count_ = launched ? 1 : 0;
    return due;
  }
  pipe_[pipe_count_++] = launched ? building_ : -1;
  if (pipe_count_ <= config_.pending_batches) return -1;
  const int32_t due = pipe_[0];
  std::copy(pipe_.begin() + 1, pipe_.begin() + pipe_count_, pipe_.begin());
  --pipe_count_;
  return due;
}

// ---------------------------------------------------------------------------------------- settle

Status RankCore::settle() {
  if (phase_ != Phase::kSettle) return Status::kState;
  berth_iteration &it = iteration_;
  remove_dummy();  // spec 01 section 7.3: it dies in the update right after the forward
  if (it.launched && caches_) move_on();
  if (it.due_slot >= 0) {
    settled_launch_ = slot_launch_[it.due_slot];
    if (caches_) kv_.epoch(launches_, settled_launch_);
    const berth_entry *batch = batch_of(it.due_slot);
    for (int32_t i = 0; i < it.due; ++i) {
      if (i + kAhead < it.due) __builtin_prefetch(&rows_[batch[i + kAhead].row], 1);
      settle_entry(it.due_slot, i);
    }
    slot_busy_[it.due_slot] = 0;
  }
  if (it.launched && config_.mark_retiring) mark_retiring();
  drop_ended();
  describe();
  if (!it.held) ++it.number;
  phase_ = Phase::kSchedule;
  return Status::kOk;
}

// What a runner made of these batches is nothing: their requests end here, in an iteration that runs nothing else.
Status RankCore::fault(int32_t launched, int32_t collected) {
  if (phase_ != Phase::kSchedule) return Status::kState;
  for (const int32_t slot : {launched, collected}) {
    if (slot < -1 || slot >= ring_size_) return Status::kArgument;
  }
  clear_outboxes();
  for (const int32_t slot : {launched, collected}) {
    for (int32_t i = 0; slot >= 0 && i < slot_size_[slot]; ++i) {
      const berth_entry &entry = batch_of(slot)[i];
      const berth_row &row = rows_[entry.row];
      if (entry.kind == BERTH_ENTRY_DUMMY || !(row.flags & BERTH_ROW_LIVE) || end_kind_[entry.row]) continue;
      if (row.state == BERTH_STATE_CONTEXT_TRANSFER) continue;  // launched past its end
      mix(~row.request_id);
      end(entry.row, BERTH_END_FAILED);
    }
  }
  drop_ended();
  describe();
  return Status::kOk;
}

// What the launched batch computes is history for the next one.
void RankCore::move_on() {
  kv_.epoch(launches_, settled_launch_);
  const berth_entry *batch = batch_of(iteration_.launched_slot);
  for (int32_t i = 0; i < slot_size_[iteration_.launched_slot]; ++i) {
    if (batch[i].kind == BERTH_ENTRY_DUMMY) continue;
    pages_.advance(batch[i].row, batch[i].position + (batch[i].kind == BERTH_ENTRY_CONTEXT ? batch[i].tokens : 1));
  }
}

void RankCore::settle_entry(int32_t slot, int32_t index) {
  const berth_entry &entry = batch_of(slot)[index];
  if (entry.kind == BERTH_ENTRY_DUMMY) return;
  berth_row &row = rows_[entry.row];
  --row.in_flight;
  const bool makes_token = entry.kind == BERTH_ENTRY_GENERATION || entry.position + entry.tokens >= row.prompt_tokens;
  if (makes_token) --row.pending_tokens;
  if (end_kind_[entry.row]) {
    if (row.in_flight == 0) {
      --held_after_end_;
      tear_down(entry.row);
    }
    return;
  }
  if (row.state == BERTH_STATE_CONTEXT_TRANSFER) return send(entry.row);  // launched past its end
  const uint8_t result = results_[static_cast<size_t>(slot) * batch_capacity_ + index];
  if (result & BERTH_RESULT_FAILED) return end(entry.row, BERTH_END_FAILED);
  if (result & BERTH_RESULT_VOID) return;
  if (caches_) {
    const int32_t token = sampled_[static_cast<size_t>(slot) * batch_capacity_ + index];
    if (makes_token && token != -1) pages_.append(entry.row, row.prompt_tokens + row.generated_tokens, token);
    pages_.computed(entry.row, entry.position + (entry.kind == BERTH_ENTRY_CONTEXT ? entry.tokens : 1));
    if (table_.side[entry.row].first_block != 0) {
      table_.side[entry.row].first_block = pages_.next_key(entry.row, row.prompt_tokens);
    }
  }
  if (!makes_token) return;
  ++row.generated_tokens;
  ++iteration_.tokens_out;
  if (!(result & BERTH_RESULT_STOP) && row.generated_tokens < row.max_new_tokens) return;
  // Whose model ended it needs its KV no more.
  if (!config_.sends || (result & BERTH_RESULT_STOP)) return end(entry.row, BERTH_END_FINISHED);
  row.state = BERTH_STATE_CONTEXT_TRANSFER;
  send(entry.row);
}

// What it computed can be taken from now on, unless a launched batch still writes there. It runs no more, so its seat
// is another's.
void RankCore::send(int32_t index) {
  berth_row &row = rows_[index];
  if (row.in_flight > 0) return;
  hold(row, false);
  pages_.store(index);
  if (row.seat >= 0) seats_.release(cold_[index].seat_handle, 0);
  row.seat = -1;
  sends_[iteration_.sends++] = index;
}

bool RankCore::is_sent(const berth_row &row) { return row.state == BERTH_STATE_CONTEXT_TRANSFER && row.in_flight == 0; }

// Spec 01 section 1: predictive, from the token count alone.
void RankCore::mark_retiring() {
  const berth_entry *batch = batch_of(iteration_.launched_slot);
  for (int32_t i = 0; i < slot_size_[iteration_.launched_slot]; ++i) {
    if (batch[i].kind == BERTH_ENTRY_DUMMY) continue;
    berth_row &row = rows_[batch[i].row];
    if (row.state == BERTH_STATE_GENERATION && row.generated_tokens + row.pending_tokens >= row.max_new_tokens) {
      row.state = BERTH_STATE_RETIRING;
    }
  }
}

// The request is over. Seat, lease and pages go back now, or with the last launched batch that holds the row.
void RankCore::end(int32_t index, int32_t kind) {
  berth_row &row = rows_[index];
  end_kind_[index] = static_cast<uint8_t>(kind);
  if (kind == BERTH_END_FINISHED) row.state = BERTH_STATE_COMPLETE;
  hold(row, false);
  if ((row.flags & BERTH_ROW_ENCODER_PENDING) && !(row.flags & BERTH_ROW_ENCODER_RUNNING)) std::erase(encoders_, index);
  row.flags |= BERTH_ROW_FINISHED;
  ended_in_active_ = true;
  if (row.in_flight == 0) {
    tear_down(index);
  } else {
    ++held_after_end_;
  }
}

void RankCore::tear_down(int32_t index) {
  berth_row &row = rows_[index];
  berth_cold_row &cold = cold_[index];
  done_[iteration_.done++] = berth_done{
      row.request_id, cold.tag, index, end_kind_[index], row.generated_tokens + cold.paused_tokens, cold.deferrals};
  if (end_kind_[index] != BERTH_END_FAILED) pages_.store(index);
  if (row.seat >= 0) seats_.release(cold.seat_handle, 0);
  if (row.lease >= 0) leases_.release(cold.lease_handle, 0);
  pages_.close(index);
  row.seat = row.lease = -1;
  cold.pages = 0;
  row.flags = BERTH_ROW_FINISHED;
  end_kind_[index] |= kTornDown;
}

// Removes what ended from the active list, then frees the rows that nothing holds any more.
void RankCore::drop_ended() {
  if (ended_in_active_) {
    int32_t kept = 0;
    for (int32_t i = 0; i < active_count_; ++i) {
      if (!end_kind_[active_[i]]) active_[kept++] = active_[i];
    }
    active_count_ = kept;
    ended_in_active_ = false;
  }
  for (int32_t i = 0; i < iteration_.done; ++i) {
    const int32_t index = done_[i].row;
    if (end_kind_[index] & kTornDown) {
      end_kind_[index] = 0;
      free_rows_.push_back(index);
    }
  }
}

// Spec 01 section 2.1: what this rank tells the others. Dummies that are still active count as load.
void RankCore::describe() {
  berth_iteration &it = iteration_;
  std::memset(it.state_counts, 0, sizeof it.state_counts);
  it.routable = 0;
  it.retiring = held_after_end_;  // resident and not routable, whatever the rule says of state 14
  it.routable_tokens = 0;
  for (int32_t i = 0; i < active_count_; ++i) {
    const berth_row &row = rows_[active_[i]];
    if (!(row.flags & BERTH_ROW_DUMMY)) ++it.state_counts[kStateIndex.of[row.state + 1]];
    const bool left_out = row.state == BERTH_STATE_RETIRING && config_.retiring != BERTH_RETIRING_CHARGED;
    (left_out ? it.retiring : it.routable) += 1;
    if (!left_out || config_.retiring == BERTH_RETIRING_EXCLUDED_TOKENS_CHARGED) {
      it.routable_tokens += load_[active_[i]];
    }
  }
  it.seats_used = seats_.used();
  it.leases_used = leases_.used();
  it.pages_used = pages_.used();
  it.free_rows = static_cast<int32_t>(free_rows_.size());
}

// ---------------------------------------------------------------------------------------- tables

Status RankCore::blocks(int32_t row, int32_t life_cycle, int32_t *out, int32_t capacity, int32_t &count) {
  if (!caches_) return Status::kState;
  if (row < 0 || row >= config_.rows || !pages_.has(row)) return Status::kRow;
  return kv_.blocks(pages_.handle(row), life_cycle, 0, out, capacity, count);
}

Status RankCore::prepare(berth_kv_batch &batch) {
  if (phase_ != Phase::kSettle || !iteration_.launched || !caches_) return Status::kState;
  const berth_entry *entries = batch_of(iteration_.launched_slot);
  const int32_t size = slot_size_[iteration_.launched_slot];
  for (int32_t i = 0; i < size; ++i) {
    table_rows_[static_cast<size_t>(i)] = {pages_.handle(entries[i].row), config_.leases, entries[i].position,
                                           entries[i].tokens};
  }
  return kv_.prepare(batch, {table_rows_.data(), static_cast<size_t>(size)});
}

}  // namespace berth
