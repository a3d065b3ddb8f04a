// SPDX-License-Identifier: Apache-2.0
#include "core/slots.hpp"

namespace berth {
SlotMap::SlotMap(int32_t capacity, int32_t reserved, bool) : capacity_(capacity), reserved_(reserved), id_(capacity), handle_(capacity) {
  for (int32_t i = 0; i < capacity; ++i) free_.insert(static_cast<uint32_t>(i));
}
Status SlotMap::acquire(uint64_t id, uint64_t, uint64_t &handle) {
  handle = 0;
  if (by_id_.count(id)) return Status::kAlready;
  if (free_.empty()) return Status::kExhausted;
  const uint32_t s = *free_.begin();
  free_.erase(free_.begin());
  const uint64_t generation = (handle_[s] >> 32) + 1;
  handle = handle_[s] = generation << 32 | s;
  id_[s] = id;
  by_id_[id] = handle;
  return Status::kOk;
}
Status SlotMap::find(uint64_t id, uint64_t &handle) const {
  const auto it = by_id_.find(id);
  handle = it == by_id_.end() ? 0 : it->second;
  return it == by_id_.end() ? Status::kNotFound : Status::kOk;
}
Status SlotMap::release(uint64_t handle, uint64_t) {
  const uint32_t s = static_cast<uint32_t>(handle);
  if (s >= handle_.size() || handle_[s] != handle || !by_id_.count(id_[s])) return Status::kStale;
  by_id_.erase(id_[s]);
  free_.insert(s);
  return Status::kOk;
}
}  // namespace berth
