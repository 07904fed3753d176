#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_packages.sh BUILD FOLDER: makes the .deb and the .tar.gz, and looks that what they hold works and is complete: the command
# runs, and libraries, headers, man pages, completions of shells, pages and the licence are there.
set -euo pipefail
build=$1
folder=$2
rm -rf "$folder"
mkdir -p "$folder/deb" "$folder/tar"
(cd "$build" && cpack -G "DEB;TGZ" -B "$folder" >"$folder/cpack.log" 2>&1) || { cat "$folder/cpack.log"; exit 1; }
dpkg-deb -x "$folder"/ouro_*.deb "$folder/deb"
tar -xzf "$folder"/ouro-*.tar.gz -C "$folder/tar" --strip-components=1
dpkg-deb -f "$folder"/ouro_*.deb Depends | grep -q libprotobuf-c1 || { echo "the package does not say what it depends on"; exit 1; }
for top in "$folder/deb/usr" "$folder/tar" "$folder/tar/usr"; do
    [ -d "$top/bin" ] || continue
    "$top/bin/ouro" --version
    for file in include/ouro/ouro.h include/ouro/ouro_compiler.h lib*/libouro_runtime.a lib*/libouro_runtime.so lib*/libouro_compiler.a \
        lib*/cmake/ouro/ouroConfig.cmake lib*/pkgconfig/ouro-runtime.pc share/man/man1/ouro.1 share/man/man1/ouro-compile.1 \
        share/bash-completion/completions/ouro share/zsh/vendor-completions/_ouro share/fish/vendor_completions.d/ouro.fish \
        share/doc/ouro/LICENSE share/doc/ouro/docs/TENSOR.md; do
        compgen -G "$top/$file" >/dev/null || compgen -G "$top/${file/lib\*/lib/*}" >/dev/null || { echo "$top has no $file"; exit 1; }
    done
    packages=$((${packages:-0} + 1))
done
[ "${packages:-0}" = 2 ] || { echo "expected two packages, found ${packages:-0}"; exit 1; }
