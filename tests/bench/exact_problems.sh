#!/usr/bin/env bash
# exact_problems.sh [OPTION...] [KIND...]: what `exact` solves of problems made by a generator (kinds, sizes and seeds
# are the same on every machine; tests/support_problems.h says what the kinds are), one line for each and a sum for each
# kind. `quick` is the best of the planners that take no time, beside the capacity (or the live sum, where nobody knows
# whether it can be reached); `optimal`: proved; `fits`: within the capacity; `open`: neither.
#
#     exact_problems.sh -s 10 -c 100,300,1000 -n 2        seconds for each, numbers of buffers, seeds
#     exact_problems.sh --published FOLDER [SECONDS]      the same for CSV files NAME.CAPACITY.csv
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [[ ${1:-} == --published ]]; then
    cmake --build "$root/build" --target ouro >/dev/null
    for file in "$2"/*.csv; do
        capacity=${file%.csv}
        "$root/build/ouro" alloc "$file" --allocator exact --seconds "${3:-10}" --capacity "${capacity##*.}" |
            awk -v file="$(basename "$file")" '$1 == "exact" {print file, $2, $3, $4, $5, $6, $7}'
    done
    exit
fi
cmake --build "$root/build" --target bench_exact >/dev/null
exec "$root/build/tests/bench_exact" "$@"
