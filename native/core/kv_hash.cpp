// SPDX-License-Identifier: Apache-2.0
#include "core/kv_hash.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace berth {
static_assert(std::endian::native == std::endian::little, "identities are made of little-endian words");

namespace {

constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big(const uint8_t *p) noexcept {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

// The combining step that both mixers of v1 end with.
uint64_t combine(uint64_t seed, uint64_t a) noexcept { return seed ^ (a + (seed << 6) + (seed >> 2)); }

uint64_t mix32(uint32_t a, uint64_t seed) noexcept {
  a = ((a >> 16) ^ a) * 0x045d9f3bu;
  a = ((a >> 16) ^ a) * 0x045d9f3bu;
  a = (a >> 16) ^ a;
  return combine(seed, uint64_t{a + 0x9e3779b9u});
}

uint64_t mix64(uint64_t a, uint64_t seed) noexcept {
  a = (a ^ (a >> 30)) * 0xbf58476d1ce4e5b9u;
  a = (a ^ (a >> 27)) * 0x94d049bb133111ebu;
  a = a ^ (a >> 31);
  return combine(seed, a + 0x9e3779b9u);
}

uint64_t v1_block_key(const KvScope &scope, uint64_t parent, std::span<const int32_t> tokens) noexcept {
  uint64_t key = static_cast<uint64_t>(tokens.size()) ^ parent * 0xbf58476d1ce4e5b9u;
  if (parent == 0 && (scope.present & KvScope::kSalt) != 0) key = mix64(scope.salt, key);
  for (const int32_t token : tokens) key = mix32(static_cast<uint32_t>(token), key);
  if ((scope.present & KvScope::kLora) != 0) key = mix64(scope.lora, key);
  return key;
}

Sha256::Digest root(const KvScope &scope) noexcept {
  Sha256 sha;
  const uint8_t mask = static_cast<uint8_t>(scope.present);
  sha.update(&mask, 1);
  if ((scope.present & KvScope::kLora) != 0) sha.update(&scope.lora, 8);
  if ((scope.present & KvScope::kSalt) != 0) sha.update(&scope.salt, 8);
  return sha.finish();
}

}  // namespace

void Sha256::block(const uint8_t *p) noexcept {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i) w[i] = big(p + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  std::array<uint32_t, 8> v = state_;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25);
    const uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + kRound[i] + w[i];
    const uint32_t s0 = std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22);
    const uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
    v = {t1 + t2, v[0], v[1], v[2], v[3] + t1, v[4], v[5], v[6]};
  }
  for (size_t i = 0; i < 8; ++i) state_[i] += v[i];
}

void Sha256::update(const void *data, size_t n) noexcept {
  const uint8_t *p = static_cast<const uint8_t *>(data);
  while (n != 0) {
    const size_t at = length_ % 64;
    const size_t take = std::min(n, 64 - at);
    std::memcpy(buffer_.data() + at, p, take);
    length_ += take;
    p += take;
    n -= take;
    if (length_ % 64 == 0) block(buffer_.data());
  }
}

Sha256::Digest Sha256::finish() noexcept {
  const uint64_t bits = length_ * 8;
  const uint8_t one = 0x80;
  const uint8_t zero = 0;
  update(&one, 1);
  while (length_ % 64 != 56) update(&zero, 1);
  std::array<uint8_t, 8> length;
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(length.data(), 8);
  Digest digest;
  for (size_t i = 0; i < 32; ++i) digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

void hash_blocks(KvHash algorithm, const KvScope &scope, const uint8_t *parent, std::span<const int32_t> tokens,
                 int32_t tokens_per_block, uint8_t *out, uint8_t *last) noexcept {
  const size_t size = static_cast<size_t>(tokens_per_block);
  if (algorithm == KvHash::kV1BlockKey) {
    uint64_t key = 0;
    if (parent != nullptr) std::memcpy(&key, parent, 8);
    for (size_t at = 0; at < tokens.size(); at += size) {
      key = v1_block_key(scope, key, tokens.subspan(at, std::min(size, tokens.size() - at)));
      std::memcpy(out, &key, 8);
      out += 8;
    }
    if (last != nullptr) {
      std::memset(last, 0, 32);
      std::memcpy(last, &key, 8);
    }
    return;
  }
  Sha256::Digest digest = parent == nullptr ? root(scope) : Sha256::Digest{};
  if (parent != nullptr) std::memcpy(digest.data(), parent, 32);
  const size_t bytes = static_cast<size_t>(hash_bytes(algorithm));
  for (size_t at = 0; at < tokens.size(); at += size) {
    Sha256 sha;
    sha.update(digest.data(), digest.size());
    const auto block = tokens.subspan(at, std::min(size, tokens.size() - at));
    sha.update(block.data(), block.size_bytes());
    digest = sha.finish();
    std::memcpy(out, digest.data(), bytes);
    out += bytes;
  }
  if (last != nullptr) std::memcpy(last, digest.data(), 32);
}

}  // namespace berth
