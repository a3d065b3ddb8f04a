// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace berth {

// The status codes of berth.h under C++ names; abi/ asserts that the numbers agree.
enum class Status : int32_t {
  kOk = 0,
  kArgument = 1,
  kExhausted = 2,
  kAlready = 3,
  kNotFound = 4,
  kStale = 5,
  kMemory = 6,
  kCapacity = 7,
  kState = 8,
  kSkipped = 9,
  kRow = 10,
  kPending = 11,
  kMissing = 12,
  kIo = 13,
};

}  // namespace berth
