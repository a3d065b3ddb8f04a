// SPDX-License-Identifier: Apache-2.0
// Workload W5, a scheduler's whole step, at its limit: the bare bookkeeping of tokens, pages, tables and slots.
#pragma once
#include <cstdint>

#if defined(__GNUC__)
#define BERTH_BENCH_API __attribute__((visibility("default")))
#else
#define BERTH_BENCH_API
#endif

extern "C" {
typedef struct berth_bench_step *berth_bench_step_t;

/*
 * live requests with prompts of so many tokens and block tokens a page; their first output limits are spread from 1 to
 * limit, those of replacements are limit. Null without memory.
 */
BERTH_BENCH_API berth_bench_step_t berth_bench_step_create(int32_t live, int32_t prompt, int32_t block, int32_t limit);
BERTH_BENCH_API void berth_bench_step_destroy(berth_bench_step_t step);
/*
 * One step: a token to every request, a page where one begins, slots of the batch's tokens, an output record each; who
 * has come to its limit gives its pages back and is replaced by a request that gets those of its prompt. tokens[live]:
 * what the model made. Returns how many were replaced.
 */
BERTH_BENCH_API int32_t berth_bench_step_run(berth_bench_step_t step, const int32_t *tokens);
}
