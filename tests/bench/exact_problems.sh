#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# exact_problems.sh [OPTION...] [KIND...]: what `exact` solves of problems made by a generator (kinds, sizes and seeds
# are the same on every machine; tests/support/problems.h says what the kinds are), one line for each and a sum for each
# kind. `quick` is the best of the planners that take no time, beside the capacity (or the live sum, where nobody knows
# whether it can be reached); `optimal`: proved; `fits`: within the capacity; `open`: neither.
#
#     exact_problems.sh -s 10 -c 100,300,1000 -n 2        seconds for each, numbers of buffers, seeds
#     exact_problems.sh --published FOLDER [SECONDS]      the same for CSV files NAME.CAPACITY.csv
#     exact_problems.sh --perturbed FOLDER [SECONDS [COUNT [SEED]]]
#                                                         and for COUNT (6) problems like each of them (exact_perturbed.py)
#     exact_problems.sh --varied FOLDER [SECONDS [COUNT [SEED]]]
#                                                         and for each of them in other words (exact_varied.py)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# solve FOLDER SECONDS: a height above the capacity is an answer here, not an error
solve() {
    for file in "$1"/*.csv; do
        capacity=${file%.csv}
        { "$root/build/ouro" alloc "$file" --allocator exact --seconds "$2" --capacity "${capacity##*.}" 2>/dev/null || true; } |
            awk -v file="$(basename "$file")" '$1 == "exact" {print file, $2, $3, $4, $5, $6, $7}'
    done
}
case ${1:-} in
--published | --perturbed | --varied)
    cmake --build "$root/build" --target ouro >/dev/null
    folder=$root/build/bench/${1#--}
    rm -rf "$folder"
    ;;&
--published)
    folder=$2
    ;;
--varied)
    python3 "$root/tests/bench/exact_varied.py" "$folder" "${4:-6}" "${5:-1}" "$2"/*.csv
    ;;
--perturbed)
    mkdir -p "$folder/solved"
    for file in "$2"/*.csv; do
        capacity=${file%.csv}
        "$root/build/ouro" alloc "$file" --allocator exact --seconds 60 --capacity "${capacity##*.}" \
            --output "$folder/solved/$(basename "$file")" >/dev/null
    done
    python3 "$root/tests/bench/exact_perturbed.py" "$folder" "${4:-6}" "${5:-1}" "$folder"/solved/*.csv
    ;;
*)
    cmake --build "$root/build" --target bench_exact >/dev/null
    exec "$root/build/tests/bench_exact" "$@"
    ;;
esac
solve "$folder" "${3:-10}"
