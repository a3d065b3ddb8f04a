// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes are a configuration and a run of operations on one rank core.
#include <cstddef>
#include <cstdint>

#include "fuzz/rank_core_ops.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  berth::test::Ops(data, size).run();
  return 0;
}
