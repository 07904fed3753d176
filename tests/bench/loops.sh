#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# loops.sh [-t THREADS]: the example models with loops, ouro beside ONNX Runtime in one run, and what
# each loop copies according to its report. Those called counted_... run 100 times, as an input says: made-up inputs would say hardly more
# than none. See compare.sh.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$root/build/bench/loops
models=(counter convolution_recurrence swap rnn_cell rotation delay nested branching_loop reverse_scan beam_search
    growing_cache attention_decoding greedy_decoding newton)
counted=(counted_swap counted_rotation counted_branches counted_best)
mkdir -p "$folder"
"$root/build/ouro-models" "$folder" "${models[@]}" "${counted[@]}"
paths=()
for model in "${models[@]}"; do paths+=("$folder/$model.onnx"); done
for model in "${counted[@]}"; do # an ONNX test folder, whose input 0 is the int64 100, as a TensorProto
    mkdir -p "$folder/$model/test_data_set_0"
    cp "$folder/$model.onnx" "$folder/$model/model.onnx"
    printf '\x10\x07\x4a\x08\x64\0\0\0\0\0\0\0' >"$folder/$model/test_data_set_0/input_0.pb"
    paths+=("$folder/$model")
done
"$root/tests/bench/compare.sh" "$@" "${paths[@]}"
printf '\n%-28s %8s %16s %16s %14s\n' loop unroll "B an iteration" "B an entry" "arena / bound"
for model in "${models[@]}" "${counted[@]}"; do
    "$root/build/ouro" compile "$folder/$model.onnx" -o "$folder/$model.plan" -q --report "$folder/$model.json"
    field() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$folder/$model.json" | sort -n | tail -n 1; }
    printf '%-28s %8s %16s %16s %14s\n' "$model" "$(field unroll)" "$(field copied_bytes_per_iteration)" \
        "$(field copied_bytes_per_entry)" "$(field arena_bytes)/$(field lower_bound_bytes)"
done
