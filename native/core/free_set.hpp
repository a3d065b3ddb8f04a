// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace berth {

// The free slots of [0, capacity), capacity <= 2^20: a bit a slot, over it a bit for every word of 64 slots that isn't
// full, and a lower bound of the first upper word that isn't 0. Free means a bit that is 1. Nothing here branches on
// where the free slots lie, except a scan over upper words, of which there is one for 4096 slots.
class FreeSet {
 public:
  // All of [0, capacity) is free.
  explicit FreeSet(int32_t capacity)
      : lower_((static_cast<size_t>(capacity) + 63) / 64), upper_((lower_.size() + 63) / 64) {
    fill(lower_, static_cast<size_t>(capacity));
    fill(upper_, lower_.size());
  }

  // The lowest free slot, free no longer; -1 if there is none.
  int32_t take_lowest() noexcept {
    while (upper_[first_] == 0) {
      if (first_ + 1 == upper_.size()) return -1;
      ++first_;
    }
    const size_t word = first_ * 64 + lowest(upper_[first_]);
    const uint32_t slot = static_cast<uint32_t>(word * 64 + lowest(lower_[word]));
    take(slot);
    return static_cast<int32_t>(slot);
  }

  // slot must not be free.
  void put(uint32_t slot) noexcept {
    lower_[slot >> 6] |= bit(slot);
    upper_[slot >> 12] |= bit(slot >> 6);
    first_ = std::min<size_t>(first_, slot >> 12);
  }

  // slot must be free.
  void take(uint32_t slot) noexcept {
    const uint64_t left = lower_[slot >> 6] &= ~bit(slot);
    upper_[slot >> 12] &= ~(uint64_t{left == 0} << ((slot >> 6) & 63));
  }

  // Takes the lowest free slots one after another, the upper word in a register. While one is alive nothing else may
  // touch the set.
  class Taker {
   public:
    explicit Taker(FreeSet &set) noexcept : set_(set), lower_(set.lower_.data()), words_(set.upper_[set.first_]) {}
    Taker(const Taker &) = delete;
    Taker &operator=(const Taker &) = delete;
    ~Taker() { set_.upper_[set_.first_] = words_; }

    // There must be a free slot.
    uint32_t next() noexcept {
      while (words_ == 0) {
        set_.upper_[set_.first_] = 0;
        words_ = set_.upper_[++set_.first_];
      }
      const size_t word = set_.first_ * 64 + lowest(words_);
      uint64_t left = lower_[word];
      const size_t slot = word * 64 + lowest(left);
      left &= left - 1;
      lower_[word] = left;
      words_ &= ~(uint64_t{left == 0} << (word & 63));
      return static_cast<uint32_t>(slot);
    }

   private:
    FreeSet &set_;
    uint64_t *const lower_;
    uint64_t words_;
  };

  // put for each of n slots.
  void put(const uint32_t *slots, size_t n) noexcept {
    uint64_t *const lower = lower_.data();
    if (upper_.size() == 1) {
      uint64_t words = upper_[0];
      for (size_t i = 0; i < n; ++i) {
        lower[slots[i] >> 6] |= bit(slots[i]);
        words |= bit(slots[i] >> 6);
      }
      upper_[0] = words;
    } else {
      uint64_t *const upper = upper_.data();
      size_t first = first_;
      for (size_t i = 0; i < n; ++i) {
        lower[slots[i] >> 6] |= bit(slots[i]);
        upper[slots[i] >> 12] |= bit(slots[i] >> 6);
        first = std::min<size_t>(first, slots[i] >> 12);
      }
      first_ = first;
    }
  }

 private:
  static uint64_t bit(uint32_t i) noexcept { return uint64_t{1} << (i & 63); }
  // word != 0.
  static size_t lowest(uint64_t word) noexcept { return static_cast<size_t>(__builtin_ctzll(word)); }
  static void fill(std::vector<uint64_t> &words, size_t bits) noexcept {
    for (uint64_t &word : words) word = ~uint64_t{0};
    if (bits % 64 != 0) words.back() = (uint64_t{1} << (bits % 64)) - 1;
  }

  std::vector<uint64_t> lower_;
  std::vector<uint64_t> upper_;
  size_t first_ = 0;
};

}  // namespace berth
