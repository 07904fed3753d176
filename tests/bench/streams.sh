#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# streams.sh [-t THREADS] [-n FRAMES] [-w TYPE] [-p] [FOLDER]: networks that hear sound frame by frame, with what they remember as states, beside ONNX
# Runtime, whose outputs are bound and given back as inputs: the time of a frame, and the largest difference of all outputs and, in the
# end, of the states, which may be 0.001. FOLDER has gtcrn_simple, dtln_1, ten_vad and silero_vad, each with its model.onnx. -w: how constant
# weights are stored, as of `compile --weights`, and any difference. -p: processor seconds, where others use the machine, too. Needs npm, unless OURO_ONNXRUNTIME names the library of ONNX Runtime.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
steps=1000 weights=() within=() others=w: usage="streams.sh [-t THREADS] [-n FRAMES] [-w TYPE] [-p] [FOLDER]"
other() { weights=(--weights "$2") within=(--within 1e30); }
. "$root/tests/bench/states_options.sh"
models=${1:-$root/../shared/models/real}
stream() { # MODEL INPUTS [options of compile]: INPUTS for bench_states
    local model=$models/$1/model.onnx inputs=$2
    echo "$1"
    shift 2
    "$root/build/ouro" compile "$model" -o "$plan" -q --threads "$threads" ${weights[@]+"${weights[@]}"} "$@"
    "$root/build/tests/bench_states" --threads "$threads" --steps "$steps" --turn 50 $clock ${within[@]+"${within[@]}"} $inputs "$plan" "$model"
}
stream gtcrn_simple '' --state '*_cache=*_cache_out'
stream dtln_1 '' --state input_3=tf_op_layer_stack_2
stream ten_vad '' --shape input_1=1x3x41 --shape input_2=1x64 --shape input_3=1x64 --shape input_6=1x64 --shape input_7=1x64 \
    --state input_2=output_2 --state input_3=output_3 --state input_6=output_6 --state input_7=output_7
stream silero_vad '--input sr=16000' --shape input=1x576 --shape state=2x1x128 --state state=stateN
