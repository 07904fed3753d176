#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# long.sh [MINUTES]: what takes too long for ./test.sh, one after another; MINUTES (10) is what each fuzz target gets. Ends at the first
# failure.
#   - memory_limits.sh in steps of 2 MB on networks of this project, and on shared ones where they are there
#   - every allocation, operation on files and start of a thread of the command fails in turn; 1,000 kills in mid-compile
#   - plans changed record by record, 200,000 times each; all pairs of tensors and entries laid where others lie; each of
#     ONNX's cases spoiled; each allocation of the passes, and of whole compiles, fails once
#   - 64 sessions of one plan, and kernels on several threads, under ThreadSanitizer (the preset "threads"); 1,000,000 sessions of each of
#     two plans made and freed
#   - every fuzz target (fuzz.sh), beginning with what earlier runs found
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
minutes=${1:-10}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

./setup.sh release
build/ouro-models "$work" mobilenet_v2 >/dev/null
models=("$work/mobilenet_v2.onnx")
resnet=../shared/models/light/light_resnet50.onnx silero=../shared/models/real/silero_vad/model.onnx
[ ! -f "$resnet" ] || models+=("$resnet")
[ ! -f "$silero" ] || models+=("$silero --input sr=16000 --shape input=1x576 --shape state=2x1x128")
tests/memory_limits.sh build/ouro 2 "${models[@]}"
tests/faults/faults.sh "$PWD/build/ouro" "$PWD/build/ouro-models" "$(find "$PWD/build/tests" -name 'libouro_faults.so')" 0
OURO_FUZZ_RUNS=200000 build/tests/test_plan_records
OURO_EVERY_PLACE=1 build/tests/test_plan_places
OURO_EVERY_ALLOCATION=1 build/tests/test_memory_runs_out
OURO_EVERY_ALLOCATION=1 build/tests/test_compile_fails_once
OURO_EVERY_ALLOCATION=1 build/tests/test_fails_once
OURO_EVERY_ALLOCATION=1 build/tests/test_import_spoiled
OURO_EVERY_CASE=1 build/tests/test_import_cases
# All tests of kernels, since most run on several threads, and what else asks for threads; of equal rounds a third, as other sanitizers do.
# The OpenMP of LLVM tells ThreadSanitizer who waits for whom; what it does itself is not looked at.
threaded=()
for file in tests/runtime/kernels/test_*.c $(grep -lw threads tests/runtime/test_*.c tests/passes/{graph,layout}/test_*.c); do
    threaded+=("$(basename "$file" .c)")
done
./setup.sh threads "${threaded[@]}"
export TSAN_OPTIONS=ignore_noninstrumented_modules=1
for name in "${threaded[@]}"; do OURO_TEST_SHARE=3 build-threads/tests/"$name"; done
OURO_SESSIONS=1000000 build/tests/test_many_sessions
tests/fuzz.sh $((minutes * 60))
