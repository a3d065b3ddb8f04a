// SPDX-License-Identifier: Apache-2.0
#include "core/prefix_tree.hpp"

#include <algorithm>
#include <cstring>

namespace berth {

PrefixTree::PrefixTree(const Config &config)
    : config_(config),
      tokens_(static_cast<size_t>(config.blocks) * static_cast<size_t>(config.tokens_per_block)),
      links_(at(config.blocks)),
      free_blocks_(config.blocks),
      runs_(at(config.blocks) + at(config.scopes)),
      free_runs_(config.blocks + config.scopes),
      scopes_(at(config.scopes)),
      free_scopes_(config.scopes),
      buckets_(std::bit_ceil(at(config.scopes)), kNone),
      index_(std::bit_ceil(2 * at(config.blocks) + 2)),
      mask_(index_.size() - 1),
      path_(at(config.blocks) + 1),
      lists_(at(kLevels) * at(config.tenants) * at(kRanks)),
      ranks_(at(kLevels) * at(config.tenants)),
      tenant_blocks_(at(config.tenants)) {
  heap_.reserve(at(config.blocks));
}

// ------------------------------------------------------------------------------ finding

size_t PrefixTree::bucket(const KvScope &scope) const noexcept {
  uint64_t h = (scope.lora ^ config_.key[0]) * 0x9e3779b97f4a7c15u;
  h = ((h >> 29) ^ h ^ scope.salt ^ scope.present) * 0xd6e8feb86659fd93u;
  return (h >> 32) & (buckets_.size() - 1);
}

int32_t PrefixTree::root(const KvScope &scope) const noexcept {
  int32_t r = buckets_[bucket(scope)];
  while (r != kNone && !(this->scope(r) == scope)) r = runs_[at(r)].left;
  return r;
}

int32_t PrefixTree::make_root(const KvScope &scope) noexcept {
  int32_t r = root(scope);
  if (r != kNone || free_scopes_.free() == 0) return r;
  r = new_run(kNone);
  Run &run = runs_[at(r)];
  free_scopes_.take(&run.first, 1);
  scopes_[at(run.first)] = scope;
  int32_t &head = buckets_[bucket(scope)];
  run.left = head;
  head = r;
  run.next_sibling = first_root_;
  if (first_root_ != kNone) runs_[at(first_root_)].prev_sibling = r;
  first_root_ = r;
  return r;
}

void PrefixTree::forget_root(int32_t r) noexcept {
  Run &run = runs_[at(r)];
  if (run.references != 0 || run.children != 0) return;
  int32_t *place = &buckets_[bucket(scope(r))];
  while (*place != r) place = &runs_[at(*place)].left;
  *place = run.left;
  if (run.prev_sibling != kNone) runs_[at(run.prev_sibling)].next_sibling = run.next_sibling;
  if (run.next_sibling != kNone) runs_[at(run.next_sibling)].prev_sibling = run.prev_sibling;
  if (first_root_ == r) first_root_ = run.next_sibling;
  free_scopes_.put(run.first, 0);
  discard(r);
}

bool PrefixTree::equal(int32_t block, const int32_t *tokens) const noexcept {
  return std::memcmp(this->tokens(block), tokens, tpb() * sizeof(int32_t)) == 0;
}

// How many of n blocks from block on, which lie side by side, are the tokens.
int32_t PrefixTree::equal_blocks(int32_t block, const int32_t *tokens, int32_t n) const noexcept {
  if (std::memcmp(this->tokens(block), tokens, at(n) * tpb() * sizeof(int32_t)) == 0) return n;
  int32_t i = 0;
  while (equal(block + i, tokens + at(i) * tpb())) ++i;
  return i;
}

int32_t PrefixTree::common(int32_t block, std::span<const int32_t> other) const noexcept {
  const int32_t *mine = tokens(block);
  const size_t n = std::min(other.size(), tpb());
  size_t i = 0;
  while (i < n && mine[i] == other[i]) ++i;
  return static_cast<int32_t>(i);
}

PrefixTree::Match PrefixTree::find(int32_t run, std::span<const int32_t> tokens, bool want_partial,
                                   int32_t first) noexcept {
  const int32_t limit = static_cast<int32_t>(std::min(tokens.size() / tpb(), path_.size() - at(first)));
  const int32_t *next_tokens = tokens.data();
  int32_t *path = path_.data() + first;
  Match match{run, runs_[at(run)].length, 0, runs_[at(run)].last};
  while (match.blocks < limit) {
    const int32_t c = child(match.run, next_tokens);
    if (c == kNone) break;
    const Run &r = runs_[at(c)];
    match.run = c;
    match.offset = 1;
    path[match.blocks++] = r.first;
    next_tokens += tpb();
    int32_t block = links_[at(r.first)].next;
    const int32_t want = std::min(r.length - 1, limit - match.blocks);
    int32_t seen = 0;
    while (seen < want) {
      int32_t side_by_side = 1;
      while (seen + side_by_side < want && links_[at(block + side_by_side - 1)].next == block + side_by_side) {
        ++side_by_side;
      }
      const int32_t same = equal_blocks(block, next_tokens, side_by_side);
      for (int32_t i = 0; i < same; ++i) path[match.blocks + i] = block + i;
      match.blocks += same;
      next_tokens += at(same) * tpb();
      seen += same;
      if (same < side_by_side) break;
      block = links_[at(block + side_by_side - 1)].next;
    }
    match.offset += seen;
    if (match.offset < r.length) break;
  }
  if (match.blocks != 0) match.last = path[match.blocks - 1];
  if (want_partial) {
    const auto rest = tokens.subspan(at(match.blocks) * tpb());
    if (!rest.empty()) best_child(match.run, rest, match);
  }
  return match;
}

PrefixTree::Match PrefixTree::shorten(const Match &match, int32_t blocks) const noexcept {
  Match shorter{match.run, match.offset, match.blocks, blocks == 0 ? kNone : path_[at(blocks - 1)]};
  while (shorter.blocks > blocks) {
    const int32_t back = std::min(shorter.blocks - blocks, shorter.offset);
    shorter.blocks -= back;
    shorter.offset -= back;
    if (shorter.offset == 0) {
      shorter.run = runs_[at(shorter.run)].parent;
      shorter.offset = runs_[at(shorter.run)].length;
    }
  }
  return shorter;
}

int32_t PrefixTree::child(int32_t run, const int32_t *tokens) const noexcept {
  const Run &r = runs_[at(run)];
  if (r.children == 0) return kNone;
  if (r.children == 1) {
    const Run &only = runs_[at(r.first_child)];
    return only.fill == config_.tokens_per_block && equal(only.first, tokens) ? r.first_child : kNone;
  }
  const uint32_t h = hash(run, tokens);
  for (size_t i = h & mask_;; i = (i + 1) & mask_) {
    const Entry &entry = index_[i];
    if (entry.run == 0) return kNone;
    const int32_t c = entry.run - 1;
    if (entry.hash == h && runs_[at(c)].parent == run && equal(runs_[at(c)].first, tokens)) return c;
  }
}

// Keyed and folded multiplication over pairs of tokens.
uint32_t PrefixTree::hash(int32_t parent, const int32_t *tokens) const noexcept {
  __extension__ typedef unsigned __int128 Wide;
  const uint64_t odd = config_.key[1] | 1;
  uint64_t h = config_.key[0] ^ static_cast<uint64_t>(parent);
  const auto mix = [&](uint64_t word) {
    const Wide product = static_cast<Wide>(h ^ word) * 0xd6e8feb86659fd93u;
    h = (static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64)) + odd;
  };
  size_t i = 0;
  for (; i + 2 <= tpb(); i += 2) {
    uint64_t word;
    std::memcpy(&word, tokens + i, 8);
    mix(word);
  }
  if (i < tpb()) mix(static_cast<uint32_t>(tokens[i]));
  mix(0);
  return static_cast<uint32_t>(h >> 32);
}

void PrefixTree::index(int32_t run) noexcept {
  Run &r = runs_[at(run)];
  if (r.fill < config_.tokens_per_block || r.indexed) return;
  r.hash = hash(r.parent, tokens(r.first));
  r.indexed = true;
  size_t i = r.hash & mask_;
  while (index_[i].run != 0) i = (i + 1) & mask_;
  index_[i] = {r.hash, run + 1};
}

size_t PrefixTree::slot_of(int32_t run) const noexcept {
  size_t i = runs_[at(run)].hash & mask_;
  while (index_[i].run != run + 1) i = (i + 1) & mask_;
  return i;
}

void PrefixTree::unindex(int32_t run) noexcept {
  if (!runs_[at(run)].indexed) return;
  runs_[at(run)].indexed = false;
  size_t hole = slot_of(run);
  // What comes after moves up if that brings it no nearer than its home.
  for (size_t i = (hole + 1) & mask_; index_[i].run != 0; i = (i + 1) & mask_) {
    const size_t home = index_[i].hash & mask_;
    if (((i - home) & mask_) >= ((i - hole) & mask_)) {
      index_[hole] = index_[i];
      hole = i;
    }
  }
  index_[hole] = {};
}

void PrefixTree::reindex(int32_t from, int32_t to) noexcept {
  if (!runs_[at(from)].indexed) return;
  index_[slot_of(from)].run = to + 1;
  runs_[at(to)].hash = runs_[at(from)].hash;
  runs_[at(to)].indexed = true;
  runs_[at(from)].indexed = false;
}

// ------------------------------------------------------------------------------ children in token order

// A treap over siblings: by tokens, the shorter first where one begins the other.
int32_t PrefixTree::order(int32_t a, int32_t b) const noexcept {
  const Run &x = runs_[at(a)];
  const Run &y = runs_[at(b)];
  const int32_t *p = tokens(x.first);
  const int32_t *q = tokens(y.first);
  const int32_t n = std::min(x.fill, y.fill);
  for (int32_t i = 0; i < n; ++i) {
    if (p[i] != q[i]) return p[i] < q[i] ? -1 : 1;
  }
  return x.fill != y.fill ? (x.fill < y.fill ? -1 : 1) : (a < b ? -1 : a > b);
}

int32_t PrefixTree::ordered_merge(int32_t a, int32_t b) noexcept {
  if (a == kNone) return b;
  if (b == kNone) return a;
  Run &x = runs_[at(a)];
  Run &y = runs_[at(b)];
  if (x.heap > y.heap) {
    x.right = ordered_merge(x.right, b);
    return a;
  }
  y.left = ordered_merge(a, y.left);
  return b;
}

int32_t PrefixTree::ordered_insert(int32_t root, int32_t run) noexcept {
  if (root == kNone) return run;
  Run &r = runs_[at(root)];
  if (runs_[at(run)].heap <= r.heap) {
    int32_t &side = order(run, root) < 0 ? r.left : r.right;
    side = ordered_insert(side, run);
    return root;
  }
  // run becomes the top: the others part around it.
  int32_t *less = &runs_[at(run)].left;
  int32_t *more = &runs_[at(run)].right;
  int32_t x = root;
  while (x != kNone) {
    if (order(x, run) < 0) {
      *less = x;
      less = &runs_[at(x)].right;
      x = *less;
    } else {
      *more = x;
      more = &runs_[at(x)].left;
      x = *more;
    }
  }
  *less = *more = kNone;
  return run;
}

int32_t PrefixTree::ordered_remove(int32_t root, int32_t run) noexcept {
  if (root == run) return ordered_merge(runs_[at(run)].left, runs_[at(run)].right);
  Run &r = runs_[at(root)];
  int32_t &side = order(run, root) < 0 ? r.left : r.right;
  side = ordered_remove(side, run);
  return root;
}

// The block that continues longest after the match: the next of the run it ended in, or else of the children the
// neighbour in order, which has the longest common prefix of all.
void PrefixTree::best_child(int32_t run, std::span<const int32_t> rest, Match &match) const noexcept {
  const Run &r = runs_[at(run)];
  const auto consider = [&](int32_t candidate, int32_t block, int32_t fill) {
    const int32_t n = std::min(common(block, rest), fill);
    if (n > match.partial_tokens) {
      match.partial_run = candidate;
      match.partial_block = block;
      match.partial_tokens = n;
    }
    return n;
  };
  if (match.offset < r.length) {
    consider(run, links_[at(match.last)].next, config_.tokens_per_block);
    return;
  }
  if (!config_.ordered) {
    for (int32_t c = r.first_child; c != kNone; c = runs_[at(c)].next_sibling) {
      consider(c, runs_[at(c)].first, runs_[at(c)].fill);
    }
    return;
  }
  for (int32_t x = r.ordered_root; x != kNone;) {
    const Run &c = runs_[at(x)];
    const int32_t n = consider(x, c.first, c.fill);
    if (static_cast<size_t>(n) == rest.size()) return;
    x = n == c.fill || tokens(c.first)[n] < rest[at(n)] ? c.right : c.left;
  }
}

int32_t PrefixTree::covered(int32_t run, std::span<const int32_t> tokens) const noexcept {
  const Run &r = runs_[at(run)];
  for (int32_t x = r.ordered_root; x != kNone;) {
    const Run &c = runs_[at(x)];
    const int32_t n = std::min(common(c.first, tokens), c.fill);
    if (n == c.fill && c.fill < config_.tokens_per_block && c.references == 0) return x;
    if (static_cast<size_t>(n) == tokens.size()) {
      x = c.left;
    } else {
      x = n == c.fill || this->tokens(c.first)[n] < tokens[at(n)] ? c.right : c.left;
    }
  }
  return kNone;
}

// ------------------------------------------------------------------------------ the shape of the tree

int32_t PrefixTree::new_run(int32_t parent) noexcept {
  int32_t i;
  free_runs_.take(&i, 1);
  ++used_runs_;
  Run &run = runs_[at(i)];
  run = {};
  run.parent = parent;
  run.first_child = run.next_sibling = run.prev_sibling = kNone;
  run.left = run.right = run.ordered_root = kNone;
  run.first = run.last = kNone;
  run.older = run.newer = kNone;
  run.fill = config_.tokens_per_block;
  run.expires = kNever;
  run.expiry = kNone;
  dice_ = dice_ * 1664525 + 1013904223;
  run.heap = dice_;
  return i;
}

int32_t PrefixTree::new_block(std::span<const int32_t> tokens, int32_t previous) noexcept {
  int32_t block;
  free_blocks_.take(&block, 1);
  std::memcpy(tokens_.data() + at(block) * tpb(), tokens.data(), tokens.size_bytes());
  links_[at(block)].previous = previous;
  return block;
}

void PrefixTree::link(int32_t run, int32_t parent) noexcept {
  Run &r = runs_[at(run)];
  Run &p = runs_[at(parent)];
  r.parent = parent;
  r.prev_sibling = kNone;
  r.next_sibling = p.first_child;
  if (p.first_child != kNone) runs_[at(p.first_child)].prev_sibling = run;
  p.first_child = run;
  if (++p.children == 2) index(r.next_sibling);
  if (p.children >= 2) index(run);
  p.dependents += r.level == p.level;
  if (config_.ordered) {
    r.left = r.right = kNone;
    p.ordered_root = ordered_insert(p.ordered_root, run);
  }
}

void PrefixTree::unlink(int32_t run) noexcept {
  Run &r = runs_[at(run)];
  Run &p = runs_[at(r.parent)];
  unindex(run);
  if (config_.ordered) p.ordered_root = ordered_remove(p.ordered_root, run);
  if (r.prev_sibling != kNone) runs_[at(r.prev_sibling)].next_sibling = r.next_sibling;
  if (r.next_sibling != kNone) runs_[at(r.next_sibling)].prev_sibling = r.prev_sibling;
  if (p.first_child == run) p.first_child = r.next_sibling;
  if (--p.children == 1) unindex(p.first_child);
  if (r.level == p.level && --p.dependents == 0) became_leaf(r.parent);
  r.parent = kNone;
  r.next_sibling = r.prev_sibling = kNone;
}

// new_run, which begins with the same block, stands where old_run stood.
void PrefixTree::replace(int32_t old_run, int32_t new_run) noexcept {
  Run &o = runs_[at(old_run)];
  Run &n = runs_[at(new_run)];
  Run &p = runs_[at(o.parent)];
  n.parent = o.parent;
  n.prev_sibling = o.prev_sibling;
  n.next_sibling = o.next_sibling;
  if (n.prev_sibling != kNone) runs_[at(n.prev_sibling)].next_sibling = new_run;
  if (n.next_sibling != kNone) runs_[at(n.next_sibling)].prev_sibling = new_run;
  if (p.first_child == old_run) p.first_child = new_run;
  reindex(old_run, new_run);
  if (config_.ordered) {
    p.ordered_root = ordered_remove(p.ordered_root, old_run);
    n.left = n.right = kNone;
    p.ordered_root = ordered_insert(p.ordered_root, new_run);
  }
}

// The first offset blocks become a run of their own, above the run, which keeps its number and its children.
int32_t PrefixTree::split(int32_t run, int32_t offset) noexcept {
  const int32_t head = new_run(kNone);
  Run &h = runs_[at(head)];
  Run &t = runs_[at(run)];
  int32_t last;
  if (offset <= t.length / 2) {
    last = t.first;
    for (int32_t i = 1; i < offset; ++i) last = links_[at(last)].next;
  } else {
    last = t.last;
    for (int32_t i = t.length; i > offset; --i) last = links_[at(last)].previous;
  }
  h.first = t.first;
  h.last = last;
  h.length = offset;
  h.level = t.level;
  h.tenant = t.tenant;
  h.priority = t.priority;
  h.rank = t.rank;
  h.references = t.references;
  h.stamp = t.stamp;
  h.epoch = t.epoch;
  h.orphan = t.orphan;
  replace(run, head);
  t.first = links_[at(last)].next;
  t.length -= offset;
  links_[at(last)].next = -2 - head;
  // The tail is the head's only child: it needs no hash.
  t.next_sibling = t.prev_sibling = kNone;
  t.left = t.right = kNone;
  t.parent = head;
  t.indexed = false;
  h.first_child = run;
  h.children = 1;
  h.dependents = 1;
  if (config_.ordered) h.ordered_root = run;
  if (t.expires != kNever) set_expiry(head, t.expires);
  if (t.listed) {
    list_after(head, run);
    h.listed = true;
  }
  return head;
}

int32_t PrefixTree::append(int32_t tip, std::span<const int32_t> tokens, int32_t n, const Retention &retention,
                           int32_t *ids) noexcept {
  if (free_blocks_.free() < n) return kNone;
  const Run &t = runs_[at(tip)];
  const bool extend = t.length != 0 && t.children == 0 && t.references == 1 && t.level == 0 &&
                      t.fill == config_.tokens_per_block && t.priority == retention.priority &&
                      t.tenant == retention.tenant && t.expires == retention.expires;
  int32_t run = tip;
  int32_t previous = t.length == 0 ? kNone : t.last;
  free_blocks_.take(ids, n);
  for (int32_t i = 0; i < n; ++i) {
    const int32_t block = ids[i];
    std::memcpy(tokens_.data() + at(block) * tpb(), tokens.data() + at(i) * tpb(), tpb() * sizeof(int32_t));
    links_[at(block)] = {previous, i + 1 < n ? ids[i + 1] : 0};
    previous = block;
  }
  if (extend) {
    links_[at(runs_[at(run)].last)].next = ids[0];
  } else {
    run = new_run(kNone);
    Run &r = runs_[at(run)];
    r.first = ids[0];
    r.priority = r.rank = static_cast<uint8_t>(retention.priority);
    r.tenant = static_cast<uint8_t>(retention.tenant);
    r.references = 1;
    link(run, tip);
    if (retention.expires != kNever) set_expiry(run, retention.expires);
  }
  Run &r = runs_[at(run)];
  r.last = ids[n - 1];
  links_[at(r.last)].next = -2 - run;
  r.length += n;
  tenant_blocks_[r.tenant] += n;
  return run;
}

int32_t PrefixTree::append_partial(int32_t tip, std::span<const int32_t> tokens, const Retention &retention,
                                   int32_t *id) noexcept {
  if (free_blocks_.free() == 0) return kNone;
  const int32_t run = new_run(kNone);
  Run &r = runs_[at(run)];
  const Run &t = runs_[at(tip)];
  *id = new_block(tokens, t.length == 0 ? kNone : t.last);
  links_[at(*id)].next = -2 - run;
  r.first = r.last = *id;
  r.length = 1;
  r.fill = static_cast<int32_t>(tokens.size());
  r.priority = r.rank = static_cast<uint8_t>(retention.priority);
  r.tenant = static_cast<uint8_t>(retention.tenant);
  r.references = 1;
  link(run, tip);
  if (retention.expires != kNever) set_expiry(run, retention.expires);
  ++tenant_blocks_[r.tenant];
  return run;
}

void PrefixTree::set_level(int32_t run, int32_t level) noexcept {
  Run &r = runs_[at(run)];
  if (r.level == level) return;
  const bool listed = r.listed;
  if (listed) unlist(run);
  if (r.parent != kNone) {
    Run &p = runs_[at(r.parent)];
    const int32_t before = p.dependents;
    p.dependents += (level == p.level) - (r.level == p.level);
    if (before != 0 && p.dependents == 0) became_leaf(r.parent);
  }
  r.level = static_cast<uint8_t>(level);
  r.dependents = 0;
  for (int32_t c = r.first_child; c != kNone; c = runs_[at(c)].next_sibling)
    r.dependents += runs_[at(c)].level == level;
  if (listed) list(run);
}

void PrefixTree::set_retention(int32_t run, const Retention &retention) noexcept {
  Run &r = runs_[at(run)];
  const bool listed = r.listed;
  if (listed) unlist(run);
  tenant_blocks_[r.tenant] -= r.length;
  r.tenant = static_cast<uint8_t>(retention.tenant);
  tenant_blocks_[r.tenant] += r.length;
  r.priority = static_cast<uint8_t>(retention.priority);
  r.rank = std::max(r.priority, r.dependents == 0 ? uint8_t{0} : r.rank);
  set_expiry(run, retention.expires);
  if (listed) list(run);
}

// ------------------------------------------------------------------------------ references

int32_t PrefixTree::cut(const Match &match) noexcept {
  return match.offset < runs_[at(match.run)].length ? split(match.run, match.offset) : match.run;
}

int32_t PrefixTree::pin(const Match &match) noexcept {
  const int32_t run = cut(match);
  pin(run);
  return run;
}

void PrefixTree::pin(int32_t run) noexcept {
  for (; run != kNone; run = runs_[at(run)].parent) {
    Run &r = runs_[at(run)];
    if (r.references++ == 0 && r.listed) unlist(run);
  }
}

void PrefixTree::descend(int32_t from, int32_t to) noexcept {
  for (; to != from; to = runs_[at(to)].parent) {
    Run &r = runs_[at(to)];
    if (r.references++ == 0 && r.listed) unlist(to);
  }
}

// One reference less; true if it was the last.
bool PrefixTree::release(int32_t run, uint64_t epoch) noexcept {
  Run &r = runs_[at(run)];
  r.epoch = std::max(r.epoch, epoch);
  if (--r.references != 0) {
    return false;
  }
  if (r.length != 0 && !r.orphan) list(run);
  return true;
}

// The path to a run loses the references of what was below it.
void PrefixTree::unreference(int32_t run, int32_t references) noexcept {
  while (run != kNone) {
    Run &r = runs_[at(run)];
    const int32_t parent = r.parent;
    r.references -= references;
    if (r.references == 0 && r.length != 0 && references != 0) list(run);
    if (parent == kNone) forget_root(run);
    run = parent;
  }
}

// ------------------------------------------------------------------------------ eviction lists

PrefixTree::List &PrefixTree::list_of(const Run &r) noexcept {
  return lists_[(at(r.level) * at(config_.tenants) + r.tenant) * at(kRanks) + r.rank];
}

void PrefixTree::count(const Run &r, int32_t blocks) noexcept { listed_blocks_[r.level] += blocks; }

// To the young end; what it builds on ranks at least as high, and is younger.
void PrefixTree::list(int32_t run) noexcept {
  while (true) {
    Run &r = runs_[at(run)];
    r.rank = std::max(r.priority, r.dependents == 0 ? uint8_t{0} : r.rank);
    r.stamp = ++stamp_;
    List &l = list_of(r);
    r.newer = kNone;
    r.older = l.newest - 1;
    if (r.older != kNone) runs_[at(r.older)].newer = run;
    l.newest = run + 1;
    if (l.oldest == 0) l.oldest = run + 1;
    ranks_[at(r.level) * at(config_.tenants) + r.tenant][r.rank / 64] |= uint64_t{1} << (r.rank % 64);
    r.listed = true;
    count(r, r.length);
    if (r.parent == kNone) return;
    Run &p = runs_[at(r.parent)];
    if (p.level != r.level || p.rank >= r.rank) return;
    const bool listed = p.listed;
    if (listed) unlist(r.parent);
    p.rank = r.rank;
    if (!listed) return;
    run = r.parent;
  }
}

// To the old end: it was only kept for what is gone now.
void PrefixTree::list_front(int32_t run) noexcept {
  Run &r = runs_[at(run)];
  List &l = list_of(r);
  r.older = kNone;
  r.newer = l.oldest - 1;
  if (r.newer != kNone) {
    runs_[at(r.newer)].older = run;
    r.stamp = std::min(r.stamp, runs_[at(r.newer)].stamp);
  }
  l.oldest = run + 1;
  if (l.newest == 0) l.newest = run + 1;
  ranks_[at(r.level) * at(config_.tenants) + r.tenant][r.rank / 64] |= uint64_t{1} << (r.rank % 64);
  r.listed = true;
  count(r, r.length);
}

// Just younger than other, whose list it is. other's blocks were counted when they were all its own.
void PrefixTree::list_after(int32_t run, int32_t other) noexcept {
  Run &r = runs_[at(run)];
  Run &o = runs_[at(other)];
  r.older = other;
  r.newer = o.newer;
  o.newer = run;
  if (r.newer != kNone) {
    runs_[at(r.newer)].older = run;
  } else {
    list_of(r).newest = run + 1;
  }
}

void PrefixTree::unlist(int32_t run) noexcept {
  Run &r = runs_[at(run)];
  List &l = list_of(r);
  if (r.older != kNone) {
    runs_[at(r.older)].newer = r.newer;
  } else {
    l.oldest = r.newer + 1;
  }
  if (r.newer != kNone) {
    runs_[at(r.newer)].older = r.older;
  } else {
    l.newest = r.older + 1;
  }
  if (l.oldest == 0) {
    ranks_[at(r.level) * at(config_.tenants) + r.tenant][r.rank / 64] &= ~(uint64_t{1} << (r.rank % 64));
  }
  r.older = r.newer = kNone;
  r.listed = false;
  count(r, -r.length);
}

// Nothing on its level builds on the run any more: it stands for itself.
void PrefixTree::became_leaf(int32_t run) noexcept {
  Run &r = runs_[at(run)];
  if (r.rank == r.priority) return;
  if (r.listed) {
    unlist(run);
    r.rank = r.priority;
    list_front(run);
  } else {
    r.rank = r.priority;
  }
}

PrefixTree::Victim PrefixTree::victim(int32_t level, std::span<const int64_t> quotas) const noexcept {
  Victim best;
  bool best_over = false;
  for (int32_t tenant = 0; tenant < config_.tenants; ++tenant) {
    const size_t row = at(level) * at(config_.tenants) + at(tenant);
    const auto &bits = ranks_[row];
    if ((bits[0] | bits[1]) == 0) continue;
    const int32_t rank = bits[0] != 0 ? std::countr_zero(bits[0]) : 64 + std::countr_zero(bits[1]);
    const int32_t run = lists_[row * at(kRanks) + at(rank)].oldest - 1;
    const uint64_t stamp = runs_[at(run)].stamp;
    const bool over = !quotas.empty() && quotas[at(tenant)] > 0 && tenant_blocks_[at(tenant)] > quotas[at(tenant)];
    const bool better = best.run == kNone || (over && !best_over) ||
                        (over == best_over && (rank < best.rank || (rank == best.rank && stamp < best.stamp)));
    if (better) {
      best = {run, rank, stamp};
      best_over = over;
    }
  }
  // What builds on it goes first.
  while (best.run != kNone && runs_[at(best.run)].dependents != 0) {
    int32_t c = runs_[at(best.run)].first_child;
    while (runs_[at(c)].level != level) c = runs_[at(c)].next_sibling;
    best.run = c;
  }
  return best;
}

void PrefixTree::drop_last(int32_t run) noexcept {
  Run &r = runs_[at(run)];
  const int32_t block = r.last;
  if (r.listed) count(r, -1);
  --tenant_blocks_[r.tenant];
  --r.length;
  if (r.length != 0) {
    r.last = links_[at(block)].previous;
    links_[at(r.last)].next = -2 - run;
  }
  free_blocks_.put(block, 0);
}

void PrefixTree::discard(int32_t run) noexcept {
  Run &r = runs_[at(run)];
  if (r.listed) unlist(run);
  const int32_t parent = r.parent;
  const bool was_root = parent == kNone;
  set_expiry(run, kNever);
  if (!was_root) unlink(run);
  --used_runs_;
  free_runs_.put(run, 0);
  if (!was_root && is_root(parent)) forget_root(parent);
}

int32_t PrefixTree::sink_last(int32_t run, int32_t level) noexcept {
  Run &r = runs_[at(run)];
  if (r.children == 1 && r.length > 1) {
    Run &c = runs_[at(r.first_child)];
    if (c.level == level && c.fill == config_.tokens_per_block && c.references == 0 && c.tenant == r.tenant &&
        c.priority == r.priority && c.expires == r.expires) {
      const int32_t block = r.last;
      if (r.listed) count(r, -1);
      if (c.listed) count(c, 1);
      if (config_.ordered) r.ordered_root = kNone;
      r.last = links_[at(block)].previous;
      links_[at(r.last)].next = -2 - run;
      --r.length;
      links_[at(block)].next = c.first;
      c.first = block;
      ++c.length;
      c.epoch = std::max(c.epoch, r.epoch);
      if (config_.ordered) r.ordered_root = r.first_child;
      return r.first_child;
    }
  }
  if (r.length > 1) split(run, r.length - 1);
  set_level(run, level);
  return run;
}

// ------------------------------------------------------------------------------ time

bool PrefixTree::earlier(int32_t a, int32_t b) const noexcept {
  const Run &x = runs_[at(a)];
  const Run &y = runs_[at(b)];
  return x.expires != y.expires ? x.expires < y.expires : a < b;
}

void PrefixTree::heap_place(int32_t i, int32_t run) noexcept {
  heap_[at(i)] = run;
  runs_[at(run)].expiry = i;
}

void PrefixTree::heap_up(int32_t i) noexcept {
  const int32_t run = heap_[at(i)];
  while (i != 0 && earlier(run, heap_[at((i - 1) / 2)])) {
    heap_place(i, heap_[at((i - 1) / 2)]);
    i = (i - 1) / 2;
  }
  heap_place(i, run);
}

void PrefixTree::heap_down(int32_t i) noexcept {
  const int32_t run = heap_[at(i)];
  const int32_t n = static_cast<int32_t>(heap_.size());
  while (2 * i + 1 < n) {
    int32_t c = 2 * i + 1;
    if (c + 1 < n && earlier(heap_[at(c + 1)], heap_[at(c)])) ++c;
    if (!earlier(heap_[at(c)], run)) break;
    heap_place(i, heap_[at(c)]);
    i = c;
  }
  heap_place(i, run);
}

void PrefixTree::set_expiry(int32_t run, int64_t when) noexcept {
  Run &r = runs_[at(run)];
  if (r.expires == when && (r.expiry != kNone) == (when != kNever)) return;
  if (r.expiry != kNone) {
    const int32_t i = r.expiry;
    r.expiry = kNone;
    const int32_t moved = heap_.back();
    heap_.pop_back();
    if (moved != run) {
      heap_place(i, moved);
      heap_up(i);
      heap_down(runs_[at(moved)].expiry);
    }
  }
  r.expires = when;
  if (when == kNever) return;
  heap_.push_back(run);
  heap_up(static_cast<int32_t>(heap_.size()) - 1);
}

void PrefixTree::fall(int32_t run, int32_t default_priority) noexcept {
  Run &r = runs_[at(run)];
  const bool listed = r.listed;
  if (listed) unlist(run);
  r.priority = static_cast<uint8_t>(default_priority);
  if (r.dependents == 0 || r.rank < r.priority) r.rank = r.priority;
  if (listed) list(run);
}

// ------------------------------------------------------------------------------ self-examination

int32_t PrefixTree::broken() const {
  std::array<int64_t, kLevels> listed{};
  std::vector<int64_t> tenants(tenant_blocks_.size());
  int64_t runs = 0;
  int64_t blocks = 0;
  for (int32_t root = first_root_; root != kNone; root = runs_[at(root)].next_sibling) {
    std::vector<int32_t> todo = {root};
    while (!todo.empty()) {
      const int32_t run = todo.back();
      todo.pop_back();
      const Run &r = runs_[at(run)];
      ++runs;
      blocks += r.length;
      if ((run == root) != (r.length == 0)) return 101;
      if (r.orphan) return 102;
      int32_t length = 0;
      int32_t previous = run == root ? kNone : runs_[at(r.parent)].length == 0 ? kNone : runs_[at(r.parent)].last;
      for (int32_t b = run == root ? kNone : r.first; b != kNone; b = next(b)) {
        if (links_[at(b)].previous != previous) return 103;
        previous = b;
        ++length;
        if (length > r.length) return 104;
      }
      if (length != r.length || (run != root && (previous != r.last || ended_by(r.last) != run))) return 105;
      int32_t children = 0;
      int32_t dependents = 0;
      int64_t references = 0;
      int32_t before = kNone;
      for (int32_t c = r.first_child; c != kNone; c = runs_[at(c)].next_sibling) {
        const Run &x = runs_[at(c)];
        if (x.parent != run || x.prev_sibling != before || x.level < r.level) return 106;
        before = c;
        ++children;
        dependents += x.level == r.level;
        references += x.references;
        todo.push_back(c);
      }
      if (children != r.children || dependents != r.dependents || references > r.references) return 107;
      for (int32_t c = r.first_child; c != kNone; c = runs_[at(c)].next_sibling) {
        const Run &x = runs_[at(c)];
        const bool full = x.fill == config_.tokens_per_block;
        if (x.indexed != (full && children >= 2)) return 108;
        if (full && child(run, tokens(x.first)) != c) return 109;
        if (!full && (x.length != 1 || x.children != 0)) return 110;
      }
      if (run != root && r.listed != (r.references == 0)) return 111;
      if (r.listed) listed[r.level] += r.length;
      if (run != root) tenants[r.tenant] += r.length;
      if (config_.ordered) {
        // In order, and all of them.
        int32_t seen = 0;
        int32_t last = kNone;
        std::vector<int32_t> stack;
        int32_t x = r.ordered_root;
        while (x != kNone || !stack.empty()) {
          while (x != kNone) {
            stack.push_back(x);
            x = runs_[at(x)].left;
            if (stack.size() > at(children)) return 112;
          }
          x = stack.back();
          stack.pop_back();
          if (last != kNone && order(last, x) >= 0) return 113;
          last = x;
          ++seen;
          x = runs_[at(x)].right;
        }
        if (seen != children) return 114;
      }
    }
  }
  for (size_t i = 0; i < heap_.size(); ++i) {
    if (runs_[at(heap_[i])].expiry != static_cast<int32_t>(i)) return 115;
    if (i != 0 && earlier(heap_[i], heap_[(i - 1) / 2])) return 116;
  }
  int64_t in_lists = 0;
  for (size_t l = 0; l < lists_.size(); ++l) {
    int32_t older = kNone;
    for (int32_t run = lists_[l].oldest - 1; run != kNone; run = runs_[at(run)].newer) {
      const Run &r = runs_[at(run)];
      if (!r.listed || r.older != older || &lists_[l] != &const_cast<PrefixTree *>(this)->list_of(r)) return 117;
      older = run;
      in_lists += r.length;
    }
    if (lists_[l].newest - 1 != older) return 118;
  }
  if (listed != listed_blocks_ || in_lists != listed[0] + listed[1] + listed[2]) return 119;
  if (runs > used_runs_) return 120;
  // With orphans about there is more than what the roots lead to.
  const bool all = runs == used_runs_;
  return all && (tenants != tenant_blocks_ || blocks != config_.blocks - free_blocks_.free()) ? 121 : 0;
}

}  // namespace berth
