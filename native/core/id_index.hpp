// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace berth {

// Where a slot is by its id: open addressing over chunks of one cache line that hold 12 tags (a byte of the hash, 0 =
// empty) and 12 slots, at a load of at most 0.5. The ids themselves stand in the slot records of the caller, who decides
// equality. A chunk counts the entries that had to go past it, so that a search stops where nobody went on and a removal
// clears one byte: no tombstones, nothing moves, no decay under churn.
class IdIndex {
 public:
  static constexpr uint32_t kLanes = 12;

  explicit IdIndex(int32_t capacity)
      : chunks_(std::bit_ceil((2 * static_cast<size_t>(capacity) + kLanes - 1) / kLanes)), view_(chunks_) {}
  IdIndex(const IdIndex &) = delete;
  IdIndex &operator=(const IdIndex &) = delete;

  struct alignas(64) Chunk {
    uint8_t tag[kLanes];
    uint32_t passed;
    uint32_t slot[kLanes];
  };
  static_assert(sizeof(Chunk) == 64);

  struct Place {
    uint64_t chunk;
    uint32_t lane;
    uint32_t slot;
    explicit operator bool() const noexcept { return lane != kLanes; }
  };

  // The operations, over pointers that a loop can keep in registers.
  class View {
   public:
    explicit View(std::vector<Chunk> &chunks) noexcept
        : chunks_(chunks.data()),
          mask_(chunks.size() - 1),
          // Results never depend on where an entry lies, so the key may be as arbitrary as an address: nobody outside can
          // prepare ids that collide.
          key_(reinterpret_cast<uintptr_t>(chunks.data()) * 0x9e3779b97f4a7c15u) {}

    uint64_t hash(uint64_t id) const noexcept {
      __extension__ typedef unsigned __int128 Wide;
      const Wide product = static_cast<Wide>(id ^ key_) * 0xd6e8feb86659fd93u;
      return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    }

    void prefetch(uint64_t hash) const noexcept { __builtin_prefetch(&chunks_[hash & mask_], 1); }

    // The entry of that hash for whose slot same(slot) holds.
    template <class Same>
    Place find(uint64_t hash, Same same) const noexcept {
      const uint8_t tag = tag_of(hash);
      for (uint64_t c = hash & mask_;; c = (c + 1) & mask_) {
        const Chunk &chunk = chunks_[c];
        for (uint32_t lanes = match(chunk, tag); lanes != 0; lanes &= lanes - 1) {
          const uint32_t lane = static_cast<uint32_t>(std::countr_zero(lanes));
          if (same(chunk.slot[lane])) return {c, lane, chunk.slot[lane]};
        }
        if (chunk.passed == 0) return {c, kLanes, 0};
      }
    }

    // The id must not be there. Finds room because the load is at most 0.5.
    void insert(uint64_t hash, uint32_t slot) const noexcept {
      for (uint64_t c = hash & mask_;; c = (c + 1) & mask_) {
        Chunk &chunk = chunks_[c];
        const uint32_t empty = match(chunk, 0);
        if (empty != 0) {
          const uint32_t lane = static_cast<uint32_t>(std::countr_zero(empty));
          chunk.slot[lane] = slot;
          chunk.tag[lane] = tag_of(hash);
          return;
        }
        ++chunk.passed;
      }
    }

    // place is what find(hash, …) returned, and nothing was inserted or erased since.
    void erase(uint64_t hash, const Place &place) const noexcept {
      chunks_[place.chunk].tag[place.lane] = 0;
      for (uint64_t c = hash & mask_; c != place.chunk; c = (c + 1) & mask_) --chunks_[c].passed;
    }

   private:
    static uint8_t tag_of(uint64_t hash) noexcept {
      const uint64_t tag = hash >> 56;
      return static_cast<uint8_t>(tag + (tag == 0));
    }

    // Bit i: lane i has that tag.
    static uint32_t match(const Chunk &chunk, uint8_t tag) noexcept {
#if defined(__SSE2__)
      const __m128i tags = _mm_load_si128(reinterpret_cast<const __m128i *>(&chunk));
      const __m128i same = _mm_cmpeq_epi8(tags, _mm_set1_epi8(static_cast<char>(tag)));
      return static_cast<uint32_t>(_mm_movemask_epi8(same)) & ((1u << kLanes) - 1);
#else
      uint32_t lanes = 0;
      for (uint32_t i = 0; i < kLanes; ++i) lanes |= static_cast<uint32_t>(chunk.tag[i] == tag) << i;
      return lanes;
#endif
    }

    Chunk *chunks_;
    uint64_t mask_;
    uint64_t key_;
  };

  const View &view() const noexcept { return view_; }

  // Steps that entries lie away from their home, all added up: what a bad hash would make grow.
  int64_t displacement() const noexcept {
    int64_t steps = 0;
    for (const Chunk &chunk : chunks_) steps += chunk.passed;
    return steps;
  }

 private:
  std::vector<Chunk> chunks_;
  View view_;
};

}  // namespace berth
