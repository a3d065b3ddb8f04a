// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace berth {

// Released slots whose fence hasn't completed. Fences mostly come in order, and then it is a queue; a fence that is
// lower than that of the queue's last entry goes to a heap instead, so that a slot leaves exactly when its own fence
// has completed, in whatever order the fences came.
class Quarantine {
 public:
  // Memory for all of the slots; none for 0.
  explicit Quarantine(int32_t capacity) : queue_(static_cast<size_t>(capacity)) { heap_.reserve(queue_.size()); }

  int32_t size() const noexcept { return static_cast<int32_t>(count_ + heap_.size()); }

  // True if a slot with that fence need not wait at all.
  bool passed(uint64_t fence) const noexcept { return any_completed_ && fence <= completed_; }

  void hold(uint32_t slot, uint64_t fence) noexcept {
    if (count_ == 0 || fence >= queue_[wrap(head_ + count_ - 1)].fence) {
      queue_[wrap(head_ + count_++)] = {fence, slot};
    } else {
      heap_.push_back({fence, slot});
      std::push_heap(heap_.begin(), heap_.end(), later);
    }
  }

  // Hands every slot with fence <= epoch to free(slot); returns how many. An epoch below an earlier one changes
  // nothing.
  template <class Free>
  int32_t complete(uint64_t epoch, Free free) noexcept {
    completed_ = any_completed_ ? std::max(completed_, epoch) : epoch;
    any_completed_ = true;
    const int32_t before = size();
    while (count_ != 0 && queue_[head_].fence <= epoch) {
      free(queue_[head_].slot);
      head_ = wrap(head_ + 1);
      --count_;
    }
    while (!heap_.empty() && heap_.front().fence <= epoch) {
      free(heap_.front().slot);
      std::pop_heap(heap_.begin(), heap_.end(), later);
      heap_.pop_back();
    }
    return before - size();
  }

 private:
  struct Held {
    uint64_t fence;
    uint32_t slot;
  };
  static bool later(const Held &a, const Held &b) noexcept { return a.fence > b.fence; }
  size_t wrap(size_t i) const noexcept { return i < queue_.size() ? i : i - queue_.size(); }

  std::vector<Held> queue_;
  std::vector<Held> heap_;
  size_t head_ = 0;
  size_t count_ = 0;
  uint64_t completed_ = 0;
  bool any_completed_ = false;
};

}  // namespace berth
