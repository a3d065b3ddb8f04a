// SPDX-License-Identifier: Apache-2.0
// The batch stage as a sink: rows are offered one by one, in scheduling order, by the stage before or from a list.
#pragma once
#include <limits>

#include "core/table.hpp"

namespace berth {

class BatchPass {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int32_t>::max();

  // A generation of the range and of this beam width, not in flight, while places and tokens last, simply runs: a loop
  // over such needs no more than this. out: where the next one goes.
  struct Plain {
    int32_t range_begin = 0, range_end = 0;
    int32_t beam = 0;
    int32_t places = 0;
    int64_t tokens = 0, max_tokens = 0;
    int32_t *out = nullptr;
  };
  Plain plain() const {
    return Plain{rules_.range_begin,
                 rules_.batch_range_end,
                 beam_,
                 stopped_ == BERTH_WAIT_NONE ? rules_.max_batch_size - places_ : 0,
                 tokens_,
                 max_tokens_,
                 t_.generations.data() + generations_};
  }
  void took_plain(int32_t taken, int64_t tokens) {
    generations_ += taken;
    tokens_ = tokens;
    if (taken > 0) place(taken);
  }

  BatchPass(Table &table, const berth_rules &rules, SeatGate *gate = nullptr)
      : t_(table),
        gate_(gate),
        rules_(rules),
        own_(rules.set == BERTH_SET_BERTH),
        chunked_(rules.chunking != BERTH_CHUNK_NONE),
        max_tokens_(rules.max_num_tokens > 0 ? rules.max_num_tokens : kNoLimit),
        max_context_(rules.max_context_tokens > 0 ? rules.max_context_tokens : kNoLimit) {}

  // The next row in scheduling order. False: there is no seat or lease for it.
  bool offer(int32_t index, berth_row &row) {
    refused_ = false;
    consider(index, row);
    return !refused_;
  }
  Status finish();
  // Why the batch has no room for a further context; NONE: it may have. Contexts that are chunked in order and to the
  // token leave nothing behind; with larger units a shorter one may find a rest.
  int32_t closed_by() const {
    if (stopped_ != BERTH_WAIT_NONE || rules_.chunking != BERTH_CHUNK_FCFS || rules_.chunk_unit > 1) return stopped_;
    return tokens_ + chunk_cost_ >= max_tokens_ ? BERTH_WAIT_TOKENS : BERTH_WAIT_NONE;
  }
  // Why this context would not get into the batch as it is now; NONE: it might.
  int32_t keeps_out(int32_t index, const berth_row &row) const {
    if (stopped_ == BERTH_WAIT_NONE && !chunked_ && tokens_ + whole_cost(index, row) > max_tokens_) {
      return BERTH_WAIT_TOKENS;
    }
    return closed_by();
  }
  // Could it not run in an empty batch either?
  bool hopeless(int32_t index, const berth_row &row) const;

 private:
  // D7: state 11 is a context.
  bool context(int32_t state) const {
    return state == BERTH_STATE_CONTEXT_INIT || (own_ && state == BERTH_STATE_CONTEXT_INIT_AND_TRANSFER);
  }
  int64_t reuse(int32_t index) const {
    const berth_row &row = t_.rows[index];
    return row.context_cursor == row.cached_tokens ? t_.side[index].reusable_tokens : 0;
  }
  int64_t remaining(int32_t index) const { return t_.rows[index].prompt_tokens - t_.rows[index].context_cursor; }
  int64_t chunk_cost(int32_t place, int64_t chunk) const;
  void place(int32_t places) {
    places_ += places;
    if (places_ >= rules_.max_batch_size) stopped_ = BERTH_WAIT_BATCH;
  }
  void pick(int32_t index, int64_t tokens, int32_t drafts);
  int64_t whole_cost(int32_t index, const berth_row &row) const;
  void consider(int32_t index, berth_row &row);
  void too_long(int32_t index, berth_row_field field);
  // Has it a seat and a lease, or gets them now? If not, it waits.
  bool seated(int32_t index, berth_row &row);
  void stop(berth_row &row, int32_t reason);

  Status chunk_contexts();
  void equal_progress(int64_t capacity);
  void first_come_first_served(int64_t capacity);
  Status force(int64_t capacity);
  void trim_drafts(int64_t capacity);

  Table &t_;
  SeatGate *const gate_;
  const berth_rules &rules_;
  const bool own_;
  const bool chunked_;
  const int64_t max_tokens_, max_context_;
  int64_t tokens_ = 0;  // of encoders, generations and unchunked contexts
  int32_t places_ = 0;
  int32_t beam_ = 0;                   // of the first generation that fits
  int32_t stopped_ = BERTH_WAIT_NONE;  // why nobody else is taken
  bool adapters_ = false;              // somebody has one
  int32_t generations_ = 0;
  int64_t chunk_tokens_ = 0;  // what the contexts to chunk would take whole
  int32_t chunks_ = 0;        // entries of list_c: contexts to chunk
  int32_t encoders_ = 0, contexts_ = 0;
  int64_t chunk_cost_ = 0;  // the same without drafts
  bool all_fit_ = true;
  bool refused_ = false;
  Status status_ = Status::kOk;
};

}  // namespace berth
