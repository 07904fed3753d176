#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compare_plans.sh OLD NEW [MODEL...]: do two builds of the command `ouro` make the same plans? For changes that must not
# change what is planned. OLD and NEW are folders of builds; without MODEL: the example models that NEW's `ouro-models` writes, and
# those of ../shared/models where they are there.
# NEW_OPTIONS (in the environment): options of `ouro compile` for NEW alone, as --exact-arithmetic where OLD does not know it.
# A model's plans are "the same bytes", or, where the format of the file changed, "the same memory": the report's numbers, the
# allocation problem (but for the names of buffers) and the loops are equal. What differs is shown. Ends with "N same bytes, N same memory, N different".
set -uo pipefail
old=$(cd "$1" && pwd)
new=$(cd "$2" && pwd)
shift 2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ $# = 0 ]; then
    mkdir "$work/models"
    "$new/ouro-models" "$work/models" >/dev/null
    set -- "$work"/models/*.onnx "$root"/../shared/models/{light/*,real/*/model,defects/*}.onnx
fi

# What a report says of memory: everything but times, the size of the file, and keys that only one of both builds writes.
memory() { # memory REPORT OTHER
    python3 - "$1" "$2" <<'END'
import json, sys
def shared(a, b):
    if isinstance(a, dict) and isinstance(b, dict):
        leave = ("plan_seconds", "compile_seconds", "import_seconds", "plan_bytes")
        return {k: shared(a[k], b[k]) for k in sorted(a) if k in b and k not in leave}
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [shared(x, y) for x, y in zip(a, b)]
    return a
a, b = (json.load(open(name)) for name in sys.argv[1:3])
print(json.dumps(shared(a, b), indent=1))
END
}

# Steps and sizes of a problem: names may hold commas.
problem() {
    rev "$1" 2>/dev/null | cut -d, -f1-3 | rev
}

bytes=0 memory=0 different=0
for model in "$@"; do
    [ -f "$model" ] || continue
    for side in old new; do
        rm -f "$work/$side".*
        options=()
        [ "$side" = old ] || read -ra options <<<"${NEW_OPTIONS:-}"
        "${!side}/ouro" compile "$model" -o "$work/$side.plan" --report "$work/$side.json" --problem "$work/$side.csv" -q "${options[@]}" 2>"$work/$side.err"
        echo "status $?" >>"$work/$side.err"
    done
    if ! [ -f "$work/old.plan" ] && ! [ -f "$work/new.plan" ] && cmp -s "$work/old.err" "$work/new.err"; then
        bytes=$((bytes + 1)) # refused with the same words
    elif cmp -s "$work/old.plan" "$work/new.plan"; then
        bytes=$((bytes + 1))
    elif [ -f "$work/old.plan" ] && [ -f "$work/new.plan" ] && cmp -s <(problem "$work/old.csv") <(problem "$work/new.csv") &&
        cmp -s <(memory "$work/old.json" "$work/new.json") <(memory "$work/new.json" "$work/old.json"); then
        memory=$((memory + 1))
    else
        different=$((different + 1))
        echo "different: $model"
        diff "$work/old.err" "$work/new.err" | head -n 4
        diff <(problem "$work/old.csv") <(problem "$work/new.csv") | head -n 6
        diff <(memory "$work/old.json" "$work/new.json" 2>/dev/null) <(memory "$work/new.json" "$work/old.json" 2>/dev/null) | head -n 6
    fi
done
echo "$bytes same bytes, $memory same memory, $different different"
[ "$different" = 0 ]
