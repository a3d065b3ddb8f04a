// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes are a shape and a history of one KV cache.
#include <cstddef>
#include <cstdint>

#include "fuzz/kv_ops.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 4) return 0;
  berth::test::Choices choices(data + 1, size - 1);
  berth::test::KvWorld world(berth::test::kv_shape(data[0], choices), choices);
  world.run(static_cast<int32_t>(size));
  return 0;
}
