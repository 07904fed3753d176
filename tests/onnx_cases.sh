#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# onnx_cases.sh OURO ARCHIVE FOLDER [OPTION...]: the backend cases of a version of ONNX, all of them, under `ouro test`.
#   ARCHIVE  a tar file with node/, simple/, pytorch-converted/, pytorch-operator/; unpacked into FOLDER, which is kept
#   OPTION   of `ouro test`: --check, --allocator NAME, ...
# Nothing is left out. Fails where a case does not pass that tests/unmatched_cases.txt does not list with a reason. Ends with
# "N passed of M, N listed, N not listed".
set -uo pipefail
ouro=$1
archive=$2
folder=$3
shift 3
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "$folder" || exit 1
[ "$folder/unpacked" -nt "$archive" ] || { tar -xf "$archive" -C "$folder" && touch "$folder/unpacked"; } || exit 1
parts=()
for part in node simple pytorch-converted pytorch-operator; do
    [ -d "$folder/$part" ] && parts+=("$folder/$part")
done
"$ouro" test "${parts[@]}" "$@" >"$folder/log" 2>&1
total=$(find "${parts[@]}" -name model.onnx | wc -l)
grep -c '^passed ' "$folder/log" >"$folder/count"
sed -n 's/^\(failed\|skipped\) *\([^:]*\):.*/\2/p' "$folder/log" | sort >"$folder/unmatched"
sed -n 's/^\([^# ][^ ]*\) .*/\1/p' "$root/tests/unmatched_cases.txt" | sort >"$folder/listed"
comm -23 "$folder/unmatched" "$folder/listed" >"$folder/surprises"
grep -F -f "$folder/surprises" "$folder/log" | grep -v '^passed '
passed=$(cat "$folder/count")
echo "$passed passed of $total, $(comm -12 "$folder/unmatched" "$folder/listed" | wc -l) listed, $(wc -l <"$folder/surprises") not listed"
[ ! -s "$folder/surprises" ] && [ "$total" -gt 0 ] &&
    [ "$((passed + $(wc -l <"$folder/unmatched")))" = "$total" ]
