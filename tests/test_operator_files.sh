#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_operator_files.sh: what docs/OPERATORS.md says of the files that an operator touches is true. Each row of its table names an
# operator and all files of the code that name it: as "Name", as OP_NAME, or as a function whose name ends with it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rows=0
status=0
while IFS='|' read -r _ operator files _; do
    operator=$(tr -d ' `' <<<"$operator")
    listed=$(tr -d '`' <<<"$files" | tr ' ' '\n' | sed '/^$/d' | sort)
    snake=$(sed -E 's/([a-z0-9])([A-Z])/\1_\2/g' <<<"$operator")
    found=$(grep -rlE "\"$operator\"|\b(OP_)?${snake^^}\b|(\b|_)${snake,,}\b" ir passes compiler runtime models \
        --include='*.c' --include='*.h' --include='*.def' | sort)
    rows=$((rows + 1))
    [ "$listed" = "$found" ] && continue
    echo "$operator: docs/OPERATORS.md (<) differs from the code (>):"
    diff <(echo "$listed") <(echo "$found") | grep '^[<>]' || true
    status=1
done < <(sed -n '/^| operator | the files/,/^$/p' docs/OPERATORS.md | grep '^| `')
[ "$rows" -ge 3 ] || { echo "docs/OPERATORS.md has no table of operators and files"; exit 1; }
exit $status
