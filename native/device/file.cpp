// SPDX-License-Identifier: Apache-2.0
#include "device/file.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <string>

namespace berth::device {
namespace {

class OsFile : public File {
 public:
  explicit OsFile(int fd) noexcept : fd_(fd) {}
  OsFile(const OsFile &) = delete;
  OsFile &operator=(const OsFile &) = delete;
  ~OsFile() override { close(fd_); }
  int64_t read(std::span<std::byte> to, int64_t offset) noexcept override {
    const ssize_t n = pread(fd_, to.data(), to.size(), offset);
    return n < 0 ? -errno : n;
  }
  int64_t write(std::span<const std::byte> from, int64_t offset) noexcept override {
    const ssize_t n = pwrite(fd_, from.data(), from.size(), offset);
    return n < 0 ? -errno : n;
  }

 private:
  int fd_;
};

template <class Bytes, class Move>
int32_t all(Bytes bytes, int64_t offset, Move move) noexcept {
  while (!bytes.empty()) {
    const int64_t n = move(bytes, offset);
    if (n == -EINTR) continue;
    if (n < 0) return static_cast<int32_t>(-n);
    if (n == 0 || n > static_cast<int64_t>(bytes.size())) return EIO;
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return 0;
}

int open_unnamed(const char *directory) {
  const int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  std::string path = std::string(directory) + "/berth-kv-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

// Beyond this limit a write would be a signal.
bool within_limit(int64_t bytes) noexcept {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         static_cast<uint64_t>(bytes) <= limit.rlim_cur;
}

int32_t take_space(int fd, int64_t bytes) noexcept {
  if (!within_limit(bytes)) return EFBIG;
  while (fallocate(fd, 0, 0, bytes) != 0) {
    if (errno == EINTR) continue;
    if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
    return ftruncate(fd, bytes) == 0 ? 0 : errno;
  }
  return 0;
}

}  // namespace

int32_t read_all(File &file, std::span<std::byte> to, int64_t offset) noexcept {
  return all(to, offset, [&](std::span<std::byte> rest, int64_t at) { return file.read(rest, at); });
}

int32_t write_all(File &file, std::span<const std::byte> from, int64_t offset) noexcept {
  return all(from, offset, [&](std::span<const std::byte> rest, int64_t at) { return file.write(rest, at); });
}

std::unique_ptr<File> temporary_file(const char *directory, int64_t bytes, int32_t *error, bool *space) noexcept {
  *space = false;
  try {
    const int fd = open_unnamed(directory);
    *error = errno;
    if (fd < 0) return nullptr;
    std::unique_ptr<File> file(new (std::nothrow) OsFile(fd));
    if (!file) {
      close(fd);
      *error = ENOMEM;
      return nullptr;
    }
    *space = true;
    *error = take_space(fd, bytes);
    return *error == 0 ? std::move(file) : nullptr;
  } catch (const std::bad_alloc &) {
    *error = ENOMEM;
    return nullptr;
  }
}

}  // namespace berth::device
