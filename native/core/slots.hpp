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

// Seats or leases (spec 03 sections 1.2 and 2.4): ids to slots [0, capacity), lowest free first. A handle is generation <<
// 32 | slot. Every release gives the slot its next generation, 1 .. 2^32 - 1 and then 1 again: no handle is 0, and a
// handle can be mistaken for a later one only after 2^32 - 1 further releases of its slot. All memory is taken at
// construction. Not for two threads at once.
class SlotMap {
 public:
  static constexpr int32_t kMaxCapacity = 1 << 20;

  // 1 <= capacity <= kMaxCapacity, 0 <= reserved <= kMaxCapacity. Throws std::bad_alloc.
  SlotMap(int32_t capacity, int32_t reserved, bool quarantine);

  // kOk, kAlready, kExhausted; handle = 0 unless kOk. now is kept for idle().
  Status acquire(uint64_t id, uint64_t now, uint64_t &handle) noexcept {
    const uint64_t hash = index_.view().hash(id);
    handle = 0;
    if (find_hashed(id, hash)) return Status::kAlready;
    const int32_t slot = free_.take_lowest();
    if (slot < 0) return Status::kExhausted;
    handle = settle(static_cast<uint32_t>(slot), id, hash, now);
    high_water_ = std::max(high_water_, ++used_);
    return Status::kOk;
  }

  // kOk, kNotFound; handle = 0 unless kOk.
  Status find(uint64_t id, uint64_t &handle) const noexcept {
    const IdIndex::Place place = find_hashed(id, index_.view().hash(id));
    handle = place ? handle_of(place.slot) : 0;
    return place ? Status::kOk : Status::kNotFound;
  }

  // kOk; kStale: the handle was released; kNotFound: it never was a handle.
  Status check(uint64_t handle) const noexcept {
    const uint32_t slot = static_cast<uint32_t>(handle);
    const uint32_t generation = static_cast<uint32_t>(handle >> 32);
    if (slot >= static_cast<uint32_t>(capacity_)) return Status::kNotFound;
    const Record &record = records_[slot];
    if (record.generation == generation && record.state == State::kLive) return Status::kOk;
    return generation != 0 && generation < record.generation ? Status::kStale : Status::kNotFound;
  }

  // As check. The slot is reusable at once, or in quarantine mode when fence has completed.
  Status release(uint64_t handle, uint64_t fence) noexcept {
    const Status status = check(handle);
    if (status != Status::kOk) return status;
    const uint32_t slot = static_cast<uint32_t>(handle);
    const uint64_t hash = index_.view().hash(records_[slot].id);
    vacate(hash, find_slot(slot, hash), waits(fence));
    if (waits(fence)) quarantine_.hold(slot, fence);
    --used_;
    return Status::kOk;
  }

  // As check; sets the slot's last use.
  Status touch(uint64_t handle, uint64_t now) noexcept {
    const Status status = check(handle);
    if (status == Status::kOk) last_use_[static_cast<uint32_t>(handle)] = now;
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
  enum class State : uint32_t { kFree, kLive, kHeld };
  struct Record {
    uint64_t id = 0;
    uint32_t generation = 1;  // of the handle, live or next
    State state = State::kFree;
  };

  uint64_t handle_of(uint32_t slot) const noexcept { return uint64_t{records_[slot].generation} << 32 | slot; }

  IdIndex::Place find_hashed(uint64_t id, uint64_t hash) const noexcept {
    return index_.view().find(hash, [&](uint32_t slot) { return records_[slot].id == id; });
  }
  IdIndex::Place find_slot(uint32_t wanted, uint64_t hash) const noexcept {
    return index_.view().find(hash, [=](uint32_t slot) { return slot == wanted; });
  }

  uint64_t settle(uint32_t slot, uint64_t id, uint64_t hash, uint64_t now) noexcept {
    Record &record = records_[slot];
    record.id = id;
    record.state = State::kLive;
    last_use_[slot] = now;
    index_.view().insert(hash, slot);
    return handle_of(slot);
  }

  bool waits(uint64_t fence) const noexcept { return quarantining_ && !quarantine_.passed(fence); }

  void vacate(uint64_t hash, const IdIndex::Place &place, bool held) noexcept {
    index_.view().erase(hash, place);
    Record &record = records_[place.slot];
    record.generation += 1 + (record.generation == UINT32_MAX);
    record.state = held ? State::kHeld : State::kFree;
    if (!held) free_.put(place.slot);
  }

  void unsettle(uint32_t slot) noexcept;
  void unvacate(uint32_t slot, bool held) noexcept;
  template <class Locate>
  Status release_each(int32_t n, BatchMode mode, uint64_t fence, int32_t *statuses, Locate locate) noexcept;

  int32_t capacity_;
  int32_t reserved_;
  bool quarantining_;
  int32_t used_ = 0;
  int32_t high_water_ = 0;
  FreeSet free_;
  IdIndex index_;
  Quarantine quarantine_;
  std::vector<Record> records_;
  std::vector<uint64_t> last_use_;
  std::vector<uint32_t> log_;  // slots that the present batch changed so far, for its undo
};

}  // namespace berth
