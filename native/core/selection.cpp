// SPDX-License-Identifier: Apache-2.0
#include "core/selection.hpp"

#include <algorithm>

#include "core/batch_pass.hpp"

namespace berth {

namespace {

class SelectionPass {
 public:
  SelectionPass(Table &table, const berth_rules &rules, SeatGate &gate)
      : t_(table), rules_(rules), gate_(gate), plan_(table.schedule), batch_(table, rules, &gate) {}

  Status check();
  Status run();

 private:
  bool in_range(const berth_row &row) const {
    return row.state >= rules_.range_begin && row.state < rules_.range_end && !awaits_encoder(row);
  }
  bool once(int32_t index) {
    if (!t_.sound(index) || t_.row_epoch[index] != in_order_) return false;
    t_.row_epoch[index] = t_.epoch;
    return true;
  }
  void offer(int32_t index);
  void leave_out(int32_t index);

  Table &t_;
  const berth_rules &rules_;
  SeatGate &gate_;
  berth_schedule &plan_;
  BatchPass batch_;
  uint64_t in_order_ = 0;  // stamp of a row of the order that nobody selected
  int32_t selected_ = 0, paused_ = 0;
  int32_t fitting_ = 0, admitted_ = 0;
  int64_t used_[kMaxPools] = {};  // of the pages that were free, by who goes on or comes in
  int64_t free_[kMaxPools] = {};
};

// Works on copies: what was checked is what is carried out, whoever holds the table's memory.
Status SelectionPass::check() {
  const int32_t rows = static_cast<int32_t>(t_.rows.size());
  selected_ = plan_.fitting;
  paused_ = plan_.paused;
  if (selected_ < 0 || paused_ < 0 || selected_ > rows || paused_ > rows) return Status::kArgument;
  std::copy_n(t_.fitting.begin(), selected_, t_.list_a.begin());
  std::copy_n(t_.paused.begin(), paused_, t_.list_b.begin());

  in_order_ = t_.epoch;
  for (int32_t i = 0; i < plan_.active; ++i) {
    if (!t_.sound(t_.active[i])) return t_.unsound(t_.active[i]);
    t_.row_epoch[t_.active[i]] = in_order_;
    // What is on the way will want its place.
    if (rules_.set == BERTH_SET_BERTH && t_.rows[t_.active[i]].state == BERTH_STATE_GENERATION_TRANSFER) ++admitted_;
  }
  ++t_.epoch;
  for (int32_t k = 0; k < selected_; ++k) {
    const int32_t index = t_.list_a[k];
    if (!once(index)) return t_.refuse(index, BERTH_FIELD_ORDER);
    const berth_row &row = t_.rows[index];
    const bool kind = is_context(row.state) || is_generation(row.state);
    if (row.state != BERTH_STATE_GENERATION_INIT && !(kind && in_range(row))) {
      return t_.refuse(index, BERTH_FIELD_STATE);
    }
  }
  for (int32_t k = 0; k < paused_; ++k) {
    const int32_t index = t_.list_b[k];
    if (!once(index)) return t_.refuse(index, BERTH_FIELD_ORDER);
    const berth_row &row = t_.rows[index];
    if (!is_context(row.state) && !is_generation(row.state)) return t_.refuse(index, BERTH_FIELD_STATE);
    if (row.in_flight > 0) return t_.refuse(index, BERTH_FIELD_IN_FLIGHT);
    if (row.lease < 0 || (row.flags & BERTH_ROW_STAYS)) return t_.refuse(index, BERTH_FIELD_HELD);
  }
  return Status::kOk;
}

Status SelectionPass::run() {
  const int32_t pools = static_cast<int32_t>(t_.pools.size());
  plan_.receiving = 0;
  for (int32_t p = 0; p < pools; ++p) free_[p] = t_.pools[p].free;
  for (int32_t k = 0; k < paused_; ++k) {
    int64_t freed[kMaxPools] = {};
    gate_.pause(t_.list_b[k], freed);
    for (int32_t p = 0; p < pools; ++p) free_[p] += freed[p];
  }
  for (int32_t k = 0; k < selected_; ++k) offer(t_.list_a[k]);
  plan_.fitting = fitting_;
  const Status status = batch_.finish();
  for (int32_t i = 0; i < plan_.active; ++i) {
    if (t_.row_epoch[t_.active[i]] == in_order_) leave_out(t_.active[i]);
  }
  for (int32_t k = 0; k < paused_; ++k) leave_out(t_.list_b[k]);
  return status;
}

void SelectionPass::offer(int32_t index) {
  berth_row &row = t_.rows[index];
  if (admitted_ >= rules_.max_requests - t_.set_aside) return t_.wait(row, BERTH_WAIT_BATCH);
  if (row.lease < 0) {
    if (const int32_t kept_out = gate_.look(index); kept_out != BERTH_WAIT_NONE) return t_.wait(row, kept_out);
  }
  const int32_t pools = static_cast<int32_t>(t_.pools.size());
  int64_t need[kMaxPools] = {};
  for (int32_t p = 0; p < pools; ++p) {
    need[p] = t_.demands(index)[p].one_step;
    if (need[p] > 0 && used_[p] + need[p] > free_[p]) return t_.wait(row, BERTH_WAIT_PAGES | p << 8);
  }
  if (row.state == BERTH_STATE_GENERATION_INIT) {
    if (row.lease < 0) {
      if (const int32_t reason = gate_.take(index); reason != BERTH_WAIT_NONE) return t_.wait(row, reason);
    }
    Table::runs(row);
    t_.receiving[plan_.receiving++] = index;
  } else {
    if (!batch_.offer(index, row) && row.lease < 0) return;
    t_.fitting[fitting_++] = index;
  }
  ++admitted_;
  for (int32_t p = 0; p < pools; ++p) used_[p] += need[p];
}

// Who was left out waits for what its row says, if that is a reason.
void SelectionPass::leave_out(int32_t index) {
  berth_row &row = t_.rows[index];
  const int32_t kind = row.wait_reason & 0xff;
  const int32_t pool = row.wait_reason >> 8;
  const bool inside = row.state == BERTH_STATE_GENERATION_INIT || in_range(row);
  const bool reason = kind > BERTH_WAIT_NONE && kind < BERTH_WAIT_REASONS && pool >= 0 &&
                      pool < (kind == BERTH_WAIT_PAGES ? static_cast<int32_t>(t_.pools.size()) : 1);
  if (inside) {
    t_.wait(row, reason ? static_cast<int32_t>(row.wait_reason) : static_cast<int32_t>(BERTH_WAIT_GATE));
  } else {
    t_.wait(row, Table::outside_reason(row));
  }
}

}  // namespace

void begin_selection(Table &table, const berth_rules &rules, SeatGate &gate) {
  table.schedule.fitting = table.schedule.receiving = table.schedule.paused = 0;
  for (int32_t i = 0; i < table.schedule.active; ++i) {
    const int32_t index = table.active[i];
    berth_row &row = table.rows[index];
    const bool inside = row.state == BERTH_STATE_GENERATION_INIT ||
                        (row.state >= rules.range_begin && row.state < rules.range_end && !awaits_encoder(row));
    const int32_t reason = inside ? static_cast<int32_t>(BERTH_WAIT_GATE) : Table::outside_reason(row);
    row.wait_reason = static_cast<int16_t>(reason);
    if (row.lease < 0) gate.look(index);
  }
}

Status run_selection(Table &table, const berth_rules &rules, SeatGate &gate) {
  table.begin_pass();
  SelectionPass pass(table, rules, gate);
  const Status status = pass.check();
  return status == Status::kOk ? pass.run() : status;
}

}  // namespace berth
