#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# decoder.sh [-t THREADS] DECODER.onnx: a decoder with caches past.* and present.*, one token at a time: the time of a token at several positions,
# with states beside ONNX Runtime, which gets its outputs back as inputs. The model has the inputs input_ids and position_ids of one
# position. Needs node and npm; installs onnxruntime-node under build/bench.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
threads=1
while getopts t: option; do
    case $option in
    t) threads=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# = 1 ] || { echo "usage: decoder.sh [-t THREADS] DECODER.onnx" >&2; exit 2; }
positions="16 512 2000"
bench=$root/build/bench
mkdir -p "$bench"
if [ ! -d "$bench/node_modules/onnxruntime-node" ]; then
    (cd "$bench" && { [ -f package.json ] || echo '{"private":true}' >package.json; } &&
        npm install --ignore-scripts --silent onnxruntime-node@1.30.0)
fi
"$root/build/ouro" compile "$1" -o "$bench/decoder.plan" -q --threads "$threads" --state 'past.*=present.*' --max past=2048 --dim batch=1 --dim sequence=1
NODE_PATH=$bench/node_modules node "$root/tests/bench/decoder.js" "$1" "$threads" $positions >"$bench/decoder.theirs"
printf '%-10s %12s %12s %8s\n' position "ouro ms" "ORT ms" ratio
for position in $positions; do
    "$root/build/ouro" bench "$bench/decoder.plan" --threads "$threads" --warmup $((position - 12)) --runs 24 --json "$bench/decoder.json" >/dev/null
    ours=$(sed -n 's/.*"median_ms": *\([0-9.eE+-]*\).*/\1/p' "$bench/decoder.json" | head -n 1)
    theirs=$(awk -v p="$position" '$1 == p {print $2}' "$bench/decoder.theirs")
    printf '%-10s %12.3f %12.3f %8.2f\n' "$position" "$ours" "$theirs" "$(awk "BEGIN {print $ours / $theirs}")"
done
