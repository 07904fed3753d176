#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compare.sh [-t THREADS[,THREADS]] [-n RUNS] MODEL.onnx|FOLDER...: a table of ouro beside ONNX Runtime on the same models in the same
# minutes. Both run in turn in one process, through their C interfaces (`ouro bench --compare-ort`): the ratio is the median of the rounds'
# ratios, as machines drift and ratios of neighbours do not; "least" is the ratio of the shortest runs. A folder is an ONNX test folder, whose
# first data set gives the inputs. Needs python3 and, for the library of ONNX Runtime, npm, unless OURO_ONNXRUNTIME names it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/bench/find_onnxruntime.sh"
exec python3 "$root/tests/bench/compare_table.py" "$root/build/ouro" "$@"
