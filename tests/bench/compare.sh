#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compare.sh [-t THREADS] [-r ROUNDS] MODEL.onnx...: ouro beside ONNX Runtime on the same models in the same
# minutes: both are measured in turn, ROUNDS times, and the ratio is the median of the rounds' ratios (machines
# drift; ratios of neighbours do not). Needs node and npm; installs onnxruntime-node under build/bench.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
threads=1
rounds=5
runs=20
while getopts t:r:n: option; do
    case $option in
    t) threads=$OPTARG ;;
    r) rounds=$OPTARG ;;
    n) runs=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { echo "usage: compare.sh [-t THREADS] [-r ROUNDS] [-n RUNS] MODEL.onnx..." >&2; exit 2; }

bench=$root/build/bench
mkdir -p "$bench"
if [ ! -d "$bench/node_modules/onnxruntime-node" ]; then
    (cd "$bench" && { [ -f package.json ] || echo '{"private":true}' >package.json; } &&
        npm install --ignore-scripts --silent onnxruntime-node@1.30.0)
fi

median() { sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
number() { sed -n 's/.*"median_ms": *\([0-9.eE+-]*\).*/\1/p' | head -n 1; }

printf '%-28s %12s %12s %8s\n' "model ($threads thread(s))" "ouro ms" "ORT ms" "ratio"
for model in "$@"; do
    : >"$bench/ours"
    : >"$bench/theirs"
    : >"$bench/ratios"
    "$root/build/ouro" compile "$model" -o "$bench/model.plan" --threads "$threads" -q
    for ((round = 0; round < rounds; round++)); do
        "$root/build/ouro" bench "$bench/model.plan" --threads "$threads" --runs "$runs" --json "$bench/ours.json" >/dev/null
        ours=$(number <"$bench/ours.json")
        theirs=$(NODE_PATH=$bench/node_modules node "$root/tests/bench/onnxruntime.js" "$threads" "$runs" "$model" | number)
        echo "$ours" >>"$bench/ours"
        echo "$theirs" >>"$bench/theirs"
        awk -v a="$ours" -v b="$theirs" 'BEGIN {print a / b}' >>"$bench/ratios"
    done
    printf '%-28s %12.3f %12.3f %8.2f\n' "$(basename "$model" .onnx)" "$(median <"$bench/ours")" \
        "$(median <"$bench/theirs")" "$(median <"$bench/ratios")"
done
