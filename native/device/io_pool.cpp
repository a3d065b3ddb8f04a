// SPDX-License-Identifier: Apache-2.0
#include "device/io_pool.hpp"

#include <pthread.h>
#include <signal.h>

#include <atomic>

namespace berth::device {
namespace {

// Threads that begin here leave the process's signals to others.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&all, fault);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked &) = delete;
  SignalsBlocked &operator=(const SignalsBlocked &) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

IoPool::IoPool(int32_t depth, int32_t threads, Worker &worker)
    : depth_(depth),
      worker_(worker),
      after_(static_cast<size_t>(depth)),
      errors_(static_cast<size_t>(depth)),
      ended_(static_cast<size_t>(depth)) {
  const SignalsBlocked blocked;
  try {
    for (int32_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { work(); });
      pthread_setname_np(threads_.back().native_handle(), "berth-io");
    }
  } catch (...) {
    stop();
    throw;
  }
}

IoPool::~IoPool() { stop(); }

void IoPool::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  moved_.notify_all();
  for (std::thread &thread : threads_) thread.join();
  threads_.clear();
}

void IoPool::submit(uint64_t after) noexcept {
  {
    const std::lock_guard lock(mutex_);
    ++submitted_;
    after_[place(submitted_)] = after;
    ended_[place(submitted_)] = 0;
  }
  wake_.notify_one();
}

void IoPool::wait(uint64_t number) noexcept {
  if (threads_.empty()) return;
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [&] { return finished_ >= number; });
}

void IoPool::step() noexcept {
  if (taken_ == submitted_) return;
  const uint64_t number = ++taken_;
  end(number, worker_.perform(number));
}

// With the lock, where there are threads.
void IoPool::end(uint64_t number, int32_t error) noexcept {
  errors_[place(number)] = error;
  ended_[place(number)] = 1;
  uint64_t finished = finished_;
  while (finished < submitted_ && ended_[place(finished + 1)] != 0) ++finished;
  std::atomic_ref<uint64_t>(finished_).store(finished, std::memory_order_release);
}

void IoPool::work() noexcept {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || taken_ != submitted_; });
    if (stopping_) return;
    const uint64_t number = ++taken_;
    // What it waits for was taken before it, so somebody is at it.
    moved_.wait(lock, [&] { return stopping_ || ended(after_[place(number)]); });
    if (stopping_) return;
    lock.unlock();
    const int32_t error = worker_.perform(number);
    lock.lock();
    end(number, error);
    moved_.notify_all();
  }
}

}  // namespace berth::device
