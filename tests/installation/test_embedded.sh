#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_embedded.sh BUILD FOLDER [NAME...]: the runtime for small machines. Builds it without oneDNN and OpenMP, with the operators of one
# plan alone, for this machine and with each of these compilers that is there: musl's, aarch64's, 32-bit ARM's (./setup.sh cross
# installs them, and qemu-user, which runs the programs). Each program, linked statically, must give what this machine's gives; a
# plan with other operators must be refused by name. Prints the size of each program. NAME: musl, aarch64, armhf; else all.
set -euo pipefail
build=$1
folder=$2
shift 2
wanted=${*:-musl aarch64 armhf}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
rm -rf "$folder"
mkdir -p "$folder"
"$build/ouro-models" "$folder" convolution_recurrence swap
for model in convolution_recurrence swap; do
    "$build/ouro" compile "$folder/$model.onnx" --portable -q -o "$folder/$model.plan"
done
"$build/ouro" inspect --json "$folder/convolution_recurrence.plan" >"$folder/operators.json"

# one NAME COMPILER RUNNER [OPTIONS]
one() {
    local name=$1 compiler=$2 runner=$3
    shift 3
    cmake -S "$root" -B "$folder/$name" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=MinSizeRel -DOURO_COMPILER=OFF -DOURO_TESTS=OFF \
        -DOURO_ONEDNN=OFF -DOURO_OPENMP=OFF -DOURO_{PCRE2,JPEG,PNG,WEBP,TIFF,OPENJPEG}=OFF -DOURO_OPERATORS="$folder/operators.json" "$@" >/dev/null
    cmake --build "$folder/$name" --target ouro_runtime -- --quiet
    "$compiler" -std=c11 -Os -static -Wl,--gc-sections -I"$root/runtime" "$root/tests/installation/embedded_example.c" \
        "$folder/$name/libouro_runtime.a" -lm -lpthread -o "$folder/$name/example"
    $runner "$folder/$name/example" "$folder/convolution_recurrence.plan" >"$folder/$name.txt"
    $runner "$folder/$name/example" "$folder/swap.plan" >"$folder/$name.refused" 2>&1 && {
        echo "$name: a plan with operators that were not chosen runs"
        exit 1
    }
    grep -q 'kernel\|operator' "$folder/$name.refused" || { echo "$name: $(cat "$folder/$name.refused")"; exit 1; }
    diff "$folder/native.txt" "$folder/$name.txt" || { echo "$name computes something else"; exit 1; }
    size "$folder/$name/example" | awk -v name="$name" 'NR == 2 {print name ": " $1 + $2 " bytes"}'
}

# wanted NAME PROGRAM...: it is wanted, and all of these are there
wanted() {
    [[ " $wanted " == *" $1 "* ]] || return 1
    type "${@:2}" >/dev/null 2>&1 || { echo "$1: not tried, $2 is not there"; return 1; }
}

one native cc ""
if wanted musl musl-gcc; then one musl musl-gcc ""; fi
if wanted aarch64 aarch64-linux-gnu-gcc qemu-aarch64-static; then
    one aarch64 aarch64-linux-gnu-gcc qemu-aarch64-static -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64
fi
if wanted armhf arm-linux-gnueabihf-gcc qemu-arm-static; then
    one armhf arm-linux-gnueabihf-gcc qemu-arm-static -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=arm
fi
