// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <span>

namespace berth {

// SHA-256 (FIPS 180-4).
class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;
  void update(const void *data, size_t n) noexcept;
  Digest finish() noexcept;

 private:
  void block(const uint8_t *p) noexcept;
  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> buffer_{};
  uint64_t length_ = 0;
};

// What makes two equal token runs different: adapter and salt (spec 03 section 8.1). Absent ones are 0 with their bit
// off.
struct KvScope {
  static constexpr uint32_t kLora = 1;
  static constexpr uint32_t kSalt = 2;
  uint64_t lora = 0;
  uint64_t salt = 0;
  uint32_t present = 0;
  bool operator==(const KvScope &) const = default;
  bool valid() const noexcept {
    return present <= 3 && ((present & kLora) != 0 || lora == 0) && ((present & kSalt) != 0 || salt == 0);
  }
};

// Block identities as other systems name them in events (spec 03 sections 8.1, 8.2). Never used to find anything here.
enum class KvHash : int32_t { kV1BlockKey = 1, kV2Sha256 = 2, kV2Sha256_64 = 3 };

// Bytes of one identity: 8, 32, 8.
constexpr int32_t hash_bytes(KvHash algorithm) noexcept { return algorithm == KvHash::kV2Sha256 ? 32 : 8; }

// The chain of blocks of up to tokens_per_block tokens (the last may be shorter), after parent (hash_bytes, or null:
// the root of the scope). v2_sha256_64 continues a chain from its 32-byte digests only, so there parent is 32 bytes and
// each identity is the first 8 bytes of its digest; last (32 bytes, may be null) receives the last digest.
void hash_blocks(KvHash algorithm, const KvScope &scope, const uint8_t *parent, std::span<const int32_t> tokens,
                 int32_t tokens_per_block, uint8_t *out, uint8_t *last) noexcept;

}  // namespace berth
