#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_tutorial.sh BUILD FOLDER: runs every command of docs/TUTORIAL.md, in their order, and the C program that it shows, against an
# installation of BUILD. The picture of the README is the one that this build draws.
set -euo pipefail
build=$(cd "$1" && pwd)
work=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
page=$root/docs/TUTORIAL.md

rm -rf "$work"
mkdir -p "$work/run"
cmake --install "$build" --prefix "$work/prefix" >/dev/null
export PATH=$work/prefix/bin:$build:$PATH
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name ouro-runtime.pc)")
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH LD_LIBRARY_PATH
cd "$work/run"

# The program is the indented text after its name.
awk '/^`decode.c`:$/ { on = 1; next } on && /^[^ ]/ { exit } on { print substr($0, 5) }' "$page" >decode.c
count=0
while IFS= read -r line; do
    echo "\$ $line"
    bash -c "set -euo pipefail; $line" >output 2>&1 || { cat output; echo "failed: $line"; exit 1; }
    [ -s output ] || [[ $line == *" -q "* || $line == cc\ * || $line == ouro-models\ * ]] || { echo "said nothing: $line"; exit 1; }
    case $line in
    "ouro compile"*report.json) grep -q 'loop decode: .*; copies 0 B an iteration instead of up to 50' output || { cat output; exit 1; } ;;
    ./decode) grep -q '^the largest of 64: number [0-9]*, arena [0-9]* bytes$' output || { cat output; exit 1; } ;;
    esac
    count=$((count + 1))
done < <(sed -n 's/^    \$ //p' "$page")
[ "$count" -ge 10 ] || { echo "only $count commands"; exit 1; }

ouro-models . swap >/dev/null
ouro compile swap.onnx -q -o swap.plan --memory-map swap.svg
cmp swap.svg "$root/docs/swap.svg" || { echo "docs/swap.svg is not what this build draws"; exit 1; }
echo "$count commands"
