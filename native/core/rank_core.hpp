// SPDX-License-Identifier: Apache-2.0
// One rank's bookkeeping: request table, seats, leases, KV pages, and the three steps of an iteration.
#pragma once
#include <cstdint>
#include <vector>

#include "berth/berth.h"
#include "core/rank_pages.hpp"
#include "core/slots.hpp"
#include "core/status.hpp"
#include "core/table.hpp"

namespace berth {

class RankCore final : private SeatGate {
 public:
  // The configuration was checked by valid(). The cache is this core's: nobody else opens sequences in it. May throw
  // std::bad_alloc.
  RankCore(const berth_core_config &config, KvCache &kv);
  // A cache that counts the pages of such a configuration: what create() takes where there is none.
  struct Counted {
    berth_kv_config config;
    KvLayout layout;
    std::vector<int64_t> pages;
  };
  static Counted counted(const berth_core_config &config);

  static bool valid(const berth_core_config &config);
  // What the core needs of a cache that isn't its own count.
  static bool valid(const berth_core_config &config, const berth_kv_config &kv);

  struct Fit {
    int32_t reason;  // berth_wait_reason
    int64_t required;
    int64_t available;
  };
  Fit fits(int32_t state, int32_t prompt_tokens, int32_t max_new_tokens) const;

  Status schedule();
  Status begin();
  Status select();
  Status launch();
  Status settle();
  Status fault(int32_t launched, int32_t collected);
  void map(berth_core_memory &out);
  void map(berth_table_memory &out) { table_.map(out); }
  Status prepare(berth_kv_batch &batch);
  Status blocks(int32_t row, int32_t life_cycle, int32_t *out, int32_t capacity, int32_t &count);

 private:
  class LoopCaches;
  enum class Phase { kSchedule, kSelect, kLaunch, kSettle };
  enum Taken : int32_t { kSeat = 1, kLease = 2 /* and its pages */, kGrowth = 4 };
  struct Claim {
    int32_t row;
    int32_t what;  // Taken bits
    int32_t room;  // growth: that there was before
  };

  // schedule
  bool inboxes_valid() const;
  void clear_outboxes();
  void hold(berth_row &row, bool held);
  void set_held_aside();
  void take_held_back();
  void apply_changes();
  void admit();
  bool needs_pad_before() const;
  bool needs_pad_after() const;
  bool counts_as_work(const berth_row &row) const;
  bool place_dummy(int32_t role);
  bool stuck() const;
  void count_encoders();
  void start_encoders();
  // Seats and leases for the scheduler: state 8 takes a lease and pages, whoever runs a seat too.
  int32_t take(int32_t row) override;
  void give_back(int32_t row) override;
  int32_t look(int32_t row) override;
  bool keeps_out(const berth_row &row) const;
  void pause(int32_t row, int64_t *freed) override;
  Status enter();
  void open_plan();
  Status build_batch();
  void start_receives();
  void count_deferrals();
  int32_t claim(int32_t row, bool wants_seat);
  void undo(const Claim &claim);
  void set_demand(int32_t row);
  void put(int32_t row, int32_t kind, int32_t tokens, int32_t position);
  void defer(int32_t row, int32_t reason);

  // launch
  void drop_contexts();
  void commit_batch();
  void roll_back();
  int32_t due_slot(bool launched);

  // settle
  void move_on();
  void settle_entry(int32_t slot, int32_t index);
  void send(int32_t index);
  static bool is_sent(const berth_row &row);
  void mark_retiring();
  void end(int32_t row, int32_t kind);
  void tear_down(int32_t row);
  void drop_ended();
  void describe();

  bool grow(int32_t row, int64_t tokens);
  int64_t end_of(const berth_row &row) const;
  static int64_t longest_context(int64_t prompt_tokens, int64_t max_new_tokens);
  bool stays(int64_t prompt_tokens, int64_t max_new_tokens) const;
  RankPages::Request request_of(int32_t row) const;
  int64_t end_of_step(int32_t row) const;
  void ask_for_next(int32_t row);
  void note_pages(int32_t row);
  void remove_dummy();
  void mix(uint64_t value);
  uint64_t with(uint64_t hash, const berth_entry &entry) const;
  berth_entry *batch_of(int32_t slot) { return &entries_[static_cast<size_t>(slot) * batch_capacity_]; }

  berth_core_config config_;
  int32_t dummy_;           // the dummy's row
  int32_t batch_capacity_;  // entries of one batch: B and the dummy
  int32_t ring_size_;
  int32_t token_limit_;  // tokens of one batch: an int counts them even where the configuration sets no limit
  Table table_;          // what the scheduler reads and writes: rows, order, page demands, plan
  berth_rules rules_;
  int32_t resident_ =
      0;  // where they are counted: requests that hold a lease, those that claimed it in this pass among them
  Phase phase_ = Phase::kSchedule;

  SlotMap seats_;
  SlotMap leases_;
  KvCache &kv_;
  const bool promises_;          // pages are promised to a request's end
  const bool caches_;            // there are pages with numbers, and tokens
  const bool counts_kv_;         // the scheduler counts who holds KV
  const bool counts_residents_;  // and so do we, for whoever would be received
  RankPages pages_;

  LineVector<berth_row> &rows_;
  std::vector<berth_cold_row> cold_;
  std::vector<int32_t> load_;      // by row: load_tokens of its cold row, dense because every settle adds it up
  std::vector<uint8_t> end_kind_;  // by row: berth_end_kind of a row that ended and is still held by a batch
  std::vector<int32_t> free_rows_;
  std::vector<int32_t> &active_;
  int32_t active_count_ = 0;
  bool dummy_active_ = false;
  bool idle_ = false;  // nothing here keeps it from being padded
  bool ended_in_active_ = false;
  int32_t held_ = 0;            // rows that whoever reads their output holds
  int32_t held_after_end_ = 0;  // rows that ended while a launched batch held them
  uint64_t admissions_ = 0;

  berth_iteration iteration_{};
  std::vector<berth_admit> admits_;
  std::vector<int32_t> arrivals_;  // rows of the admits
  std::vector<berth_change> changes_;
  std::vector<int32_t> receives_;
  std::vector<int32_t> encodes_;
  std::vector<int32_t> sends_;
  std::vector<int32_t> encoders_;  // rows whose encoder hasn't been started, oldest first
  std::vector<berth_done> done_;
  std::vector<berth_entry> entries_;
  std::vector<uint8_t> results_;
  std::vector<int32_t> sampled_;
  std::vector<uint64_t> slot_launch_;  // number of the launch in each ring slot
  uint64_t launches_ = 0;
  uint64_t settled_launch_ = 0;
  std::vector<KvCache::BatchRow> table_rows_;
  std::vector<int32_t> slot_size_;  // entries in each ring slot
  std::vector<uint8_t> slot_busy_;
  std::vector<int32_t> pipe_;  // launched slots not yet due, oldest first; -1: nothing was launched
  int32_t pipe_count_ = 0;
  int32_t building_ = 0;  // ring slot of the batch being built
  std::vector<Claim> claims_;
  int32_t claim_count_ = 0;
  std::vector<int32_t> in_order_;  // the active list, while those who are held are out of it
};

}  // namespace berth
