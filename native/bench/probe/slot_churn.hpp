// SPDX-License-Identifier: Apache-2.0
// Workload W1, slot map churn, at its limit: what the bookkeeping costs with nothing guarded.
#pragma once
#include <cstdint>

#if defined(__GNUC__)
#define BERTH_BENCH_API __attribute__((visibility("default")))
#else
#define BERTH_BENCH_API
#endif

extern "C" {
typedef struct berth_bench_churn *berth_bench_churn_t;

/* capacity slots of which 3/4 get an id; random: 0 = ids 1, 2, 3, ..., 1 = splitmix64 of those. Null without memory. */
BERTH_BENCH_API berth_bench_churn_t berth_bench_churn_create(int32_t capacity, int32_t random);
BERTH_BENCH_API void berth_bench_churn_destroy(berth_bench_churn_t churn);
/*
 * n times: release the id at position victims[i], acquire a slot for a fresh id and store it there, look up the id at
 * position lookups[i]. Returns the sum of the slots found.
 */
BERTH_BENCH_API int64_t berth_bench_churn_run(berth_bench_churn_t churn, const int32_t *victims, const int32_t *lookups,
                                              int32_t n);
}
