// SPDX-License-Identifier: Apache-2.0
#include "core/slots.hpp"

#include <array>
#include <numeric>
#include <random>

#include "berth/berth.h"
#include "fuzz/slots_model.hpp"
#include "test/check.hpp"

namespace {

constexpr uint64_t kLargest = ~uint64_t{0};

// A native map through the C interface, with vectors.
struct Slots {
  explicit Slots(int32_t capacity, int32_t reserved = 0, int32_t quarantine = 0) {
    const berth_slots_config config{sizeof(config), capacity, reserved, quarantine};
    CHECK(berth_slots_create(&config, &map) == BERTH_OK);
  }
  ~Slots() { CHECK(berth_slots_destroy(map) == BERTH_OK); }
  Slots(const Slots &) = delete;
  Slots &operator=(const Slots &) = delete;

  int32_t acquire(const std::vector<uint64_t> &ids, int32_t mode = BERTH_ALL_OR_NOTHING, uint64_t now = 0) {
    handles.assign(ids.size(), 99);
    statuses.assign(ids.size(), 99);
    return berth_slots_acquire(map, ids.data(), static_cast<int32_t>(ids.size()), mode, now, handles.data(),
                               statuses.data());
  }
  uint64_t acquire_one(uint64_t id, uint64_t now = 0) {
    CHECK(acquire({id}, BERTH_ALL_OR_NOTHING, now) == BERTH_OK);
    return handles[0];
  }
  int32_t release(const std::vector<uint64_t> &of, int32_t mode = BERTH_ALL_OR_NOTHING, uint64_t fence = 0) {
    statuses.assign(of.size(), 99);
    return berth_slots_release(map, of.data(), static_cast<int32_t>(of.size()), mode, fence, statuses.data());
  }
  int32_t release_ids(const std::vector<uint64_t> &of, int32_t mode = BERTH_ALL_OR_NOTHING, uint64_t fence = 0) {
    statuses.assign(of.size(), 99);
    return berth_slots_release_ids(map, of.data(), static_cast<int32_t>(of.size()), mode, fence, statuses.data());
  }
  uint64_t find(uint64_t id) {
    uint64_t handle = 99;
    int32_t status = 99;
    CHECK(berth_slots_find(map, &id, 1, &handle, &status) == BERTH_OK);
    CHECK(status == (handle != 0 ? BERTH_OK : BERTH_E_NOT_FOUND));
    return handle;
  }
  int32_t complete(uint64_t epoch) {
    int32_t reusable = -1;
    CHECK(berth_slots_complete(map, epoch, &reusable) == BERTH_OK);
    return reusable;
  }
  berth_slots_stats stats() {
    berth_slots_stats out{};
    out.struct_size = sizeof(out);
    CHECK(berth_slots_describe(map, &out) == BERTH_OK);
    return out;
  }

  berth_slots_t map = nullptr;
  std::vector<uint64_t> handles;
  std::vector<int32_t> statuses;
};

std::vector<uint64_t> ids_from(uint64_t first, size_t n) {
  std::vector<uint64_t> ids(n);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

uint32_t slot(uint64_t handle) { return static_cast<uint32_t>(handle); }

}  // namespace

TEST(theLowestFreeSlotComesFirst) {
  Slots slots(200);
  CHECK(slots.acquire(ids_from(1000, 200)) == BERTH_OK);
  for (uint32_t i = 0; i < 200; ++i) CHECK(slot(slots.handles[i]) == i);
  CHECK(slots.release_ids({1190, 1003, 1064, 1150}) == BERTH_OK);
  CHECK(slots.acquire({1, 2, 3, 4}) == BERTH_OK);
  CHECK(slot(slots.handles[0]) == 3 && slot(slots.handles[1]) == 64);
  CHECK(slot(slots.handles[2]) == 150 && slot(slots.handles[3]) == 190);
}

TEST(aReleasedHandleIsStaleAndNoHandleIsZero) {
  Slots slots(4);
  const uint64_t first = slots.acquire_one(7);
  CHECK(first != 0);
  CHECK(slots.release({first}) == BERTH_OK);
  CHECK(slots.release({first}) == BERTH_E_STALE);
  const uint64_t second = slots.acquire_one(7);
  CHECK(slot(second) == slot(first) && second > first);
  CHECK(slots.release({first}) == BERTH_E_STALE);
  CHECK(slots.find(7) == second);
}

TEST(aNumberThatNeverWasAHandleIsNotFound) {
  Slots slots(4, 2);
  const uint64_t handle = slots.acquire_one(7);
  for (const uint64_t never : {uint64_t{0}, handle + (uint64_t{2} << 32), handle + 1, uint64_t{1} << 32 | 4,
                               uint64_t{1} << 32 | 5, kLargest, handle & UINT32_MAX}) {
    CHECK(slots.release({never}) == BERTH_E_NOT_FOUND);
  }
  CHECK(slots.stats().used == 1);
}

TEST(aDuplicateIsAlreadyThereAndChangesNothing) {
  Slots slots(4);
  const uint64_t handle = slots.acquire_one(7);
  CHECK(slots.acquire({7}) == BERTH_E_ALREADY);
  CHECK(slots.handles[0] == 0 && slots.find(7) == handle && slots.stats().used == 1);
}

TEST(everySixtyFourBitsAreAnId) {
  Slots slots(4);
  CHECK(slots.acquire({0, kLargest, uint64_t{1} << 63}) == BERTH_OK);
  CHECK(slot(slots.find(0)) == 0 && slot(slots.find(kLargest)) == 1 && slot(slots.find(uint64_t{1} << 63)) == 2);
  CHECK(slots.release_ids({kLargest, 0}) == BERTH_OK);
  CHECK(slots.find(0) == 0 && slots.find(kLargest) == 0);
}

TEST(reservedSlotsAreNeverHandedOut) {
  Slots slots(3, 5);
  CHECK(slots.acquire(ids_from(1, 8), BERTH_EACH) == BERTH_OK);
  for (size_t i = 0; i < 8; ++i) CHECK(slots.statuses[i] == (i < 3 ? BERTH_OK : BERTH_E_EXHAUSTED));
  for (size_t i = 3; i < 8; ++i) CHECK(slots.handles[i] == 0);
  CHECK(slots.stats().free == 0 && slots.stats().reserved == 5);
}

TEST(anAcquireThatFailsAsAWholeLeavesNoTrace) {
  Slots slots(100);
  const uint64_t kept = slots.acquire_one(50);
  for (const size_t n : {size_t{70}, size_t{120}}) {  // a duplicate beyond a block, exhaustion before it
    std::vector<uint64_t> ids = ids_from(1000, n);
    if (n == 70) ids[69] = 50;
    const size_t failed = n == 70 ? 69 : 99;
    CHECK(slots.acquire(ids) == (n == 70 ? BERTH_E_ALREADY : BERTH_E_EXHAUSTED));
    for (size_t i = 0; i < n; ++i) {
      CHECK(slots.handles[i] == 0);
      CHECK((slots.statuses[i] == BERTH_E_SKIPPED) == (i != failed));
      CHECK(i == 69 || slots.find(ids[i]) == 0);
    }
    CHECK(slots.stats().used == 1 && slots.stats().high_water == 1 && slots.find(50) == kept);
  }
  CHECK(slots.acquire_one(60) == (uint64_t{1} << 32 | 1));  // neither slot nor generation was used up
}

TEST(aReleaseThatFailsAsAWholeLeavesNoTrace) {
  for (const int32_t quarantine : {0, 1}) {
    Slots slots(100, 0, quarantine);
    CHECK(slots.acquire(ids_from(0, 80)) == BERTH_OK);
    std::vector<uint64_t> handles = slots.handles;
    handles[79] = handles[3];
    CHECK(slots.release(handles) == BERTH_E_STALE);
    CHECK(slots.statuses[79] == BERTH_E_STALE && slots.statuses[3] == BERTH_E_SKIPPED);
    std::vector<uint64_t> ids = ids_from(0, 80);
    ids[70] = 500;
    CHECK(slots.release_ids(ids) == BERTH_E_NOT_FOUND);
    CHECK(slots.statuses[70] == BERTH_E_NOT_FOUND && slots.statuses[71] == BERTH_E_SKIPPED);
    CHECK(slots.stats().used == 80 && slots.stats().quarantined == 0);
    for (uint64_t id = 0; id < 79; ++id) CHECK(slots.find(id) == handles[id]);
    CHECK(slot(slots.acquire_one(500)) == 80);
  }
}

TEST(eachItemStandsForItselfWhenAsked) {
  Slots slots(8);
  CHECK(slots.acquire({1, 1, 2}, BERTH_EACH) == BERTH_OK);
  CHECK(slots.statuses == (std::vector<int32_t>{BERTH_OK, BERTH_E_ALREADY, BERTH_OK}));
  CHECK(slot(slots.handles[2]) == 1);
  CHECK(slots.release_ids({2, 9, 2, 1}, BERTH_EACH) == BERTH_OK);
  CHECK(slots.statuses == (std::vector<int32_t>{BERTH_OK, BERTH_E_NOT_FOUND, BERTH_E_NOT_FOUND, BERTH_OK}));
}

TEST(aSlotLeavesQuarantineWithItsOwnFenceInWhateverOrderFencesCome) {
  Slots slots(4, 0, 1);
  CHECK(slots.acquire({10, 11, 12, 13}) == BERTH_OK);
  CHECK(slots.release_ids({10}, BERTH_EACH, 5) == BERTH_OK);
  CHECK(slots.release_ids({11}, BERTH_EACH, 3) == BERTH_OK);
  CHECK(slots.release_ids({12}, BERTH_EACH, 7) == BERTH_OK);
  CHECK(slots.release_ids({13}, BERTH_EACH, 4) == BERTH_OK);
  CHECK(slots.stats().quarantined == 4 && slots.stats().free == 0);
  CHECK(slots.acquire({1}) == BERTH_E_EXHAUSTED);
  CHECK(slots.complete(2) == 0);
  CHECK(slots.complete(3) == 1);
  CHECK(slot(slots.acquire_one(1)) == 1);
  CHECK(slots.complete(5) == 2);
  CHECK(slot(slots.acquire_one(2)) == 0 && slot(slots.acquire_one(3)) == 3);
  CHECK(slots.complete(kLargest) == 1);
}

TEST(aFenceThatHasCompletedHoldsNothing) {
  Slots slots(2, 0, 1);
  CHECK(slots.acquire({1, 2}) == BERTH_OK);
  CHECK(slots.release_ids({1}, BERTH_EACH, 0) == BERTH_OK);
  CHECK(slots.stats().quarantined == 1);  // 0 is an epoch like any other
  CHECK(slots.complete(6) == 1 && slots.complete(2) == 0);
  CHECK(slots.release_ids({2}, BERTH_EACH, 6) == BERTH_OK);
  CHECK(slots.stats().quarantined == 0 && slots.stats().free == 2);
}

TEST(withoutQuarantineFencesAreIgnored) {
  Slots slots(1);
  slots.acquire_one(1);
  CHECK(slots.release_ids({1}, BERTH_EACH, kLargest) == BERTH_OK);
  CHECK(slots.stats().quarantined == 0 && slots.complete(kLargest) == 0);
  slots.acquire_one(2);
}

TEST(aSweepTakesWhatWasIdleStrictlyLongerInSlotOrder) {
  Slots slots(8);
  for (uint64_t id = 0; id < 6; ++id) slots.acquire_one(100 - id, 10 * id);
  const uint64_t touched = slots.find(100);
  int32_t status = 99;
  CHECK(berth_slots_touch(slots.map, &touched, 1, 1000, &status) == BERTH_OK && status == BERTH_OK);
  std::array<uint64_t, 4> ids{};
  int32_t count = -1;
  // idle for 40, 30 and 20 at time 50, and one that was last used in the future
  CHECK(berth_slots_sweep(slots.map, 50, 19, 0, ids.data(), 2, &count) == BERTH_E_CAPACITY);
  CHECK(count == 3 && slots.stats().used == 6);
  CHECK(berth_slots_sweep(slots.map, 50, 20, 0, ids.data(), 4, &count) == BERTH_OK);
  CHECK(count == 2 && ids[0] == 99 && ids[1] == 98 && slots.stats().used == 4);
  CHECK(slots.find(97) != 0 && slots.find(98) == 0);
}

TEST(copyRowsAreContextsThenBeamsInRequestOrder) {
  Slots slots(8);
  CHECK(slots.acquire({1, 2, 3}) == BERTH_OK);
  const std::vector<uint64_t> handles = {slots.handles[2], slots.handles[0], slots.handles[2]};
  std::array<int32_t, 8> rows{};
  int32_t count = -1;
  CHECK(berth_slots_rows(slots.map, handles.data(), 3, 1, 3, 4, 0, rows.data(), 8, &count) == BERTH_OK);
  CHECK(count == 7);
  CHECK((std::array<int32_t, 7>{rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6]} ==
         std::array<int32_t, 7>{8, 0, 1, 2, 8, 9, 10}));
  CHECK(berth_slots_rows(slots.map, handles.data(), 2, 0, 3, 1, 1, rows.data(), 8, &count) == BERTH_OK);
  CHECK(count == 6 && rows[0] == 2 && rows[2] == 2 && rows[3] == 0 && rows[5] == 0);
}

TEST(copyRowsOfAShapeThatCannotBeAreRefusedAndNothingIsWritten) {
  Slots slots(4);
  CHECK(slots.acquire({1, 2}) == BERTH_OK);
  std::vector<uint64_t> handles = slots.handles;
  std::array<int32_t, 8> rows;
  rows.fill(-7);
  int32_t count = -7;
  const auto call = [&](int32_t n, int32_t contexts, int32_t beam, int32_t width, int32_t replicate, int32_t room) {
    return berth_slots_rows(slots.map, handles.data(), n, contexts, beam, width, replicate, rows.data(), room, &count);
  };
  CHECK(call(2, 3, 1, 1, 0, 8) == BERTH_E_ARGUMENT);
  CHECK(call(2, -1, 1, 1, 0, 8) == BERTH_E_ARGUMENT);
  CHECK(call(2, 0, 0, 1, 0, 8) == BERTH_E_ARGUMENT);
  CHECK(call(2, 0, 2, 1, 0, 8) == BERTH_E_ARGUMENT);
  CHECK(call(2, 0, 1, 0, 0, 8) == BERTH_E_ARGUMENT);
  CHECK(call(2, 0, 1, INT32_MAX, 0, 8) == BERTH_E_ARGUMENT);
  CHECK(call(2, 0, 1, 1, 2, 8) == BERTH_E_ARGUMENT);
  CHECK(call(5, 0, 1, 1, 0, 8) == BERTH_E_ARGUMENT);
  CHECK(call(-1, 0, 1, 1, 0, 8) == BERTH_E_ARGUMENT);
  CHECK(call(2, 0, 1, 1, 0, -1) == BERTH_E_ARGUMENT);
  CHECK(call(2, 0, INT32_MAX, 1, 1, INT32_MAX) == BERTH_E_CAPACITY);
  CHECK(call(2, 0, 4, 4, 0, 7) == BERTH_E_CAPACITY);
  handles[1] += 1;
  CHECK(call(2, 0, 1, 1, 0, 8) == BERTH_E_NOT_FOUND);
  slots.release_ids({1});
  CHECK(call(1, 0, 1, 1, 0, 8) == BERTH_E_STALE);
  CHECK(count == -7 && std::count(rows.begin(), rows.end(), -7) == 8);
}

TEST(argumentsThatCannotBeAreRefused) {
  berth_slots_t none = nullptr;
  const auto create = [&](berth_slots_config config) { return berth_slots_create(&config, &none); };
  const uint32_t size = sizeof(berth_slots_config);
  const int32_t most = berth::SlotMap::kMaxCapacity;
  CHECK(berth_slots_create(nullptr, &none) == BERTH_E_ARGUMENT);
  const berth_slots_config good{size, 1, 0, 0};
  CHECK(berth_slots_create(&good, nullptr) == BERTH_E_ARGUMENT);
  CHECK(create({size - 1, 1, 0, 0}) == BERTH_E_ARGUMENT);
  CHECK(create({size, 0, 0, 0}) == BERTH_E_ARGUMENT);
  CHECK(create({size, most + 1, 0, 0}) == BERTH_E_ARGUMENT);
  CHECK(create({size, 1, -1, 0}) == BERTH_E_ARGUMENT);
  CHECK(create({size, 1, most + 1, 0}) == BERTH_E_ARGUMENT);
  CHECK(create({size, 1, 0, 2}) == BERTH_E_ARGUMENT);
  CHECK(none == nullptr);
  CHECK(berth_slots_destroy(nullptr) == BERTH_E_ARGUMENT);

  Slots slots(4);
  uint64_t word[3] = {};
  int32_t status[2] = {};
  auto *odd = reinterpret_cast<uint64_t *>(reinterpret_cast<char *>(word) + 4);
  const auto acquire = [&](berth_slots_t map, const uint64_t *ids, int32_t n, int32_t mode, uint64_t *handles,
                           int32_t *statuses) { return berth_slots_acquire(map, ids, n, mode, 0, handles, statuses); };
  CHECK(acquire(nullptr, word, 1, 0, word, status) == BERTH_E_ARGUMENT);
  CHECK(acquire(slots.map, nullptr, 1, 0, word, status) == BERTH_E_ARGUMENT);
  CHECK(acquire(slots.map, word, 1, 0, nullptr, status) == BERTH_E_ARGUMENT);
  CHECK(acquire(slots.map, word, 1, 0, word, nullptr) == BERTH_E_ARGUMENT);
  CHECK(acquire(slots.map, odd, 1, 0, word, status) == BERTH_E_ARGUMENT);
  CHECK(acquire(slots.map, word, -1, 0, word, status) == BERTH_E_ARGUMENT);
  CHECK(acquire(slots.map, word, most + 1, 0, word, status) == BERTH_E_ARGUMENT);
  CHECK(acquire(slots.map, word, 1, 2, word, status) == BERTH_E_ARGUMENT);
  CHECK(acquire(slots.map, word, 1, -1, word, status) == BERTH_E_ARGUMENT);
  CHECK(acquire(slots.map, nullptr, 0, 0, nullptr, nullptr) == BERTH_OK);
  CHECK(berth_slots_find(nullptr, word, 1, word, status) == BERTH_E_ARGUMENT);
  CHECK(berth_slots_find(slots.map, nullptr, 1, word, status) == BERTH_E_ARGUMENT);
  CHECK(berth_slots_touch(nullptr, word, 1, 0, status) == BERTH_E_ARGUMENT);
  CHECK(berth_slots_touch(slots.map, word, 1, 0, nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_slots_release(nullptr, word, 1, 0, 0, status) == BERTH_E_ARGUMENT);
  CHECK(berth_slots_release(slots.map, word, 1, 2, 0, status) == BERTH_E_ARGUMENT);
  CHECK(berth_slots_release_ids(nullptr, word, 1, 0, 0, status) == BERTH_E_ARGUMENT);
  CHECK(berth_slots_release_ids(slots.map, nullptr, 1, 0, 0, status) == BERTH_E_ARGUMENT);
  CHECK(berth_slots_complete(nullptr, 0, status) == BERTH_E_ARGUMENT);
  CHECK(berth_slots_complete(slots.map, 0, nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_slots_sweep(nullptr, 0, 0, 0, word, 1, status) == BERTH_E_ARGUMENT);
  CHECK(berth_slots_sweep(slots.map, 0, 0, 0, nullptr, 1, status) == BERTH_E_ARGUMENT);
  CHECK(berth_slots_sweep(slots.map, 0, 0, 0, word, -1, status) == BERTH_E_ARGUMENT);
  CHECK(berth_slots_sweep(slots.map, 0, 0, 0, nullptr, 0, status) == BERTH_OK);
  berth_slots_stats stats{};
  CHECK(berth_slots_describe(slots.map, &stats) == BERTH_E_ARGUMENT);
  CHECK(berth_slots_describe(slots.map, nullptr) == BERTH_E_ARGUMENT);
  CHECK(slots.stats().used == 0);
}

TEST(theLargestMapFillsAndEmpties) {
  const size_t n = berth::SlotMap::kMaxCapacity;
  Slots slots(berth::SlotMap::kMaxCapacity, berth::SlotMap::kMaxCapacity, 1);
  CHECK(slots.acquire(ids_from(kLargest - n + 1, n)) == BERTH_OK);
  CHECK(slot(slots.handles[n - 1]) == n - 1 && slots.stats().free == 0);
  const std::vector<uint64_t> handles = slots.handles;
  CHECK(slots.acquire({1}) == BERTH_E_EXHAUSTED);
  CHECK(slots.release(handles, BERTH_ALL_OR_NOTHING, 9) == BERTH_OK);
  CHECK(slots.stats().quarantined == static_cast<int32_t>(n));
  CHECK(slots.complete(9) == static_cast<int32_t>(n));
  CHECK(slot(slots.acquire_one(1)) == 0);
}

// Ids as clients that mean harm, or only mean well, might choose them.
TEST(noPatternOfIdsCrowdsTheIndex) {
  const int32_t capacity = 4096;
  const auto crowding = [&](auto id) {
    berth::SlotMap map(capacity, 0, false);
    uint64_t handle;
    for (uint64_t i = 0; i < capacity; ++i) map.acquire(id(i), 0, handle);
    CHECK(map.used() == capacity);
    return map.index().displacement();
  };
  const int64_t most = capacity / 2;  // half a step an entry
  for (uint32_t shift = 0; shift <= 52; ++shift) CHECK(crowding([=](uint64_t i) { return i << shift; }) < most);
  for (const uint64_t stride : {uint64_t{3}, uint64_t{1000}, uint64_t{4097}, uint64_t{0x9e3779b97f4a7c15u},
                                uint64_t{0xd6e8feb86659fd93u}, uint64_t{0xfffffffffffffu}}) {
    CHECK(crowding([=](uint64_t i) { return i * stride; }) < most);
  }
  CHECK(crowding([](uint64_t i) { return kLargest - i; }) < most);
  CHECK(crowding([](uint64_t i) { return i << 32 | i; }) < most);
  CHECK(crowding([](uint64_t i) { return (i % 64) << 58 | i / 64; }) < most);
}

TEST(churnDoesNotDecayTheIndex) {
  berth::SlotMap map(1000, 0, false);
  std::vector<uint64_t> live(1000);
  uint64_t handle, next = 0;
  for (uint64_t &id : live) map.acquire(id = next++, 0, handle);
  std::mt19937_64 random(11);
  for (int32_t i = 0; i < 2'000'000; ++i) {
    uint64_t &id = live[random() % live.size()];
    map.find(id, handle);
    map.release(handle, 0);
    map.acquire(id = next++, 0, handle);
  }
  CHECK(map.used() == 1000 && map.index().displacement() < 100);
  for (const uint64_t id : live) map.find(id, handle), map.release(handle, 0);
  CHECK(map.index().displacement() == 0);
}

TEST(theFreeSetGivesEverySlotOnceAndThenNone) {
  berth::FreeSet free(65);
  for (uint32_t i = 0; i < 65; ++i) CHECK(free.take_lowest() == static_cast<int32_t>(i));
  CHECK(free.take_lowest() == -1);
  free.put(64);
  CHECK(free.take_lowest() == 64 && free.take_lowest() == -1);
}

TEST(randomCallsAgreeWithTheNaiveModel) {
  const char *given = std::getenv("BERTH_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261130;
  std::mt19937_64 random(seed);
  int64_t items = 0;
  for (int32_t run = 0; items < 1'000'000; ++run) {
    std::vector<uint8_t> bytes(run % 4 == 0 ? 30'000 : 1'000);
    for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(random());
    berth::fuzz::SlotsRun sequence(bytes);
    const std::string difference = sequence.run();
    items += sequence.items();
    if (!difference.empty()) {
      std::fprintf(stderr, "BERTH_SEED=%llu, run %d: %s\n", static_cast<unsigned long long>(seed), run,
                   difference.c_str());
      CHECK(difference.empty());
      return;
    }
  }
}

TEST_MAIN
