// SPDX-License-Identifier: Apache-2.0
#include <new>

#include "abi/kv.hpp"
#include "berth/berth.h"
#include "core/rank_core.hpp"

using berth::KvLayout;
using berth::RankCore;

static_assert(sizeof(berth_admit) == 72);
static_assert(sizeof(berth_row) == 64 && sizeof(berth_cold_row) == 64);
static_assert(static_cast<int32_t>(berth::Status::kOk) == BERTH_OK &&
              static_cast<int32_t>(berth::Status::kArgument) == BERTH_E_ARGUMENT &&
              static_cast<int32_t>(berth::Status::kExhausted) == BERTH_E_EXHAUSTED &&
              static_cast<int32_t>(berth::Status::kAlready) == BERTH_E_ALREADY &&
              static_cast<int32_t>(berth::Status::kNotFound) == BERTH_E_NOT_FOUND &&
              static_cast<int32_t>(berth::Status::kStale) == BERTH_E_STALE &&
              static_cast<int32_t>(berth::Status::kMemory) == BERTH_E_MEMORY &&
              static_cast<int32_t>(berth::Status::kCapacity) == BERTH_E_CAPACITY &&
              static_cast<int32_t>(berth::Status::kState) == BERTH_E_STATE &&
              static_cast<int32_t>(berth::Status::kSkipped) == BERTH_E_SKIPPED);

struct berth_core {
  berth_core(const berth_core_config &config, const berth_kv_config &kv_config, const KvLayout &layout,
             std::span<const int64_t> pages)
      : kv{berth::KvCache(kv_config, layout, pages, berth::backend_for(kv_config, layout, pages))},
        rank(config, kv.cache) {}
  berth_kv kv;
  RankCore rank;
};

extern "C" {

int32_t berth_core_create(const berth_core_config *config, const berth_kv_config *kv, const berth_kv_buffer *buffers,
                          int32_t n, const int64_t *pages, int32_t pages_n, berth_core_t *out) {
  if (!config || !out || !RankCore::valid(*config)) return BERTH_E_ARGUMENT;
  try {
    if (!kv) {
      if (buffers || n != 0 || pages || pages_n != 0) return BERTH_E_ARGUMENT;
      const RankCore::Counted counted = RankCore::counted(*config);
      *out = new berth_core(*config, counted.config, counted.layout, counted.pages);
      return BERTH_OK;
    }
    KvLayout layout;
    if (!RankCore::valid(*config, *kv) || !berth::plan_cache(*kv, buffers, n, pages, pages_n, layout)) {
      return BERTH_E_ARGUMENT;
    }
    // A core starts a sequence in one step: it has nobody to wait for pages on their way.
    const std::span<const int64_t> slots(pages, static_cast<size_t>(pages_n));
    if (berth::needs_disk(*kv, layout, slots) || kv->most_address != 0) return BERTH_E_ARGUMENT;
    *out = new berth_core(*config, *kv, layout, slots);
  } catch (const std::bad_alloc &) {
    return BERTH_E_MEMORY;
  }
  return BERTH_OK;
}

int32_t berth_core_kv(berth_core_t core, berth_kv_t *out) {
  if (!core || !out) return BERTH_E_ARGUMENT;
  *out = &core->kv;
  return BERTH_OK;
}

int32_t berth_core_prepare(berth_core_t core, berth_kv_batch *batch) {
  return core && batch ? static_cast<int32_t>(core->rank.prepare(*batch)) : BERTH_E_ARGUMENT;
}

int32_t berth_core_blocks(berth_core_t core, int32_t row, int32_t life_cycle, int32_t *out, int32_t capacity,
                          int32_t *count) {
  if (!core || !out || !count || capacity < 0) return BERTH_E_ARGUMENT;
  return static_cast<int32_t>(core->rank.blocks(row, life_cycle, out, capacity, *count));
}

int32_t berth_core_destroy(berth_core_t core) {
  if (!core) return BERTH_E_ARGUMENT;
  delete core;
  return BERTH_OK;
}

int32_t berth_core_map(berth_core_t core, berth_core_memory *out) {
  if (!core || !out || out->struct_size != sizeof(berth_core_memory)) return BERTH_E_ARGUMENT;
  core->rank.map(*out);
  return BERTH_OK;
}

int32_t berth_core_schedule(berth_core_t core) {
  return core ? static_cast<int32_t>(core->rank.schedule()) : BERTH_E_ARGUMENT;
}

int32_t berth_core_begin(berth_core_t core) {
  return core ? static_cast<int32_t>(core->rank.begin()) : BERTH_E_ARGUMENT;
}

int32_t berth_core_select(berth_core_t core) {
  return core ? static_cast<int32_t>(core->rank.select()) : BERTH_E_ARGUMENT;
}

int32_t berth_core_table(berth_core_t core, berth_table_memory *out) {
  if (!core || !out || out->struct_size != sizeof(berth_table_memory)) return BERTH_E_ARGUMENT;
  core->rank.map(*out);
  return BERTH_OK;
}

int32_t berth_core_fits(berth_core_t core, int32_t state, int32_t prompt_tokens, int32_t max_new_tokens,
                        int32_t *reason, int64_t *required, int64_t *available) {
  if (!core || !reason || !required || !available || prompt_tokens < 1 || max_new_tokens < 1) return BERTH_E_ARGUMENT;
  if (state != BERTH_STATE_CONTEXT_INIT && state != BERTH_STATE_GENERATION_INIT) return BERTH_E_ARGUMENT;
  const berth::RankCore::Fit fit = core->rank.fits(state, prompt_tokens, max_new_tokens);
  *reason = fit.reason;
  *required = fit.required;
  *available = fit.available;
  return BERTH_OK;
}

int32_t berth_core_launch(berth_core_t core) {
  return core ? static_cast<int32_t>(core->rank.launch()) : BERTH_E_ARGUMENT;
}

int32_t berth_core_settle(berth_core_t core) {
  return core ? static_cast<int32_t>(core->rank.settle()) : BERTH_E_ARGUMENT;
}

int32_t berth_core_fault(berth_core_t core, int32_t launched_slot, int32_t collected_slot) {
  return core ? static_cast<int32_t>(core->rank.fault(launched_slot, collected_slot)) : BERTH_E_ARGUMENT;
}
}
