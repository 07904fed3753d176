#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# memory_table.sh [MODEL.onnx...]: what each model's plan takes, as a table in Markdown: the arena, its lower bound,
# no reuse at all, the peak in the file's order, and the seconds of the compile. Without arguments: the example
# models, and ../shared/models where it is there.
# Tensors whose extents the model leaves open are allocated at run time; the last column counts them.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
ouro=$root/build/ouro
work=$root/build/bench/memory
mkdir -p "$work"
if [ $# = 0 ]; then
    "$root/build/ouro-models" "$work"
    set -- "$work"/*.onnx
    [ -d "$root/../shared/models" ] && set -- "$@" "$root"/../shared/models/{light/*.onnx,real/*/model.onnx}
fi

number() { sed -n 's/^ *"'"$1"'": *\([0-9.eE+-]*\).*/\1/p' "$work/report.json" | head -n 1; }

echo "| model | arena | lower bound | arena / bound | no reuse | file's order | compile | open |"
echo "|---|--:|--:|--:|--:|--:|--:|--:|"
for model in "$@"; do
    name=$(basename "$model" .onnx)
    [ "$name" = model ] && name=$(basename "$(dirname "$model")")
    if ! "$ouro" compile "$model" -q --report "$work/report.json" -o "$work/model.plan" 2>"$work/error"; then
        echo "| $name | $(head -n 1 "$work/error" | sed "s#^.*\.onnx: ##; s/|/\\\\|/g") | | | | | |"
        continue
    fi
    awk -v name="${name#light_}" -v arena="$(number arena_bytes)" -v bound="$(number lower_bound_bytes)" \
        -v sum="$(number sum_bytes)" -v file="$(number file_order_peak_bytes)" -v open="$(number dynamic_tensors)" \
        -v seconds="$(number compile_seconds)" '
        function bytes(n) { return n >= 1048576 ? sprintf("%.2f MiB", n / 1048576) : sprintf("%.1f KiB", n / 1024) }
        BEGIN {
            printf "| %s | %s | %s | %s | %s | %s | %.2f s | %d |\n", name, bytes(arena), bytes(bound),
                (bound > 0) ? sprintf("%.3f", arena / bound) : "-", bytes(sum), bytes(file), seconds, open
        }'
done
rm -rf "$work"
