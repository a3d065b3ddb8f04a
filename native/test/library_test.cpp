// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "berth/berth.h"
#include "test/check.hpp"

TEST(versionIsTheHeaders) { CHECK(berth_abi_version() == BERTH_ABI_VERSION); }

TEST(everyStatusHasATextAndUnknownOnesToo) {
  for (int32_t s = 0; s <= BERTH_E_SKIPPED; ++s) CHECK(std::strcmp(berth_status_text(s), "unknown status") != 0);
  CHECK(std::strcmp(berth_status_text(-1), "unknown status") == 0);
  CHECK(std::strcmp(berth_status_text(1000), "unknown status") == 0);
}

TEST_MAIN
