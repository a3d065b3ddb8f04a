// SPDX-License-Identifier: Apache-2.0
//
// The levels of a KV cache (spec 03 section 9): what falls down and how far, what comes up again, and the transfers of
// the disk level, which the cache starts and never waits for. A transfer changes nothing until poll() settles it, in
// the order in which they were started; so every decision follows from the calls, whatever the disk's speed.
#include <algorithm>
#include <atomic>
#include <utility>

#include "core/kv_cache.hpp"

namespace berth {

using device::kLevels;

// ------------------------------------------------------------------------------ room

int64_t KvCache::evictable(int32_t level, int32_t group) const noexcept {
  const int64_t blocks = tree_ ? tree_->listed_blocks(level) : 0;
  return blocks * fulls_[at(group)] + special_listed_[at(level)][at(group)];
}

// True if so many pages are there or can be made free; gains: what the caller gives back before it takes them.
bool KvCache::ensure(int32_t level, const Needs &needs, const Needs &gains, berth_kv_op *op) noexcept {
  for (int32_t g = 0; g < layout_.groups(); ++g) {
    const int64_t free = slots_[at(level * layout_.groups() + g)].free();
    const int64_t missing = needs[at(g)] - gains[at(g)] - free - evictable(level, g);
    if (missing <= 0) continue;
    if (op != nullptr) {
      op->group = g;
      op->deficit = static_cast<int32_t>(missing);
    }
    return false;
  }
  bool gaining = false;
  for (const int64_t gain : gains) gaining = gaining || gain != 0;
  if (!gaining) make_free(level, needs);
  return true;
}

void KvCache::make_free(int32_t level, const Needs &needs) noexcept {
  for (int32_t g = 0; g < layout_.groups(); ++g) {
    while (slots_[at(level * layout_.groups() + g)].free() < needs[at(g)]) evict(level, g);
  }
}

// The same for what falls from above, which can be dropped instead.
bool KvCache::room(int32_t level, const Needs &needs) noexcept {
  const auto free = [&](int32_t g) { return slots_[at(level * layout_.groups() + g)].free(); };
  for (int32_t g = 0; g < layout_.groups(); ++g) {
    if (free(g) + evictable(level, g) < needs[at(g)]) return false;
  }
  for (int32_t g = 0; g < layout_.groups(); ++g) {
    while (free(g) < needs[at(g)]) {
      // What is dropped while it is still being written doesn't leave its slot at once.
      if (evictable(level, g) == 0) return false;
      evict(level, g);
    }
  }
  return true;
}

// Whether a level takes pages now: what the disk can't take in time doesn't go there.
bool KvCache::takes(int32_t level, int32_t pages) const noexcept {
  return level != kDisk || depth_ == 0 ||
         (writes_ + pages <= depth_ / 2 && started_ - settled_ + at(pages) <= at(depth_));
}

// ------------------------------------------------------------------------------ down

// A page of the group comes free: of a window that moved on, or else the lowest in rank and oldest of window tails and
// leaves.
void KvCache::evict(int32_t level, int32_t group) noexcept {
  int32_t oldest_l = kNone;
  int32_t oldest_block = kNone;
  uint64_t stamp = 0;
  for (int32_t list = level == 0 ? kPassed : kTails + level; list <= kTails + level; ++list) {
    for (int32_t l = 0; l < life_cycles(); ++l) {
      if (life(l).full() || group_of(l) != group) continue;
      const int32_t block = special_list(l, list).oldest;
      if (block == kNone || (oldest_block != kNone && special(l, block).stamp > stamp)) continue;
      oldest_l = l;
      oldest_block = block;
      stamp = special(l, block).stamp;
    }
    if (list == kPassed && oldest_block != kNone) {
      drop_special(oldest_l, oldest_block);
      return;
    }
  }
  const PrefixTree::Victim victim = fulls_[at(group)] == 0 ? PrefixTree::Victim{} : tree_->victim(level, quotas_);
  const bool tail_first =
      oldest_block != kNone && (victim.run == PrefixTree::kNone || config_.default_priority < victim.rank ||
                                (config_.default_priority == victim.rank && stamp < victim.stamp));
  if (tail_first) {
    evict_special(oldest_l, oldest_block, level);
  } else {
    evict_block(victim.run, level);
  }
}

// The last block of an unreferenced run on which nothing of its level builds: to the next level that takes it if it is
// worth it, else out of the index with all that builds on it further down.
void KvCache::evict_block(int32_t run, int32_t level) noexcept {
  Needs needs{};
  std::copy(fulls_.begin(), fulls_.end(), needs.begin());
  for (int32_t to = level + 1; to < kLevels && tree_->run(run).rank >= config_.offload_min_priority; ++to) {
    // Of less than a block on the disk nobody would make use.
    if (to == kDisk && tree_->run(run).fill < config_.tokens_per_block) break;
    if (!takes(to, full_count_) || !room(to, needs)) continue;
    // Nothing builds on what lies deeper.
    bool deep = true;
    for (int32_t c = to == level + 1 ? kNone : tree_->run(run).first_child; c != kNone;
         c = tree_->run(c).next_sibling) {
      deep = deep && tree_->run(c).level >= to;
    }
    if (!deep) continue;
    const int32_t block = tree_->run(run).last;
    const uint64_t epoch = tree_->run(run).epoch;
    for (int32_t l = 0; l < life_cycles(); ++l) {
      if (life(l).full()) move_down(block, l, to, epoch);
    }
    tree_->sink_last(run, to);
    ++counts_.offloaded;
    return;
  }
  while (tree_->run(run).children != 0) {
    tree_->detach(tree_->run(run).first_child, [&](int32_t block, int32_t owner) { free_block(block, owner); });
  }
  free_block(tree_->run(run).last, run);
  tree_->drop_last(run);
  if (tree_->run(run).length == 0) tree_->discard(run);
  ++counts_.evicted;
}

// The same for the tail of a window, or a state, of which nobody makes use.
void KvCache::evict_special(int32_t l, int32_t block, int32_t level) noexcept {
  Needs needs{};
  needs[at(group_of(l))] = 1;
  const int32_t run = tree_->ended_by(block);
  const bool whole = run == kNone || tree_->run(run).fill == config_.tokens_per_block;
  for (int32_t to = level + 1; to < kLevels && config_.default_priority >= config_.offload_min_priority; ++to) {
    if (to == kDisk && !whole) break;
    const bool fits = takes(to, 1) && room(to, needs);
    if (loc(block, l) == kNone) return;  // the block went, to make that room
    if (!fits) continue;
    unlist_special(l, block);
    move_down(block, l, to, special(l, block).epoch);
    list_special(l, block, kTails + to, special(l, block).stamp);
    return;
  }
  drop_special(l, block);
}

// A page of the index goes to a free slot further down; epoch: of those who used it last.
void KvCache::move_down(int32_t block, int32_t l, int32_t level, uint64_t epoch) noexcept {
  const int32_t g = group_of(l);
  const int32_t from = loc(block, l);
  const size_t upper = at(level_of(from) * layout_.groups() + g);
  const size_t lower = at(level * layout_.groups() + g);
  int32_t to;
  slots_[lower].take(&to, 1);
  const device::PageCopy copy{g, level_of(from), slot_of(from), level, to};
  if (level == kDisk && depth_ != 0) {
    int32_t number;
    Flight &flight = fly(block, l, number);
    flight.disk = to;
    flight.level = kDisk;
    flight.number = ++started_;
    started_flights_[flight.number % at(depth_)] = number;
    ++writes_;
    backend_->start(copy, 0);
  } else {
    backend_->copy(copy);
  }
  slots_[upper].put(slot_of(from), config_.mode == BERTH_KV_SYNCHRONOUS ? epoch : std::max(epoch, launch_));
  --cached_[upper];
  ++cached_[lower];
  loc(block, l) = level << kLevelShift | to;
  emit_level(block, l, level, level_of(from));
}

// A page of the index is on another level now.
void KvCache::emit_level(int32_t block, int32_t l, int32_t level, int32_t old_level) noexcept {
  if (!ring_) return;
  const PrefixTree::Run &run = tree_->run(tree_->run_of(block));
  emit(BERTH_KV_UPDATED, block, l, {}, run.fill, level, old_level, run.priority);
}

// The index gives up a page. What is on its way from or to the disk keeps its slot there until it has arrived.
void KvCache::leave(int32_t block, int32_t l, uint64_t epoch) noexcept {
  const int32_t page = loc(block, l);
  const size_t pool = at(level_of(page) * layout_.groups() + group_of(l));
  --cached_[pool];
  if (level_of(page) == kDisk && depth_ != 0) {
    if (int32_t &flight = flight_of(block, l); flight != 0) {
      flights_[at(flight - 1)].orphan = true;
      flight = 0;
      ++moving_[pool];
      return;
    }
    epoch = 0;
  }
  slots_[pool].put(slot_of(page), epoch);
}

// ------------------------------------------------------------------------------ how much there is

// Every page of a group on a level, of the index and of sequences.
template <class Visit>
void KvCache::each_page(int32_t level, int32_t group, Visit visit) noexcept {
  for (int32_t l = 0; l < life_cycles(); ++l) {
    if (group_of(l) != group) continue;
    for (int32_t block = 0; tree_ && block < config_.index_blocks; ++block) {
      if (uids_[at(block)] != 0 && loc(block, l) != kNone && level_of(loc(block, l)) == level) visit(loc(block, l));
    }
    for (int32_t i = 0; level == 0 && i < issued_sequences_; ++i) {
      Sequence &s = sequences_[at(i)];
      if (s.generation % 2 == 0) continue;
      if (life(l).state()) {
        if (int32_t &state = states(s)[state_of_[at(l)]]; state != kNone) visit(state);
        continue;
      }
      const int32_t sharing = layout_.scratch_blocks(l);
      for (int32_t j = 0; j < s.beams; ++j) {
        int32_t slot = kNone;
        for (int32_t b = j == 0 ? s.in_index : 0; b < s.blocks; ++b) {
          int32_t &entry = pages(s, j, l)[b];
          if (entry == kNone) continue;
          if (counts(l, entry)) {
            slot = slot_of_entry(l, entry);
            visit(slot);
          }
          // Those that share a slot follow the first.
          entry = entry >= 0 ? slot : KvLayout::scratch_entry(slot, KvLayout::scratch_number(entry, sharing), sharing);
        }
      }
    }
  }
}

Status KvCache::adjust(std::span<const int64_t> pages, int32_t &pool, int64_t &deficit) {
  const int32_t groups = layout_.groups();
  if (pages.size() != slots_.size()) return Status::kArgument;
  if (broken_ != 0 || counted()) return Status::kState;
  for (size_t i = 0; i < pages.size(); ++i) {
    const bool disk = i >= at(kDisk * groups);
    if (pages[i] < (i < at(groups) ? 1 : 0) || pages[i] > most_[i] || (disk && pages[i] != slots_[i].capacity())) {
      return Status::kArgument;
    }
  }
  // Pages move: nobody may be using or filling them.
  bool moving = false;
  for (size_t i = 0; i < at(kDisk * groups); ++i) moving = moving || moving_[i] != 0;
  if (active_ != 0 || moving || launch_ > complete_ || backend_->submitted() != backend_->completed()) {
    return Status::kState;
  }
  std::vector<PageSlots> fresh;
  std::vector<std::vector<uint8_t>> taken;
  for (size_t i = 0; i < at(kDisk * groups); ++i) {
    const int32_t level = static_cast<int32_t>(i) / groups;
    const int64_t used = slots_[i].capacity() - slots_[i].free();
    const int64_t missing = used - evictable(level, static_cast<int32_t>(i) % groups) - pages[i];
    if (missing > 0) {
      pool = static_cast<int32_t>(i);
      deficit = missing;
      return Status::kExhausted;
    }
    fresh.emplace_back(static_cast<int32_t>(pages[i]));
    taken.emplace_back(at(pages[i]));
  }
  for (int32_t level = 0; level < kDisk; ++level) {
    for (int32_t g = 0; g < groups; ++g) {
      const size_t i = at(level * groups + g);
      while (slots_[i].capacity() - slots_[i].free() > pages[i]) evict(level, g);
    }
  }
  for (int32_t level = 0; level < kDisk; ++level) {
    for (int32_t g = 0; g < groups; ++g) {
      const size_t i = at(level * groups + g);
      if (pages[i] == slots_[i].capacity()) continue;
      each_page(level, g, [&](int32_t page) {
        if (slot_of(page) < pages[i]) taken[i][at(slot_of(page))] = 1;
      });
      int32_t next = 0;
      each_page(level, g, [&](int32_t &page) {
        if (slot_of(page) < pages[i]) return;
        while (taken[i][at(next)] != 0) ++next;
        taken[i][at(next)] = 1;
        backend_->copy({g, level, slot_of(page), level, next});
        page = level << kLevelShift | next;
      });
      fresh[i].begin(taken[i], complete_);
      slots_[i] = std::move(fresh[i]);
      backend_->resize(level, g, pages[i]);
    }
  }
  return Status::kOk;
}

// ------------------------------------------------------------------------------ up

// What a suspended sequence has in the index comes up to a level, where needs says what else is taken there. kOk: it is
// there; kPending: some of it is on its way; kExhausted: too few pages, nothing changed.
Status KvCache::bring_up(Sequence &s, int32_t level, const Needs &extra, berth_kv_op &op) noexcept {
  int32_t block = s.in_index == 0 ? kNone : tree_->run(s.tip).last;
  for (int32_t b = s.in_index - 1; b >= 0; --b, block = tree_->previous(block)) ids_[at(b)] = block;
  const auto each_below = [&](auto visit) {
    for (int32_t b = 0; b < s.in_index; ++b) {
      for (int32_t l = 0; l < life_cycles(); ++l) {
        const int32_t page = loc(ids_[at(b)], l);
        if (page == kNone || level_of(page) <= level) continue;
        // A state is copied, from the host's memory as well; a window needs what it holds.
        if (life(l).state() ? ids_[at(b)] != s.state_block || level_of(page) != kDisk
                            : !life(l).full() && pages(s, 0, l)[b] == kNone) {
          continue;
        }
        visit(ids_[at(b)], l);
      }
    }
  };
  const auto coming = [&](int32_t i, int32_t l) -> const Ticket * {
    const int32_t flight = depth_ == 0 ? 0 : flight_of(i, l);
    if (flight == 0 || flights_[at(flight - 1)].level == kDisk) return nullptr;
    return &tickets_[at(flights_[at(flight - 1)].ticket)];
  };
  bool below = full_count_ != life_cycles();
  for (int32_t run = s.tip; run != kNone && !below; run = tree_->run(run).parent) below = tree_->run(run).level > level;
  Needs needs = extra;
  if (below) {
    each_below([&](int32_t i, int32_t l) {
      if (const Ticket *t = coming(i, l)) {
        op.ticket = std::max(op.ticket, t->number);
      } else {
        ++needs[at(group_of(l))];
      }
    });
  }
  if (!ensure(level, needs, {}, &op)) {
    op.ticket = 0;
    return Status::kExhausted;
  }
  if (below) {
    Ticket *ticket = nullptr;
    int32_t counted = kNone;
    each_below([&](int32_t i, int32_t l) {
      if (coming(i, l) != nullptr) return;
      if (level_of(loc(i, l)) != kDisk || depth_ == 0) {
        move_up(i, l, level);
        counts_.onboarded += std::exchange(counted, i) != i;
        return;
      }
      if (ticket == nullptr) {
        ticket = &tickets_[tickets_issued_ % tickets_.size()];
        *ticket = {++tickets_issued_, s.tip, level, kNone, kNone, 0, 0};
        tree_->pin(s.tip);
      }
      const int32_t before = flight_of(i, l);
      int32_t number;
      Flight &flight = fly(i, l, number);
      if (before != 0) {
        flight.after = flights_[at(before - 1)].number;
        flights_[at(before - 1)].follower = number;
      }
      flight.disk = slot_of(loc(i, l));
      flight.level = level;
      flight.wait = slots_[at(level * layout_.groups() + group_of(l))].take(&flight.slot, 1);
      flight.ticket = static_cast<int32_t>(ticket - tickets_.data());
      ++moving_[at(level * layout_.groups() + group_of(l))];
      if (!life(l).full()) hold(l, i);
      (ticket->first == kNone ? ticket->first : flights_[at(ticket->last)].next) = number;
      ticket->last = number;
      ++ticket->left;
      ++ticket->pages;
      waiting_flights_[waits_++ % waiting_flights_.size()] = number;
    });
    if (ticket != nullptr) {
      op.ticket = ticket->number;
      reinterpret_cast<berth_kv_io *>(ticket_page_.data())->issued = ticket->number;
    }
    for (int32_t run = s.tip; run != kNone; run = tree_->run(run).parent) {
      const int32_t now = tree_->run(run).level;
      if (now > level && (now != kDisk || depth_ == 0)) tree_->set_level(run, level);
    }
    pump();
  }
  if (op.ticket != 0) return Status::kPending;
  // Others may have brought up what it shares, too.
  for (int32_t l = 0; s.in_index > 0 && l < life_cycles(); ++l) {
    if (life(l).state()) continue;
    int32_t *list = pages(s, 0, l);
    for (int32_t b = 0; b < s.in_index; ++b) {
      if (list[b] != kNone) list[b] = loc(ids_[at(b)], l);
    }
  }
  return Status::kOk;
}

void KvCache::move_up(int32_t block, int32_t l, int32_t level) noexcept {
  const int32_t g = group_of(l);
  const int32_t from = loc(block, l);
  const size_t upper = at(level * layout_.groups() + g);
  int32_t to;
  const uint64_t wait = slots_[upper].take(&to, 1);
  if (level == 0) wait_ = std::max(wait_, wait);
  backend_->copy({g, level_of(from), slot_of(from), level, to});
  leave(block, l, launch_);
  ++cached_[upper];
  loc(block, l) = level << kLevelShift | to;
  emit_level(block, l, level, level_of(from));
}

Status KvCache::prefetch(Sequence &s, berth_kv_op &op) noexcept {
  if (op.a < 0 || op.a >= kDisk) return Status::kArgument;
  if (counted()) return Status::kState;
  if (s.active) return Status::kState;
  if (s.lost) return missing(s, op);
  const Status status = bring_up(s, op.a, {}, op);
  return status == Status::kPending ? Status::kOk : status;
}

// What became of a sequence that lost pages; said once.
Status KvCache::missing(Sequence &s, berth_kv_op &op) noexcept {
  s.lost = false;
  op.matched = s.committed;
  return Status::kMissing;
}

// ------------------------------------------------------------------------------ transfers

KvCache::Flight &KvCache::fly(int32_t block, int32_t l, int32_t &number) noexcept {
  free_flights_.take(&number, 1);
  Flight &flight = flights_[at(number)];
  flight = {};
  flight.block = block;
  flight.life_cycle = l;
  flight.ticket = flight.next = flight.follower = kNone;
  flight_of(block, l) = number + 1;
  return flight;
}

// Starts what waits, in its order, as far as slots are ready and the disk takes it.
void KvCache::pump() noexcept {
  while (waited_ != waits_ && started_ - settled_ < at(depth_)) {
    const int32_t number = waiting_flights_[waited_ % waiting_flights_.size()];
    Flight &flight = flights_[at(number)];
    if (flight.wait > complete_) return;
    ++waited_;
    flight.number = ++started_;
    started_flights_[flight.number % at(depth_)] = number;
    backend_->start({group_of(flight.life_cycle), kDisk, flight.disk, flight.level, flight.slot}, flight.after);
  }
}

int32_t KvCache::poll(int32_t at_least, int32_t at_most) noexcept {
  int32_t n = 0;
  for (; n < at_most && settled_ != started_; ++n) {
    const uint64_t next = settled_ + 1;
    const auto finished = [&] {
      return std::atomic_ref<const uint64_t>(*backend_->finished()).load(std::memory_order_acquire) >= next;
    };
    if (!finished()) {
      if (n >= at_least) break;
      backend_->wait(next);
      if (!finished()) break;
    }
    settle();
    pump();
  }
  return n;
}

// The next transfer in order has finished.
void KvCache::settle() noexcept {
  const int32_t error = backend_->outcome(++settled_);
  const int32_t number = started_flights_[settled_ % at(depth_)];
  Flight &flight = flights_[at(number)];
  counts_.failed += error != 0;
  if (flight.level == kDisk) {
    counts_.written += error == 0;
    settle_write(number, error);
  } else {
    counts_.read += error == 0;
    if (error != 0) flight.error = error;
    if (--tickets_[at(flight.ticket)].left == 0) finish_ticket();
  }
  auto *page = reinterpret_cast<berth_kv_io *>(ticket_page_.data());
  std::atomic_ref<uint64_t>(page->settled).store(settled_, std::memory_order_release);
}

void KvCache::settle_write(int32_t number, int32_t error) noexcept {
  const Flight flight = flights_[at(number)];
  const int32_t l = flight.life_cycle;
  --writes_;
  free_flights_.put(number, 0);
  if (flight.orphan) {
    const size_t pool = at(kDisk * layout_.groups() + group_of(l));
    slots_[pool].put(flight.disk, 0);
    --moving_[pool];
    return;
  }
  if (flight.follower != kNone) {
    // What isn't there can't be read.
    if (error != 0) flights_[at(flight.follower)].error = error;
    return;
  }
  flight_of(flight.block, l) = 0;
  if (error == 0) return;
  if (life(l).full()) {
    lose_run(isolate(flight.block));
  } else {
    lose_special(l, flight.block);
  }
}

// The last page of the oldest open ticket has come, or hasn't: those before the first block that was lost are where
// they were to go, that block leaves the index with all that builds on it.
void KvCache::finish_ticket() noexcept {
  const Ticket ticket = tickets_[tickets_done_ % tickets_.size()];
  const auto each = [&](auto visit) {
    for (int32_t f = ticket.first; f != kNone; f = flights_[at(f)].next) visit(flights_[at(f)]);
  };
  berth_kv_ticket record{ticket.number, ticket.pages, 0, 0, 0};
  int32_t lost = kNone;
  each([&](const Flight &flight) {
    if (flight.error == 0) return;
    if (record.failed++ == 0) record.error = flight.error;
    if (lost == kNone && !flight.orphan && life(flight.life_cycle).full()) lost = flight.block;
  });
  // A run that the index has forgotten isn't split: nothing of the ticket is where it was to go then.
  const int32_t lost_run = lost == kNone ? kNone : isolate(lost);
  const bool whole = lost == kNone || tree_->run(lost_run).first == lost;
  bool before = whole;
  each([&](Flight &flight) {
    before = before && flight.block != lost;
    land(flight, life(flight.life_cycle).full() ? before : flight.error == 0);
  });
  for (int32_t run = lost == kNone ? ticket.run : tree_->run(lost_run).parent; whole && run != kNone;) {
    if (tree_->run(run).level > ticket.level) tree_->set_level(run, ticket.level);
    run = tree_->run(run).parent;
  }
  if (lost != kNone) lose_run(lost_run);
  each([&](const Flight &flight) {
    const int32_t l = flight.life_cycle;
    if (life(l).full()) return;
    if (flight.error != 0 && !flight.orphan) lose_special(l, flight.block);
    let_go(l, flight.block, kTails);
  });
  for (int32_t f = ticket.first; f != kNone;) {
    const int32_t next = flights_[at(f)].next;
    free_flights_.put(f, 0);
    f = next;
  }
  ++tickets_done_;
  tree_->unpin(ticket.run, launch_, [&](int32_t block, int32_t run) { free_block(block, run); });
  auto *page = reinterpret_cast<berth_kv_io *>(ticket_page_.data());
  reinterpret_cast<berth_kv_ticket *>(page + 1)[ticket.number % kTickets] = record;
  std::atomic_ref<uint64_t>(page->done).store(ticket.number, std::memory_order_release);
}

// A page on its way up takes its place there, or the place is free again.
void KvCache::land(Flight &flight, bool good) noexcept {
  const int32_t g = group_of(flight.life_cycle);
  const size_t upper = at(flight.level * layout_.groups() + g);
  const size_t lower = at(kDisk * layout_.groups() + g);
  --moving_[upper];
  if (flight.orphan) {
    slots_[upper].put(flight.slot, 0);
    slots_[lower].put(flight.disk, 0);
    --moving_[lower];
    return;
  }
  flight_of(flight.block, flight.life_cycle) = 0;
  if (!good) {
    slots_[upper].put(flight.slot, 0);
    return;
  }
  slots_[lower].put(flight.disk, 0);
  --cached_[lower];
  ++cached_[upper];
  loc(flight.block, flight.life_cycle) = flight.level << kLevelShift | flight.slot;
  emit_level(flight.block, flight.life_cycle, flight.level, kDisk);
}

// ------------------------------------------------------------------------------ losses

// The run that begins with a block, split off if need be; of what the index has forgotten, the run that the block is
// in.
int32_t KvCache::isolate(int32_t block) noexcept {
  const int32_t run = tree_->run_of(block);
  if (tree_->run(run).first == block || tree_->run(run).orphan) return run;
  int32_t offset = 0;
  for (int32_t b = tree_->run(run).first; b != block; b = tree_->next(b)) ++offset;
  tree_->cut({run, offset, 0, kNone});
  return run;
}

// A run and all that builds on it can't be used any more; those who count on it are shorter now.
void KvCache::lose_run(int32_t run) noexcept {
  const bool orphan = tree_->run(run).orphan;
  int32_t above = 0;
  for (int32_t r = tree_->run(run).parent; r != kNone; r = tree_->run(r).parent) above += tree_->run(r).length;
  const auto on_path = [&](int32_t from) {
    while (from != kNone && from != run) from = tree_->run(from).parent;
    return from == run;
  };
  for (int32_t i = 0; i < issued_sequences_; ++i) {
    Sequence &s = sequences_[at(i)];
    if (s.generation % 2 == 0 || s.active || (!on_path(s.tip) && !on_path(s.partial_run))) continue;
    shorten(s, orphan ? 0 : std::min(above, s.in_index));
  }
  if (orphan) return;
  for (int32_t r = run; r != kNone;) {
    counts_.lost += tree_->run(r).length;
    if (tree_->run(r).first_child != kNone) {
      r = tree_->run(r).first_child;
      continue;
    }
    while (r != run && tree_->run(r).next_sibling == kNone) r = tree_->run(r).parent;
    r = r == run ? kNone : tree_->run(r).next_sibling;
  }
  tree_->detach(run, [&](int32_t block, int32_t owner) { free_block(block, owner); });
}

// The same for the page of a window, or a state: the block stays, for those whose windows are elsewhere.
void KvCache::lose_special(int32_t l, int32_t lost) noexcept {
  special(l, lost).bad = true;
  for (int32_t i = 0; i < issued_sequences_; ++i) {
    Sequence &s = sequences_[at(i)];
    if (s.generation % 2 == 0 || s.active || s.in_index == 0) continue;
    bool holds = s.state_block == lost;
    int32_t block = tree_->run(s.tip).last;
    for (int32_t b = s.in_index - 1; b >= 0 && !holds; --b, block = tree_->previous(block)) {
      holds = block == lost && !life(l).state() && pages(s, 0, l)[b] != kNone;
    }
    if (holds) shorten(s, s.in_index);
  }
  if (loc(lost, l) != kNone && special(l, lost).bad && special(l, lost).holds == 0) drop_special(l, lost);
}

// A suspended sequence that can count only on its first so many blocks, and on as many of these as its windows allow,
// is what it would be if it were opened now. What it had beyond is computed again.
void KvCache::shorten(Sequence &s, int32_t blocks) noexcept {
  const bool stored = s.tip != kNone && !tree_->run(s.tip).orphan;
  if (!stored) blocks = 0;
  int32_t run = stored ? s.tip : tree_->make_root(cold(s).scope);
  for (int32_t b = s.in_index; stored && b > blocks; run = tree_->run(run).parent) b -= tree_->run(run).length;
  if (run != kNone) tree_->pin(run);
  PrefixTree::Match match{run, run == kNone ? 0 : tree_->run(run).length, blocks,
                          blocks == 0 ? kNone : tree_->run(run).last};
  empty(s);
  s.beams = 1;
  s.lost = true;
  s.committed = s.history = s.capacity = 0;
  if (run == kNone) {
    s.commit = s.commit == Commit::kStopped ? s.commit : Commit::kVirtualStop;
    return;
  }
  int32_t block = match.last;
  for (int32_t b = blocks - 1; b >= 0; --b, block = tree_->previous(block)) tree_->path()[b] = block;
  accept(s, tree_->shorten(match, usable(match)));
  tree_->unpin(run, launch_, [&](int32_t gone, int32_t owner) { free_block(gone, owner); });
}

// ------------------------------------------------------------------------------ reading

void KvCache::map_transfers(berth_kv_memory &out) noexcept {
  out.io_address = reinterpret_cast<uintptr_t>(ticket_page_.data());
  out.tickets = kTickets;
  out.finished_address = depth_ == 0 ? 0 : reinterpret_cast<uintptr_t>(backend_->finished());
}

// What transfers own and keep; 0, or the number of a broken invariant.
int32_t KvCache::check_transfers(std::vector<uint16_t> &holds, std::vector<int64_t> &moving) const {
  const int32_t groups = layout_.groups();
  int32_t broken = 0;
  int64_t up = 0;
  int64_t down = 0;
  each_flight([&](int32_t number) {
    const Flight &flight = flights_[at(number)];
    const int32_t l = flight.life_cycle;
    ++(flight.level == kDisk ? down : up);
    if (flight.level != kDisk) {
      ++moving[at(flight.level * groups + group_of(l))];
      if (!life(l).full()) ++holds[at(special_of_[at(l)]) * at(config_.index_blocks) + at(flight.block)];
    }
    if (flight.orphan) {
      ++moving[at(kDisk * groups + group_of(l))];
      return;
    }
    if (flight.follower != kNone) return;
    if (flight_of(flight.block, l) != number + 1) broken = 21;
    if (loc(flight.block, l) != (kDisk << kLevelShift | flight.disk)) broken = 22;
  });
  if (depth_ != 0 && (up + down != free_flights_.capacity() - free_flights_.free() || down != writes_)) broken = 23;
  // All of a run's pages are on its level.
  for (int32_t root = tree_ ? tree_->first_root() : kNone; root != kNone; root = tree_->run(root).next_sibling) {
    std::vector<int32_t> todo = {root};
    while (!todo.empty()) {
      const PrefixTree::Run &r = tree_->run(todo.back());
      todo.pop_back();
      for (int32_t c = r.first_child; c != kNone; c = tree_->run(c).next_sibling) todo.push_back(c);
      for (int32_t b = r.length == 0 ? kNone : r.first; b != kNone; b = tree_->next(b)) {
        for (int32_t l = 0; l < life_cycles(); ++l) {
          if (life(l).full() && level_of(loc(b, l)) != r.level) broken = 24;
        }
      }
    }
  }
  return broken;
}

}  // namespace berth
