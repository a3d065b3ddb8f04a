// SPDX-License-Identifier: Apache-2.0
// The few lines that the native tests need, so that they run with nothing installed.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace berth::test {
struct Case {
  const char *name;
  void (*run)();
};
inline std::vector<Case> &cases() {
  static std::vector<Case> all;
  return all;
}
inline int &failures() {
  static int n = 0;
  return n;
}
struct Register {
  Register(const char *name, void (*run)()) { cases().push_back({name, run}); }
};
inline void fail(const char *file, int line, const char *text) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, text);
  ++failures();
}
inline int main_all() {
  for (const Case &c : cases()) {
    const int before = failures();
    c.run();
    std::printf("%s %s\n", failures() == before ? "ok  " : "FAIL", c.name);
  }
  std::printf("%zu passed, %d failed\n", cases().size() - (failures() ? 1 : 0), failures());
  return cases().empty() || failures() ? 1 : 0;
}
}  // namespace berth::test

#define TEST(name)                                                 \
  static void name();                                              \
  static const berth::test::Register register_##name(#name, name); \
  static void name()
#define CHECK(condition)                                                 \
  do {                                                                   \
    if (!(condition)) berth::test::fail(__FILE__, __LINE__, #condition); \
  } while (false)
#define TEST_MAIN \
  int main() { return berth::test::main_all(); }
