// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "berth/berth.h"
#include "core/status.hpp"

namespace berth {

// What a layer group keeps of a sequence (spec 03 sections 4.1 and 10).
struct LifeCycle {
  static constexpr int32_t kFull = -1;  // window: every block, for ever
  static constexpr int32_t kState = 0;  // window: one recurrent state, the block of the present position

  int32_t window;  // kFull, kState, or tokens of a sliding window
  int32_t sinks;   // tokens at the front that a window keeps
  int32_t domain;  // target, draft, cross: never in one life cycle
  int32_t group;   // pool group that its pages come from

  bool full() const noexcept { return window == kFull; }
  bool state() const noexcept { return window == kState; }

  // Blocks [first, second) that nobody needs once h tokens are in the history; the token at position h is being
  // computed.
  struct Range {
    int64_t first;
    int64_t second;
  };
  Range stale(int64_t history, int32_t tokens_per_block) const noexcept;
};

// From buffers to pools (spec 03 section 4.1): buffers of one life cycle and one size stand side by side in a slot and
// are a pool; life cycles whose pools have the same sizes share a pool group, where one slot number names one slot in
// each pool. Every product is formed in 64 bits and held against 2^31 - 1.
class KvLayout {
 public:
  static constexpr int32_t kMaxBuffers = 1 << 16;
  static constexpr int32_t kMaxLifeCycles = 16;
  static constexpr int32_t kMaxTokensPerBlock = 1024;
  static constexpr int32_t kScaleRole = 16;  // role 16 + r: scale factors of role r, parallel to its data
  static constexpr int32_t kValueRole = 1;

  struct Pool {
    int32_t group;
    int32_t index;       // in the group
    int64_t slot_bytes;  // of one slot, all buffers of it
  };
  // What a block table is made for: one pool of one life cycle.
  struct View {
    int32_t life_cycle;
    int32_t pool;          // index into pools()
    int32_t scale;         // page index = slot * scale + layer offset
    int32_t value_offset;  // of a value page from its key page; 0: no values in this pool
  };
  struct Place {
    int32_t life_cycle;
    int32_t view;
    int32_t ordinal;
    int32_t expansion;
    int64_t stride;  // bytes from one page index to the next
    int64_t offset;  // bytes of the buffer in its slot
  };

  // kOk, or kArgument with the buffer that can't be in *bad (-1: their number or the block size). Throws
  // std::bad_alloc.
  // One life cycle that keeps everything, without buffers: for pages that are only counted.
  static KvLayout counted(int32_t tokens_per_block);
  static Status plan(std::span<const berth_kv_buffer> buffers, int32_t tokens_per_block, KvLayout &out, int32_t &bad);

  int32_t tokens_per_block() const noexcept { return tokens_per_block_; }
  int32_t groups() const noexcept { return groups_; }
  const std::vector<LifeCycle> &life_cycles() const noexcept { return life_cycles_; }
  const std::vector<Pool> &pools() const noexcept { return pools_; }
  const std::vector<View> &views() const noexcept { return views_; }
  const std::vector<Place> &places() const noexcept { return places_; }  // by buffer

  // Scratch (spec 03 section 10): while one layer computes a chunk, what the life cycle's other layers have in a slot
  // is free for its blocks. So many blocks share a slot; 1: no layer has room in a slot but its own.
  int32_t scratch_blocks(int32_t life_cycle) const noexcept { return scratch_[static_cast<size_t>(life_cycle)]; }
  // A table's entry for such a block: the blocks of a slot are numbered. Below -1.
  static int32_t scratch_entry(int32_t slot, int32_t number, int32_t blocks) noexcept {
    return static_cast<int32_t>(-2 - (int64_t{slot} * blocks + number));
  }
  static int32_t scratch_slot(int32_t entry, int32_t blocks) noexcept {
    return static_cast<int32_t>((-2 - int64_t{entry}) / blocks);
  }
  static int32_t scratch_number(int32_t entry, int32_t blocks) noexcept {
    return static_cast<int32_t>((-2 - int64_t{entry}) % blocks);
  }
  // Where in its slot a buffer's scratch block of that number lies.
  int32_t scratch_ordinal(size_t buffer, int32_t number) const noexcept {
    return peers_[static_cast<size_t>(peers_of_[buffer])][static_cast<size_t>(number)];
  }

  int64_t slot_bytes(int32_t group) const noexcept;
  // Most slots that a group may have so that no page index passes 2^31 - 1.
  int64_t max_slots(int32_t group) const noexcept;

 private:
  int32_t tokens_per_block_ = 0;
  int32_t groups_ = 0;
  std::vector<LifeCycle> life_cycles_;
  std::vector<Pool> pools_;
  std::vector<View> views_;
  std::vector<Place> places_;
  void plan_scratch(std::span<const berth_kv_buffer> buffers);

  std::vector<int32_t> scratch_;             // by life cycle
  std::vector<int32_t> peers_of_;            // by buffer
  std::vector<std::vector<int32_t>> peers_;  // ordinals of the buffers of one role in one pool of a life cycle
};

}  // namespace berth
