#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# long.sh [MINUTES]: what takes too long for ./test.sh, one after another; MINUTES (10) is what each fuzz target gets. Ends at the first
# failure.
#   - memory_limits.sh in steps of 2 MB on networks of this project, and on shared ones where they are there
#   - every allocation, operation on files and start of a thread of the command fails in turn; 1,000 kills in mid-compile
#   - plans changed record by record, 200,000 times each
#   - 64 sessions of one plan under ThreadSanitizer (the preset "threads"); 1,000,000 sessions of each of two plans made and freed
#   - every fuzz target (fuzz.sh), beginning with what earlier runs found
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
minutes=${1:-10}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

./setup.sh release
build/ouro-models "$work" mobilenet_v2 >/dev/null
models=("$work/mobilenet_v2.onnx")
for model in ../shared/models/light/light_resnet50.onnx; do
    [ ! -f "$model" ] || models+=("$model")
done
tests/memory_limits.sh build/ouro 2 "${models[@]}"
tests/faults/faults.sh "$PWD/build/ouro" "$PWD/build/ouro-models" "$(find "$PWD/build/tests" -name 'libouro_faults.so')" 0
OURO_FUZZ_RUNS=200000 build/tests/test_plan_records
./setup.sh threads test_many_sessions
build-threads/tests/test_many_sessions
OURO_SESSIONS=1000000 build/tests/test_many_sessions
tests/fuzz.sh $((minutes * 60))
