#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_static.sh BUILD FOLDER: the whole command as one file that any Linux of this processor runs: linked statically with musl, without
# oneDNN, OpenMP and Graphviz. protobuf-c and zlib are built for musl from Debian's sources, which apt-get fetches into FOLDER
# (no root is needed, nothing outside of FOLDER changes). Then compiles, verifies, runs and tests models with it: plans and outputs
# must be the bytes that `BUILD/ouro --portable` gives. The command is FOLDER/build/ouro.
set -euo pipefail
build=$(cd "$1" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
type musl-gcc >/dev/null 2>&1 || { echo "musl-gcc is not there; ./setup.sh cross installs it"; exit 1; }

# sources: what apt-get needs to know for Debian's sources, apart from the machine's own lists
sources() {
    local lists=$folder/sources
    mkdir -p "$lists/lists/partial"
    printf 'Types: deb-src\nURIs: http://deb.debian.org/debian\nSuites: bookworm\nComponents: main\nSigned-By: %s\n' \
        /usr/share/keyrings/debian-archive-keyring.gpg >"$lists/debian.sources"
    local options=(-qq -o "Dir::Etc::sourcelist=$lists/debian.sources" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$lists/lists" -o "Dir::Cache::srcpkgcache=" -o "Dir::Cache::pkgcache=" -o Acquire::Languages=none)
    (cd "$lists" && apt-get "${options[@]}" update && apt-get "${options[@]}" source --download-only protobuf-c zlib) >"$lists/log" 2>&1 ||
        { cat "$lists/log"; exit 1; }
    for archive in "$lists"/protobuf-c_*.orig.tar.* "$lists"/zlib_*.orig.tar.*; do
        tar -xf "$archive" -C "$lists"
    done
}

prefix=$folder/prefix
if [ ! -f "$prefix/lib/pkgconfig/libprotobuf-c.pc" ]; then
    sources
    (cd "$folder"/sources/zlib-*/ && CC=musl-gcc CFLAGS=-Os ./configure --static --prefix="$prefix" && make -s install) \
        >"$folder/zlib.log" 2>&1 || { tail "$folder/zlib.log"; exit 1; }
    (cd "$folder"/sources/protobuf-c-*/ &&
        ./configure CC=musl-gcc CFLAGS=-Os --host=x86_64-linux-musl --disable-protoc --disable-shared --prefix="$prefix" &&
        make -s install) >"$folder/protobuf-c.log" 2>&1 || { tail "$folder/protobuf-c.log"; exit 1; }
fi

PKG_CONFIG_PATH='' PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig cmake -S "$root" -B "$folder/build" -G Ninja -DCMAKE_C_COMPILER=musl-gcc \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_EXE_LINKER_FLAGS="-static -Wl,--gc-sections" -DOURO_ONEDNN=OFF -DOURO_OPENMP=OFF \
    -DOURO_GRAPHVIZ=OFF -DOURO_TESTS=OFF >"$folder/configure.log" 2>&1 || { cat "$folder/configure.log"; exit 1; }
cmake --build "$folder/build" --target ouro -- --quiet
ouro=$folder/build/ouro
strip -o "$folder/ouro" "$ouro"
# A program that loads no library says so in its header.
if LC_ALL=C readelf -d "$ouro" 2>/dev/null | grep NEEDED; then
    echo "$ouro is not static"
    exit 1
fi

"$build/ouro-models" "$folder" mobilenet_v2 swap greedy_decoding >/dev/null
# Nothing of this machine is there but the models: no libraries, no shell, no /proc.
rm -rf "$folder/empty"
mkdir "$folder/empty"
cp "$folder/ouro" "$folder"/{mobilenet_v2,swap,greedy_decoding}.onnx "$folder/empty"
alone=()
if [ "$(id -u)" = 0 ] && chroot "$folder/empty" /ouro --version >/dev/null 2>&1; then
    alone=(chroot "$folder/empty" /ouro)
else
    alone=(env -C "$folder/empty" ./ouro)
    echo "not root: run beside this machine's files"
fi
for model in mobilenet_v2 swap greedy_decoding; do
    "$build/ouro" compile -q --portable "$folder/$model.onnx" -o "$folder/$model.plan"
    "${alone[@]}" compile -q --portable $model.onnx -o $model.plan --report $model.json --dot $model.dot --memory-map $model.html
    cmp "$folder/$model.plan" "$folder/empty/$model.plan"
    "${alone[@]}" verify $model.plan
    "$build/ouro" run "$folder/$model.plan" --random 3 --threads 1 --output-dir "$folder/outputs/$model" >/dev/null
    "${alone[@]}" run $model.plan --random 3 --output-dir outputs/$model >/dev/null
    for output in "$folder/outputs/$model"/*.npy; do
        cmp "$output" "$folder/empty/outputs/$model/${output##*/}"
    done
done
# What it cannot do is said.
if "${alone[@]}" compile -q swap.onnx -o swap.plan --dot swap.svg 2>"$folder/refused"; then
    echo "it draws without Graphviz"
    exit 1
fi
grep -q 'has no Graphviz' "$folder/refused" || { cat "$folder/refused"; exit 1; }
echo "static: $(stat -c %s "$folder/ouro") bytes; plans and outputs of 3 models are those of $build/ouro"
