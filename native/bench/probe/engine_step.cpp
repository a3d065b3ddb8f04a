// SPDX-License-Identifier: Apache-2.0
#include "engine_step.hpp"

#include <cstddef>
#include <new>
#include <vector>

struct berth_bench_step {
  struct Request {
    uint64_t id;
    int32_t length;   // tokens of its sequence
    int32_t settled;  // output tokens
    int32_t limit;
    int32_t fresh;  // 1: its prompt is computed in the next step
  };
  struct Output {
    uint64_t id;
    int32_t token;
    int32_t ended;
  };
  int32_t prompt, block, limit, stride, width;
  std::vector<Request> requests;
  std::vector<int32_t> tokens;  // [live][stride]
  std::vector<int32_t> table;   // [live][width]
  std::vector<int32_t> stack;   // free pages
  std::vector<int64_t> slots;   // of the batch's tokens
  std::vector<Output> outputs;  // of the step
  uint64_t last = 0;

  void begin(int32_t i, int32_t most) {
    Request &r = requests[static_cast<size_t>(i)];
    r = Request{++last, prompt, 0, most, 1};
    int32_t *row = &table[static_cast<size_t>(i) * static_cast<size_t>(width)];
    for (int32_t b = 0; b * block < prompt; ++b) {
      row[b] = stack.back();
      stack.pop_back();
    }
    int32_t *sequence = &tokens[static_cast<size_t>(i) * static_cast<size_t>(stride)];
    for (int32_t k = 0; k < prompt; ++k) sequence[k] = k;
  }
};

berth_bench_step_t berth_bench_step_create(int32_t live, int32_t prompt, int32_t block, int32_t limit) {
  auto *s = new (std::nothrow) berth_bench_step;
  if (s == nullptr) return nullptr;
  s->prompt = prompt;
  s->block = block;
  s->limit = limit;
  s->stride = prompt + limit + 1;
  s->width = (s->stride + block - 1) / block + 1;
  const auto n = static_cast<size_t>(live);
  s->requests.resize(n);
  s->tokens.resize(n * static_cast<size_t>(s->stride));
  s->table.resize(n * static_cast<size_t>(s->width));
  for (int32_t i = live * s->width; i > 0; --i) s->stack.push_back(i - 1);
  s->slots.resize(n * static_cast<size_t>(prompt));
  s->outputs.resize(n);
  for (int32_t i = 0; i < live; ++i) {
    s->begin(i, 1 + static_cast<int32_t>(int64_t{i} * limit / live));
    s->requests[static_cast<size_t>(i)].fresh = 0;
  }
  return s;
}

void berth_bench_step_destroy(berth_bench_step_t step) { delete step; }

int32_t berth_bench_step_run(berth_bench_step_t s, const int32_t *sampled) {
  const auto live = static_cast<int32_t>(s->requests.size());
  // Schedule and prepare: pages and slots of what runs.
  size_t at = 0;
  for (int32_t i = 0; i < live; ++i) {
    berth_bench_step::Request &r = s->requests[static_cast<size_t>(i)];
    int32_t *row = &s->table[static_cast<size_t>(i) * static_cast<size_t>(s->width)];
    if (r.fresh != 0) {
      for (int32_t k = 0; k < s->prompt; ++k) {
        s->slots[at++] = int64_t{row[k / s->block]} * s->block + k % s->block;
      }
      r.fresh = 0;
    } else {
      const int32_t position = r.length - 1;
      if (position % s->block == 0) {
        row[position / s->block] = s->stack.back();
        s->stack.pop_back();
      }
      s->slots[at++] = int64_t{row[position / s->block]} * s->block + position % s->block;
    }
  }
  // Settle: tokens, outputs, ends, replacements.
  int32_t replaced = 0;
  for (int32_t i = 0; i < live; ++i) {
    berth_bench_step::Request &r = s->requests[static_cast<size_t>(i)];
    s->tokens[static_cast<size_t>(i) * static_cast<size_t>(s->stride) + static_cast<size_t>(r.length)] = sampled[i];
    ++r.length;
    const bool ends = ++r.settled >= r.limit;
    s->outputs[static_cast<size_t>(i)] = {r.id, sampled[i], ends ? 1 : 0};
    if (!ends) continue;
    const int32_t *row = &s->table[static_cast<size_t>(i) * static_cast<size_t>(s->width)];
    for (int32_t b = 0; b * s->block < r.length - 1; ++b) s->stack.push_back(row[b]);
    s->begin(i, s->limit);
    ++replaced;
  }
  return replaced;
}
