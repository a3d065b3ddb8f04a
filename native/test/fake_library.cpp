// SPDX-License-Identifier: Apache-2.0
// A library of the right name and the wrong contents, for the loader's tests: what it says about itself is set by the
// build.
#include "berth/berth.h"

extern "C" {
#ifdef BERTH_FAKE_ABI_VERSION
int32_t berth_abi_version(void) { return BERTH_FAKE_ABI_VERSION; }
int64_t berth_build_id(void) { return static_cast<int64_t>(BERTH_FAKE_BUILD_ID); }
#else
BERTH_API int32_t berth_fake(void);
int32_t berth_fake(void) { return 0; }
#endif
}
