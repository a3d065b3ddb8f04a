// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "fuzz/kv_ops.hpp"
#include "test/check.hpp"

namespace {

int64_t number(const char *name, int64_t fallback) {
  const char *text = std::getenv(name);
  return text == nullptr ? fallback : std::atoll(text);
}

// BERTH_SEED=n replays history n alone, BERTH_HISTORIES and BERTH_STEPS set the amount.
void histories(int32_t shape, bool disk = false, bool faulty = false) {
  const int64_t only = number("BERTH_SEED", -1);
  const int64_t n = number("BERTH_HISTORIES", 60);
  int64_t hits = 0;
  int64_t refusals = 0;
  int64_t waits = 0;
  int64_t losses = 0;
  int64_t adjusted = 0;
  int64_t wide = 0;
  int64_t snapshots = 0;
  int64_t shares = 0;
  int64_t drops = 0;
  for (int64_t seed = only >= 0 ? only : 0; seed < (only >= 0 ? only + 1 : n); ++seed) {
    if (number("BERTH_VERBOSE", 0) != 0)
      std::fprintf(stderr, "shape %d seed %lld\n", shape, static_cast<long long>(seed));
    berth::test::Choices choices(static_cast<uint64_t>(seed) * 1000003 + static_cast<uint64_t>(shape));
    berth::test::KvWorld world(berth::test::kv_shape(shape, choices), choices);
    world.run(static_cast<int32_t>(number("BERTH_STEPS", 600)));
    hits += world.hits;
    refusals += world.refusals;
    waits += world.waits;
    losses += world.losses;
    adjusted += world.adjusted;
    wide += world.wide;
    snapshots += world.snapshots;
    shares += world.shares;
    drops += world.drops;
  }
  if (number("BERTH_VERBOSE", 0) != 0) {
    std::fprintf(stderr, "shape %d: hits %lld refusals %lld waits %lld losses %lld adjusted %lld\n", shape,
                 static_cast<long long>(hits), static_cast<long long>(refusals), static_cast<long long>(waits),
                 static_cast<long long>(losses), static_cast<long long>(adjusted));
  }
  CHECK(hits > 0 && refusals > 0 && (waits > 0) == disk && (losses > 0) == faulty);
  CHECK((adjusted > 0) == (shape != 0));
  const bool states = shape >= 7;
  CHECK((wide > 0) == (shape != 0 && !states));
  CHECK((snapshots > 0) == states);
  CHECK((drops > 0) == (shape > 2 && shape != 5));
  CHECK((shares > 0) == (shape == 3 || shape == 4));
}

}  // namespace

TEST(plainLruIsThatOfTheModel) { histories(0); }
TEST(partsOfBlocksPrioritiesAndTenants) { histories(1); }
TEST(threeLevels) { histories(2, true); }
TEST(aWindowBesideFullAttention) { histories(3); }
TEST(aWindowAndFullAttentionInOnePool) { histories(4); }
TEST(aDiskThatFails) { histories(5, true, true); }
TEST(aWindowOnThreeLevels) { histories(6, true, true); }
TEST(windowsAndAStateOnThreeLevels) { histories(7, true, true); }
TEST(windowsAndAState) { histories(8); }

TEST(anyBytesAreAHistory) {
  std::mt19937_64 random(11);
  for (int32_t i = 0; i < 200; ++i) {
    std::vector<uint8_t> bytes(random() % 600);
    for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(random());
    berth::test::Choices choices(bytes.data(), bytes.size());
    berth::test::KvWorld world(berth::test::kv_shape(i, choices), choices);
    world.run(static_cast<int32_t>(bytes.size()));
  }
}

TEST_MAIN
