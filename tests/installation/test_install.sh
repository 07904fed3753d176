#!/usr/bin/env bash
# test_install.sh BUILD FOLDER PLAN: installs into FOLDER/prefix and builds the example of ouro.h against it, once
# with find_package and once with pkg-config; both must run the plan.
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
find_package(ouro 0.2 REQUIRED)
add_executable(example example.c)
target_link_libraries(example PRIVATE ouro::runtime)
CMAKE
cmake -S "$folder/project" -B "$folder/project/build" -G Ninja -DCMAKE_PREFIX_PATH="$folder/prefix" >/dev/null
cmake --build "$folder/project/build" -- --quiet
"$folder/project/build/example" "$plan"

pc=$(dirname "$(find "$folder/prefix" -name ouro-runtime.pc)")
PKG_CONFIG_PATH=$pc pkg-config --exists --print-errors ouro-runtime ouro-compiler
# shellcheck disable=SC2046 # the flags are words
gcc -std=c11 -Wall -Wextra -Werror "$folder/project/example.c" -o "$folder/example" \
    $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs ouro-runtime)
"$folder/example" "$plan"
"$folder/prefix/bin/ouro" --version
