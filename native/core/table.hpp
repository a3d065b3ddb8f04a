// SPDX-License-Identifier: Apache-2.0
// The memory that scheduling reads and writes, and the scratch that a pass needs. Nothing here allocates after
// construction.
#pragma once
#include <cstdint>
#include <new>
#include <vector>

#include "berth/berth.h"
#include "core/status.hpp"

namespace berth {

constexpr int32_t kMaxRows = 1 << 20;
constexpr int32_t kMaxPools = 16;

inline bool is_context(int32_t state) {
  return state == BERTH_STATE_CONTEXT_INIT || state == BERTH_STATE_CONTEXT_INIT_AND_TRANSFER;
}
inline bool is_generation(int32_t state) {
  return state >= BERTH_STATE_GENERATION_TRANSFER_COMPLETE && state <= BERTH_STATE_RETIRING;
}
inline bool is_first_chunk(const berth_row &row) {
  return is_context(row.state) && row.context_cursor == row.cached_tokens;
}
inline bool awaits_encoder(const berth_row &row) {
  return (row.flags & BERTH_ROW_ENCODER_PENDING) && is_context(row.state);
}

// Rows of a cache line each must not lie across two.
template <class T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U> &) {}
  T *allocate(size_t n) { return static_cast<T *>(::operator new (n * sizeof(T), std::align_val_t{64})); }
  void deallocate(T *p, size_t) { ::operator delete (p, std::align_val_t{64}); }
  bool operator==(const LineAllocator &) const { return true; }
};
template <class T>
using LineVector = std::vector<T, LineAllocator<T>>;

// A set of 64-bit keys that is emptied in constant time.
class KeySet {
 public:
  explicit KeySet(int32_t entries);
  void clear() { ++epoch_; }
  bool contains(uint64_t key) const;
  void insert(uint64_t key);

 private:
  size_t slot(uint64_t key) const { return (key * 0x9E3779B97F4A7C15ull) >> shift_; }
  // An epoch has 64 bits: it doesn't come round.
  struct Entry {
    uint64_t key = 0;
    uint64_t epoch = 0;
  };
  std::vector<Entry> entries_;
  size_t mask_;
  int shift_;
  uint64_t epoch_ = 1;
};

// Who hands out seats, leases and pages while a plan is made. Asked for a row that lacks one of them, when nothing else
// is in its way.
class SeatGate {
 public:
  virtual ~SeatGate() = default;
  // A row without a lease is about to be judged: its demands and what it would reuse are to be up to date. What keeps
  // it out whatever pages there are: berth_wait_reason.
  virtual int32_t look(int32_t row) = 0;
  // The row gives way: takes its seat, lease and pages. freed[pools]: what came free.
  virtual void pause(int32_t row, int64_t *freed) = 0;
  // Takes what the row lacks; the reason if it can't be had: berth_wait_reason, NONE for success.
  virtual int32_t take(int32_t row) = 0;
  // Gives it back: the row doesn't run after all.
  virtual void give_back(int32_t row) = 0;
};

class CacheManager;

class Table {
 public:
  static bool valid(const berth_table_config &config, const berth_pool *pools);
  // The configuration was checked by valid(). May throw std::bad_alloc.
  // prefix_keys: how many requests may share prefixes; 0 where the rules never let them.
  Table(const berth_table_config &config, const berth_pool *pools, int32_t prefix_keys);
  void map(berth_table_memory &out);

  // The first field of a row that isn't fit to be scheduled; BERTH_FIELD_NONE: it is fit.
  berth_row_field defect(int32_t index) const;
  Status check(const int32_t *indexes, int32_t n);
  Status pause(int32_t index, int32_t max_input);

  // The first field of the rules that isn't possible here, as a 1-based position behind struct_size; 0: none.
  int32_t rule_defect(const berth_rules &rules) const;
  Status run(const berth_rules &rules, SeatGate *gate = nullptr);
  // The one loop with caches that aren't counted in the table.
  Status run(const berth_rules &rules, CacheManager &caches);
  // Forgets the last plan: a pass begins. What the caller selected stays.
  void begin_pass();

  // ---- what the passes use ----

  Status refuse(int32_t row, berth_row_field field) {
    schedule.row = row;
    schedule.field = field;
    return Status::kRow;
  }
  // Is entry i of a list a row that may be looked at?
  bool sound(int32_t index) const {
    return static_cast<uint32_t>(index) < rows.size() && (rows[index].flags & BERTH_ROW_CHECKED);
  }
  Status unsound(int32_t index) {
    return refuse(index, static_cast<uint32_t>(index) < rows.size() ? BERTH_FIELD_LIVE : BERTH_FIELD_ORDER);
  }
  // reason: berth_wait_reason, for PAGES with the pool in the second byte.
  void wait(berth_row &row, int32_t reason) {
    const int32_t kind = reason & 0xff;
    ++schedule.deferred[kind];
    if (kind == BERTH_WAIT_PAGES) ++schedule.short_of[reason >> 8];
    if (row.wait_reason != reason) row.wait_reason = static_cast<int16_t>(reason);
  }
  static void runs(berth_row &row) {
    if (row.wait_reason != BERTH_WAIT_NONE) row.wait_reason = BERTH_WAIT_NONE;
  }
  // Why a row outside the schedulable range doesn't run.
  static int32_t outside_reason(const berth_row &row);
  // Adapter pages that the row adds to those claimed in this pass; 0 if its adapter is claimed or it has none.
  int32_t new_adapter_pages(const berth_row &row) const {
    return row.adapter < 0 || adapter_epoch[row.adapter] == epoch ? 0 : adapter_pages[row.adapter];
  }
  void claim_adapter(const berth_row &row) {
    if (row.adapter >= 0) adapter_epoch[row.adapter] = epoch;
  }
  const berth_demand *demands(int32_t row) const { return &demand[static_cast<size_t>(row) * pools.size()]; }

  LineVector<berth_row> rows;
  LineVector<berth_side_row> side;
  LineVector<berth_demand> demand;  // [rows][pools]
  std::vector<berth_held> held;     // [rows][pools]
  std::vector<int32_t> held_pages;
  std::vector<int32_t> snapshots;
  std::vector<berth_pool> pools;
  int32_t self_pools = 0;
  std::vector<int32_t> adapter_pages;

  std::vector<int32_t> active, fitting, receiving, paused, recomputed, encoders, generations;
  std::vector<berth_pick> contexts;
  berth_schedule schedule{};
  int32_t set_aside = 0;  // requests that aren't in the list and count against the rules' max_requests

  // Scratch.
  KeySet self_keys, cross_keys;
  uint64_t epoch = 0;                                   // of the pass; stamps below that differ are void
  std::vector<uint64_t> adapter_epoch;                  // [adapters]
  std::vector<uint64_t> row_epoch;                      // [rows]
  std::vector<int32_t> list_a, list_b, list_c, list_d;  // [rows]
  std::vector<int32_t> chunk;                           // [rows], by place in a list
  std::vector<int32_t> drafts;                          // [rows], by place in a list
  std::vector<uint64_t> sort_keys;                      // [rows]
  std::vector<int32_t> sort_rows;                       // [rows]
  std::vector<berth_pick> sort_picks;                   // [rows]
  std::vector<int32_t> page_refs;                       // [sum of page ids over pools]
  int32_t page_ref_base[kMaxPools] = {};

 private:
  bool fit_to_run(const berth_rules &rules) const;
  Status done(Status status, bool selects);

  int32_t held_capacity_;
};

}  // namespace berth
