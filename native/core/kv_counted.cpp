// SPDX-License-Identifier: Apache-2.0
// Pages that are counted and have no numbers (berth_kv_pages_kind): what remains of a cache where nobody has tokens or
// memory, for rehearsals of a fleet.
#include <algorithm>

#include "core/kv_cache.hpp"

namespace berth {

int64_t KvCache::present(int32_t l, int64_t blocks, int64_t history) const noexcept {
  const LifeCycle::Range stale = life(l).stale(history, config_.tokens_per_block);
  return blocks - std::max<int64_t>(0, std::min(stale.second, blocks) - stale.first);
}

Status KvCache::open_counted(berth_kv_op &op) noexcept {
  op.handle = 0;
  Sequence *s = new_sequence(op.handle);
  if (s == nullptr) return Status::kExhausted;
  s->commit = Commit::kVirtualStop;
  return Status::kOk;
}

Status KvCache::resize_counted(Sequence &s, int64_t capacity, int64_t history, berth_kv_op *op) noexcept {
  const int32_t tpb = config_.tokens_per_block;
  if (history < s.history || capacity < history || capacity > int64_t{config_.max_blocks} * tpb ||
      capacity > INT32_MAX) {
    return Status::kArgument;
  }
  if (!s.active) return Status::kState;
  const int64_t blocks = (capacity + tpb - 1) / tpb;
  Needs needs{};
  for (int32_t l = 0; l < life_cycles(); ++l) {
    needs[at(group_of(l))] += present(l, blocks, history) - present(l, s.blocks, s.history);
  }
  if (!ensure(0, needs, {}, op)) return Status::kExhausted;
  for (int32_t g = 0; g < layout_.groups(); ++g) {
    slots_[at(g)].count(needs[at(g)]);
    held_[at(g)] += needs[at(g)];
  }
  s.blocks = static_cast<int32_t>(blocks);
  s.capacity = static_cast<int32_t>(capacity);
  s.history = static_cast<int32_t>(history);
  return Status::kOk;
}

void KvCache::close_counted(Sequence &s) noexcept {
  for (int32_t l = 0; l < life_cycles(); ++l) {
    const int64_t pages = present(l, s.blocks, s.history);
    slots_[at(group_of(l))].count(-pages);
    held_[at(group_of(l))] -= pages;
  }
  release(s);
}

int32_t KvCache::check_counted() const {
  std::vector<int64_t> held(at(layout_.groups()));
  int32_t open = 0;
  for (int32_t i = 0; i < issued_sequences_; ++i) {
    const Sequence &s = sequences_[at(i)];
    if (s.generation % 2 == 0) continue;
    ++open;
    if (s.history > s.capacity) return 2;
    if (s.blocks != (int64_t{s.capacity} + config_.tokens_per_block - 1) / config_.tokens_per_block) return 3;
    if (s.active != (s.row != kNone)) return 4;
    for (int32_t l = 0; l < life_cycles(); ++l) held[at(group_of(l))] += present(l, s.blocks, s.history);
  }
  if (open != open_) return 1;
  for (int32_t g = 0; g < layout_.groups(); ++g) {
    if (held[at(g)] != held_[at(g)] || slots_[at(g)].free() + held[at(g)] != slots_[at(g)].capacity()) return 15;
  }
  return 0;
}

}  // namespace berth
