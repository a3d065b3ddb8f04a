// SPDX-License-Identifier: Apache-2.0
#include <new>

#include "berth/berth.h"
#include "core/table.hpp"

static_assert(sizeof(berth_side_row) == 64 && sizeof(berth_demand) == 16 && sizeof(berth_pick) == 16);
static_assert(static_cast<int32_t>(berth::Status::kRow) == BERTH_E_ROW);

struct berth_table {
  berth_table(const berth_table_config &config, const berth_pool *pools) : table(config, pools, config.rows) {}
  berth::Table table;
};

extern "C" {

int32_t berth_table_create(const berth_table_config *config, const berth_pool *pools, berth_table_t *out) {
  if (!config || !out || !berth::Table::valid(*config, pools)) return BERTH_E_ARGUMENT;
  try {
    *out = new berth_table(*config, pools);
  } catch (const std::bad_alloc &) {
    return BERTH_E_MEMORY;
  }
  return BERTH_OK;
}

int32_t berth_table_destroy(berth_table_t table) {
  if (!table) return BERTH_E_ARGUMENT;
  delete table;
  return BERTH_OK;
}

int32_t berth_table_map(berth_table_t table, berth_table_memory *out) {
  if (!table || !out || out->struct_size != sizeof(berth_table_memory)) return BERTH_E_ARGUMENT;
  table->table.map(*out);
  return BERTH_OK;
}

int32_t berth_table_check(berth_table_t table, const int32_t *rows, int32_t n) {
  if (!table || n < 0 || (n > 0 && !rows)) return BERTH_E_ARGUMENT;
  return static_cast<int32_t>(table->table.check(rows, n));
}

int32_t berth_rules_check(berth_table_t table, const berth_rules *rules, int32_t *rule) {
  if (!table || !rules || !rule || rules->struct_size != sizeof(berth_rules)) return BERTH_E_ARGUMENT;
  *rule = table->table.rule_defect(*rules);
  return *rule == 0 ? BERTH_OK : BERTH_E_ARGUMENT;
}

int32_t berth_table_schedule(berth_table_t table, const berth_rules *rules) {
  return table && rules ? static_cast<int32_t>(table->table.run(*rules)) : BERTH_E_ARGUMENT;
}

int32_t berth_table_pause(berth_table_t table, int32_t row, int32_t max_input) {
  return table ? static_cast<int32_t>(table->table.pause(row, max_input)) : BERTH_E_ARGUMENT;
}
}
