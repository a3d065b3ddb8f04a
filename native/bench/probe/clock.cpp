// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <ctime>

// CPU time of the calling thread in ns: a turn that was interrupted isn't charged for it.
extern "C" __attribute__((visibility("default"))) int64_t berth_bench_cpu_nanos() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * INT64_C(1'000'000'000) + now.tv_nsec;
}
