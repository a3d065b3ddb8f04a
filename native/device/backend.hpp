// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/status.hpp"

namespace berth::device {

constexpr int32_t kLevels = 3;  // device, host, disk

// One slot to another, all pools of the group.
struct PageCopy {
  int32_t group;
  int32_t from_level;
  int32_t from_slot;
  int32_t to_level;
  int32_t to_slot;
};

// What a batch wants to know of its rows. Row i of the output is row rows[i] of the resident tables, of which blocks[i]
// entries are used. Addresses are of the backend's device memory; 0: not wanted.
struct Gather {
  std::span<const int32_t> rows;
  std::span<const int32_t> blocks;   // entries of the row that are used
  std::span<const int32_t> history;  // tokens in the cache before this batch
  std::span<const int32_t> queries;  // tokens of this batch
  std::span<const int32_t> states;   // [state life cycles][rows]: slots
  uint64_t table = 0;                // int32[views][output_rows][2][max_blocks]: key pages, value pages
  uint64_t buffer_table = 0;  // int32[buffers][output_rows][max_blocks]: each buffer's own pages, scratch ones too
  uint64_t slot_mapping = 0;  // int64[life cycles][output_tokens]: slot * tokens a block + offset of each query token
  uint64_t csr_indptr = 0;    // int32[views][rows + 1]
  uint64_t csr_indices = 0;   // int32[views][csr_capacity]
  uint64_t csr_last = 0;      // int32[rows]: tokens on the last page
  uint64_t state_index = 0;   // int32[state life cycles][output_rows]
  int64_t csr_capacity = 0;
  int64_t output_tokens = 0;
  int32_t output_rows = 0;
  int32_t bad_value = -1;
  int32_t pad_state = -1;
  bool clear_padding = false;  // rows, tokens and states behind the batch: bad_value, -1, pad_state
};

// A device as the core sees it: pages on three levels, resident block tables, one stream on which everything happens in
// the order of the calls. Whatever is passed in is the caller's again when the call returns: a backend that works later
// works on copies, each call's own (spec 03 section 12 item 5).
class Backend {
 public:
  virtual ~Backend() = default;

  // Entries [first, first + n) of a row of a life cycle's resident table. values null: all -1.
  virtual void edit(int32_t life_cycle, int32_t row, int32_t first, int32_t n, const int32_t *values) noexcept = 0;
  virtual void copy(const PageCopy &copy) noexcept = 0;
  // kExhausted: as many batches are under way as the backend stages; nothing happened.
  virtual Status gather(const Gather &gather) noexcept = 0;

  // How many steps of the stream were asked for, and how many are done.
  virtual uint64_t submitted() const noexcept = 0;
  virtual uint64_t completed() const noexcept = 0;
  // Lets up to n steps happen where time is the caller's (emulation); how many did.
  virtual int32_t run(int32_t n) noexcept = 0;

  virtual std::byte *pool(int32_t level, int32_t pool) noexcept = 0;  // null: no memory there
  virtual const int32_t *table(int32_t life_cycle) const noexcept = 0;

  // Of the pool group's memory on a level so many slots are used from now on; it was made for the most.
  virtual void resize(int32_t level, int32_t group, int64_t slots) noexcept {
    static_cast<void>(level), static_cast<void>(group), static_cast<void>(slots);
  }

  // ---- The disk level, if it is more than counted. Nobody waits for its transfers: they are numbered 1, 2, 3 ... as
  // they are started, in the order of the stream, and the owner of the pages asks which have finished.

  // Transfers under way at most: started, and their outcome not looked at. 0: copy() does for the disk level too.
  virtual int32_t transfers() const noexcept { return 0; }
  // The next transfer, from or to the disk level, not before transfer after (0: none) has ended. What a transfer to the
  // disk reads is the caller's again with the next step of the stream, what one from it writes when it has finished.
  virtual void start(const PageCopy &copy, uint64_t after) noexcept {
    static_cast<void>(copy), static_cast<void>(after);
  }
  // The word that says up to which number all have ended; other threads move it. Null: no transfers.
  virtual const uint64_t *finished() const noexcept { return nullptr; }
  // 0 or errno of a transfer that has.
  virtual int32_t outcome(uint64_t number) const noexcept { return static_cast<void>(number), 0; }
  // Blocks until the transfers up to number have finished; returns at once where nothing would make them.
  virtual void wait(uint64_t number) noexcept { static_cast<void>(number); }
};

}  // namespace berth::device
