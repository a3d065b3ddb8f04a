// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>

#include "core/table.hpp"

namespace berth {

// Which of the listed rows run in this batch and how many tokens of each (spec 02 section 6): fills encoders, contexts,
// generations.
Status run_microbatch(Table &table, const berth_rules &rules, std::span<const int32_t> list);

// Sorts what was put into encoders, contexts and generations by adapter, those without first, else stable; with split
// also contexts that don't finish before those that do (spec 02 section 6.6). adapters: a generation or encoder may have one.
void sort_batch(Table &table, bool split, bool adapters);

// Where a context of forced chunks has to stop next: its next snapshot point, at most the end of its prompt.
int32_t next_snapshot(const Table &table, int32_t index);

}  // namespace berth
