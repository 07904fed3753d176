#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_symbols.sh BUILD: what the installed libraries show to programs is what tests/installation/cases/symbols.txt lists: the
# functions of the public headers, and nothing else. `test_symbols.sh BUILD bless` writes the list anew.
set -euo pipefail
build=$1
expected=$(dirname "${BASH_SOURCE[0]}")/cases/symbols.txt

# Defined, visible, not local.
symbols_of() {
    readelf -sW "$1" 2>/dev/null |
        awk '$1 ~ /^[0-9]+:$/ && $5 != "LOCAL" && $6 != "HIDDEN" && $6 != "INTERNAL" && $7 != "UND" && $8 != "" {print $8}' |
        sed 's/@.*//' | sort -u
}
{
    for library in libouro_runtime.so libouro_runtime.a libouro_argument_pool.a libouro_compiler.a; do
        [ -e "$build/$library" ] || continue
        echo "$library"
        if [ "${library%.so}" != "$library" ]; then
            nm -D --defined-only "$build/$library" | awk '{print $3}' | sort -u
        else
            symbols_of "$build/$library"
        fi | sed 's/^/    /'
    done
} >"$build/symbols.txt"
if [ "${2:-}" = bless ]; then
    mkdir -p "$(dirname "$expected")"
    cp "$build/symbols.txt" "$expected"
fi
# A build without oneDNN has no library for its arguments.
[ -e "$build/libouro_argument_pool.a" ] || exec diff <(sed '/^libouro_argument_pool/,/^libouro_c/{/^libouro_c/!d}' "$expected") "$build/symbols.txt"
diff "$expected" "$build/symbols.txt"
