#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# memory_limits.sh OURO STEP MODEL...: runs each model ("FILE" or "FILE OPTION...") with less memory than it wants, from 50 MB of addresses
# up in steps of STEP MB until it works. Every run ends with success or with status 3 and a message; never by a signal. Runs that end
# before the program begins (the loader says 127) do not count.
set -euo pipefail
ouro=$1 step=$2
shift 2
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
for model in "$@"; do
    read -ra words <<<"$model"
    runs=0 status=3
    for ((mb = 50; mb <= 2000; mb += step)); do
        status=0
        (ulimit -c 0; ulimit -v $((mb * 1024)); exec "$ouro" run "${words[@]}" --random 1 --threads 1) >/dev/null 2>"$errors" || status=$?
        [ $status != 127 ] || continue
        runs=$((runs + 1))
        [ $status != 0 ] || break
        if [ $status != 3 ] || ! [ -s "$errors" ]; then
            echo "$model with $mb MB: status $status: $(head -c 300 "$errors")"
            exit 1
        fi
    done
    [ $status = 0 ] || { echo "$model does not run with 2000 MB"; exit 1; }
    echo "$model: $runs runs, works with $mb MB"
done
