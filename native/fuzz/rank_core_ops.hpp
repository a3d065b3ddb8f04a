// SPDX-License-Identifier: Apache-2.0
// A rank core driven through the C ABI by a stream of bytes, with everything that must hold checked after every
// iteration. Shared by the long random test (test/rank_core_test.cpp) and the fuzz target (fuzz/rank_core_fuzz.cpp).
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "berth/berth.h"

namespace berth::test {

// Ends the process: a fuzzer and a test both notice.
#define HOLDS(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)

// Numbers out of bytes; zeros once they are used up.
class Bytes {
 public:
  Bytes(const uint8_t *data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  uint32_t next() { return empty() ? 0 : data_[at_++]; }
  // lowest .. highest
  int32_t between(int32_t lowest, int32_t highest) {
    const uint32_t span = static_cast<uint32_t>(highest - lowest) + 1;
    const uint32_t value = span > 256 ? next() << 8 | next() : next();
    return lowest + static_cast<int32_t>(value % span);
  }
  bool one_in(int32_t n) { return between(1, n) == n; }

 private:
  const uint8_t *data_;
  size_t size_;
  size_t at_ = 0;
};

// A cache for a core; without buffers its pages are only counted.
struct Cache {
  std::vector<berth_kv_buffer> buffers;
  berth_kv_config config{};
  std::vector<int64_t> pages;
};

// The core's memory as a caller sees it.
struct Mapped {
  explicit Mapped(const berth_core_config &config, const Cache &cache = {}) {
    if (cache.buffers.empty()) {
      HOLDS(berth_core_create(&config, nullptr, nullptr, 0, nullptr, 0, &core) == BERTH_OK);
    } else {
      HOLDS(berth_core_create(&config, &cache.config, cache.buffers.data(), static_cast<int32_t>(cache.buffers.size()),
                              cache.pages.data(), static_cast<int32_t>(cache.pages.size()), &core) == BERTH_OK);
    }
    HOLDS(berth_core_kv(core, &kv) == BERTH_OK);
    memory.struct_size = sizeof memory;
    HOLDS(berth_core_map(core, &memory) == BERTH_OK);
  }
  ~Mapped() { HOLDS(berth_core_destroy(core) == BERTH_OK); }
  Mapped(const Mapped &) = delete;
  Mapped &operator=(const Mapped &) = delete;

  template <typename T>
  static T *at(uint64_t address) {
    return reinterpret_cast<T *>(static_cast<uintptr_t>(address));
  }
  berth_row &row(int32_t i) const { return at<berth_row>(memory.row_address)[i]; }
  berth_cold_row &cold(int32_t i) const { return at<berth_cold_row>(memory.cold_address)[i]; }
  berth_iteration &it() const { return *at<berth_iteration>(memory.iteration_address); }
  berth_admit &admit(int32_t i) const { return at<berth_admit>(memory.admit_address)[i]; }
  berth_change &change(int32_t i) const { return at<berth_change>(memory.change_address)[i]; }
  int32_t receive(int32_t i) const { return at<int32_t>(memory.receive_address)[i]; }
  berth_done &done(int32_t i) const { return at<berth_done>(memory.done_address)[i]; }
  berth_entry &entry(int32_t slot, int32_t i) const {
    return at<berth_entry>(memory.entry_address)[slot * memory.entries_per_batch + i];
  }
  uint8_t &result(int32_t slot, int32_t i) const {
    return at<uint8_t>(memory.result_address)[slot * memory.entries_per_batch + i];
  }
  int32_t &sampled(int32_t slot, int32_t i) const {
    return at<int32_t>(memory.sampled_address)[slot * memory.entries_per_batch + i];
  }
  int32_t active(int32_t i) const { return at<int32_t>(memory.active_address)[i]; }
  // The row that the i-th entry of the admit inbox will get.
  int32_t arrival(int32_t i) const { return at<int32_t>(memory.free_address)[it().free_rows - 1 - i]; }
  int32_t *tokens(int32_t row) const { return at<int32_t>(memory.token_address) + row * memory.token_stride; }
  int32_t rows() const { return memory.rows - 1; }

  void admit(uint64_t id, int32_t state, int32_t prompt, int32_t max_new) const {
    admit(it().admits++) = berth_admit{id, ~id, state, prompt, max_new, prompt, 0, 0, 0, 0, 0, 0, 0, 0};
  }
  void change(uint64_t id, int32_t at_row, int32_t kind) const {
    change(it().changes++) = berth_change{id, at_row, kind, -1, 0};
  }
  // One iteration; the fleet agrees, no gate holds.
  void step(int32_t expected = 1, bool can_queue = true) const {
    it().expected = expected;
    it().can_queue = can_queue ? 1 : 0;
    HOLDS(berth_core_schedule(core) == BERTH_OK);
    HOLDS(berth_core_launch(core) == BERTH_OK);
    HOLDS(berth_core_settle(core) == BERTH_OK);
  }

  berth_core_t core = nullptr;
  berth_kv_t kv = nullptr;
  berth_core_memory memory{};
};

// A small worker: 8 rows, B = 2, overlap, seats and leases for two batches, one reserved lease, pages of 4 tokens.
inline berth_core_config small_core() {
  berth_core_config c{};
  c.struct_size = sizeof c;
  c.rows = 8;
  c.seats = c.leases = 4;
  c.reserved_leases = 1;
  c.max_batch_size = c.admission_cap = c.max_resident = 2;
  c.range_end = BERTH_STATE_RETIRING;
  c.pending_batches = c.mark_retiring = 1;
  c.retiring = BERTH_RETIRING_EXCLUDED;
  c.padding = BERTH_PAD_BOTH;
  c.tokens_per_block = 4;
  c.policy_set = BERTH_SET_BERTH;
  c.capacity = BERTH_POLICY_GUARANTEED_NO_EVICT;
  c.pages = -1;
  return c;
}

// Random operations on one core.
class Ops {
 public:
  Ops(const uint8_t *data, size_t size)
      : in_(data, size), config_(some_config(in_)), cache_(some_cache(in_, config_)), core_(config_, cache_) {}

  void run() {
    while (!in_.empty()) {
      fill_inboxes();
      iterate(!in_.one_in(6), in_.one_in(12), in_.one_in(8));
      break_batches();
    }
    drain();
  }

  uint64_t requests() const { return last_id_; }

 private:
  static berth_core_config some_config(Bytes &in) {
    berth_core_config c{};
    c.struct_size = sizeof c;
    c.rows = in.between(1, 24);
    c.seats = in.between(1, 10);
    c.leases = in.between(1, 10);
    c.reserved_leases = in.between(0, 2);
    c.max_batch_size = in.between(1, 6);
    c.max_num_tokens = in.one_in(2) ? 0 : in.between(4, 60);
    c.draft_tokens = in.one_in(3) ? in.between(0, 3) : 0;
    c.admission_cap = in.between(1, 12);
    c.max_resident = in.between(1, 12);
    c.range_end = in.one_in(4) ? BERTH_STATE_COMPLETE : BERTH_STATE_RETIRING;
    c.exclusive_flight = in.one_in(3) ? 1 : 0;
    c.pending_batches = c.exclusive_flight ? in.between(0, 4) : in.between(0, 1);
    c.mark_retiring = in.one_in(4) ? 0 : 1;
    c.retiring = in.between(0, 2);
    c.padding = in.between(0, 2);
    c.transceiver = in.one_in(3) ? 1 : 0;
    c.chunking = in.one_in(2) ? BERTH_CHUNK_FCFS : BERTH_CHUNK_NONE;
    c.tokens_per_block = in.between(1, 8);
    c.pages = in.one_in(2) ? -1 : in.between(8, 60);
    c.pad_count = c.transceiver ? in.between(BERTH_PAD_KV_HERE, BERTH_PAD_SCHEDULABLE) : BERTH_PAD_ACTIVE;
    c.policy_set = in.one_in(4) ? BERTH_SET_TRTLLM : BERTH_SET_BERTH;
    // Parity's static batch holds up a context in the middle of its prompt (docs/policies.md, D10): with fewer seats
    // than leases it may never go on.
    const bool may_wait = c.policy_set == BERTH_SET_BERTH && in.one_in(4);
    c.capacity = may_wait ? BERTH_POLICY_STATIC_BATCH : BERTH_POLICY_GUARANTEED_NO_EVICT;
    if (in.one_in(3)) c.capacity = BERTH_POLICY_MAX_UTILIZATION;
    if (c.capacity == BERTH_POLICY_MAX_UTILIZATION) {
      c.one_loop = in.between(0, 1);
    } else {
      if (c.transceiver == 0 && in.one_in(6)) c.capacity = BERTH_POLICY_MAX_REQUESTS;
      c.selects = in.one_in(4) ? 1 : 0;
    }
    c.pause = in.between(BERTH_PAUSE_RECOMPUTE, BERTH_PAUSE_SUSPEND);
    // Who is delayed is passed; under parity whoever passed may then be held up by it for ever (D10 again).
    c.prefix_sharing = c.policy_set == BERTH_SET_BERTH ? in.between(0, 1) : 0;
    c.sends = c.transceiver && in.one_in(3) ? 1 : 0;
    return c;
  }

  // One for some cores, which then have tokens, few different ones so that prompts share prefixes.
  static Cache some_cache(Bytes &in, berth_core_config &core) {
    Cache cache;
    if (!in.one_in(2)) return cache;
    core.max_seq_len = kLongest;
    core.range_end = BERTH_STATE_RETIRING;
    core.pages = 0;
    const int32_t cycles = in.one_in(3) ? in.between(1, 3) : 1;
    for (int32_t i = 0; i < cycles; ++i) {
      const int32_t window = i == 0 && !in.one_in(4) ? -1 : in.between(0, 12);
      // Slots of one size share a group.
      cache.buffers.push_back({16 << in.between(0, 1), i, 0, window, window > 0 ? in.between(0, 5) : 0, 0, 0, {0, 0}});
    }
    berth_kv_config &c = cache.config;
    c.struct_size = sizeof c;
    c.tokens_per_block = core.tokens_per_block;
    c.max_blocks = (kLongest + core.draft_tokens + 4 * core.tokens_per_block) / core.tokens_per_block / 4 * 4 + 4;
    c.sequences = core.leases + 1;
    c.rows = core.leases + core.reserved_leases + 1;
    c.beams = c.tenants = c.staging = c.token_arena = 1;
    c.scopes = in.between(1, 4);
    c.index_blocks = in.one_in(5) ? 0 : in.between(4, 80);
    c.partial_reuse = in.between(0, 1);
    c.default_priority = 35;
    c.offload_min_priority = in.one_in(2) ? 30 : 101;
    c.max_utilisation = 65536;
    c.memory = in.between(BERTH_KV_NAMED, BERTH_KV_MEMORY);
    c.bad_value = -1;
    std::vector<berth_kv_place> places(3);
    std::vector<berth_kv_view> views(3);
    std::vector<berth_kv_pool> pools(3);
    std::vector<berth_kv_life_cycle> lives(16);
    std::vector<int64_t> most(16);
    berth_kv_layout layout{};
    layout.struct_size = sizeof layout;
    layout.place_address = reinterpret_cast<uintptr_t>(places.data());
    layout.view_address = reinterpret_cast<uintptr_t>(views.data());
    layout.pool_address = reinterpret_cast<uintptr_t>(pools.data());
    layout.life_cycle_address = reinterpret_cast<uintptr_t>(lives.data());
    layout.max_slots_address = reinterpret_cast<uintptr_t>(most.data());
    HOLDS(berth_kv_plan(cache.buffers.data(), cycles, c.tokens_per_block, &layout) == BERTH_OK);
    for (int32_t level = 0; level < 2; ++level) {
      for (int32_t g = 0; g < layout.groups; ++g)
        cache.pages.push_back(level == 0 ? in.between(8, 60) : in.between(0, 9));
    }
    cache.pages.resize(static_cast<size_t>(3 * layout.groups));
    return cache;
  }

  static constexpr int32_t kLongest = 64;

  struct Known {
    int32_t row = -1;
    int32_t pauses = 0;
    int32_t max_new = 0;
    int32_t prompt = 0;
    bool cancelled = false;
    bool stopped = false;
    bool failed = false;
    bool held = false;
    int32_t next_position = 0;  // of the next token that must be computed
  };

  berth_iteration &it() { return core_.it(); }

  int32_t live_rows() const { return static_cast<int32_t>(live_.size()); }

  bool holds(int32_t row, uint64_t id) const {
    const berth_row &r = core_.row(row);
    return (r.flags & BERTH_ROW_LIVE) != 0 && r.request_id == id;
  }

  bool is_sent(int32_t row) const {
    return core_.row(row).state == BERTH_STATE_CONTEXT_TRANSFER && core_.row(row).in_flight == 0;
  }

  int32_t row_of(uint64_t id) const {
    for (int32_t i = 0; i < core_.rows(); ++i) {
      if (holds(i, id)) return i;
    }
    return -1;
  }

  void fill_inboxes() {
    const int32_t admits = in_.between(0, std::min(3, core_.rows() - live_rows()));
    for (int32_t i = 0; i < admits; ++i) {
      const bool generation_only = config_.transceiver != 0 && in_.one_in(2);
      const int32_t state = generation_only ? BERTH_STATE_GENERATION_INIT : BERTH_STATE_CONTEXT_INIT;
      const int32_t prompt = in_.between(1, 40);
      const int32_t max_new = in_.between(1, 6);
      int32_t reason = 0;
      int64_t required = 0;
      int64_t available = 0;
      HOLDS(berth_core_fits(core_.core, state, prompt, max_new, &reason, &required, &available) == BERTH_OK);
      HOLDS(reason == BERTH_WAIT_NONE || required > available);
      if (reason != BERTH_WAIT_NONE) continue;
      if (config_.max_num_tokens > 0 && 1 + config_.draft_tokens > config_.max_num_tokens) continue;
      const uint64_t id = ++last_id_;
      if (core_.memory.token_stride != 0 && !in_.one_in(6)) {
        const int32_t row = core_.arrival(it().admits);
        const int32_t alike = in_.between(0, 40);
        for (int32_t k = 0; k < prompt; ++k) core_.tokens(row)[k] = k < alike ? k % 3 : in_.between(0, 2);
        core_.admit(id, state, prompt, max_new);
        berth_admit &entry = core_.admit(it().admits - 1);
        entry.tokens = 1;
        entry.scope = in_.one_in(4) ? 1 : 0;
        entry.lora = entry.scope == 1 ? 7 : 0;
      } else {
        core_.admit(id, state, prompt, max_new);
      }
      // Who waits for its encoder is passed: D10 once more.
      const bool may_encode = !generation_only && config_.policy_set == BERTH_SET_BERTH;
      if (may_encode && in_.one_in(8)) core_.admit(it().admits - 1).encoder_tokens = in_.between(1, 30);
      Known known;
      known.max_new = max_new;
      known.prompt = prompt;
      known.next_position = generation_only ? prompt : 0;
      live_.emplace(id, known);
    }
    if (!live_.empty() && in_.one_in(3)) change_somebody();
    if (in_.one_in(9) && it().changes < core_.rows()) {  // a request that left long ago, or never was
      const int32_t row = in_.between(0, core_.rows() - 1);
      core_.change(uint64_t{1} << 60, row, in_.between(BERTH_CHANGE_ARRIVED, BERTH_CHANGE_ENCODED));
      ++stale_;
    }
    if (in_.one_in(16)) refuse_a_bad_inbox();
  }

  void change_somebody() {
    auto victim = live_.begin();
    std::advance(victim, in_.between(0, static_cast<int32_t>(live_.size()) - 1));
    const int32_t row = row_of(victim->first);
    if (row < 0) return;  // admitted in this very iteration
    const bool in_transfer = core_.row(row).state == BERTH_STATE_GENERATION_TRANSFER || is_sent(row);
    const int32_t kind = in_.between(BERTH_CHANGE_ARRIVED, BERTH_CHANGE_ENCODED);
    // Who is held is passed: D10 once more.
    if (kind == BERTH_CHANGE_HOLD && config_.policy_set == BERTH_SET_TRTLLM && config_.chunking != BERTH_CHUNK_NONE)
      return;
    core_.change(victim->first, row, kind);
    if (kind == BERTH_CHANGE_CANCEL) victim->second.cancelled = true;
    if (kind == BERTH_CHANGE_HOLD || kind == BERTH_CHANGE_RESUME) victim->second.held = kind == BERTH_CHANGE_HOLD;
    if (kind == BERTH_CHANGE_FAILED && in_transfer) victim->second.failed = true;
  }

  // Whatever is wrong with one entry: nothing changes, and the same inbox is good once the entry is gone.
  void refuse_a_bad_inbox() {
    if (it().admits == core_.rows()) return;
    berth_admit bad{1, 1, BERTH_STATE_CONTEXT_INIT, 4, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0};
    switch (in_.between(0, 6)) {
      case 0: bad.state = in_.between(-1, 30) | 32; break;
      case 1: bad.prompt_tokens = -in_.between(0, 9); break;
      case 2: bad.max_new_tokens = INT32_MAX; break;
      case 3: bad.load_tokens = -1; break;
      case 4: bad.cached_tokens = 5; break;
      case 5: bad.encoder_tokens = -1; break;
      default: bad.children = INT32_MIN; break;
    }
    core_.admit(it().admits++) = bad;
    const berth_iteration before = it();
    HOLDS(schedule() == BERTH_E_ARGUMENT);
    HOLDS(std::memcmp(&before, &it(), sizeof before) == 0);
    --it().admits;
  }

  int32_t schedule() {
    if (config_.selects == 0) {
      HOLDS(berth_core_begin(core_.core) == BERTH_E_STATE && berth_core_select(core_.core) == BERTH_E_STATE);
      return berth_core_schedule(core_.core);
    }
    HOLDS(berth_core_schedule(core_.core) == BERTH_E_STATE);
    if (const int32_t begun = berth_core_begin(core_.core); begun != BERTH_OK) return begun;
    berth_table_memory table{};
    table.struct_size = sizeof table;
    HOLDS(berth_core_table(core_.core, &table) == BERTH_OK);
    if (in_.one_in(4)) select_anything(table);
    return select_everybody(table);
  }

  // Whatever stands in the lists: it is refused and nothing happens, or it was good and this is the schedule.
  void select_anything(const berth_table_memory &table) {
    berth_schedule &plan = *Mapped::at<berth_schedule>(table.schedule_address);
    const auto any_row = [this] { return in_.one_in(8) ? INT32_MIN : in_.between(-1, core_.rows() + 1); };
    const auto any_count = [&] { return in_.one_in(8) ? INT32_MAX : in_.between(-1, table.rows); };
    for (int32_t i = 0; i < table.rows; ++i) {
      Mapped::at<int32_t>(table.fitting_address)[i] = any_row();
      Mapped::at<int32_t>(table.paused_address)[i] = any_row();
      core_.row(i).wait_reason = static_cast<int16_t>(in_.between(-32768, 32767));
    }
    plan.fitting = any_count();
    plan.paused = any_count();
    const uint64_t hash = it().decision_hash;
    if (plan.fitting == 0 && plan.paused == 0) return;
    const int32_t status = berth_core_select(core_.core);
    selected_ = status == BERTH_OK;
    HOLDS(selected_ || status == BERTH_E_ROW || status == BERTH_E_ARGUMENT);
    HOLDS(selected_ || it().decision_hash == hash);
  }

  int32_t select_everybody(const berth_table_memory &table) {
    if (selected_) {
      selected_ = false;
      return BERTH_OK;
    }
    berth_schedule &plan = *Mapped::at<berth_schedule>(table.schedule_address);
    plan.fitting = plan.paused = 0;
    for (int32_t i = 0; i < plan.active; ++i) {
      const int32_t row = core_.active(i);
      const int32_t state = core_.row(row).state;
      const bool runs = state >= BERTH_STATE_CONTEXT_INIT && state < config_.range_end &&
                        (core_.row(row).flags & BERTH_ROW_ENCODER_PENDING) == 0;
      if (state == BERTH_STATE_GENERATION_INIT || runs) {
        Mapped::at<int32_t>(table.fitting_address)[plan.fitting++] = row;
      }
    }
    return berth_core_select(core_.core);
  }

  void iterate(bool can_queue, bool held, bool filling) {
    it().expected = in_.between(0, 3);
    it().filling = filling ? 1 : 0;
    it().can_queue = can_queue ? 1 : 0;
    it().held = held ? 1 : 0;
    it().contexts_held = in_.one_in(7) ? 1 : 0;
    it().encode = in_.empty() || in_.one_in(3) ? 1 : 0;
    it().dummy_role = in_.between(BERTH_DUMMY_GENERATION, BERTH_DUMMY_CONTEXT);
    HOLDS(berth_core_launch(core_.core) == BERTH_E_STATE);
    HOLDS(berth_core_settle(core_.core) == BERTH_E_STATE);
    const int32_t offered = it().changes;
    HOLDS(schedule() == BERTH_OK);
    HOLDS(it().stale_changes >= stale_ && it().stale_changes <= offered);
    HOLDS(it().short_of_pages == 0);
    HOLDS(it().paused == 0 || config_.capacity == BERTH_POLICY_MAX_UTILIZATION || config_.selects == 1);
    stale_ = 0;
    note_pauses();
    const int32_t ended_early = it().done;
    check_batch();
    HOLDS(schedule() == BERTH_E_STATE);
    const int32_t contexts = it().contexts;
    const int32_t items = it().encoder_items;
    HOLDS(berth_core_launch(core_.core) == BERTH_OK);
    if (it().contexts_held) {
      HOLDS(it().contexts == 0);
      next_batch_.resize(next_batch_.size() - static_cast<size_t>(contexts));
    }
    HOLDS(it().encodes == (it().encode ? items : 0));
    const bool launched = can_queue && !held && it().batch > 0;
    HOLDS((it().launched == 1) == launched);
    if (launched) launch();
    HOLDS(berth_core_launch(core_.core) == BERTH_E_STATE);
    if (it().due_slot >= 0) collect();
    HOLDS(berth_core_settle(core_.core) == BERTH_OK);
    HOLDS(it().done >= ended_early && it().done <= core_.rows());
    settle_done();
    check_sends();
    check_everything();
  }

  // Who is listed has all that it computed, and no seat.
  void check_sends() {
    HOLDS(it().sends >= 0 && it().sends <= core_.rows() && (it().sends == 0 || config_.sends));
    for (int32_t i = 0; i < it().sends; ++i) {
      const int32_t row = Mapped::at<int32_t>(core_.memory.send_address)[i];
      HOLDS(is_sent(row) && core_.row(row).seat == -1 && core_.row(row).lease >= 0);
      std::vector<int32_t> pages(static_cast<size_t>(std::max(1, cache_.config.max_blocks)));
      int32_t count = 0;
      const int32_t got =
          berth_core_blocks(core_.core, row, 0, pages.data(), static_cast<int32_t>(pages.size()), &count);
      HOLDS(got == (cache_.buffers.empty() ? BERTH_E_STATE : BERTH_OK));
      if (got != BERTH_OK || cache_.buffers[0].window != -1) continue;
      const int32_t computed = core_.row(row).prompt_tokens + core_.row(row).generated_tokens - 1;
      HOLDS(count * config_.tokens_per_block >= computed);
      for (int32_t b = 0; b * config_.tokens_per_block < computed; ++b) HOLDS(pages[static_cast<size_t>(b)] >= 0);
    }
  }

  // The last launch, or the results that were void, came to nothing.
  void break_batches() {
    const int32_t launched = it().launched == 1 && in_.one_in(12) ? it().launched_slot : -1;
    if (launched < 0 && voided_ < 0) return;
    HOLDS(berth_core_fault(core_.core, core_.memory.ring, -1) == BERTH_E_ARGUMENT);
    HOLDS(berth_core_fault(core_.core, -1, -2) == BERTH_E_ARGUMENT);
    if (launched >= 0) mark_failed(next_batch_);
    if (voided_ >= 0) mark_failed(voided_batch_);
    HOLDS(berth_core_fault(core_.core, launched, voided_) == BERTH_OK);
    voided_ = -1;
    HOLDS(it().batch == 0 && it().launched == 0 && it().due == 0 && it().receives == 0);
    settle_done();
    check_everything();
  }

  void mark_failed(const std::vector<berth_entry> &batch) {
    for (const berth_entry &e : batch) {
      const auto found = live_.find(core_.row(e.row).request_id);
      if (e.kind != BERTH_ENTRY_DUMMY && found != live_.end()) found->second.failed = true;
    }
  }

  // Who gave way begins again, with its output as prompt.
  void note_pauses() {
    int32_t paused = 0;
    for (int32_t i = 0; i < core_.rows(); ++i) {
      if ((core_.row(i).flags & BERTH_ROW_LIVE) == 0) continue;
      Known &known = live_.at(core_.row(i).request_id);
      if (core_.cold(i).pauses == known.pauses) continue;
      HOLDS(core_.cold(i).pauses == known.pauses + 1);
      ++known.pauses;
      ++paused;
      known.prompt = core_.row(i).prompt_tokens;
      known.next_position = 0;
    }
    HOLDS(paused == it().paused || it().done > 0);
  }

  void check_batch() {
    std::set<int32_t> rows;
    int32_t tokens = 0;
    int32_t real = 0;
    next_batch_.clear();
    const int32_t slot = free_slot();
    bool contexts_began = false;
    for (int32_t i = 0; i < it().batch; ++i) {
      const berth_entry &e = core_.entry(slot, i);
      next_batch_.push_back(e);
      HOLDS(rows.insert(e.row).second);
      tokens += e.tokens;
      const berth_row &row = core_.row(e.row);
      if (e.kind == BERTH_ENTRY_DUMMY) {
        HOLDS(e.row == core_.rows() && e.tokens == 1 && config_.padding != BERTH_PAD_NONE && it().filling == 0);
        continue;
      }
      ++real;
      HOLDS(row.seat >= 0 && row.lease >= 0 && (row.flags & BERTH_ROW_LIVE) != 0);
      HOLDS((row.flags & BERTH_ROW_ENCODER_PENDING) == 0);
      HOLDS(row.state >= BERTH_STATE_CONTEXT_INIT && row.state < config_.range_end);
      HOLDS(!config_.exclusive_flight || row.in_flight == 0);
      if (e.kind == BERTH_ENTRY_CONTEXT) {
        contexts_began = true;
        HOLDS(e.tokens >= 1 && e.position + e.tokens <= row.prompt_tokens);
        HOLDS(config_.chunking == BERTH_CHUNK_FCFS || e.position + e.tokens == row.prompt_tokens);
      } else {
        HOLDS(!contexts_began && e.tokens == 1 + config_.draft_tokens && e.position >= row.prompt_tokens);
      }
      Known &known = live_.at(row.request_id);
      HOLDS(!known.held && (row.flags & BERTH_ROW_HELD) == 0);
      // With a cache a context begins behind what is found, at least one token before its end.
      if (e.kind == BERTH_ENTRY_CONTEXT && known.next_position == 0) {
        HOLDS(e.position == row.cached_tokens && e.position < row.prompt_tokens);
        HOLDS(e.position == 0 || !cache_.buffers.empty());
      } else {
        HOLDS(e.position == known.next_position);
      }
    }
    HOLDS(real == it().real && tokens == it().batch_tokens && it().contexts + it().generations == it().batch);
    HOLDS(real <= config_.max_batch_size && it().batch <= core_.memory.entries_per_batch);
    HOLDS(config_.max_num_tokens == 0 || tokens <= config_.max_num_tokens);
  }

  // The slot that the core builds in is the lowest that no launched batch holds.
  int32_t free_slot() const {
    for (int32_t slot = 0; slot < core_.memory.ring; ++slot) {
      if (!flying_.count(slot)) return slot;
    }
    HOLDS(false);
    return -1;
  }

  void launch() {
    HOLDS(!flying_.count(it().launched_slot));
    for (const berth_entry &e : next_batch_) {
      if (e.kind == BERTH_ENTRY_DUMMY) continue;
      live_.at(core_.row(e.row).request_id).next_position = e.position + (e.kind == BERTH_ENTRY_CONTEXT ? e.tokens : 1);
    }
    flying_[it().launched_slot] = next_batch_;
    HOLDS(static_cast<int32_t>(flying_.size()) <= config_.pending_batches + 1);
  }

  void collect() {
    const std::vector<berth_entry> &batch = flying_.at(it().due_slot);
    HOLDS(it().due == static_cast<int32_t>(batch.size()));
    const bool lost = in_.one_in(15);
    if (lost) {
      voided_ = it().due_slot;
      voided_batch_ = batch;
    }
    for (int32_t i = 0; i < it().due; ++i) {
      HOLDS(core_.result(it().due_slot, i) == 0);
      const berth_entry &e = batch[static_cast<size_t>(i)];
      if (e.kind == BERTH_ENTRY_DUMMY) continue;
      const berth_row &row = core_.row(e.row);
      const bool makes_token = e.kind == BERTH_ENTRY_GENERATION || e.position + e.tokens == row.prompt_tokens;
      HOLDS(core_.sampled(it().due_slot, i) == -1);
      if (lost) {
        core_.result(it().due_slot, i) = BERTH_RESULT_VOID;
        continue;
      }
      if (in_.one_in(20)) {
        core_.result(it().due_slot, i) = BERTH_RESULT_FAILED;
        live_.at(row.request_id).failed = true;
        continue;
      }
      if (makes_token && !in_.one_in(9)) core_.sampled(it().due_slot, i) = in_.between(0, 2);
      if (makes_token && in_.one_in(7)) {
        core_.result(it().due_slot, i) = 1;
        live_.at(row.request_id).stopped = true;
      }
    }
    flying_.erase(it().due_slot);
  }

  void settle_done() {
    for (int32_t i = 0; i < it().done; ++i) {
      const berth_done &d = core_.done(i);
      const auto found = live_.find(d.request_id);
      HOLDS(found != live_.end());  // exactly once, and only what was admitted
      HOLDS(d.tag == ~d.request_id);
      const Known &known = found->second;
      HOLDS(d.generated_tokens >= 0 && d.generated_tokens <= known.max_new);
      switch (d.kind) {
        case BERTH_END_FINISHED: HOLDS(known.stopped || d.generated_tokens == known.max_new); break;
        case BERTH_END_CANCELLED: HOLDS(known.cancelled); break;
        case BERTH_END_FAILED: HOLDS(known.failed); break;
        default: HOLDS(false);
      }
      live_.erase(found);
    }
  }

  void check_everything() {
    std::map<int32_t, int32_t> flights;
    for (const auto &[slot, batch] : flying_) {
      for (const berth_entry &e : batch) {
        if (e.kind != BERTH_ENTRY_DUMMY) ++flights[e.row];
      }
    }
    std::set<int32_t> seats;
    std::set<int32_t> leases;
    int64_t pages = 0;
    int32_t live = 0;
    for (int32_t i = 0; i < core_.rows(); ++i) {
      const berth_row &row = core_.row(i);
      HOLDS(row.in_flight == flights[i]);
      HOLDS(core_.cold(i).pages >= 0 && (core_.cold(i).pages == 0 || row.lease >= 0));
      HOLDS(row.context_chunk == 0);
      if (row.seat >= 0) HOLDS(row.seat < config_.seats && seats.insert(row.seat).second && row.lease >= 0);
      if (row.lease >= 0) HOLDS(row.lease < config_.leases && leases.insert(row.lease).second);
      pages += core_.cold(i).pages;
      if ((row.flags & BERTH_ROW_LIVE) != 0) {
        ++live;
        HOLDS(live_.count(row.request_id) == 1);
        HOLDS(row.pending_tokens >= 0 && row.generated_tokens <= row.max_new_tokens);
      } else {
        HOLDS(row.seat == -1 && row.lease == -1 && core_.cold(i).pages == 0);
      }
    }
    HOLDS(live == live_rows());
    HOLDS(static_cast<int32_t>(seats.size()) == it().seats_used);
    HOLDS(static_cast<int32_t>(leases.size()) == it().leases_used);
    if (cache_.buffers.empty()) {
      HOLDS(pages == it().pages_used && (config_.pages < 0 || pages <= config_.pages));
    } else {
      int64_t total = 0;
      for (size_t g = 0; g < cache_.pages.size() / 3; ++g) total += cache_.pages[g];
      HOLDS(it().pages_used >= 0 && it().pages_used <= total);
      HOLDS(leases.empty() ? it().pages_used == 0 : true);
    }
    int32_t broken = 0;
    HOLDS(berth_kv_check(core_.kv, &broken) == BERTH_OK);
    berth_kv_stats stats{};
    stats.struct_size = sizeof stats;
    std::vector<berth_kv_pages> of_pools(cache_.buffers.empty() ? 3 : cache_.pages.size());
    HOLDS(berth_kv_describe(core_.kv, &stats, of_pools.data(), static_cast<int32_t>(of_pools.size())) == BERTH_OK);
    HOLDS(stats.open_sequences == it().leases_used && stats.active_sequences == it().leases_used);
    check_active();
  }

  // The active list is what is live and hasn't ended, oldest first; the counts of the next gather are its sums.
  void check_active() {
    int32_t active = 0;
    for (const int32_t count : it().state_counts) active += count;
    uint64_t last = 0;
    int32_t left_out = 0;
    int64_t tokens = 0;
    for (int32_t i = 0; i < active; ++i) {
      const int32_t row = core_.active(i);
      HOLDS(row >= 0 && row < core_.rows() && (core_.row(row).flags & BERTH_ROW_LIVE) != 0);
      HOLDS((core_.row(row).flags & BERTH_ROW_FINISHED) == 0);
      HOLDS(core_.cold(row).admission > last);
      last = core_.cold(row).admission;
      const bool out = core_.row(row).state == BERTH_STATE_RETIRING && config_.retiring != BERTH_RETIRING_CHARGED;
      left_out += out ? 1 : 0;
      if (!out || config_.retiring == BERTH_RETIRING_EXCLUDED_TOKENS_CHARGED) tokens += core_.cold(row).load_tokens;
    }
    HOLDS(it().routable == active - left_out);
    HOLDS(it().routable_tokens == tokens);
    HOLDS(it().retiring == live_rows() - it().routable);
  }

  // Readers read, transfers arrive, the fleet agrees: everything ends, and everything has come back.
  void drain() {
    for (int32_t i = 0; !live_.empty(); ++i) {
      HOLDS(i < 100000);  // with runnable work there is progress
      for (int32_t row = 0; row < core_.rows() && it().changes < core_.rows(); ++row) {
        const berth_row &r = core_.row(row);
        if ((r.flags & BERTH_ROW_LIVE) == 0) continue;
        if (r.flags & BERTH_ROW_HELD) {
          core_.change(r.request_id, row, BERTH_CHANGE_RESUME);
          live_.at(r.request_id).held = false;
        } else if (r.state == BERTH_STATE_GENERATION_TRANSFER || is_sent(row)) {
          core_.change(r.request_id, row, BERTH_CHANGE_ARRIVED);
        } else if (r.flags & BERTH_ROW_ENCODER_RUNNING) {
          core_.change(r.request_id, row, BERTH_CHANGE_ENCODED);
        }
      }
      iterate(true, false, false);
      break_batches();
    }
    HOLDS(it().seats_used == 0 && it().leases_used == 0 && it().pages_used == 0);
    HOLDS(it().routable == 0 && it().retiring == 0);
  }

  Bytes in_;
  berth_core_config config_;
  const Cache cache_;
  Mapped core_;
  std::map<uint64_t, Known> live_;
  std::map<int32_t, std::vector<berth_entry>> flying_;  // by ring slot: launched, not settled
  std::vector<berth_entry> next_batch_;
  int32_t voided_ = -1;  // slot of the batch whose results were void in the last iteration
  std::vector<berth_entry> voided_batch_;
  uint64_t last_id_ = 0;
  int32_t stale_ = 0;
  bool selected_ = false;  // by select_anything()
};

}  // namespace berth::test
