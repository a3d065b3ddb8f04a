// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "device/backend.hpp"

namespace berth::device {

// For pages that are only counted: nothing is there to be written.
class NoBackend final : public Backend {
 public:
  void edit(int32_t, int32_t, int32_t, int32_t, const int32_t *) noexcept override {}
  void copy(const PageCopy &) noexcept override {}
  Status gather(const Gather &) noexcept override { return Status::kState; }
  uint64_t submitted() const noexcept override { return 0; }
  uint64_t completed() const noexcept override { return 0; }
  int32_t run(int32_t) noexcept override { return 0; }
  std::byte *pool(int32_t, int32_t) noexcept override { return nullptr; }
  const int32_t *table(int32_t) const noexcept override { return nullptr; }
};

}  // namespace berth::device
