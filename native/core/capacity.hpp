// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/table.hpp"

namespace berth {

// Which requests have room until when (spec 02 section 3): fills fitting, receiving and paused from the active list.
// With BERTH_STAGE_BATCH what fits goes on into the batch stage as it is taken.
// gate: null where nobody hands out seats.
Status run_capacity(Table &table, const berth_rules &rules, SeatGate *gate = nullptr);

}  // namespace berth
