// SPDX-License-Identifier: Apache-2.0
#include "core/kv_cache.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <utility>

namespace berth {
namespace {

using device::kLevels;

constexpr int32_t kMax = 1 << 20;
constexpr int64_t kMostCounted = int64_t{1} << 44;

bool within(int64_t x, int64_t low, int64_t high) noexcept { return x >= low && x <= high; }
int32_t ceil_div(int64_t a, int32_t b) noexcept { return static_cast<int32_t>((a + b - 1) / b); }
uint64_t handle_of(uint32_t generation, int32_t i) noexcept {
  return uint64_t{generation} << 32 | static_cast<uint32_t>(i);
}

}  // namespace

bool KvCache::valid(const berth_kv_config &c, const KvLayout &layout, std::span<const int64_t> pages) noexcept {
  const bool counted = c.memory == BERTH_KV_COUNTED;
  if (counted) {  // nothing is as long as a sequence or a pool
    if (c.index_blocks != 0 || c.beams != 1 || c.event_ring_log2 != 0 || c.mode != BERTH_KV_SYNCHRONOUS) return false;
    for (const LifeCycle &l : layout.life_cycles()) {
      if (l.state()) return false;
    }
  }
  const bool fields =
      c.struct_size == sizeof(berth_kv_config) && c.tokens_per_block == layout.tokens_per_block() &&
      (counted ? c.max_blocks >= 1 : within(c.max_blocks, 4, 1 << 28) && c.max_blocks % 4 == 0) &&
      (counted || int64_t{c.max_blocks} * c.tokens_per_block < (1 << 30)) && within(c.sequences, 1, kMax) &&
      within(c.rows, 1, kMax) && within(c.beams, 1, 64) && c.beams <= c.rows && within(c.pins, 0, kMax) &&
      within(c.scopes, 1, kMax) && within(c.tenants, 1, 64) && within(c.index_blocks, 0, 1 << 28) &&
      within(c.partial_reuse, 0, 1) && within(c.default_priority, 0, 100) && within(c.offload_min_priority, 0, 101) &&
      within(c.max_utilisation, 0, 65536) && (c.event_ring_log2 == 0 || within(c.event_ring_log2, 4, 24)) &&
      within(c.memory, BERTH_KV_NAMED, BERTH_KV_COUNTED) && within(c.mode, BERTH_KV_SYNCHRONOUS, BERTH_KV_EMULATION) &&
      within(c.staging, 1, 64) && within(c.token_arena, 1, 1 << 28);
  if (!fields || pages.size() != static_cast<size_t>(kLevels * layout.groups())) return false;
  for (int32_t level = 0; level < kLevels; ++level) {
    for (int32_t group = 0; group < layout.groups(); ++group) {
      const int64_t n = pages[at(level * layout.groups() + group)];
      const int64_t most = counted ? kMostCounted : std::min<int64_t>(layout.max_slots(group), (1 << kLevelShift) - 1);
      if (!within(n, level == 0 && !counted ? 1 : 0, most)) return false;
    }
  }
  return true;
}

KvCache::KvCache(const berth_kv_config &config, const KvLayout &layout, std::span<const int64_t> pages,
                 std::unique_ptr<device::Backend> backend, std::span<const int64_t> most)
    : config_(config), layout_(layout), backend_(std::move(backend)), ring_(nullptr, std::free) {
  if (most.empty()) most = pages;
  most_.assign(most.begin(), most.end());
  const PageSlots::Kind kind = counted() ? PageSlots::Kind::kCounted : PageSlots::Kind::kNamed;
  for (const int64_t n : pages) slots_.emplace_back(n, kind);
  held_.resize(at(layout_.groups()));
  cached_.resize(pages.size());
  int32_t specials = 0;
  for (const LifeCycle &l : layout_.life_cycles()) {
    special_of_.push_back(l.full() ? kNone : specials++);
    state_of_.push_back(l.state() ? state_count_++ : kNone);
    full_count_ += l.full();
    fulls_[at(l.group)] += l.full();
  }
  special_lists_.resize((1 + kLevels) * at(specials));
  moving_.resize(pages.size());
  const size_t lists = layout_.life_cycles().size();
  const size_t sequences = at(config.sequences);
  if (config.index_blocks > 0) {
    tree_ = std::make_unique<PrefixTree>(PrefixTree::Config{config.index_blocks,
                                                            config.scopes,
                                                            config.tokens_per_block,
                                                            config.tenants,
                                                            config.partial_reuse == 1,
                                                            {config.hash_key[0], config.hash_key[1]}});
    locs_ = ZeroedArray<int32_t>(at(config.index_blocks) * lists);
    uids_ = ZeroedArray<uint64_t>(at(config.index_blocks));
    specials_ = ZeroedArray<Special>(at(config.index_blocks) * at(specials));
  }
  sequences_ = ZeroedArray<Sequence>(sequences);
  row_owner_ = ZeroedArray<int32_t>(at(config.rows));
  free_sequence_ = free_pin_ = kNone;
  quotas_.resize(at(config.tenants));
  ticket_page_ = ZeroedArray<uint64_t>((sizeof(berth_kv_io) + kTickets * sizeof(berth_kv_ticket)) / sizeof(uint64_t));
  if (counted()) return;
  cold_ = ZeroedArray<Cold>(sequences);
  pages_ = ZeroedArray<int32_t>(sequences * at(config.beams) * lists * at(config.max_blocks));
  states_ = ZeroedArray<int32_t>(sequences * at(state_count_));
  tails_ = ZeroedArray<int32_t>(sequences * at(config.tokens_per_block));
  pins_ = ZeroedArray<Pin>(at(config.pins));
  arena_ = ZeroedArray<int32_t>(at(config.token_arena));
  ids_ = ZeroedArray<int32_t>(at(config.max_blocks));
  columns_.resize(at(config.rows) * (4 + at(state_count_)));
  depth_ = tree_ ? backend_->transfers() : 0;
  if (depth_ != 0) {
    // Each page on its way up has a slot there, and half of those under way may be on their way down.
    int64_t flights = depth_;
    for (size_t i = 0; i < at(kDisk * layout_.groups()); ++i) flights += most[i];
    const size_t n = at(std::min<int64_t>(flights, 1 << 30));
    flights_ = ZeroedArray<Flight>(n);
    free_flights_ = PageSlots(static_cast<int32_t>(n));
    flight_of_ = ZeroedArray<int32_t>(at(config.index_blocks) * lists);
    waiting_flights_ = ZeroedArray<int32_t>(n);
    started_flights_ = ZeroedArray<int32_t>(at(depth_));
    tickets_ = ZeroedArray<Ticket>(n);
  }
  if (config.event_ring_log2 != 0) {
    const size_t n = size_t{1} << config.event_ring_log2;
    ring_bytes_ = sizeof(berth_kv_event_ring) + n * (sizeof(berth_kv_event) + at(config.tokens_per_block) * 4);
    ring_.reset(static_cast<std::byte *>(std::calloc(1, ring_bytes_)));
    if (!ring_) throw std::bad_alloc();
  }
}

// ------------------------------------------------------------------------------ handles

KvCache::Sequence *KvCache::find(uint64_t handle, Status &status) noexcept {
  const uint32_t i = static_cast<uint32_t>(handle);
  const uint32_t generation = static_cast<uint32_t>(handle >> 32);
  status = Status::kNotFound;
  if (i >= static_cast<uint32_t>(issued_sequences_) || generation % 2 == 0) return nullptr;
  Sequence &s = sequences_[i];
  if (s.generation == generation) {
    status = Status::kOk;
    return &s;
  }
  if (generation < s.generation) status = Status::kStale;
  return nullptr;
}

KvCache::Pin *KvCache::new_pin(uint64_t &handle) noexcept {
  int32_t i = free_pin_;
  if (i == kNone) {
    if (issued_pins_ == config_.pins) return nullptr;
    i = issued_pins_++;
  } else {
    free_pin_ = pins_[at(i)].next_free;
  }
  Pin &pin = pins_[at(i)];
  ++pin.generation;
  ++pinned_;
  handle = handle_of(pin.generation, i);
  return &pin;
}

KvCache::Pin *KvCache::find_pin(uint64_t handle, Status &status) noexcept {
  const uint32_t i = static_cast<uint32_t>(handle);
  const uint32_t generation = static_cast<uint32_t>(handle >> 32);
  status = Status::kNotFound;
  if (i >= static_cast<uint32_t>(issued_pins_) || generation % 2 == 0) return nullptr;
  Pin &pin = pins_[i];
  if (pin.generation == generation) {
    status = Status::kOk;
    return &pin;
  }
  if (generation < pin.generation) status = Status::kStale;
  return nullptr;
}

void KvCache::free_pin(Pin &pin) noexcept {
  ++pin.generation;
  --pinned_;
  pin.next_free = free_pin_;
  free_pin_ = static_cast<int32_t>(&pin - pins_.data());
}

// ------------------------------------------------------------------------------ operations

Status KvCache::apply(berth_kv_op &op) noexcept {
  if (broken_ != 0) return Status::kState;
  op.matched = op.partial = op.deficit = 0;
  op.group = kNone;
  op.ticket = 0;
  if (op.kind == BERTH_KV_OPEN) return open(op);
  if (op.kind == BERTH_KV_LOOKUP) return lookup(op);
  if (op.kind == BERTH_KV_UNPIN) return unpin(op);
  if (op.kind == BERTH_KV_DROP) return drop(op);
  if (op.kind < BERTH_KV_OPEN || op.kind > BERTH_KV_PREFETCH) return Status::kArgument;
  Status status;
  Sequence *s = find(op.handle, status);
  if (s == nullptr) return status;
  switch (op.kind) {
    case BERTH_KV_RESUME: return resume(*s, op);
    case BERTH_KV_SUSPEND: suspend(*s); return Status::kOk;
    case BERTH_KV_RESIZE: return resize(*s, op.a == -1 ? s->capacity : op.a, op.b == -1 ? s->history : op.b, &op);
    case BERTH_KV_COMMIT: return commit(*s, op);
    case BERTH_KV_STOP:
      if (s->beams != 1 || counted()) return Status::kState;
      stop(*s, false);
      return Status::kOk;
    case BERTH_KV_WIDEN: return widen(*s, op);
    case BERTH_KV_RETAIN: return counted() ? Status::kState : retain(*s, op);
    case BERTH_KV_PLAN_DROP: return plan_drop(*s, op);
    case BERTH_KV_PREFETCH: return prefetch(*s, op);
    default: close(*s); return Status::kOk;
  }
}

bool KvCache::tokens_of(const berth_kv_op &op, std::span<const int32_t> &tokens) const noexcept {
  const int64_t size = static_cast<int64_t>(arena_.size());
  if (op.token_count < 0 || op.token_offset < 0 || op.token_offset > size - op.token_count) return false;
  tokens = {arena_.data() + op.token_offset, at(op.token_count)};
  return true;
}

// ------------------------------------------------------------------------------ finding

// The longest usable match of all but the prompt's last token: that one has to be computed anyway.
KvCache::Found KvCache::search(int32_t root, std::span<const int32_t> prompt) noexcept {
  const auto usable_tokens =
      prompt.first(std::min(prompt.size() - 1, at(config_.max_blocks) * at(config_.tokens_per_block) - 1));
  PrefixTree::Match match = tree_->find(root, usable_tokens, config_.partial_reuse == 1);
  if (is_snapshot(match)) return {match, match.blocks * config_.tokens_per_block + match.partial_tokens};
  const int32_t blocks = usable(match);
  if (blocks < match.blocks) {
    match = tree_->shorten(match, blocks);
  } else if (match.partial_tokens != 0) {
    const int64_t history = int64_t{blocks} * config_.tokens_per_block + match.partial_tokens;
    bool fits = state_count_ == 0 && windows_hold(blocks, history);
    for (int32_t l = 0; fits && l < life_cycles(); ++l) {
      const LifeCycle::Range stale = life(l).stale(history, config_.tokens_per_block);
      fits = there(match.partial_block, l) || (blocks >= stale.first && blocks < stale.second);
    }
    // Less than a block is sooner computed than read.
    for (int32_t l = 0; l < life_cycles(); ++l) fits = fits && level_of(loc(match.partial_block, l)) != kDisk;
    if (!fits) match.partial_tokens = 0, match.partial_block = match.partial_run = PrefixTree::kNone;
  }
  return {match, match.blocks * config_.tokens_per_block + match.partial_tokens};
}

// How many blocks of a match can be used: windows need the pages that they look back on, states that of the last block
// (spec 03 section 8.1).
int32_t KvCache::usable(const PrefixTree::Match &match) const noexcept {
  if (full_count_ == life_cycles()) return match.blocks;
  const int32_t *path = const_cast<KvCache *>(this)->tree_->path();
  std::array<int32_t, KvLayout::kMaxLifeCycles> since{};  // first block of the unbroken stretch that ends here
  std::array<int32_t, KvLayout::kMaxLifeCycles> front{};  // blocks from the first on that are all there
  int32_t best = 0;
  for (int32_t m = 1; m <= match.blocks; ++m) {
    bool fits = true;
    for (int32_t l = 0; l < life_cycles(); ++l) {
      const LifeCycle &c = life(l);
      if (c.full()) continue;
      const bool present = there(path[m - 1], l);
      if (!present) since[at(l)] = m;
      if (present && front[at(l)] == m - 1) front[at(l)] = m;
      if (c.state()) {
        fits = fits && present;
      } else {
        const LifeCycle::Range stale = c.stale(int64_t{m} * config_.tokens_per_block, config_.tokens_per_block);
        fits = fits && since[at(l)] <= stale.second && front[at(l)] >= std::min<int64_t>(stale.first, m);
      }
    }
    if (fits) best = m;
  }
  return best;
}

// Whether a match ends exactly where a sequence ended within a block, and its states were stored with it.
bool KvCache::is_snapshot(const PrefixTree::Match &match) const noexcept {
  if (state_count_ == 0 || match.partial_tokens == 0) return false;
  const int32_t fill = tree_->run(match.partial_run).fill;
  if (fill != match.partial_tokens || fill == config_.tokens_per_block) return false;
  const int64_t history = int64_t{match.blocks} * config_.tokens_per_block + fill;
  for (int32_t l = 0; l < life_cycles(); ++l) {
    const LifeCycle::Range stale = life(l).stale(history, config_.tokens_per_block);
    const bool passed = !life(l).state() && match.blocks >= stale.first && match.blocks < stale.second;
    if (!there(match.partial_block, l) && !passed) return false;
    if (level_of(loc(match.partial_block, l)) == kDisk) return false;
  }
  return windows_hold(match.blocks, history);
}

// Whether the path's windows hold what a history needs that ends in the block after them.
bool KvCache::windows_hold(int32_t blocks, int64_t history) const noexcept {
  const int32_t *path = const_cast<KvCache *>(this)->tree_->path();
  for (int32_t l = 0; l < life_cycles(); ++l) {
    if (life(l).full() || life(l).state()) continue;
    const LifeCycle::Range stale = life(l).stale(history, config_.tokens_per_block);
    for (int32_t b = 0; b < blocks; ++b) {
      if ((b < stale.first || b >= stale.second) && !there(path[b], l)) return false;
    }
  }
  return true;
}

Status KvCache::probe(const KvScope &scope, std::span<const int64_t> offsets, int32_t *matched) noexcept {
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] < 0 || offsets[i] > static_cast<int64_t>(arena_.size())) return Status::kArgument;
    if (i != 0 && offsets[i] <= offsets[i - 1]) return Status::kArgument;
  }
  const int32_t root = tree_ ? tree_->root(scope) : kNone;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const std::span<const int32_t> prompt(arena_.data() + offsets[i], at(offsets[i + 1] - offsets[i]));
    matched[i] = root == kNone ? 0 : search(root, prompt).tokens;
  }
  return Status::kOk;
}

Status KvCache::lookup(berth_kv_op &op) noexcept {
  std::span<const int32_t> prompt;
  const KvScope scope{op.lora, op.salt, static_cast<uint32_t>(op.flags / BERTH_KV_LORA) & 3};
  if (!tokens_of(op, prompt) || prompt.empty() || !scope.valid()) return Status::kArgument;
  op.handle = 0;
  const int32_t root = tree_ ? tree_->root(scope) : kNone;
  if (root == kNone) return Status::kOk;
  const Found found = search(root, prompt);
  op.matched = found.tokens;
  op.partial = found.match.partial_tokens;
  if ((op.flags & BERTH_KV_PIN) == 0 || found.match.blocks == 0) return Status::kOk;
  Pin *pin = new_pin(op.handle);
  if (pin == nullptr) {
    op.matched = op.partial = 0;
    return Status::kExhausted;
  }
  pin->run = tree_->pin(found.match);
  return Status::kOk;
}

Status KvCache::unpin(berth_kv_op &op) noexcept {
  Status status;
  Pin *pin = find_pin(op.handle, status);
  if (pin == nullptr) return status;
  if (pin->run == kNone) return Status::kState;
  tree_->unpin(pin->run, launch_, [&](int32_t block, int32_t run) { free_block(block, run); });
  free_pin(*pin);
  return Status::kOk;
}

// ------------------------------------------------------------------------------ sequences

Status KvCache::open(berth_kv_op &op) noexcept {
  if (counted()) return open_counted(op);
  std::span<const int32_t> prompt;
  const KvScope scope{op.lora, op.salt, static_cast<uint32_t>(op.flags / BERTH_KV_LORA) & 3};
  if (!tokens_of(op, prompt) || prompt.empty() || !scope.valid() || !within(op.tenant, 0, config_.tenants - 1)) {
    return Status::kArgument;
  }
  return open(op, prompt);
}

KvCache::Sequence *KvCache::new_sequence(uint64_t &handle) noexcept {
  int32_t i = free_sequence_;
  if (i == kNone) {
    if (issued_sequences_ == config_.sequences) return nullptr;
    i = issued_sequences_++;
  } else {
    free_sequence_ = sequences_[at(i)].next_free;
  }
  Sequence &s = sequences_[at(i)];
  const uint32_t generation = s.generation + 1;
  s = {};
  s.generation = generation;
  s.beams = 1;
  s.row = s.tip = s.partial_run = s.partial_block = s.state_block = kNone;
  ++open_;
  handle = handle_of(generation, i);
  return &s;
}

// The arguments were checked.
Status KvCache::open(berth_kv_op &op, std::span<const int32_t> prompt) noexcept {
  const KvScope scope{op.lora, op.salt, static_cast<uint32_t>(op.flags / BERTH_KV_LORA) & 3};
  op.handle = 0;
  Sequence *sequence = new_sequence(op.handle);
  if (sequence == nullptr) return Status::kExhausted;
  Sequence &s = *sequence;
  s.tenant = op.tenant;
  cold(s).scope = scope;
  s.rebase = (op.flags & BERTH_KV_NO_REBASE) == 0;
  s.minimal = (op.flags & BERTH_KV_MIN_SNAPSHOT) != 0;
  std::fill_n(states(s), state_count_, kNone);
  const int32_t root = tree_ ? tree_->make_root(scope) : kNone;
  if (root == kNone || (op.flags & BERTH_KV_NO_COMMIT) != 0) s.commit = Commit::kVirtualStop;
  if (root == kNone) return Status::kOk;
  if ((op.flags & BERTH_KV_NO_REUSE) != 0) {
    tree_->pin(root);
    s.tip = root;
    return Status::kOk;
  }
  const Found found = search(root, prompt);
  const PrefixTree::Match &match = found.match;
  counts_.asked_tokens += static_cast<int64_t>(prompt.size());
  counts_.hit_tokens += found.tokens;
  accept(s, match);
  if (match.partial_tokens != 0) {
    s.partial_block = match.partial_block;
    // cut() may have given the front of this run another number; what is pinned is the run that begins with the block.
    s.partial_run = match.partial_run;
    tree_->pin(s.partial_run);
    std::copy_n(prompt.data() + at(match.blocks) * at(config_.tokens_per_block), match.partial_tokens, tail(s));
  }
  op.matched = found.tokens;
  op.partial = match.partial_tokens;
  return Status::kOk;
}

// The sequence begins with a match, whose blocks are the tree's path.
void KvCache::accept(Sequence &s, const PrefixTree::Match &match) noexcept {
  s.tip = tree_->pin(match);
  s.in_index = match.blocks;
  s.committed = s.history = s.capacity = match.blocks * config_.tokens_per_block + match.partial_tokens;
  s.blocks = ceil_div(s.capacity, config_.tokens_per_block);
  if (state_count_ != 0) s.state_block = match.partial_tokens != 0 ? match.partial_block : match.last;
  if (match.blocks == 0 && match.partial_tokens == 0) s.state_block = kNone;
  for (int32_t l = 0; l < life_cycles(); ++l) {
    int32_t *list = pages(s, 0, l);
    if (life(l).state()) {
      if (s.state_block != kNone) hold(l, s.state_block);
      continue;
    }
    const LifeCycle::Range stale = life(l).stale(s.history, config_.tokens_per_block);
    for (int32_t b = 0; b < match.blocks; ++b) {
      const bool wanted = life(l).full() || b < stale.first || b >= stale.second;
      list[b] = wanted ? loc(tree_->path()[b], l) : kNone;
      if (wanted && !life(l).full()) hold(l, tree_->path()[b]);
    }
    if (match.partial_tokens != 0) {
      list[match.blocks] = kNone;
      if (!life(l).full() && loc(match.partial_block, l) != kNone) hold(l, match.partial_block);
    }
  }
}

Status KvCache::resume(Sequence &s, berth_kv_op &op) noexcept {
  if (s.active) return Status::kState;
  if (!within(op.a, 0, config_.rows - s.beams)) return Status::kArgument;
  for (int32_t j = 0; j < s.beams; ++j) {
    if (row_owner_[at(op.a + j)] != 0) return Status::kAlready;
  }
  if (s.lost != 0) return missing(s, op);
  for (int32_t g = 0; g < layout_.groups(); ++g) {
    const int64_t total = slots_[at(g)].capacity();
    const int64_t unavailable = total - slots_[at(g)].free() - evictable(0, g);
    if (unavailable * 65536 > total * config_.max_utilisation) {
      op.group = g;
      return Status::kExhausted;
    }
  }
  Needs needs{};
  for (int32_t l = 0; l < life_cycles(); ++l) {
    const size_t g = at(group_of(l));
    if (life(l).state()) {
      needs[g] += states(s)[state_of_[at(l)]] == kNone;
    } else if (s.partial_block != kNone) {
      needs[g] += loc(s.partial_block, l) != kNone;
    }
  }
  if (const Status status = bring_up(s, 0, needs, op); status != Status::kOk) return status;
  copy_private(s);
  s.active = true;
  ++active_;
  s.row = op.a;
  for (int32_t j = 0; j < s.beams; ++j) {
    row_owner_[at(s.row + j)] = number(s) + 1;
    for (int32_t l = 0; l < life_cycles(); ++l) {
      if (!life(l).state()) edit(s, j, l, 0, s.blocks);
    }
  }
  return Status::kOk;
}

// Private copies of a block that is reused in part and of a state. The pages are there.
void KvCache::copy_private(Sequence &s) noexcept {
  for (int32_t l = 0; l < life_cycles(); ++l) {
    const int32_t g = group_of(l);
    if (life(l).state()) {
      int32_t &state = states(s)[state_of_[at(l)]];
      if (state == kNone) {
        take(g, &state, 1);
        ++held_[at(g)];
        if (s.state_block != kNone) {
          const int32_t from = loc(s.state_block, l);
          backend_->copy({g, level_of(from), slot_of(from), 0, state});
        }
      }
      if (s.state_block != kNone) let_go(l, s.state_block, kTails);
    } else if (s.partial_block != kNone && loc(s.partial_block, l) != kNone) {
      int32_t &page = pages(s, 0, l)[s.in_index];
      take(g, &page, 1);
      ++held_[at(g)];
      const int32_t from = loc(s.partial_block, l);
      backend_->copy({g, level_of(from), slot_of(from), 0, page});
      if (!life(l).full()) let_go(l, s.partial_block, kTails);
    }
  }
  s.state_block = kNone;
  if (s.partial_block != kNone) {
    tree_->unpin(s.partial_run, launch_, [&](int32_t block, int32_t run) { free_block(block, run); });
    s.partial_block = s.partial_run = kNone;
  }
}

void KvCache::suspend(Sequence &s) noexcept {
  if (!s.active) return;
  clear_rows(s);
  for (int32_t j = 0; j < s.beams; ++j) row_owner_[at(s.row + j)] = 0;
  s.row = kNone;
  s.active = false;
  --active_;
}

void KvCache::close(Sequence &s) noexcept {
  suspend(s);
  if (counted()) return close_counted(s);
  empty(s);
  release(s);
}

// A suspended sequence lets go of everything it has.
void KvCache::empty(Sequence &s) noexcept {
  for (int32_t l = 0; l < life_cycles(); ++l) {
    if (life(l).state()) {
      int32_t &state = states(s)[state_of_[at(l)]];
      if (state != kNone) put(group_of(l), &state, 1);
      state = kNone;
      if (s.state_block != kNone) let_go(l, s.state_block, kTails);
      continue;
    }
    for (int32_t j = 0; j < s.beams; ++j) put_private(l, pages(s, j, l), own(s, j), s.blocks);
    if (!life(l).full()) {
      if (s.partial_block != kNone && loc(s.partial_block, l) != kNone) let_go(l, s.partial_block, kTails);
      // From the end: the page nearest to it is the last to go.
      int32_t block = s.tip == kNone || tree_->run(s.tip).length == 0 ? kNone : tree_->run(s.tip).last;
      for (int32_t b = s.in_index - 1; b >= 0; --b) {
        ids_[at(b)] = block;
        block = tree_->previous(block);
      }
      for (int32_t b = 0; b < s.in_index; ++b) {
        if (pages(s, 0, l)[b] != kNone) let_go(l, ids_[at(b)], kTails);
      }
    }
  }
  const auto gone = [&](int32_t block, int32_t run) { free_block(block, run); };
  if (s.partial_run != kNone) tree_->unpin(s.partial_run, launch_, gone);
  if (s.tip != kNone) tree_->unpin(s.tip, launch_, gone);
  s.tip = s.partial_run = s.partial_block = s.state_block = kNone;
  s.in_index = s.blocks = 0;
  s.scratch = 0;
}

// Its number is free again.
void KvCache::release(Sequence &s) noexcept {
  --open_;
  ++s.generation;
  s.next_free = free_sequence_;
  free_sequence_ = number(s);
}

Status KvCache::resize(Sequence &s, int64_t capacity, int64_t history, berth_kv_op *op) noexcept {
  if (counted()) return resize_counted(s, capacity, history, op);
  const int32_t tpb = config_.tokens_per_block;
  if (history < s.history || capacity < history || capacity > int64_t{config_.max_blocks} * tpb) {
    return Status::kArgument;
  }
  const int32_t blocks = ceil_div(capacity, tpb);
  // A state that was moved into the index comes back with the next resume.
  if (!s.active || (s.state_block != kNone && history > s.history)) return Status::kState;
  if (s.scratch != 0 && history > s.history && !passes_scratch(s, history)) return Status::kState;
  const bool share = op != nullptr && (op->flags & BERTH_KV_SCRATCH) != 0 && s.beams == 1;
  if (blocks > s.blocks) {
    Needs needs{};
    Needs gains{};
    for (int32_t l = 0; l < life_cycles(); ++l) {
      if (life(l).state()) continue;
      const size_t g = at(group_of(l));
      const LifeCycle::Range stale = life(l).stale(history, tpb);
      const int64_t skipped =
          std::max<int64_t>(0, std::min<int64_t>(stale.second, blocks) - std::max<int64_t>(stale.first, s.blocks));
      needs[g] += (blocks - s.blocks - skipped) * s.beams;
      const LifeCycle::Range shared = scratch(l, s, capacity, history, share);
      needs[g] -= shared.second - shared.first;
      needs[g] += ceil_div(shared.second - shared.first, layout_.scratch_blocks(l));
      if (life(l).full() || history == s.history) continue;
      for (int64_t b = std::max(stale.first, life(l).stale(s.history, tpb).second);
           b < std::min<int64_t>(stale.second, s.blocks); ++b) {
        for (int32_t j = 0; j < s.beams; ++j) gains[g] += b >= own(s, j) && counts(l, pages(s, j, l)[b]);
      }
    }
    if (!ensure(0, needs, gains, op)) return Status::kExhausted;
    advance(s, static_cast<int32_t>(history));
    make_free(0, needs);
    for (int32_t l = 0; l < life_cycles(); ++l) {
      if (life(l).state()) continue;
      const LifeCycle::Range stale = life(l).stale(history, tpb);
      const LifeCycle::Range shared = scratch(l, s, capacity, history, share);
      const int32_t g = group_of(l);
      int32_t slot = kNone;
      for (int32_t j = 0; j < s.beams; ++j) {
        int32_t *list = pages(s, j, l);
        if ((stale.second <= s.blocks && shared.first == shared.second) || life(l).full()) {
          take(g, list + s.blocks, blocks - s.blocks);
          held_[at(g)] += blocks - s.blocks;
        } else {
          for (int32_t b = s.blocks; b < blocks; ++b) {
            list[b] = kNone;
            if (b >= stale.first && b < stale.second) continue;
            const bool shares = b >= shared.first && b < shared.second;
            const int32_t number = shares ? static_cast<int32_t>((b - shared.first) % layout_.scratch_blocks(l)) : 0;
            if (number == 0) {
              take(g, &slot, 1);
              ++held_[at(g)];
            }
            list[b] = shares ? KvLayout::scratch_entry(slot, number, layout_.scratch_blocks(l)) : slot;
            if (shares) s.scratch = 1;
          }
        }
        edit(s, j, l, s.blocks, blocks);
      }
    }
  } else {
    // What shares a slot is given up as a whole.
    for (int32_t l = 0; s.scratch != 0 && blocks < s.blocks && history == s.history && l < life_cycles(); ++l) {
      for (int32_t b = s.in_index; b < blocks; ++b) {
        if (!life(l).state() && pages(s, 0, l)[b] < kNone) return Status::kState;
      }
    }
    advance(s, static_cast<int32_t>(history));
    if (blocks < s.blocks) s.scratch = 0;
    for (int32_t l = 0; blocks < s.blocks && l < life_cycles(); ++l) {
      if (life(l).state()) continue;
      for (int32_t j = 0; j < s.beams; ++j) {
        put_private(l, pages(s, j, l), blocks, s.blocks);
        backend_->edit(l, s.row + j, blocks, s.blocks - blocks, nullptr);
      }
    }
  }
  s.blocks = blocks;
  s.capacity = static_cast<int32_t>(capacity);
  return Status::kOk;
}

Status KvCache::grow(uint64_t handle, int32_t tokens, int32_t advance) noexcept {
  if (broken_ != 0) [[unlikely]]
    return Status::kState;
  Status status;
  Sequence *s = find(handle, status);
  if (s == nullptr) return status;
  const int64_t capacity = int64_t{s->capacity} + tokens;
  const int64_t history = int64_t{s->history} + advance;
  const int64_t room = int64_t{s->blocks} * config_.tokens_per_block - capacity;
  // Most steps need no page and, without windows, nothing else either; the others mostly one that is there.
  if (advance >= 0 && s->active && full_count_ == life_cycles() && history <= capacity) {
    if (room >= 0 && room < config_.tokens_per_block) {
      s->capacity = static_cast<int32_t>(capacity);
      s->history = static_cast<int32_t>(history);
      return Status::kOk;
    }
    if (room < 0 && room >= -config_.tokens_per_block && s->beams == 1 && s->blocks < config_.max_blocks &&
        full_count_ == 1 && slots_[0].free() != 0 && !counted()) {
      int32_t *page = pages(*s, 0, 0) + s->blocks;
      take(0, page, 1);
      ++held_[0];
      backend_->edit(0, s->row, s->blocks, 1, page);
      ++s->blocks;
      s->capacity = static_cast<int32_t>(capacity);
      s->history = static_cast<int32_t>(history);
      return Status::kOk;
    }
  }
  return resize(*s, capacity, history, nullptr);
}

// New blocks of a life cycle that are only looked at until the capacity is computed: they share slots, where layers can
// take turns (spec 03 section 10).
LifeCycle::Range KvCache::scratch(int32_t l, const Sequence &s, int64_t capacity, int64_t history,
                                  bool wanted) const noexcept {
  if (!wanted || layout_.scratch_blocks(l) == 1) return {0, 0};
  const int32_t tpb = config_.tokens_per_block;
  const LifeCycle::Range passed = life(l).stale(capacity, tpb);
  const int64_t now = life(l).stale(history, tpb).second;
  const int64_t first = std::max({passed.first, now, int64_t{s.blocks}, int64_t{ceil_div(history, tpb)}});
  return {first, std::max(first, std::min<int64_t>(passed.second, ceil_div(capacity, tpb)))};
}

// Whether at that history nobody looks at a block any more that shares a slot.
bool KvCache::passes_scratch(const Sequence &s, int64_t history) const noexcept {
  for (int32_t l = 0; l < life_cycles(); ++l) {
    if (life(l).full() || life(l).state()) continue;
    const int64_t passed = life(l).stale(history, config_.tokens_per_block).second;
    for (int64_t b = std::max<int64_t>(passed, s.in_index); b < s.blocks; ++b) {
      if (pages(s, 0, l)[b] < kNone) return false;
    }
  }
  return true;
}

void KvCache::release_scratch(Sequence &s) noexcept {
  for (int32_t l = 0; s.scratch != 0 && l < life_cycles(); ++l) {
    if (life(l).full() || life(l).state()) continue;
    int32_t *list = pages(s, 0, l);
    for (int32_t b = s.in_index; b < s.blocks; ++b) {
      if (list[b] >= kNone) continue;
      put_private(l, list, b, b + 1);
      list[b] = kNone;
      if (s.active) backend_->edit(l, s.row, b, 1, nullptr);
    }
  }
  s.scratch = 0;
}

// History moves on: blocks that left a window are let go.
void KvCache::advance(Sequence &s, int32_t history) noexcept {
  if (history == s.history) return;
  release_scratch(s);
  const int32_t tpb = config_.tokens_per_block;
  if (full_count_ != life_cycles()) {
    for (int32_t l = 0; l < life_cycles(); ++l) {
      if (life(l).full() || life(l).state()) continue;
      const LifeCycle::Range stale = life(l).stale(history, tpb);
      const int32_t first = static_cast<int32_t>(std::max(stale.first, life(l).stale(s.history, tpb).second));
      const int32_t end = static_cast<int32_t>(std::min<int64_t>(stale.second, s.blocks));
      if (first >= end) continue;
      for (int32_t j = 0; j < s.beams; ++j) put_private(l, pages(s, j, l), std::max(first, own(s, j)), end);
      if (first < s.in_index) {
        int32_t block = tree_->run(s.tip).last;
        for (int32_t b = s.in_index - 1; b >= first; --b, block = tree_->previous(block)) {
          if (b >= end || pages(s, 0, l)[b] == kNone) continue;
          let_go(l, block, kPassed);
          const Special &page = special(l, block);
          if (s.minimal != 0 && page.holds == 0 && page.plans == 0) drop_special(l, block);
        }
      }
      for (int32_t j = 0; j < s.beams; ++j) {
        std::fill(pages(s, j, l) + first, pages(s, j, l) + end, kNone);
        if (s.active) backend_->edit(l, s.row + j, first, end - first, nullptr);
      }
    }
  }
  s.history = history;
}

PrefixTree::Retention KvCache::retention(const Sequence &s, int32_t block) const noexcept {
  const int64_t token = int64_t{block} * config_.tokens_per_block;
  for (int32_t i = 0; i < s.ranges; ++i) {
    const Range &r = cold(s).range[at(i)];
    if (token >= r.first && token < r.end) return {r.priority, s.tenant, r.expires};
  }
  return {config_.default_priority, s.tenant, PrefixTree::kNever};
}

// Ranges are ordered and don't overlap; a block takes the one that holds its first token.
Status KvCache::retain(Sequence &s, const berth_kv_op &op) noexcept {
  const int32_t end = op.b == -1 ? std::numeric_limits<int32_t>::max() : op.b;
  if (op.a < 0 || end <= op.a || !within(op.c, 0, 100) || op.time < -1) return Status::kArgument;
  if (s.ranges != 0 && op.a < cold(s).range[at(s.ranges - 1)].end) return Status::kArgument;
  if (s.ranges == kRanges) return Status::kCapacity;
  int64_t expires = PrefixTree::kNever;
  if (op.time >= 0 && op.time < PrefixTree::kNever - now_) expires = now_ + op.time;
  cold(s).range[at(s.ranges++)] = {op.a, end, op.c, expires};
  // What it found or stored already is kept so too.
  if (s.tip != kNone) {
    const int32_t tpb = config_.tokens_per_block;
    tree_->retain(s.tip, s.in_index, ceil_div(op.a, tpb), ceil_div(end, tpb), op.c, expires,
                  [&](int32_t run) { emit_priority(run); });
  }
  return Status::kOk;
}

// ------------------------------------------------------------------------------ committing

Status KvCache::commit(Sequence &s, berth_kv_op &op) noexcept {
  std::span<const int32_t> tokens;
  if (!tokens_of(op, tokens)) return Status::kArgument;
  return commit(s, tokens, (op.flags & BERTH_KV_END) != 0);
}

Status KvCache::commit(Sequence &s, std::span<const int32_t> tokens, bool end) noexcept {
  if (!s.active || s.beams != 1 || s.commit == Commit::kStopped || counted()) return Status::kState;
  const int64_t committed = s.committed + static_cast<int64_t>(tokens.size());
  if (committed > s.capacity) return Status::kArgument;
  if (s.minimal != 0 && s.committed != s.history && committed != s.history) return Status::kArgument;
  if (s.scratch != 0 && committed > s.history) {
    if (!passes_scratch(s, committed)) return Status::kState;
    release_scratch(s);
  }
  const int32_t tpb = config_.tokens_per_block;
  int32_t begun = s.committed % tpb;
  const int32_t *next = tokens.data();
  int32_t left = static_cast<int32_t>(tokens.size());
  if (begun != 0 && begun + left >= tpb) {
    std::copy_n(next, tpb - begun, tail(s) + begun);
    next += tpb - begun;
    left -= tpb - begun;
    commit_blocks(s, tail(s), 1);
    begun = 0;
  }
  if (left >= tpb) {
    commit_blocks(s, next, left / tpb);
    next += left / tpb * tpb;
    left %= tpb;
  }
  std::copy_n(next, left, tail(s) + begun);
  s.committed = static_cast<int32_t>(committed);
  advance(s, std::max(s.history, s.committed));
  store_state(s, end);
  if (end) stop(s, true);
  return Status::kOk;
}

// Full blocks that follow what the sequence has in the index: blocks that are there already take the place of its own,
// the others become part of it with the pages they have.
void KvCache::commit_blocks(Sequence &s, const int32_t *tokens, int32_t n) noexcept {
  if (s.commit != Commit::kAllowed) return;
  if (tree_->run(s.tip).orphan) {
    s.commit = Commit::kVirtualStop;
    return;
  }
  const size_t tpb = at(config_.tokens_per_block);
  const PrefixTree::Match match = tree_->find(s.tip, {tokens, at(n) * tpb}, false);
  if (match.blocks != 0) {
    if (!s.rebase) {
      s.commit = Commit::kVirtualStop;
      return;
    }
    const int32_t tip = tree_->cut(match);
    tree_->descend(s.tip, tip);
    const int32_t old = s.tip;
    s.tip = tip;
    adopt(s, s.in_index, tree_->path(), match.blocks);
    for (int32_t run = tip; run != old; run = tree_->run(run).parent) tree_->set_level(run, 0);
    s.in_index += match.blocks;
    tokens += at(match.blocks) * tpb;
    n -= match.blocks;
  }
  while (n != 0) {
    const PrefixTree::Retention kept = retention(s, s.in_index);
    int32_t alike = 1;
    while (alike < n && (s.ranges == 0 || retention(s, s.in_index + alike) == kept)) ++alike;
    if (!ensure_blocks(alike)) {
      s.commit = Commit::kVirtualStop;
      return;
    }
    if (config_.partial_reuse == 1) {
      for (int32_t run; (run = tree_->covered(s.tip, {tokens, tpb})) != kNone;) drop_run(run);
    }
    s.tip = tree_->append(s.tip, {tokens, at(alike) * tpb}, alike, kept, ids_.data());
    give(s, s.in_index, ids_.data(), alike);
    s.in_index += alike;
    tokens += at(alike) * tpb;
    n -= alike;
  }
}

// Blocks [first, first + n) of the sequence are those of the index from now on. Where the index lacks a page, or has it
// on a lower level, it gets the sequence's; else the sequence gives up its own.
void KvCache::adopt(Sequence &s, int32_t first, const int32_t *path, int32_t n) noexcept {
  counts_.rebased += n;
  for (int32_t l = 0; l < life_cycles(); ++l) {
    if (life(l).state()) continue;
    int32_t *list = pages(s, 0, l);
    const int32_t g = group_of(l);
    for (int32_t i = 0; i < n; ++i) {
      const int32_t block = path[i];
      const int32_t mine = list[first + i];
      if (mine == kNone) continue;  // it has left the window
      int32_t &theirs = loc(block, l);
      if (theirs != kNone && level_of(theirs) == 0) {
        put(g, &mine, 1);
        list[first + i] = theirs;
      } else {
        const int32_t level = theirs == kNone ? 0 : level_of(theirs);
        if (theirs != kNone) {
          if (!life(l).full()) special(l, block).bad = false;
          leave(block, l, launch_);
        }
        theirs = mine;
        --held_[at(g)];
        ++cached_[at(g)];
        emit(level == 0 ? BERTH_KV_STORED : BERTH_KV_UPDATED, block, l, cold(s).scope, config_.tokens_per_block, 0,
             level, ring_ ? tree_->run(tree_->run_of(block)).priority : 0);
      }
      if (!life(l).full()) hold(l, block);
    }
    if (s.active) edit(s, 0, l, first, first + n);
  }
}

// Blocks [first, first + n) of the sequence become the index's new blocks ids, with their pages.
void KvCache::give(Sequence &s, int32_t first, const int32_t *ids, int32_t n) noexcept {
  const PrefixTree::Run &run = tree_->run(s.tip);
  for (int32_t i = 0; i < n; ++i) uids_[at(ids[i])] = ++uid_;
  for (int32_t l = 0; l < life_cycles(); ++l) {
    const int32_t g = group_of(l);
    const int32_t *list = pages(s, 0, l);
    for (int32_t i = 0; i < n; ++i) {
      loc(ids[i], l) = life(l).state() ? kNone : list[first + i];
      if (!life(l).full()) special(l, ids[i]) = {kNone, kNone, 0, 0, 0, 0, 0, false};
      if (loc(ids[i], l) == kNone) continue;
      --held_[at(g)];
      ++cached_[at(g)];
      if (!life(l).full()) hold(l, ids[i]);
      if (ring_) emit(BERTH_KV_STORED, ids[i], l, cold(s).scope, run.fill, 0, 0, run.priority);
    }
  }
}

// A state is worth keeping where it is exactly that of a block's end and nothing that was launched changes it: the
// block must be the last, and nothing allocated beyond.
void KvCache::store_state(Sequence &s, bool end) noexcept {
  if (state_count_ == 0 || s.commit != Commit::kAllowed || s.in_index == 0 || s.capacity != s.history ||
      s.history != s.in_index * config_.tokens_per_block) {
    return;
  }
  attach_state(s, tree_->run(s.tip).last, end);
}

// The states as they are become those of the block: moved at the end, else copied if there is room.
void KvCache::attach_state(Sequence &s, int32_t block, bool end) noexcept {
  Needs needs{};
  for (int32_t l = 0; l < life_cycles(); ++l) needs[at(group_of(l))] += life(l).state() && loc(block, l) == kNone;
  if (!end && !ensure(0, needs, {}, nullptr)) return;
  for (int32_t l = 0; l < life_cycles(); ++l) {
    if (!life(l).state() || (loc(block, l) != kNone && !end)) continue;
    const int32_t g = group_of(l);
    int32_t &state = states(s)[state_of_[at(l)]];
    if (end) {
      if (special(l, block).bad) continue;
      hold(l, block);
      s.state_block = block;
      if (loc(block, l) != kNone) continue;
      loc(block, l) = std::exchange(state, kNone);
      --held_[at(g)];
    } else {
      take(g, &loc(block, l), 1);
      backend_->copy({g, 0, state, 0, loc(block, l)});
    }
    ++cached_[at(g)];
    special(l, block).epoch = launch_;
    if (!end) list_special(l, block, kTails, tree_->next_stamp());
    const PrefixTree::Run &tip = tree_->run(s.tip);
    emit(BERTH_KV_STORED, block, l, cold(s).scope, tip.fill, 0, 0, tip.priority);
  }
}

// No more commits. What is committed of the block begun is stored as a partial block if nobody has it, and the states
// with it, if they are exactly those of its last token.
void KvCache::stop(Sequence &s, bool end) noexcept {
  const Commit before = std::exchange(s.commit, Commit::kStopped);
  const int32_t begun = s.committed % config_.tokens_per_block;
  if (before != Commit::kAllowed || config_.partial_reuse == 0 || begun == 0 || !s.active ||
      (state_count_ != 0 && (s.capacity != s.history || s.history != s.committed)) ||
      s.in_index != s.committed / config_.tokens_per_block || tree_->run(s.tip).orphan) {
    return;
  }
  const std::span<const int32_t> tokens(tail(s), at(begun));
  if (tree_->find(s.tip, tokens, true).partial_tokens == begun) return;
  if (!ensure_blocks(1)) return;
  for (int32_t run; (run = tree_->covered(s.tip, tokens)) != kNone;) drop_run(run);
  const int32_t run = tree_->append_partial(s.tip, tokens, retention(s, s.in_index), ids_.data());
  s.tip = run;
  const int32_t block = ids_[0];
  give(s, s.in_index, &block, 1);
  ++s.in_index;
  if (state_count_ != 0) attach_state(s, block, end);
}

Status KvCache::widen(Sequence &s, berth_kv_op &op) noexcept {
  if (!within(op.a, 1, config_.beams)) return Status::kArgument;
  if (!s.active) return Status::kState;
  const int32_t beams = op.a;
  if (s.scratch != 0 && beams > 1) return Status::kState;
  if (s.row + beams > config_.rows) return Status::kArgument;
  for (int32_t j = s.beams; j < beams; ++j) {
    if (row_owner_[at(s.row + j)] != 0) return Status::kAlready;
  }
  // New beams get pages of their own from the block of the present position on; full blocks before it are beam 0's. A
  // block that was stored in part is still written behind its tokens: each beam needs its own.
  const bool begun = s.in_index != 0 && tree_->run(s.tip).fill != config_.tokens_per_block;
  const int32_t first = std::max(s.in_index - begun, s.history / config_.tokens_per_block);
  if (beams > s.beams) {
    if (state_count_ != 0) return Status::kState;
    Needs needs{};
    for (int32_t l = 0; l < life_cycles(); ++l) {
      for (int32_t b = first; b < s.blocks; ++b) {
        needs[at(group_of(l))] += (pages(s, 0, l)[b] != kNone) * (beams - s.beams);
      }
    }
    if (!ensure(0, needs, {}, &op)) return Status::kExhausted;
  }
  for (int32_t j = s.beams; j < beams; ++j) {
    row_owner_[at(s.row + j)] = number(s) + 1;
    for (int32_t l = 0; l < life_cycles(); ++l) {
      int32_t *list = pages(s, j, l);
      std::fill_n(list, first, kNone);
      for (int32_t b = first; b < s.blocks; ++b) {
        const int32_t from = pages(s, 0, l)[b];
        list[b] = kNone;
        if (from == kNone) continue;
        take(group_of(l), list + b, 1);
        ++held_[at(group_of(l))];
        if (int64_t{b} * config_.tokens_per_block < s.history) {
          backend_->copy({group_of(l), 0, from, 0, list[b]});
        }
      }
      edit(s, j, l, 0, s.blocks);
    }
  }
  for (int32_t j = beams; j < s.beams; ++j) {
    row_owner_[at(s.row + j)] = 0;
    for (int32_t l = 0; l < life_cycles(); ++l) {
      put_private(l, pages(s, j, l), own(s, j), s.blocks);
      backend_->edit(l, s.row + j, 0, s.blocks, nullptr);
    }
  }
  s.beams = beams;
  return Status::kOk;
}

// ------------------------------------------------------------------------------ planned drop

Status KvCache::plan_drop(Sequence &s, berth_kv_op &op) noexcept {
  if (s.commit != Commit::kStopped) return Status::kState;
  op.handle = 0;
  if (s.in_index == 0 || full_count_ == life_cycles() || tree_->run(s.tip).orphan) return Status::kOk;
  Pin *pin = new_pin(op.handle);
  if (pin == nullptr) return Status::kExhausted;
  const int32_t last = tree_->run(s.tip).last;
  int64_t blocks = 1;
  for (int32_t l = 0; l < life_cycles(); ++l) {
    if (life(l).full() || life(l).state()) continue;
    blocks = std::max(blocks, s.in_index - life(l).stale(s.history, config_.tokens_per_block).second);
  }
  *pin = {pin->generation, kNone, kNone, last, static_cast<int32_t>(std::min<int64_t>(blocks, s.in_index)),
          uids_[at(last)]};
  int32_t block = last;
  for (int32_t i = 0; i < pin->blocks; ++i, block = tree_->previous(block)) {
    for (int32_t l = 0; l < life_cycles(); ++l) {
      if (!life(l).full() && loc(block, l) != kNone) ++special(l, block).plans;
    }
  }
  return Status::kOk;
}

Status KvCache::drop(berth_kv_op &op) noexcept {
  Status status;
  Pin *pin = find_pin(op.handle, status);
  if (pin == nullptr) return status;
  if (pin->run != kNone) return Status::kState;
  const Pin plan = *pin;
  free_pin(*pin);
  if (uids_[at(plan.block)] != plan.uid) return Status::kOk;
  int32_t block = plan.block;
  for (int32_t i = 0; i < plan.blocks; ++i, block = tree_->previous(block)) ids_[at(i)] = block;
  for (int32_t i = 0; i < plan.blocks; ++i) {
    for (int32_t l = 0; l < life_cycles(); ++l) {
      if (life(l).full() || uids_[at(ids_[at(i)])] == 0 || loc(ids_[at(i)], l) == kNone) continue;
      Special &page = special(l, ids_[at(i)]);
      if (page.plans != 0 && --page.plans == 0 && page.holds == 0) drop_special(l, ids_[at(i)]);
    }
  }
  return Status::kOk;
}

// ------------------------------------------------------------------------------ pages

void KvCache::take(int32_t group, int32_t *out, int32_t n) noexcept {
  wait_ = std::max(wait_, slots_[at(group)].take(out, n));
}

// Pages of sequences, on the device.
void KvCache::put(int32_t group, const int32_t *slots, int32_t n) noexcept {
  slots_[at(group)].put(slots, n, launch_);
  held_[at(group)] -= n;
}

void KvCache::put_private(int32_t l, const int32_t *list, int32_t first, int32_t end) noexcept {
  if (life(l).full()) {
    // Beams beyond the first have no page for the blocks before theirs.
    while (first < end && list[first] == kNone) ++first;
    if (first < end) put(group_of(l), list + first, end - first);
    return;
  }
  for (int32_t b = first; b < end; ++b) {
    if (!counts(l, list[b])) continue;
    const int32_t slot = slot_of_entry(l, list[b]);
    put(group_of(l), &slot, 1);
  }
}

bool KvCache::ensure_blocks(int32_t n) noexcept {
  while (tree_->free_blocks() < n) {
    int32_t run = PrefixTree::kNone;
    for (int32_t level = kLevels - 1; level >= 0 && run == PrefixTree::kNone; --level) {
      run = tree_->victim(level, quotas_).run;
    }
    if (run == PrefixTree::kNone) return false;
    const int32_t block = tree_->run(run).last;
    free_block(block, run);
    tree_->drop_last(run);
    if (tree_->run(run).length == 0) tree_->discard(run);
    ++counts_.evicted;
  }
  return true;
}

// An unreferenced run without children.
void KvCache::drop_run(int32_t run) noexcept {
  while (tree_->run(run).length != 0) {
    free_block(tree_->run(run).last, run);
    tree_->drop_last(run);
  }
  tree_->discard(run);
}

// The index loses a page.
void KvCache::free_loc(int32_t block, int32_t l, uint64_t epoch) noexcept {
  const int32_t page = loc(block, l);
  leave(block, l, epoch);
  loc(block, l) = kNone;
  emit(BERTH_KV_REMOVED, block, l, {}, 0, level_of(page), level_of(page), 0);
}

// Every page of a block that goes out of the index; nobody uses it.
void KvCache::free_block(int32_t block, int32_t run) noexcept {
  for (int32_t l = 0; l < life_cycles(); ++l) {
    if (loc(block, l) == kNone) continue;
    uint64_t epoch = tree_->run(run).epoch;
    if (!life(l).full()) {
      epoch = std::max(epoch, special(l, block).epoch);
      unlist_special(l, block);
    }
    free_loc(block, l, epoch);
  }
  uids_[at(block)] = 0;
}

// Blocks at the end of the tree that have no page left go.
void KvCache::prune(int32_t block) noexcept {
  if (full_count_ != 0) return;
  int32_t run = tree_->ended_by(block);
  while (run != PrefixTree::kNone) {
    const PrefixTree::Run &r = tree_->run(run);
    if (r.length == 0 || r.references != 0 || r.children != 0) return;
    for (int32_t l = 0; l < life_cycles(); ++l) {
      if (loc(r.last, l) != kNone) return;
    }
    const int32_t parent = r.parent;
    uids_[at(r.last)] = 0;
    tree_->drop_last(run);
    if (tree_->run(run).length != 0) continue;
    tree_->discard(run);
    run = parent;
  }
}

// ------------------------------------------------------------------------------ window and state pages of the index

void KvCache::hold(int32_t l, int32_t block) noexcept {
  if (special(l, block).holds++ == 0) unlist_special(l, block);
}

void KvCache::let_go(int32_t l, int32_t block, int32_t list) noexcept {
  Special &page = special(l, block);
  page.epoch = std::max(page.epoch, launch_);
  if (--page.holds != 0) return;
  if (page.bad) {
    drop_special(l, block);
    return;
  }
  const int32_t level = level_of(loc(block, l));
  list_special(l, block, level == 0 ? list : kTails + level, tree_->next_stamp());
}

void KvCache::list_special(int32_t l, int32_t block, int32_t list, uint64_t stamp) noexcept {
  Special &page = special(l, block);
  SpecialList &to = special_list(l, list);
  page.list = static_cast<uint8_t>(list);
  page.stamp = stamp;
  page.newer = kNone;
  page.older = to.newest;
  (page.older == kNone ? to.oldest : special(l, page.older).newer) = block;
  to.newest = block;
  ++special_listed_[at(std::max(0, list - kTails))][at(group_of(l))];
}

void KvCache::unlist_special(int32_t l, int32_t block) noexcept {
  Special &page = special(l, block);
  if (page.list == 0) return;
  SpecialList &from = special_list(l, page.list);
  (page.older == kNone ? from.oldest : special(l, page.older).newer) = page.newer;
  (page.newer == kNone ? from.newest : special(l, page.newer).older) = page.older;
  --special_listed_[at(std::max(0, page.list - kTails))][at(group_of(l))];
  page.list = 0;
}

void KvCache::drop_special(int32_t l, int32_t block) noexcept {
  unlist_special(l, block);
  const uint64_t epoch = special(l, block).epoch;
  special(l, block).bad ? ++counts_.lost : ++counts_.evicted;
  special(l, block) = {kNone, kNone, 0, 0, 0, 0, 0, false};
  free_loc(block, l, epoch);
  prune(block);
}

// ------------------------------------------------------------------------------ tables

// Entries [first, end) of a beam's row are what the sequence's list says.
void KvCache::edit(const Sequence &s, int32_t beam, int32_t l, int32_t first, int32_t end) noexcept {
  if (first < end && !counted()) backend_->edit(l, s.row + beam, first, end - first, pages(s, beam, l) + first);
}

void KvCache::clear_rows(const Sequence &s) noexcept {
  if (counted()) return;
  for (int32_t l = 0; l < life_cycles(); ++l) {
    for (int32_t j = 0; j < s.beams && s.blocks != 0; ++j) backend_->edit(l, s.row + j, 0, s.blocks, nullptr);
  }
}

// Outputs that can be written for so many rows.
bool KvCache::valid(const berth_kv_batch &batch, int64_t rows) const noexcept {
  return batch.struct_size == sizeof(berth_kv_batch) && within(batch.clear_padding, 0, 1) && batch.output_rows >= 0 &&
         batch.output_tokens >= 0 && batch.csr_capacity >= 0 && rows <= config_.rows && !counted();
}

Status KvCache::prepare(berth_kv_batch &batch) noexcept {
  if (broken_ != 0) return Status::kState;
  if (batch.struct_size != sizeof(berth_kv_batch) || !within(batch.n, 0, config_.sequences) ||
      !within(batch.contexts, 0, batch.n) || !within(batch.beam, 1, config_.beams) ||
      (batch.n != 0 && (batch.handle_address == 0 || batch.query_address == 0))) {
    return Status::kArgument;
  }
  const auto *handles = reinterpret_cast<const uint64_t *>(static_cast<uintptr_t>(batch.handle_address));
  const auto *queries = reinterpret_cast<const int32_t *>(static_cast<uintptr_t>(batch.query_address));
  const int64_t rows = batch.contexts + int64_t{batch.beam} * (batch.n - batch.contexts);
  if (!valid(batch, 0)) return Status::kArgument;
  if (rows > batch.output_rows || rows > config_.rows) return Status::kCapacity;
  const size_t n = at(rows);
  int32_t *row = columns_.data();
  int32_t *blocks = row + n;
  int32_t *history = blocks + n;
  int32_t *query = history + n;
  int32_t *state = query + n;
  size_t out = 0;
  int64_t tokens = 0;
  int64_t used = 0;
  for (int32_t i = 0; i < batch.n; ++i) {
    Status status;
    const Sequence *s = find(handles[i], status);
    if (s == nullptr) return status;
    if (!s->active) return Status::kState;
    const int32_t beams = i < batch.contexts ? 1 : batch.beam;
    if (beams > s->beams || queries[i] < 0 || queries[i] > s->capacity - s->history) return Status::kArgument;
    for (int32_t j = 0; j < beams; ++j, ++out) {
      row[out] = s->row + j;
      blocks[out] = s->blocks;
      history[out] = s->history;
      query[out] = queries[i];
      for (int32_t k = 0; k < state_count_; ++k) {
        state[at(k) * n + out] = states_[at(number(*s)) * at(state_count_) + at(k)];
      }
      tokens += queries[i];
      used += ceil_div(int64_t{s->history} + queries[i], config_.tokens_per_block);
    }
  }
  return gather(batch, n, tokens, used);
}

Status KvCache::prepare(berth_kv_batch &batch, std::span<const BatchRow> rows) noexcept {
  if (broken_ != 0) return Status::kState;
  if (!valid(batch, static_cast<int64_t>(rows.size()))) return Status::kArgument;
  if (static_cast<int64_t>(rows.size()) > batch.output_rows) return Status::kCapacity;
  const size_t n = rows.size();
  int32_t *column = columns_.data();
  int64_t tokens = 0;
  int64_t used = 0;
  constexpr size_t kAhead = 16;
  for (size_t i = 0; i < n; ++i) {
    const BatchRow &r = rows[i];
    if (i + kAhead < n) {
      const auto ahead = static_cast<uint32_t>(rows[i + kAhead].handle);
      if (ahead < static_cast<uint32_t>(issued_sequences_)) __builtin_prefetch(&sequences_[ahead]);
    }
    Status status;
    const Sequence *s = r.handle == 0 ? nullptr : find(r.handle, status);
    if (r.handle != 0 && (s == nullptr || !s->active)) return Status::kState;
    column[i] = s == nullptr ? r.row : s->row;
    column[n + i] = s == nullptr ? 0 : s->blocks;
    column[2 * n + i] = r.history;
    column[3 * n + i] = r.queries;
    for (int32_t k = 0; k < state_count_; ++k) {
      column[(4 + at(k)) * n + i] = s == nullptr ? batch.pad_state : states_[at(number(*s)) * at(state_count_) + at(k)];
    }
    tokens += r.queries;
    used += ceil_div(int64_t{r.history} + r.queries, config_.tokens_per_block);
  }
  return gather(batch, n, tokens, used);
}

// Of the columns.
Status KvCache::gather(berth_kv_batch &batch, size_t n, int64_t tokens, int64_t used) noexcept {
  const int32_t *row = columns_.data();
  if (batch.mapping_address != 0 && tokens > batch.output_tokens) return Status::kCapacity;
  const bool csr = batch.indptr_address != 0;
  if (csr && (used > batch.csr_capacity || used > std::numeric_limits<int32_t>::max())) return Status::kCapacity;
  if (csr && (batch.indices_address == 0 || batch.last_address == 0)) return Status::kArgument;
  device::Gather gather;
  gather.rows = {row, n};
  gather.blocks = {row + n, n};
  gather.history = {row + 2 * n, n};
  gather.queries = {row + 3 * n, n};
  gather.states = {row + 4 * n, n * at(state_count_)};
  gather.table = batch.table_address;
  gather.buffer_table = batch.buffer_address;
  gather.slot_mapping = batch.mapping_address;
  gather.csr_indptr = batch.indptr_address;
  gather.csr_indices = batch.indices_address;
  gather.csr_last = batch.last_address;
  gather.state_index = batch.state_address;
  gather.csr_capacity = batch.csr_capacity;
  gather.output_tokens = batch.output_tokens;
  gather.output_rows = batch.output_rows;
  gather.bad_value = config_.bad_value;
  gather.pad_state = batch.pad_state;
  gather.clear_padding = batch.clear_padding == 1;
  const Status status = backend_->gather(gather);
  if (status != Status::kOk) return status;
  batch.rows = static_cast<int32_t>(n);
  batch.step = backend_->submitted();
  return Status::kOk;
}

// ------------------------------------------------------------------------------ time

Status KvCache::epoch(uint64_t launch, uint64_t complete) noexcept {
  if (launch < launch_ || complete < complete_) return Status::kArgument;
  launch_ = launch;
  complete_ = complete;
  for (PageSlots &slots : slots_) slots.complete(complete);
  pump();
  return Status::kOk;
}

Status KvCache::clock(int64_t now) noexcept {
  if (now < now_) return Status::kArgument;
  now_ = now;
  if (tree_) tree_->expire(now, config_.default_priority, [&](int32_t run) { emit_priority(run); });
  return Status::kOk;
}

Status KvCache::quota(int32_t tenant, int64_t blocks) noexcept {
  if (!within(tenant, 0, config_.tenants - 1) || blocks < 0) return Status::kArgument;
  quotas_[at(tenant)] = blocks;
  return Status::kOk;
}

void KvCache::reset() noexcept {
  if (tree_) tree_->detach_all([&](int32_t block, int32_t run) { free_block(block, run); });
}

// ------------------------------------------------------------------------------ reading

Status KvCache::blocks(uint64_t handle, int32_t l, int32_t beam, int32_t *out, int32_t capacity,
                       int32_t &count) const noexcept {
  if (counted()) return Status::kState;
  Status status;
  const Sequence *s = const_cast<KvCache *>(this)->find(handle, status);
  if (s == nullptr) return status;
  if (!within(l, 0, life_cycles() - 1) || !within(beam, 0, s->beams - 1)) return Status::kArgument;
  count = life(l).state() ? 1 : s->blocks;
  if (count > capacity) return Status::kCapacity;
  if (life(l).state()) {
    out[0] = states_[at(number(*s)) * at(state_count_) + at(state_of_[at(l)])];
  } else {
    std::copy_n(pages(*s, beam, l), count, out);
  }
  return Status::kOk;
}

Status KvCache::sequence(uint64_t handle, int32_t *out) const noexcept {
  Status status;
  const Sequence *s = const_cast<KvCache *>(this)->find(handle, status);
  if (s == nullptr) return status;
  const int32_t values[] = {s->active, s->committed, s->history, s->capacity,
                            s->blocks, s->in_index,  s->row,     static_cast<int32_t>(s->commit)};
  std::copy(std::begin(values), std::end(values), out);
  return Status::kOk;
}

void KvCache::describe(berth_kv_stats &stats, berth_kv_pages *out) const noexcept {
  const uint32_t size = stats.struct_size;
  stats = counts_;
  stats.struct_size = size;
  stats.open_sequences = open_;
  stats.active_sequences = active_;
  stats.pins = pinned_;
  stats.index_blocks = tree_ ? tree_->blocks() - tree_->free_blocks() : 0;
  stats.index_runs = tree_ ? tree_->used_runs() : 0;
  stats.wait_epoch = wait_;
  stats.under_way = static_cast<int64_t>(started_ - settled_ + waits_ - waited_);
  for (int32_t level = 0; level < kLevels; ++level) {
    for (int32_t g = 0; g < layout_.groups(); ++g) {
      const size_t i = at(level * layout_.groups() + g);
      out[i] = {slots_[i].capacity(), slots_[i].free(),    level == 0 ? held_[at(g)] : 0,
                cached_[i],           evictable(level, g), moving_[i]};
    }
  }
}

void KvCache::map(berth_kv_memory &out) noexcept {
  out.life_cycles = life_cycles();
  out.groups = layout_.groups();
  out.views = static_cast<int32_t>(layout_.views().size());
  out.pools = static_cast<int32_t>(layout_.pools().size());
  out.states = state_count_;
  out.event_tokens = config_.tokens_per_block;
  out.padding = 0;
  out.token_address = reinterpret_cast<uintptr_t>(arena_.data());
  out.tokens = static_cast<int64_t>(arena_.size());
  out.event_address = reinterpret_cast<uintptr_t>(ring_.get());
  out.events = ring_ ? int64_t{1} << config_.event_ring_log2 : 0;
  out.event_bytes = static_cast<int64_t>(ring_bytes_);
  map_transfers(out);
}

// ------------------------------------------------------------------------------ events

// Every page of a run is kept as dearly as the run from now on.
void KvCache::emit_priority(int32_t run) noexcept {
  if (!ring_) return;
  const PrefixTree::Run &r = tree_->run(run);
  for (int32_t block = r.first; block != kNone; block = tree_->next(block)) {
    for (int32_t l = 0; l < life_cycles(); ++l) {
      const int32_t page = loc(block, l);
      if (page == kNone) continue;
      emit(BERTH_KV_UPDATED, block, l, {}, r.fill, level_of(page), level_of(page), r.priority);
    }
  }
}

void KvCache::emit(int32_t kind, int32_t block, int32_t l, const KvScope &scope, int32_t fill, int32_t level,
                   int32_t old_level, int32_t priority) noexcept {
  if (!ring_) return;
  auto *ring = reinterpret_cast<berth_kv_event_ring *>(ring_.get());
  const uint64_t size = uint64_t{1} << config_.event_ring_log2;
  ++event_;
  const uint64_t tail = std::atomic_ref<uint64_t>(ring->tail).load(std::memory_order_acquire);
  const uint64_t head = ring->head;
  // A consumer that claims to have read what wasn't written is taken to have read nothing.
  if (head - tail >= size) {
    std::atomic_ref<uint64_t>(ring->dropped).fetch_add(1, std::memory_order_relaxed);
    std::atomic_ref<uint64_t>(ring->sequence).store(event_, std::memory_order_release);
    return;
  }
  auto *events = reinterpret_cast<berth_kv_event *>(ring + 1);
  auto *tokens = reinterpret_cast<int32_t *>(events + size) + (head & (size - 1)) * at(config_.tokens_per_block);
  const int32_t before = tree_->previous(block);
  events[head & (size - 1)] = {event_,
                               uids_[at(block)],
                               kind == BERTH_KV_STORED && before != kNone ? uids_[at(before)] : 0,
                               scope.lora,
                               scope.salt,
                               kind,
                               l,
                               kind == BERTH_KV_STORED ? fill : 0,
                               level,
                               old_level,
                               priority,
                               static_cast<int32_t>(scope.present),
                               fill != 0 && fill < config_.tokens_per_block,
                               {0, 0}};
  if (kind == BERTH_KV_STORED) std::copy_n(tree_->tokens(block), fill, tokens);
  std::atomic_ref<uint64_t>(ring->sequence).store(event_, std::memory_order_relaxed);
  std::atomic_ref<uint64_t>(ring->head).store(head + 1, std::memory_order_release);
}

Status KvCache::snapshot(berth_kv_event *events, int32_t *tokens, int32_t capacity, int32_t &count,
                         uint64_t &sequence) const noexcept {
  sequence = event_;
  for (int32_t pass = 0; pass < 2; ++pass) {
    int64_t n = 0;
    for (int32_t root = tree_ ? tree_->first_root() : kNone; root != kNone; root = tree_->run(root).next_sibling) {
      // Parents first, without a stack: down to the first child, else on to the next sibling of the nearest ancestor.
      int32_t run = tree_->run(root).first_child;
      while (run != kNone) {
        const PrefixTree::Run &r = tree_->run(run);
        for (int32_t block = r.first; block != kNone; block = tree_->next(block)) {
          for (int32_t l = 0; l < life_cycles(); ++l) {
            const int32_t page = loc(block, l);
            if (page == kNone) continue;
            if (pass == 1) {
              const KvScope &scope = tree_->scope(root);
              const int32_t before = tree_->previous(block);
              events[n] = {event_,
                           uids_[at(block)],
                           before == kNone ? 0 : uids_[at(before)],
                           scope.lora,
                           scope.salt,
                           BERTH_KV_STORED,
                           l,
                           r.fill,
                           level_of(page),
                           level_of(page),
                           r.priority,
                           static_cast<int32_t>(scope.present),
                           r.fill < config_.tokens_per_block,
                           {0, 0}};
              std::copy_n(tree_->tokens(block), r.fill, tokens + n * config_.tokens_per_block);
            }
            ++n;
          }
        }
        if (r.first_child != kNone) {
          run = r.first_child;
          continue;
        }
        while (run != root && tree_->run(run).next_sibling == kNone) run = tree_->run(run).parent;
        run = run == root ? kNone : tree_->run(run).next_sibling;
      }
    }
    count = static_cast<int32_t>(std::min<int64_t>(n, std::numeric_limits<int32_t>::max()));
    if (n > capacity) return Status::kCapacity;
  }
  return Status::kOk;
}

// ------------------------------------------------------------------------------ self-examination

int32_t KvCache::check() {
  const int32_t found = broken();
  if (found != 0) broken_ = found;
  return found;
}

int32_t KvCache::broken() const {
  if (counted()) return check_counted();
  if (const int32_t bad = tree_ ? tree_->broken() : 0) return bad;
  const int32_t groups = layout_.groups();
  std::vector<std::vector<uint8_t>> seen;
  for (const PageSlots &slots : slots_) seen.emplace_back(at(slots.capacity()));
  std::vector<int64_t> cached(slots_.size());
  std::vector<int64_t> held(at(groups));
  bool twice = false;
  const auto see = [&](int32_t level, int32_t group, int32_t slot) {
    std::vector<uint8_t> &bits = seen[at(level * groups + group)];
    if (!within(slot, 0, static_cast<int64_t>(bits.size()) - 1) || bits[at(slot)]++ != 0) twice = true;
  };
  for (int32_t level = 0; level < kLevels; ++level) {
    for (int32_t g = 0; g < groups; ++g) {
      const PageSlots &slots = slots_[at(level * groups + g)];
      slots.each_recycled([&](int32_t slot) { see(level, g, slot); });
      for (int32_t slot = slots.issued(); slot < slots.capacity(); ++slot) see(level, g, slot);
    }
  }
  std::vector<uint16_t> holds(specials_.size());
  std::vector<int32_t> references;
  for (int32_t i = 0; i < issued_sequences_; ++i) {
    const Sequence &s = sequences_[at(i)];
    if (s.generation % 2 == 0) continue;
    if (s.committed > s.history || s.history > s.capacity) return 2;
    if (s.blocks != ceil_div(s.capacity, config_.tokens_per_block) || s.in_index > s.blocks) return 3;
    if (s.active != (s.row != kNone)) return 4;
    std::vector<int32_t> path(at(s.in_index));
    int32_t block = s.in_index == 0 ? kNone : tree_->run(s.tip).last;
    for (int32_t b = s.in_index - 1; b >= 0; --b, block = tree_->previous(block)) {
      if (block == kNone) return 5;
      path[at(b)] = block;
    }
    if (block != kNone) return 5;
    for (int32_t l = 0; l < life_cycles(); ++l) {
      const int32_t g = group_of(l);
      if (life(l).state()) {
        const int32_t state = states_[at(i) * at(state_count_) + at(state_of_[at(l)])];
        if (state != kNone) see(0, g, state), ++held[at(g)];
        if (s.state_block != kNone) ++holds[at(special_of_[at(l)]) * at(config_.index_blocks) + at(s.state_block)];
        continue;
      }
      if (s.partial_block != kNone && !life(l).full() && loc(s.partial_block, l) != kNone) {
        ++holds[at(special_of_[at(l)]) * at(config_.index_blocks) + at(s.partial_block)];
      }
      const LifeCycle::Range stale = life(l).stale(s.history, config_.tokens_per_block);
      for (int32_t j = 0; j < s.beams; ++j) {
        const int32_t *list = pages(s, j, l);
        for (int32_t b = 0; b < s.blocks; ++b) {
          if (!life(l).full() && b >= stale.first && b < stale.second && list[b] != kNone) return 6;
          if (j == 0 && b < s.in_index) {
            if (list[b] == kNone) continue;
            if (s.active && list[b] != loc(path[at(b)], l)) return 7;
            if (!life(l).full()) ++holds[at(special_of_[at(l)]) * at(config_.index_blocks) + at(path[at(b)])];
          } else if (list[b] != kNone) {
            if (list[b] < kNone && (s.scratch == 0 || j != 0)) return 17;
            if (counts(l, list[b])) see(0, g, slot_of_entry(l, list[b])), ++held[at(g)];
          } else if (s.active && j == 0 && !(b >= stale.first && b < stale.second)) {
            return 8;
          }
          if (s.active && config_.mode == BERTH_KV_SYNCHRONOUS &&
              backend_->table(l)[at(s.row + j) * at(config_.max_blocks) + at(b)] != list[b]) {
            return 9;
          }
        }
      }
    }
  }
  std::vector<int64_t> moving(slots_.size());
  each_flight([&](int32_t f) {
    const Flight &flight = flights_[at(f)];
    const int32_t g = group_of(flight.life_cycle);
    if (flight.level != kDisk) see(flight.level, g, flight.slot);
    if (flight.orphan) see(kDisk, g, flight.disk);
  });
  if (const int32_t broken = check_transfers(holds, moving)) return broken;
  // Blocks of the index: what has a number lives.
  decltype(special_listed_) listed{};
  for (int32_t block = 0; tree_ && block < config_.index_blocks; ++block) {
    if (uids_[at(block)] == 0) continue;
    for (int32_t l = 0; l < life_cycles(); ++l) {
      const int32_t page = loc(block, l);
      if (page != kNone) {
        see(level_of(page), group_of(l), slot_of(page));
        ++cached[at(level_of(page) * groups + group_of(l))];
      }
      if (life(l).full()) continue;
      const Special &x = special(l, block);
      if (x.holds != holds[at(special_of_[at(l)]) * at(config_.index_blocks) + at(block)]) return 10;
      if ((x.list != 0) != (page != kNone && x.holds == 0)) return 11;
      if (x.list != 0) ++listed[at(std::max(0, x.list - kTails))][at(group_of(l))];
    }
  }
  if (listed != special_listed_) return 12;
  if (twice) return 13;
  for (const auto &bits : seen) {
    if (std::find(bits.begin(), bits.end(), 0) != bits.end()) return 14;
  }
  if (cached != cached_ || held != held_ || moving != moving_) return 15;
  for (int32_t row = 0; row < config_.rows; ++row) {
    const int32_t owner = row_owner_[at(row)];
    if (owner == 0) continue;
    const Sequence &s = sequences_[at(owner - 1)];
    if (s.generation % 2 == 0 || !s.active || row < s.row || row >= s.row + s.beams) return 16;
  }
  return 0;
}

}  // namespace berth
