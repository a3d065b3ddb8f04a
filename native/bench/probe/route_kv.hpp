// SPDX-License-Identifier: Apache-2.0
// Workload W4, KV-aware router at its limit: the scores of all ranks for every request, in the order given. No sort, no
// caps, no ties, nothing checked.
#pragma once
#include <cstdint>

#if defined(__GNUC__)
#define BERTH_BENCH_API __attribute__((visibility("default")))
#else
#define BERTH_BENCH_API
#endif

extern "C" {
/*
 * Places every request on the rank of the least (size - match) + weight * (load / total * size): rank_of[i] is its rank
 * (int32[requests]). matches is int32[requests][ranks], load double[ranks] and is changed.
 */
BERTH_BENCH_API void berth_bench_score_run(int32_t ranks, int32_t requests, const int32_t *matches,
                                           const int32_t *sizes, double weight, double *load, int32_t *rank_of);
}
