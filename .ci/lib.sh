# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What .ci/run and .ci/full share: stages with their seconds, and the stages that both have.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root" || exit 1
# shellcheck source=berth disable=SC1091
. ./berth
set -euo pipefail

stage_names=()
stage_seconds=()

# stage NAME COMMAND...: runs it, keeps its seconds, ends the run if it fails.
stage() {
  local name="$1" start=$SECONDS rc=0
  shift
  printf '\n==== %s\n' "$name"
  # A subshell of its own, not part of a condition: so that set -e holds inside.
  set +e
  (
    set -e
    "$@"
  )
  rc=$?
  set -e
  stage_names+=("$name")
  stage_seconds+=("$((SECONDS - start))")
  if [ "$rc" != 0 ]; then
    summary
    printf 'FAILED: %s (exit %d)\n' "$name" "$rc"
    exit 1
  fi
}

summary() {
  local i
  printf '\n==== seconds\n'
  for i in "${!stage_names[@]}"; do
    printf '%6d  %s\n' "${stage_seconds[i]}" "${stage_names[i]}"
  done
  printf '%6d  total\n' "$SECONDS"
}

# ---- Stages ----------------------------------------------------------------------------------------------------------

# A new machine has a JDK 17 as default, a JDK 25 beside it, and a compiler. The rest comes from Debian.
install_tools() {
  local tool missing=""
  ./berth setup || return 1
  for tool in clang-format-14 shellcheck; do
    command -v "$tool" > /dev/null || missing="$missing $tool"
  done
  command -v nm > /dev/null || missing="$missing binutils"
  command -v clang++-14 > /dev/null || missing="$missing clang-14"
  compgen -G '/usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a' > /dev/null ||
    missing="$missing libclang-rt-14-dev"
  if [ -n "$missing" ]; then
    apt-get update -q
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
  fi
}

# Maven on the JDK 25 that the launcher found. The flag silences Maven's own libraries.
maven_on_25() {
  JAVA_HOME="$jdk" MAVEN_OPTS="--sun-misc-unsafe-memory-access=allow --enable-native-access=ALL-UNNAMED" mvn -B -ntp "$@"
}

# ctest on a build folder, made from a preset of cmake/presets.json.
native_preset() {
  (cd native && cmake --preset "$1" --log-level=WARNING)
  cmake --build "build/$1"
  (cd "build/$1" && ctest --output-on-failure --no-tests=error)
}

# The very folder that Maven uses, so that nothing is compiled twice.
native_tests() {
  cmake -S native -B target/native-build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBERTH_TESTS=ON --log-level=WARNING
  cmake --build target/native-build
  (cd target/native-build && ctest --output-on-failure --no-tests=error)
}

sanitizers() {
  ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:check_initialization_order=1 \
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 native_preset asan-ubsan
}

threads() {
  TSAN_OPTIONS=halt_on_error=1 native_preset tsan
}

# Every fuzz target for so many seconds, all at a time, with ASan and UBSan, from the seeds in native/fuzz/seeds. What one
# finds is left in build/fuzz/found/<target>: to be kept in native/fuzz/found/<target>, which ctest replays.
fuzz() {
  local seconds="$1" target name running="" failed=0
  (cd native && cmake --preset fuzz --log-level=WARNING)
  cmake --build build/fuzz --target fuzzers
  for target in build/fuzz/fuzz/*_fuzz; do
    name="$(basename "$target")"
    mkdir -p "build/fuzz/corpus/$name" "build/fuzz/found/$name" "native/fuzz/seeds/$name"
    "$target" -max_total_time="$seconds" -max_len=2048 -len_control=10 -timeout=60 -verbosity=0 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/found/$name/" "build/fuzz/corpus/$name" "native/fuzz/seeds/$name" \
      > "build/fuzz/$name.log" 2>&1 &
    running="$running $!:$name"
  done
  for target in $running; do
    wait "${target%%:*}" || { failed=1; tail -n 40 "build/fuzz/${target#*:}.log"; }
    printf '%s: ' "${target#*:}"
    grep -h 'number_of_executed_units' "build/fuzz/${target#*:}.log" || echo "no end"
  done
  return "$failed"
}

# A build with nothing changed runs no native compile step.
second_build() {
  local log="$root/target/second-build.log"
  mvn -B -ntp -DskipTests package > "$log" 2>&1 || { tail -n 40 "$log"; return 1; }
  if grep -E '^\[[0-9]+/[0-9]+\] (Building|Linking)' "$log"; then
    echo "a second build compiled native code again"
    return 1
  fi
  grep -E 'ninja: no work to do' "$log"
}
