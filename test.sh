#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test.sh: installs what is missing, builds, and passes the tests: with oneDNN, with portable kernels only, and
# under the address and undefined-behaviour sanitizers. `./test.sh quick` runs the first of these alone. `./test.sh cross`
# builds the runtime for other machines instead, and runs it: with musl, for aarch64 and for 32-bit ARM; and with musl the whole command.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# Release and portable builds compile nearly all files alike: the second takes them from ccache.
export CMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER:-ccache} CCACHE_DIR=${CCACHE_DIR:-$PWD/build-ccache}

run() {
    ./setup.sh "$1"
    echo "testing $1"
    ctest --preset "$1" --no-tests=error -j "$(nproc)" "${@:2}"
}

if [ "${1:-}" = cross ]; then
    ./setup.sh cross
    tests/installation/test_embedded.sh build build/embedded
    exec tests/installation/test_static.sh build build/static
fi
run release
if [ "${1:-}" != quick ]; then
    run portable
    run sanitize
fi
