#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# decoder.sh [-t THREADS] [-n TOKENS] [-w float16|bfloat16|int16|int8|int4] [-s float16|bfloat16] [-p] DECODER.onnx: a decoder with caches past.* and present.*, one token at a time, with states beside
# ONNX Runtime, whose outputs are bound and given back as inputs: the time of a token at several positions, the largest difference of all
# logits and, in the end, of the caches, which may be 0.001; then the memory of a process that runs one of them, and how long one takes for its
# first token, from its start to its end. The model has the inputs
# input_ids, of one position, and position_ids, or none, as that of models/. -w: with weights in few bits, -s: with caches in 16; where weights
# are not int16 or caches not
# float16, any difference. -p: processor seconds, where others use the machine, too. Needs npm, unless OURO_ONNXRUNTIME
# names the library of ONNX Runtime.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
steps=2012 weights=() others=w:s: usage="decoder.sh [-t THREADS] [-n TOKENS] [-w float16|bfloat16|int16|int8|int4] [-s float16|bfloat16] [-p] DECODER.onnx"
within=()
other() {
    case $1 in
    w) weights+=(--weights "$2") ;;
    s) weights+=(--states "$2") ;;
    esac
    [ "$1$2" = wint16 ] || [ "$1$2" = sfloat16 ] || within=(--within 1e30)
}
. "$root/tests/bench/states_options.sh"
[ $# = 1 ] || { echo "usage: $usage" >&2; exit 2; }
has=$("$root/build/ouro" inspect "$1")
words=$(sed -n 's/^  logits: .*,\([0-9]*\)]$/\1/p' <<<"$has")
inputs=(--input "input_ids=below:${words:-8000}") open=(--dim sequence=1)
! grep -q '^  position_ids: ' <<<"$has" || inputs+=(--input position_ids=run)
! grep -q '^symbols: .*\bbatch\b' <<<"$has" || open+=(--dim batch=1)
"$root/build/ouro" compile "$1" -o "$plan" -q --threads "$threads" --state 'past.*=present.*' --max past=2048 "${open[@]}" \
    ${weights[@]+"${weights[@]}"}
run() {
    "$root/build/tests/bench_states" --threads "$threads" --steps "${only_steps:-$steps}" $clock "${inputs[@]}" \
        ${within[@]+"${within[@]}"} "$@"
}
run --at 16 --at 512 --at 2000 "$plan" "$1"
run --only ouro "$plan" "$1"
run --only ort "$plan" "$1"
for side in ouro ort; do
    least=
    for _ in 1 2 3 4 5; do
        from=$(date +%s%N)
        only_steps=1 run --only $side "$plan" "$1" >/dev/null
        took=$((($(date +%s%N) - from) / 1000000))
        [ -n "$least" ] && [ "$least" -le "$took" ] || least=$took
    done
    echo "$side: $least ms take a process and its first token, at least"
done
