// SPDX-License-Identifier: Apache-2.0
#include "route_default.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

struct berth_bench_router {
  struct Load {
    int64_t tokens;
    int32_t requests;
    int32_t rank;
    bool operator<(const Load &other) const noexcept {
      if (tokens != other.tokens) return tokens < other.tokens;
      if (requests != other.requests) return requests < other.requests;
      return rank < other.rank;
    }
  };

  berth_bench_router(int32_t ranks, int32_t requests)
      : heap(static_cast<size_t>(ranks)), keys(static_cast<size_t>(requests)) {}

  void sift_down(size_t at, size_t size, Load load) noexcept {
    for (size_t child; (child = 2 * at + 1) < size; at = child) {
      if (child + 1 < size && heap[child + 1] < heap[child]) ++child;
      if (!(heap[child] < load)) break;
      heap[at] = heap[child];
    }
    heap[at] = load;
  }

  int32_t route(const int32_t *active, const int64_t *tokens, const int32_t *sizes, int32_t cap, int32_t *order,
                int32_t *rank_of) noexcept {
    const auto ranks = static_cast<int32_t>(heap.size());
    const auto requests = static_cast<int64_t>(keys.size());
    int64_t total = requests;
    int32_t highest = 0;
    for (int32_t r = 0; r < ranks; ++r) {
      total += active[r];
      highest = std::max(highest, active[r]);
    }
    const auto share = static_cast<int32_t>((total + ranks - 1) / ranks);
    const int32_t target = std::min(std::max(share, highest), cap);

    // longest first, then arrival: the index in the low half makes an unstable sort stable
    for (size_t i = 0; i < keys.size(); ++i)
      keys[i] = (uint64_t{0xffffffffu - static_cast<uint32_t>(sizes[i])} << 32) | i;
    std::sort(keys.begin(), keys.end());

    size_t size = 0;
    for (int32_t r = 0; r < ranks; ++r)
      if (active[r] < target) heap[size++] = {tokens[r], active[r], r};
    for (size_t at = size / 2; at-- > 0;) sift_down(at, size, heap[at]);

    for (size_t i = 0; i < keys.size() && size > 0; ++i) {
      const auto item = static_cast<int32_t>(keys[i] & 0xffffffffu);
      Load load = heap[0];
      order[i] = item;
      rank_of[i] = load.rank;
      load.tokens += sizes[item];
      ++load.requests;
      sift_down(0, load.requests < target ? size : size - 1, load.requests < target ? load : heap[size - 1]);
      if (load.requests >= target) --size;
    }
    return target;
  }

  std::vector<Load> heap;
  std::vector<uint64_t> keys;
};

berth_bench_router_t berth_bench_router_create(int32_t ranks, int32_t requests) {
  try {
    return new berth_bench_router(ranks, requests);
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

void berth_bench_router_destroy(berth_bench_router_t router) { std::unique_ptr<berth_bench_router>{router}; }

int32_t berth_bench_router_run(berth_bench_router_t router, const int32_t *active, const int64_t *tokens,
                               const int32_t *sizes, int32_t cap, int32_t *order, int32_t *rank_of) {
  return router->route(active, tokens, sizes, cap, order, rank_of);
}
