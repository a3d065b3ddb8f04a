// SPDX-License-Identifier: Apache-2.0
#include "slot_churn.hpp"

#include <bit>
#include <memory>
#include <new>
#include <vector>

namespace {

uint64_t splitmix(uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Flat open addressing at load <= 0.5 with backward-shift deletion, and a LIFO stack of free slots. No generations, no
// statuses, no checks, id 0 means empty: not a peer, a floor.
class Floor {
 public:
  explicit Floor(int32_t capacity)
      : shift_(64 - static_cast<int>(std::bit_width(2 * static_cast<uint64_t>(capacity) - 1))),
        mask_((uint64_t{1} << (64 - shift_)) - 1),
        entries_(mask_ + 1),
        free_(static_cast<size_t>(capacity)) {
    for (int32_t i = 0; i < capacity; ++i) free_[static_cast<size_t>(i)] = capacity - 1 - i;
    top_ = free_.size();
  }

  int32_t acquire(uint64_t id) noexcept {
    uint64_t at = home(id);
    while (entries_[at].id != 0) at = (at + 1) & mask_;
    const int32_t slot = free_[--top_];
    entries_[at] = {id, slot};
    return slot;
  }

  int32_t find(uint64_t id) const noexcept { return entries_[locate(id)].slot; }

  void release(uint64_t id) noexcept {
    uint64_t hole = locate(id);
    free_[top_++] = entries_[hole].slot;
    for (uint64_t at = (hole + 1) & mask_; entries_[at].id != 0; at = (at + 1) & mask_) {
      if (((at - home(entries_[at].id)) & mask_) >= ((at - hole) & mask_)) {
        entries_[hole] = entries_[at];
        hole = at;
      }
    }
    entries_[hole].id = 0;
  }

 private:
  struct Entry {
    uint64_t id = 0;
    int32_t slot = 0;
  };

  uint64_t home(uint64_t id) const noexcept { return (id * 0x9e3779b97f4a7c15u) >> shift_; }
  uint64_t locate(uint64_t id) const noexcept {
    uint64_t at = home(id);
    while (entries_[at].id != id) at = (at + 1) & mask_;
    return at;
  }

  int shift_;
  uint64_t mask_;
  std::vector<Entry> entries_;
  std::vector<int32_t> free_;
  size_t top_ = 0;
};

}  // namespace

struct berth_bench_churn {
  berth_bench_churn(int32_t capacity, bool random)
      : random_ids(random), floor(capacity), live(static_cast<size_t>(capacity) * 3 / 4) {
    for (uint64_t &id : live) floor.acquire(id = fresh());
  }
  uint64_t fresh() noexcept { return random_ids ? splitmix(++issued) : ++issued; }

  bool random_ids;
  uint64_t issued = 0;
  Floor floor;
  std::vector<uint64_t> live;
};

berth_bench_churn_t berth_bench_churn_create(int32_t capacity, int32_t random) {
  try {
    return new berth_bench_churn(capacity, random != 0);
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

void berth_bench_churn_destroy(berth_bench_churn_t churn) { std::unique_ptr<berth_bench_churn>{churn}; }

int64_t berth_bench_churn_run(berth_bench_churn_t churn, const int32_t *victims, const int32_t *lookups, int32_t n) {
  int64_t sum = 0;
  for (int32_t i = 0; i < n; ++i) {
    uint64_t &position = churn->live[static_cast<size_t>(victims[i])];
    churn->floor.release(position);
    position = churn->fresh();
    churn->floor.acquire(position);
    sum += churn->floor.find(churn->live[static_cast<size_t>(lookups[i])]);
  }
  return sum;
}
