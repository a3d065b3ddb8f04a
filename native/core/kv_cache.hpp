// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "berth/berth.h"
#include "core/kv_hash.hpp"
#include "core/kv_layout.hpp"
#include "core/page_slots.hpp"
#include "core/prefix_tree.hpp"
#include "core/status.hpp"
#include "device/backend.hpp"

namespace berth {

// The KV memory of one rank: sequences and their pages, the index of what may be reused, eviction, resident block
// tables, events (spec 03 sections 5 to 12). Pages of a sequence are its own until a block of them is committed; then
// they belong to the index, which the sequence references. Not for two threads at once; all memory is taken at
// construction, but for what an emulating backend keeps of steps under way.
class KvCache {
 public:
  static constexpr int32_t kLevelShift = 28;  // a page: level << 28 | slot; -1: none
  static constexpr int32_t kRanges = 8;       // retention ranges of a sequence
  static constexpr int32_t kTickets = 1024;   // whose outcome is remembered

  // Everything that the config must keep, besides the layout. pages[levels][groups].
  static bool valid(const berth_kv_config &config, const KvLayout &layout, std::span<const int64_t> pages) noexcept;
  // valid() must hold, of most too: what adjust() may give, which the backend has room for; empty: pages. Throws
  // std::bad_alloc.
  KvCache(const berth_kv_config &config, const KvLayout &layout, std::span<const int64_t> pages,
          std::unique_ptr<device::Backend> backend, std::span<const int64_t> most = {});

  Status apply(berth_kv_op &op) noexcept;
  Status grow(uint64_t handle, int32_t tokens, int32_t advance) noexcept;
  // The sequence will be asked for soon.
  void prefetch(uint64_t handle) const noexcept {
    const uint32_t i = static_cast<uint32_t>(handle);
    if (i < sequences_.size()) __builtin_prefetch(&sequences_[i], 1);
  }
  Status probe(const KvScope &scope, std::span<const int64_t> offsets, int32_t *matched) noexcept;
  Status prepare(berth_kv_batch &batch) noexcept;
  // Settles finished transfers of the disk level, from at_least (waiting for them) to at_most; how many.
  int32_t poll(int32_t at_least, int32_t at_most) noexcept;
  // Other numbers of pages, while nobody is active. kExhausted: pool (level * groups + group) lacks so many pages for
  // what can't be evicted; nothing changed. Throws std::bad_alloc.
  Status adjust(std::span<const int64_t> pages, int32_t &pool, int64_t &deficit);
  // The same for rows as they are told: handle 0 is a row of the tables without pages.
  struct BatchRow {
    uint64_t handle;
    int32_t row;
    int32_t history;
    int32_t queries;
  };
  Status prepare(berth_kv_batch &batch, std::span<const BatchRow> rows) noexcept;
  Status epoch(uint64_t launch, uint64_t complete) noexcept;
  Status clock(int64_t now) noexcept;
  Status quota(int32_t tenant, int64_t blocks) noexcept;
  Status blocks(uint64_t handle, int32_t life_cycle, int32_t beam, int32_t *out, int32_t capacity,
                int32_t &count) const noexcept;
  Status sequence(uint64_t handle, int32_t *out) const noexcept;
  void describe(berth_kv_stats &stats, berth_kv_pages *pages) const noexcept;
  Status snapshot(berth_kv_event *events, int32_t *tokens, int32_t capacity, int32_t &count,
                  uint64_t &sequence) const noexcept;
  void reset() noexcept;
  // 0, or the number of the first broken invariant, and then nothing but reading goes on: every operation ends kState.
  // Throws std::bad_alloc.
  int32_t check();
  void map(berth_kv_memory &out) noexcept;

  // ---- what a scheduler of the same process asks (kv_schedule.cpp)

  // Pages of a device pool group that nobody uses: free, or in the index and not referenced.
  int64_t available(int32_t group) const noexcept { return slots_[at(group)].free() + evictable(0, group); }
  // The most pages of a group that a sequence of so many tokens holds at a time, if no step computes more than step.
  int64_t most(int32_t group, int64_t tokens, int64_t step) const noexcept;
  // Pages of a group that a sequence may yet take until it has so many tokens, in such steps.
  int64_t lacks(uint64_t handle, int32_t group, int64_t tokens, int64_t step) const noexcept;
  // What start() would find and take out of what is available. Changes nothing.
  struct Outlook {
    int32_t matched = 0;    // tokens
    uint64_t next_key = 0;  // of the first block that isn't there: equal for equal blocks after equal ones. 0: none
    std::array<int64_t, KvLayout::kMaxLifeCycles> need{};   // by group
    std::array<int64_t, KvLayout::kMaxLifeCycles> later{};  // by group: what lacks() will say then
  };
  struct Start {
    KvScope scope;
    int32_t tenant = 0;
    std::span<const int32_t> prompt;  // empty: nothing is looked for and nothing stored
    bool reuse = true;                // false: nothing is looked for
    int32_t row = 0;
    int64_t capacity = 0;  // tokens that there is to be room for
  };
  // end, step: as in lacks().
  Outlook look(const Start &start, int64_t end, int64_t step) noexcept;
  // Opens a sequence in a table row, with room for so many tokens (at least what it finds); all or nothing.
  Status start(const Start &start, uint64_t &handle, int32_t &matched) noexcept;
  // -1: as it is.
  Status resize(uint64_t handle, int64_t capacity, int64_t history) noexcept;
  // Tokens that follow the committed ones.
  Status commit(uint64_t handle, std::span<const int32_t> tokens) noexcept;
  int32_t committed(uint64_t handle) const noexcept;
  // As in Outlook, of a sequence that stores what it computes of these tokens.
  uint64_t next_key(uint64_t handle, std::span<const int32_t> tokens) const noexcept;
  // Pages of a group that a sequence holds, alone or with others.
  int64_t held(uint64_t handle, int32_t group) const noexcept;
  // No more commits; what is committed of the block begun is stored as a partial one.
  Status stop(uint64_t handle) noexcept;
  Status close(uint64_t handle) noexcept;

  // Pages are counted, they have no numbers: no tables, no tokens, no index; one beam, no recurrent state.
  bool counted() const noexcept { return config_.memory == BERTH_KV_COUNTED; }

  device::Backend &backend() noexcept { return *backend_; }
  const KvLayout &layout() const noexcept { return layout_; }
  int32_t max_blocks() const noexcept { return config_.max_blocks; }
  int32_t rows() const noexcept { return config_.rows; }
  int64_t slots(int32_t level, int32_t group) const noexcept {
    return slots_[at(level * layout_.groups() + group)].capacity();
  }

 private:
  static constexpr int32_t kNone = -1;
  enum class Commit : uint8_t { kAllowed = 0, kVirtualStop = 1, kStopped = 2 };

  struct Range {
    int32_t first, end;
    int32_t priority;
    int64_t expires;
  };
  // One cache line: all that a step reads.
  struct Sequence {
    uint32_t generation;  // odd: open
    bool active;
    Commit commit;
    bool rebase;
    uint8_t ranges;
    int32_t beams;
    int32_t row;  // kNone unless active
    int32_t tenant;
    int32_t tip;                         // run; kNone: reuses and stores nothing
    int32_t partial_run, partial_block;  // to be copied by the first resume
    int32_t state_block;                 // whose state the next resume copies
    int32_t committed, history, capacity;
    int32_t blocks;    // ceil(capacity / tokens a block)
    int32_t in_index;  // the first so many belong to the index
    int32_t next_free;
    bool minimal;     // of windows and states only what the next turn needs is kept
    bool lost;        // it was shortened, and nobody was told
    int16_t scratch;  // 1: a chunk's blocks share slots, until the history has passed them
  };
  static_assert(sizeof(Sequence) == 64);
  struct Cold {
    KvScope scope;
    std::array<Range, kRanges> range;
  };
  struct Pin {
    uint32_t generation;  // odd: held
    int32_t next_free;
    int32_t run;     // pinned; kNone: a plan
    int32_t block;   // plan: the last of its blocks
    int32_t blocks;  // plan
    uint64_t uid;    // of that block when the plan was made
  };
  // A window's or a state's page in the index, of which somebody may hold or list.
  struct Special {
    int32_t older, newer;
    uint64_t stamp;
    uint64_t epoch;
    uint16_t holds;
    uint16_t plans;
    uint8_t list;  // 0: none, 1: passed, 2 + level: tails
    bool bad;      // its bytes were lost: nobody finds it, and it goes when it is let go
  };
  static constexpr int32_t kPassed = 1;
  static constexpr int32_t kTails = 2;
  struct SpecialList {
    int32_t oldest = kNone, newest = kNone;
  };
  using Needs = std::array<int64_t, KvLayout::kMaxLifeCycles>;
  // A page of the index on its way to or from the disk level. One on its way up owns the slot that it goes to.
  struct Flight {
    uint64_t number;  // of the backend; 0: not started
    uint64_t after;   // of the transfer that must have ended before it
    uint64_t wait;    // the epoch that must have completed before it
    int32_t block, life_cycle;
    int32_t disk;      // slot there
    int32_t level;     // where it goes to; kDisk: down
    int32_t slot;      // on that level
    int32_t ticket;    // open ticket, on its way up
    int32_t next;      // of that ticket
    int32_t follower;  // which reads what this one writes
    int32_t error;
    bool orphan;  // the index has given up the page: the slot on disk is the flight's too
  };
  // Transfers that somebody waits for. It keeps the run and the window pages that they are for.
  struct Ticket {
    uint64_t number;
    int32_t run;
    int32_t level;
    int32_t first, last;  // flights, in the order of the path
    int32_t left;
    int32_t pages;
  };
  static constexpr int32_t kDisk = device::kLevels - 1;

  static size_t at(int64_t i) noexcept { return static_cast<size_t>(i); }
  int32_t life_cycles() const noexcept { return static_cast<int32_t>(layout_.life_cycles().size()); }
  const LifeCycle &life(int32_t l) const noexcept { return layout_.life_cycles()[at(l)]; }
  int32_t group_of(int32_t l) const noexcept { return life(l).group; }

  // ---- sequences
  Sequence *find(uint64_t handle, Status &status) noexcept;
  int32_t number(const Sequence &s) const noexcept { return static_cast<int32_t>(&s - sequences_.data()); }
  int32_t *pages(const Sequence &s, int32_t beam, int32_t l) noexcept {
    const size_t list = (at(number(s)) * at(config_.beams) + at(beam)) * layout_.life_cycles().size() + at(l);
    return pages_.data() + list * at(config_.max_blocks);
  }
  const int32_t *pages(const Sequence &s, int32_t beam, int32_t l) const noexcept {
    return const_cast<KvCache *>(this)->pages(s, beam, l);
  }
  // From which block on a beam's pages are its own: the first beam's before it are the index's, others have none there.
  static int32_t own(const Sequence &s, int32_t beam) noexcept { return beam == 0 ? s.in_index : 0; }
  Cold &cold(const Sequence &s) noexcept { return cold_[at(number(s))]; }
  const Cold &cold(const Sequence &s) const noexcept { return cold_[at(number(s))]; }
  int32_t *states(const Sequence &s) noexcept { return states_.data() + at(number(s)) * at(state_count_); }
  int32_t *tail(const Sequence &s) noexcept { return tails_.data() + at(number(s)) * at(config_.tokens_per_block); }

  bool tokens_of(const berth_kv_op &op, std::span<const int32_t> &tokens) const noexcept;
  Sequence *new_sequence(uint64_t &handle) noexcept;
  Status open(berth_kv_op &op) noexcept;
  Status open(berth_kv_op &op, std::span<const int32_t> prompt) noexcept;
  void accept(Sequence &s, const PrefixTree::Match &match) noexcept;
  void empty(Sequence &s) noexcept;
  Status resume(Sequence &s, berth_kv_op &op) noexcept;
  void copy_private(Sequence &s) noexcept;
  void suspend(Sequence &s) noexcept;
  Status resize(Sequence &s, int64_t capacity, int64_t history, berth_kv_op *op) noexcept;
  LifeCycle::Range scratch(int32_t l, const Sequence &s, int64_t capacity, int64_t history, bool wanted) const noexcept;
  bool passes_scratch(const Sequence &s, int64_t history) const noexcept;
  void release_scratch(Sequence &s) noexcept;
  Status commit(Sequence &s, berth_kv_op &op) noexcept;
  Status commit(Sequence &s, std::span<const int32_t> tokens, bool end) noexcept;
  void commit_blocks(Sequence &s, const int32_t *tokens, int32_t n) noexcept;
  void adopt(Sequence &s, int32_t first, const int32_t *path, int32_t n) noexcept;
  void give(Sequence &s, int32_t first, const int32_t *ids, int32_t n) noexcept;
  void store_state(Sequence &s, bool end) noexcept;
  void attach_state(Sequence &s, int32_t block, bool end) noexcept;
  void stop(Sequence &s, bool end) noexcept;
  Status widen(Sequence &s, berth_kv_op &op) noexcept;
  Status retain(Sequence &s, const berth_kv_op &op) noexcept;
  void close(Sequence &s) noexcept;
  void release(Sequence &s) noexcept;
  // ---- counted pages (kv_counted.cpp)
  // Those of a sequence's first so many blocks that a life cycle keeps.
  int64_t present(int32_t l, int64_t blocks, int64_t history) const noexcept;
  Status open_counted(berth_kv_op &op) noexcept;
  Status resize_counted(Sequence &s, int64_t capacity, int64_t history, berth_kv_op *op) noexcept;
  void close_counted(Sequence &s) noexcept;
  int32_t check_counted() const;
  void advance(Sequence &s, int32_t history) noexcept;
  PrefixTree::Retention retention(const Sequence &s, int32_t block) const noexcept;
  Status lookup(berth_kv_op &op) noexcept;
  Status unpin(berth_kv_op &op) noexcept;
  Status plan_drop(Sequence &s, berth_kv_op &op) noexcept;
  Status drop(berth_kv_op &op) noexcept;
  Pin *new_pin(uint64_t &handle) noexcept;
  Pin *find_pin(uint64_t handle, Status &status) noexcept;
  void free_pin(Pin &pin) noexcept;

  struct Found {
    PrefixTree::Match match;
    int32_t tokens;
  };
  Found search(int32_t root, std::span<const int32_t> prompt) noexcept;
  int32_t in_use(const PrefixTree::Match &match) const noexcept;
  int32_t usable(const PrefixTree::Match &match) const noexcept;
  bool is_snapshot(const PrefixTree::Match &match) const noexcept;
  bool windows_hold(int32_t blocks, int64_t history) const noexcept;

  // ---- levels (kv_levels.cpp)
  bool ensure(int32_t level, const Needs &needs, const Needs &gains, berth_kv_op *op) noexcept;
  void make_free(int32_t level, const Needs &needs) noexcept;
  int64_t evictable(int32_t level, int32_t group) const noexcept;
  void evict(int32_t level, int32_t group) noexcept;
  void evict_block(int32_t run, int32_t level) noexcept;
  void evict_special(int32_t l, int32_t block, int32_t level) noexcept;
  bool room(int32_t level, const Needs &needs) noexcept;
  bool takes(int32_t level, int32_t pages) const noexcept;
  void move_down(int32_t block, int32_t l, int32_t level, uint64_t epoch) noexcept;
  void move_up(int32_t block, int32_t l, int32_t level) noexcept;
  void leave(int32_t block, int32_t l, uint64_t epoch) noexcept;
  void emit_level(int32_t block, int32_t l, int32_t level, int32_t old_level) noexcept;
  Status bring_up(Sequence &s, int32_t level, const Needs &extra, berth_kv_op &op) noexcept;
  template <class Visit>
  void each_page(int32_t level, int32_t group, Visit visit) noexcept;
  Status prefetch(Sequence &s, berth_kv_op &op) noexcept;
  Status missing(Sequence &s, berth_kv_op &op) noexcept;

  // ---- transfers
  int32_t &flight_of(int32_t block, int32_t l) noexcept {
    return flight_of_[at(block) * layout_.life_cycles().size() + at(l)];
  }
  int32_t flight_of(int32_t block, int32_t l) const noexcept {
    return flight_of_[at(block) * layout_.life_cycles().size() + at(l)];
  }
  Flight &fly(int32_t block, int32_t l, int32_t &number) noexcept;
  void pump() noexcept;
  void settle() noexcept;
  void settle_write(int32_t number, int32_t error) noexcept;
  void finish_ticket() noexcept;
  void land(Flight &flight, bool good) noexcept;
  int32_t isolate(int32_t block) noexcept;
  void lose_run(int32_t run) noexcept;
  void lose_special(int32_t l, int32_t block) noexcept;
  void shorten(Sequence &s, int32_t blocks) noexcept;
  void map_transfers(berth_kv_memory &out) noexcept;
  int32_t check_transfers(std::vector<uint16_t> &holds, std::vector<int64_t> &moving) const;
  template <class See>
  void each_flight(See see) const {
    for (uint64_t i = tickets_done_; i != tickets_issued_; ++i) {
      for (int32_t f = tickets_[i % tickets_.size()].first; f != kNone; f = flights_[at(f)].next) see(f);
    }
    for (uint64_t i = settled_ + 1; i <= started_; ++i) {
      const int32_t f = started_flights_[i % at(depth_)];
      if (flights_[at(f)].level == kDisk) see(f);
    }
  }

  // ---- pages
  bool ensure_blocks(int32_t n) noexcept;
  void drop_run(int32_t run) noexcept;
  void take(int32_t group, int32_t *out, int32_t n) noexcept;
  void put(int32_t group, const int32_t *slots, int32_t n) noexcept;
  // Whether an entry of a sequence's list stands for a slot: the first of those that share one does.
  bool counts(int32_t l, int32_t entry) const noexcept {
    return entry >= 0 || (entry < kNone && KvLayout::scratch_number(entry, layout_.scratch_blocks(l)) == 0);
  }
  int32_t slot_of_entry(int32_t l, int32_t entry) const noexcept {
    return entry >= 0 ? entry : KvLayout::scratch_slot(entry, layout_.scratch_blocks(l));
  }
  void put_private(int32_t l, const int32_t *list, int32_t first, int32_t end) noexcept;
  int32_t &loc(int32_t block, int32_t l) noexcept { return locs_[at(block) * layout_.life_cycles().size() + at(l)]; }
  int32_t loc(int32_t block, int32_t l) const noexcept {
    return locs_[at(block) * layout_.life_cycles().size() + at(l)];
  }
  static int32_t level_of(int32_t page) noexcept { return page >> kLevelShift; }
  static int32_t slot_of(int32_t page) noexcept { return page & ((1 << kLevelShift) - 1); }
  void free_loc(int32_t block, int32_t l, uint64_t epoch) noexcept;
  void free_block(int32_t block, int32_t run) noexcept;
  void prune(int32_t block) noexcept;

  // ---- window and state pages of the index
  Special &special(int32_t l, int32_t block) noexcept {
    return specials_[at(special_of_[at(l)]) * at(config_.index_blocks) + at(block)];
  }
  const Special &special(int32_t l, int32_t block) const noexcept {
    return const_cast<KvCache *>(this)->special(l, block);
  }
  bool there(int32_t block, int32_t l) const noexcept {
    return loc(block, l) != kNone && (life(l).full() || !special(l, block).bad);
  }
  SpecialList &special_list(int32_t l, int32_t list) noexcept {
    return special_lists_[at(special_of_[at(l)]) * (1 + device::kLevels) + at(list - 1)];
  }
  void hold(int32_t l, int32_t block) noexcept;
  void let_go(int32_t l, int32_t block, int32_t list) noexcept;
  void list_special(int32_t l, int32_t block, int32_t list, uint64_t stamp) noexcept;
  void unlist_special(int32_t l, int32_t block) noexcept;
  void drop_special(int32_t l, int32_t block) noexcept;

  // ---- tables and events
  bool valid(const berth_kv_batch &batch, int64_t rows) const noexcept;
  Status gather(berth_kv_batch &batch, size_t rows, int64_t tokens, int64_t used) noexcept;
  uint64_t key_of(const KvScope &scope, int32_t last, std::span<const int32_t> block) const noexcept;
  void edit(const Sequence &s, int32_t beam, int32_t l, int32_t first, int32_t end) noexcept;
  void clear_rows(const Sequence &s) noexcept;
  void emit_priority(int32_t run) noexcept;
  int32_t broken() const;
  void emit(int32_t kind, int32_t block, int32_t l, const KvScope &scope, int32_t fill, int32_t level,
            int32_t old_level, int32_t priority) noexcept;

  berth_kv_config config_;
  KvLayout layout_;
  std::unique_ptr<device::Backend> backend_;
  std::vector<PageSlots> slots_;     // [levels][groups]
  std::vector<int64_t> most_;        // [levels][groups]
  std::array<int32_t, 16> fulls_{};  // full-attention life cycles of a group
  int32_t full_count_ = 0;
  int32_t state_count_ = 0;
  std::vector<int32_t> special_of_;                                        // by life cycle; kNone: full attention
  std::vector<int32_t> state_of_;                                          // by life cycle; kNone: not a state
  std::vector<SpecialList> special_lists_;                                 // [specials][passed, tails of each level]
  std::array<std::array<int64_t, 16>, device::kLevels> special_listed_{};  // [levels][groups]
  std::vector<int64_t> held_;                                              // by group
  std::vector<int64_t> cached_;                                            // [levels][groups]
  std::vector<int64_t> moving_;                                            // [levels][groups]
  std::unique_ptr<PrefixTree> tree_;
  ZeroedArray<int32_t> locs_;      // [blocks][life cycles]
  ZeroedArray<uint64_t> uids_;     // [blocks]
  ZeroedArray<Special> specials_;  // [specials][blocks]
  ZeroedArray<Sequence> sequences_;
  ZeroedArray<Cold> cold_;
  ZeroedArray<int32_t> pages_;      // [sequences][beams][life cycles][max_blocks]
  ZeroedArray<int32_t> states_;     // [sequences][states]
  ZeroedArray<int32_t> tails_;      // [sequences][tokens_per_block]: committed tokens of the block begun
  ZeroedArray<int32_t> row_owner_;  // sequence + 1
  ZeroedArray<Pin> pins_;
  ZeroedArray<int32_t> arena_;
  std::vector<int64_t> quotas_;
  ZeroedArray<int32_t> ids_;      // scratch: blocks of one append
  std::vector<int32_t> columns_;  // scratch: rows, blocks, history, queries, states of a batch
  std::unique_ptr<std::byte, void (*)(void *)> ring_;
  size_t ring_bytes_ = 0;
  int32_t free_sequence_ = 0;
  int32_t issued_sequences_ = 0;
  int32_t free_pin_ = 0;
  int32_t issued_pins_ = 0;
  int32_t open_ = 0;
  int32_t active_ = 0;
  int32_t pinned_ = 0;
  uint64_t launch_ = 0;
  uint64_t complete_ = 0;
  uint64_t wait_ = 0;
  uint64_t uid_ = 0;
  uint64_t event_ = 0;
  int64_t now_ = 0;
  int32_t broken_ = 0;  // the invariant that was found broken
  berth_kv_stats counts_{};

  int32_t depth_ = 0;  // transfers under way at most; 0: none
  ZeroedArray<Flight> flights_;
  PageSlots free_flights_;
  ZeroedArray<int32_t> flight_of_;        // [blocks][life cycles]: the last one's number + 1; 0: none
  ZeroedArray<int32_t> waiting_flights_;  // ring of those not started
  ZeroedArray<int32_t> started_flights_;  // by the backend's number
  ZeroedArray<Ticket> tickets_;           // ring of the open ones
  ZeroedArray<uint64_t> ticket_page_;     // berth_kv_io, berth_kv_ticket[kTickets]
  uint64_t waited_ = 0;                   // flights that have waited
  uint64_t waits_ = 0;                    // and those that ever had to
  uint64_t started_ = 0;
  uint64_t settled_ = 0;
  int32_t writes_ = 0;  // under way
  uint64_t tickets_issued_ = 0;
  uint64_t tickets_done_ = 0;
};

}  // namespace berth
