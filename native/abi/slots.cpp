// SPDX-License-Identifier: Apache-2.0
#include "core/slots.hpp"

#include <cstring>
#include <memory>
#include <new>

#include "berth/berth.h"

using berth::BatchMode;
using berth::SlotMap;
using berth::Status;

static_assert(static_cast<int32_t>(Status::kOk) == BERTH_OK);
static_assert(static_cast<int32_t>(Status::kArgument) == BERTH_E_ARGUMENT);
static_assert(static_cast<int32_t>(Status::kExhausted) == BERTH_E_EXHAUSTED);
static_assert(static_cast<int32_t>(Status::kAlready) == BERTH_E_ALREADY);
static_assert(static_cast<int32_t>(Status::kNotFound) == BERTH_E_NOT_FOUND);
static_assert(static_cast<int32_t>(Status::kStale) == BERTH_E_STALE);
static_assert(static_cast<int32_t>(Status::kMemory) == BERTH_E_MEMORY);
static_assert(static_cast<int32_t>(Status::kCapacity) == BERTH_E_CAPACITY);
static_assert(static_cast<int32_t>(Status::kState) == BERTH_E_STATE);
static_assert(static_cast<int32_t>(Status::kSkipped) == BERTH_E_SKIPPED);
static_assert(static_cast<int32_t>(BatchMode::kAllOrNothing) == BERTH_ALL_OR_NOTHING);
static_assert(static_cast<int32_t>(BatchMode::kEach) == BERTH_EACH);

struct berth_slots {
  SlotMap map;
};

namespace {

bool valid_count(int32_t n) noexcept { return n >= 0 && n <= SlotMap::kMaxCapacity; }
bool valid_mode(int32_t mode) noexcept { return mode == BERTH_ALL_OR_NOTHING || mode == BERTH_EACH; }

// An array of n elements that can be there at all. Of an empty one the address doesn't matter.
template <class T>
bool valid_array(const T *array, int32_t n) noexcept {
  return n == 0 || (array != nullptr && reinterpret_cast<uintptr_t>(array) % alignof(T) == 0);
}

template <class T>
std::span<const T> span(const T *array, int32_t n) noexcept {
  return {n == 0 ? nullptr : array, static_cast<size_t>(n)};
}

int32_t code(Status status) noexcept { return static_cast<int32_t>(status); }

}  // namespace

extern "C" {

int32_t berth_slots_create(const berth_slots_config *config, berth_slots_t *out) {
  if (config == nullptr || out == nullptr || config->struct_size != sizeof(berth_slots_config) ||
      config->capacity < 1 || config->capacity > SlotMap::kMaxCapacity || config->reserved < 0 ||
      config->reserved > SlotMap::kMaxCapacity || config->quarantine < 0 || config->quarantine > 1) {
    return BERTH_E_ARGUMENT;
  }
  try {
    *out = new berth_slots{SlotMap(config->capacity, config->reserved, config->quarantine == 1)};
    return BERTH_OK;
  } catch (const std::bad_alloc &) {
    return BERTH_E_MEMORY;
  }
}

int32_t berth_slots_destroy(berth_slots_t slots) {
  if (slots == nullptr) return BERTH_E_ARGUMENT;
  std::unique_ptr<berth_slots>{slots};
  return BERTH_OK;
}

int32_t berth_slots_acquire(berth_slots_t slots, const uint64_t *ids, int32_t n, int32_t mode, uint64_t now,
                            uint64_t *handles, int32_t *statuses) {
  if (slots == nullptr || !valid_count(n) || !valid_mode(mode) || !valid_array(ids, n) || !valid_array(handles, n) ||
      !valid_array(statuses, n)) {
    return BERTH_E_ARGUMENT;
  }
  return code(slots->map.acquire(span(ids, n), BatchMode{mode}, now, handles, statuses));
}

int32_t berth_slots_find(berth_slots_t slots, const uint64_t *ids, int32_t n, uint64_t *handles, int32_t *statuses) {
  if (slots == nullptr || !valid_count(n) || !valid_array(ids, n) || !valid_array(handles, n) ||
      !valid_array(statuses, n)) {
    return BERTH_E_ARGUMENT;
  }
  slots->map.find(span(ids, n), handles, statuses);
  return BERTH_OK;
}

int32_t berth_slots_touch(berth_slots_t slots, const uint64_t *handles, int32_t n, uint64_t now, int32_t *statuses) {
  if (slots == nullptr || !valid_count(n) || !valid_array(handles, n) || !valid_array(statuses, n)) {
    return BERTH_E_ARGUMENT;
  }
  for (int32_t i = 0; i < n; ++i) statuses[i] = code(slots->map.touch(handles[i], now));
  return BERTH_OK;
}

int32_t berth_slots_release(berth_slots_t slots, const uint64_t *handles, int32_t n, int32_t mode, uint64_t fence,
                            int32_t *statuses) {
  if (slots == nullptr || !valid_count(n) || !valid_mode(mode) || !valid_array(handles, n) ||
      !valid_array(statuses, n)) {
    return BERTH_E_ARGUMENT;
  }
  return code(slots->map.release(span(handles, n), BatchMode{mode}, fence, statuses));
}

int32_t berth_slots_release_ids(berth_slots_t slots, const uint64_t *ids, int32_t n, int32_t mode, uint64_t fence,
                                int32_t *statuses) {
  if (slots == nullptr || !valid_count(n) || !valid_mode(mode) || !valid_array(ids, n) || !valid_array(statuses, n)) {
    return BERTH_E_ARGUMENT;
  }
  return code(slots->map.release_ids(span(ids, n), BatchMode{mode}, fence, statuses));
}

int32_t berth_slots_complete(berth_slots_t slots, uint64_t epoch, int32_t *reusable) {
  if (slots == nullptr || reusable == nullptr) return BERTH_E_ARGUMENT;
  *reusable = slots->map.complete(epoch);
  return BERTH_OK;
}

int32_t berth_slots_sweep(berth_slots_t slots, uint64_t now, uint64_t idle, uint64_t fence, uint64_t *ids,
                          int32_t capacity, int32_t *count) {
  if (slots == nullptr || count == nullptr || !valid_count(capacity) || !valid_array(ids, capacity)) {
    return BERTH_E_ARGUMENT;
  }
  *count = slots->map.idle(now, idle);
  if (*count > capacity) return BERTH_E_CAPACITY;
  slots->map.sweep(now, idle, fence, ids);
  return BERTH_OK;
}

int32_t berth_slots_rows(berth_slots_t slots, const uint64_t *handles, int32_t n, int32_t contexts, int32_t beam,
                         int32_t width, int32_t replicate, int32_t *rows, int32_t capacity, int32_t *count) {
  if (slots == nullptr || count == nullptr || n < 0 || n > slots->map.capacity() || contexts < 0 || contexts > n ||
      width < 1 || width > INT32_MAX / slots->map.capacity() || beam < 1 || replicate < 0 || replicate > 1 ||
      (beam > width && replicate == 0) || capacity < 0 || !valid_array(handles, n) || !valid_array(rows, capacity)) {
    return BERTH_E_ARGUMENT;
  }
  const int64_t needed = contexts + static_cast<int64_t>(beam) * (n - contexts);
  if (needed > capacity) return BERTH_E_CAPACITY;
  const Status status = slots->map.rows(span(handles, n), {contexts, beam, width, replicate == 1}, rows);
  if (status == Status::kOk) *count = static_cast<int32_t>(needed);
  return code(status);
}

int32_t berth_slots_describe(berth_slots_t slots, berth_slots_stats *out) {
  if (slots == nullptr || out == nullptr || out->struct_size != sizeof(berth_slots_stats)) return BERTH_E_ARGUMENT;
  const SlotMap &map = slots->map;
  out->capacity = map.capacity();
  out->reserved = map.reserved();
  out->used = map.used();
  out->quarantined = map.quarantined();
  out->free = map.capacity() - map.used() - map.quarantined();
  out->high_water = map.high_water();
  out->padding = 0;
  return BERTH_OK;
}
}
