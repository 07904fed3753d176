#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# coverage.sh [-b] [REGEX]: builds with the preset "coverage" (into build-coverage/), runs the tests (those whose names match), and prints how
# much of the code they run, by folder, with the files of the least coverage after it; -b: from what earlier tests left, nothing is run. Needs
# what GCC brings (gcov).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# What looks at the libraries from outside: with counters they have more symbols, and a program wants gcov's library. What looks at
# sources only. And power_loss, which runs one compile hundreds of times.
unfit='^(symbols|installation|packages|tutorial|python|power_loss|structure|words|docs)$'
if [ "${1:-}" = -b ]; then shift; else
    ./setup.sh coverage
    find build-coverage -name '*.gcda' -delete
    OURO_TEST_PROGRAMS=200 OURO_EVERY_ALLOCATION=300 OURO_EVERY_CASE=5 ctest --preset coverage -j "$(nproc)" -E "$unfit" ${1:+-R "$1"} || echo "some tests failed" >&2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
top=$PWD
cd "$work"
# Sources that tests compile once more for themselves are left out: gcov tells no branches of what it has twice.
find "$top/build-coverage" -path "$top/build-coverage/tests" -prune -o -name '*.gcda' -print0 | xargs -0 -r gcov -b -r -s "$top" >"$work/report" 2>/dev/null
# gcov tells of each file: its name, lines, branches. A header comes once for each source: the best of these counts.
awk -F"[':% ]+" '
    /^File/ { file = $2; sub(/^([.][.]\/)+/, "", file) }
    /^Creating/ { file = "" } # the total of all files comes last
    /^Lines executed/ && file {
        best = !(file in total) || $5 * $3 > total[file] * share[file]
        if (best) { total[file] = $5; share[file] = $3; branches[file] = 0 }
    }
    /^Taken at least once/ && best { branches[file] = $7; taken[file] = $5 }
    END {
        for (f in total) {
            if (f !~ /^(ir|passes|compiler|runtime)\// || f !~ /\.c$/) continue
            folder = f; sub(/\/[^\/]*$/, "", folder)
            l[folder] += total[f]; h[folder] += total[f] * share[f] / 100
            b[folder] += branches[f]; t[folder] += branches[f] * taken[f] / 100
            group = folder ~ /kernels/ ? "all kernels" : "all but kernels"
            l[group] += total[f]; h[group] += total[f] * share[f] / 100
            b[group] += branches[f]; t[group] += branches[f] * taken[f] / 100
            printf "file %6.2f %% of %5d lines  %s\n", share[f], total[f], f
        }
        for (folder in l) printf "folder %-32s lines %6.2f %% of %6d  branches %6.2f %% of %6d\n", folder, 100 * h[folder] / l[folder], l[folder], b[folder] ? 100 * t[folder] / b[folder] : 0, b[folder]
    }' report >table
grep '^folder' table | sort -k2
echo
grep '^file' table | sort -k2 -n | head -20
