#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh [-f] SECONDS [TARGET...]: builds the fuzz targets with clang (the preset "fuzz", into build-fuzz/) and runs each for so
# long with libFuzzer, the address and the undefined-behaviour sanitizer and internal checks, one after another on one processor.
# In turns of two minutes (or OURO_FUZZ_TURN seconds) for each target, so that all get their part where it is stopped early.
# -f: without the last two, and without looking at what is compared (the preset "fuzz-fast", into build-fuzz-fast/): about three
# times as many executions. Either begins with what the other found. What a target finds interesting stays in
# build-fuzz/corpus/TARGET for the next time; tests/fuzz/seeds and models that libonnx-testdata installs are what it begins with.
# Prints executions and coverage of each, and adds them to tests/fuzz/executions.txt (or OURO_FUZZ_TABLE); status 1 where one found something:
# build-fuzz/TARGET.log shows it, build-fuzz/TARGET-* is the input. `build-fuzz/tests/TARGET FILE` tries that again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=fuzz
if [ "${1:-}" = -f ]; then
    preset=fuzz-fast
    shift
fi
seconds=$1
shift
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
    for file in tests/fuzz/fuzz_*.c; do targets+=("$(basename "$file" .c)"); done
fi
./setup.sh $preset "${targets[@]}"

# Small models of others to begin with, where they are.
examples=build-fuzz/examples
if [ ! -d $examples ]; then
    mkdir -p $examples
    while read -r model; do cp "$model" "$examples/$(basename "$(dirname "$model")").onnx"; done < <(
        dpkg -L libonnx-testdata 2>/dev/null | grep '/model\.onnx$' | xargs -r -I{} find {} -size -4k)
fi

# count TARGET EXECUTIONS FOUND: adds to the target's row of tests/fuzz/executions.txt; after a find (FOUND is 1) what was
# executed since the last one begins anew.
count() {
    local table=${OURO_FUZZ_TABLE:-tests/fuzz/executions.txt}
    awk -v target="$1" -v more="$2" -v found="$3" '
        BEGIN { form = "%-20s %12d %12d %6d\n" }
        /^#/ || !NF { print; next }
        $1 == target { $2 += more; $3 = found ? 0 : $3 + more; $4 += found; seen = 1 }
        { printf form, $1, $2, $3, $4 }
        END { if (!seen) printf form, target, more, found ? 0 : more, found }' $table >$table.new
    mv $table.new $table
}

# Few frames of who allocated what, and a small quarantine: both cost more than what runs.
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:malloc_context_size=4:quarantine_size_mb=16
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
turn=${OURO_FUZZ_TURN:-120}
declare -A broken=()

# run TARGET SECONDS: libFuzzer once; counts, prints, and remembers a target that found something.
run() {
    local target=$1 corpus=$PWD/build-fuzz/corpus/$1 # whole, as seeds are: fuzz_command works in a folder of its own
    mkdir -p "$corpus"
    local folders=() options=() log=build-fuzz/$target.log found=0 executions
    [ ! -d tests/fuzz/seeds/"$target" ] || folders+=("$PWD"/tests/fuzz/seeds/"$target")
    case $target in
    fuzz_import | fuzz_compile) folders+=($examples) options+=(-max_len=16384) ;;
    fuzz_ir) folders+=(tests/ir/cases tests/passes/*/cases) options+=(-max_len=4096) ;;
    fuzz_command) options+=(-close_fd_mask=3) ;;
    esac
    # -entropic=0: weighing inputs by how rare what they reach is took two thirds of all time.
    nice -n 19 build-$preset/tests/"$target" -max_total_time="$2" -entropic=0 -reload=0 -rss_limit_mb=6000 \
        -malloc_limit_mb=3000 -timeout=60 -print_final_stats=1 -artifact_prefix="$PWD"/build-fuzz/"$target"- "${options[@]}" \
        "$corpus" "${folders[@]}" >"$log" 2>&1 </dev/null || found=1
    executions=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
    count "$target" "${executions:-0}" $found
    [ $found = 0 ] || broken[$target]=1
    printf '%-20s %12s executions, %s\n' "$target" "$executions" "$(grep -o 'cov: [0-9]* ft: [0-9]*' "$log" | tail -1)"
    ! grep -E '^(==[0-9]+==.*ERROR|.*runtime error|SUMMARY)' "$log" || tail -5 "$log"
}

while [ "$seconds" -gt 0 ]; do
    now=$((seconds < turn ? seconds : turn))
    seconds=$((seconds - now))
    for target in "${targets[@]}"; do [ -n "${broken[$target]:-}" ] || run "$target" $now; done
done
[ ${#broken[@]} = 0 ]
