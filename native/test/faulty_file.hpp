// SPDX-License-Identifier: Apache-2.0
// A disk in memory that fails when it is told to.
#pragma once
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "device/file.hpp"

namespace berth::test {

class FaultyFile : public device::File {
 public:
  // Every nth call of a kind; 0: never.
  struct Faults {
    uint32_t read_fails = 0;     // EIO
    uint32_t write_fails = 0;    // ENOSPC
    uint32_t interrupted = 0;    // EINTR
    uint32_t short_moves = 0;    // half of what was asked for
    uint32_t nothing_moves = 0;  // 0 bytes, no error
  };
  FaultyFile(size_t bytes, const Faults &faults) : bytes_(bytes), faults_(faults) {}

  int64_t read(std::span<std::byte> to, int64_t offset) noexcept override {
    const int64_t n = moves(to.size(), offset, faults_.read_fails, EIO);
    if (n > 0) std::memcpy(to.data(), bytes_.data() + offset, static_cast<size_t>(n));
    return n;
  }
  int64_t write(std::span<const std::byte> from, int64_t offset) noexcept override {
    const int64_t n = moves(from.size(), offset, faults_.write_fails, ENOSPC);
    if (n > 0) std::memcpy(bytes_.data() + offset, from.data(), static_cast<size_t>(n));
    return n;
  }

 private:
  int64_t moves(size_t n, int64_t offset, uint32_t fails, int error) noexcept {
    const uint32_t call = 1 + calls_.fetch_add(1, std::memory_order_relaxed);
    const auto now = [&](uint32_t every) { return every != 0 && call % every == 0; };
    if (offset < 0 || offset + static_cast<int64_t>(n) > static_cast<int64_t>(bytes_.size())) return -EFBIG;
    if (now(fails)) return -error;
    if (now(faults_.interrupted)) return -EINTR;
    if (now(faults_.nothing_moves)) return 0;
    if (now(faults_.short_moves)) return static_cast<int64_t>((n + 1) / 2);
    return static_cast<int64_t>(n);
  }

  std::vector<std::byte> bytes_;
  Faults faults_;
  std::atomic<uint32_t> calls_{0};
};

}  // namespace berth::test
