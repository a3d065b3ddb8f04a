// SPDX-License-Identifier: Apache-2.0
#include "kv_limits.hpp"

#include <cstring>
#include <vector>

struct berth_bench_pages {
  std::vector<int32_t> stack;
  std::vector<int32_t> references;
  std::vector<int32_t> held;
  int32_t blocks;
};

berth_bench_pages_t berth_bench_pages_create(int32_t pages, int32_t sequences, int32_t blocks) {
  auto *p = new berth_bench_pages;
  p->blocks = blocks;
  p->references.resize(static_cast<size_t>(pages));
  p->held.resize(static_cast<size_t>(sequences) * static_cast<size_t>(blocks));
  for (int32_t i = pages; i > 0; --i) p->stack.push_back(i - 1);
  for (int32_t &page : p->held) {
    page = p->stack.back();
    p->stack.pop_back();
    p->references[static_cast<size_t>(page)] = 1;
  }
  return p;
}

void berth_bench_pages_destroy(berth_bench_pages_t p) { delete p; }

int64_t berth_bench_pages_run(berth_bench_pages_t p, const int32_t *victims, int32_t n, int32_t bulk) {
  int64_t sum = 0;
  for (int32_t i = 0; i < n; ++i) {
    int32_t *list = p->held.data() + static_cast<size_t>(victims[i]) * static_cast<size_t>(p->blocks);
    for (int32_t b = p->blocks; b > 0; --b) {
      const int32_t page = list[b - 1];
      if (--p->references[static_cast<size_t>(page)] == 0) p->stack.push_back(page);
    }
    for (int32_t b = 0; b < bulk; ++b) {
      list[b] = p->stack.back();
      p->stack.pop_back();
      ++p->references[static_cast<size_t>(list[b])];
    }
    for (int32_t b = bulk; b < p->blocks; ++b) {
      asm volatile("" ::: "memory");
      list[b] = p->stack.back();
      p->stack.pop_back();
      ++p->references[static_cast<size_t>(list[b])];
    }
    sum += list[0];
  }
  return sum;
}

void berth_bench_touch(int32_t *records, int32_t n, int32_t block) {
  for (int32_t i = 0; i < n; ++i) {
    int32_t *record = records + static_cast<size_t>(i) * 16;
    if (++record[0] % block == 0) ++record[1];
  }
}

struct berth_bench_prefix {
  struct Page {
    uint64_t hash;
    int32_t references, older, newer;
  };
  std::vector<Page> pages;
  std::vector<uint64_t> keys;
  std::vector<int32_t> values;
  std::vector<uint64_t> chain;
  std::vector<int32_t> free;
  uint64_t mask;
  int32_t oldest = -1, newest = -1;
  size_t block;

  void list(int32_t i) {
    Page &p = pages[static_cast<size_t>(i)];
    p.newer = -1;
    p.older = newest;
    (newest < 0 ? oldest : pages[static_cast<size_t>(newest)].newer) = i;
    newest = i;
  }
  void unlist(int32_t i) {
    const Page &p = pages[static_cast<size_t>(i)];
    (p.older < 0 ? oldest : pages[static_cast<size_t>(p.older)].newer) = p.newer;
    (p.newer < 0 ? newest : pages[static_cast<size_t>(p.newer)].older) = p.older;
  }
  void erase(uint64_t hash) {
    uint64_t hole = hash & mask;
    while (keys[hole] != hash) hole = (hole + 1) & mask;
    for (uint64_t i = (hole + 1) & mask; keys[i] != 0; i = (i + 1) & mask) {
      if (((i - (keys[i] & mask)) & mask) >= ((i - hole) & mask)) {
        keys[hole] = keys[i];
        values[hole] = values[i];
        hole = i;
      }
    }
    keys[hole] = 0;
  }
  int32_t find(uint64_t hash) const {
    for (uint64_t i = hash & mask; keys[i] != 0; i = (i + 1) & mask) {
      if (keys[i] == hash) return values[i];
    }
    return -1;
  }
  void insert(uint64_t hash, int32_t page) {
    uint64_t i = hash & mask;
    while (keys[i] != 0) i = (i + 1) & mask;
    keys[i] = hash;
    values[i] = page;
  }
  int32_t hash(const int32_t *tokens, int32_t n) {
    __extension__ typedef unsigned __int128 Wide;
    uint64_t h = 0x9e3779b97f4a7c15u;
    const int32_t blocks = n / static_cast<int32_t>(block);
    for (int32_t b = 0; b < blocks; ++b) {
      for (size_t i = 0; i + 2 <= block; i += 2, tokens += 2) {
        uint64_t word;
        std::memcpy(&word, tokens, 8);
        const Wide product = static_cast<Wide>(h ^ word) * 0xd6e8feb86659fd93u;
        h = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
      }
      chain[static_cast<size_t>(b)] = h | 1;
    }
    return blocks;
  }
};

berth_bench_prefix_t berth_bench_prefix_create(int32_t pages, int32_t block_tokens) {
  auto *p = new berth_bench_prefix;
  uint64_t size = 1;
  while (size < 2 * static_cast<uint64_t>(pages)) size *= 2;
  p->mask = size - 1;
  p->keys.resize(size);
  p->values.resize(size);
  p->chain.resize(1 << 16);
  p->pages.resize(static_cast<size_t>(pages));
  for (int32_t i = pages; i > 0; --i) p->free.push_back(i - 1);
  p->block = static_cast<size_t>(block_tokens);
  return p;
}

void berth_bench_prefix_destroy(berth_bench_prefix_t p) { delete p; }

int32_t berth_bench_prefix_open(berth_bench_prefix_t p, const int32_t *tokens, int32_t n, int32_t *pages) {
  const int32_t blocks = p->hash(tokens, n);
  int32_t found = 0;
  for (; found < (n - 1) / static_cast<int32_t>(p->block); ++found) {
    const int32_t page = p->find(p->chain[static_cast<size_t>(found)]);
    if (page < 0) break;
    if (p->pages[static_cast<size_t>(page)].references++ == 0) p->unlist(page);
    pages[found] = page;
  }
  for (int32_t b = found; b < blocks; ++b) {
    int32_t page;
    if (!p->free.empty()) {
      page = p->free.back();
      p->free.pop_back();
    } else {
      page = p->oldest;
      p->unlist(page);
      if (p->pages[static_cast<size_t>(page)].hash != 0) p->erase(p->pages[static_cast<size_t>(page)].hash);
    }
    p->pages[static_cast<size_t>(page)].references = 1;
    p->pages[static_cast<size_t>(page)].hash = 0;
    pages[b] = page;
  }
  for (int32_t b = found; b < blocks; ++b) {
    const uint64_t hash = p->chain[static_cast<size_t>(b)];
    if (p->find(hash) >= 0) continue;
    p->insert(hash, pages[b]);
    p->pages[static_cast<size_t>(pages[b])].hash = hash;
  }
  return found;
}

void berth_bench_prefix_close(berth_bench_prefix_t p, const int32_t *pages, int32_t n) {
  for (int32_t b = n; b > 0; --b) {
    if (--p->pages[static_cast<size_t>(pages[b - 1])].references == 0) p->list(pages[b - 1]);
  }
}

int32_t berth_bench_prefix_find(berth_bench_prefix_t p, const int32_t *tokens, int32_t n, int32_t *pages) {
  const int32_t blocks = p->hash(tokens, n - 1);
  int32_t found = 0;
  for (; found < blocks; ++found) {
    const int32_t page = p->find(p->chain[static_cast<size_t>(found)]);
    if (page < 0) break;
    if (p->pages[static_cast<size_t>(page)].references++ == 0) p->unlist(page);
    pages[found] = page;
  }
  berth_bench_prefix_close(p, pages, found);
  return found;
}

void berth_bench_rows(int32_t *to, const int32_t *from, int32_t rows, int32_t width, int32_t used) {
  const size_t bytes = static_cast<size_t>(used) * sizeof(int32_t);
  for (int32_t i = 0; i < rows; ++i) {
    std::memcpy(to, from, bytes);
    std::memcpy(to + width, from, bytes);
    from += width;
    to += 2 * width;
  }
}
