#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_map.sh: docs/MAP.md has a line for every file of the tree, under the heading of its folder, and for none that
# is not there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
listed=$(awk -F'`' '/^## /{folder = $2} /^\| `/{print folder $2}' docs/MAP.md | grep / | sort)
present=$(find ir passes compiler runtime models tests cmake -type f -not -path '*/cases/*' -not -path '*/seeds/*' | sort)
if ! difference=$(diff <(grep -v '^docs/\|^\.ci/\|/$' <<<"$listed") <(cat <<<"$present")); then
    echo "docs/MAP.md (<) differs from the tree (>):"
    echo "$difference"
    exit 1
fi
