// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/free_set.hpp"
#include "core/id_index.hpp"
#include "core/quarantine.hpp"
#include "core/status.hpp"

namespace berth {

enum class BatchMode : int32_t { kAllOrNothing = 0, kEach = 1 };

// Seats or leases (spec 03 sections 1.2 and 2.4): ids to slots [0, capacity), lowest free first. A handle is generation
// << 32 | slot. The generation of a slot counts its acquires and releases, so it is odd while an id holds the slot: no
// handle is 0, and a handle can be mistaken for a later one only after the 2^31 further acquires of its slot in which
// the count comes round. All memory is taken at construction. Not for two threads at once.
class SlotMap {
 public:
  static constexpr int32_t kMaxCapacity = 1 << 20;

  // 1 <= capacity <= kMaxCapacity, 0 <= reserved <= kMaxCapacity. Throws std::bad_alloc.
  SlotMap(int32_t capacity, int32_t reserved, bool quarantine);

  // kOk, kAlready, kExhausted; handle = 0 unless kOk. now is kept for idle().
  Status acquire(uint64_t id, uint64_t now, uint64_t &handle) noexcept {
    const uint64_t hash = index_.view().hash(id);
    handle = 0;
    const int32_t lowest = free_.take_lowest();
    if (lowest < 0) return find_hashed(id, hash) ? Status::kAlready : Status::kExhausted;
    const uint32_t slot = static_cast<uint32_t>(lowest);
    if (!index_.view().insert(hash, slot, [&](uint32_t other) { return records_[other].id == id; })) {
      free_.put(slot);
      return Status::kAlready;
    }
    records_[slot].id = id;
    ++records_[slot].generation;
    records_[slot].last_use = now;
    handle = handle_of(slot);
    high_water_ = std::max(high_water_, ++used_);
    return Status::kOk;
  }

  // kOk, kNotFound; handle = 0 unless kOk.
  Status find(uint64_t id, uint64_t &handle) const noexcept {
    const IdIndex::Entry entry = find_hashed(id, index_.view().hash(id));
    handle = entry ? handle_of(entry.slot) : 0;
    return entry ? Status::kOk : Status::kNotFound;
  }

  // kOk; kStale: the handle was released; kNotFound: it never was a handle.
  Status check(uint64_t handle) const noexcept {
    const uint32_t slot = static_cast<uint32_t>(handle);
    const uint32_t generation = static_cast<uint32_t>(handle >> 32);
    if (slot >= static_cast<uint32_t>(capacity_)) return Status::kNotFound;
    const Record &record = records_[slot];
    if (record.generation == generation && live(generation)) return Status::kOk;
    return generation < record.generation && live(generation) ? Status::kStale : Status::kNotFound;
  }

  // As check. The slot is reusable at once, or in quarantine mode when fence has completed.
  Status release(uint64_t handle, uint64_t fence) noexcept {
    const Status status = check(handle);
    if (status != Status::kOk) return status;
    const uint32_t slot = static_cast<uint32_t>(handle);
    Record &record = records_[slot];
    const uint64_t hash = index_.view().hash(record.id);
    index_.view().erase(hash, find_slot(slot, hash));
    ++record.generation;
    --used_;
    if (waits(fence)) {
      quarantine_.hold(slot, fence);
    } else {
      free_.put(slot);
    }
    return Status::kOk;
  }

  // As check; sets the slot's last use.
  Status touch(uint64_t handle, uint64_t now) noexcept {
    const Status status = check(handle);
    if (status == Status::kOk) records_[static_cast<uint32_t>(handle)].last_use = now;
    return status;
  }

  // Batches: outputs as long as the input. In all-or-nothing mode the first item that fails undoes those before it; it
  // gets its outcome, every other item kSkipped. Return: the first outcome that isn't kOk; in mode kEach always kOk.
  Status acquire(std::span<const uint64_t> ids, BatchMode mode, uint64_t now, uint64_t *handles,
                 int32_t *statuses) noexcept;
  void find(std::span<const uint64_t> ids, uint64_t *handles, int32_t *statuses) const noexcept;
  Status release(std::span<const uint64_t> handles, BatchMode mode, uint64_t fence, int32_t *statuses) noexcept;
  Status release_ids(std::span<const uint64_t> ids, BatchMode mode, uint64_t fence, int32_t *statuses) noexcept;

  // Slots whose fence <= epoch become reusable; how many. An epoch below an earlier one changes nothing.
  int32_t complete(uint64_t epoch) noexcept;

  // How many were last used strictly more than idle before now.
  int32_t idle(uint64_t now, uint64_t idle) const noexcept;
  // Releases them; their ids, in slot order, to ids[idle(now, idle)].
  void sweep(uint64_t now, uint64_t idle, uint64_t fence, uint64_t *ids) noexcept;

  // Copy rows (spec 03 section 2.2): 0 <= contexts <= n, beam >= 1, beam <= width unless replicated; slot * width fits.
  struct Beams {
    int32_t contexts;
    int32_t beam;
    int32_t width;
    bool replicate;
  };
  // Writes contexts + beam * (n - contexts) rows. The check of the first handle that isn't live, and then no row.
  Status rows(std::span<const uint64_t> handles, const Beams &beams, int32_t *rows) const noexcept;

  int32_t used() const noexcept { return used_; }
  int32_t capacity() const noexcept { return capacity_; }
  int32_t reserved() const noexcept { return reserved_; }
  int32_t quarantined() const noexcept { return quarantine_.size(); }
  int32_t high_water() const noexcept { return high_water_; }
  const IdIndex &index() const noexcept { return index_; }

 private:
  struct Record {
    uint64_t id = 0;
    uint32_t generation = 0;
    uint64_t last_use = 0;
  };

  static bool live(uint32_t generation) noexcept { return generation % 2 == 1; }
  uint64_t handle_of(uint32_t slot) const noexcept { return uint64_t{records_[slot].generation} << 32 | slot; }

  IdIndex::Entry find_hashed(uint64_t id, uint64_t hash) const noexcept {
    return index_.view().find(hash, [&](uint32_t slot) { return records_[slot].id == id; });
  }
  IdIndex::Entry find_slot(uint32_t wanted, uint64_t hash) const noexcept {
    return index_.view().find(hash, [=](uint32_t slot) { return slot == wanted; });
  }

  bool waits(uint64_t fence) const noexcept { return quarantining_ && !quarantine_.passed(fence); }

  void withdraw(uint32_t slot) noexcept;
  void restore(uint32_t slot) noexcept;
  template <class Batch>
  Status release_batch(Batch &batch, size_t n, BatchMode mode, uint64_t fence, int32_t *statuses) noexcept;
  bool is_idle(size_t slot, uint64_t now, uint64_t idle) const noexcept {
    return live(records_[slot].generation) && now > records_[slot].last_use && now - records_[slot].last_use > idle;
  }

  int32_t capacity_;
  int32_t reserved_;
  bool quarantining_;
  int32_t used_ = 0;
  int32_t high_water_ = 0;
  FreeSet free_;
  IdIndex index_;
  Quarantine quarantine_;
  std::vector<Record> records_;
  std::vector<uint32_t> log_;  // slots that the present batch changed so far, for its undo
};

}  // namespace berth
