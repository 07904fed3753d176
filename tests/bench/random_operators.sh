#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# random_operators.sh [-n CASES] [-s SEED] [-o OPERATOR] [-k FOLDER] [-b OURO]: random models of one operator each, run by ouro and
# by ONNX Runtime, with a table per operator: cases, how many agree, how many both refuse, how many only ONNX Runtime refuses, how
# many differ (refused by ouro alone among them). Differences that random_operators.txt explains are counted apart; each other one
# is printed with its case, which stays in FOLDER (default: build/bench/random; refused ones in FOLDER.refused). Case NNNNN of a
# run has the seed SEED + NNNNN. OPERATOR: also a domain, or "new" for what opset 18 and later brought. OURO: the program to test (build/ouro), a build with sanitizers, say. Needs node, npm and
# python3-onnx.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cases=5000
seed=1
bench=$root/build/bench
folder=$bench/random
ouro=$root/build/ouro
operator=
while getopts n:s:o:k:b: option; do
    case $option in
    n) cases=$OPTARG ;;
    s) seed=$OPTARG ;;
    o) operator=$OPTARG ;;
    k) folder=$OPTARG ;;
    b) ouro=$OPTARG ;;
    *) exit 2 ;;
    esac
done
mkdir -p "$bench"
if [ ! -d "$bench/node_modules/onnxruntime-node" ]; then
    (cd "$bench" && { [ -f package.json ] || echo '{"private":true}' >package.json; } &&
        npm install --ignore-scripts --silent onnxruntime-node@1.30.0)
fi
rm -rf "$folder"
mkdir -p "$folder"
/usr/bin/python3 "$root/tests/bench/random_operators.py" generate "$folder" "$cases" "$seed" $operator
# A case that ends the process is recorded as one that ONNX Runtime does not take; the next process goes on after it.
for _ in $(seq 100); do
    NODE_PATH=$bench/node_modules node "$root/tests/bench/random_operators.js" "$folder" 2>"$bench/random.log" && break
done
/usr/bin/python3 "$root/tests/bench/random_operators.py" collect "$folder"
rm -rf "$folder.refused"
mv "$folder/refused" "$folder.refused"
# Exit status 1: some differ, or are refused. A crash, or a sanitizer's report, is none of these.
crashed=0
# A tensor that no machine holds is refused with a message, under sanitizers too.
export ASAN_OPTIONS=allocator_may_return_null=1
for set in "" .refused; do
    status=0
    rm -f "$bench/random$set.json"
    "$ouro" test "$folder$set" --json "$bench/random$set.json" >/dev/null 2>"$bench/random$set.log" || status=$?
    if [ "$status" -gt 1 ] || grep -q 'runtime error\|Sanitizer' "$bench/random$set.log"; then
        echo "exit status $status on $folder$set:"
        tail -n 20 "$bench/random$set.log"
        crashed=1
    fi
done
/usr/bin/python3 - "$bench/random.json" "$bench/random.refused.json" "$root/tests/bench/random_operators.txt" "$crashed" "$folder" <<'PYTHON'
import json, os, re, sys
from collections import Counter
explained = []
for line in open(sys.argv[3]):
    if line.strip() and not line.startswith('#'):
        operator, pattern, reason = line.rstrip('\n').split('\t')
        explained.append((operator, re.compile(pattern), reason))
counts = {}
left = []
def operator_of(name):
    return name.split('_', 1)[1]
def count(name, what):
    counts.setdefault(operator_of(name), Counter())[what] += 1
for case in json.load(open(sys.argv[1]))['cases']:
    name = case['name']
    given = json.load(open(os.path.join(sys.argv[5], name, 'case.json')))['given']
    reason = case['reason'][:300] + ' | ' + given
    if case['status'] == 'passed':
        count(name, 'agree')
    elif any(o in ('*', operator_of(name), operator_of(name).split('@')[0], operator_of(name).split('@')[0].lstrip(':')) and p.search(reason) for o, p, _ in explained):
        count(name, 'explained')
    else:
        count(name, 'differ')
        left.append((name, reason))
# Without a refused case there is no such file.
for case in json.load(open(sys.argv[2]))['cases'] if os.path.exists(sys.argv[2]) else []:
    # Outputs are compared after a run; all that is said before is a refusal.
    count(case['name'], 'theirs' if re.match(r"output \d", case['reason']) else 'both')
print(f"{'operator':26}{'cases':>7}{'agree':>7}{'refused by both':>17}{'by ORT alone':>14}{'explained':>11}{'differ':>8}")
total = Counter()
for operator in sorted(counts):
    c = counts[operator]
    total.update(c)
    print(f"{operator:26}{sum(c.values()):7}{c['agree']:7}{c['both']:17}{c['theirs']:14}{c['explained']:11}{c['differ']:8}")
print(f"{'all':26}{sum(total.values()):7}{total['agree']:7}{total['both']:17}{total['theirs']:14}{total['explained']:11}{total['differ']:8}")
for name, reason in left:
    print(f"{name}: {reason}")
sys.exit(1 if left or int(sys.argv[4]) else 0)
PYTHON
status=$?
exit $status
