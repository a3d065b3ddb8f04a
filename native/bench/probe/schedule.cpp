// SPDX-License-Identifier: Apache-2.0
#include "schedule.hpp"

#include "berth/berth.h"

int32_t berth_bench_schedule(const void *rows, const void *demands, const int32_t *order, int32_t n, int64_t free_pages,
                             int64_t max_tokens, int32_t *fitting, int32_t *batch) {
  const auto *row_of = static_cast<const berth_row *>(rows);
  const auto *demand_of = static_cast<const berth_demand *>(demands);
  int64_t pages = 0, tokens = 0;
  int32_t taken = 0;
  for (int32_t i = 0; i < n; ++i) {
    const int32_t index = order[i];
    const berth_row &row = row_of[index];
    if (row.state != BERTH_STATE_GENERATION || row.in_flight != 0 || row.adapter >= 0 || row.wait_reason != 0) continue;
    pages += demand_of[index].remaining - demand_of[index].credit;
    tokens += row.beam_width + row.draft_tokens;
    fitting[taken] = index;
    batch[taken++] = index;
  }
  return pages <= free_pages && tokens <= max_tokens ? taken : 0;
}
