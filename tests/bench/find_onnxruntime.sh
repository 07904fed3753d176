# SPDX-License-Identifier: Apache-2.0
# find_onnxruntime.sh: sourced by scripts that set `root`: OURO_ONNXRUNTIME names the library of ONNX Runtime; where it does not yet,
# npm installs onnxruntime-node under build/bench.
if [ -z "${OURO_ONNXRUNTIME:-}" ]; then
    bench=$root/build/bench
    modules=$bench/node_modules/onnxruntime-node
    mkdir -p "$bench"
    [ -d "$modules" ] || (cd "$bench" && { [ -f package.json ] || echo '{"private":true}' >package.json; } &&
        npm install --ignore-scripts --silent onnxruntime-node@1.30.0)
    case $(uname -m) in
    aarch64) processor=arm64 ;;
    *) processor=x64 ;;
    esac
    OURO_ONNXRUNTIME=$(find "$modules/bin" -path "*/linux/$processor/libonnxruntime.so.1" | head -n 1)
    export OURO_ONNXRUNTIME
fi
