// SPDX-License-Identifier: Apache-2.0
// Workload W4, default router without target ranks, at its limit: sort and binary heap, nothing checked, nothing grown.
#pragma once
#include <cstdint>

#if defined(__GNUC__)
#define BERTH_BENCH_API __attribute__((visibility("default")))
#else
#define BERTH_BENCH_API
#endif

extern "C" {
typedef struct berth_bench_router *berth_bench_router_t;

/* Working memory for calls of exactly that many ranks and requests. Null without memory. */
BERTH_BENCH_API berth_bench_router_t berth_bench_router_create(int32_t ranks, int32_t requests);
BERTH_BENCH_API void berth_bench_router_destroy(berth_bench_router_t router);
/*
 * Places all requests: order[i] is the request placed i-th, rank_of[i] its rank (both int32[requests]); active and
 * tokens are by rank, sizes by request. Returns the target count of a rank.
 */
BERTH_BENCH_API int32_t berth_bench_router_run(berth_bench_router_t router, const int32_t *active,
                                               const int64_t *tokens, const int32_t *sizes, int32_t cap, int32_t *order,
                                               int32_t *rank_of);
}
