// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "core/kv_layout.hpp"
#include "core/page_slots.hpp"
#include "device/backend.hpp"
#include "device/file.hpp"
#include "device/io_pool.hpp"

namespace berth::device {

// The CPU back end, which is the specification of every other (spec 03 section 15).
class HostBackend : public Backend, private IoPool::Worker {
 public:
  enum class Mode {
    kSynchronous,  // a call has happened when it returns
    kEmulation     // it happens in run(), from a snapshot
  };
  struct Config {
    const KvLayout *layout;
    int32_t rows;        // of the resident tables
    int32_t max_blocks;  // of a row
    int32_t staging;     // batches under way at most, in emulation
    Mode mode;
    bool memory;                     // false: pages are only counted, copies move nothing
    std::span<const int64_t> slots;  // [levels][groups]
  };
  // Where the disk level lies.
  struct Disk {
    std::unique_ptr<File> file;  // of disk_bytes(); null: it is only counted
    int32_t threads = 0;         // that read and write it; in emulation there are none, run() does it
    int32_t depth = 0;           // transfers under way at most
  };
  // Bytes of the disk level's file; -1: more than there can be.
  static int64_t disk_bytes(const KvLayout &layout, std::span<const int64_t> slots) noexcept;
  // Throws std::bad_alloc, std::system_error.
  HostBackend(const Config &config, Disk disk);
  explicit HostBackend(const Config &config) : HostBackend(config, Disk{}) {}

  void edit(int32_t life_cycle, int32_t row, int32_t first, int32_t n, const int32_t *values) noexcept override;
  void copy(const PageCopy &copy) noexcept override;
  Status gather(const Gather &gather) noexcept override;
  uint64_t submitted() const noexcept override { return submitted_; }
  uint64_t completed() const noexcept override { return completed_; }
  int32_t run(int32_t n) noexcept override;
  std::byte *pool(int32_t level, int32_t pool) noexcept override;
  const int32_t *table(int32_t life_cycle) const noexcept override;
  void resize(int32_t level, int32_t group, int64_t slots) noexcept override;
  int32_t transfers() const noexcept override { return io_ ? io_->depth() : 0; }
  void start(const PageCopy &copy, uint64_t after) noexcept override;
  const uint64_t *finished() const noexcept override { return io_ ? io_->finished() : nullptr; }
  int32_t outcome(uint64_t number) const noexcept override { return io_->outcome(number); }
  void wait(uint64_t number) noexcept override { io_->wait(number); }

 protected:
  // What a step of the stream works on.
  struct Step {
    enum class Kind { kEdit, kCopy, kGather, kTransfer } kind;
    int32_t life_cycle, row, first, n;  // edit
    bool clear;
    PageCopy copy;
    Gather gather;
    std::vector<int32_t> values;  // the snapshot: table entries; rows, blocks, history, queries, states
  };
  // Takes what the step reads out of the caller's memory. A test double that doesn't shows what happens then.
  virtual void snapshot(Step &step, const Gather &gather);
  virtual void snapshot(Step &step, const int32_t *values);

 private:
  void push(Step &&step);
  void do_edit(int32_t life_cycle, int32_t row, int32_t first, int32_t n, const int32_t *values) noexcept;
  void do_copy(const PageCopy &copy) noexcept;
  void do_gather(const Gather &gather) noexcept;
  void do_views(const Gather &gather) noexcept;
  void do_buffers(const Gather &gather) noexcept;
  void do_tokens(const Gather &gather) noexcept;
  int32_t perform(uint64_t number) noexcept override;
  size_t place(uint64_t number) const noexcept { return number % static_cast<uint64_t>(io_->depth()); }

  struct Memory {
    std::byte *base = nullptr;
    size_t size = 0;
    Memory() = default;
    explicit Memory(size_t bytes);
    Memory(Memory &&other) noexcept : base(std::exchange(other.base, nullptr)), size(other.size) {}
    Memory &operator=(Memory &&other) noexcept {
      std::swap(base, other.base);
      std::swap(size, other.size);
      return *this;
    }
    ~Memory();
  };

  KvLayout layout_;
  int32_t rows_;
  int32_t max_blocks_;
  int32_t staging_;
  Mode mode_;
  std::vector<int64_t> slots_;
  std::vector<Memory> pools_;          // [levels][pools]
  std::vector<int64_t> disk_offsets_;  // [pools]: where a pool begins in the file
  std::vector<ZeroedArray<int32_t>> tables_;
  std::deque<Step> stream_;
  std::vector<std::vector<int32_t>> spare_;  // snapshots' memory, used again
  int32_t gathers_ = 0;
  uint64_t submitted_ = 0;
  uint64_t completed_ = 0;
  std::unique_ptr<File> file_;
  std::vector<PageCopy> transfers_;  // [depth]
  Memory staging_pages_;             // [depth][staging_bytes_]: what is on its way to the disk
  size_t staging_bytes_ = 0;
  std::unique_ptr<IoPool> io_;  // the last: it ends first
};

}  // namespace berth::device
