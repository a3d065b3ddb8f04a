// SPDX-License-Identifier: Apache-2.0
#include "route_kv.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

void berth_bench_score_run(int32_t ranks, int32_t requests, const int32_t *matches, const int32_t *sizes, double weight,
                           double *load, int32_t *rank_of) {
  double sum = 0;
  for (int32_t r = 0; r < ranks; ++r) sum += load[r];
  for (int32_t i = 0; i < requests; ++i) {
    const int32_t *row = matches + static_cast<ptrdiff_t>(i) * ranks;
    const double size = sizes[i];
    const double total = std::max(sum, size);
    double least = std::numeric_limits<double>::infinity();
    int32_t best = 0;
    for (int32_t r = 0; r < ranks; ++r) {
      const double score = (size - row[r]) + weight * (load[r] / total * size);
      if (score < least) {
        least = score;
        best = r;
      }
    }
    const double missing = std::max(sizes[i] - row[best], 0);
    load[best] += missing;
    sum += missing;
    rank_of[i] = best;
  }
}
