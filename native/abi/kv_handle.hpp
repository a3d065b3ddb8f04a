// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/kv_cache.hpp"

// What a berth_kv_t points to: tests put a cache of their own making behind the C ABI.
struct berth_kv {
  berth::KvCache cache;
};
