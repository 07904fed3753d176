#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bands_table.sh OURO RUNS MODEL [OPTION...]: what bands of rows take of memory and time.
#
# One line: the least arena without bands, then arena and time of the least that bands reach, of the least at 5 % more predicted time, and
# at 20 %. Times are processor seconds of RUNS runs on one thread, as a ratio to the plan that is made without --arena-limit (which may
# take more memory for faster kernels), the first run and the loading taken off. Both are measured in turn, three times, and the
# median is told. RUNS 0: no times, but those predicted.
set -euo pipefail
ouro=$1 runs=$2 model=$3
shift 3
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
TIMEFORMAT=%U

# Processor seconds of so many runs of a plan, by $runs.
seconds() {
    local once more
    once=$({ time "$ouro" bench "$1" --runs 1 >/dev/null; } 2>&1)
    more=$({ time "$ouro" bench "$1" --runs $((runs + 1)) >/dev/null; } 2>&1)
    python3 -c "print(($more - $once) / $runs)"
}

# A number of a report.
number() {
    python3 -c "import json, sys; print(int(json.load(open('$1'))['$2']))"
}

"$ouro" compile "$model" -o "$folder/plain.plan" --report "$folder/plain.json" "$@" >/dev/null
whole=$(number "$folder/plain.json" least_arena_bytes)
limits=(min 5% 20%)
for i in 0 1 2; do
    "$ouro" compile "$model" -o "$folder/$i.plan" --arena-limit "${limits[i]}" --report "$folder/$i.json" "$@" >/dev/null
done
for i in 0 1 2; do
    : >"$folder/ratios"
    if [ "$runs" = 0 ]; then
        python3 -c "
import json
bands = json.load(open('$folder/$i.json')).get('bands')
ratio = bands['predicted_seconds'] / bands['predicted_seconds_without'] if bands else 1
print(json.load(open('$folder/$i.json'))['arena_bytes'], ratio)"
        continue
    fi
    for _ in 1 2 3; do
        python3 -c "print($(seconds "$folder/$i.plan") / $(seconds "$folder/plain.plan"))" >>"$folder/ratios"
    done
    printf '%s ' "$(number "$folder/$i.json" arena_bytes)" "$(sort -n "$folder/ratios" | sed -n 2p)"
done | python3 -c "
import sys
n = sys.stdin.read().split()
m = lambda b: '%.2f' % (float(b) / 2**20)
print('| $(basename "$(dirname "$model")")/$(basename "$model" .onnx) |', m($whole), '|', ' | '.join('%s | %.2f' % (m(n[2 * i]), float(n[2 * i + 1])) for i in range(3)), '| %.1f |' % ($whole / float(n[0])))"
