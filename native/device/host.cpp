// SPDX-License-Identifier: Apache-2.0
#include "device/host.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

namespace berth::device {
namespace {

int32_t *ints(uint64_t address) noexcept { return reinterpret_cast<int32_t *>(static_cast<uintptr_t>(address)); }
// A row of a table (spec 03 section 4.2): slots to page indices, keys and values. The ranges were checked at creation;
// what is below zero (no page, or scratch) makes no index, so it doesn't matter that its product wraps.
struct Indices {
  int32_t scale;
  int32_t value_offset;
  int32_t bad;
};
[[gnu::always_inline]] inline void index_row(const int32_t *__restrict slots, int32_t n, const Indices &x,
                                             int32_t *__restrict keys, int32_t *__restrict values) noexcept {
  if (x.bad == -1) {  // all ones, as the sign spread over a word
    for (int32_t b = 0; b < n; ++b) {
      const int32_t none = slots[b] >> 31;
      const uint32_t key = static_cast<uint32_t>(slots[b]) * static_cast<uint32_t>(x.scale);
      keys[b] = static_cast<int32_t>(key) | none;
      values[b] = static_cast<int32_t>(key + static_cast<uint32_t>(x.value_offset)) | none;
    }
    return;
  }
  for (int32_t b = 0; b < n; ++b) {
    const int32_t none = slots[b] >> 31;
    const uint32_t key = static_cast<uint32_t>(slots[b]) * static_cast<uint32_t>(x.scale);
    keys[b] = (static_cast<int32_t>(key) & ~none) | (x.bad & none);
    values[b] = (static_cast<int32_t>(key + static_cast<uint32_t>(x.value_offset)) & ~none) | (x.bad & none);
  }
}
void index_row_any(const int32_t *slots, int32_t n, const Indices &x, int32_t *keys, int32_t *values) noexcept {
  index_row(slots, n, x, keys, values);
}
#if defined(__x86_64__)
[[gnu::target("avx2")]] void index_row_avx2(const int32_t *slots, int32_t n, const Indices &x, int32_t *keys,
                                            int32_t *values) noexcept {
  index_row(slots, n, x, keys, values);
}
#endif
using IndexRow = void (*)(const int32_t *, int32_t, const Indices &, int32_t *, int32_t *) noexcept;
IndexRow best_index_row() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return index_row_avx2;
#endif
  return index_row_any;
}

constexpr int64_t kFileAlignment = 4096;

int64_t *longs(uint64_t address) noexcept { return reinterpret_cast<int64_t *>(static_cast<uintptr_t>(address)); }

}  // namespace

HostBackend::Memory::Memory(size_t bytes) : size(bytes) {
  void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  base = static_cast<std::byte *>(p);
}

HostBackend::Memory::~Memory() {
  if (base != nullptr) munmap(base, size);
}

int64_t HostBackend::disk_bytes(const KvLayout &layout, std::span<const int64_t> slots) noexcept {
  int64_t total = 0;
  for (const KvLayout::Pool &pool : layout.pools()) {
    const int64_t n = slots[static_cast<size_t>((kLevels - 1) * layout.groups() + pool.group)];
    int64_t bytes;
    if (__builtin_mul_overflow(n, pool.slot_bytes, &bytes) || __builtin_add_overflow(total, bytes, &total) ||
        __builtin_add_overflow(total, kFileAlignment - 1, &total)) {
      return -1;
    }
    total &= -kFileAlignment;
  }
  return total;
}

HostBackend::HostBackend(const Config &config, Disk disk)
    : layout_(*config.layout),
      rows_(config.rows),
      max_blocks_(config.max_blocks),
      staging_(config.staging),
      mode_(config.mode),
      slots_(config.slots.begin(), config.slots.end()) {
  spare_.reserve(mode_ == Mode::kEmulation ? 256 : 0);
  pools_.resize(kLevels * layout_.pools().size());
  if (config.memory) {
    for (int32_t level = 0; level < kLevels; ++level) {
      for (size_t p = 0; p < layout_.pools().size(); ++p) {
        const KvLayout::Pool &pool = layout_.pools()[p];
        const int64_t slots = slots_[static_cast<size_t>(level * layout_.groups() + pool.group)];
        if (slots > 0 && (level + 1 < kLevels || !disk.file)) {
          pools_[static_cast<size_t>(level) * layout_.pools().size() + p] =
              Memory(static_cast<size_t>(slots * pool.slot_bytes));
        }
      }
    }
  }
  for (size_t l = 0; l < layout_.life_cycles().size(); ++l) {
    tables_.emplace_back(static_cast<size_t>(rows_) * static_cast<size_t>(max_blocks_));
    std::memset(tables_.back().data(), 0xff, tables_.back().size() * sizeof(int32_t));
  }
  if (!disk.file) return;
  file_ = std::move(disk.file);
  int64_t at = 0;
  for (const KvLayout::Pool &pool : layout_.pools()) {
    disk_offsets_.push_back(at);
    at += slots_[static_cast<size_t>((kLevels - 1) * layout_.groups() + pool.group)] * pool.slot_bytes;
    at = (at + kFileAlignment - 1) & -kFileAlignment;
    staging_bytes_ = std::max(staging_bytes_, static_cast<size_t>(layout_.slot_bytes(pool.group)));
  }
  const size_t depth = static_cast<size_t>(disk.depth);
  transfers_.resize(depth);
  if (staging_bytes_ > std::numeric_limits<size_t>::max() / depth) throw std::bad_alloc();
  staging_pages_ = Memory(mode_ == Mode::kEmulation ? 1 : depth * staging_bytes_);
  IoPool::Worker &worker = *this;
  io_ = std::make_unique<IoPool>(disk.depth, mode_ == Mode::kEmulation ? 0 : disk.threads, worker);
}

std::byte *HostBackend::pool(int32_t level, int32_t pool) noexcept {
  return pools_[static_cast<size_t>(level) * layout_.pools().size() + static_cast<size_t>(pool)].base;
}

const int32_t *HostBackend::table(int32_t life_cycle) const noexcept {
  return tables_[static_cast<size_t>(life_cycle)].data();
}

// What is behind them goes back to the system, but not under steps that may still read it.
void HostBackend::resize(int32_t level, int32_t group, int64_t slots) noexcept {
  if (mode_ == Mode::kEmulation) return;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (size_t p = 0; p < layout_.pools().size(); ++p) {
    const KvLayout::Pool &pool = layout_.pools()[p];
    const Memory &memory = pools_[static_cast<size_t>(level) * layout_.pools().size() + p];
    if (pool.group != group || memory.base == nullptr) continue;
    const size_t used = (static_cast<size_t>(slots * pool.slot_bytes) + page - 1) / page * page;
    if (used < memory.size) madvise(memory.base + used, memory.size - used, MADV_DONTNEED);
  }
}

// Where there is no memory for a snapshot, what is under way happens first and then this: the stream's order stands.
void HostBackend::edit(int32_t life_cycle, int32_t row, int32_t first, int32_t n, const int32_t *values) noexcept {
  if (mode_ == Mode::kEmulation) {
    try {
      Step step{};
      step.kind = Step::Kind::kEdit;
      step.life_cycle = life_cycle;
      step.row = row;
      step.first = first;
      step.n = n;
      step.clear = values == nullptr;
      if (values != nullptr) snapshot(step, values);
      push(std::move(step));
      return;
    } catch (const std::bad_alloc &) {
      run(std::numeric_limits<int32_t>::max());
    }
  }
  do_edit(life_cycle, row, first, n, values);
}

void HostBackend::copy(const PageCopy &copy) noexcept {
  if (mode_ == Mode::kEmulation) {
    try {
      Step step{};
      step.kind = Step::Kind::kCopy;
      step.copy = copy;
      push(std::move(step));
      return;
    } catch (const std::bad_alloc &) {
      run(std::numeric_limits<int32_t>::max());
    }
  }
  do_copy(copy);
}

Status HostBackend::gather(const Gather &gather) noexcept {
  if (mode_ == Mode::kEmulation) {
    if (gathers_ == staging_) return Status::kExhausted;
    try {
      Step step{};
      step.kind = Step::Kind::kGather;
      snapshot(step, gather);
      push(std::move(step));
      ++gathers_;
      return Status::kOk;
    } catch (const std::bad_alloc &) {
      run(std::numeric_limits<int32_t>::max());
    }
  }
  do_gather(gather);
  return Status::kOk;
}

void HostBackend::push(Step &&step) {
  stream_.push_back(std::move(step));
  ++submitted_;
}

void HostBackend::snapshot(Step &step, const int32_t *values) {
  if (!spare_.empty()) {
    step.values = std::move(spare_.back());
    spare_.pop_back();
  }
  step.values.assign(values, values + step.n);
}

void HostBackend::snapshot(Step &step, const Gather &gather) {
  step.gather = gather;
  const size_t n = gather.rows.size();
  step.values.clear();
  for (const auto &column : {gather.rows, gather.blocks, gather.history, gather.queries, gather.states}) {
    step.values.insert(step.values.end(), column.begin(), column.end());
  }
  const std::span<const int32_t> all(step.values);
  step.gather.rows = all.subspan(0, n);
  step.gather.blocks = all.subspan(n, n);
  step.gather.history = all.subspan(2 * n, n);
  step.gather.queries = all.subspan(3 * n, n);
  step.gather.states = all.subspan(4 * n);
}

int32_t HostBackend::run(int32_t n) noexcept {
  int32_t done = 0;
  for (; done < n && !stream_.empty(); ++done) {
    Step &step = stream_.front();
    switch (step.kind) {
      case Step::Kind::kEdit:
        do_edit(step.life_cycle, step.row, step.first, step.n, step.clear ? nullptr : step.values.data());
        if (spare_.size() < spare_.capacity()) spare_.push_back(std::move(step.values));
        break;
      case Step::Kind::kCopy: do_copy(step.copy); break;
      case Step::Kind::kTransfer: io_->step(); break;
      case Step::Kind::kGather:
        do_gather(step.gather);
        --gathers_;
        break;
    }
    stream_.pop_front();
    ++completed_;
  }
  return done;
}

void HostBackend::do_edit(int32_t life_cycle, int32_t row, int32_t first, int32_t n, const int32_t *values) noexcept {
  int32_t *to = tables_[static_cast<size_t>(life_cycle)].data() +
                static_cast<size_t>(row) * static_cast<size_t>(max_blocks_) + static_cast<size_t>(first);
  if (values == nullptr) {
    std::fill_n(to, n, -1);
  } else {
    std::memcpy(to, values, static_cast<size_t>(n) * sizeof(int32_t));
  }
}

void HostBackend::do_copy(const PageCopy &copy) noexcept {
  for (size_t p = 0; p < layout_.pools().size(); ++p) {
    const KvLayout::Pool &pool = layout_.pools()[p];
    if (pool.group != copy.group) continue;
    std::byte *from = this->pool(copy.from_level, static_cast<int32_t>(p));
    std::byte *to = this->pool(copy.to_level, static_cast<int32_t>(p));
    if (from == nullptr || to == nullptr) continue;
    std::memmove(to + int64_t{copy.to_slot} * pool.slot_bytes, from + int64_t{copy.from_slot} * pool.slot_bytes,
                 static_cast<size_t>(pool.slot_bytes));
  }
}

// In the stream's order: what is read here is the page as the steps before have left it.
void HostBackend::start(const PageCopy &copy, uint64_t after) noexcept {
  const size_t at = place(io_->submitted() + 1);
  transfers_[at] = copy;
  if (mode_ == Mode::kEmulation) {
    io_->submit(after);
    try {
      Step step{};
      step.kind = Step::Kind::kTransfer;
      push(std::move(step));
    } catch (const std::bad_alloc &) {
      run(std::numeric_limits<int32_t>::max());
      io_->step();
    }
    return;
  }
  if (copy.to_level == kLevels - 1) {
    std::byte *to = staging_pages_.base + at * staging_bytes_;
    for (size_t p = 0; p < layout_.pools().size(); ++p) {
      const KvLayout::Pool &pool = layout_.pools()[p];
      if (pool.group != copy.group) continue;
      const size_t n = static_cast<size_t>(pool.slot_bytes);
      std::memcpy(to, this->pool(copy.from_level, static_cast<int32_t>(p)) + copy.from_slot * pool.slot_bytes, n);
      to += n;
    }
  }
  io_->submit(after);
}

int32_t HostBackend::perform(uint64_t number) noexcept {
  const PageCopy &copy = transfers_[place(number)];
  const bool write = copy.to_level == kLevels - 1;
  std::byte *staged = staging_pages_.base + place(number) * staging_bytes_;
  for (size_t p = 0; p < layout_.pools().size(); ++p) {
    const KvLayout::Pool &pool = layout_.pools()[p];
    if (pool.group != copy.group) continue;
    const size_t n = static_cast<size_t>(pool.slot_bytes);
    const int32_t level = write ? copy.from_level : copy.to_level;
    const int64_t slot = write ? copy.from_slot : copy.to_slot;
    const int64_t offset = disk_offsets_[p] + (write ? copy.to_slot : copy.from_slot) * pool.slot_bytes;
    std::byte *page = this->pool(level, static_cast<int32_t>(p)) + slot * pool.slot_bytes;
    if (write && mode_ == Mode::kSynchronous) page = std::exchange(staged, staged + n);
    const int32_t error = write ? write_all(*file_, {page, n}, offset) : read_all(*file_, {page, n}, offset);
    if (error != 0) return error;
  }
  return 0;
}

void HostBackend::do_gather(const Gather &gather) noexcept {
  if (gather.table != 0 || gather.csr_indptr != 0) do_views(gather);
  if (gather.buffer_table != 0) do_buffers(gather);
  do_tokens(gather);
}

void HostBackend::do_views(const Gather &gather) noexcept {
  const size_t n = gather.rows.size();
  const size_t width = static_cast<size_t>(max_blocks_);
  const int32_t bad = gather.bad_value;
  const int32_t tpb = layout_.tokens_per_block();
  const IndexRow index = best_index_row();
  for (size_t v = 0; v < layout_.views().size(); ++v) {
    const KvLayout::View &view = layout_.views()[v];
    const int32_t *source = table(view.life_cycle);
    const int32_t scale = view.scale;
    if (gather.table != 0) {
      int32_t *out = ints(gather.table) + v * static_cast<size_t>(gather.output_rows) * 2 * width;
      for (size_t i = 0; i < n; ++i) {
        const int32_t *row = source + static_cast<size_t>(gather.rows[i]) * width;
        int32_t *keys = out + i * 2 * width;
        index(row, gather.blocks[i], {scale, view.value_offset, bad}, keys, keys + width);
      }
      if (gather.clear_padding) {
        std::fill(out + n * 2 * width, out + static_cast<size_t>(gather.output_rows) * 2 * width, bad);
      }
    }
    if (gather.csr_indptr != 0) {
      int32_t *indptr = ints(gather.csr_indptr) + v * (n + 1);
      int32_t *indices = ints(gather.csr_indices) + v * static_cast<size_t>(gather.csr_capacity);
      int32_t at = 0;
      indptr[0] = 0;
      for (size_t i = 0; i < n; ++i) {
        const int32_t *row = source + static_cast<size_t>(gather.rows[i]) * width;
        const int32_t length = gather.history[i] + gather.queries[i];
        const int32_t pages = (length + tpb - 1) / tpb;
        for (int32_t b = 0; b < pages; ++b) indices[at++] = row[b] < 0 ? bad : row[b] * scale;
        indptr[i + 1] = at;
        if (v == 0) ints(gather.csr_last)[i] = length == 0 ? 0 : (length - 1) % tpb + 1;
      }
    }
  }
}

void HostBackend::do_buffers(const Gather &gather) noexcept {
  const size_t n = gather.rows.size();
  const size_t width = static_cast<size_t>(max_blocks_);
  for (size_t i = 0; i < layout_.places().size(); ++i) {
    const KvLayout::Place &place = layout_.places()[i];
    const int64_t scale = layout_.views()[static_cast<size_t>(place.view)].scale;
    const int32_t shared = layout_.scratch_blocks(place.life_cycle);
    int32_t *out = ints(gather.buffer_table) + i * static_cast<size_t>(gather.output_rows) * width;
    for (size_t r = 0; r < n; ++r) {
      const int32_t *row = table(place.life_cycle) + static_cast<size_t>(gather.rows[r]) * width;
      for (int32_t b = 0; b < gather.blocks[r]; ++b) {
        int64_t page = gather.bad_value;
        if (row[b] >= 0) {
          page = row[b] * scale + int64_t{place.ordinal} * place.expansion;
        } else if (row[b] < -1) {
          page = KvLayout::scratch_slot(row[b], shared) * scale +
                 layout_.scratch_ordinal(i, KvLayout::scratch_number(row[b], shared));
        }
        out[r * width + static_cast<size_t>(b)] = static_cast<int32_t>(page);
      }
    }
    if (gather.clear_padding) {
      std::fill(out + n * width, out + static_cast<size_t>(gather.output_rows) * width, gather.bad_value);
    }
  }
}

void HostBackend::do_tokens(const Gather &gather) noexcept {
  const size_t n = gather.rows.size();
  const int32_t tpb = layout_.tokens_per_block();
  size_t state = 0;
  for (size_t l = 0; l < layout_.life_cycles().size(); ++l) {
    if (gather.slot_mapping != 0) {
      int64_t *out = longs(gather.slot_mapping) + l * static_cast<size_t>(gather.output_tokens);
      const bool has_pages = !layout_.life_cycles()[l].state();
      int64_t at = 0;
      for (size_t i = 0; i < n; ++i) {
        const int32_t *row =
            table(static_cast<int32_t>(l)) + static_cast<size_t>(gather.rows[i]) * static_cast<size_t>(max_blocks_);
        // A block at a time: its tokens lie one after another.
        const int32_t end = gather.history[i] + gather.queries[i];
        for (int32_t position = gather.history[i]; position < end;) {
          const int32_t block = position / tpb;
          const int32_t here = std::min(end, (block + 1) * tpb) - position;
          const int64_t slot = has_pages ? row[block] : -1;
          const int64_t first = slot * tpb + position % tpb;
          for (int32_t q = 0; q < here; ++q) out[at + q] = slot < 0 ? -1 : first + q;
          at += here;
          position += here;
        }
      }
      if (gather.clear_padding) std::fill(out + at, out + gather.output_tokens, -1);
    }
    if (gather.state_index != 0 && layout_.life_cycles()[l].state()) {
      int32_t *out = ints(gather.state_index) + state * static_cast<size_t>(gather.output_rows);
      std::copy_n(gather.states.data() + state * n, n, out);
      if (gather.clear_padding) std::fill(out + n, out + gather.output_rows, gather.pad_state);
      ++state;
    }
  }
}

}  // namespace berth::device
