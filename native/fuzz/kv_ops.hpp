// SPDX-License-Identifier: Apache-2.0
// Random histories of one KV cache through the C ABI, held against what must be true: every invariant after every
// operation, every page's contents (each position's page must hold what its prefix makes of it), events that rebuild
// the index, and, where eviction is plain LRU, exactly the matches of a model that knows no runs, hashes or lists.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "abi/kv.hpp"
#include "berth/berth.h"
#include "device/host.hpp"
#include "test/faulty_file.hpp"

namespace berth::test {

// Choices: from bytes until they are used up, or from a seed.
class Choices {
 public:
  Choices(const uint8_t *data, size_t size) : data_(data), size_(size) {}
  explicit Choices(uint64_t seed) : random_(seed), seeded_(true) {}
  // 0 .. n - 1
  int32_t below(int32_t n) {
    if (n <= 1) return 0;
    if (seeded_) return static_cast<int32_t>(random_() % static_cast<uint64_t>(n));
    if (at_ + 2 > size_) return 0;
    const uint32_t word = data_[at_] | static_cast<uint32_t>(data_[at_ + 1]) << 8;
    at_ += 2;
    return static_cast<int32_t>(word % static_cast<uint32_t>(n));
  }
  bool more() const { return seeded_ || at_ < size_; }

 private:
  const uint8_t *data_ = nullptr;
  size_t size_ = 0;
  size_t at_ = 0;
  std::mt19937_64 random_;
  bool seeded_ = false;
};

[[noreturn]] inline void broken(const char *file, int line, const char *what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what);
  std::abort();
}
#define REQUIRE(condition)                                                   \
  do {                                                                       \
    if (!(condition)) ::berth::test::broken(__FILE__, __LINE__, #condition); \
  } while (false)

inline berth_kv_config kv_config() {
  berth_kv_config c{};
  c.struct_size = sizeof c;
  c.tokens_per_block = 4;
  c.max_blocks = 16;
  c.sequences = 6;
  c.rows = 6;
  c.beams = 1;
  c.pins = 8;
  c.scopes = 3;
  c.tenants = 1;
  c.index_blocks = 64;
  c.default_priority = 35;
  c.offload_min_priority = 30;
  c.max_utilisation = 65536;
  c.memory = 1;
  c.staging = 3;
  c.bad_value = -1;
  c.token_arena = 4096;
  c.hash_key[0] = 1;
  c.hash_key[1] = 2;
  return c;
}

inline berth_kv_buffer kv_buffer(int32_t layer, int32_t role, int64_t bytes, int32_t window = -1, int32_t sinks = 0) {
  return {bytes, layer, role, window, sinks, 0, 0, {0, 0}};
}

struct Layout {
  explicit Layout(const std::vector<berth_kv_buffer> &buffers, int32_t tokens_per_block)
      : place(buffers.size()), view(buffers.size()), pool(buffers.size()), life(16), slots(16) {
    counts.struct_size = sizeof counts;
    counts.place_address = reinterpret_cast<uintptr_t>(place.data());
    counts.view_address = reinterpret_cast<uintptr_t>(view.data());
    counts.pool_address = reinterpret_cast<uintptr_t>(pool.data());
    counts.life_cycle_address = reinterpret_cast<uintptr_t>(life.data());
    counts.max_slots_address = reinterpret_cast<uintptr_t>(slots.data());
    status = berth_kv_plan(buffers.data(), static_cast<int32_t>(buffers.size()), tokens_per_block, &counts);
  }
  berth_kv_layout counts{};
  std::vector<berth_kv_place> place;
  std::vector<berth_kv_view> view;
  std::vector<berth_kv_pool> pool;
  std::vector<berth_kv_life_cycle> life;
  std::vector<int64_t> slots;
  int32_t status;
};

// A disk level in the directory for temporary files.
inline berth_kv_disk kv_disk(const char *directory, int32_t threads = 2, int32_t depth = 16) {
  berth_kv_disk disk{};
  disk.struct_size = sizeof disk;
  disk.threads = threads;
  disk.depth = depth;
  disk.directory_address = reinterpret_cast<uintptr_t>(directory);
  disk.directory_bytes = static_cast<int64_t>(std::strlen(directory));
  return disk;
}
inline const char *temporary_directory() {
  const char *directory = std::getenv("TMPDIR");
  return directory == nullptr ? "/tmp" : directory;
}

// A cache whose disk fails.
inline berth_kv_t faulty_kv(const berth_kv_config &c, const std::vector<berth_kv_buffer> &b,
                            const std::vector<int64_t> &pages, const FaultyFile::Faults &faults, int32_t threads = 2,
                            int32_t depth = 16, std::vector<int64_t> most = {}) {
  if (most.empty()) most = pages;
  KvLayout layout;
  int32_t bad;
  REQUIRE(KvLayout::plan(b, c.tokens_per_block, layout, bad) == Status::kOk && KvCache::valid(c, layout, pages));
  device::HostBackend::Disk disk;
  disk.file = std::make_unique<FaultyFile>(static_cast<size_t>(device::HostBackend::disk_bytes(layout, pages)), faults);
  disk.threads = threads;
  disk.depth = depth;
  auto backend = std::make_unique<device::HostBackend>(
      device::HostBackend::Config{&layout, c.rows, c.max_blocks, c.staging, device::HostBackend::Mode{c.mode},
                                  c.memory == 1, most},
      std::move(disk));
  return new berth_kv{KvCache(c, layout, pages, std::move(backend), most)};
}

// A cache and its mapped memory.
struct Kv {
  Kv(const berth_kv_config &c, const std::vector<berth_kv_buffer> &b, berth_kv_t made)
      : config(c), layout(b, c.tokens_per_block), kv(made) {
    map();
  }
  Kv(const berth_kv_config &c, const std::vector<berth_kv_buffer> &b, const std::vector<int64_t> &pages)
      : config(c), layout(b, c.tokens_per_block) {
    REQUIRE(layout.status == BERTH_OK);
    REQUIRE(berth_kv_create(&c, b.data(), static_cast<int32_t>(b.size()), pages.data(),
                            static_cast<int32_t>(pages.size()), &kv) == BERTH_OK);
    map();
  }
  void map() {
    memory.struct_size = sizeof memory;
    REQUIRE(berth_kv_map(kv, &memory) == BERTH_OK);
    arena = reinterpret_cast<int32_t *>(static_cast<uintptr_t>(memory.token_address));
    ring = reinterpret_cast<berth_kv_event_ring *>(static_cast<uintptr_t>(memory.event_address));
  }
  Kv(const Kv &) = delete;
  Kv &operator=(const Kv &) = delete;
  ~Kv() { berth_kv_destroy(kv); }

  berth_kv_op op(int32_t kind, uint64_t handle = 0) const {
    berth_kv_op o{};
    o.kind = kind;
    o.handle = handle;
    return o;
  }
  berth_kv_op with_tokens(int32_t kind, uint64_t handle, const std::vector<int32_t> &tokens) {
    std::copy(tokens.begin(), tokens.end(), arena);
    berth_kv_op o = op(kind, handle);
    o.token_count = static_cast<int32_t>(tokens.size());
    return o;
  }
  int32_t apply(berth_kv_op &o) { return berth_kv_apply(kv, &o, 1); }
  int32_t poll(int32_t at_least, int32_t at_most) {
    int32_t settled = -1;
    REQUIRE(berth_kv_poll(kv, at_least, at_most, &settled) == BERTH_OK);
    return settled;
  }
  const berth_kv_io &io() const { return *reinterpret_cast<berth_kv_io *>(static_cast<uintptr_t>(memory.io_address)); }
  const berth_kv_ticket &ticket(uint64_t number) const {
    return reinterpret_cast<const berth_kv_ticket *>(&io() + 1)[number % static_cast<uint64_t>(memory.tickets)];
  }
  int32_t run(berth_kv_op o) { return apply(o); }
  int32_t check() {
    int32_t number = 0;
    berth_kv_check(kv, &number);
    return number;
  }
  std::vector<int32_t> blocks(uint64_t handle, int32_t l = 0, int32_t beam = 0) {
    std::vector<int32_t> out(static_cast<size_t>(config.max_blocks));
    int32_t n = 0;
    REQUIRE(berth_kv_blocks(kv, handle, l, beam, out.data(), config.max_blocks, &n) == BERTH_OK);
    out.resize(static_cast<size_t>(n));
    return out;
  }
  std::vector<berth_kv_pages> pages(berth_kv_stats *stats = nullptr) {
    berth_kv_stats s{};
    s.struct_size = sizeof s;
    std::vector<berth_kv_pages> p(static_cast<size_t>(BERTH_KV_LEVELS * memory.groups));
    REQUIRE(berth_kv_describe(kv, &s, p.data(), static_cast<int32_t>(p.size())) == BERTH_OK);
    if (stats != nullptr) *stats = s;
    return p;
  }
  uint64_t *words(int32_t level, int32_t pool, int32_t slot) {
    uint64_t address = 0;
    int64_t bytes = 0;
    REQUIRE(berth_kv_page(kv, level, pool, slot, &address, &bytes) == BERTH_OK);
    return reinterpret_cast<uint64_t *>(static_cast<uintptr_t>(address));
  }
  int32_t probe(const std::vector<int32_t> &prompt, uint64_t lora = 0, int32_t scope = 0) {
    std::copy(prompt.begin(), prompt.end(), arena);
    const int64_t offsets[] = {0, static_cast<int64_t>(prompt.size())};
    int32_t matched = -1;
    REQUIRE(berth_kv_probe(kv, lora, 0, scope, offsets, 1, &matched) == BERTH_OK);
    return matched;
  }

  berth_kv_config config;
  Layout layout;
  berth_kv_t kv = nullptr;
  berth_kv_memory memory{};
  int32_t *arena = nullptr;
  berth_kv_event_ring *ring = nullptr;
};

// What a consumer knows of the index: presence by block and life cycle.
struct Replica {
  struct Page {
    uint64_t parent, lora;
    int32_t level, scope, priority;
    std::vector<int32_t> tokens;
    bool operator==(const Page &) const = default;
  };
  std::map<std::pair<uint64_t, int32_t>, Page> pages;
  uint64_t sequence = 0;

  static Page page(const berth_kv_event &e, const int32_t *tokens) {
    return {e.parent, e.lora, e.level, e.scope, e.priority, std::vector<int32_t>(tokens, tokens + e.tokens)};
  }
  void drain(Kv &kv) {
    const auto n = static_cast<uint64_t>(kv.memory.events);
    const auto *events = reinterpret_cast<const berth_kv_event *>(kv.ring + 1);
    const auto *tokens = reinterpret_cast<const int32_t *>(events + n);
    while (kv.ring->tail != kv.ring->head) {
      const uint64_t i = kv.ring->tail & (n - 1);
      const berth_kv_event &e = events[i];
      REQUIRE(e.sequence == sequence + 1);
      sequence = e.sequence;
      const std::pair<uint64_t, int32_t> key{e.block, e.life_cycle};
      if (e.kind == BERTH_KV_STORED) {
        REQUIRE(pages.emplace(key, page(e, tokens + i * static_cast<uint64_t>(kv.memory.event_tokens))).second);
      } else if (e.kind == BERTH_KV_REMOVED) {
        REQUIRE(pages.erase(key) == 1);
      } else {
        REQUIRE(pages.count(key) == 1 && pages[key].level == e.old_level);
        pages[key].level = e.level;
        pages[key].priority = e.priority;
      }
      ++kv.ring->tail;
    }
  }
  // The snapshot, as a replica.
  static Replica of(Kv &kv) {
    Replica r;
    int32_t n = 0;
    berth_kv_snapshot(kv.kv, nullptr, nullptr, 0, &n, &r.sequence);
    std::vector<berth_kv_event> events(static_cast<size_t>(n));
    std::vector<int32_t> tokens(static_cast<size_t>(n * kv.config.tokens_per_block));
    REQUIRE(berth_kv_snapshot(kv.kv, events.data(), tokens.data(), n, &n, &r.sequence) == BERTH_OK);
    std::set<uint64_t> seen = {0};
    for (size_t i = 0; i < events.size(); ++i) {
      REQUIRE(kv.memory.life_cycles > 1 || seen.count(events[i].parent) == 1);
      seen.insert(events[i].block);
      r.pages.emplace(std::pair{events[i].block, events[i].life_cycle},
                      page(events[i], tokens.data() + i * static_cast<size_t>(kv.config.tokens_per_block)));
    }
    return r;
  }
};

// The prefix index as one would draw it on a board: a node a block, found by all the tokens up to it, evicted one at a
// time, the one unused for longest first. Full attention, one level, no partial blocks.
struct NaiveIndex {
  using Key = std::pair<int32_t, std::vector<int32_t>>;  // scope, tokens up to the block's end
  struct Node {
    int32_t references = 0;
    uint64_t stamp = 0;
  };
  explicit NaiveIndex(int32_t tokens_per_block) : tpb(tokens_per_block) {}

  int32_t match(int32_t scope, const std::vector<int32_t> &prompt) const {
    int32_t blocks = 0;
    while (static_cast<size_t>((blocks + 1) * tpb) < prompt.size() && nodes.count(key(scope, prompt, blocks + 1)))
      ++blocks;
    return blocks;
  }
  void pin(int32_t scope, const std::vector<int32_t> &tokens, int32_t blocks, int32_t by) {
    for (int32_t b = blocks; b >= 1; --b) {
      Node &node = nodes.at(key(scope, tokens, b));
      node.references += by;
      if (by < 0 && node.references == 0) node.stamp = ++clock;
    }
  }
  void evict() {
    auto victim = nodes.end();
    for (auto n = nodes.begin(); n != nodes.end(); ++n) {
      if (n->second.references == 0 && (victim == nodes.end() || n->second.stamp < victim->second.stamp)) victim = n;
    }
    REQUIRE(victim != nodes.end());
    nodes.erase(victim);
  }
  int32_t evictable() const {
    int32_t n = 0;
    for (const auto &node : nodes) n += node.second.references == 0;
    return n;
  }
  Key key(int32_t scope, const std::vector<int32_t> &tokens, int32_t blocks) const {
    return {scope, std::vector<int32_t>(tokens.begin(), tokens.begin() + blocks * tpb)};
  }

  int32_t tpb;
  uint64_t clock = 0;
  std::map<Key, Node> nodes;
};

class KvWorld {
 public:
  struct Shape {
    std::vector<berth_kv_buffer> buffers;  // bytes: 8 a token, state: 8
    std::vector<int64_t> pages;
    berth_kv_config config = kv_config();
    bool exact = false;   // compare with NaiveIndex
    bool few = false;     // prompts, that come again and again: their blocks go down and up
    int32_t threads = 2;  // of the disk level
    bool faulty = false;
    FaultyFile::Faults faults;
  };

  KvWorld(const Shape &shape, Choices &choices)
      : shape_(shape),
        c_(choices),
        disk_(kv_disk(temporary_directory(), shape.threads)),
        most_(most(shape)),
        kv_(shape.config, shape.buffers, make(shape)),
        naive_(shape.config.tokens_per_block),
        total_(shape.pages[0]),
        free_(shape.pages[0]) {}

  void run(int32_t steps) {
    for (int32_t i = 0; i < steps && c_.more(); ++i) {
      step();
      audit();
      count();
    }
    finish();
    count();
  }

  // Of every count after every operation.
  uint64_t digest() const { return digest_; }

  int64_t hits = 0;
  int64_t refusals = 0;
  int64_t partials = 0;
  int64_t waits = 0;   // for the disk
  int64_t losses = 0;  // of pages, told to a sequence
  int64_t adjusted = 0;
  int64_t snapshots = 0;
  int64_t shares = 0;
  int64_t wide = 0;
  int64_t drops = 0;

 private:
  struct Seq {
    uint64_t handle;
    int32_t scope;
    std::vector<int32_t> tokens;  // all that it will be: prompt, then what it generates
    int32_t committed, history, capacity, written;
    int32_t row;  // -1: suspended
    bool stopped;
    bool minimal;
    int32_t beams;
    int32_t parted[4];  // position from which a beam goes its own way
    int32_t in_index;   // exact mode: blocks referenced
    bool stuck;         // exact mode: stores no more
  };
  // Pools may become half as large again, but for the disk level.
  static std::vector<int64_t> most(const Shape &shape) {
    std::vector<int64_t> pages = shape.pages;
    for (size_t i = 0; !shape.exact && i < pages.size() / 3 * 2; ++i) pages[i] += pages[i] / 2;
    return pages;
  }
  berth_kv_t make(const Shape &shape) {
    if (shape.faulty)
      return faulty_kv(shape.config, shape.buffers, shape.pages, shape.faults, shape.threads, 16, most_);
    berth_kv_config config = shape.config;
    config.most_address = reinterpret_cast<uintptr_t>(most_.data());
    config.disk_address = reinterpret_cast<uintptr_t>(&disk_);
    berth_kv_t kv = nullptr;
    REQUIRE(berth_kv_create(&config, shape.buffers.data(), static_cast<int32_t>(shape.buffers.size()),
                            shape.pages.data(), static_cast<int32_t>(shape.pages.size()), &kv) == BERTH_OK);
    return kv;
  }
  int32_t tpb() const { return shape_.config.tokens_per_block; }
  int32_t ceil(int32_t tokens) const { return (tokens + tpb() - 1) / tpb(); }
  Seq *any() {
    return seqs_.empty() ? nullptr : &seqs_[static_cast<size_t>(c_.below(static_cast<int32_t>(seqs_.size())))];
  }

  // What the page of a position holds: all tokens up to it, folded, and whose they are where beams parted.
  uint64_t value(const Seq &s, int32_t position, int32_t l, int32_t beam = 0) const {
    uint64_t h = 0x9e3779b97f4a7c15u * static_cast<uint64_t>(s.scope + 1);
    for (int32_t i = 0; i <= position; ++i) {
      h = (h ^ static_cast<uint64_t>(s.tokens[static_cast<size_t>(i)] + 1)) * 0xff51afd7ed558ccdu;
      h ^= h >> 29;
    }
    return h + static_cast<uint64_t>(l) + (position >= s.parted[beam] ? 1000u * static_cast<uint64_t>(beam) : 0);
  }
  bool any_state() const {
    bool states = false;
    for (int32_t l = 0; l < kv_.memory.life_cycles; ++l) states = states || life(l).window == 0;
    return states;
  }
  int32_t pool_of(int32_t l) const {
    for (int32_t v = 0; v < kv_.layout.counts.views; ++v) {
      if (kv_.layout.view[static_cast<size_t>(v)].life_cycle == l) return kv_.layout.view[static_cast<size_t>(v)].pool;
    }
    return -1;
  }
  const berth_kv_life_cycle &life(int32_t l) const { return kv_.layout.life[static_cast<size_t>(l)]; }
  bool stale(const berth_kv_life_cycle &l, int32_t block, int32_t history) const {
    if (l.window <= 0) return false;
    for (int32_t p = block * tpb(); p < (block + 1) * tpb(); ++p) {
      if (p < l.sinks || p + l.window > history) return false;
      // a sink block is kept whole
      if (block < ceil(l.sinks)) return false;
    }
    return true;
  }
  void settle_stream() {
    if (shape_.config.mode == BERTH_KV_EMULATION) {
      int32_t done = 0;
      REQUIRE(berth_kv_run(kv_.kv, 1 << 20, &done) == BERTH_OK);
    }
  }

  // Whether blocks share slots; whether any of them would still be looked at with that history.
  bool scratch(const Seq &s, int32_t history = -1) {
    for (int32_t l = 0; l < kv_.memory.life_cycles; ++l) {
      const std::vector<int32_t> list = kv_.blocks(s.handle, l);
      for (size_t b = 0; b < list.size(); ++b) {
        const auto block = static_cast<int32_t>(b);
        if (list[b] < -1 && (history < 0 || !stale(life(l), block, history))) return true;
      }
    }
    return false;
  }
  bool scratch_below(const Seq &s, int32_t blocks) {
    for (int32_t l = 0; l < kv_.memory.life_cycles; ++l) {
      const std::vector<int32_t> list = kv_.blocks(s.handle, l);
      for (size_t b = 0; b < list.size() && static_cast<int32_t>(b) < blocks; ++b) {
        if (list[b] < -1) return true;
      }
    }
    return false;
  }

  // Runs the model on [history, to): every position's page gets its value; a state goes from one to the next.
  void forward(Seq &s, int32_t to) {
    settle_stream();
    for (int32_t l = 0; l < kv_.memory.life_cycles; ++l) {
      if (life(l).window == 0) {
        const std::vector<int32_t> list = kv_.blocks(s.handle, l);
        if (list[0] < 0) continue;
        uint64_t *state = kv_.words(0, pool_of(l), list[0]);
        if (s.history > 0) REQUIRE(*state == value(s, s.history - 1, l));
        if (to > 0) *state = value(s, to - 1, l);
        continue;
      }
      for (int32_t j = 0; j < s.beams; ++j) {
        const std::vector<int32_t> list = kv_.blocks(s.handle, l, j);
        for (int32_t p = s.history; p < to; ++p) {
          const int32_t page = list[static_cast<size_t>(p / tpb())];
          if (page < 0) continue;
          kv_.words(0, pool_of(l), page)[p % tpb()] = value(s, p, l, j);
        }
      }
    }
    s.written = std::max(s.written, to);
  }
  void verify(const Seq &s) {
    if (s.row < 0) return;
    settle_stream();
    for (int32_t l = 0; l < kv_.memory.life_cycles; ++l) {
      const std::vector<int32_t> first = kv_.blocks(s.handle, l);
      if (life(l).window == 0) {
        if (first[0] >= 0 && s.history > 0) REQUIRE(*kv_.words(0, pool_of(l), first[0]) == value(s, s.history - 1, l));
        continue;
      }
      for (int32_t j = 0; j < s.beams; ++j) {
        const std::vector<int32_t> list = kv_.blocks(s.handle, l, j);
        for (int32_t p = 0; p < s.history; ++p) {
          const size_t block = static_cast<size_t>(p / tpb());
          // Full blocks before beams parted are the first one's.
          const int32_t page = j != 0 && list[block] < 0 && p < s.parted[j] ? first[block] : list[block];
          if (page < 0) {
            REQUIRE(stale(life(l), p / tpb(), s.history));
            continue;
          }
          REQUIRE(!stale(life(l), p / tpb(), s.history));
          REQUIRE(kv_.words(0, pool_of(l), page)[p % tpb()] == value(s, p, l, j));
        }
      }
    }
  }

  std::vector<int32_t> prompt() {
    std::vector<int32_t> p;
    const int32_t longest = shape_.config.max_blocks * tpb() * 2 / 3;
    if (!history_.empty() && c_.below(4) != 0) {
      p = history_[static_cast<size_t>(c_.below(static_cast<int32_t>(history_.size())))];
      if (shape_.few && c_.below(4) != 0) return p;
      p.resize(static_cast<size_t>(1 + c_.below(static_cast<int32_t>(p.size()))));
    }
    const int32_t more = 1 + c_.below(std::max(2, longest - static_cast<int32_t>(p.size())));
    for (int32_t i = 0; i < more; ++i) p.push_back(c_.below(3));
    return p;
  }

  void open() {
    Seq s{};
    s.tokens = prompt();
    s.scope = c_.below(8) == 0 ? 1 : 0;
    s.row = -1;
    berth_kv_op o = kv_.with_tokens(BERTH_KV_OPEN, 0, s.tokens);
    o.lora = s.scope;
    o.flags = s.scope != 0 ? BERTH_KV_LORA : 0;
    constexpr int32_t kModes[] = {BERTH_KV_NO_REUSE, BERTH_KV_NO_COMMIT, BERTH_KV_NO_REBASE, BERTH_KV_MIN_SNAPSHOT};
    if (!shape_.exact && c_.below(3) == 0) o.flags |= kModes[c_.below(4)];
    s.minimal = (o.flags & BERTH_KV_MIN_SNAPSHOT) != 0;
    o.tenant = c_.below(shape_.config.tenants);
    s.beams = 1;
    const int32_t probed = (o.flags & BERTH_KV_NO_REUSE) != 0 ? 0 : kv_.probe(s.tokens, s.scope, s.scope);
    std::copy(s.tokens.begin(), s.tokens.end(), kv_.arena);
    const int32_t status = kv_.apply(o);
    if (static_cast<int32_t>(seqs_.size()) == shape_.config.sequences) {
      REQUIRE(status == BERTH_E_EXHAUSTED);
      return;
    }
    REQUIRE(status == BERTH_OK && o.matched == probed && o.matched < static_cast<int32_t>(s.tokens.size()));
    hits += o.matched != 0;
    partials += o.partial != 0;
    snapshots += o.partial != 0 && any_state();
    s.handle = o.handle;
    s.committed = s.history = s.capacity = s.written = o.matched;
    if (shape_.exact) {
      s.in_index = naive_.match(s.scope, s.tokens);
      REQUIRE(o.matched == s.in_index * tpb());
      naive_.pin(s.scope, s.tokens, s.in_index, 1);
    }
    const auto prompt_length = s.tokens.size();
    history_.push_back(s.tokens);
    const int32_t remembered = shape_.few ? 5 : 24;
    if (static_cast<int32_t>(history_.size()) > remembered) history_.erase(history_.begin() + c_.below(remembered));
    const int32_t more = c_.below(std::max(1, shape_.config.max_blocks * tpb() - static_cast<int32_t>(prompt_length)));
    for (int32_t i = 0; i < more; ++i) s.tokens.push_back(c_.below(3));
    seqs_.push_back(s);
  }

  bool rows_free(const Seq &s, int32_t first, int32_t end) const {
    for (const Seq &other : seqs_) {
      if (&other != &s && other.row >= 0 && other.row < end && first < other.row + other.beams) return false;
    }
    return true;
  }

  void resume(Seq &s) {
    berth_kv_op o = kv_.op(BERTH_KV_RESUME, s.handle);
    o.a = c_.below(shape_.config.rows);
    const int32_t status = kv_.apply(o);
    const bool taken = !rows_free(s, o.a, o.a + s.beams);
    if (s.row >= 0) {
      REQUIRE(status == BERTH_E_STATE);
    } else if (o.a + s.beams > shape_.config.rows) {
      REQUIRE(status == BERTH_E_ARGUMENT);
    } else if (taken) {
      REQUIRE(status == BERTH_E_ALREADY);
    } else if (status == BERTH_OK) {
      s.row = o.a;
    } else {
      wait_or_lose(s, o, status);
    }
  }
  void prefetch(Seq &s) {
    berth_kv_op o = kv_.op(BERTH_KV_PREFETCH, s.handle);
    o.a = c_.below(2);
    const int32_t status = kv_.apply(o);
    if (s.row >= 0) {
      REQUIRE(status == BERTH_E_STATE);
    } else if (status == BERTH_OK) {
      REQUIRE(o.ticket == 0 || o.ticket > kv_.io().done);
      waits += o.ticket != 0;
    } else {
      REQUIRE(status != BERTH_E_PENDING);
      wait_or_lose(s, o, status);
    }
  }
  void wait_or_lose(Seq &s, const berth_kv_op &o, int32_t status) {
    if (status == BERTH_E_PENDING) {
      REQUIRE(o.ticket > kv_.io().done && o.ticket <= kv_.io().issued);
      ++waits;
    } else if (status == BERTH_E_MISSING) {
      REQUIRE(o.matched < s.history || s.history == 0 || o.matched == s.history);
      s.committed = s.history = s.capacity = s.written = o.matched;
      ++losses;
    } else {
      REQUIRE(status == BERTH_E_EXHAUSTED && o.group >= 0 && o.ticket == 0);
      ++refusals;
    }
  }
  void poll(int32_t n) {
    settle_stream();
    berth_kv_stats stats;
    kv_.pages(&stats);
    REQUIRE(kv_.poll(n, n) <= std::min<int64_t>(n, stats.under_way));
  }

  void resize(Seq &s) {
    const int32_t limit = static_cast<int32_t>(s.tokens.size());
    resize(s, s.history + c_.below(limit - s.history + 2));
  }
  void resize(Seq &s, int32_t capacity) {
    berth_kv_op o = kv_.op(BERTH_KV_RESIZE, s.handle);
    o.a = capacity;
    o.b = -1;
    if (c_.below(2) == 0) o.flags = BERTH_KV_SCRATCH;
    const bool stuck = ceil(o.a) < ceil(s.capacity) && scratch_below(s, ceil(o.a));
    const int32_t need = ceil(o.a) - ceil(s.capacity);
    const bool fits = free_ + (shape_.exact ? naive_.evictable() : 0) >= need;
    const int32_t status = kv_.apply(o);
    if (o.a > shape_.config.max_blocks * tpb()) {
      REQUIRE(status == BERTH_E_ARGUMENT);
      return;
    }
    if (s.row < 0 || stuck) {
      REQUIRE(status == BERTH_E_STATE);
      return;
    }
    shares += status == BERTH_OK && scratch(s);
    if (shape_.exact) REQUIRE((status == BERTH_OK) == fits);
    if (status != BERTH_OK) {
      REQUIRE(status == BERTH_E_EXHAUSTED && o.deficit > 0);
      ++refusals;
      return;
    }
    take(need);
    s.capacity = o.a;
    s.written = std::min(s.written, s.capacity);
  }

  // More beams or fewer.
  void widen(Seq &s) {
    berth_kv_op o = kv_.op(BERTH_KV_WIDEN, s.handle);
    o.a = c_.below(shape_.config.beams + 2);
    const bool shares_slots = scratch(s);
    const int32_t status = kv_.apply(o);
    if (o.a < 1 || o.a > shape_.config.beams) {
      REQUIRE(status == BERTH_E_ARGUMENT);
    } else if (s.row < 0) {
      REQUIRE(status == BERTH_E_STATE);
    } else if (shares_slots && o.a > 1) {
      REQUIRE(status == BERTH_E_STATE);
    } else if (s.row + o.a > shape_.config.rows) {
      REQUIRE(status == BERTH_E_ARGUMENT);
    } else if (!rows_free(s, s.row, s.row + o.a)) {
      REQUIRE(status == BERTH_E_ALREADY);
    } else if (o.a > s.beams && any_state()) {
      REQUIRE(status == BERTH_E_STATE);
    } else if (status != BERTH_OK) {
      REQUIRE(status == BERTH_E_EXHAUSTED && o.a > s.beams && o.deficit > 0);
      ++refusals;
    } else {
      for (int32_t j = s.beams; j < o.a; ++j) s.parted[j] = s.history;
      s.beams = o.a;
      wide += o.a > 1;
    }
  }

  // No more commits; later, the drop of what only a next turn would use.
  void stop(Seq &s) {
    const int32_t status = kv_.run(kv_.op(BERTH_KV_STOP, s.handle));
    REQUIRE(status == (s.beams == 1 ? BERTH_OK : BERTH_E_STATE));
    s.stopped = s.stopped || status == BERTH_OK;
  }
  void plan_drop(const Seq &s) {
    berth_kv_op o = kv_.op(BERTH_KV_PLAN_DROP, s.handle);
    const int32_t status = kv_.apply(o);
    if (!s.stopped) {
      REQUIRE(status == BERTH_E_STATE);
    } else if (status == BERTH_E_EXHAUSTED) {
      REQUIRE(pins_.size() + plans_.size() == static_cast<size_t>(shape_.config.pins));
    } else {
      REQUIRE(status == BERTH_OK);
      if (o.handle != 0) plans_.push_back(o.handle);
    }
  }
  void drop() {
    if (plans_.empty()) return;
    const size_t i = static_cast<size_t>(c_.below(static_cast<int32_t>(plans_.size())));
    REQUIRE(kv_.run(kv_.op(BERTH_KV_UNPIN, plans_[i])) == BERTH_E_STATE);
    REQUIRE(kv_.run(kv_.op(BERTH_KV_DROP, plans_[i])) == BERTH_OK);
    REQUIRE(kv_.run(kv_.op(BERTH_KV_DROP, plans_[i])) == BERTH_E_STALE);
    plans_.erase(plans_.begin() + static_cast<int64_t>(i));
    ++drops;
  }

  // Runs what there is room for and commits it, or only part of it, or only moves on.
  void work(Seq &s) {
    const int32_t end = std::min(s.capacity, static_cast<int32_t>(s.tokens.size()));
    const int32_t to = s.history + c_.below(end - s.history + 1);
    work(s, to, c_.below(4) != 0);
  }
  void work(Seq &s, int32_t to, bool commits) {
    // What is refused mustn't have run: after the last commit a state may be the index's.
    // A history can't end among blocks that share slots: there is nothing of them once the next layer has run.
    if (s.row >= 0 && to > s.history && scratch(s, to)) {
      const bool one = s.beams == 1 && !s.stopped && !s.minimal;
      berth_kv_op o = kv_.op(BERTH_KV_RESIZE, s.handle);
      o.a = s.capacity;
      o.b = to;
      if (commits && one)
        o = kv_.with_tokens(BERTH_KV_COMMIT, s.handle, {s.tokens.begin() + s.committed, s.tokens.begin() + to});
      REQUIRE(kv_.apply(o) == BERTH_E_STATE);
      return;
    }
    const bool refused = s.stopped || s.beams != 1;
    // A snapshot is of a history: the commit begins or ends there.
    if (commits && s.row >= 0 && !refused && s.minimal && s.committed != s.history && to != s.history) {
      const std::vector<int32_t> tokens(s.tokens.begin() + s.committed, s.tokens.begin() + to);
      berth_kv_op o = kv_.with_tokens(BERTH_KV_COMMIT, s.handle, tokens);
      REQUIRE(kv_.apply(o) == BERTH_E_ARGUMENT);
      return;
    }
    if (s.row >= 0 && !refused) forward(s, to);
    if (s.row >= 0 && refused && !commits) {
      if (any_state()) return;
      forward(s, to);
    }
    if (!commits) {
      const int32_t grow = 0;
      const int32_t move = to - s.history;
      int32_t status = 0;
      berth_kv_grow(kv_.kv, &s.handle, &grow, &move, 1, &status);
      if (s.row < 0 || (s.stopped && move > 0 && status != BERTH_OK)) {
        REQUIRE(status == BERTH_E_STATE);
        return;
      }
      REQUIRE(status == BERTH_OK);
      s.history = to;
      return;
    }
    const std::vector<int32_t> tokens(s.tokens.begin() + s.committed, s.tokens.begin() + to);
    berth_kv_op o = kv_.with_tokens(BERTH_KV_COMMIT, s.handle, tokens);
    if (c_.below(6) == 0) o.flags = BERTH_KV_END;
    const int32_t status = kv_.apply(o);
    if (s.row < 0 || refused) {
      REQUIRE(status == BERTH_E_STATE);
      return;
    }
    REQUIRE(status == BERTH_OK);
    if (shape_.exact) store(s, to);
    s.committed = s.history = to;
    s.stopped = o.flags == BERTH_KV_END;
  }

  // A prompt from its beginning to its end.
  void turn() {
    const size_t i = seqs_.size();
    open();
    if (seqs_.size() == i) return;
    resume(seqs_[i]);
    if (seqs_[i].row < 0) return;
    int32_t length = static_cast<int32_t>(history_.back().size());
    // A state is mostly stored at the end of a block, and found again before a prompt's last token.
    if (kv_.memory.states != 0 && c_.below(3) != 0) length = std::max(seqs_[i].history, (length - 1) / tpb() * tpb());
    resize(seqs_[i], length);
    if (seqs_[i].capacity == length) work(seqs_[i], length, true);
    if (seqs_[i].stopped && c_.below(4) == 0) plan_drop(seqs_[i]);
    close(i);
  }

  // What the model says of commits: blocks known already are shared, the sequence's own pages come back.
  void store(Seq &s, int32_t committed) {
    for (int32_t b = s.in_index + 1; b <= committed / tpb(); ++b) {
      const auto key = naive_.key(s.scope, s.tokens, b);
      free_ += naive_.nodes.count(key) != 0;
      ++naive_.nodes[key].references;
      s.in_index = b;
    }
  }
  void take(int32_t pages) {
    if (!shape_.exact) return;
    free_ -= pages;
    while (free_ < 0) naive_.evict(), ++free_;
  }

  void close(size_t i) {
    Seq &s = seqs_[i];
    REQUIRE(kv_.run(kv_.op(BERTH_KV_CLOSE, s.handle)) == BERTH_OK);
    REQUIRE(kv_.run(kv_.op(BERTH_KV_CLOSE, s.handle)) == BERTH_E_STALE);
    if (shape_.exact) {
      naive_.pin(s.scope, s.tokens, s.in_index, -1);
      free_ += ceil(s.capacity) - s.in_index;
    }
    seqs_.erase(seqs_.begin() + static_cast<int64_t>(i));
  }

  void pin() {
    const std::vector<int32_t> p = prompt();
    berth_kv_op o = kv_.with_tokens(BERTH_KV_LOOKUP, 0, p);
    o.flags = BERTH_KV_PIN;
    const int32_t status = kv_.apply(o);
    if (o.handle == 0) {
      REQUIRE(status == BERTH_OK || (status == BERTH_E_EXHAUSTED &&
                                     static_cast<int32_t>(pins_.size() + plans_.size()) == shape_.config.pins));
      return;
    }
    const int32_t blocks = (o.matched - o.partial) / tpb();
    pins_.push_back({o.handle, p, blocks});
    if (shape_.exact) {
      REQUIRE(blocks == naive_.match(0, p));
      naive_.pin(0, p, blocks, 1);
    }
  }
  void unpin() {
    if (pins_.empty()) return;
    const size_t i = static_cast<size_t>(c_.below(static_cast<int32_t>(pins_.size())));
    const auto [handle, p, blocks] = pins_[i];
    REQUIRE(kv_.run(kv_.op(BERTH_KV_UNPIN, handle)) == BERTH_OK);
    REQUIRE(kv_.run(kv_.op(BERTH_KV_UNPIN, handle)) == BERTH_E_STALE);
    if (shape_.exact) naive_.pin(0, p, blocks, -1);
    pins_.erase(pins_.begin() + static_cast<int64_t>(i));
  }

  void prepare() {
    // Sequences with all their beams come behind those with one row.
    std::vector<const Seq *> chosen, wide_ones;
    for (const Seq &s : seqs_) {
      if (s.row < 0 || c_.below(2) == 0) continue;
      (s.beams > 1 && s.beams == shape_.config.beams ? wide_ones : chosen).push_back(&s);
    }
    const int32_t contexts = static_cast<int32_t>(chosen.size());
    const int32_t beam = wide_ones.empty() ? 1 : shape_.config.beams;
    chosen.insert(chosen.end(), wide_ones.begin(), wide_ones.end());
    std::vector<uint64_t> handles;
    std::vector<int32_t> asked;
    std::vector<int32_t> queries;  // a row
    std::vector<int32_t> beams;
    std::vector<const Seq *> who;
    int64_t tokens = 0;
    for (const Seq *s : chosen) {
      handles.push_back(s->handle);
      asked.push_back(c_.below(s->capacity - s->history + 1));
      for (int32_t j = 0; j < (static_cast<int32_t>(handles.size()) <= contexts ? 1 : beam); ++j) {
        who.push_back(s);
        beams.push_back(j);
        queries.push_back(asked.back());
        tokens += asked.back();
      }
    }
    const size_t n = who.size();
    const size_t rows = n + 2;
    const size_t width = static_cast<size_t>(shape_.config.max_blocks);
    const size_t views = static_cast<size_t>(kv_.memory.views);
    const size_t lives = static_cast<size_t>(kv_.memory.life_cycles);
    const size_t room = static_cast<size_t>(tokens) + 1;
    constexpr int32_t kUntouched = -77;
    std::vector<int32_t> table(views * rows * 2 * width, kUntouched);
    std::vector<int64_t> mapping(lives * room, kUntouched);
    std::vector<int32_t> pages(shape_.buffers.size() * rows * width, kUntouched);
    std::vector<int32_t> indptr(views * (n + 1)), indices(views * n * width), last(n);
    berth_kv_batch b{};
    b.struct_size = sizeof b;
    b.n = static_cast<int32_t>(chosen.size());
    b.contexts = contexts;
    b.beam = beam;
    b.handle_address = reinterpret_cast<uintptr_t>(handles.data());
    b.query_address = reinterpret_cast<uintptr_t>(asked.data());
    b.output_rows = static_cast<int32_t>(rows);
    b.output_tokens = static_cast<int64_t>(room);
    b.csr_capacity = static_cast<int64_t>(n * width);
    b.table_address = reinterpret_cast<uintptr_t>(table.data());
    b.mapping_address = reinterpret_cast<uintptr_t>(mapping.data());
    b.buffer_address = reinterpret_cast<uintptr_t>(pages.data());
    if (n != 0) {
      b.indptr_address = reinterpret_cast<uintptr_t>(indptr.data());
      b.indices_address = reinterpret_cast<uintptr_t>(indices.data());
      b.last_address = reinterpret_cast<uintptr_t>(last.data());
    }
    b.clear_padding = c_.below(2);
    REQUIRE(berth_kv_prepare(kv_.kv, &b) == BERTH_OK);
    settle_stream();
    REQUIRE(b.rows == static_cast<int32_t>(n));
    for (size_t v = 0; v < views; ++v) {
      const berth_kv_view &view = kv_.layout.view[v];
      if (life(view.life_cycle).window == 0) continue;
      for (size_t i = 0; i < rows; ++i) {
        const int32_t *keys = table.data() + (v * rows + i) * 2 * width;
        const std::vector<int32_t> list =
            i < n ? kv_.blocks(who[i]->handle, view.life_cycle, beams[i]) : std::vector<int32_t>();
        for (size_t k = 0; k < width; ++k) {
          int32_t key = i >= n && b.clear_padding != 0 ? shape_.config.bad_value : kUntouched;
          int32_t val = key;
          if (k < list.size()) {
            // What shares a slot is a page of each buffer's own; these tables don't have it.
            key = list[k] < 0 ? shape_.config.bad_value : list[k] * view.scale;
            val = list[k] < 0 ? shape_.config.bad_value : key + view.value_offset;
          }
          REQUIRE(keys[k] == key && keys[width + k] == val);
        }
        if (i >= n) continue;
        const int32_t length = who[i]->history + queries[i];
        const int32_t *ptr = indptr.data() + v * (n + 1);
        REQUIRE(ptr[i + 1] - ptr[i] == ceil(length));
        REQUIRE((length == 0 ? 0 : (ptr[i + 1] - ptr[i] - 1) * tpb() + last[i]) == length);
        for (int32_t k = ptr[i]; k < ptr[i + 1]; ++k) {
          REQUIRE(indices[v * n * width + static_cast<size_t>(k)] == keys[k - ptr[i]]);
        }
      }
    }
    for (size_t i = 0; i < shape_.buffers.size(); ++i) {
      const berth_kv_place &place = kv_.layout.place[i];
      if (life(place.life_cycle).window == 0) continue;
      const int32_t scale = kv_.layout.view[static_cast<size_t>(place.view)].scale;
      std::set<int32_t> mine;  // of rows that share none: no two blocks of a buffer lie in one place
      for (size_t r = 0; r < rows; ++r) {
        const int32_t *row = pages.data() + (i * rows + r) * width;
        const std::vector<int32_t> list =
            r < n ? kv_.blocks(who[r]->handle, place.life_cycle, beams[r]) : std::vector<int32_t>();
        for (size_t k = 0; k < width; ++k) {
          if (k >= list.size()) {
            REQUIRE(row[k] == (r >= n && b.clear_padding != 0 ? shape_.config.bad_value : kUntouched));
          } else if (list[k] == -1) {
            REQUIRE(row[k] == shape_.config.bad_value);
          } else if (list[k] >= 0) {
            REQUIRE(row[k] == list[k] * scale + place.ordinal * place.expansion);
          } else {
            REQUIRE(row[k] >= 0 && row[k] / scale < most_[static_cast<size_t>(life(place.life_cycle).group)]);
            REQUIRE(mine.insert(row[k]).second);
          }
        }
      }
      for (size_t r = 0; r < n; ++r) {
        for (const int32_t page : kv_.blocks(who[r]->handle, place.life_cycle, beams[r])) {
          if (page >= 0) REQUIRE(mine.count(page * scale + place.ordinal * place.expansion) == 0);
        }
      }
    }
    for (size_t l = 0; l < lives; ++l) {
      if (life(static_cast<int32_t>(l)).window == 0) continue;
      size_t at = l * room;
      for (size_t i = 0; i < n; ++i) {
        const std::vector<int32_t> list = kv_.blocks(who[i]->handle, static_cast<int32_t>(l), beams[i]);
        for (int32_t q = 0; q < queries[i]; ++q) {
          const int32_t p = who[i]->history + q;
          const int32_t page = list[static_cast<size_t>(p / tpb())];
          REQUIRE(mapping[at++] == (page < 0 ? -1 : int64_t{page} * tpb() + p % tpb()));
        }
      }
      REQUIRE(mapping[l * room + room - 1] == (b.clear_padding != 0 ? -1 : kUntouched));
    }
  }

  void step() {
    if (disk() && c_.below(3) == 0) {
      poll(c_.below(6));
      return;
    }
    if (!shape_.exact && c_.below(50) == 0) {
      adjust();
      return;
    }
    if (shape_.few && c_.below(2) == 0) {
      turn();
      return;
    }
    const int32_t what = c_.below(100);
    Seq *s = any();
    if (disk() && s != nullptr && c_.below(12) == 0) {
      prefetch(*s);
      return;
    }
    if (what < 18 || s == nullptr) {
      open();
    } else if (what < 32) {
      resume(*s);
    } else if (what < 52) {
      resize(*s);
    } else if (what < 76) {
      work(*s);
    } else if (what < 80) {
      REQUIRE(kv_.run(kv_.op(BERTH_KV_SUSPEND, s->handle)) == BERTH_OK);
      s->row = -1;
    } else if (what < 84) {
      prepare();
    } else if (what < 92) {
      close(static_cast<size_t>(s - seqs_.data()));
    } else if (what < 94) {
      c_.below(2) == 0 ? pin() : unpin();
    } else if (what < 96) {
      c_.below(4) == 0 ? stop(*s) : widen(*s);
    } else if (what < 97) {
      c_.below(2) == 0 ? plan_drop(*s) : drop();
    } else if (what < 98) {
      launched_ += static_cast<uint64_t>(c_.below(3));
      completed_ = launched_ - static_cast<uint64_t>(c_.below(static_cast<int32_t>(launched_ - completed_) + 1));
      REQUIRE(berth_kv_epoch(kv_.kv, launched_, completed_) == BERTH_OK);
      REQUIRE(berth_kv_quota(kv_.kv, c_.below(shape_.config.tenants), c_.below(6)) == BERTH_OK);
    } else if (!shape_.exact && what == 98 && c_.below(6) == 0) {
      REQUIRE(berth_kv_reset(kv_.kv) == BERTH_OK);
    } else {
      REQUIRE(berth_kv_clock(kv_.kv, ++now_) == BERTH_OK);
      if (!shape_.exact) {
        berth_kv_op o = kv_.op(BERTH_KV_RETAIN, s->handle);
        o.a = c_.below(40);
        o.b = c_.below(2) == 0 ? -1 : o.a + 1 + c_.below(20);
        o.c = c_.below(101);
        o.time = c_.below(40) - 1;
        const int32_t status = kv_.apply(o);
        REQUIRE(status == BERTH_OK || status == BERTH_E_ARGUMENT || status == BERTH_E_CAPACITY);
      }
    }
  }

  void audit() {
    const int32_t number = kv_.check();
    if (number != 0) std::fprintf(stderr, "invariant %d\n", number);
    REQUIRE(number == 0);
    for (const berth_kv_pages &p : kv_.pages()) {
      REQUIRE(p.free + p.held + p.cached + p.moving == p.total && p.evictable <= p.cached);
    }
    for (const Seq &s : seqs_) verify(s);
    if (shape_.config.event_ring_log2 != 0) {
      replica_.drain(kv_);
      const Replica now = Replica::of(kv_);
      REQUIRE(now.sequence == replica_.sequence);
      // Orphans are gone for those who look, and told of when they go.
      for (const auto &page : now.pages) {
        const auto mine = replica_.pages.find(page.first);
        REQUIRE(mine != replica_.pages.end() && mine->second == page.second);
      }
      if (!orphans_possible()) REQUIRE(now.pages.size() == replica_.pages.size());
    }
    if (shape_.exact) {
      berth_kv_stats stats;
      const berth_kv_pages p = kv_.pages(&stats)[0];
      if (p.free != free_ || p.evictable != naive_.evictable()) {
        std::fprintf(stderr, "free %lld, model %lld; evictable %lld, model %d; cached %lld, model %zu\n",
                     static_cast<long long>(p.free), static_cast<long long>(free_), static_cast<long long>(p.evictable),
                     naive_.evictable(), static_cast<long long>(p.cached), naive_.nodes.size());
      }
      REQUIRE(p.free == free_ && p.evictable == naive_.evictable() &&
              p.cached == static_cast<int64_t>(naive_.nodes.size()) && stats.index_blocks == p.cached);
    }
  }
  void count() {
    const auto mix = [&](uint64_t word) { digest_ = (digest_ ^ word) * 0xff51afd7ed558ccdu, digest_ ^= digest_ >> 29; };
    berth_kv_stats s;
    for (const berth_kv_pages &p : kv_.pages(&s)) {
      for (const int64_t n : {p.free, p.cached, p.moving}) mix(static_cast<uint64_t>(n));
    }
    for (const int64_t n : {s.evicted, s.offloaded, s.onboarded, s.rebased, s.hit_tokens, s.written, s.read, s.lost}) {
      mix(static_cast<uint64_t>(n));
    }
    if (kv_.ring != nullptr) mix(kv_.ring->sequence);
  }
  bool orphans_possible() const { return !shape_.exact; }
  bool disk() const { return kv_.memory.finished_address != 0; }

  // Other numbers of pages, with everybody suspended, as a rule.
  void adjust() {
    const bool all = c_.below(8) != 0;
    for (Seq &s : seqs_) {
      if (!all) break;
      REQUIRE(kv_.run(kv_.op(BERTH_KV_SUSPEND, s.handle)) == BERTH_OK);
      s.row = -1;
    }
    settle_stream();
    if (c_.below(8) != 0) complete();
    bool busy = launched_ != completed_;
    for (const Seq &s : seqs_) busy = busy || s.row >= 0;
    const std::vector<berth_kv_pages> before = kv_.pages();
    std::vector<int64_t> pages;
    const size_t movable = before.size() / 3 * 2;
    for (size_t i = 0; i < before.size(); ++i) {
      const int64_t most = most_[i];
      const int64_t other = std::max<int64_t>(1, most / 4 + c_.below(static_cast<int32_t>(most - most / 4 + 1)));
      pages.push_back(i < movable && most > 0 ? other : most);
      busy = busy || (i < movable && before[i].moving != 0);
    }
    int32_t pool = 0;
    int64_t deficit = 0;
    const int32_t status = berth_kv_adjust(kv_.kv, pages.data(), static_cast<int32_t>(pages.size()), &pool, &deficit);
    const std::vector<berth_kv_pages> after = kv_.pages();
    REQUIRE((status == BERTH_E_STATE) == busy);
    REQUIRE((status == BERTH_E_EXHAUSTED) == (pool >= 0) && (deficit > 0) == (pool >= 0));
    if (status == BERTH_E_EXHAUSTED) {
      const berth_kv_pages &p = before[static_cast<size_t>(pool)];
      REQUIRE(p.total - p.free - p.evictable - pages[static_cast<size_t>(pool)] == deficit);
    }
    for (size_t i = 0; i < before.size(); ++i) {
      REQUIRE(after[i].total == (status == BERTH_OK ? pages[i] : before[i].total));
      if (status != BERTH_OK) REQUIRE(after[i].free == before[i].free && after[i].cached == before[i].cached);
    }
    adjusted += status == BERTH_OK;
  }

  // Everything that was launched.
  void complete() {
    completed_ = launched_;
    REQUIRE(berth_kv_epoch(kv_.kv, launched_, completed_) == BERTH_OK);
  }

  void drain() {
    complete();
    berth_kv_stats stats;
    for (kv_.pages(&stats); stats.under_way != 0; kv_.pages(&stats)) {
      settle_stream();
      REQUIRE(kv_.poll(1 << 20, 1 << 20) > 0);
      audit();
    }
    REQUIRE(kv_.io().done == kv_.io().issued);
  }

  void finish() {
    while (!seqs_.empty()) close(0), audit();
    while (!pins_.empty()) unpin(), audit();
    while (!plans_.empty()) drop(), audit();
    // In either order: transfers under way when the index is forgotten, and before.
    const bool drained = c_.below(2) == 0;
    if (drained) drain();
    REQUIRE(berth_kv_reset(kv_.kv) == BERTH_OK);
    naive_.nodes.clear();
    free_ = total_;
    audit();
    if (!drained) drain();
    for (const berth_kv_pages &p : kv_.pages()) REQUIRE(p.free == p.total);
    if (shape_.config.event_ring_log2 != 0) {
      replica_.drain(kv_);
      REQUIRE(replica_.pages.empty());
    }
    berth_kv_stats stats;
    kv_.pages(&stats);
    REQUIRE(stats.index_blocks == 0 && stats.index_runs == 0 && stats.open_sequences == 0 && stats.pins == 0);
  }

  Shape shape_;
  Choices &c_;
  berth_kv_disk disk_;
  std::vector<int64_t> most_;
  Kv kv_;
  NaiveIndex naive_;
  Replica replica_;
  std::vector<Seq> seqs_;
  std::vector<std::tuple<uint64_t, std::vector<int32_t>, int32_t>> pins_;
  std::vector<uint64_t> plans_;
  std::vector<std::vector<int32_t>> history_;
  int64_t total_;
  int64_t free_;
  int64_t now_ = 0;
  uint64_t digest_ = 0;
  uint64_t launched_ = 0;
  uint64_t completed_ = 0;
};

// The shapes that histories are made for, by number.
inline KvWorld::Shape kv_shape(int32_t number, Choices &c) {
  KvWorld::Shape s;
  const int32_t tpb = s.config.tokens_per_block = 1 + c.below(5);
  s.config.event_ring_log2 = 12;
  const int64_t token = 8 * tpb;
  const int64_t pages = 12 + c.below(40);
  const auto faults = [&] {
    s.faulty = true;
    s.faults.read_fails = static_cast<uint32_t>(c.below(4) == 0 ? 0 : 2 + c.below(12));
    s.faults.write_fails = static_cast<uint32_t>(c.below(2) == 0 ? 0 : 2 + c.below(30));
    s.faults.interrupted = static_cast<uint32_t>(c.below(2) == 0 ? 0 : 2 + c.below(5));
    s.faults.short_moves = static_cast<uint32_t>(c.below(2) == 0 ? 0 : 1 + c.below(5));
    s.faults.nothing_moves = static_cast<uint32_t>(c.below(4) == 0 ? 9 + c.below(9) : 0);
  };
  if (number % 9 != 0) s.config.beams = 1 + c.below(3);
  s.config.rows *= s.config.beams;
  switch (number % 9) {
    case 0:  // plain LRU, exact
      s.exact = true;
      s.buffers = {kv_buffer(0, 0, token)};
      s.pages = {pages, 0, 0};
      s.config.index_blocks = static_cast<int32_t>(pages);
      break;
    case 1:  // parts of blocks, priorities, tenants
      s.buffers = {kv_buffer(0, 0, token), kv_buffer(0, 1, token)};
      s.pages = {pages, 0, 0};
      s.config.partial_reuse = 1;
      s.config.tenants = 3;
      break;
    case 2:  // three levels
      s.buffers = {kv_buffer(0, 0, token)};
      s.pages = {16 + c.below(12), 1 + c.below(6), c.below(60)};
      s.few = true;
      s.config.partial_reuse = c.below(2);
      s.config.mode = c.below(2);
      break;
    case 3:  // a window of several layers beside full attention, pools of their own
    case 4:  // the same in one pool, and a lower level
    {
      s.buffers = {kv_buffer(0, 0, token)};
      const int32_t window = 1 + c.below(16);
      const int32_t sinks = c.below(9);
      const int32_t layers = 1 + c.below(3);
      for (int32_t i = 0; i < layers; ++i) s.buffers.push_back(kv_buffer(1 + i, 0, token, window, sinks));
      s.config.partial_reuse = c.below(2);
      if (number % 9 == 4) {
        // As many full layers: their slots are alike.
        for (int32_t i = 1; i < layers; ++i) s.buffers.push_back(kv_buffer(10 + i, 0, token));
        s.pages = {2 * pages, c.below(20), 0};
      } else {
        s.buffers.push_back(kv_buffer(9, 0, 8 * token));
        s.pages = {pages, pages, 0, 0, 0, 0};
      }
      break;
    }
    case 5:  // three levels, of which the last fails
      s.buffers = {kv_buffer(0, 0, token)};
      s.pages = {16 + c.below(12), c.below(6), 4 + c.below(60)};
      s.few = true;
      s.config.partial_reuse = c.below(2);
      s.config.mode = c.below(2);
      faults();
      break;
    case 6:  // a window and full attention on three levels
      s.buffers = {kv_buffer(0, 0, token), kv_buffer(1, 0, token, 1 + c.below(16), c.below(9))};
      s.pages = {32 + c.below(20), c.below(20), c.below(100)};
      s.few = true;
      s.config.partial_reuse = c.below(2);
      s.config.mode = c.below(2);
      if (s.pages[2] != 0 && c.below(2) == 0) faults();
      break;
    case 7:  // windows and a state on three levels, no full attention at times
      if (c.below(2) == 0) s.buffers.push_back(kv_buffer(0, 0, token));
      s.buffers.push_back(kv_buffer(1, 0, token, 1 + c.below(16), c.below(5)));
      s.buffers.push_back(kv_buffer(2, 0, 1024, 0));
      s.pages = {32 + c.below(20), 7 + c.below(6), c.below(20), c.below(8), 1 + c.below(60), 1 + c.below(30)};
      s.few = true;
      s.config.partial_reuse = c.below(2);
      s.config.mode = c.below(2);
      if (c.below(3) != 0) faults();
      break;
    default:  // windows and a state, no full attention at times
      if (c.below(2) == 0) s.buffers.push_back(kv_buffer(0, 0, token));
      s.buffers.push_back(kv_buffer(1, 0, token, 1 + c.below(16), c.below(5)));
      s.buffers.push_back(kv_buffer(2, 0, 1024, 0));
      s.config.partial_reuse = c.below(2);
      s.pages = {2 * pages, pages, 0, 0, 0, 0};
      break;
  }
  return s;
}

}  // namespace berth::test
