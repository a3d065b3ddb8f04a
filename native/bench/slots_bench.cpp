// SPDX-License-Identifier: Apache-2.0
// Workload W1 without Java: the limit probe, the slot map in batches of 64, and the slot map one by one.
#include <benchmark/benchmark.h>

#include <array>
#include <random>

#include "core/slots.hpp"
#include "probe/slot_churn.hpp"

namespace {

constexpr int32_t kBatch = 64;
constexpr int32_t kRounds = 333'312;  // the whole batches next to the workload's 333,334

uint64_t splitmix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Positions of the live ids, uniform; the victims of one batch are distinct, so that a batch means what its items mean
// one by one.
struct Positions {
  explicit Positions(int32_t live) : victims(kRounds), lookups(kRounds) {
    std::mt19937_64 random(7);
    std::uniform_int_distribution<int32_t> any(0, live - 1);
    std::vector<int32_t> last(static_cast<size_t>(live), -1);
    for (int32_t i = 0; i < kRounds; ++i) {
      int32_t victim = any(random);
      while (last[static_cast<size_t>(victim)] == i / kBatch) victim = any(random);
      last[static_cast<size_t>(victim)] = i / kBatch;
      victims[static_cast<size_t>(i)] = victim;
      lookups[static_cast<size_t>(i)] = any(random);
    }
  }
  std::vector<int32_t> victims;
  std::vector<int32_t> lookups;
};

struct Ours {
  Ours(int32_t capacity, bool random_ids)
      : random(random_ids), map(capacity, 1, false), live(static_cast<size_t>(capacity) * 3 / 4) {
    uint64_t handle;
    for (uint64_t &id : live) map.acquire(id = fresh(), 0, handle);
  }
  uint64_t fresh() { return random ? splitmix(++issued) : ++issued; }

  bool random;
  uint64_t issued = 0;
  berth::SlotMap map;
  std::vector<uint64_t> live;
};

void report(benchmark::State &state) { state.SetItemsProcessed(state.iterations() * 3 * kRounds); }

void BM_Probe(benchmark::State &state) {
  const auto capacity = static_cast<int32_t>(state.range(0));
  const Positions positions(capacity * 3 / 4);
  berth_bench_churn_t churn = berth_bench_churn_create(capacity, static_cast<int32_t>(state.range(1)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(berth_bench_churn_run(churn, positions.victims.data(), positions.lookups.data(), kRounds));
  }
  berth_bench_churn_destroy(churn);
  report(state);
}

void BM_Batches(benchmark::State &state) {
  const auto capacity = static_cast<int32_t>(state.range(0));
  const Positions positions(capacity * 3 / 4);
  Ours ours(capacity, state.range(1) != 0);
  std::array<uint64_t, kBatch> ids, handles;
  std::array<int32_t, kBatch> statuses;
  const auto mode = berth::BatchMode::kAllOrNothing;
  for (auto _ : state) {
    uint64_t sum = 0;
    for (size_t i = 0; i < kRounds; i += kBatch) {
      for (size_t j = 0; j < kBatch; ++j) ids[j] = ours.live[static_cast<size_t>(positions.victims[i + j])];
      ours.map.release_ids(ids, mode, 0, statuses.data());
      for (size_t j = 0; j < kBatch; ++j) {
        ids[j] = ours.live[static_cast<size_t>(positions.victims[i + j])] = ours.fresh();
      }
      ours.map.acquire(ids, mode, 0, handles.data(), statuses.data());
      for (size_t j = 0; j < kBatch; ++j) ids[j] = ours.live[static_cast<size_t>(positions.lookups[i + j])];
      ours.map.find(ids, handles.data(), statuses.data());
      for (const uint64_t handle : handles) sum += static_cast<uint32_t>(handle);
    }
    benchmark::DoNotOptimize(sum);
  }
  report(state);
}

void BM_OneByOne(benchmark::State &state) {
  const auto capacity = static_cast<int32_t>(state.range(0));
  const Positions positions(capacity * 3 / 4);
  Ours ours(capacity, state.range(1) != 0);
  for (auto _ : state) {
    uint64_t sum = 0;
    for (size_t i = 0; i < kRounds; ++i) {
      uint64_t &position = ours.live[static_cast<size_t>(positions.victims[i])];
      uint64_t handle;
      ours.map.find(position, handle);
      ours.map.release(handle, 0);
      position = ours.fresh();
      ours.map.acquire(position, 0, handle);
      ours.map.find(ours.live[static_cast<size_t>(positions.lookups[i])], handle);
      sum += static_cast<uint32_t>(handle);
    }
    benchmark::DoNotOptimize(sum);
  }
  report(state);
}

void shapes(benchmark::internal::Benchmark *bench) {
  bench->ArgNames({"capacity", "random"})->ArgsProduct({{4096, 65536}, {0, 1}})->Unit(benchmark::kMillisecond);
}
BENCHMARK(BM_Probe)->Apply(shapes);
BENCHMARK(BM_Batches)->Apply(shapes);
BENCHMARK(BM_OneByOne)->Apply(shapes);

}  // namespace
