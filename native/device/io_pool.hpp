// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace berth::device {

// Transfers that nobody waits for, carried out by a few threads. They are numbered 1, 2, 3 ... as they are submitted
// and end in any order; finished() only ever says how many have ended from the first on without a gap, so that whoever
// looks sees one order. All calls but those of its threads are one thread's.
class IoPool {
 public:
  // Moves the bytes of a transfer: 0 or errno. From any thread of the pool.
  class Worker {
   public:
    virtual int32_t perform(uint64_t number) noexcept = 0;

   protected:
    ~Worker() = default;
  };

  // threads 0: transfers happen in step(). Throws std::bad_alloc, std::system_error.
  IoPool(int32_t depth, int32_t threads, Worker &worker);
  IoPool(const IoPool &) = delete;
  IoPool &operator=(const IoPool &) = delete;
  // What is under way ends first; what waits never begins.
  ~IoPool();

  int32_t depth() const noexcept { return depth_; }
  uint64_t submitted() const noexcept { return submitted_; }
  // The next transfer, which begins when transfer after (0: none) has ended. Whoever submits more than depth() has
  // looked at the outcome of those before.
  void submit(uint64_t after) noexcept;
  // The word that counts: transfers up to it have ended. To be read through an atomic_ref, acquire.
  const uint64_t *finished() const noexcept { return &finished_; }
  // 0, or errno: of one of the last depth() transfers, which has finished.
  int32_t outcome(uint64_t number) const noexcept { return errors_[place(number)]; }
  // Until the transfers up to it have ended; at once where there are no threads.
  void wait(uint64_t number) noexcept;
  // Without threads: carries out the next one, if there is one.
  void step() noexcept;

 private:
  size_t place(uint64_t number) const noexcept { return number % static_cast<uint64_t>(depth_); }
  bool ended(uint64_t number) const noexcept { return number <= finished_ || ended_[place(number)] != 0; }
  void end(uint64_t number, int32_t error) noexcept;
  void work() noexcept;
  void stop() noexcept;

  const int32_t depth_;
  Worker &worker_;
  std::vector<uint64_t> after_;  // [depth], as the following two
  std::vector<int32_t> errors_;
  std::vector<uint8_t> ended_;
  std::mutex mutex_;
  std::condition_variable wake_;   // there is something to do
  std::condition_variable moved_;  // something has ended
  std::vector<std::thread> threads_;
  uint64_t submitted_ = 0;
  uint64_t taken_ = 0;
  bool stopping_ = false;
  alignas(64) uint64_t finished_ = 0;
};

}  // namespace berth::device
