#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# faults.sh OURO MODELS LIBRARY MOST [KIND...]: what the command does where the machine fails. Each allocation, operation on files and
# start of a thread of a compile, a run of a model, runs of plans (one spills values to a file) and a planning problem fails in turn (at
# most MOST of each; 0: all), alone, and allocations also with all after them. Then: a full disk, a folder that may not be written,
# kill -9 in mid-compile. KIND: memory, files, threads or short (all of them).
#   - A run ends with status 0 and what it writes otherwise, or with status 3 and a message; never by a signal.
#   - A file is the old one or the new one; a spill file is gone.
#   - A read or a write that moves half of its bytes is no fault: the run does what it does otherwise.
# MODELS is ouro-models, LIBRARY what fail.c makes. OpenMP ends a program whose threads it cannot start: that is not tried.
set -euo pipefail
ouro=$1 library=$3 most=$4
kinds=("${@:5}")
[ ${#kinds[@]} -gt 0 ] || kinds=(memory files threads short)
ulimit -c 0
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
"$2" "$work" swap rotation way_back >/dev/null
cd "$work"
printf 'id,lower,upper,size\na,0,3,4\nb,1,2,8\nc,2,4,4\n' >problem.csv
"$ouro" compile rotation.onnx -o old.plan -q >/dev/null
"$ouro" compile swap.onnx -o new.plan -q >/dev/null
"$ouro" compile way_back.onnx -o spills.plan -q --portable --arena-limit min --spill spill.file >/dev/null
"$ouro" inspect --json spills.plan | grep -q '"spill_file_bytes": [1-9]' || { echo "faults.sh: nothing is spilled"; exit 1; }
runs=0 refused=0

fail() { echo "faults.sh: $*"; exit 1; }

# once KIND AT ON WRITES COMMAND...: with the fault; WRITES is the file that is the old or the new one ("": none)
once() {
    local kind=$1 at=$2 on=$3 writes=$4 status=0
    shift 4
    [ -z "$writes" ] || cp old.plan "$writes"
    # Where the command has a sanitizer, that does not come first.
    local fault=(OURO_FAIL=$kind OURO_FAIL_AT=$at OURO_FAIL_COUNT=count LD_PRELOAD="$library"
        ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0")
    [ -z "$on" ] || fault+=(OURO_FAIL_ON=1)
    timeout 60 env "${fault[@]}" "$ouro" "$@" >out 2>err || status=$?
    runs=$((runs + 1))
    # Where removing its name is what failed it has to stay.
    if [ -e spill.file ]; then
        [ "$kind" = files ] && grep -q 'spill.file cannot be made' err || fail "$kind $at${on:+ on}: the spill file is left: $*"
        rm spill.file
    fi
    [ "$kind" != short ] || [ $status = 0 ] || fail "short $at${on:+ on}: status $status of $*: $(head -c 300 err)"
    if [ $status = 3 ]; then
        refused=$((refused + 1))
        # Where writing the message is what failed there is none.
        [ -s err ] || [ "$kind" = files ] || fail "$kind $at${on:+ on}: no message: $*"
    elif [ $status != 0 ]; then
        fail "$kind $at${on:+ on}: status $status of $*: $(head -c 300 err)"
    elif [ -n "$writes" ]; then
        cmp -s "$writes" new.plan || fail "$kind $at${on:+ on}: done, but another plan: $*"
    else
        # The times that alloc prints are others each time.
        [ "$1" = alloc ] || cmp -s out expected || fail "$kind $at${on:+ on}: done, but other output: $*"
    fi
    if [ -n "$writes" ]; then
        cmp -s "$writes" old.plan || cmp -s "$writes" new.plan || fail "$kind $at: neither old nor new: $*"
    fi
}

every() { # WRITES COMMAND...
    local kind on count step at
    cp old.plan out.plan
    "$ouro" "${@:2}" >expected 2>/dev/null
    for kind in "${kinds[@]}"; do
        rm -f count
        once $kind 0 '' "$@"
        read -r count <count || fail "nothing is counted: is $library loaded?"
        step=1
        [ "$most" = 0 ] || [ "$count" -le "$most" ] || step=$(((count + most - 1) / most))
        for ((at = 1; at <= count; at += step)); do
            once $kind $at '' "$@"
            [ $kind != memory ] && [ $kind != short ] || once $kind $at on "$@"
        done
        echo "${*:2}: $kind: $count calls, every ${step}th failed"
    done
}

every out.plan compile swap.onnx -o out.plan -q --threads 1
every "" run swap.onnx --random 1 --threads 1
every "" run new.plan --random 1 --threads 1
every "" run spills.plan --random 1 --threads 1
every "" alloc problem.csv
every "" alloc problem.csv --allocator exact --threads 3
[ $refused -gt 20 ] || fail "only $refused of $runs runs were refused"

# A disk that is full, and a folder that may not be written.
status=0; "$ouro" compile swap.onnx -o /dev/full -q >/dev/null 2>err || status=$?
[ $status = 3 ] && [ -s err ] || fail "/dev/full: status $status"
status=0; "$ouro" run new.plan --random 1 >/dev/full 2>err || status=$?
[ $status = 3 ] || fail "output to /dev/full: status $status"
if [ "$(id -u)" = 0 ] && mkdir small && mount -t tmpfs -o size=16k none small 2>/dev/null; then
    cp old.plan small/out.plan 2>/dev/null || : >small/out.plan
    cp small/out.plan before
    head -c 16384 /dev/zero >small/rest 2>/dev/null || true
    status=0; "$ouro" compile swap.onnx -o small/out.plan -q >/dev/null 2>err || status=$?
    [ $status = 3 ] && [ -s err ] && cmp -s before small/out.plan || fail "a full disk: status $status"
    [ "$(ls small)" = "$(printf 'out.plan\nrest')" ] || fail "a full disk: $(ls small)"
    umount small
fi
if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod a-w locked
    status=0; "$ouro" compile swap.onnx -o locked/out.plan -q >/dev/null 2>err || status=$?
    [ $status = 3 ] || [ $status = 1 ] || fail "a folder that may not be written: status $status"
fi

# Killed at any moment: the plan is the old or the new one, and the next compile leaves nothing else.
mkdir killed
begun=$(date +%s%N); "$ouro" compile swap.onnx -o killed/out.plan -q >/dev/null; took=$((($(date +%s%N) - begun) / 1000))
kills=$((most == 0 ? 1000 : most)) old=0
for ((i = 0; i < kills; i++)); do
    cp old.plan killed/out.plan
    "$ouro" compile swap.onnx -o killed/out.plan -q >/dev/null 2>&1 &
    process=$!
    pause=$((took * i / kills))
    sleep "$((pause / 1000000)).$(printf %06d $((pause % 1000000)))"
    kill -9 $process 2>/dev/null || true
    wait $process 2>/dev/null || true
    if cmp -s killed/out.plan old.plan; then old=$((old + 1)); else cmp -s killed/out.plan new.plan || fail "killed: neither old nor new"; fi
done
"$ouro" compile swap.onnx -o killed/out.plan -q >/dev/null
[ "$(ls killed)" = out.plan ] || fail "more than the plan is left: $(ls killed)"
echo "$runs faults, $refused refused; killed $kills times: the old plan $old times"
