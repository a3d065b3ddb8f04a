// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

#include "core/status.hpp"

namespace berth {

class SlotMap {
 public:
  SlotMap(int32_t capacity, int32_t reserved, bool quarantine);
  Status acquire(uint64_t id, uint64_t now, uint64_t &handle);
  Status find(uint64_t id, uint64_t &handle) const;
  Status release(uint64_t handle, uint64_t fence);
  int32_t used() const { return static_cast<int32_t>(by_id_.size()); }
  int32_t capacity() const { return capacity_; }
  int32_t reserved() const { return reserved_; }

 private:
  int32_t capacity_;
  int32_t reserved_;
  std::set<uint32_t> free_;
  std::unordered_map<uint64_t, uint64_t> by_id_;
  std::vector<uint64_t> id_, handle_;
};

}  // namespace berth
