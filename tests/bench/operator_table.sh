#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# operator_table.sh [OURO]: the table of docs/OPERATOR_TABLE.md, made from `ouro ops`: by what runs them, each with the opset
# version whose meaning it has.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
ouro=${1:-$root/build/ouro}
echo '| what runs them | operators |'
echo '|---|---|'
"$ouro" ops | awk 'NR > 1 {
    kind = /onednn\./ ? 1 : /portable\./ ? 2 : /\(executor\)/ ? 3 : /\(sub-graphs\)/ ? 4 : 5
    list[kind] = list[kind] (list[kind] ? ", " : "") $1 " " $2
}
END {
    split("oneDNN where it wins, else portable C|portable C|the executor itself: sequences, optionals and maps|the executor, with their sub-graphs|made of others when a model is read", name, "|")
    for (k = 1; k <= 5; k++) printf "| %s | %s |\n", name[k], list[k]
}'
