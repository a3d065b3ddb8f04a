// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "core/kv_hash.hpp"
#include "core/page_slots.hpp"

namespace berth {

// The prefix index (spec 03 section 8.5): a radix tree of runs. A run is a line of blocks that nothing forks from; a
// block is tokens_per_block tokens, held here, and compared on every hit. Hashes, keyed and of one block only, are used
// to choose a child where a run has more than one; wrong guesses cost time, never an answer. A run that covers less
// than a block has one block, no children, and is found by longest common prefix only.
//
// References count along the path: a run is referenced as often as sequences and pins end in it or below. What nobody
// references stands in an eviction list of its level, tenant and rank (spec 03 section 9): oldest first, and nothing
// before what builds on it. The tree knows no pages: it says which block goes, its owner frees what belongs to it.
class PrefixTree {
 public:
  static constexpr int32_t kNone = -1;
  static constexpr int32_t kRanks = 101;
  static constexpr int32_t kLevels = 3;
  static constexpr int64_t kNever = INT64_MAX;

  struct Config {
    int32_t blocks;
    int32_t scopes;
    int32_t tokens_per_block;
    int32_t tenants;
    bool ordered;  // children in token order, for partial matches
    uint64_t key[2];
  };

  // How long and how dearly a run is kept, and for whom.
  struct Retention {
    int32_t priority;
    int32_t tenant;
    int64_t expires;  // at which priority falls to the default; kNever
    bool operator==(const Retention &) const = default;
  };

  struct Run {
    int32_t parent;  // run; kNone: a root
    int32_t first_child, next_sibling, prev_sibling;
    int32_t children;     // all of them
    int32_t dependents;   // children on the same level: they go first
    int32_t left, right;  // among its siblings, in token order
    int32_t ordered_root;
    uint32_t heap;
    int32_t first, last;  // blocks
    int32_t length;       // blocks; 0: a root
    int32_t fill;         // tokens of the last block: less than a block only in a partial run
    int32_t references;
    int32_t older, newer;  // eviction list
    uint32_t hash;         // of the first block under its parent, if indexed
    uint64_t stamp;        // when it was last let go
    uint64_t epoch;        // that must have completed before its pages are written
    int64_t expires;
    int32_t expiry;  // place in the expiry heap; kNone
    uint8_t priority, rank, level, tenant;
    bool listed, indexed, orphan;
  };

  struct Match {
    int32_t run;     // where it ended
    int32_t offset;  // blocks of that run that match
    int32_t blocks;  // full blocks from where the search began; path() has them
    int32_t last;    // of these
    int32_t partial_run = kNone;
    int32_t partial_block = kNone;
    int32_t partial_tokens = 0;
  };

  explicit PrefixTree(const Config &config);

  // ------------------------------------------------------------------------------ finding

  // The scope's root; kNone if there is none.
  int32_t root(const KvScope &scope) const noexcept;
  // The same, made if need be; kNone if all scopes are in use.
  int32_t make_root(const KvScope &scope) noexcept;

  // The longest match of tokens from the end of run on, path() blocks from at on. want_partial: also the child that
  // goes on longest after it.
  Match find(int32_t run, std::span<const int32_t> tokens, bool want_partial, int32_t at = 0) noexcept;
  int32_t *path() noexcept { return path_.data(); }
  // A match from a root, of fewer blocks: where it ends.
  Match shorten(const Match &match, int32_t blocks) const noexcept;
  // Common tokens of a block and the span's front.
  int32_t common(int32_t block, std::span<const int32_t> tokens) const noexcept;

  // ------------------------------------------------------------------------------ references

  // References the path to the run that ends where the match does, which is split off if need be.
  int32_t pin(const Match &match) noexcept;
  void pin(int32_t run) noexcept;
  // The run that ends where the match does, split off if need be.
  int32_t cut(const Match &match) noexcept;
  // A reference moves from a run to one below it.
  void descend(int32_t from, int32_t to) noexcept;
  // Lets go. Runs without references are listed, deepest first, or reported by gone() if they are orphans.
  template <class Gone>
  void unpin(int32_t run, uint64_t epoch, Gone gone) noexcept {
    while (run != kNone) {
      const int32_t parent = runs_[at(run)].parent;
      if (release(run, epoch) && runs_[at(run)].orphan) {
        while (runs_[at(run)].length != 0) {
          gone(runs_[at(run)].last, run);
          drop_last(run);
        }
        discard(run);
      } else if (parent == kNone) {
        forget_root(run);
      }
      run = parent;
    }
  }

  // ------------------------------------------------------------------------------ growing

  // Appends n blocks of tokens below tip, which the caller references: to tip itself if nothing hinders, else as a new
  // child, to which the caller's reference moves. ids receives the blocks. The run that ends them; kNone: no blocks
  // left.
  int32_t append(int32_t tip, std::span<const int32_t> tokens, int32_t n, const Retention &retention,
                 int32_t *ids) noexcept;
  // A partial run of tokens (less than a block) below tip, referenced as append does. kNone: no block left.
  int32_t append_partial(int32_t tip, std::span<const int32_t> tokens, const Retention &retention,
                         int32_t *id) noexcept;
  // Unreferenced partial children of run that the tokens cover, one after another; kNone if there is none (any more).
  int32_t covered(int32_t run, std::span<const int32_t> tokens) const noexcept;
  void set_level(int32_t run, int32_t level) noexcept;
  void set_retention(int32_t run, const Retention &retention) noexcept;
  // Blocks [first, end) of the path whose last block, the run's, is number blocks - 1 are kept so from now on: runs
  // part at the borders. An orphan stays as it is. changed(run).
  template <class Changed>
  void retain(int32_t run, int32_t blocks, int32_t first, int32_t end, int32_t priority, int64_t expires,
              Changed changed) noexcept {
    while (run != kNone && blocks > first && !runs_[at(run)].orphan) {
      const int32_t start = blocks - runs_[at(run)].length;
      const int32_t low = std::max(first, start);
      const int32_t high = std::min(end, blocks);
      const Run &r = runs_[at(run)];
      if (low < high && (r.priority != priority || r.expires != expires)) {
        if (high < blocks) run = split(run, high - start);
        if (low > start) split(run, low - start);
        set_retention(run, {priority, runs_[at(run)].tenant, expires});
        changed(run);
        blocks = low;
      } else {
        blocks = start;
      }
      run = runs_[at(run)].parent;
    }
  }

  // ------------------------------------------------------------------------------ evicting

  struct Victim {
    int32_t run = kNone;
    int32_t rank = 0;
    uint64_t stamp = 0;
  };
  // The run whose last block goes next on that level: tenants over their quota first, then the lowest rank, then the
  // oldest.
  Victim victim(int32_t level, std::span<const int64_t> quotas) const noexcept;
  // The run's last block goes; the run with it if it was the only one. The run must have no children.
  void drop_last(int32_t run) noexcept;
  // A run whose last block was dropped, or kNone: frees it.
  void discard(int32_t run) noexcept;
  // The run's last block becomes a run of its own (or joins its only child, if alike) on that level.
  int32_t sink_last(int32_t run, int32_t level) noexcept;
  // Takes the run with all below it out of the tree: nobody finds it any more. Each block that nobody references is
  // reported, deepest first, and freed; the others stay until they are let go. gone(block, run).
  template <class Gone>
  void detach(int32_t top, Gone gone) noexcept {
    const int32_t above = runs_[at(top)].parent;
    unlink(top);
    unreference(above, runs_[at(top)].references);
    // Post-order over children, without recursion.
    int32_t run = top;
    while (true) {
      Run &x = runs_[at(run)];
      x.orphan = true;
      if (x.first_child != kNone && !runs_[at(x.first_child)].orphan) {
        run = x.first_child;
        continue;
      }
      const int32_t next = x.next_sibling;
      const int32_t parent = x.parent;
      if (x.references == 0) {
        if (x.listed) unlist(run);
        while (runs_[at(run)].length != 0) {
          gone(runs_[at(run)].last, run);
          drop_last(run);
        }
        if (run != top) unlink(run);
        discard(run);
      }
      if (run == top) return;
      run = next != kNone ? next : parent;
    }
  }

  // detach of all that there is.
  template <class Gone>
  void detach_all(Gone gone) noexcept {
    for (int32_t root = first_root_; root != kNone;) {
      const int32_t next = runs_[at(root)].next_sibling;
      for (int32_t left = runs_[at(root)].children; left > 0; --left) detach(runs_[at(root)].first_child, gone);
      root = next;
    }
  }

  // Priorities whose time has passed fall to the default. changed(run).
  template <class Changed>
  void expire(int64_t now, int32_t default_priority, Changed changed) noexcept {
    while (!heap_.empty() && runs_[at(heap_[0])].expires <= now) {
      const int32_t run = heap_[0];
      set_expiry(run, kNever);
      if (runs_[at(run)].priority == default_priority) continue;
      fall(run, default_priority);
      changed(run);
    }
  }

  // ------------------------------------------------------------------------------ reading

  const Run &run(int32_t i) const noexcept { return runs_[at(i)]; }
  Run &run(int32_t i) noexcept { return runs_[at(i)]; }
  bool is_root(int32_t i) const noexcept { return runs_[at(i)].parent == kNone && runs_[at(i)].length == 0; }
  const int32_t *tokens(int32_t block) const noexcept { return tokens_.data() + at(block) * tpb(); }
  int32_t previous(int32_t block) const noexcept { return links_[at(block)].previous; }
  // The next block in its run; kNone at its end.
  int32_t next(int32_t block) const noexcept { return links_[at(block)].next >= 0 ? links_[at(block)].next : kNone; }
  // The run that a last block ends; kNone inside a run.
  int32_t ended_by(int32_t block) const noexcept {
    return links_[at(block)].next < 0 ? -2 - links_[at(block)].next : kNone;
  }
  // The run that a block lies in. Takes time in what follows it there.
  int32_t run_of(int32_t block) const noexcept {
    while (links_[at(block)].next >= 0) block = links_[at(block)].next;
    return -2 - links_[at(block)].next;
  }
  const KvScope &scope(int32_t root) const noexcept { return scopes_[at(runs_[at(root)].first)]; }
  int32_t first_root() const noexcept { return first_root_; }
  int32_t free_blocks() const noexcept { return static_cast<int32_t>(free_blocks_.free()); }
  // Blocks of unreferenced runs on a level.
  int64_t listed_blocks(int32_t level) const noexcept { return listed_blocks_[at(level)]; }
  int64_t tenant_blocks(int32_t tenant) const noexcept { return tenant_blocks_[at(tenant)]; }
  int32_t blocks() const noexcept { return config_.blocks; }
  // Ages of runs and of whatever is compared with them.
  uint64_t next_stamp() noexcept { return ++stamp_; }
  int32_t used_runs() const noexcept { return used_runs_; }

  // Recomputes what is kept incrementally; 0, or the number (above 100) of what differs. Takes time in all of the tree.
  int32_t broken() const;

 private:
  struct Link {
    int32_t previous;  // across runs; kNone: the first of its root
    int32_t next;      // in the run; -2 - run: the last of it
  };
  struct Entry {
    uint32_t hash;
    int32_t run;  // + 1; 0: empty
  };
  struct List {
    int32_t oldest, newest;  // + 1; 0: empty
  };
  static size_t at(int32_t i) noexcept { return static_cast<size_t>(i); }
  size_t tpb() const noexcept { return static_cast<size_t>(config_.tokens_per_block); }

  int32_t new_run(int32_t parent) noexcept;
  int32_t new_block(std::span<const int32_t> tokens, int32_t previous) noexcept;
  bool equal(int32_t block, const int32_t *tokens) const noexcept;
  int32_t equal_blocks(int32_t block, const int32_t *tokens, int32_t n) const noexcept;
  int32_t child(int32_t run, const int32_t *tokens) const noexcept;
  uint32_t hash(int32_t parent, const int32_t *tokens) const noexcept;
  size_t bucket(const KvScope &scope) const noexcept;
  void index(int32_t run) noexcept;
  void unindex(int32_t run) noexcept;
  void reindex(int32_t from, int32_t to) noexcept;
  size_t slot_of(int32_t run) const noexcept;
  void link(int32_t run, int32_t parent) noexcept;
  void unlink(int32_t run) noexcept;
  void replace(int32_t old_run, int32_t new_run) noexcept;
  int32_t split(int32_t run, int32_t offset) noexcept;
  int32_t order(int32_t a, int32_t b) const noexcept;
  int32_t ordered_insert(int32_t root, int32_t run) noexcept;
  int32_t ordered_remove(int32_t root, int32_t run) noexcept;
  int32_t ordered_merge(int32_t a, int32_t b) noexcept;
  void best_child(int32_t run, std::span<const int32_t> tokens, Match &match) const noexcept;

  bool release(int32_t run, uint64_t epoch) noexcept;
  void unreference(int32_t run, int32_t references) noexcept;
  void forget_root(int32_t run) noexcept;
  void list(int32_t run) noexcept;
  void list_front(int32_t run) noexcept;
  void list_after(int32_t run, int32_t other) noexcept;
  void unlist(int32_t run) noexcept;
  List &list_of(const Run &run) noexcept;
  void became_leaf(int32_t run) noexcept;
  void count(const Run &run, int32_t blocks) noexcept;

  bool earlier(int32_t a, int32_t b) const noexcept;
  void heap_place(int32_t i, int32_t run) noexcept;
  void heap_up(int32_t i) noexcept;
  void heap_down(int32_t i) noexcept;
  void set_expiry(int32_t run, int64_t when) noexcept;
  void fall(int32_t run, int32_t default_priority) noexcept;

  Config config_;
  ZeroedArray<int32_t> tokens_;
  ZeroedArray<Link> links_;
  PageSlots free_blocks_;
  ZeroedArray<Run> runs_;
  PageSlots free_runs_;
  std::vector<KvScope> scopes_;
  PageSlots free_scopes_;
  std::vector<int32_t> buckets_;  // of roots by scope, linked by left
  int32_t first_root_ = kNone;
  int32_t used_runs_ = 0;
  ZeroedArray<Entry> index_;
  uint64_t mask_;
  ZeroedArray<int32_t> path_;
  std::vector<List> lists_;                     // [level][tenant][rank]
  std::vector<std::array<uint64_t, 2>> ranks_;  // [level][tenant]: which ranks have runs
  std::array<int64_t, kLevels> listed_blocks_{};
  std::vector<int64_t> tenant_blocks_;
  std::vector<int32_t> heap_;
  uint64_t stamp_ = 0;
  uint32_t dice_ = 0x9e3779b9;
};

}  // namespace berth
