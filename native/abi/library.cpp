// SPDX-License-Identifier: Apache-2.0
#include "berth/berth.h"

extern "C" {

int32_t berth_abi_version(void) { return BERTH_ABI_VERSION; }

int64_t berth_build_id(void) { return static_cast<int64_t>(BERTH_HEADER_HASH); }

const char *berth_status_text(int32_t status) {
  switch (status) {
    case BERTH_OK: return "ok";
    case BERTH_E_ARGUMENT: return "argument out of range";
    case BERTH_E_EXHAUSTED: return "no free slot";
    case BERTH_E_ALREADY: return "the id already holds a slot";
    case BERTH_E_NOT_FOUND: return "unknown or already released";
    case BERTH_E_STALE: return "stale handle";
    case BERTH_E_MEMORY: return "out of memory";
    case BERTH_E_CAPACITY: return "output array too small";
    case BERTH_E_STATE: return "not legal in this state";
    case BERTH_E_SKIPPED: return "not tried, an earlier item failed";
    case BERTH_E_ROW: return "a row isn't fit to be scheduled";
    case BERTH_E_PENDING: return "what it needs is on its way";
    case BERTH_E_MISSING: return "pages were lost, the rest has to be computed again";
    case BERTH_E_IO: return "input or output failed";
    default: return "unknown status";
  }
}
}
