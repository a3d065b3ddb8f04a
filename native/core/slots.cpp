// SPDX-License-Identifier: Apache-2.0
#include "core/slots.hpp"

namespace berth {

namespace {

// Items whose hashes are computed, and whose lines are fetched, ahead of the work on them.
constexpr size_t kBlock = 64;

void refuse(size_t n, size_t failed, Status status, int32_t *statuses) noexcept {
  std::fill_n(statuses, n, static_cast<int32_t>(Status::kSkipped));
  statuses[failed] = static_cast<int32_t>(status);
}

}  // namespace

SlotMap::SlotMap(int32_t capacity, int32_t reserved, bool quarantine)
    : capacity_(capacity),
      reserved_(reserved),
      quarantining_(quarantine),
      free_(capacity),
      index_(capacity),
      quarantine_(quarantine ? capacity : 0),
      records_(static_cast<size_t>(capacity)),
      last_use_(static_cast<size_t>(capacity)),
      log_(static_cast<size_t>(capacity)) {}

Status SlotMap::acquire(std::span<const uint64_t> ids, BatchMode mode, uint64_t now, uint64_t *handles,
                        int32_t *statuses) noexcept {
  const IdIndex::View index = index_.view();
  Record *const records = records_.data();
  uint64_t *const last_use = last_use_.data();
  uint32_t *const entered = log_.data();
  int32_t taken = 0;
  size_t failed = ids.size();
  Status failure = Status::kOk;
  {
    FreeSet::Taker taker(free_);
    uint64_t hashes[kBlock];
    for (size_t base = 0; base < ids.size() && failed == ids.size(); base += kBlock) {
      const size_t end = std::min(base + kBlock, ids.size());
      for (size_t i = base; i < end; ++i) {
        hashes[i - base] = index.hash(ids[i]);
        index.prefetch(hashes[i - base]);
      }
      for (size_t i = base; i < end; ++i) {
        const uint64_t id = ids[i];
        const uint64_t hash = hashes[i - base];
        Status status = Status::kAlready;
        handles[i] = 0;
        if (!index.find(hash, [=](uint32_t slot) { return records[slot].id == id; })) {
          const int32_t next = taker.next();
          status = next < 0 ? Status::kExhausted : Status::kOk;
          if (next >= 0) {
            const uint32_t slot = static_cast<uint32_t>(next);
            Record &record = records[slot];
            record.id = id;
            record.state = State::kLive;
            last_use[slot] = now;
            index.insert(hash, slot);
            handles[i] = uint64_t{record.generation} << 32 | slot;
            entered[taken++] = slot;
          }
        }
        statuses[i] = static_cast<int32_t>(status);
        if (status != Status::kOk && mode == BatchMode::kAllOrNothing) {
          failed = i;
          failure = status;
          break;
        }
      }
    }
  }
  used_ += taken;
  if (failed != ids.size()) {
    while (taken > 0) unsettle(entered[--taken]);
    std::fill_n(handles, ids.size(), uint64_t{0});
    refuse(ids.size(), failed, failure, statuses);
  }
  high_water_ = std::max(high_water_, used_);
  return failure;
}

void SlotMap::find(std::span<const uint64_t> ids, uint64_t *handles, int32_t *statuses) const noexcept {
  const IdIndex::View index = index_.view();
  const Record *const records = records_.data();
  uint64_t hashes[kBlock];
  for (size_t base = 0; base < ids.size(); base += kBlock) {
    const size_t end = std::min(base + kBlock, ids.size());
    for (size_t i = base; i < end; ++i) {
      hashes[i - base] = index.hash(ids[i]);
      index.prefetch(hashes[i - base]);
    }
    for (size_t i = base; i < end; ++i) {
      const uint64_t id = ids[i];
      const IdIndex::Place place =
          index.find(hashes[i - base], [=](uint32_t slot) { return records[slot].id == id; });
      handles[i] = place ? uint64_t{records[place.slot].generation} << 32 | place.slot : 0;
      statuses[i] = static_cast<int32_t>(place ? Status::kOk : Status::kNotFound);
    }
  }
}

// Takes back an acquire of this batch; the slot's generation was never seen and stays.
void SlotMap::unsettle(uint32_t slot) noexcept {
  const uint64_t hash = index_.view().hash(records_[slot].id);
  index_.view().erase(hash, find_slot(slot, hash));
  records_[slot].state = State::kFree;
  free_.put(slot);
  --used_;
}

// Takes back a release of this batch.
void SlotMap::unvacate(uint32_t slot, bool held) noexcept {
  Record &record = records_[slot];
  record.generation -= 1 + (record.generation == 1);
  record.state = State::kLive;
  if (!held) free_.take(slot);
  index_.view().insert(index_.view().hash(record.id), slot);
  ++used_;
}

// locate(i, hash, place): the outcome of looking for item i, with the entry to remove.
template <class Locate>
Status SlotMap::release_each(int32_t n, BatchMode mode, uint64_t fence, int32_t *statuses, Locate locate) noexcept {
  const bool held = waits(fence);
  uint32_t *const left = log_.data();
  int32_t gone = 0;
  Status failure = Status::kOk;
  for (int32_t i = 0; i < n; ++i) {
    uint64_t hash;
    IdIndex::Place place;
    const Status status = locate(i, hash, place);
    statuses[i] = static_cast<int32_t>(status);
    if (status == Status::kOk) {
      left[gone++] = place.slot;
      vacate(hash, place, held);
    } else if (mode == BatchMode::kAllOrNothing) {
      failure = status;
      used_ -= gone;
      while (gone > 0) unvacate(left[--gone], held);
      refuse(static_cast<size_t>(n), static_cast<size_t>(i), status, statuses);
      break;
    }
  }
  used_ -= gone;
  if (held) {
    for (int32_t i = 0; i < gone; ++i) quarantine_.hold(left[i], fence);
  }
  return failure;
}

Status SlotMap::release(std::span<const uint64_t> handles, BatchMode mode, uint64_t fence,
                        int32_t *statuses) noexcept {
  return release_each(static_cast<int32_t>(handles.size()), mode, fence, statuses,
                      [&](int32_t i, uint64_t &hash, IdIndex::Place &place) {
                        const uint64_t handle = handles[static_cast<size_t>(i)];
                        const Status status = check(handle);
                        if (status != Status::kOk) return status;
                        const uint32_t slot = static_cast<uint32_t>(handle);
                        hash = index_.view().hash(records_[slot].id);
                        place = find_slot(slot, hash);
                        return Status::kOk;
                      });
}

Status SlotMap::release_ids(std::span<const uint64_t> ids, BatchMode mode, uint64_t fence,
                            int32_t *statuses) noexcept {
  return release_each(static_cast<int32_t>(ids.size()), mode, fence, statuses,
                      [&](int32_t i, uint64_t &hash, IdIndex::Place &place) {
                        const uint64_t id = ids[static_cast<size_t>(i)];
                        hash = index_.view().hash(id);
                        place = find_hashed(id, hash);
                        return place ? Status::kOk : Status::kNotFound;
                      });
}

int32_t SlotMap::complete(uint64_t epoch) noexcept {
  return quarantine_.complete(epoch, [&](uint32_t slot) {
    records_[slot].state = State::kFree;
    free_.put(slot);
  });
}

int32_t SlotMap::idle(uint64_t now, uint64_t idle) const noexcept {
  int32_t count = 0;
  for (size_t slot = 0; slot < records_.size(); ++slot) {
    count += records_[slot].state == State::kLive && now > last_use_[slot] && now - last_use_[slot] > idle;
  }
  return count;
}

void SlotMap::sweep(uint64_t now, uint64_t idle, uint64_t fence, uint64_t *ids) noexcept {
  for (uint32_t slot = 0; slot < records_.size(); ++slot) {
    if (records_[slot].state == State::kLive && now > last_use_[slot] && now - last_use_[slot] > idle) {
      *ids++ = records_[slot].id;
      release(handle_of(slot), fence);
    }
  }
}

Status SlotMap::rows(std::span<const uint64_t> handles, const Beams &beams, int32_t *rows) const noexcept {
  for (const uint64_t handle : handles) {
    const Status status = check(handle);
    if (status != Status::kOk) return status;
  }
  const int32_t step = beams.replicate ? 0 : 1;
  for (size_t i = 0; i < handles.size(); ++i) {
    const int32_t first = static_cast<int32_t>(handles[i]) * beams.width;
    const int32_t count = i < static_cast<size_t>(beams.contexts) ? 1 : beams.beam;
    for (int32_t j = 0; j < count; ++j) *rows++ = first + j * step;
  }
  return Status::kOk;
}

}  // namespace berth
