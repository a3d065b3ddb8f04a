// SPDX-License-Identifier: Apache-2.0
// Prints the ABI of berth.h as the compiler sees it, one fact a line:
//   function NAME (PARAMETERS)RESULT     struct NAME SIZE ALIGNMENT
//   field STRUCT NAME OFFSET TYPE        constant NAME VALUE
// Types: B S I J integers of 1, 2, 4, 8 bytes; Z bool; F D; A any pointer; [N]T array; V nothing.
#include <cstddef>
#include <cstdio>
#include <type_traits>

#include "berth/berth.h"

namespace {

template <class T>
void print_type() {
  if constexpr (std::is_void_v<T>) {
    std::putchar('V');
  } else if constexpr (std::is_array_v<T>) {
    std::printf("[%zu]", std::extent_v<T>);
    print_type<std::remove_extent_t<T>>();
  } else if constexpr (std::is_pointer_v<T>) {
    std::putchar('A');
  } else if constexpr (std::is_same_v<std::remove_cv_t<T>, bool>) {
    std::putchar('Z');
  } else if constexpr (std::is_floating_point_v<T>) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "no long double in the ABI");
    std::putchar(sizeof(T) == 4 ? 'F' : 'D');
  } else {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T>, "no struct by value in the ABI");
    std::putchar(sizeof(T) == 1 ? 'B' : sizeof(T) == 2 ? 'S' : sizeof(T) == 4 ? 'I' : 'J');
  }
}

template <class F>
struct Signature;

template <class R, class... P>
struct Signature<R(P...)> {
  static void print() {
    std::putchar('(');
    (print_type<P>(), ...);
    std::putchar(')');
    print_type<R>();
  }
};

}  // namespace

int main() {
#define BERTH_FUNCTION(name)          \
  std::printf("function %s ", #name); \
  Signature<decltype(name)>::print(); \
  std::putchar('\n');
#define BERTH_STRUCT(name) std::printf("struct %s %zu %zu\n", #name, sizeof(name), alignof(name));
#define BERTH_FIELD(type, name)                                        \
  std::printf("field %s %s %zu ", #type, #name, offsetof(type, name)); \
  print_type<decltype(type::name)>();                                  \
  std::putchar('\n');
#define BERTH_CONSTANT(name) std::printf("constant %s %lld\n", #name, static_cast<long long>(name));
#include "abi_list.inc"
  return 0;
}
