// SPDX-License-Identifier: Apache-2.0
// One iteration of a rank that only generates, at its limit: one pass over the very rows, demands and order that the
// scheduler reads, pages and tokens summed, who runs listed twice (who fits, who is in the batch). Nothing is checked but
// what makes a row a generation that can run.
#pragma once
#include <cstdint>

#if defined(__GNUC__)
#define BERTH_BENCH_API __attribute__((visibility("default")))
#else
#define BERTH_BENCH_API
#endif

extern "C" {
/*
 * rows: berth_row[]; demands: berth_demand[], one pool; order: int32[n]; fitting, batch: int32[n], out. Returns how many run,
 * 0 if they lack pages or tokens.
 */
BERTH_BENCH_API int32_t berth_bench_schedule(const void *rows, const void *demands, const int32_t *order, int32_t n,
                                             int64_t free_pages, int64_t max_tokens, int32_t *fitting, int32_t *batch);
}
