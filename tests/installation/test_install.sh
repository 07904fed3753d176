#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_install.sh BUILD FOLDER PLAN: installs into FOLDER/prefix and builds the example of ouro.h against it: with find_package
# (static and shared) and with pkg-config; all must run the plan.
set -euo pipefail
build=$1
folder=$2
plan=$3
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
rm -rf "$folder"
mkdir -p "$folder/project"
cmake --install "$build" --prefix "$folder/prefix" >/dev/null

cp "$root/tests/installation/install_example.c" "$folder/project/example.c"
cat >"$folder/project/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(example C)
find_package(ouro 0.2 REQUIRED COMPONENTS runtime)
foreach(library runtime runtime_shared)
  add_executable(example_${library} example.c)
  target_link_libraries(example_${library} PRIVATE ouro::${library})
endforeach()
if(TARGET ouro::argument_pool)
  target_link_libraries(example_runtime PRIVATE ouro::argument_pool)
endif()
if(TARGET PkgConfig::protobuf_c OR TARGET ouro::compiler)
  message(FATAL_ERROR "the runtime asks for what only the compiler needs")
endif()
CMAKE
cmake -S "$folder/project" -B "$folder/project/build" -G Ninja -DCMAKE_PREFIX_PATH="$folder/prefix" >/dev/null
cmake --build "$folder/project/build" -- --quiet
"$folder/project/build/example_runtime" "$plan"
"$folder/project/build/example_runtime_shared" "$plan"

pc=$(dirname "$(find "$folder/prefix" -name ouro-runtime.pc)")
PKG_CONFIG_PATH=$pc pkg-config --exists --print-errors ouro-runtime ouro-compiler
# shellcheck disable=SC2046 # the flags are words
gcc -std=c11 -Wall -Wextra -Werror "$folder/project/example.c" -o "$folder/example" \
    $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs ouro-runtime)
LD_LIBRARY_PATH=$(dirname "$(find "$folder/prefix" -name libouro_runtime.so)") "$folder/example" "$plan"
"$folder/prefix/bin/ouro" --version
