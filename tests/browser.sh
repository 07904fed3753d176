#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# browser.sh BUILD FOLDER: the page of memory maps in Debian's chromium, as somebody uses it: search, zoom, follow bytes through their
# reuses, a small window, 20,000 tensors. Installs chromium, node and playwright-core (from npm, into FOLDER) where they are missing.
# Leaves the pages and screenshots in FOLDER, to be looked at. By hand; no other test runs it.
set -euo pipefail
build=$(cd "$1" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

missing=()
type chromium >/dev/null 2>&1 || missing+=(chromium)
type node >/dev/null 2>&1 || missing+=(nodejs)
type npm >/dev/null 2>&1 || missing+=(npm)
if [ ${#missing[@]} -gt 0 ]; then
    as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
[ -d "$folder/node_modules/playwright-core" ] ||
    (cd "$folder" && npm install --no-audit --no-fund --loglevel=error playwright-core >/dev/null)

"$build/ouro-models" "$folder" mobilenet_v2 greedy_decoding >/dev/null
for model in mobilenet_v2 greedy_decoding; do
    "$build/ouro" compile -q "$folder/$model.onnx" -o "$folder/$model.plan" --memory-map "$folder/$model.html"
done
# A seed's worth of chance, without any program but awk.
awk 'BEGIN {
    srand(1); print "id,lower,upper,size"
    for (i = 0; i < 20000; i++) { a = int(rand() * 20000); printf "tensor/%d,%d,%d,%d\n", i, a, a + 1 + int(rand() * 59), 64 * (1 + int(rand() * 63)) }
}' >"$folder/many.csv"
"$build/ouro" alloc "$folder/many.csv" --allocator greedy-by-size --memory-map "$folder/many.html" >/dev/null
NODE_PATH=$folder/node_modules node "$root/tests/browser.js" "$folder"
