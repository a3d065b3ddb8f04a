// SPDX-License-Identifier: Apache-2.0
#include "core/rank_pages.hpp"

#include <algorithm>
#include <limits>

namespace berth {

namespace {
constexpr int32_t kMaxInt = std::numeric_limits<int32_t>::max();
int32_t clamped(int64_t pages) { return static_cast<int32_t>(std::min<int64_t>(pages, kMaxInt)); }
}  // namespace

RankPages::RankPages(KvCache &kv, const Config &config)
    : kv_(kv),
      config_(config),
      pools_(kv.layout().groups()),
      tokens_per_block_(kv.layout().tokens_per_block()),
      longest_(std::min<int64_t>(int64_t{kv.max_blocks()} * tokens_per_block_, kMaxInt)),
      growing_(at(pools_)),
      states_(at(pools_)),
      promised_(at(pools_)),
      handle_(at(config.rows)),
      room_(at(config.rows)),
      end_(at(config.rows)),
      has_promise_(at(config.rows)),
      promise_of_(at(config.rows) * at(pools_)) {
  for (const LifeCycle &life : kv.layout().life_cycles()) {
    ++(life.state() ? states_ : growing_)[at(life.group)];
    windows_ = windows_ || !life.full();
  }
  if (!tokens()) return;
  arena_ = ZeroedArray<int32_t>(at(config.rows) * static_cast<size_t>(config.token_stride));
  known_ = ZeroedArray<int32_t>(at(config.rows));
  computed_ = ZeroedArray<int32_t>(at(config.rows));
  committed_ = ZeroedArray<int32_t>(at(config.rows));
  scope_ = ZeroedArray<KvScope>(at(config.rows));
  alone_ = ZeroedArray<uint8_t>(at(config.rows));
}

int64_t RankPages::used() const {
  int64_t pages = 0;
  // What windows promise may be more than there is, see lacks().
  for (int32_t p = 0; p < pools_; ++p) pages += total(p) - std::max<int64_t>(0, free(p));
  return pages;
}

int64_t RankPages::whole(int32_t pool, int64_t tokens) const {
  return states_[at(pool)] + growing_[at(pool)] * ((tokens + tokens_per_block_ - 1) / tokens_per_block_);
}

// Whole blocks.
int64_t RankPages::rounded(int64_t tokens) const {
  return std::min((tokens + tokens_per_block_ - 1) / tokens_per_block_ * tokens_per_block_, longest_);
}

// ---------------------------------------------------------------------------------------- tokens

void RankPages::admit(int32_t row, const KvScope &scope, int32_t known) {
  if (!tokens()) return;
  scope_[at(row)] = scope;
  known_[at(row)] = known;
  alone_[at(row)] = 0;
}

void RankPages::append(int32_t row, int32_t place, int32_t token) {
  if (!tokens() || known_[at(row)] != place || place >= config_.token_stride) return;
  arena_[at(row) * static_cast<size_t>(config_.token_stride) + at(place)] = token;
  ++known_[at(row)];
}

// ---------------------------------------------------------------------------------------- pages

// Without all tokens of its prompt a request is alone.
KvCache::Start RankPages::start_of(const Request &r) const {
  KvCache::Start start;
  if (tokens() && known_[at(r.row)] >= r.prompt_tokens) {
    start.scope = scope_[at(r.row)];
    start.prompt = {tokens_of(r.row), at(r.prompt_tokens)};
  }
  start.reuse = r.computes && !(tokens() && alone_[at(r.row)]);
  start.row = r.lease;
  // Pages that are only counted are of no use to anybody meanwhile: promised is taken.
  start.capacity = rounded(kv_.counted() && r.promised ? r.end : r.prompt_tokens);
  return start;
}

// To copy part of a block takes a page while its source stays. Who needs all pages there are does without.
RankPages::Outlook RankPages::look(const Request &request, berth_demand *demand) {
  KvCache::Outlook outlook = kv_.look(start_of(request), request.end, config_.step);
  for (int32_t p = 0; tokens() && p < pools_; ++p) {
    if (outlook.matched == 0 || outlook.need[at(p)] <= total(p)) continue;
    alone_[at(request.row)] = 1;
    outlook = kv_.look(start_of(request), request.end, config_.step);
  }
  for (int32_t p = 0; p < pools_; ++p) {
    const int64_t now = outlook.need[at(p)];
    const int64_t all = std::max(now, std::min(now + outlook.later[at(p)], most(p, request.end)));
    const int64_t step = request.promised ? all : now;
    demand[p] = berth_demand{clamped(all), clamped(step), clamped(step), 0};
  }
  return Outlook{outlook.matched, outlook.next_key};
}

bool RankPages::open(const Request &r, int32_t &matched) {
  const KvCache::Start start = start_of(r);
  if (kv_.start(start, handle_[at(r.row)], matched) != Status::kOk) {
    if (tokens()) alone_[at(r.row)] = 1;
    return false;
  }
  room_[at(r.row)] = static_cast<int32_t>(start.capacity);
  end_[at(r.row)] = clamped(r.end);
  if (tokens()) computed_[at(r.row)] = committed_[at(r.row)] = matched;
  has_promise_[at(r.row)] = r.promised;
  promise(r.row);
  return true;
}

// Keeps free what the row may still take.
void RankPages::promise(int32_t row) {
  if (!has_promise_[at(row)]) return;
  for (int32_t p = 0; p < pools_; ++p) {
    int32_t &mine = promise_of_[at(row, p)];
    const int32_t now = clamped(kv_.lacks(handle_[at(row)], p, end_[at(row)], config_.step));
    promised_[at(p)] += now - mine;
    mine = now;
  }
}

void RankPages::step(int32_t row, int64_t tokens, berth_demand *demand) const {
  const int64_t wanted = rounded(std::min<int64_t>(tokens, end_[at(row)]));
  const int64_t blocks = std::max<int64_t>(0, wanted - room_[at(row)]) / tokens_per_block_;
  for (int32_t p = 0; p < pools_; ++p) {
    const int32_t pages = clamped(blocks * growing_[at(p)]);
    demand[p] = berth_demand{pages, pages, pages, 0};
  }
}

bool RankPages::grow(int32_t row, int64_t tokens) {
  const int64_t wanted = std::min<int64_t>(tokens, end_[at(row)]);
  if (wanted <= room_[at(row)]) return true;
  const int64_t room = rounded(wanted);
  if (kv_.resize(handle_[at(row)], room, -1) != Status::kOk) return false;
  room_[at(row)] = static_cast<int32_t>(room);
  promise(row);
  return true;
}

void RankPages::shrink(int32_t row, int32_t room) {
  kv_.resize(handle_[at(row)], room, -1);
  room_[at(row)] = room;
  promise(row);
}

int64_t RankPages::pages(int32_t row) const {
  int64_t pages = 0;
  for (int32_t p = 0; p < pools_ && has(row); ++p) {
    pages += kv_.held(handle_[at(row)], p);
    pages += promise_of_[at(row, p)];
  }
  return pages;
}

// Without tables or windows nobody asks how far it is.
void RankPages::advance(int32_t row, int32_t history) {
  if (kv_.counted() && !windows_) return;
  kv_.resize(handle_[at(row)], -1, std::min(history, room_[at(row)]));
  if (windows_) promise(row);
}

void RankPages::computed(int32_t row, int32_t tokens) {
  if (!this->tokens()) return;
  computed_[at(row)] = tokens;
  const int32_t whole = std::min(tokens, known_[at(row)]) / tokens_per_block_ * tokens_per_block_;
  const int32_t before = committed_[at(row)];
  if (whole <= before) return;
  if (kv_.commit(handle_[at(row)], {tokens_of(row) + before, at(whole - before)}) == Status::kOk) {
    committed_[at(row)] = whole;
  }
  if (windows_) promise(row);
}

void RankPages::store(int32_t row) {
  if (!tokens() || !has(row)) return;
  const int32_t all = std::min(computed_[at(row)], known_[at(row)]);
  const int32_t before = committed_[at(row)];
  if (all > before) kv_.commit(handle_[at(row)], {tokens_of(row) + before, at(all - before)});
  committed_[at(row)] = std::max(all, before);
  kv_.stop(handle_[at(row)]);
}

uint64_t RankPages::next_key(int32_t row, int32_t prompt_tokens) const {
  if (!tokens() || known_[at(row)] < prompt_tokens) return 0;
  return kv_.next_key(handle_[at(row)], {tokens_of(row), at(prompt_tokens)});
}

void RankPages::close(int32_t row) {
  if (!has(row)) return;
  kv_.close(handle_[at(row)]);
  handle_[at(row)] = 0;
  room_[at(row)] = end_[at(row)] = 0;
  if (tokens()) computed_[at(row)] = committed_[at(row)] = alone_[at(row)] = 0;
  has_promise_[at(row)] = 0;
  for (int32_t p = 0; p < pools_; ++p) {
    promised_[at(p)] -= promise_of_[at(row, p)];
    promise_of_[at(row, p)] = 0;
  }
}

}  // namespace berth
