// SPDX-License-Identifier: Apache-2.0
// libFuzzer: cmake -DBERTH_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++, then ./slots_fuzz.
#include "fuzz/slots_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string difference = berth::fuzz::SlotsRun({data, size}).run();
  if (!difference.empty()) {
    std::fprintf(stderr, "%s\n", difference.c_str());
    __builtin_trap();
  }
  return 0;
}
