// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/table.hpp"

namespace berth {

// The capacity stage of somebody else, between two calls: what is to be decided is laid out, what was decided is
// checked and carried out as far as there are seats, leases, pages, places and tokens.

// Before: who isn't selected waits at a gate, or for what keeps it outside.
void begin_selection(Table &table, const berth_rules &rules, SeatGate &gate);

// After: the rows of fitting, state 8 among them, are offered to the batch in their order, those of paused give way
// first. kRow names the first row that can't be selected, and nothing happened.
Status run_selection(Table &table, const berth_rules &rules, SeatGate &gate);

}  // namespace berth
