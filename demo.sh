#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# demo.sh: installs what is missing, builds, writes two models, compiles them ahead of time and runs them.
# Everything that it makes lies in out/demo/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
./setup.sh release ouro ouro-models
out=out/demo
mkdir -p "$out"
build/ouro-models "$out" mobilenet_v2 swap

for model in mobilenet_v2 swap; do
    echo
    echo "== $model"
    build/ouro compile "$out/$model.onnx" -o "$out/$model.plan" --dot "$out/$model.dot" \
        --memory-map "$out/$model.memory.svg" --report "$out/$model.report.json"
    build/ouro compile "$out/$model.onnx" -q -o "$out/$model.plan" --dot "$out/$model.svg"
    build/ouro verify "$out/$model.plan"
    build/ouro run "$out/$model.plan" --random 1 --check --output-dir "$out/$model.outputs"
    build/ouro bench "$out/$model.plan"
done
echo
echo "The loop of swap.onnx hands two tensors of 256 KiB on in each iteration; the plan copies nothing: see $out/swap.memory.svg."
echo "Made in $out/: plans, .dot and .svg pictures, .memory.svg memory maps, .report.json reports, outputs as .npy."
