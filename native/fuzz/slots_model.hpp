// SPDX-License-Identifier: Apache-2.0
// The rules of berth_slots_* once more, as slowly and plainly as they can be written, and a driver that turns bytes
// into calls and holds the library to them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "berth/berth.h"

namespace berth::fuzz {

class SlotsModel {
 public:
  SlotsModel(int32_t capacity, int32_t reserved, bool quarantine)
      : capacity_(capacity), reserved_(reserved), quarantine_(quarantine), changes_(static_cast<size_t>(capacity)) {
    for (int32_t i = 0; i < capacity; ++i) free_.insert(static_cast<uint32_t>(i));
  }

  int32_t acquire(uint64_t id, uint64_t now, uint64_t &handle) {
    handle = 0;
    if (slot_of_.count(id) != 0) return BERTH_E_ALREADY;
    if (free_.empty()) return BERTH_E_EXHAUSTED;
    const uint32_t slot = *free_.begin();
    free_.erase(slot);
    slot_of_[id] = slot;
    live_[slot] = {id, now};
    ++changes_[slot];
    handle = handle_of(slot);
    return BERTH_OK;
  }

  int32_t find(uint64_t id, uint64_t &handle) const {
    const auto at = slot_of_.find(id);
    handle = at == slot_of_.end() ? 0 : handle_of(at->second);
    return at == slot_of_.end() ? BERTH_E_NOT_FOUND : BERTH_OK;
  }

  int32_t check(uint64_t handle) const {
    const uint64_t slot = handle & UINT32_MAX;
    const uint64_t generation = handle >> 32;
    if (slot >= changes_.size() || generation % 2 == 0 || generation > changes_[slot]) return BERTH_E_NOT_FOUND;
    return generation == changes_[slot] ? BERTH_OK : BERTH_E_STALE;
  }

  int32_t release(uint64_t handle, uint64_t fence) {
    const int32_t status = check(handle);
    if (status == BERTH_OK) leave(static_cast<uint32_t>(handle), fence);
    return status;
  }

  int32_t release_id(uint64_t id, uint64_t fence) {
    const auto at = slot_of_.find(id);
    if (at == slot_of_.end()) return BERTH_E_NOT_FOUND;
    leave(at->second, fence);
    return BERTH_OK;
  }

  int32_t touch(uint64_t handle, uint64_t now) {
    const int32_t status = check(handle);
    if (status == BERTH_OK) live_[static_cast<uint32_t>(handle)].last_use = now;
    return status;
  }

  int32_t complete(uint64_t epoch) {
    completed_ = std::max(completed_.value_or(0), epoch);
    int32_t count = 0;
    for (auto at = held_.begin(); at != held_.end() && at->first <= epoch; at = held_.erase(at), ++count) {
      free_.insert(at->second);
    }
    return count;
  }

  std::vector<uint64_t> idle(uint64_t now, uint64_t idle) const {
    std::vector<uint64_t> ids;
    for (const auto &[slot, holder] : live_) {
      if (holder.last_use < now && now - holder.last_use > idle) ids.push_back(holder.id);
    }
    return ids;
  }

  // One batch over item(i): undone as a whole by its first failure in mode 0.
  template <class Item, class Forget>
  int32_t batch(size_t n, int32_t mode, int32_t *statuses, Item item, Forget forget) {
    const SlotsModel before = *this;
    for (size_t i = 0; i < n; ++i) {
      statuses[i] = item(i);
      if (statuses[i] == BERTH_OK || mode == BERTH_EACH) continue;
      const int32_t failure = statuses[i];
      *this = before;
      for (size_t j = 0; j < n; ++j) {
        forget(j);
        if (j != i) statuses[j] = BERTH_E_SKIPPED;
      }
      return failure;
    }
    high_water_ = std::max(high_water_, used());
    return BERTH_OK;
  }

  berth_slots_stats describe() const {
    const int32_t free = static_cast<int32_t>(free_.size());
    return {sizeof(berth_slots_stats),          capacity_, reserved_,   used(),
            static_cast<int32_t>(held_.size()), free,      high_water_, 0};
  }
  int32_t used() const { return static_cast<int32_t>(live_.size()); }

 private:
  struct Holder {
    uint64_t id;
    uint64_t last_use;
  };

  uint64_t handle_of(uint32_t slot) const { return changes_[slot] << 32 | slot; }

  void leave(uint32_t slot, uint64_t fence) {
    slot_of_.erase(live_[slot].id);
    live_.erase(slot);
    ++changes_[slot];
    if (quarantine_ && !(completed_ && fence <= *completed_)) {
      held_.emplace(fence, slot);
    } else {
      free_.insert(slot);
    }
  }

  int32_t capacity_;
  int32_t reserved_;
  bool quarantine_;
  int32_t high_water_ = 0;
  std::map<uint64_t, uint32_t> slot_of_;
  std::map<uint32_t, Holder> live_;
  std::set<uint32_t> free_;
  std::multimap<uint64_t, uint32_t> held_;
  std::optional<uint64_t> completed_;
  std::vector<uint64_t> changes_;  // acquires + releases of a slot
};

// Runs the calls that the bytes describe. Empty, or what differed first.
class SlotsRun {
 public:
  explicit SlotsRun(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  std::string run() {
    const uint64_t low = byte();
    const int32_t capacity = 1 + static_cast<int32_t>((low | byte() << 8) % 300);
    const uint64_t options = byte();
    const int32_t reserved = static_cast<int32_t>(options >> 1) % 3;
    const bool quarantine = options % 2 == 1;
    stride_ = uint64_t{1} << byte() % 64;
    const berth_slots_config config{sizeof(config), capacity, reserved, quarantine ? 1 : 0};
    berth_slots_t slots = nullptr;
    if (berth_slots_create(&config, &slots) != BERTH_OK) return "create";
    SlotsModel model(capacity, reserved, quarantine);
    std::string difference;
    while (!bytes_.empty() && difference.empty()) difference = step(slots, model);
    if (berth_slots_destroy(slots) != BERTH_OK) return "destroy";
    return difference;
  }

  int64_t items() const { return items_; }

 private:
  std::string step(berth_slots_t slots, SlotsModel &model) {
    const int32_t op = static_cast<int32_t>(byte() % 10);
    const int32_t mode = static_cast<int32_t>(byte() % 2);
    const uint64_t number = byte();
    const size_t n = number < 200 ? number % 8 : number % 150;
    ids_.resize(n);
    expected_.assign(n, 77);
    actual_.assign(n, 77);
    statuses_.assign(n, -1);
    expected_statuses_.assign(n, -1);
    items_ += static_cast<int64_t>(n) + 1;
    const int32_t count = static_cast<int32_t>(n);
    int32_t returned = BERTH_OK, expected = BERTH_OK;
    switch (op) {
      case 0:
      case 1:
      case 2: {
        for (uint64_t &id : ids_) id = next_id();
        const uint64_t now = byte();
        returned = berth_slots_acquire(slots, ids_.data(), count, mode, now, actual_.data(), statuses_.data());
        expected = model.batch(
            n, mode, expected_statuses_.data(), [&](size_t i) { return model.acquire(ids_[i], now, expected_[i]); },
            [&](size_t i) { expected_[i] = 0; });
        for (const uint64_t handle : actual_) seen_[next_seen_++ % seen_.size()] = handle;
        break;
      }
      case 3: {
        for (uint64_t &id : ids_) id = next_id();
        returned = berth_slots_find(slots, ids_.data(), count, actual_.data(), statuses_.data());
        for (size_t i = 0; i < n; ++i) expected_statuses_[i] = model.find(ids_[i], expected_[i]);
        break;
      }
      case 4:
      case 5: {
        for (uint64_t &handle : ids_) handle = next_handle();
        const uint64_t fence = byte() % 32;
        returned = berth_slots_release(slots, ids_.data(), count, mode, fence, statuses_.data());
        expected = model.batch(
            n, mode, expected_statuses_.data(), [&](size_t i) { return model.release(ids_[i], fence); }, [](size_t) {});
        break;
      }
      case 6: {
        for (uint64_t &id : ids_) id = next_id();
        const uint64_t fence = byte() % 32;
        returned = berth_slots_release_ids(slots, ids_.data(), count, mode, fence, statuses_.data());
        expected = model.batch(
            n, mode, expected_statuses_.data(), [&](size_t i) { return model.release_id(ids_[i], fence); },
            [](size_t) {});
        break;
      }
      case 7: {
        for (uint64_t &handle : ids_) handle = next_handle();
        const uint64_t now = byte();
        returned = berth_slots_touch(slots, ids_.data(), count, now, statuses_.data());
        for (size_t i = 0; i < n; ++i) expected_statuses_[i] = model.touch(ids_[i], now);
        break;
      }
      case 8: {
        const uint64_t epoch = byte() % 32;
        int32_t reusable = -1;
        returned = berth_slots_complete(slots, epoch, &reusable);
        if (reusable != model.complete(epoch)) return "complete: count";
        statuses_ = expected_statuses_;
        break;
      }
      default: {
        const uint64_t now = byte(), idle = byte() % 64, fence = byte() % 32;
        const std::vector<uint64_t> gone = model.idle(now, idle);
        int32_t needed = -1;
        returned = berth_slots_sweep(slots, now, idle, fence, actual_.data(), count, &needed);
        if (needed != static_cast<int32_t>(gone.size())) return "sweep: count";
        if (gone.size() > n) {
          expected = BERTH_E_CAPACITY;
        } else {
          for (const uint64_t id : gone) model.release_id(id, fence);
          std::copy(gone.begin(), gone.end(), expected_.begin());
        }
        statuses_ = expected_statuses_;
        break;
      }
    }
    const auto differs = [&](const char *what) { return "op " + std::to_string(op) + ": " + what; };
    if (returned != expected) return differs("status");
    if (statuses_ != expected_statuses_) return differs("statuses");
    if (actual_ != expected_) return differs("handles or ids");
    berth_slots_stats stats{};
    stats.struct_size = sizeof(stats);
    if (berth_slots_describe(slots, &stats) != BERTH_OK) return differs("describe");
    const berth_slots_stats wanted = model.describe();
    if (stats.used != wanted.used || stats.quarantined != wanted.quarantined || stats.free != wanted.free ||
        stats.high_water != wanted.high_water || stats.capacity != wanted.capacity ||
        stats.reserved != wanted.reserved) {
      return differs("counts");
    }
    return {};
  }

  uint64_t byte() {
    if (bytes_.empty()) return 0;
    const uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }

  // Few enough that they meet again; 0 and the largest among them.
  uint64_t next_id() {
    const uint64_t b = byte();
    if (b == 255) return ~uint64_t{0};
    return (b | (byte() % 2) << 8) * stride_;
  }

  // Handles that were given out, some of them long ago, and now and then a number that never was one.
  uint64_t next_handle() {
    const uint64_t b = byte();
    if (b < 250) return seen_[b % seen_.size()];
    return b << 32 | byte();
  }

  std::span<const uint8_t> bytes_;
  uint64_t stride_ = 1;
  std::vector<uint64_t> ids_, expected_, actual_;
  std::vector<int32_t> statuses_, expected_statuses_;
  std::vector<uint64_t> seen_ = std::vector<uint64_t>(200);
  size_t next_seen_ = 0;
  int64_t items_ = 0;
};

}  // namespace berth::fuzz
