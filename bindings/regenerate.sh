#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Regenerates bindings/java from native/include/berth/berth.h. Needs a jextract for JDK 25 in $JEXTRACT (see README.md).
set -euo pipefail
cd "$(dirname "$0")/.."
: "${JEXTRACT:?path of the jextract launcher}"
: "${JEXTRACT_ID:?what it is, as it goes into LOCK, e.g. openjdk/jextract@f9866df3a178}"
header=native/include/berth/berth.h
args=bindings/jextract.args
{
  echo "--target-package dev.berth.ffi"
  echo "--header-class-name BerthNative"
  echo "--symbols-class-name BerthSymbols"
  grep -oE '\bberth_[a-z_]+\(' "$header" | tr -d '(' | sort -u | grep -vxE 'berth_core_memory|berth_core_state_index' | sed 's/^/--include-function /'
  grep -oE '^typedef struct berth_[a-z_]+ \{' "$header" | awk '{print $3}' | sort -u | sed 's/^/--include-struct /'
  { grep -oE '^#define BERTH_[A-Z0-9_]+ [0-9]+' "$header" | awk '{print $2}'
    grep -oE '\bBERTH_[A-Z0-9_]+ = -?[0-9]+' "$header" | awk '{print $1}'; } | sort -u | sed 's/^/--include-constant /'
} > "$args"
rm -rf bindings/java/dev
"$JEXTRACT" "@$args" --output bindings/java "$header"
{
  echo "jextract=$JEXTRACT_ID"
  echo "libclang=${LIBCLANG_ID:-14.0.6}"
  echo "abi_version=$(awk '/#define BERTH_ABI_VERSION/{print $3}' "$header")"
  echo "header_sha256=$(sha256sum "$header" | cut -d' ' -f1)"
  echo "args_sha256=$(sha256sum "$args" | cut -d' ' -f1)"
} > bindings/LOCK
