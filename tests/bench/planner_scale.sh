#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# planner_scale.sh [LARGEST]: seconds and height / bound of the quick planners against the number of buffers, from
# 1,000 to LARGEST (1,000,000), on two kinds of problems: live ranges of even lengths, about 200 live at a time,
# and lengths with a long tail; and up to 100,000 on kinds that no network gives: 2,000, 5,000 and 10,000 live at a time,
# and lives between any two steps (any), a third of all at a time. The problems are made here, the same on every
# machine.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
largest=${1:-1000000}
folder=$root/build/bench
mkdir -p "$folder"

# make KIND COUNT: a linear congruential generator in doubles, exact below 2^53
make() {
    awk -v kind="$1" -v count="$2" 'function draw() { state = (state * 16807) % 2147483647; return state / 2147483647 }
    BEGIN {
        state = 20240607
        print "id,lower,upper,size"
        for (i = 0; i < count; i++) {
            first = i
            if (kind == "even") length_of = 1 + int(draw() * 400)
            if (kind == "tail") length_of = 1 + int(40 / (draw() + 0.0005) ^ 0.8)
            if (kind ~ /^live/) length_of = 1 + int(draw() * 2 * substr(kind, 5))
            if (kind == "any") {
                first = int(draw() * count)
                length_of = int(draw() * count) - first
                if (length_of < 0) { first += length_of; length_of = -length_of }
                length_of++
            }
            size = 2 ^ (6 + int(draw() * 11)) * (1 + int(draw() * 16))
            printf "%d,%d,%d,%d\n", i, first, first + length_of, size
        }
    }'
}

printf '%-9s %9s  %-18s %10s %8s\n' kind buffers allocator seconds ratio
for kind in even tail live2000 live5000 live10000 any; do
    for ((count = 1000; count <= largest; count *= 10)); do
        case $kind in live* | any) ((count <= 100000)) || continue ;; esac
        make "$kind" "$count" >"$folder/scale.csv"
        for allocator in nnc greedy-by-size chunk-simulation bfc; do
            "$root/build/ouro" alloc "$folder/scale.csv" --allocator "$allocator" |
                awk -v k="$kind" -v n="$count" -v a="$allocator" \
                    '$1 == a {printf "%-9s %9d  %-18s %10s %8s\n", k, n, a, $4, $3}'
        done
    done
done
