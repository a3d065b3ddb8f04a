// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

namespace berth {

// A zeroed array whose memory is only touched where it is used, from a cache line's start.
template <class T>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  static constexpr size_t kLine = 64;

 public:
  ZeroedArray() = default;
  explicit ZeroedArray(size_t n) : memory_(std::calloc(n * sizeof(T) + kLine, 1)), size_(n) {
    if (!memory_) throw std::bad_alloc();
    const uintptr_t at = reinterpret_cast<uintptr_t>(memory_.get());
    data_ = reinterpret_cast<T *>((at + kLine - 1) & ~(kLine - 1));
  }
  T &operator[](size_t i) noexcept { return data_[i]; }
  const T &operator[](size_t i) const noexcept { return data_[i]; }
  T *data() noexcept { return data_; }
  const T *data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }

 private:
  struct Free {
    void operator()(void *p) const noexcept { std::free(p); }
  };
  std::unique_ptr<void, Free> memory_;
  T *data_ = nullptr;
  size_t size_ = 0;
};

// The free slots of one pool group on one level (spec 03 section 5). A slot is reusable when the epoch with which it
// was released has completed; an epoch is a monotone counter of the caller's launches, so "ready" is one comparison.
// Order of hand-out: ready slots, oldest release first; then slots never issued; then slots that aren't ready, oldest
// first, and then whoever uses them must wait for the epoch that take() reports.
class PageSlots {
 public:
  // Whether slots have numbers. Those that have none take no memory, however many there are; count() alone is for them.
  enum class Kind { kNamed, kCounted };

  explicit PageSlots(int64_t capacity = 0, Kind kind = Kind::kNamed)
      : capacity_(capacity),
        kind_(kind),
        ready_(numbers()),
        waiting_(numbers()),
        epochs_(static_cast<size_t>(numbers())) {}

  int64_t capacity() const noexcept { return capacity_; }
  int64_t free() const noexcept { return ready_.size + waiting_.size + capacity_ - issued_; }

  // Takes n slots that have no numbers, n <= free(), or gives back -n.
  void count(int64_t n) noexcept { issued_ += n; }

  // Takes n slots, n <= free(); the epoch that must have completed before they are written (0: none).
  uint64_t take(int32_t *out, int32_t n) noexcept {
    uint64_t wait = 0;
    const int32_t ready = std::min(ready_.size, n);
    ready_.pop(out, ready);
    int32_t taken = ready;
    const int32_t fresh = static_cast<int32_t>(std::min<int64_t>(n - taken, capacity_ - issued_));
    for (int32_t i = 0; i < fresh; ++i) out[taken++] = static_cast<int32_t>(issued_++);
    for (; taken < n; ++taken) {
      wait = std::max(wait, epochs_[static_cast<size_t>(waiting_.head)]);
      waiting_.pop(out + taken, 1);
    }
    return wait;
  }

  // Gives back n slots that were taken. An epoch below that of a release that still waits waits with it.
  void put(const int32_t *slots, int32_t n, uint64_t epoch) noexcept {
    if (epoch <= completed_) {
      ready_.push(slots, n);
      return;
    }
    last_ = waiting_.size == 0 ? epoch : std::max(last_, epoch);
    for (int32_t i = 0; i < n; ++i) {
      epochs_[static_cast<size_t>(waiting_.tail())] = last_;
      waiting_.push(slots + i, 1);
    }
  }
  void put(int32_t slot, uint64_t epoch) noexcept { put(&slot, 1, epoch); }

  // Of its slots those marked are taken from the beginning on.
  void begin(std::span<const uint8_t> taken, uint64_t completed) noexcept {
    issued_ = capacity_;
    completed_ = completed;
    for (int32_t slot = 0; slot < capacity_; ++slot) {
      if (taken[static_cast<size_t>(slot)] == 0) ready_.push(&slot, 1);
    }
  }

  // All epochs up to that one have completed.
  void complete(uint64_t epoch) noexcept {
    completed_ = std::max(completed_, epoch);
    while (waiting_.size != 0 && epochs_[static_cast<size_t>(waiting_.head)] <= completed_) {
      int32_t slot;
      waiting_.pop(&slot, 1);
      ready_.push(&slot, 1);
    }
  }

  // Every free slot that was issued once, in no order.
  template <class See>
  void each_recycled(See see) const {
    ready_.each(see);
    waiting_.each(see);
  }
  int32_t issued() const noexcept { return static_cast<int32_t>(issued_); }

 private:
  int32_t numbers() const noexcept { return kind_ == Kind::kNamed ? static_cast<int32_t>(capacity_) : 0; }
  struct Ring {
    explicit Ring(int32_t n) : slots(static_cast<size_t>(n)), capacity(n) {}
    int32_t tail() const noexcept {
      const int32_t at = head + size;
      return at >= capacity ? at - capacity : at;
    }
    void push(const int32_t *from, int32_t n) noexcept {
      const int32_t at = tail();
      const int32_t first = std::min(n, capacity - at);
      std::copy_n(from, first, slots.data() + at);
      std::copy_n(from + first, n - first, slots.data());
      size += n;
    }
    void pop(int32_t *to, int32_t n) noexcept {
      const int32_t first = std::min(n, capacity - head);
      std::copy_n(slots.data() + head, first, to);
      std::copy_n(slots.data(), n - first, to + first);
      head = n == first && head + n < capacity ? head + n : n - first;
      size -= n;
    }
    template <class See>
    void each(See see) const {
      for (int32_t i = 0; i < size; ++i) see(slots[static_cast<size_t>((int64_t{head} + i) % capacity)]);
    }
    ZeroedArray<int32_t> slots;
    int32_t capacity;
    int32_t head = 0;
    int32_t size = 0;
  };

  int64_t capacity_;
  Kind kind_;
  int64_t issued_ = 0;  // named: slots that were handed out at least once
  uint64_t completed_ = 0;
  uint64_t last_ = 0;
  Ring ready_;
  Ring waiting_;
  ZeroedArray<uint64_t> epochs_;
};

}  // namespace berth
