// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "berth/berth.h"
#include "core/kv_cache.hpp"
#include "core/table.hpp"

namespace berth {

// What the requests of a rank hold of its KV cache and what they were promised of it. A request takes the pages of its
// whole prompt with its lease, then a block at a time. With a promise, what it will need up to its last token is kept
// free for it from the start. Pools are the device pool groups of the cache.
class RankPages {
 public:
  struct Config {
    int32_t rows;
    int32_t step;          // most tokens that one step computes of a generation
    int64_t token_stride;  // tokens that a row has room for; 0: nobody has tokens
  };
  // Throws std::bad_alloc.
  RankPages(KvCache &kv, const Config &config);

  // A request in a row.
  struct Request {
    int32_t row;
    int32_t lease;          // row of the tables
    int32_t prompt_tokens;  // room that it starts with
    int64_t end;            // tokens at its end, drafts included
    bool computes;          // false: its KV comes from elsewhere, and nothing is looked for
    bool promised;          // all pages up to its end
  };

  int32_t pools() const { return pools_; }
  // Pages that nobody uses and nobody was promised.
  int64_t free(int32_t pool) const { return kv_.available(pool) - promised_[static_cast<size_t>(pool)]; }
  int64_t total(int32_t pool) const { return kv_.slots(0, pool); }
  // Pages that are used or promised, of all pools.
  int64_t used() const;
  // Most pages that a sequence of so many tokens holds at a time.
  int64_t most(int32_t pool, int64_t tokens) const { return kv_.most(pool, tokens, config_.step); }
  // Pages of a prompt of so many tokens, of which a window keeps less later.
  int64_t whole(int32_t pool, int64_t tokens) const;

  // ---- tokens: int32_t[rows][token_stride]
  bool tokens() const { return config_.token_stride != 0; }
  int32_t *token_data() { return arena_.data(); }
  // The row is a new request's, of whose tokens so many are in the arena.
  void admit(int32_t row, const KvScope &scope, int32_t known);
  // The token at a place is known; of use only if all before it are.
  void append(int32_t row, int32_t place, int32_t token);

  // ---- pages
  // What a request without pages would find and need.
  struct Outlook {
    int32_t matched;
    uint64_t next_key;
  };
  Outlook look(const Request &request, berth_demand *demand);
  // False: not enough pages, nothing happened. matched: tokens that needn't be computed.
  bool open(const Request &request, int32_t &matched);
  bool has(int32_t row) const { return handle_[at(row)] != 0; }
  uint64_t handle(int32_t row) const { return handle_[at(row)]; }
  // Tokens that there is room for.
  int32_t room(int32_t row) const { return room_[at(row)]; }
  // Pages of the pools that it takes to have room for so many tokens, up to its end.
  void step(int32_t row, int64_t tokens, berth_demand *demand) const;
  // Room for so many tokens, up to its end. False: not enough pages, nothing happened.
  bool grow(int32_t row, int64_t tokens);
  // Back to a room that it had, in which all that was computed has a place.
  void shrink(int32_t row, int32_t room);
  // Pages that it holds or was promised.
  int64_t pages(int32_t row) const;
  // All before that token is computed or under way.
  void advance(int32_t row, int32_t history);
  // All before that token is computed: whole blocks of known tokens can be found from now on.
  void computed(int32_t row, int32_t tokens);
  // What is computed can be found, the block begun too; no more follows.
  void store(int32_t row);
  void close(int32_t row);
  uint64_t next_key(int32_t row, int32_t prompt_tokens) const;

 private:
  static size_t at(int32_t row) { return static_cast<size_t>(row); }
  size_t at(int32_t row, int32_t pool) const { return static_cast<size_t>(row) * at(pools_) + at(pool); }
  const int32_t *tokens_of(int32_t row) const { return arena_.data() + row * config_.token_stride; }
  int64_t rounded(int64_t tokens) const;
  KvCache::Start start_of(const Request &request) const;
  void promise(int32_t row);

  KvCache &kv_;
  Config config_;
  int32_t pools_;
  int32_t tokens_per_block_;
  int64_t longest_;                   // tokens that a sequence may have room for
  bool windows_ = false;              // some layers don't keep all
  std::vector<int32_t> growing_;      // by pool: life cycles that a further block takes a page of
  std::vector<int32_t> states_;       // by pool: the others
  std::vector<int64_t> promised_;     // by pool
  ZeroedArray<uint64_t> handle_;      // by row; 0: none
  ZeroedArray<int32_t> room_;         // by row
  ZeroedArray<int32_t> end_;          // by row: tokens, drafts included
  ZeroedArray<uint8_t> has_promise_;  // by row
  ZeroedArray<int32_t> promise_of_;   // [rows][pools]
  ZeroedArray<int32_t> arena_;        // [rows][token_stride]
  ZeroedArray<int32_t> known_;        // by row: tokens in the arena
  ZeroedArray<int32_t> computed_;     // by row
  ZeroedArray<int32_t> committed_;    // by row
  ZeroedArray<KvScope> scope_;        // by row
  ZeroedArray<uint8_t> alone_;        // by row: 1: looks for nothing, see look()
};

}  // namespace berth
