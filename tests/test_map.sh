#!/usr/bin/env bash
# test_map.sh: docs/MAP.md has a line for every file of the tree, under the heading of its room, and for none that
# is not there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
listed=$(awk -F'`' '/^## /{room = $2} /^\| `/{print room $2}' docs/MAP.md | grep / | sort)
present=$(for room in ir passes passes/planners compiler runtime runtime/kernels runtime/onednn models tests tests/bench cmake; do
    find "$room" -maxdepth 1 -type f
done | sort)
if ! difference=$(diff <(grep -v '^docs/\|^\.ci/\|/$' <<<"$listed") <(cat <<<"$present")); then
    echo "docs/MAP.md (<) differs from the tree (>):"
    echo "$difference"
    exit 1
fi
