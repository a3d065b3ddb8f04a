// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/table.hpp"

namespace berth {

// What the one-loop scheduler asks of a cache manager (spec 02 section 9.9). A refusal changes nothing but what it
// says.
class CacheManager {
 public:
  virtual ~CacheManager() = default;
  // What keeps a row out whatever room there is: berth_wait_reason, asked before anybody gives way for it.
  virtual int32_t kept_out(int32_t) { return BERTH_WAIT_NONE; }
  // It is in the batch.
  virtual void taken(int32_t) {}
  // It isn't after all: what it was given in this pass goes back.
  virtual void release(int32_t row) = 0;
  // Does a launched batch that holds a row write the row's pages, and may the row be launched again meanwhile
  // (rules.exclusive_flight: it may not)? Else whoever is in flight is out of the loop's hands.
  virtual bool overlaps() const { return false; }
  // Creates the cache of a first chunk (an index slot, the prefix match, which moves the row's cursor) or finds it, and
  // makes it resident. berth_wait_reason: no slot or no room.
  virtual int32_t prepare_context(int32_t row) = 0;
  // Room for the cursor and so many tokens behind it. False: no room; the cache of a first chunk is no longer resident.
  virtual bool resize_context(int32_t row, int32_t tokens) = 0;
  // A cache for the prompt and drafts of a request whose KV comes from elsewhere. berth_wait_reason: no slot or no
  // room.
  virtual int32_t prepare_receive(int32_t row) = 0;
  // Makes the cache resident, with room for one token and the drafts. False: no room.
  virtual bool allocate_generation(int32_t row) = 0;
  virtual void suspend(int32_t row) = 0;
  virtual void drop(int32_t row) = 0;
  virtual bool resident(int32_t row) const = 0;
  virtual bool tier_below() const = 0;
};

// Pages counted in the table's side rows.
class CountedCaches final : public CacheManager {
 public:
  CountedCaches(Table &table, const berth_rules &rules);
  void release(int32_t row) override;
  int32_t prepare_context(int32_t row) override;
  bool resize_context(int32_t row, int32_t tokens) override;
  int32_t prepare_receive(int32_t row) override;
  bool allocate_generation(int32_t row) override;
  void suspend(int32_t row) override;
  void drop(int32_t row) override;
  bool resident(int32_t row) const override;
  bool tier_below() const override { return rules_.tier_below == 1; }

 private:
  int64_t pages(int64_t tokens) const { return (tokens + rules_.tokens_per_block - 1) / rules_.tokens_per_block; }
  bool counted(const berth_side_row &cache) const { return cache.cache_active == 1 || !tier_below(); }
  bool create(int32_t row);
  bool resume(int32_t row);
  bool resize(int32_t row, int64_t tokens);

  Table &table_;
  const berth_rules &rules_;
  int64_t used_ = 0;
  int32_t caches_ = 0;
};

// One loop that allocates while it schedules (spec 02 section 9).
Status run_one_loop(Table &table, const berth_rules &rules, CacheManager &caches);
Status run_one_loop(Table &table, const berth_rules &rules);

}  // namespace berth
