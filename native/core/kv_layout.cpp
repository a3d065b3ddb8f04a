// SPDX-License-Identifier: Apache-2.0
#include "core/kv_layout.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace berth {
namespace {

constexpr int64_t kMaxIndex = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxBytes = int64_t{1} << 40;

// Buffers of one life cycle and one expanded size.
struct Coalesced {
  int32_t life_cycle;
  int64_t expanded;  // bytes of one buffer, for a whole block
  std::vector<int32_t> members;
  int64_t total() const noexcept { return expanded * static_cast<int64_t>(members.size()); }
};

bool possible(const berth_kv_buffer &b, int32_t tokens_per_block) {
  if (b.layer < 0 || b.layer >= KvLayout::kMaxBuffers || b.role < 0 || b.role >= 2 * KvLayout::kScaleRole) return false;
  if (b.bytes < 1 || b.bytes > kMaxBytes || b.window < LifeCycle::kFull || b.sinks < 0 || b.domain < 0) return false;
  if (b.sinks > 0 && b.window < 1) return false;
  if (b.tokens == 0) return true;
  return b.tokens > 0 && b.tokens <= tokens_per_block && tokens_per_block % b.tokens == 0 &&
         b.bytes * (tokens_per_block / b.tokens) <= kMaxBytes;
}

}  // namespace

LifeCycle::Range LifeCycle::stale(int64_t history, int32_t tokens_per_block) const noexcept {
  const int64_t tpb = tokens_per_block;
  if (full()) return {0, 0};
  if (state()) return {0, history / tpb};
  const int64_t first = std::min((history + tpb - 1) / tpb, (sinks + tpb - 1) / tpb);
  const int64_t passed = std::max<int64_t>(0, history + 1 - window) / tpb;
  return {first, std::max(first, passed)};
}

Status KvLayout::plan(std::span<const berth_kv_buffer> buffers, int32_t tokens_per_block, KvLayout &out, int32_t &bad) {
  bad = -1;
  if (buffers.empty() || buffers.size() > kMaxBuffers || tokens_per_block < 1 ||
      tokens_per_block > kMaxTokensPerBlock) {
    return Status::kArgument;
  }
  KvLayout layout;
  layout.tokens_per_block_ = tokens_per_block;
  layout.places_.resize(buffers.size());
  std::vector<Coalesced> coalesced;
  std::vector<int64_t> seen;  // layer, role, domain: each once
  for (size_t i = 0; i < buffers.size(); ++i) {
    const berth_kv_buffer &b = buffers[i];
    bad = static_cast<int32_t>(i);
    if (!possible(b, tokens_per_block)) return Status::kArgument;
    seen.push_back((int64_t{b.domain} << 32) | (int64_t{b.layer} << 8) | b.role);
    auto life = std::find_if(layout.life_cycles_.begin(), layout.life_cycles_.end(), [&](const LifeCycle &l) {
      return l.window == b.window && l.sinks == b.sinks && l.domain == b.domain;
    });
    if (life == layout.life_cycles_.end()) {
      if (layout.life_cycles_.size() == kMaxLifeCycles) return Status::kArgument;
      life = layout.life_cycles_.insert(life, {b.window, b.sinks, b.domain, -1});
    }
    const int32_t expansion = b.tokens == 0 ? 1 : tokens_per_block / b.tokens;
    Place &place = layout.places_[i];
    place.life_cycle = static_cast<int32_t>(life - layout.life_cycles_.begin());
    place.expansion = expansion;
    place.stride = b.bytes;
    const int64_t expanded = b.bytes * expansion;
    // Two expansions of one size would need two scales in one pool.
    auto same = std::find_if(coalesced.begin(), coalesced.end(), [&](const Coalesced &c) {
      return c.life_cycle == place.life_cycle && c.expanded == expanded &&
             layout.places_[static_cast<size_t>(c.members[0])].expansion == expansion;
    });
    if (same == coalesced.end()) same = coalesced.insert(same, {place.life_cycle, expanded, {}});
    place.ordinal = static_cast<int32_t>(same->members.size());
    place.offset = expanded * place.ordinal;
    same->members.push_back(static_cast<int32_t>(i));
  }
  std::vector<int64_t> sorted = seen;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    bad = static_cast<int32_t>(std::find(seen.rbegin(), seen.rend(), *twice).base() - seen.begin()) - 1;
    return Status::kArgument;
  }
  std::stable_sort(coalesced.begin(), coalesced.end(), [](const Coalesced &a, const Coalesced &b) {
    return a.life_cycle != b.life_cycle ? a.life_cycle < b.life_cycle : a.total() > b.total();
  });

  // Pool groups: one for every distinct list of slot sizes.
  std::vector<std::vector<int64_t>> sizes(layout.life_cycles_.size());
  for (const Coalesced &c : coalesced) sizes[static_cast<size_t>(c.life_cycle)].push_back(c.total());
  std::vector<std::vector<int64_t>> groups;
  std::vector<int32_t> first_pool;
  for (size_t l = 0; l < sizes.size(); ++l) {
    auto group = std::find(groups.begin(), groups.end(), sizes[l]);
    if (group == groups.end()) {
      group = groups.insert(group, sizes[l]);
      first_pool.push_back(static_cast<int32_t>(layout.pools_.size()));
      for (size_t p = 0; p < sizes[l].size(); ++p) {
        layout.pools_.push_back({static_cast<int32_t>(groups.size()) - 1, static_cast<int32_t>(p), sizes[l][p]});
      }
    }
    layout.life_cycles_[l].group = static_cast<int32_t>(group - groups.begin());
  }
  layout.groups_ = static_cast<int32_t>(groups.size());

  int32_t last_life = -1;
  int32_t index = 0;
  for (const Coalesced &c : coalesced) {
    index = c.life_cycle == last_life ? index + 1 : 0;
    last_life = c.life_cycle;
    const int32_t view = static_cast<int32_t>(layout.views_.size());
    int32_t value_offset = 0;
    int32_t expansion = 1;
    for (const int32_t member : c.members) {
      bad = member;
      const berth_kv_buffer &b = buffers[static_cast<size_t>(member)];
      Place &place = layout.places_[static_cast<size_t>(member)];
      place.view = view;
      expansion = place.expansion;
      // A value's key: the same layer's buffer one role below, in the same pool.
      if (b.role % kScaleRole != kValueRole) continue;
      for (const int32_t other : c.members) {
        const berth_kv_buffer &key = buffers[static_cast<size_t>(other)];
        if (key.layer != b.layer || key.role != b.role - 1) continue;
        const int32_t offset = (place.ordinal - layout.places_[static_cast<size_t>(other)].ordinal) * place.expansion;
        if (value_offset != 0 && value_offset != offset) return Status::kArgument;
        value_offset = offset;
      }
    }
    const int64_t scale = static_cast<int64_t>(c.members.size()) * expansion;
    if (scale > kMaxIndex) return Status::kArgument;
    const int32_t pool = first_pool[static_cast<size_t>(layout.life_cycles_[static_cast<size_t>(c.life_cycle)].group)];
    layout.views_.push_back({c.life_cycle, pool + index, static_cast<int32_t>(scale), value_offset});
  }

  // Scale factors stand where their data stands, in a pool of their own.
  for (size_t i = 0; i < buffers.size(); ++i) {
    const berth_kv_buffer &b = buffers[i];
    if (b.role < kScaleRole) continue;
    bad = static_cast<int32_t>(i);
    const auto data = std::find_if(buffers.begin(), buffers.end(), [&](const berth_kv_buffer &d) {
      return d.layer == b.layer && d.role == b.role - kScaleRole && d.domain == b.domain;
    });
    if (data == buffers.end()) return Status::kArgument;
    const Place &place = layout.places_[static_cast<size_t>(data - buffers.begin())];
    if (place.ordinal != layout.places_[i].ordinal || place.life_cycle != layout.places_[i].life_cycle) {
      return Status::kArgument;
    }
  }
  layout.plan_scratch(buffers);
  out = std::move(layout);
  bad = -1;
  return Status::kOk;
}

void KvLayout::plan_scratch(std::span<const berth_kv_buffer> buffers) {
  std::map<std::pair<int32_t, int32_t>, int32_t> groups;  // view, role
  for (size_t i = 0; i < places_.size(); ++i) {
    const auto [group, added] =
        groups.emplace(std::pair{places_[i].view, buffers[i].role}, static_cast<int32_t>(peers_.size()));
    if (added) peers_.emplace_back();
    peers_of_.push_back(group->second);
    peers_[static_cast<size_t>(group->second)].push_back(places_[i].ordinal);
  }
  for (const LifeCycle &l : life_cycles_) scratch_.push_back(l.full() || l.state() ? 1 : kMaxBuffers);
  for (size_t i = 0; i < places_.size(); ++i) {
    int32_t &blocks = scratch_[static_cast<size_t>(places_[i].life_cycle)];
    const auto peers = static_cast<int32_t>(peers_[static_cast<size_t>(peers_of_[i])].size());
    blocks = places_[i].expansion == 1 ? std::min(blocks, peers) : 1;
  }
}

KvLayout KvLayout::counted(int32_t tokens_per_block) {
  KvLayout layout;
  layout.tokens_per_block_ = tokens_per_block;
  layout.groups_ = 1;
  layout.life_cycles_ = {{LifeCycle::kFull, 0, 0, 0}};
  layout.scratch_ = {1};
  return layout;
}

int64_t KvLayout::slot_bytes(int32_t group) const noexcept {
  int64_t bytes = 0;
  for (const Pool &pool : pools_) bytes += pool.group == group ? pool.slot_bytes : 0;
  return bytes;
}

int64_t KvLayout::max_slots(int32_t group) const noexcept {
  int64_t slots = int64_t{1} << 28;
  for (const View &view : views_) {
    if (life_cycles_[static_cast<size_t>(view.life_cycle)].group != group) continue;
    // The largest page index of slot s, its last buffer's value included: (s + 1) * scale - 1 + value_offset.
    slots = std::min(slots, (kMaxIndex - view.value_offset) / view.scale);
    slots = std::min(slots, std::numeric_limits<int64_t>::max() / pools_[static_cast<size_t>(view.pool)].slot_bytes);
  }
  return slots;
}

}  // namespace berth
