// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace berth::device {

// Bytes at offsets, read and written from several threads at once. A test double fails where a disk would.
class File {
 public:
  virtual ~File() = default;
  // Bytes moved, perhaps fewer than asked for; 0: the file ends there; below 0: -errno.
  virtual int64_t read(std::span<std::byte> to, int64_t offset) noexcept = 0;
  virtual int64_t write(std::span<const std::byte> from, int64_t offset) noexcept = 0;
};

// All of it, in as many pieces as the file makes of it. 0, or errno; EIO where the file moves nothing and says nothing.
int32_t read_all(File &file, std::span<std::byte> to, int64_t offset) noexcept;
int32_t write_all(File &file, std::span<const std::byte> from, int64_t offset) noexcept;

// A file of that size without a name, which is gone when it is closed or the process ends: the space is taken at once
// where the file system can, else as it is written. Null: *error is errno, of the directory or (*space) of its size.
std::unique_ptr<File> temporary_file(const char *directory, int64_t bytes, int32_t *error, bool *space) noexcept;

}  // namespace berth::device
