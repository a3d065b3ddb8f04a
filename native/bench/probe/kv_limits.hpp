// SPDX-License-Identifier: Apache-2.0
// Workloads W2, W3 and W6 at their limit: the least native code that does the bookkeeping, with nothing guarded.
#pragma once
#include <cstdint>

#if defined(__GNUC__)
#define BERTH_BENCH_API __attribute__((visibility("default")))
#else
#define BERTH_BENCH_API
#endif

extern "C" {
/* W2: pages as a stack with a count of references each; sequences of `blocks` pages. */
typedef struct berth_bench_pages *berth_bench_pages_t;
BERTH_BENCH_API berth_bench_pages_t berth_bench_pages_create(int32_t pages, int32_t sequences, int32_t blocks);
BERTH_BENCH_API void berth_bench_pages_destroy(berth_bench_pages_t pages);
/* n times: frees the sequence victims[i] and takes all its pages at once, or `bulk` at once and the others one by one.
 */
BERTH_BENCH_API int64_t berth_bench_pages_run(berth_bench_pages_t pages, const int32_t *victims, int32_t n,
                                              int32_t bulk);

/* A decode step: one counter in each of n records of 64 bytes moves on, another where it passes a block's end. */
BERTH_BENCH_API void berth_bench_touch(int32_t *records, int32_t n, int32_t block);

/* W3: a chain of 64-bit hashes over blocks, one open-addressing map, least recently used pages in a list. No comparison
 * of tokens. */
typedef struct berth_bench_prefix *berth_bench_prefix_t;
BERTH_BENCH_API berth_bench_prefix_t berth_bench_prefix_create(int32_t pages, int32_t block_tokens);
BERTH_BENCH_API void berth_bench_prefix_destroy(berth_bench_prefix_t prefix);
/* The whole life of a request but its release: hash, look up, pin, take the others (evicting), commit. pages[blocks]
 * receives what it holds. Returns the blocks found. */
BERTH_BENCH_API int32_t berth_bench_prefix_open(berth_bench_prefix_t prefix, const int32_t *tokens, int32_t n,
                                                int32_t *pages);
BERTH_BENCH_API void berth_bench_prefix_close(berth_bench_prefix_t prefix, const int32_t *pages, int32_t n);
/* Hash, look up, pin and let go. */
BERTH_BENCH_API int32_t berth_bench_prefix_find(berth_bench_prefix_t prefix, const int32_t *tokens, int32_t n,
                                                int32_t *pages);

/* W6: the first used entries of each of `rows` rows of `width` entries, copied twice: to rows of 2 * width. */
BERTH_BENCH_API void berth_bench_rows(int32_t *to, const int32_t *from, int32_t rows, int32_t width, int32_t used);
}
