// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>

#include "core/kv_cache.hpp"

struct berth_kv {
  berth::KvCache cache;
};

namespace berth {

// What a cache of this configuration works on, without a disk level. Throws std::bad_alloc.
std::unique_ptr<device::Backend> backend_for(const berth_kv_config &config, const KvLayout &layout,
                                             std::span<const int64_t> slots);

// Whether there are pages on the disk level that have memory.
bool needs_disk(const berth_kv_config &config, const KvLayout &layout, std::span<const int64_t> slots) noexcept;

// Plans the layout of a cache; false if there can be none with these pages. Throws std::bad_alloc.
bool plan_cache(const berth_kv_config &config, const berth_kv_buffer *buffers, int32_t n, const int64_t *pages,
                int32_t pages_n, KvLayout &layout);

}  // namespace berth
