// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>

#include "fuzz/rank_core_ops.hpp"
#include "test/check.hpp"

using berth::test::Mapped;
using berth::test::small_core;

namespace {

int32_t create(const berth_core_config &config) {
  berth_core_t core = nullptr;
  const int32_t status = berth_core_create(&config, nullptr, nullptr, 0, nullptr, 0, &core);
  if (status == BERTH_OK) CHECK(berth_core_destroy(core) == BERTH_OK);
  CHECK((core != nullptr) == (status == BERTH_OK));
  return status;
}

int32_t create_with(const std::function<void(berth_core_config &)> &change) {
  berth_core_config config = small_core();
  change(config);
  return create(config);
}

int32_t count_of(const Mapped &core, int32_t state) {
  static const int32_t order[] = {-1, 0, 1, 7, 8, 9, 10, 11, 12, 13, 14, 20, 21, 22, 23};
  for (int32_t i = 0; i < 15; ++i) {
    if (order[i] == state) return core.it().state_counts[i];
  }
  return -1;
}

}  // namespace

// ------------------------------------------------------------------------------ arguments

TEST(nullPointersAreRefused) {
  berth_core_config config = small_core();
  berth_core_t core = nullptr;
  CHECK(berth_core_create(nullptr, nullptr, nullptr, 0, nullptr, 0, &core) == BERTH_E_ARGUMENT);
  CHECK(berth_core_create(&config, nullptr, nullptr, 0, nullptr, 0, nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_core_destroy(nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_core_schedule(nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_core_launch(nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_core_settle(nullptr) == BERTH_E_ARGUMENT);
  berth_core_memory memory{};
  memory.struct_size = sizeof memory;
  CHECK(berth_core_map(nullptr, &memory) == BERTH_E_ARGUMENT);
  const Mapped mapped(config);
  CHECK(berth_core_map(mapped.core, nullptr) == BERTH_E_ARGUMENT);
  memory.struct_size -= 8;
  CHECK(berth_core_map(mapped.core, &memory) == BERTH_E_ARGUMENT);
  CHECK(memory.row_address == 0);
  int32_t reason = 7;
  int64_t a = 7;
  int64_t b = 7;
  const int32_t state = BERTH_STATE_CONTEXT_INIT;
  CHECK(berth_core_fits(nullptr, state, 1, 1, &reason, &a, &b) == BERTH_E_ARGUMENT);
  CHECK(berth_core_fits(mapped.core, state, 1, 1, nullptr, &a, &b) == BERTH_E_ARGUMENT);
  CHECK(berth_core_fits(mapped.core, state, 1, 1, &reason, nullptr, &b) == BERTH_E_ARGUMENT);
  CHECK(berth_core_fits(mapped.core, state, 1, 1, &reason, &a, nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_core_fits(mapped.core, state, 0, 1, &reason, &a, &b) == BERTH_E_ARGUMENT);
  CHECK(berth_core_fits(mapped.core, state, 1, 0, &reason, &a, &b) == BERTH_E_ARGUMENT);
  CHECK(berth_core_fits(mapped.core, BERTH_STATE_GENERATION, 1, 1, &reason, &a, &b) == BERTH_E_ARGUMENT);
  CHECK(reason == 7 && a == 7 && b == 7);
}

TEST(everyConfigFieldHasARange) {
  using C = berth_core_config;
  CHECK(create(small_core()) == BERTH_OK);
  const std::vector<std::function<void(C &)>> wrong = {
      [](C &c) { c.struct_size = 0; },
      [](C &c) { c.struct_size = sizeof(C) + 8; },
      [](C &c) { c.rows = 0; },
      [](C &c) { c.rows = (1 << 20) + 1; },
      [](C &c) { c.seats = 0; },
      [](C &c) { c.seats = (1 << 20) + 1; },
      [](C &c) { c.leases = 0; },
      [](C &c) { c.leases = (1 << 20) + 1; },
      [](C &c) { c.reserved_leases = -1; },
      [](C &c) { c.reserved_leases = (1 << 20) + 1; },
      [](C &c) { c.max_batch_size = 0; },
      [](C &c) { c.max_batch_size = (1 << 20) + 1; },
      [](C &c) { c.max_num_tokens = -1; },
      [](C &c) { c.draft_tokens = -1; },
      [](C &c) { c.draft_tokens = 1 << 15; },
      [](C &c) { c.admission_cap = 0; },
      [](C &c) { c.max_resident = 0; },
      [](C &c) { c.range_end = 10; },
      [](C &c) { c.range_end = 21; },
      [](C &c) { c.pending_batches = -1; },
      [](C &c) { c.pending_batches = 65; },
      [](C &c) { c.pending_batches = 2; },  // only a pipeline has more than one
      [](C &c) { c.exclusive_flight = 2; },
      [](C &c) { c.mark_retiring = -1; },
      [](C &c) { c.retiring = -1; },
      [](C &c) { c.retiring = 3; },
      [](C &c) { c.padding = -1; },
      [](C &c) { c.padding = 3; },
      [](C &c) { c.transceiver = 2; },
      [](C &c) { c.chunking = 2; },
      [](C &c) { c.tokens_per_block = 0; },
      [](C &c) { c.policy_set = 2; },
      [](C &c) { c.capacity = BERTH_POLICY_MAX_REQUESTS - 1; },
      [](C &c) { c.capacity = BERTH_POLICY_STATIC_BATCH + 1; },
      [](C &c) { c.one_loop = 2; },
      [](C &c) { c.one_loop = 1, c.capacity = BERTH_POLICY_GUARANTEED_NO_EVICT; },
      [](C &c) { c.one_loop = 1, c.capacity = BERTH_POLICY_MAX_UTILIZATION, c.selects = 1; },
      [](C &c) { c.selects = 2; },
      [](C &c) { c.pause = 2; },
      [](C &c) { c.prefix_sharing = -1; },
      [](C &c) { c.pad_count = -1; },
      [](C &c) { c.pad_count = BERTH_PAD_SCHEDULABLE + 1; },
      [](C &c) { c.sends = 2; },
      [](C &c) { c.max_seq_len = -1; },
      [](C &c) { c.pages = -2; },
  };
  for (const auto &change : wrong) CHECK(create_with(change) == BERTH_E_ARGUMENT);
  CHECK(create_with([](C &c) { c.pages = 0; }) == BERTH_OK);
  CHECK(create_with([](C &c) { c.exclusive_flight = 1, c.pending_batches = 64; }) == BERTH_OK);
}

TEST(aHostileInboxEntryChangesNothing) {
  const Mapped core(small_core());
  core.admit(1, BERTH_STATE_CONTEXT_INIT, 8, 2);
  core.step();
  const std::vector<std::function<void()>> wrong = {
      [&] { core.it().admits = -1; },
      [&] { core.it().admits = core.rows() + 1; },
      [&] { core.it().admits = std::numeric_limits<int32_t>::max(); },
      [&] { core.it().changes = -1; },
      [&] { core.it().changes = core.rows() + 1; },
      [&] { core.admit(2, BERTH_STATE_GENERATION, 8, 2); },
      [&] { core.admit(2, -100, 8, 2); },
      [&] { core.admit(2, BERTH_STATE_CONTEXT_INIT, 0, 2); },
      [&] { core.admit(2, BERTH_STATE_CONTEXT_INIT, 8, 0); },
      [&] { core.admit(2, BERTH_STATE_CONTEXT_INIT, std::numeric_limits<int32_t>::max(), 1); },
      [&] { core.admit(2, BERTH_STATE_CONTEXT_INIT, 8, 2), core.admit(0).load_tokens = -1; },
      [&] { core.admit(2, BERTH_STATE_CONTEXT_INIT, 8, 2), core.admit(0).cached_tokens = 9; },
      [&] { core.admit(2, BERTH_STATE_CONTEXT_INIT, 8, 2), core.admit(0).cached_tokens = -1; },
      [&] { core.admit(2, BERTH_STATE_CONTEXT_INIT, 8, 2), core.admit(0).children = INT32_MIN; },
      [&] { core.change(1, core.rows(), BERTH_CHANGE_CANCEL); },  // the dummy's row
      [&] { core.change(1, -1, BERTH_CHANGE_CANCEL); },
      [&] { core.change(1, std::numeric_limits<int32_t>::max(), BERTH_CHANGE_CANCEL); },
      [&] { core.change(1, 0, 0); },
      [&] { core.change(1, 0, BERTH_CHANGE_ENCODED + 1); },
      [&] { core.admit(2, BERTH_STATE_CONTEXT_INIT, 8, 2), core.admit(0).encoder_tokens = -1; },
      [&] { core.it().dummy_role = 2; },
      [&] { core.it().dummy_role = -1; },
  };
  for (const auto &spoil : wrong) {
    core.it().admits = core.it().changes = core.it().dummy_role = 0;
    core.it().can_queue = core.it().expected = 1;
    spoil();
    const berth_iteration before = core.it();
    const berth_row row = core.row(0);
    CHECK(berth_core_schedule(core.core) == BERTH_E_ARGUMENT);
    CHECK(std::memcmp(&before, &core.it(), sizeof before) == 0);
    CHECK(std::memcmp(&row, &core.row(0), sizeof row) == 0);
  }
  core.it().admits = core.it().changes = core.it().dummy_role = 0;
  core.step();  // and it goes on
  CHECK(core.it().launched == 1);
}

TEST(callsInTheWrongOrderAreRefused) {
  const Mapped core(small_core());
  CHECK(berth_core_launch(core.core) == BERTH_E_STATE);
  CHECK(berth_core_settle(core.core) == BERTH_E_STATE);
  CHECK(berth_core_schedule(core.core) == BERTH_OK);
  CHECK(berth_core_schedule(core.core) == BERTH_E_STATE);
  CHECK(berth_core_settle(core.core) == BERTH_E_STATE);
  CHECK(berth_core_launch(core.core) == BERTH_OK);
  CHECK(berth_core_launch(core.core) == BERTH_E_STATE);
  CHECK(berth_core_schedule(core.core) == BERTH_E_STATE);
  CHECK(berth_core_settle(core.core) == BERTH_OK);
}

TEST(whoSelectsCallsInTwoParts) {
  berth_core_config config = small_core();
  config.selects = 1;
  const Mapped core(config);
  CHECK(berth_core_begin(nullptr) == BERTH_E_ARGUMENT && berth_core_select(nullptr) == BERTH_E_ARGUMENT);
  CHECK(berth_core_schedule(core.core) == BERTH_E_STATE && berth_core_select(core.core) == BERTH_E_STATE);
  CHECK(berth_core_begin(core.core) == BERTH_OK);
  CHECK(berth_core_begin(core.core) == BERTH_E_STATE && berth_core_launch(core.core) == BERTH_E_STATE);
  CHECK(berth_core_select(core.core) == BERTH_OK);
  CHECK(berth_core_select(core.core) == BERTH_E_STATE);
  CHECK(berth_core_launch(core.core) == BERTH_OK && berth_core_settle(core.core) == BERTH_OK);
  berth_table_memory table{};
  CHECK(berth_core_table(core.core, &table) == BERTH_E_ARGUMENT);
  CHECK(berth_core_table(core.core, nullptr) == BERTH_E_ARGUMENT);
  const Mapped other(small_core());
  CHECK(berth_core_begin(other.core) == BERTH_E_STATE && berth_core_select(other.core) == BERTH_E_STATE);
}

TEST(whatCannotBeSelectedIsNamedAndChangesNothing) {
  berth_core_config config = small_core();
  config.selects = 1;
  config.capacity = BERTH_POLICY_MAX_UTILIZATION;
  const Mapped core(config);
  berth_table_memory memory{};
  memory.struct_size = sizeof memory;
  CHECK(berth_core_table(core.core, &memory) == BERTH_OK);
  berth_schedule &plan = *Mapped::at<berth_schedule>(memory.schedule_address);
  int32_t *fitting = Mapped::at<int32_t>(memory.fitting_address);
  int32_t *paused = Mapped::at<int32_t>(memory.paused_address);
  const auto select = [&](std::initializer_list<int32_t> fits, std::initializer_list<int32_t> gives_way) {
    std::copy(fits.begin(), fits.end(), fitting);
    std::copy(gives_way.begin(), gives_way.end(), paused);
    plan.fitting = static_cast<int32_t>(fits.size());
    plan.paused = static_cast<int32_t>(gives_way.size());
    return berth_core_select(core.core);
  };
  core.admit(1, BERTH_STATE_CONTEXT_INIT, 4, 5);
  core.admit(2, BERTH_STATE_CONTEXT_INIT, 4, 5);
  core.it().expected = core.it().can_queue = 1;
  CHECK(berth_core_begin(core.core) == BERTH_OK);
  const auto refused = [&](int32_t status, int32_t row, int32_t field) {
    CHECK(status == BERTH_E_ROW && plan.row == row && plan.field == field);
    CHECK(core.row(0).lease == -1 && core.row(1).lease == -1 && core.it().batch == 0);
  };
  refused(select({0, 9}, {}), 9, BERTH_FIELD_ORDER);
  refused(select({-1}, {}), -1, BERTH_FIELD_ORDER);
  refused(select({3}, {}), 3, BERTH_FIELD_ORDER);  // nobody's
  refused(select({8}, {}), 8, BERTH_FIELD_ORDER);  // the dummy's
  refused(select({0, 0}, {}), 0, BERTH_FIELD_ORDER);
  refused(select({0}, {0}), 0, BERTH_FIELD_ORDER);
  refused(select({}, {1}), 1, BERTH_FIELD_HELD);
  for (const int32_t state : {BERTH_STATE_GENERATION_TRANSFER, BERTH_STATE_RETIRING, BERTH_STATE_COMPLETE}) {
    core.row(0).state = state;
    refused(select({0}, {}), 0, BERTH_FIELD_STATE);
  }
  refused(select({}, {0}), 0, BERTH_FIELD_STATE);
  core.row(0).state = BERTH_STATE_CONTEXT_INIT;
  plan.fitting = 10;
  CHECK(berth_core_select(core.core) == BERTH_E_ARGUMENT);
  plan.fitting = 0;
  plan.paused = -1;
  CHECK(berth_core_select(core.core) == BERTH_E_ARGUMENT);
  CHECK(select({1}, {}) == BERTH_OK);
  CHECK(core.it().batch == 1 && core.row(0).wait_reason == BERTH_WAIT_GATE && core.row(1).seat == 0);
  CHECK(berth_core_launch(core.core) == BERTH_OK && berth_core_settle(core.core) == BERTH_OK);

  CHECK(berth_core_begin(core.core) == BERTH_OK);
  CHECK(select({}, {1}) == BERTH_E_ROW && plan.field == BERTH_FIELD_IN_FLIGHT);  // a launched batch writes its pages
  CHECK(select({0, 1}, {}) == BERTH_OK && core.it().batch == 2);
}

TEST(moreRequestsThanRowsAreExhaustionNotAFault) {
  berth_core_config config = small_core();
  config.rows = 2;
  const Mapped core(config);
  core.admit(1, BERTH_STATE_CONTEXT_INIT, 4, 5);
  core.step();
  core.admit(2, BERTH_STATE_CONTEXT_INIT, 4, 1);
  core.admit(3, BERTH_STATE_CONTEXT_INIT, 4, 1);
  CHECK(berth_core_schedule(core.core) == BERTH_E_EXHAUSTED);
  CHECK(core.it().admits == 2);
  core.it().admits = 1;
  core.step();
  CHECK(core.it().resident == 2);
}

// ------------------------------------------------------------------------------ rules

TEST(lowestRowSeatAndLeaseFirst) {
  const Mapped core(small_core());
  for (uint64_t id = 1; id <= 2; ++id) core.admit(id, BERTH_STATE_CONTEXT_INIT, 4, 3);
  core.step();
  for (int32_t i = 0; i < 2; ++i) {
    CHECK(core.row(i).request_id == static_cast<uint64_t>(i + 1));
    CHECK(core.row(i).seat == i && core.row(i).lease == i);
  }
}

TEST(theReservedLeaseIsTheDummysAndNobodyElses) {
  const Mapped core(small_core());
  const berth_row &dummy = core.row(core.rows());
  CHECK(dummy.lease == 4 && dummy.seat == 4 && (dummy.flags & BERTH_ROW_DUMMY) != 0);
  for (uint64_t id = 1; id <= 8; ++id) core.admit(id, BERTH_STATE_CONTEXT_INIT, 4, 1);
  for (int32_t i = 0; i < 8; ++i) {
    core.step();
    for (int32_t row = 0; row < core.rows(); ++row) CHECK(core.row(row).lease < 4 && core.row(row).seat < 4);
  }
}

TEST(aRequestRetiresForOneIterationAndIsThenGone) {
  const Mapped core(small_core());
  core.admit(1, BERTH_STATE_CONTEXT_INIT, 4, 1);
  core.step();
  CHECK(core.it().routable == 0 && core.it().retiring == 1 && count_of(core, BERTH_STATE_RETIRING) == 1);
  CHECK(core.it().seats_used == 1 && core.it().done == 0);
  core.step(0);
  CHECK(core.it().done == 1 && core.done(0).request_id == 1 && core.done(0).kind == BERTH_END_FINISHED);
  CHECK(core.it().seats_used == 0 && core.it().retiring == 0);
}

TEST(aVetoGivesEverythingBackAndLaterGrantsTheSame) {
  berth_core_config config = small_core();
  config.pages = 4;
  const Mapped core(config);
  core.admit(1, BERTH_STATE_CONTEXT_INIT, 8, 2);
  for (int32_t i = 0; i < 100; ++i) {
    core.step(1, false);
    CHECK(core.it().batch == 1 && core.it().seats_used == 0 && core.it().leases_used == 0);
    CHECK(core.it().pages_used == 0 && core.row(0).context_cursor == 0 && core.row(0).in_flight == 0);
  }
  core.step();
  CHECK(core.it().pages_used == 3 && core.row(0).context_cursor == 8);
}

TEST(nobodyWaitsWhileHolding) {
  berth_core_config config = small_core();
  config.seats = 1;
  const Mapped core(config);
  core.admit(1, BERTH_STATE_CONTEXT_INIT, 4, 3);
  core.admit(2, BERTH_STATE_CONTEXT_INIT, 4, 3);
  core.step();
  CHECK(core.it().deferred[BERTH_WAIT_SEAT] == 1);
  CHECK(core.it().leases_used == 1 && core.row(1).lease == -1 && core.cold(1).pages == 0);
  CHECK(core.cold(1).deferrals == 1 && core.row(1).wait_reason == BERTH_WAIT_SEAT);
}

TEST(whoStandsBehindAHeadThatLacksPagesWaitsForPagesToo) {
  berth_core_config config = small_core();
  config.max_batch_size = config.admission_cap = 3;
  config.pages = 6;
  const Mapped core(config);
  core.admit(1, BERTH_STATE_CONTEXT_INIT, 12, 4);  // 4 pages
  core.admit(2, BERTH_STATE_CONTEXT_INIT, 12, 4);  // 4 pages: must wait
  core.admit(3, BERTH_STATE_CONTEXT_INIT, 2, 1);   // 1 page: keeps its place behind the head
  core.step();
  CHECK(core.it().batch == 1 && core.it().deferred[BERTH_WAIT_PAGES] == 2);
  CHECK(core.it().deferred[BERTH_WAIT_TOKENS] == 0 && core.row(2).wait_reason == BERTH_WAIT_PAGES);
}

TEST(aStaticBatchLetsNobodyInWhileSomebodyRuns) {
  for (const int32_t policy : {BERTH_POLICY_GUARANTEED_NO_EVICT, BERTH_POLICY_STATIC_BATCH}) {
    berth_core_config config = small_core();
    config.max_batch_size = config.admission_cap = 2;
    config.capacity = policy;
    const Mapped core(config);
    core.admit(1, BERTH_STATE_CONTEXT_INIT, 4, 5);
    core.step();
    core.admit(2, BERTH_STATE_CONTEXT_INIT, 4, 5);
    core.step();
    const bool alone = policy == BERTH_POLICY_STATIC_BATCH;
    CHECK(core.it().contexts == (alone ? 0 : 1));
    CHECK(core.it().deferred[BERTH_WAIT_BATCH] == (alone ? 1 : 0));
  }
}

TEST(tokensOfABatchNeverPassAnInt) {
  berth_core_config config = small_core();
  config.chunking = BERTH_CHUNK_NONE;
  const Mapped core(config);
  const int32_t huge = 1500000000;
  core.admit(1, BERTH_STATE_CONTEXT_INIT, huge, 1);
  core.admit(2, BERTH_STATE_CONTEXT_INIT, huge, 1);
  core.step();
  CHECK(core.it().batch == 1 && core.it().batch_tokens == huge);
  CHECK(core.it().deferred[BERTH_WAIT_TOKENS] == 1);
  core.step();
  CHECK(core.it().batch == 1 && core.it().batch_tokens == huge);
}

TEST(whatCanNeverFitIsNamed) {
  berth_core_config config = small_core();
  config.pages = 10;
  config.max_num_tokens = 30;
  const Mapped core(config);
  int32_t reason = -1;
  int64_t required = -1;
  int64_t available = -1;
  const auto fits = [&](int32_t state, int32_t prompt, int32_t max_new) {
    CHECK(berth_core_fits(core.core, state, prompt, max_new, &reason, &required, &available) == BERTH_OK);
    return reason;
  };
  CHECK(fits(BERTH_STATE_CONTEXT_INIT, 30, 10) == BERTH_WAIT_NONE && required == 0 && available == 0);
  CHECK(fits(BERTH_STATE_CONTEXT_INIT, 31, 1) == BERTH_WAIT_TOKENS && required == 31 && available == 30);
  CHECK(fits(BERTH_STATE_CONTEXT_INIT, 30, 11) == BERTH_WAIT_PAGES && required == 11 && available == 10);
  CHECK(fits(BERTH_STATE_GENERATION_INIT, 36, 4) == BERTH_WAIT_NONE);
  CHECK(fits(BERTH_STATE_GENERATION_INIT, 36, 5) == BERTH_WAIT_PAGES && required == 11);
  const int32_t most = std::numeric_limits<int32_t>::max();
  CHECK(fits(BERTH_STATE_GENERATION_INIT, most, most) == BERTH_WAIT_TOKENS && required == 2 * int64_t{most});
  CHECK(available == most);
}

TEST(aSequenceLongerThanTheLongestCanNeverFit) {
  berth_core_config config = small_core();
  config.max_seq_len = 20;
  const Mapped core(config);
  int32_t reason = -1;
  int64_t required = -1;
  int64_t available = -1;
  CHECK(berth_core_fits(core.core, BERTH_STATE_CONTEXT_INIT, 15, 5, &reason, &required, &available) == BERTH_OK);
  CHECK(reason == BERTH_WAIT_NONE);
  CHECK(berth_core_fits(core.core, BERTH_STATE_CONTEXT_INIT, 15, 6, &reason, &required, &available) == BERTH_OK);
  CHECK(reason == BERTH_WAIT_TOKENS && required == 21 && available == 20);
}

TEST(aCancelOfARunningRequestComesBackWithItsLastFlight) {
  const Mapped core(small_core());
  core.admit(1, BERTH_STATE_CONTEXT_INIT, 4, 9);
  core.step();
  core.change(1, 0, BERTH_CHANGE_CANCEL);
  core.it().can_queue = core.it().expected = 1;
  CHECK(berth_core_schedule(core.core) == BERTH_OK);
  CHECK(core.it().done == 0 && core.it().real == 0);  // not scheduled again, and still held
  CHECK(core.row(0).seat == 0);
  CHECK(berth_core_launch(core.core) == BERTH_OK);
  CHECK(berth_core_settle(core.core) == BERTH_OK);
  CHECK(core.it().done == 1 && core.done(0).kind == BERTH_END_CANCELLED && core.it().seats_used == 0);
}

TEST(pagesOfATransferStayUntilItIsOver) {
  berth_core_config config = small_core();
  config.transceiver = 1;
  config.pages = 4;
  for (const int32_t over : {BERTH_CHANGE_ARRIVED, BERTH_CHANGE_FAILED}) {
    const Mapped core(config);
    core.admit(1, BERTH_STATE_GENERATION_INIT, 12, 4);
    core.step();
    CHECK(core.it().receives == 1 && core.receive(0) == 0 && core.it().pages_used == 4 && core.it().seats_used == 0);
    core.change(1, 0, BERTH_CHANGE_CANCEL);
    core.admit(2, BERTH_STATE_GENERATION_INIT, 2, 1);
    core.step();
    CHECK(core.it().done == 0 && core.it().pages_used == 4 && core.it().deferred[BERTH_WAIT_PAGES] == 1);
    core.change(1, 0, over);
    core.step();
    CHECK(core.it().done == 1 && core.done(0).kind == BERTH_END_CANCELLED);
    CHECK(core.it().receives == 1 && core.it().pages_used == 1);  // the other one's
  }
}

TEST(placesThatTheSameInboxFreesCantBeTakenByIt) {
  berth_core_config config = small_core();
  config.rows = config.seats = config.leases = config.max_batch_size = config.admission_cap = 4;
  config.pending_batches = config.mark_retiring = 0;
  const Mapped core(config);
  for (uint64_t id = 1; id <= 4; ++id) core.admit(id, BERTH_STATE_CONTEXT_INIT, 4, 9);
  core.step();
  for (int32_t row = 0; row < 4; ++row) core.change(static_cast<uint64_t>(row) + 1, row, BERTH_CHANGE_CANCEL);
  for (uint64_t id = 5; id <= 8; ++id) core.admit(id, BERTH_STATE_CONTEXT_INIT, 4, 1);
  core.it().can_queue = 1;
  CHECK(berth_core_schedule(core.core) == BERTH_E_EXHAUSTED);  // places that the same inbox frees aren't free yet
  core.it().admits = 0;
  core.step();
  CHECK(core.it().done == 4);
  for (uint64_t id = 5; id <= 8; ++id) core.admit(id, BERTH_STATE_CONTEXT_INIT, 4, 1);
  core.step();
  CHECK(core.it().done == 4 && core.it().seats_used == 0);
}

TEST(aStoppedRowInALaterFlightGoesBackOnce) {
  const Mapped core(small_core());
  core.admit(1, BERTH_STATE_CONTEXT_INIT, 4, 9);
  core.step();
  core.it().can_queue = core.it().expected = 1;
  CHECK(berth_core_schedule(core.core) == BERTH_OK);
  CHECK(berth_core_launch(core.core) == BERTH_OK);
  CHECK(core.it().due == 1 && core.row(0).in_flight == 2);
  core.result(core.it().due_slot, 0) = 1;
  CHECK(berth_core_settle(core.core) == BERTH_OK);
  CHECK(core.it().done == 0 && core.it().routable == 0 && core.it().retiring == 1 && core.it().seats_used == 1);
  core.step(0);
  CHECK(core.it().done == 1 && core.done(0).generated_tokens == 1 && core.it().seats_used == 0);
}

// ------------------------------------------------------------------------------ at random

// BERTH_SEED replays, BERTH_DEEP=1 runs a hundred times as long.
TEST(randomRunsKeepEveryInvariant) {
  const char *seed_text = std::getenv("BERTH_SEED");
  const char *deep = std::getenv("BERTH_DEEP");
  const uint64_t seed = seed_text ? std::strtoull(seed_text, nullptr, 10) : 20261130;
  std::printf("BERTH_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const int32_t runs = deep && *deep == '1' ? 200000 : 2000;
  std::mt19937_64 random(seed);
  uint64_t requests = 0;
  std::vector<uint8_t> bytes;
  for (int32_t run = 0; run < runs; ++run) {
    bytes.resize(64 + random() % 3000);
    for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(random());
    berth::test::Ops ops(bytes.data(), bytes.size());
    ops.run();
    requests += ops.requests();
  }
  CHECK(requests > static_cast<uint64_t>(runs) * 20);
}

TEST_MAIN

// ------------------------------------------------------------------------------ padding, gates, encoders

// Spec 06 BC-05, one rank's side: refused, empty, then granted when a page is free.
TEST(aDummyTakesItsPagesOrIsRefused) {
  berth_core_config config = small_core();
  config.transceiver = 1;
  config.pad_count = BERTH_PAD_KV_HERE;
  config.draft_tokens = 4;
  config.pages = 4;
  const Mapped core(config);
  core.admit(1, BERTH_STATE_GENERATION_INIT, 7, 1);  // 12 tokens with drafts: 3 pages
  core.step(1);
  CHECK(core.it().padded == 0 && core.it().pad_short == 1 && core.it().batch == 0);  // 1 and 4 drafts: 2 pages
  CHECK(core.it().receives == 1 && core.it().launched == 0);
  core.it().dummy_role = BERTH_DUMMY_CONTEXT;  // a page
  core.step(1);
  CHECK(core.it().padded == 1 && core.it().pad_short == 0 && core.it().batch == 1 && core.it().launched == 1);
  CHECK(core.it().pages_used == 3);  // back after its forward
}

TEST(whatCountsAsWorkKeepsADummyAway) {
  for (const int32_t count : {BERTH_PAD_ACTIVE, BERTH_PAD_KV_HERE, BERTH_PAD_SCHEDULABLE}) {
    berth_core_config config = small_core();
    config.transceiver = 1;
    config.padding = BERTH_PAD_BEFORE;
    config.pad_count = count;
    const Mapped core(config);
    core.admit(1, BERTH_STATE_GENERATION_INIT, 8, 4);
    core.step(1);
    CHECK(core.it().padded == (count == BERTH_PAD_ACTIVE ? 0 : 1));
    core.change(1, 7, BERTH_CHANGE_CANCEL);  // another row: stale
    core.change(1, core.receive(0), BERTH_CHANGE_ARRIVED);
    core.step(1);
    CHECK(core.it().padded == 0 && core.it().real == 1);
    core.step(1);
    core.step(1);  // retiring
    core.step(1);
    CHECK(core.it().padded == (count == BERTH_PAD_SCHEDULABLE ? 1 : 0));
  }
}

// One place, one seat: whatever the order in which readers come back, who has the seat and who has the place are one.
// Spec 01 section 1, states 21 and 22: no seat, and lease and pages until the KV has been taken.
TEST(whoHasFinishedKeepsItsPagesUntilTheyAreSent) {
  for (const int32_t end : {BERTH_CHANGE_ARRIVED, BERTH_CHANGE_FAILED, BERTH_CHANGE_CANCEL}) {
    berth_core_config config = small_core();
    config.sends = 1;
    config.pages = 10;
    config.padding = BERTH_PAD_BEFORE;
    const Mapped core(config);
    core.admit(1, BERTH_STATE_CONTEXT_INIT, 12, 1);
    core.step();
    CHECK(core.it().sends == 0 && core.row(0).state == BERTH_STATE_RETIRING && core.it().seats_used == 1);
    core.step();
    CHECK(core.it().sends == 1 && core.it().done == 0);
    CHECK(Mapped::at<int32_t>(core.memory.send_address)[0] == 0);
    CHECK(core.row(0).state == BERTH_STATE_CONTEXT_TRANSFER && core.row(0).generated_tokens == 1);
    CHECK(core.it().seats_used == 0 && core.it().leases_used == 1 && core.it().pages_used >= 3);
    CHECK(core.it().routable == 1 && core.it().retiring == 0);  // load as any other
    core.step();
    CHECK(core.it().sends == 0 && core.it().padded == 1);  // no work that a forward could run
    CHECK(core.it().deferred[BERTH_WAIT_TRANSFER] == 1);
    core.change(1, 0, BERTH_CHANGE_CANCEL);
    core.step();
    CHECK(core.it().done == 0 && core.it().leases_used == 1);  // somebody may be reading
    if (end != BERTH_CHANGE_CANCEL) core.change(1, 0, end);
    if (end == BERTH_CHANGE_CANCEL) core.change(1, 0, BERTH_CHANGE_ARRIVED);
    core.step();
    CHECK(core.it().done == 1 && core.done(0).kind == BERTH_END_CANCELLED);
    CHECK(core.it().leases_used == 0 && core.it().pages_used == 0);
  }
  for (const int32_t end : {BERTH_CHANGE_ARRIVED, BERTH_CHANGE_FAILED}) {
    berth_core_config config = small_core();
    config.sends = 1;
    config.pending_batches = 0;
    const Mapped core(config);
    core.admit(1, BERTH_STATE_CONTEXT_INIT, 12, 1);
    core.step();
    CHECK(core.it().sends == 1);
    core.change(1, 0, end);
    core.step();
    CHECK(core.it().done == 1 && core.done(0).generated_tokens == 1);
    CHECK(core.done(0).kind == (end == BERTH_CHANGE_ARRIVED ? BERTH_END_FINISHED : BERTH_END_FAILED));
    core.change(1, 0, end);
    core.step();
    CHECK(core.it().stale_changes == 1);
  }
}

TEST(aPlaceAndASeatNeverWaitForEachOther) {
  for (const int32_t capacity : {BERTH_POLICY_GUARANTEED_NO_EVICT, BERTH_POLICY_MAX_UTILIZATION}) {
    for (const bool held_in_transfer : {true, false}) {
      berth_core_config config = small_core();
      config.policy_set = BERTH_SET_BERTH;
      config.capacity = capacity;
      config.transceiver = 1;
      config.pending_batches = 0;
      config.seats = config.max_batch_size = config.max_resident = 1;
      config.pages = 20;
      const Mapped core(config);
      core.admit(1, BERTH_STATE_CONTEXT_INIT, 4, 3);  // keeps the next one from being received at once
      core.step();
      core.admit(2, BERTH_STATE_GENERATION_INIT, 8, 3);
      core.step();
      int32_t row = 0;
      while (core.row(row).request_id != 2) ++row;
      if (held_in_transfer) {
        while (core.row(row).state == BERTH_STATE_GENERATION_INIT) core.step();
        core.change(2, row, BERTH_CHANGE_ARRIVED);
      }
      core.change(2, row, BERTH_CHANGE_HOLD);
      core.admit(3, BERTH_STATE_CONTEXT_INIT, 4, 20);
      for (int32_t i = 0; i < 8; ++i) core.step();
      CHECK(core.it().routable == 2);
      CHECK(core.it().leases_used == 1);  // of the one held, or of the one behind it
      core.change(2, row, BERTH_CHANGE_RESUME);
      int32_t ended = 0;
      for (int32_t i = 0; i < 80 && ended < 2; ++i) {
        core.step();
        CHECK(core.it().leases_used <= 1);
        for (int32_t k = 0; k < core.it().receives; ++k) core.change(2, row, BERTH_CHANGE_ARRIVED);
        ended += core.it().done;
      }
      CHECK(ended == 2);
    }
  }
}

TEST(aRankIsStuckWhenNobodyWhoHoldsPagesCanEnd) {
  berth_core_config config = small_core();
  config.max_batch_size = config.admission_cap = config.max_resident = 4;
  config.transceiver = 1;
  config.pad_count = BERTH_PAD_KV_HERE;
  config.pages = 4;
  const Mapped core(config);
  core.admit(1, BERTH_STATE_GENERATION_INIT, 12, 2);  // all pages
  core.admit(2, BERTH_STATE_GENERATION_INIT, 8, 2);
  core.it().filling = core.it().held = 1;
  core.step();
  CHECK(core.it().stuck == 0);  // one began
  core.step();
  CHECK(core.it().stuck == 0);  // and is on its way
  core.change(1, 7, BERTH_CHANGE_ARRIVED);
  core.change(1, core.row(0).request_id == 1 ? 0 : 1, BERTH_CHANGE_ARRIVED);
  core.step();
  CHECK(core.it().stuck == 1);  // held, it never ends
  core.it().filling = core.it().held = 0;
  core.step();
  CHECK(core.it().stuck == 0);  // it runs
  core.step();
  CHECK(core.it().stuck == 0);  // and retires
}

TEST(heldContextsLeaveTheBatchAndGiveBackWhatTheyTook) {
  berth_core_config config = small_core();
  config.max_batch_size = config.admission_cap = config.max_resident = 4;
  config.pages = 20;
  const Mapped core(config);
  core.admit(1, BERTH_STATE_CONTEXT_INIT, 8, 6);
  core.step();
  const int64_t pages = core.it().pages_used;
  core.admit(2, BERTH_STATE_CONTEXT_INIT, 5, 6);
  core.it().expected = core.it().can_queue = core.it().contexts_held = 1;
  CHECK(berth_core_schedule(core.core) == BERTH_OK);
  CHECK(core.it().contexts == 1 && core.it().batch == 2 && core.it().batch_tokens == 6);
  CHECK(berth_core_launch(core.core) == BERTH_OK);
  CHECK(core.it().contexts == 0 && core.it().batch == 1 && core.it().real == 1 && core.it().batch_tokens == 1);
  CHECK(core.it().launched == 1 && core.it().deferred[BERTH_WAIT_GATE] == 1);
  CHECK(berth_core_settle(core.core) == BERTH_OK);
  CHECK(core.it().seats_used == 1 && core.it().leases_used == 1 && core.it().pages_used == pages);
  core.it().contexts_held = 0;
  core.step();
  CHECK(core.it().contexts == 1 && core.it().batch == 2 && core.it().seats_used == 2);
}

TEST(aContextWaitsForItsEncoder) {
  const Mapped core(small_core());
  core.admit(1, BERTH_STATE_CONTEXT_INIT, 8, 2);
  core.admit(0).encoder_tokens = 30;
  core.admit(2, BERTH_STATE_CONTEXT_INIT, 8, 2);
  core.admit(1).encoder_tokens = 12;
  core.step();
  CHECK(core.it().encoder_items == 2 && core.it().encoder_tokens == 42 && core.it().encodes == 0);
  CHECK(core.it().real == 0 && core.it().deferred[BERTH_WAIT_ENCODER] == 2);
  core.change(2, 1, BERTH_CHANGE_CANCEL);
  core.change(1, 0, BERTH_CHANGE_ENCODED);  // nobody runs it yet
  core.it().encode = 1;
  core.step();
  CHECK(core.it().stale_changes == 1 && core.it().encoder_items == 1 && core.it().encodes == 1);
  CHECK(core.row(0).flags & BERTH_ROW_ENCODER_RUNNING);
  core.step();
  CHECK(core.it().encoder_items == 0 && core.it().encodes == 0 && core.it().real == 0);
  core.change(1, 0, BERTH_CHANGE_ENCODED);
  core.step();
  CHECK(core.it().real == 1 && core.it().contexts == 1);
}
