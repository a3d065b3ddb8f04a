# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What the scripts here share: stages with their seconds, and the stages that .ci/run and .ci/full both have.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root" || exit 1
# shellcheck source=berth disable=SC1091
. ./berth
set -euo pipefail

stage_names=()
stage_seconds=()
logs="$root/build/ci/$(basename "$0")" # one log a stage; read again for the counts and for what each issue's suites cost
quiet=0                                # 1: nothing but the logs, and the tail of the one that fails
rm -rf "$logs"
mkdir -p "$logs"

log_of() { printf '%s/%02d.log' "$logs" "$1"; }

# stage NAME COMMAND...: runs it, keeps its seconds and its log, ends the run if it fails.
stage() {
  local name="$1" start=$SECONDS rc=0 log
  shift
  log="$(log_of "${#stage_names[@]}")"
  printf '==== %s\n' "$name"
  # A subshell of its own, not part of a condition: so that set -e holds inside.
  set +e
  if [ "$quiet" = 1 ]; then
    (
      set -e
      "$@"
    ) > "$log" 2>&1
    rc=$?
  else
    (
      set -e
      "$@"
    ) 2>&1 | tee "$log"
    rc=${PIPESTATUS[0]}
  fi
  set -e
  stage_names+=("$name")
  stage_seconds+=("$((SECONDS - start))")
  if [ "$rc" != 0 ]; then
    [ "$quiet" = 0 ] || tail -n 80 "$log"
    summary
    printf 'FAILED: %s (exit %d), %s\n' "$name" "$rc" "$log"
    exit 1
  fi
}

# What a log says of its counts, in a line.
counts_of() {
  sed -nE \
    -e 's/^\[[A-Z]+\] (Tests run: [0-9]+, Failures: [0-9]+, Errors: [0-9]+, Skipped: [0-9]+)$/\1/p' \
    -e 's/^[0-9]+% (tests passed, [0-9]+ tests failed out of [0-9]+)$/\1/p' \
    -e 's/^([0-9]+ passed, [0-9]+ failed)$/\1/p' \
    -e 's/^([0-9]+ (mutants killed|runs, [0-9]+ requests|executed units).*)$/\1/p' \
    -e 's/^(summary: .*)$/\1/p' "$1" | paste -s -d '|' | sed 's/|/; /g'
}

summary() {
  local i
  printf '\n==== seconds\n'
  for i in "${!stage_names[@]}"; do
    printf '%6d  %-36s %s\n' "${stage_seconds[i]}" "${stage_names[i]}" "$(counts_of "$(log_of "$i")")"
  done
  printf '%6d  total\n' "$SECONDS"
}

# ---- What each issue adds --------------------------------------------------------------------------------------------

# The issue that brought a suite: a test class, a test of ctest or a stage.
issue_of() {
  case "$1" in
    dev.berth.kv.Slot* | dev.berth.kv.Seat* | dev.berth.kv.Lease*) echo A ;;
    dev.berth.capacity.* | dev.berth.engine.EnginePolicies* | schedule_test | oneloop_test) echo B ;;
    dev.berth.engine.OwnPolicy* | dev.berth.engine.EngineOwnPolicy* | dev.berth.engine.EnginePromises*) echo B ;;
    dev.berth.request.FairQueue* | dev.berth.request.DeadlineQueue*) echo B ;;
    dev.berth.kv.* | dev.berth.engine.EnginePages* | kv_*) echo C ;;
    dev.berth.transfer.* | dev.berth.simulate.* | dev.berth.engine.log.* | dev.berth.model.*) echo D ;;
    dev.berth.route.Kv* | dev.berth.route.Conversation* | dev.berth.route.Router* | dev.berth.route.kernel.*) echo D ;;
    dev.berth.route.SeededShuffle* | dev.berth.route.PlacementView* | dev.berth.engine.EngineRouter*) echo D ;;
    # Most of what the slow fleet draws are gates, holds, encoders, padding and pauses.
    dev.berth.engine.NaiveFleet*) echo D ;;
    dev.berth.engine.BalanceGate* | dev.berth.engine.Dummy* | dev.berth.engine.KvEventFeed*) echo D ;;
    dev.berth.engine.EngineTest* | dev.berth.engine.EngineLifecycle* | dev.berth.engine.EngineReaders*) echo D ;;
    dev.berth.engine.EngineConcurrency* | dev.berth.engine.SlotStore* | dev.berth.journey.EngineJourney* | dev.berth.journey.OwnLoop* | dev.berth.journey.Disaggregation*) echo D ;;
    dev.berth.engine.FillRules* | dev.berth.engine.PaddingAndHolds* | dev.berth.engine.BugCases*) echo D ;;
    dev.berth.cli.Simulate* | dev.berth.CasesPage*) echo D ;;
    dev.berth.device.* | dev.berth.cuda.* | cuda_* | device_*) echo E ;;
    dev.berth.mpi.* | dev.berth.ucx.* | dev.berth.worker.* | mpi_* | ucx_*) echo F ;;
    dev.berth.cli.Trace* | dev.berth.cli.Doctor* | dev.berth.report.* | dev.berth.metrics.* | dev.berth.serve.*) echo G ;;
    *) echo A ;;
  esac
}

budget_of() {
  case "$1" in
    A) echo 180 ;;
    B) echo 60 ;;
    C) echo 150 ;;
    D) echo 150 ;;
    E) echo 60 ;;
    F) echo 180 ;;
    G) echo 120 ;;
  esac
}

# Lines "SECONDS NAME" of every suite that the logs name: test classes, and native tests each time they ran.
suites() {
  sed -nE \
    -e 's/^\[[A-Z]+\] .*Tests run:.*Time elapsed: ([0-9.]+) s.* -- in ([A-Za-z0-9_.$]+).*$/\1 \2/p' \
    -e 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([A-Za-z0-9_]+) \.+ .* ([0-9.]+) sec$/\2 \1/p' "$logs"/*.log
}

# How busy the machine was with other things: CPU seconds of this run by its seconds, at most 1. Two idle cores give 1.
share() {
  local cpu="$logs/times"
  times > "$cpu"
  awk -F '[ms ]+' -v wall="$SECONDS" 'NR == 2 { s = ($1 * 60 + $2 + $3 * 60 + $4) / wall; printf "%.2f", s < 1 ? s : 1 }' "$cpu"
}

# budgets [ISSUE STAGE]...: seconds of each issue's suites and of the stages given, against what it may add. What isn't
# a suite (building, formatting, starting Maven) belongs to no issue. On a machine that does other things too, only the
# run's share of the seconds is held against a budget.
budgets() {
  local issue seconds name i over="" spent all=0 share
  share > "$logs/share" # not in a subshell, whose children are others
  share="$(cat "$logs/share")"
  {
    suites | while read -r seconds name; do echo "$(issue_of "$name") $seconds"; done
    while [ $# != 0 ]; do
      for i in "${!stage_names[@]}"; do [ "${stage_names[i]}" != "$2" ] || echo "$1 ${stage_seconds[i]}"; done
      shift 2
    done
  } > "$logs/suites"
  printf '\n==== seconds of the suites that each issue brought, and what it may add'
  [ "$share" = 1.00 ] || printf ' (the machine was busy: %s of them count)' "$share"
  printf '\n'
  for issue in A B C D E F G; do
    spent="$(awk -v issue="$issue" '$1 == issue { s += $2 } END { printf "%.0f", s }' "$logs/suites")"
    all=$((all + spent))
    printf '%6d  %s  of %d\n' "$spent" "$issue" "$(budget_of "$issue")"
    awk -v spent="$spent" -v share="$share" -v may="$(budget_of "$issue")" 'BEGIN { exit spent * share > may }' ||
      over="$over $issue"
  done
  printf '%6d  the rest: building, formatting, starting\n' "$((SECONDS - all))"
  [ -z "$over" ] || {
    echo "FAILED: the suites of these issues take longer than they may:$over"
    return 1
  }
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

# The class path of tests, as Maven knows it; further arguments go to Maven.
test_classpath() {
  maven_on_25 -q exec:exec -Dexec.executable=echo -Dexec.args=%classpath -Dexec.classpathScope=test "$@" |
    sed -n 's|^[^/]*\(/.*/target/classes:.*\)$|\1|p' # Maven colours what it prints even in batch mode
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
    echo "summary: ${target#*:} $(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/${target#*:}.log") inputs"
  done
  return "$failed"
}

# Worlds on the command line's own jar, which the stages before have built; its numbers go into the summary.
simulate() {
  local report="$logs/simulate"
  "$jdk/bin/java" -jar target/berth-*-cli.jar simulate "$@" | tee "$report"
  sed -nE 's/^(worlds|iterations) +(.*)$/summary: \2/p' "$report"
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
