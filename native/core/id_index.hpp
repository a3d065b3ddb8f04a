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

// Where a slot is by its id: open addressing over chunks of one cache line that hold 8 tags (15 bits of the hash, 0 =
// empty) and 8 slots, at a load of at most 0.5. The ids themselves stand in the slot records of the caller, who decides
// equality. A chunk counts the entries that had to go past it, so that a search stops where nobody went on and a
// removal clears one tag: no tombstones, nothing moves, no decay under churn.
class IdIndex {
 public:
  static constexpr uint32_t kLanes = 8;

  explicit IdIndex(int32_t capacity)
      : chunks_(std::bit_ceil((2 * static_cast<size_t>(capacity) + kLanes - 1) / kLanes)), view_(chunks_) {}
  IdIndex(const IdIndex &) = delete;
  IdIndex &operator=(const IdIndex &) = delete;

  struct alignas(64) Chunk {
    uint16_t tag[kLanes];
    uint32_t slot[kLanes];
    uint32_t passed;
  };
  static_assert(sizeof(Chunk) == 64);

  struct Entry {
    uint16_t *tag;  // null: there is none
    uint32_t slot;
    explicit operator bool() const noexcept { return tag != nullptr; }
  };

  // The operations, over pointers that a loop can keep in registers.
  class View {
   public:
    explicit View(std::vector<Chunk> &chunks) noexcept
        : chunks_(reinterpret_cast<char *>(chunks.data())),
          mask_((chunks.size() - 1) * sizeof(Chunk)),
          // Results never depend on where an entry lies, so the key may be as arbitrary as an address: nobody outside
          // can prepare ids that collide.
          key_(reinterpret_cast<uintptr_t>(chunks.data()) * 0x9e3779b97f4a7c15u) {}

    // The halves of one product, folded. Of a hundred strides and shifts tried, the worst made one entry in four go one
    // chunk further; a second multiplication would make that one in thirty and every operation slower. The upper 16
    // bits are the tag, never 0; bits 6 and up say which chunk is home.
    uint64_t hash(uint64_t id) const noexcept {
      __extension__ typedef unsigned __int128 Wide;
      const Wide product = static_cast<Wide>(id ^ key_) * 0x9e3779b97f4a7c15u;
      return (static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64)) | uint64_t{1} << 48;
    }

    void prefetch(uint64_t hash) const noexcept { __builtin_prefetch(chunks_ + (hash & mask_), 1); }

    // The entry of that hash for whose slot same(slot) holds.
    template <class Same>
    Entry find(uint64_t hash, Same same) const noexcept {
      for (uint64_t at = hash & mask_;; at = next(at)) {
        Chunk &chunk = chunk_at(at);
        for (uint32_t lanes = match(chunk, spread(hash)); lanes != 0; lanes = rest(lanes)) {
          if (same(chunk.slot[first(lanes)])) return {&chunk.tag[first(lanes)], chunk.slot[first(lanes)]};
        }
        if (chunk.passed == 0) return {nullptr, 0};
      }
    }

    // The first entry at its home that has the hash's tag, unproven: almost always find's answer.
    Entry guess(uint64_t hash) const noexcept {
      Chunk &chunk = chunk_at(hash & mask_);
      const uint32_t lanes = match(chunk, spread(hash));
      if (lanes == 0) [[unlikely]]
        return {nullptr, 0};
      return {&chunk.tag[first(lanes)], chunk.slot[first(lanes)]};
    }

    // Enters slot unless the hash has an entry for whose slot same(slot) holds; false then. Finds room because the load
    // is at most 0.5.
    template <class Same>
    bool insert(uint64_t hash, uint32_t slot, Same same) const noexcept {
      const Chunk &home = chunk_at(hash & mask_);
      if (match(home, spread(hash)) != 0 || home.passed != 0) [[unlikely]] {
        if (find(hash, same)) return false;
      }
      for (uint64_t at = hash & mask_;; at = next(at)) {
        Chunk &chunk = chunk_at(at);
        const uint32_t empty = match(chunk, spread(0));
        if (empty != 0) [[likely]] {
          chunk.slot[first(empty)] = slot;
          chunk.tag[first(empty)] = static_cast<uint16_t>(hash >> 48);
          return true;
        }
        ++chunk.passed;
      }
    }

    // entry is what guess(…) returned: it lies at its home.
    void erase_home(const Entry &entry) const noexcept { *entry.tag = 0; }

    // entry is what find(hash, …) returned, and nothing was inserted or erased since.
    void erase(uint64_t hash, const Entry &entry) const noexcept {
      *entry.tag = 0;
      const uint64_t end = static_cast<uint64_t>(reinterpret_cast<char *>(entry.tag) - chunks_) & mask_;
      for (uint64_t at = hash & mask_; at != end; at = next(at)) --chunk_at(at).passed;
    }

   private:
    // Chunks are told by their offset in bytes.
    Chunk &chunk_at(uint64_t offset) const noexcept { return *reinterpret_cast<Chunk *>(chunks_ + offset); }
    uint64_t next(uint64_t offset) const noexcept { return (offset + sizeof(Chunk)) & mask_; }

    // Two bits a lane. lanes != 0.
    static uint32_t first(uint32_t lanes) noexcept { return static_cast<uint32_t>(__builtin_ctz(lanes)) / 2; }
    static uint32_t rest(uint32_t lanes) noexcept { return lanes & ~(3u << (2 * first(lanes))); }

#if defined(__SSE2__)
    // The upper 16 bits of the hash in every lane.
    static __m128i spread(uint64_t hash) noexcept {
      const __m128i low = _mm_shufflelo_epi16(_mm_cvtsi64_si128(static_cast<int64_t>(hash)), 0xff);
      return _mm_unpacklo_epi64(low, low);
    }
    // The lanes that have that tag.
    static uint32_t match(const Chunk &chunk, __m128i tag) noexcept {
      const __m128i tags = _mm_load_si128(reinterpret_cast<const __m128i *>(chunk.tag));
      return static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi16(tags, tag)));
    }
#else
    static uint16_t spread(uint64_t hash) noexcept { return static_cast<uint16_t>(hash >> 48); }
    static uint32_t match(const Chunk &chunk, uint16_t tag) noexcept {
      uint32_t lanes = 0;
      for (uint32_t i = 0; i < kLanes; ++i) lanes |= (chunk.tag[i] == tag ? 3u : 0u) << (2 * i);
      return lanes;
    }
#endif

    char *chunks_;
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
