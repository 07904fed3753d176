#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# half_models.sh OURO MODELS FOLDER: networks of images with real weights (MODELS, test folders), converted to float16 in FOLDER, give what
# they give in float, to what numbers of 16 bits can tell: with the kernels of this machine, on one thread and two, in bands of rows, and with
# portable kernels. Needs python3-onnx.
set -euo pipefail
ouro=$1 models=$2 folder=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$folder"
while read -r name input within dims; do
    /usr/bin/python3 "$here/../../support/half_model.py" "$models/$name/model.onnx" "$folder/$name.onnx"
    for options in "" "--threads 2" "--arena-limit min" "--portable"; do
        # shellcheck disable=SC2086
        "$ouro" compile "$folder/$name.onnx" -q -o "$folder/$name.plan" $dims $options
        "$ouro" run "$folder/$name.plan" --input "$input=$models/$name/test_data_set_0/input_0.pb" \
            --expect "$models/$name/test_data_set_0" --rtol 2e-3 --atol "$within" >/dev/null || {
            echo "$name in float16 differs (options: $options)"
            exit 1
        }
    done
    echo "$name: as in float"
done <<'MODELS'
mnist Input3 2e-3
squeezenet data_0 5e-6
shufflenet gpu_0/data_0 1e-3
version-RFB-320 input 2e-3
super_resolution input 2e-3 --dim batch_size=1
MODELS
