#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_readme.sh BUILD FOLDER: what the README tells a newcomer to do, word for word: its commands on a model of the demonstration, and
# its C program, built against an installation of BUILD. (test_python.sh runs its Python.)
set -euo pipefail
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rm -rf "$2"
mkdir -p "$2/folder/test_data_set_0"
cd "$2"
ln -s "$build" build

# lines HEADING: the indented lines of a section
lines() { awk -v heading="## $1" '/^## / {on = $0 == heading} on && /^    / {print substr($0, 5)}' "$root/README.md"; }

build/ouro-models . mobilenet_v2
mv mobilenet_v2.onnx model.onnx
# image.npy: zeros in numpy's format
{ printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 224, 224), }"; head -c $((4 * 3 * 224 * 224)) /dev/zero; } >image.npy
cp model.onnx folder/
# input_0.pb: the same as ONNX stores it: dims, float, raw data
{ printf '\x08\x01\x08\x03\x08\xe0\x01\x08\xe0\x01\x10\x01\x4a\x80\xe0\x24'; head -c $((4 * 3 * 224 * 224)) /dev/zero; } >folder/test_data_set_0/input_0.pb
count=0
while read -r line; do
    eval "$line" >output 2>&1 || { echo "README: this command fails: $line"; cat output; exit 1; }
    count=$((count + 1))
    # What is to be expected of the test folder: what the model gave.
    [ -e out/probabilities.npy ] && [ ! -e folder/test_data_set_0/output_0.pb ] &&
        { printf '\x08\x01\x08\xe8\x07\x10\x01\x4a\xa0\x1f'; tail -c 4000 out/probabilities.npy; } >folder/test_data_set_0/output_0.pb
done < <(lines "Try it" | grep '^build/ouro')
for made in model.plan report.json memory.svg graph.svg out/probabilities.npy; do
    [ -s "$made" ] || { echo "README: its commands do not make $made"; exit 1; }
done
[ "$count" = 4 ]

cmake --install "$build" --prefix "$PWD/prefix" >/dev/null
pc=$(dirname "$(find prefix -name ouro-runtime.pc)")
flags=$(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs ouro-runtime)
lines "From a C program" | awk '/^static _Alignas/ {exit} {print}' >first.c
# shellcheck disable=SC2086 # the flags are words
gcc -std=c11 -Wall -Wextra -Werror first.c -o first $flags
LD_LIBRARY_PATH=$(dirname "$pc") ./first | tee first.txt
grep -q '^class [0-9]*, score 0\.0' first.txt

# The second part of the program, with as many bytes as `ouro inspect` says for portable kernels.
build/ouro compile -q --portable model.onnx -o portable.plan
bytes=$(build/ouro inspect portable.plan | sed -n 's/^without a heap: a block of \([0-9]*\) bytes.*/\1/p')
{
    printf '#include <ouro/ouro.h>\n#include <stdio.h>\n#include <stdlib.h>\n#define BYTES %s\n' "$bytes"
    printf 'static unsigned char plan_bytes[64 << 20];\n'
    printf 'int main(void) {\nouro_error error;\nouro_plan *plan;\nouro_session *session;\n'
    printf 'FILE *file = fopen("portable.plan", "rb");\nif (!file) return 9;\n'
    printf 'size_t plan_size = fread(plan_bytes, 1, sizeof plan_bytes, file);\nfclose(file);\n'
    lines "From a C program" | awk '/^static _Alignas/ {on = 1} on'
    printf 'if (ouro_session_new(plan, NULL, &session, &error)) return ouro_error_print(&error);\n'
    printf 'printf("%%zu of %%d bytes\\n", ouro_block_peak(&memory), BYTES);\n}\n'
} >block.c
# shellcheck disable=SC2086
gcc -std=c11 -Wall -Wextra -Werror block.c -o block $flags
LD_LIBRARY_PATH=$(dirname "$pc") ./block
