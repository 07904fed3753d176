#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# start.sh [-t THREADS] [-n STARTS] [-r] MODEL.onnx|FOLDER...: a table of ouro beside ONNX Runtime: from the start of a process to its first
# output, and the most memory of that process. A process of ouro maps a plan (-r: reads it), one of ONNX Runtime reads a model; both take turns, and medians count.
# Inputs are zeros; extents that the model leaves open are those of the first data set of an ONNX test folder, else 1. Needs python3 and, for
# the library of ONNX Runtime, npm, unless OURO_ONNXRUNTIME names it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/bench/find_onnxruntime.sh"
ninja -C "$root/build" ouro bench_start bench_start_onnxruntime >/dev/null
exec python3 "$root/tests/bench/start_table.py" "$root/build" "$@"
