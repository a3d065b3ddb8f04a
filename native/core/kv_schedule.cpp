// SPDX-License-Identifier: Apache-2.0
// What a scheduler of the same process asks of a cache: how much room there is, what a sequence would take of it.
#include <algorithm>

#include "core/kv_cache.hpp"

namespace berth {
namespace {

int64_t ceil_div(int64_t a, int64_t b) noexcept { return (a + b - 1) / b; }

// Blocks that reach from the last token of a step back over the window, wherever they begin, and the sinks.
int64_t most_of(const LifeCycle &life, int64_t tokens, int64_t step, int64_t tpb) noexcept {
  if (life.state()) return 1;
  const int64_t all = ceil_div(tokens, tpb);
  if (life.full()) return all;
  return std::min(all, ceil_div(life.sinks, tpb) + (life.window - 1 + step) / tpb + 2);
}

}  // namespace

int64_t KvCache::most(int32_t group, int64_t tokens, int64_t step) const noexcept {
  int64_t pages = 0;
  for (int32_t l = 0; l < life_cycles(); ++l) {
    if (group_of(l) == group) pages += most_of(life(l), tokens, step, config_.tokens_per_block);
  }
  return pages;
}

// Of a window only what nobody else can have counts as there: a page of the index may be somebody else's tomorrow, when
// this sequence lets it go and takes another one.
int64_t KvCache::lacks(uint64_t handle, int32_t group, int64_t tokens, int64_t step) const noexcept {
  Status status;
  const Sequence *s = const_cast<KvCache *>(this)->find(handle, status);
  if (s == nullptr) return 0;
  int64_t pages = 0;
  for (int32_t l = 0; l < life_cycles(); ++l) {
    if (group_of(l) != group) continue;
    const int64_t most = most_of(life(l), tokens, step, config_.tokens_per_block);
    int64_t has = s->blocks;
    if (life(l).state()) {
      has = states_[at(number(*s)) * at(state_count_) + at(state_of_[at(l)])] != kNone;
    } else if (!life(l).full()) {
      has = present(l, s->blocks, s->history) - present(l, s->in_index, s->history);
    }
    pages += std::max<int64_t>(0, most - has);
  }
  return pages;
}

// Blocks of a match on the device that somebody refers to.
int32_t KvCache::in_use(const PrefixTree::Match &match) const noexcept {
  int32_t blocks = 0;
  int32_t length = match.offset;
  for (int32_t run = match.run; run != kNone; run = tree_->run(run).parent) {
    const PrefixTree::Run &r = tree_->run(run);
    if (r.references != 0 && r.level == 0) blocks += run == match.run ? length : r.length;
  }
  return blocks;
}

KvCache::Outlook KvCache::look(const Start &x, int64_t end, int64_t step) noexcept {
  Outlook out;
  const int32_t root = tree_ && x.reuse && !x.prompt.empty() ? tree_->root(x.scope) : kNone;
  Found found{};
  if (root != kNone) found = search(root, x.prompt);
  const PrefixTree::Match &match = found.match;
  out.matched = found.tokens;
  const int64_t blocks = ceil_div(std::max<int64_t>(x.capacity, found.tokens), config_.tokens_per_block);
  const int32_t used = root == kNone ? 0 : in_use(match);
  if (tree_ && x.reuse && !x.prompt.empty()) {
    // The last token is computed in any case, so that its block is of no use.
    const size_t next = at(match.blocks) * at(config_.tokens_per_block);
    if (next + at(config_.tokens_per_block) < x.prompt.size()) {
      out.next_key =
          key_of(x.scope, match.blocks == 0 ? kNone : match.last, x.prompt.subspan(next, at(config_.tokens_per_block)));
    }
  }
  for (int32_t l = 0; l < life_cycles(); ++l) {
    const size_t g = at(group_of(l));
    if (life(l).state()) {
      // What is copied stays until it was.
      out.need[g] += 1 + (match.blocks != 0 && special(l, match.last).holds == 0);
      continue;
    }
    const int64_t most = most_of(life(l), end, step, config_.tokens_per_block);
    if (life(l).full()) {
      out.need[g] += blocks - used;
      out.later[g] += std::max<int64_t>(0, most - blocks);
    } else {
      const LifeCycle::Range stale = life(l).stale(found.tokens, config_.tokens_per_block);
      int64_t others = 0;
      for (int64_t b = 0; b < match.blocks; ++b) {
        if (b == stale.first) b = std::max(b, stale.second);
        if (b < match.blocks) others += special(l, tree_->path()[b]).holds != 0;
      }
      const int64_t has = present(l, blocks, found.tokens);
      out.need[g] += has - others;
      out.later[g] += std::max<int64_t>(0, most - (has - present(l, match.blocks, found.tokens)));
    }
    if (found.match.partial_tokens != 0 && loc(match.partial_block, l) != kNone) {
      out.need[g] +=
          life(l).full() ? tree_->run(match.partial_run).references == 0 : special(l, match.partial_block).holds == 0;
    }
  }
  return out;
}

Status KvCache::start(const Start &x, uint64_t &handle, int32_t &matched) noexcept {
  berth_kv_op op{};
  op.lora = x.scope.lora;
  op.salt = x.scope.salt;
  op.flags = static_cast<int32_t>(x.scope.present) * BERTH_KV_LORA;
  if (!x.reuse || x.prompt.empty()) op.flags |= BERTH_KV_NO_REUSE;
  if (x.prompt.empty()) op.flags |= BERTH_KV_NO_COMMIT;
  op.tenant = x.tenant;
  op.a = x.row;
  Status status = counted() ? open_counted(op) : open(op, x.prompt);
  if (status != Status::kOk) return status;
  Sequence &s = *find(op.handle, status);
  status = resume(s, op);
  if (status == Status::kOk) status = resize(s, std::max<int64_t>(x.capacity, s.capacity), s.history, &op);
  if (status != Status::kOk) {
    close(s);
    return status;
  }
  handle = op.handle;
  matched = op.matched;
  return Status::kOk;
}

Status KvCache::resize(uint64_t handle, int64_t capacity, int64_t history) noexcept {
  Status status;
  Sequence *s = find(handle, status);
  if (s == nullptr) return status;
  // Without windows nothing else happens where only the history moves on.
  const bool moves = capacity == -1 && full_count_ == life_cycles() && s->active && s->scratch == 0 && !counted();
  if (moves && history >= s->history && history <= s->capacity) {
    s->history = static_cast<int32_t>(history);
    return Status::kOk;
  }
  return resize(*s, capacity == -1 ? s->capacity : capacity, history == -1 ? s->history : history, nullptr);
}

Status KvCache::commit(uint64_t handle, std::span<const int32_t> tokens) noexcept {
  Status status;
  Sequence *s = find(handle, status);
  return s == nullptr ? status : commit(*s, tokens, false);
}

int32_t KvCache::committed(uint64_t handle) const noexcept {
  Status status;
  const Sequence *s = const_cast<KvCache *>(this)->find(handle, status);
  return s == nullptr ? 0 : s->committed;
}

// Of a block's tokens after a block of the index, or at the beginning of a scope.
uint64_t KvCache::key_of(const KvScope &scope, int32_t last, std::span<const int32_t> block) const noexcept {
  uint64_t h = config_.hash_key[0];
  const auto mix = [&h](uint64_t value) {
    h = (h ^ value) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  };
  if (last == kNone) {
    mix(scope.lora);
    mix(scope.salt ^ config_.hash_key[1]);
    mix(scope.present);
  } else {
    mix(uids_[at(last)]);
  }
  for (const int32_t token : block) mix(static_cast<uint32_t>(token));
  return h == 0 ? 1 : h;
}

uint64_t KvCache::next_key(uint64_t handle, std::span<const int32_t> tokens) const noexcept {
  Status status;
  const Sequence *s = const_cast<KvCache *>(this)->find(handle, status);
  if (s == nullptr || s->commit != Commit::kAllowed) return 0;
  const size_t next = at(s->in_index) * at(config_.tokens_per_block);
  if (next + at(config_.tokens_per_block) > tokens.size()) return 0;
  return key_of(cold(*s).scope, s->in_index == 0 ? kNone : tree_->run(s->tip).last,
                tokens.subspan(next, at(config_.tokens_per_block)));
}

int64_t KvCache::held(uint64_t handle, int32_t group) const noexcept {
  Status status;
  const Sequence *s = const_cast<KvCache *>(this)->find(handle, status);
  int64_t pages = 0;
  for (int32_t l = 0; s != nullptr && l < life_cycles(); ++l) {
    if (group_of(l) == group) pages += life(l).state() ? 1 : present(l, s->blocks, s->history);
  }
  return pages;
}

Status KvCache::stop(uint64_t handle) noexcept {
  Status status;
  Sequence *s = find(handle, status);
  if (s == nullptr) return status;
  if (s->beams != 1 || counted()) return Status::kState;
  stop(*s, false);
  return Status::kOk;
}

Status KvCache::close(uint64_t handle) noexcept {
  Status status;
  Sequence *s = find(handle, status);
  if (s != nullptr) close(*s);
  return status;
}

}  // namespace berth
