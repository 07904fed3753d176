#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_embedded.sh BUILD FOLDER [NAME...]: the runtime for small machines. Builds it without oneDNN and OpenMP, with the operators and
# kernels of one plan alone, for this machine and with each of these compilers that is there: musl's (with and without the kernels for
# AVX2 and AVX-512), aarch64's, 32-bit ARM's (./setup.sh cross installs them, and qemu-user, which runs the programs). Each program,
# linked statically, must give what this machine's gives; a plan with other operators must be refused by name. Prints the size of each
# program. NAME: musl, aarch64, armhf; else all.
set -euo pipefail
build=$1
folder=$2
shift 2
wanted=${*:-musl aarch64 armhf}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
rm -rf "$folder"
mkdir -p "$folder"
# Neither has all operators of the other; the second has operators whose kernels are chosen when it runs.
plans=(convolution_recurrence attention_decoding)
"$build/ouro-models" "$folder" "${plans[@]}"
for model in "${plans[@]}"; do
    cp "$folder/$model.onnx" "$folder/$model;.onnx" # what a plan tells of its model may have semicolons, which separate CMake's lists
    "$build/ouro" compile "$folder/$model;.onnx" --portable -q -o "$folder/$model.plan"
    "$build/ouro" inspect --json "$folder/$model.plan" >"$folder/$model.json"
done

# one NAME COMPILER RUNNER [OPTIONS]
one() {
    local name=$1 compiler=$2 runner=$3 plan other=${plans[1]}
    shift 3
    for plan in "${plans[@]}"; do
        cmake -S "$root" -B "$folder/$name" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=MinSizeRel -DOURO_COMPILER=OFF -DOURO_TESTS=OFF \
            -DOURO_ONEDNN=OFF -DOURO_OPENMP=OFF -DOURO_{PCRE2,JPEG,PNG,WEBP,TIFF,OPENJPEG}=OFF -DOURO_OPERATORS="$folder/$plan.json" "$@" >/dev/null
        cmake --build "$folder/$name" --target ouro_runtime -- --quiet
        "$compiler" -std=c11 -Os -static -Wl,--gc-sections -I"$root/runtime" "$root/tests/installation/embedded_example.c" \
            "$folder/$name/libouro_runtime.a" -lm -lpthread -o "$folder/$name/$plan"
        $runner "$folder/$name/$plan" "$folder/$plan.plan" >"$folder/$name.$plan.txt"
        $runner "$folder/$name/$plan" "$folder/$other.plan" >"$folder/$name.refused" 2>&1 && {
            echo "$name: a plan with operators that were not chosen runs"
            exit 1
        }
        grep -q 'kernel\|operator' "$folder/$name.refused" || { echo "$name: $(cat "$folder/$name.refused")"; exit 1; }
        diff "$folder/native.$plan.txt" "$folder/$name.$plan.txt" || { echo "$name computes something else"; exit 1; }
        other=$plan
        size "$folder/$name/$plan" | awk -v name="$name, $plan" 'NR == 2 {print name ": " $1 + $2 " bytes"}'
    done
}

# wanted NAME PROGRAM...: it is wanted, and all of these are there
wanted() {
    [[ " $wanted " == *" $1 "* ]] || return 1
    type "${@:2}" >/dev/null 2>&1 || { echo "$1: not tried, $2 is not there"; return 1; }
}

one native cc ""
if wanted musl musl-gcc; then
    one musl musl-gcc ""
    one musl-without-vectors musl-gcc "" -DOURO_VECTORS=OFF
fi
if wanted aarch64 aarch64-linux-gnu-gcc qemu-aarch64-static; then
    one aarch64 aarch64-linux-gnu-gcc qemu-aarch64-static -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64
fi
if wanted armhf arm-linux-gnueabihf-gcc qemu-arm-static; then
    one armhf arm-linux-gnueabihf-gcc qemu-arm-static -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=arm
fi
