// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace berth {

// The free slots of [0, capacity), capacity <= 2^20, of which the lowest is found in three loads: a bit a slot, and over
// it two levels in which a bit says that the word below isn't empty.
class FreeSet {
 public:
  // All of [0, capacity) is free.
  explicit FreeSet(int32_t capacity)
      : leaves_((static_cast<size_t>(capacity) + 63) / 64),
        middle_((leaves_.size() + 63) / 64),
        top_((middle_.size() + 63) / 64) {
    fill(leaves_, static_cast<size_t>(capacity));
    fill(middle_, leaves_.size());
    fill(top_, middle_.size());
  }

  // The lowest free slot, free no longer; -1 if there is none.
  int32_t take_lowest() noexcept {
    for (size_t t = 0; t < top_.size(); ++t) {
      if (top_[t] == 0) continue;
      const size_t m = t * 64 + lowest(top_[t]);
      const size_t l = m * 64 + lowest(middle_[m]);
      const uint32_t slot = static_cast<uint32_t>(l * 64 + lowest(leaves_[l]));
      take(slot);
      return static_cast<int32_t>(slot);
    }
    return -1;
  }

  // slot must not be free.
  void put(uint32_t slot) noexcept {
    leaves_[slot >> 6] |= bit(slot);
    middle_[slot >> 12] |= bit(slot >> 6);
    top_[slot >> 18] |= bit(slot >> 12);
  }

  // slot must be free.
  void take(uint32_t slot) noexcept {
    const uint64_t leaf = leaves_[slot >> 6] &= ~bit(slot);
    const uint64_t middle = middle_[slot >> 12] &= ~(uint64_t{leaf == 0} << ((slot >> 6) & 63));
    top_[slot >> 18] &= ~(uint64_t{middle == 0} << ((slot >> 12) & 63));
  }

  // Takes the lowest free slots one after another with the middle word in a register, and so without a branch that
  // depends on where they lie. While one is alive nothing else may touch the set.
  class Taker {
   public:
    explicit Taker(FreeSet &set) noexcept : set_(set), leaves_(set.leaves_.data()) { advance(0); }
    Taker(const Taker &) = delete;
    Taker &operator=(const Taker &) = delete;
    ~Taker() { settle(); }

    int32_t next() noexcept {
      if (word_ == 0 && !refill()) return -1;
      const size_t l = at_ * 64 + lowest(word_);
      uint64_t leaf = leaves_[l];
      const size_t slot = l * 64 + lowest(leaf);
      leaf &= leaf - 1;
      leaves_[l] = leaf;
      word_ &= ~(uint64_t{leaf == 0} << (l & 63));
      return static_cast<int32_t>(slot);
    }

   private:
    bool refill() noexcept {
      settle();
      return advance(at_ >> 6);
    }
    void settle() noexcept {
      set_.middle_[at_] = word_;
      set_.top_[at_ >> 6] &= ~(uint64_t{word_ == 0} << (at_ & 63));
    }
    bool advance(size_t t) noexcept {
      for (; t < set_.top_.size(); ++t) {
        if (set_.top_[t] == 0) continue;
        at_ = t * 64 + lowest(set_.top_[t]);
        word_ = set_.middle_[at_];
        return true;
      }
      return false;
    }

    FreeSet &set_;
    uint64_t *const leaves_;
    size_t at_ = 0;
    uint64_t word_ = 0;
  };

 private:
  static uint64_t bit(uint32_t i) noexcept { return uint64_t{1} << (i & 63); }
  static size_t lowest(uint64_t word) noexcept { return static_cast<size_t>(std::countr_zero(word)); }
  static void fill(std::vector<uint64_t> &words, size_t bits) noexcept {
    for (uint64_t &word : words) word = ~uint64_t{0};
    if (bits % 64 != 0) words.back() = (uint64_t{1} << (bits % 64)) - 1;
  }

  std::vector<uint64_t> leaves_;
  std::vector<uint64_t> middle_;
  std::vector<uint64_t> top_;
};

}  // namespace berth
