// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <system_error>

#include "abi/kv.hpp"
#include "berth/berth.h"
#include "device/host.hpp"
#include "device/none.hpp"

using berth::KvCache;
using berth::KvHash;
using berth::KvLayout;
using berth::KvScope;
using berth::Status;
using berth::device::HostBackend;

static_assert(sizeof(berth_kv_buffer) == 40 && sizeof(berth_kv_op) == 96 && sizeof(berth_kv_event) == 80);
static_assert(sizeof(berth_kv_event_ring) == 64 && sizeof(berth_kv_pages) == 48);
static_assert(berth::device::kLevels == BERTH_KV_LEVELS && berth::PrefixTree::kLevels == BERTH_KV_LEVELS);
static_assert(static_cast<int32_t>(Status::kPending) == BERTH_E_PENDING &&
              static_cast<int32_t>(Status::kMissing) == BERTH_E_MISSING &&
              static_cast<int32_t>(Status::kIo) == BERTH_E_IO);
static_assert(KvScope::kLora * BERTH_KV_LORA == BERTH_KV_LORA && KvScope::kSalt * BERTH_KV_LORA == BERTH_KV_SALT);
static_assert(static_cast<int32_t>(HostBackend::Mode::kSynchronous) == BERTH_KV_SYNCHRONOUS &&
              static_cast<int32_t>(HostBackend::Mode::kEmulation) == BERTH_KV_EMULATION);
static_assert(static_cast<int32_t>(KvHash::kV1BlockKey) == BERTH_KV_V1_BLOCK_KEY &&
              static_cast<int32_t>(KvHash::kV2Sha256) == BERTH_KV_V2_SHA256 &&
              static_cast<int32_t>(KvHash::kV2Sha256_64) == BERTH_KV_V2_SHA256_64);

namespace {

std::unique_ptr<berth::device::Backend> backend_on(const berth_kv_config &config, const KvLayout &layout,
                                                   std::span<const int64_t> slots, HostBackend::Disk disk) {
  if (config.memory == BERTH_KV_COUNTED) return std::make_unique<berth::device::NoBackend>();
  return std::make_unique<HostBackend>(
      HostBackend::Config{&layout, config.rows, config.max_blocks, config.staging, HostBackend::Mode{config.mode},
                          config.memory == BERTH_KV_MEMORY, slots},
      std::move(disk));
}

constexpr int32_t kMaxItems = 1 << 20;

int32_t code(Status status) noexcept { return static_cast<int32_t>(status); }
bool valid_count(int32_t n) noexcept { return n >= 0 && n <= kMaxItems; }

// An array of n elements that can be there at all. Of an empty one the address doesn't matter.
template <class T>
bool valid_array(const T *array, int64_t n) noexcept {
  return n == 0 || (array != nullptr && reinterpret_cast<uintptr_t>(array) % alignof(T) == 0);
}

template <class T>
bool write(uint64_t address, const std::vector<T> &values) noexcept {
  T *to = reinterpret_cast<T *>(static_cast<uintptr_t>(address));
  if (!valid_array(to, 1)) return false;
  std::copy(values.begin(), values.end(), to);
  return true;
}

int32_t plan(const berth_kv_buffer *buffers, int32_t n, int32_t tokens_per_block, berth_kv_layout &out) {
  KvLayout layout;
  const Status status = KvLayout::plan({buffers, static_cast<size_t>(n)}, tokens_per_block, layout, out.bad_buffer);
  if (status != Status::kOk) return code(status);
  std::vector<berth_kv_place> places;
  for (const KvLayout::Place &p : layout.places()) {
    places.push_back({p.stride, p.offset, p.life_cycle, p.view, p.ordinal, p.expansion});
  }
  std::vector<berth_kv_view> views;
  for (const KvLayout::View &v : layout.views()) views.push_back({v.life_cycle, v.pool, v.scale, v.value_offset});
  std::vector<berth_kv_pool> pools;
  for (const KvLayout::Pool &p : layout.pools()) pools.push_back({p.slot_bytes, p.group, p.index});
  std::vector<berth_kv_life_cycle> lives;
  for (const berth::LifeCycle &l : layout.life_cycles()) lives.push_back({l.window, l.sinks, l.domain, l.group});
  std::vector<int64_t> slots;
  for (int32_t g = 0; g < layout.groups(); ++g) slots.push_back(layout.max_slots(g));
  if (!write(out.place_address, places) || !write(out.view_address, views) || !write(out.pool_address, pools) ||
      !write(out.life_cycle_address, lives) || !write(out.max_slots_address, slots)) {
    return BERTH_E_ARGUMENT;
  }
  out.life_cycles = static_cast<int32_t>(lives.size());
  out.groups = layout.groups();
  out.pools = static_cast<int32_t>(pools.size());
  out.views = static_cast<int32_t>(views.size());
  return BERTH_OK;
}

int32_t refuse(berth_kv_disk &disk, int32_t cause, int32_t error) noexcept {
  disk.cause = cause;
  disk.error = error;
  char text[sizeof disk.text];
  std::snprintf(disk.text, sizeof disk.text, "%s", strerror_r(error, text, sizeof text));
  return BERTH_E_IO;
}

// The disk level's file, or why there can't be one.
int32_t open_disk(berth_kv_disk &disk, const KvLayout &layout, std::span<const int64_t> slots, HostBackend::Disk &out) {
  const char *name = reinterpret_cast<const char *>(static_cast<uintptr_t>(disk.directory_address));
  if (disk.threads < 1 || disk.threads > 64 || disk.depth < 2 || disk.depth > 65536 || name == nullptr ||
      disk.directory_bytes < 1 || disk.directory_bytes > 4095 ||
      std::memchr(name, 0, static_cast<size_t>(disk.directory_bytes)) != nullptr) {
    return BERTH_E_ARGUMENT;
  }
  const std::string directory(name, static_cast<size_t>(disk.directory_bytes));
  disk.error = disk.cause = 0;
  disk.bytes = HostBackend::disk_bytes(layout, slots);
  if (disk.bytes < 0) return refuse(disk, BERTH_KV_DISK_SPACE, EFBIG);
  if (disk.bytes == 0) return BERTH_OK;
  int32_t error;
  bool space;
  out.file = berth::device::temporary_file(directory.c_str(), disk.bytes, &error, &space);
  if (!out.file) return refuse(disk, space ? BERTH_KV_DISK_SPACE : BERTH_KV_DISK_DIRECTORY, error);
  out.threads = disk.threads;
  out.depth = disk.depth;
  return BERTH_OK;
}

}  // namespace

std::unique_ptr<berth::device::Backend> berth::backend_for(const berth_kv_config &config, const KvLayout &layout,
                                                           std::span<const int64_t> slots) {
  return backend_on(config, layout, slots, {});
}

bool berth::needs_disk(const berth_kv_config &config, const KvLayout &layout, std::span<const int64_t> slots) noexcept {
  return config.memory == BERTH_KV_MEMORY && HostBackend::disk_bytes(layout, slots) != 0;
}

bool berth::plan_cache(const berth_kv_config &config, const berth_kv_buffer *buffers, int32_t n, const int64_t *pages,
                       int32_t pages_n, KvLayout &layout) {
  if (n < 1 || n > KvLayout::kMaxBuffers || !valid_array(buffers, n) || pages_n < 1 || !valid_array(pages, pages_n)) {
    return false;
  }
  int32_t bad;
  return KvLayout::plan({buffers, static_cast<size_t>(n)}, config.tokens_per_block, layout, bad) == Status::kOk &&
         KvCache::valid(config, layout, {pages, static_cast<size_t>(pages_n)});
}

extern "C" {

int32_t berth_kv_plan(const berth_kv_buffer *buffers, int32_t n, int32_t tokens_per_block, berth_kv_layout *out) {
  if (out == nullptr || out->struct_size != sizeof(berth_kv_layout) || n < 1 || !valid_array(buffers, n)) {
    return BERTH_E_ARGUMENT;
  }
  out->bad_buffer = -1;
  if (n > KvLayout::kMaxBuffers) return BERTH_E_ARGUMENT;
  try {
    return plan(buffers, n, tokens_per_block, *out);
  } catch (const std::bad_alloc &) {
    return BERTH_E_MEMORY;
  }
}

int32_t berth_kv_create(const berth_kv_config *config, const berth_kv_buffer *buffers, int32_t n, const int64_t *pages,
                        int32_t pages_n, berth_kv_t *out) {
  if (config == nullptr || config->struct_size != sizeof(berth_kv_config) || out == nullptr) return BERTH_E_ARGUMENT;
  try {
    KvLayout layout;
    if (!berth::plan_cache(*config, buffers, n, pages, pages_n, layout)) return BERTH_E_ARGUMENT;
    const std::span<const int64_t> slots(pages, static_cast<size_t>(pages_n));
    const auto *most = reinterpret_cast<const int64_t *>(static_cast<uintptr_t>(config->most_address));
    const std::span<const int64_t> room(most == nullptr ? pages : most, slots.size());
    if (!valid_array(room.data(), 1) || !KvCache::valid(*config, layout, room)) return BERTH_E_ARGUMENT;
    for (size_t i = 0; i < slots.size(); ++i) {
      const bool disk_level = i >= slots.size() / BERTH_KV_LEVELS * BERTH_KV_DISK;
      if (room[i] < slots[i] || (disk_level && room[i] != slots[i])) return BERTH_E_ARGUMENT;
    }
    auto *record = reinterpret_cast<berth_kv_disk *>(static_cast<uintptr_t>(config->disk_address));
    if (record != nullptr && (!valid_array(record, 1) || record->struct_size != sizeof(berth_kv_disk))) {
      return BERTH_E_ARGUMENT;
    }
    HostBackend::Disk disk;
    if (berth::needs_disk(*config, layout, slots)) {
      if (record == nullptr) return BERTH_E_ARGUMENT;
      if (const int32_t status = open_disk(*record, layout, slots, disk); status != BERTH_OK) return status;
    }
    try {
      *out = new berth_kv{KvCache(*config, layout, slots, backend_on(*config, layout, room, std::move(disk)), room)};
    } catch (const std::system_error &e) {
      return record == nullptr ? BERTH_E_MEMORY : refuse(*record, BERTH_KV_DISK_THREADS, e.code().value());
    }
    return BERTH_OK;
  } catch (const std::bad_alloc &) {
    return BERTH_E_MEMORY;
  }
}

int32_t berth_kv_destroy(berth_kv_t kv) {
  if (kv == nullptr) return BERTH_E_ARGUMENT;
  std::unique_ptr<berth_kv>{kv};
  return BERTH_OK;
}

int32_t berth_kv_map(berth_kv_t kv, berth_kv_memory *out) {
  if (kv == nullptr || out == nullptr || out->struct_size != sizeof(berth_kv_memory)) return BERTH_E_ARGUMENT;
  kv->cache.map(*out);
  return BERTH_OK;
}

int32_t berth_kv_apply(berth_kv_t kv, berth_kv_op *ops, int32_t n) {
  if (kv == nullptr || !valid_count(n) || !valid_array(ops, n)) return BERTH_E_ARGUMENT;
  int32_t first = BERTH_OK;
  for (int32_t i = 0; i < n; ++i) {
    ops[i].status = code(kv->cache.apply(ops[i]));
    if (first == BERTH_OK) first = ops[i].status;
  }
  return first;
}

int32_t berth_kv_grow(berth_kv_t kv, const uint64_t *handles, const int32_t *grow, const int32_t *advance, int32_t n,
                      int32_t *statuses) {
  if (kv == nullptr || !valid_count(n) || !valid_array(handles, n) || !valid_array(statuses, n) ||
      (grow != nullptr && !valid_array(grow, n)) || (advance != nullptr && !valid_array(advance, n))) {
    return BERTH_E_ARGUMENT;
  }
  int32_t first = BERTH_OK;
  for (int32_t i = 0; i < n; ++i) {
    if (i + 8 < n) kv->cache.prefetch(handles[i + 8]);
    statuses[i] = code(kv->cache.grow(handles[i], grow == nullptr ? 0 : grow[i], advance == nullptr ? 0 : advance[i]));
    if (first == BERTH_OK) first = statuses[i];
  }
  return first;
}

int32_t berth_kv_probe(berth_kv_t kv, uint64_t lora, uint64_t salt, int32_t scope, const int64_t *offsets, int32_t n,
                       int32_t *matched) {
  const KvScope key{lora, salt, static_cast<uint32_t>(scope)};
  if (kv == nullptr || !key.valid() || !valid_count(n) || !valid_array(offsets, int64_t{n} + 1) ||
      !valid_array(matched, n)) {
    return BERTH_E_ARGUMENT;
  }
  return code(kv->cache.probe(key, {offsets, static_cast<size_t>(n) + 1}, matched));
}

int32_t berth_kv_prepare(berth_kv_t kv, berth_kv_batch *batch) {
  return kv == nullptr || batch == nullptr ? BERTH_E_ARGUMENT : code(kv->cache.prepare(*batch));
}

int32_t berth_kv_epoch(berth_kv_t kv, uint64_t launch, uint64_t complete) {
  return kv == nullptr ? BERTH_E_ARGUMENT : code(kv->cache.epoch(launch, complete));
}

int32_t berth_kv_clock(berth_kv_t kv, int64_t now) {
  return kv == nullptr ? BERTH_E_ARGUMENT : code(kv->cache.clock(now));
}

int32_t berth_kv_run(berth_kv_t kv, int32_t n, int32_t *done) {
  if (kv == nullptr || n < 0 || done == nullptr) return BERTH_E_ARGUMENT;
  *done = kv->cache.backend().run(n);
  return BERTH_OK;
}

int32_t berth_kv_poll(berth_kv_t kv, int32_t at_least, int32_t at_most, int32_t *settled) {
  if (kv == nullptr || at_least < 0 || at_most < at_least || settled == nullptr) return BERTH_E_ARGUMENT;
  *settled = kv->cache.poll(at_least, at_most);
  return BERTH_OK;
}

int32_t berth_kv_adjust(berth_kv_t kv, const int64_t *pages, int32_t pages_n, int32_t *pool, int64_t *deficit) {
  if (kv == nullptr || pages_n < 1 || !valid_array(pages, pages_n) || pool == nullptr || deficit == nullptr) {
    return BERTH_E_ARGUMENT;
  }
  *pool = -1;
  *deficit = 0;
  try {
    return code(kv->cache.adjust({pages, static_cast<size_t>(pages_n)}, *pool, *deficit));
  } catch (const std::bad_alloc &) {
    return BERTH_E_MEMORY;
  }
}

int32_t berth_kv_quota(berth_kv_t kv, int32_t tenant, int64_t blocks) {
  return kv == nullptr ? BERTH_E_ARGUMENT : code(kv->cache.quota(tenant, blocks));
}

int32_t berth_kv_blocks(berth_kv_t kv, uint64_t handle, int32_t life_cycle, int32_t beam, int32_t *out,
                        int32_t capacity, int32_t *count) {
  if (kv == nullptr || capacity < 0 || !valid_array(out, capacity) || count == nullptr) return BERTH_E_ARGUMENT;
  return code(kv->cache.blocks(handle, life_cycle, beam, out, capacity, *count));
}

int32_t berth_kv_sequence(berth_kv_t kv, uint64_t handle, int32_t *out) {
  if (kv == nullptr || !valid_array(out, 8)) return BERTH_E_ARGUMENT;
  return code(kv->cache.sequence(handle, out));
}

int32_t berth_kv_describe(berth_kv_t kv, berth_kv_stats *stats, berth_kv_pages *out, int32_t pages_n) {
  if (kv == nullptr || stats == nullptr || stats->struct_size != sizeof(berth_kv_stats) ||
      pages_n != BERTH_KV_LEVELS * kv->cache.layout().groups() || !valid_array(out, pages_n)) {
    return BERTH_E_ARGUMENT;
  }
  kv->cache.describe(*stats, out);
  return BERTH_OK;
}

int32_t berth_kv_snapshot(berth_kv_t kv, berth_kv_event *events, int32_t *tokens, int32_t capacity, int32_t *count,
                          uint64_t *sequence) {
  if (kv == nullptr || capacity < 0 || !valid_array(events, capacity) || !valid_array(tokens, capacity) ||
      count == nullptr || sequence == nullptr) {
    return BERTH_E_ARGUMENT;
  }
  return code(kv->cache.snapshot(events, tokens, capacity, *count, *sequence));
}

int32_t berth_kv_reset(berth_kv_t kv) {
  if (kv == nullptr) return BERTH_E_ARGUMENT;
  kv->cache.reset();
  return BERTH_OK;
}

int32_t berth_kv_check(berth_kv_t kv, int32_t *broken) {
  if (kv == nullptr || broken == nullptr) return BERTH_E_ARGUMENT;
  try {
    *broken = kv->cache.check();
    return *broken == 0 ? BERTH_OK : BERTH_E_STATE;
  } catch (const std::bad_alloc &) {
    return BERTH_E_MEMORY;
  }
}

int32_t berth_kv_page(berth_kv_t kv, int32_t level, int32_t pool, int32_t slot, uint64_t *address, int64_t *bytes) {
  if (kv == nullptr || address == nullptr || bytes == nullptr || level < 0 || level >= BERTH_KV_LEVELS) {
    return BERTH_E_ARGUMENT;
  }
  const auto &pools = kv->cache.layout().pools();
  if (pool < 0 || pool >= static_cast<int32_t>(pools.size())) return BERTH_E_ARGUMENT;
  const KvLayout::Pool &p = pools[static_cast<size_t>(pool)];
  if (slot < 0 || slot >= kv->cache.slots(level, p.group)) return BERTH_E_ARGUMENT;
  std::byte *base = kv->cache.backend().pool(level, pool);
  *address = base == nullptr ? 0 : reinterpret_cast<uintptr_t>(base + slot * p.slot_bytes);
  *bytes = base == nullptr ? 0 : p.slot_bytes;
  return BERTH_OK;
}

int32_t berth_kv_hash_blocks(int32_t algorithm, uint64_t lora, uint64_t salt, int32_t scope, const uint8_t *parent,
                             const int32_t *tokens, int32_t n, int32_t tokens_per_block, uint8_t *out, int64_t capacity,
                             uint8_t *digest) {
  const KvScope key{lora, salt, static_cast<uint32_t>(scope)};
  if (algorithm < BERTH_KV_V1_BLOCK_KEY || algorithm > BERTH_KV_V2_SHA256_64 || !key.valid() || n < 0 ||
      tokens_per_block < 1 || !valid_array(tokens, n) || capacity < 0 || !valid_array(out, capacity)) {
    return BERTH_E_ARGUMENT;
  }
  const int64_t blocks = (int64_t{n} + tokens_per_block - 1) / tokens_per_block;
  if (blocks * berth::hash_bytes(KvHash{algorithm}) > capacity) return BERTH_E_CAPACITY;
  berth::hash_blocks(KvHash{algorithm}, key, parent, {tokens, static_cast<size_t>(n)}, tokens_per_block, out, digest);
  return BERTH_OK;
}
}
