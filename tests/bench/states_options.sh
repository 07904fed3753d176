# SPDX-License-Identifier: Apache-2.0
# states_options.sh: sourced by decoder.sh and streams.sh, which set `root`, `steps` (how often to run) and `usage` (their line of it), and
# may define `other OPTION VALUE` for options of their own, named in `others` as getopts wants them. Reads -t THREADS, -n STEPS and -p
# (processor time) and leaves the rest of the arguments; sets `threads`, `steps`, `clock` and `plan`, a file that goes in the end;
# finds ONNX Runtime and builds what measures.
threads=1 clock=
while getopts "t:n:p${others:-}" option; do
    case $option in
    t) threads=$OPTARG ;;
    n) steps=$OPTARG ;;
    p) clock=--processor-time ;;
    \?)
        echo "usage: $usage" >&2
        exit 2
        ;;
    *) other "$option" "${OPTARG:-}" ;;
    esac
done
shift $((OPTIND - 1))
. "$root/tests/bench/find_onnxruntime.sh"
cmake --build "$root/build" --target ouro bench_states >/dev/null
plan=$(mktemp)
trap 'rm -f "$plan"' EXIT
