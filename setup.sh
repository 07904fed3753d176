#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# setup.sh [PRESET [TARGET...]]: installs the Debian packages that are missing and builds one preset (release, into build/).
# demo.sh and test.sh call it; calling it again is quick. `./setup.sh cross` also installs what tests/installation/test_embedded.sh
# and test_static.sh need, `./setup.sh fuzz` what tests/fuzz.sh needs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
preset=${1:-release}
cross=
[ "$preset" != cross ] || { cross=1 preset=release; }

packages=(gcc g++ libc6-dev make cmake ninja-build pkg-config protobuf-c-compiler libprotobuf-c-dev libonnx-dev
          libdnnl-dev libxxhash-dev zlib1g-dev libgraphviz-dev libcmocka-dev libonnx-testdata libpcre2-dev libjpeg62-turbo-dev libpng-dev
          libwebp-dev libtiff-dev libopenjp2-7-dev)
# Compilers for other machines, and what runs their programs here.
[ -z "$cross" ] || packages+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-arm-linux-gnueabihf libc6-dev-armhf-cross
    musl-tools qemu-user-static)
# The fuzz targets are built with clang and its libFuzzer.
[[ $preset != fuzz* ]] || packages+=(clang libclang-rt-14-dev)
# ThreadSanitizer knows the OpenMP of LLVM.
[ "$preset" != threads ] || packages+=(clang libclang-rt-14-dev libomp-14-dev)
[ "${CMAKE_C_COMPILER_LAUNCHER:-}" != ccache ] || packages+=(ccache)
# Expected outputs of networks with real weights are made from shared models by a Python script of theirs. Who has these also tests the Python package, and
# has the sources looked at for another machine.
[ -d ../shared/models ] && packages+=(python3-onnx python3-numpy python3-cffi python3-dev python3-distributed python3-pip python3-pytest
    python3-setuptools python3-wheel gcc-aarch64-linux-gnu libc6-dev-arm64-cross)

missing=()
for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "installing: ${missing[*]}"
    as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

folder=build
[ "$preset" = release ] || folder=build-$preset
if [ ! -f "$folder/build.ninja" ]; then
    cmake --preset "$preset" >"${TMPDIR:-/tmp}/ouro-configure-$$.log" 2>&1 || {
        cat "${TMPDIR:-/tmp}/ouro-configure-$$.log" >&2
        exit 1
    }
    rm -f "${TMPDIR:-/tmp}/ouro-configure-$$.log"
fi
echo "building $folder/"
# On a terminal the steps are shown; a second argument and more are what to build (default: everything).
targets=()
for target in "${@:2}"; do targets+=(--target "$target"); done
quiet=(-- --quiet)
[ ! -t 2 ] || quiet=()
cmake --build "$folder" "${targets[@]}" "${quiet[@]}"
