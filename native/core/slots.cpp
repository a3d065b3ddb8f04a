// SPDX-License-Identifier: Apache-2.0
#include "core/slots.hpp"

#include <array>

namespace berth {

namespace {

// Items whose hashes are computed, and whose lines are fetched, ahead of the work on them.
constexpr size_t kBlock = 64;
// Free slots that acquire takes, and whose lines it fetches, ahead of their use.
constexpr size_t kAhead = 8;

Status refuse(size_t n, size_t failed, Status status, int32_t *statuses) noexcept {
  std::fill_n(statuses, n, static_cast<int32_t>(Status::kSkipped));
  statuses[failed] = static_cast<int32_t>(status);
  return status;
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
      log_(static_cast<size_t>(capacity) + 1) {}

Status SlotMap::acquire(std::span<const uint64_t> ids, BatchMode mode, uint64_t now, uint64_t *handles,
                        int32_t *statuses) noexcept {
  const IdIndex::View index = index_.view();
  Record *const records = records_.data();
  uint32_t *const log = log_.data();
  std::fill_n(statuses, ids.size(), static_cast<int32_t>(Status::kOk));
  const size_t limit = std::min(ids.size(), static_cast<size_t>(capacity_ - used_ - quarantine_.size()));
  size_t taken = 0;
  size_t ready = 0;  // log[taken, ready) are ours to hand out
  size_t failed = ids.size();
  {
    FreeSet::Taker taker(free_);
    const auto take_ahead = [&] {
      const uint32_t slot = taker.next();
      __builtin_prefetch(&records[slot], 1);
      log[ready++] = slot;
    };
    while (ready < std::min(limit, kAhead)) take_ahead();
    for (size_t base = 0; base < ids.size() && failed == ids.size(); base += kBlock) {
      const size_t end = std::min(base + kBlock, ids.size());
      for (size_t i = base; i < end; ++i) index.prefetch(index.hash(ids[i]));
      for (size_t i = base; i < end; ++i) {
        if (ready < limit) take_ahead();
        const uint64_t id = ids[i];  // read once: whatever a caller does to the array meanwhile, hash and record agree
        const uint64_t hash = index.hash(id);
        const auto same = [=](uint32_t slot) { return records[slot].id == id; };
        const uint32_t slot = log[taken];  // only of use if one is ready
        if (taken == ready || !index.insert(hash, slot, same)) [[unlikely]] {
          handles[i] = 0;
          statuses[i] = static_cast<int32_t>(index.find(hash, same) ? Status::kAlready : Status::kExhausted);
          if (mode == BatchMode::kEach) continue;
          failed = i;
          break;
        }
        ++taken;
        Record &record = records[slot];
        record.id = id;
        handles[i] = uint64_t{++record.generation} << 32 | slot;
        record.last_use = now;
      }
    }
  }
  free_.put(log + taken, ready - taken);
  if (failed != ids.size()) {
    while (taken > 0) withdraw(log[--taken]);
    std::fill_n(handles, ids.size(), uint64_t{0});
    return refuse(ids.size(), failed, Status{statuses[failed]}, statuses);
  }
  used_ += static_cast<int32_t>(taken);
  high_water_ = std::max(high_water_, used_);
  return Status::kOk;
}

// Takes back an acquire of the present batch: the slot's generation goes back too, its handle was never seen.
void SlotMap::withdraw(uint32_t slot) noexcept {
  Record &record = records_[slot];
  const uint64_t hash = index_.view().hash(record.id);
  index_.view().erase(hash, find_slot(slot, hash));
  --record.generation;
  free_.put(slot);
}

// Takes back a release of the present batch, before its slot went anywhere.
void SlotMap::restore(uint32_t slot) noexcept {
  Record &record = records_[slot];
  --record.generation;
  index_.view().insert(index_.view().hash(record.id), slot, [](uint32_t) { return false; });
}

void SlotMap::find(std::span<const uint64_t> ids, uint64_t *handles, int32_t *statuses) const noexcept {
  const IdIndex::View index = index_.view();
  const Record *const records = records_.data();
  std::fill_n(statuses, ids.size(), static_cast<int32_t>(Status::kOk));
  for (size_t base = 0; base < ids.size(); base += kBlock) {
    const size_t end = std::min(base + kBlock, ids.size());
    uint64_t hashes[kBlock];
    uint32_t guesses[kBlock];
    for (size_t i = base; i < end; ++i) {
      hashes[i - base] = index.hash(ids[i]);
      index.prefetch(hashes[i - base]);
    }
    for (size_t i = base; i < end; ++i) {
      guesses[i - base] = index.guess(hashes[i - base]).slot;
      __builtin_prefetch(&records[guesses[i - base]]);
    }
    for (size_t i = base; i < end; ++i) {
      const uint64_t id = ids[i];
      uint32_t slot = guesses[i - base];
      // A live record with that id is the answer, however it was come by.
      if (records[slot].id != id || !live(records[slot].generation)) [[unlikely]] {
        const IdIndex::Entry entry =
            index.find(hashes[i - base], [=](uint32_t other) { return records[other].id == id; });
        if (!entry) {
          handles[i] = 0;
          statuses[i] = static_cast<int32_t>(Status::kNotFound);
          continue;
        }
        slot = entry.slot;
      }
      handles[i] = uint64_t{records[slot].generation} << 32 | slot;
    }
  }
}

// batch.prepare(base, end): items that remove(i) is about to be called for, in order, at most kBlock.
// batch.remove(i, slot): kOk if item i is live; its entry is gone then.
template <class Batch>
Status SlotMap::release_batch(Batch &batch, size_t n, BatchMode mode, uint64_t fence, int32_t *statuses) noexcept {
  Record *const records = records_.data();
  uint32_t *const log = log_.data();
  std::fill_n(statuses, n, static_cast<int32_t>(Status::kOk));
  size_t gone = 0;
  for (size_t base = 0; base < n; base += kBlock) {
    const size_t end = std::min(base + kBlock, n);
    batch.prepare(base, end);
    for (size_t i = base; i < end; ++i) {
      uint32_t slot;
      const Status status = batch.remove(i, slot);
      if (status == Status::kOk) [[likely]] {
        ++records[slot].generation;
        log[gone++] = slot;
        continue;
      }
      if (mode == BatchMode::kAllOrNothing) {
        while (gone > 0) restore(log[--gone]);
        return refuse(n, i, status, statuses);
      }
      statuses[i] = static_cast<int32_t>(status);
    }
  }
  used_ -= static_cast<int32_t>(gone);
  if (waits(fence)) {
    for (size_t i = 0; i < gone; ++i) quarantine_.hold(log[i], fence);
  } else {
    free_.put(log, gone);
  }
  return Status::kOk;
}

Status SlotMap::release_ids(std::span<const uint64_t> ids, BatchMode mode, uint64_t fence, int32_t *statuses) noexcept {
  struct ByIds {
    ByIds(const uint64_t *ids, const SlotMap &map) noexcept
        : ids(ids), index(map.index_.view()), records(map.records_.data()) {}

    const uint64_t *const ids;
    const IdIndex::View index;
    const Record *const records;
    size_t base = 0;
    std::array<IdIndex::Entry, kBlock> entries;

    void prepare(size_t from, size_t end) noexcept {
      base = from;
      uint64_t hashes[kBlock];
      for (size_t i = base; i < end; ++i) {
        hashes[i - base] = index.hash(ids[i]);
        index.prefetch(hashes[i - base]);
      }
      for (size_t i = base; i < end; ++i) {
        entries[i - base] = index.guess(hashes[i - base]);
        __builtin_prefetch(&records[entries[i - base].slot], 1);
      }
    }
    Status remove(size_t i, uint32_t &slot) noexcept {
      const uint64_t id = ids[i];
      IdIndex::Entry entry = entries[i - base];
      slot = entry.slot;
      if (entry && *entry.tag != 0 && records[slot].id == id) [[likely]] {
        index.erase_home(entry);
        return Status::kOk;
      }
      const uint64_t hash = index.hash(id);
      entry = index.find(hash, [&](uint32_t other) { return records[other].id == id; });
      if (!entry) return Status::kNotFound;
      slot = entry.slot;
      index.erase(hash, entry);
      return Status::kOk;
    }
  };
  ByIds batch(ids.data(), *this);
  return release_batch(batch, ids.size(), mode, fence, statuses);
}

Status SlotMap::release(std::span<const uint64_t> handles, BatchMode mode, uint64_t fence, int32_t *statuses) noexcept {
  struct ByHandles {
    ByHandles(const uint64_t *handles, const SlotMap &map) noexcept : handles(handles), map(map) {}

    const uint64_t *const handles;
    const SlotMap &map;
    size_t base = 0;
    std::array<uint64_t, kBlock> hashes;

    void prepare(size_t from, size_t end) noexcept {
      base = from;
      const uint32_t last = static_cast<uint32_t>(map.capacity_ - 1);
      for (size_t i = base; i < end; ++i) {
        __builtin_prefetch(&map.records_[std::min(static_cast<uint32_t>(handles[i]), last)], 1);
      }
      for (size_t i = base; i < end; ++i) {
        hashes[i - base] = map.index_.view().hash(map.records_[std::min(static_cast<uint32_t>(handles[i]), last)].id);
        map.index_.view().prefetch(hashes[i - base]);
      }
    }
    Status remove(size_t i, uint32_t &slot) noexcept {
      const uint64_t handle = handles[i];
      const Status status = map.check(handle);
      if (status != Status::kOk) return status;
      slot = static_cast<uint32_t>(handle);
      const IdIndex::Entry entry = map.find_slot(slot, hashes[i - base]);
      if (!entry) return Status::kStale;  // the array was changed since prepare
      map.index_.view().erase(hashes[i - base], entry);
      return Status::kOk;
    }
  };
  ByHandles batch(handles.data(), *this);
  return release_batch(batch, handles.size(), mode, fence, statuses);
}

int32_t SlotMap::complete(uint64_t epoch) noexcept {
  return quarantine_.complete(epoch, [&](uint32_t slot) { free_.put(slot); });
}

int32_t SlotMap::idle(uint64_t now, uint64_t idle) const noexcept {
  int32_t count = 0;
  for (size_t slot = 0; slot < records_.size(); ++slot) {
    count += is_idle(slot, now, idle);
  }
  return count;
}

void SlotMap::sweep(uint64_t now, uint64_t idle, uint64_t fence, uint64_t *ids) noexcept {
  for (uint32_t slot = 0; slot < records_.size(); ++slot) {
    if (is_idle(slot, now, idle)) {
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
