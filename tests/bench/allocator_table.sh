#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# allocator_table.sh [MODEL.onnx...]: arena / lower bound of every allocator on every model, and beside them what no
# reuse at all would take, as a table in Markdown. Without arguments: the example models, and ../shared/models where
# it is there. Sizes that a model leaves open are set to 1, where it
# can be compiled so.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
ouro=$root/build/ouro
work=$root/build/bench/allocators
allocators=(auto nnc greedy-by-size chunk-simulation bfc pool exact)
mkdir -p "$work"
if [ $# = 0 ]; then
    "$root/build/ouro-models" "$work"
    set -- "$work"/*.onnx
    [ -d "$root/../shared/models" ] && set -- "$@" "$root"/../shared/models/{light/*.onnx,real/*/model.onnx}
fi

number() { sed -n 's/^ *"'"$1"'": *\([0-9.eE+-]*\).*/\1/p' "$work/report.json" | head -n 1; }

printf '| model |'
printf ' %s |' "${allocators[@]}"
printf ' no reuse |\n|---|%s--:|\n' "$(printf -- '--:|%.0s' "${allocators[@]}")"
for model in "$@"; do
    name=$(basename "$model" .onnx)
    [ "$name" = model ] && name=$(basename "$(dirname "$model")")
    row="| ${name#light_} |"
    open=()
    while read -r symbol; do open+=(--dim "$symbol=1"); done < <("$ouro" inspect "$model" | sed -n 's/^symbols: //p' | tr ',' '\n' |
        sed 's/^ *//' | grep -v '^none$' | sed 's/ .*//' || true)
    for allocator in "${allocators[@]}"; do
        compile() { "$ouro" compile "$model" "$@" -q --allocator "$allocator" --report "$work/report.json" -o "$work/model.plan"; }
        if ! compile "${open[@]}" 2>"$work/error" && ! compile 2>"$work/error"; then # 1 may be too little
            row="$row - |"
            continue
        fi
        row="$row $(awk -v a="$(number arena_bytes)" -v b="$(number lower_bound_bytes)" 'BEGIN {printf "%.3f", (b > 0 ? a / b : 1)}') |"
    done
    echo "$row $(awk -v a="$(number sum_bytes)" -v b="$(number lower_bound_bytes)" 'BEGIN {printf "%.1f", (b > 0 ? a / b : 1)}') |"
done
rm -rf "$work"
