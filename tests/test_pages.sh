#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_pages.sh BUILD PAGE...: the commands of a page work: the lines in its blocks that begin with build/ are run, one after the other,
# in a folder of their own.
set -euo pipefail
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ln -s "$build" "$folder/build"
for page in "$@"; do
    count=0
    while read -r line; do
        (cd "$folder" && eval "$line") >"$folder/output" 2>&1 || {
            echo "$page: this command fails: $line"
            cat "$folder/output"
            exit 1
        }
        count=$((count + 1))
    done < <(awk '/^```/ {inside = !inside} inside && /^build\// {print}' "$root/$page")
    echo "$page: $count commands"
    [ "$count" -gt 0 ]
done
