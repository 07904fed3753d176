#!/usr/bin/env bash
# random_operators.sh [-n CASES] [-s SEED] [-o OPERATOR] [-k FOLDER]: random models of one operator each, run by ouro and by ONNX Runtime,
# with a table per operator: cases, how many agree, how many ONNX Runtime refuses, how many differ. Differences that
# random_operators.txt explains are counted apart; each other one is printed with its case, which stays in FOLDER (default:
# build/bench/random). Needs node, npm and python3-onnx.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cases=5000
seed=1
bench=$root/build/bench
folder=$bench/random
operator=
while getopts n:s:o:k: option; do
    case $option in
    n) cases=$OPTARG ;;
    s) seed=$OPTARG ;;
    o) operator=$OPTARG ;;
    k) folder=$OPTARG ;;
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
NODE_PATH=$bench/node_modules node "$root/tests/bench/random_operators.js" "$folder" 2>"$bench/random.log" || true
/usr/bin/python3 "$root/tests/bench/random_operators.py" collect "$folder"
mv "$folder/refused" "$bench/refused.$$"
"$root/build/ouro" test "$folder" --json "$bench/random.json" >/dev/null || true
# What ONNX Runtime does not take is run all the same: a message is fine, a crash is not.
crashed=0
for refused in "$bench/refused.$$"/*/; do
    [ -e "$refused/model.onnx" ] || continue
    status=0
    "$root/build/ouro" run "$refused/model.onnx" --random 1 >/dev/null 2>&1 || status=$?
    [ "$status" -le 3 ] || { echo "exit status $status: $refused"; crashed=$((crashed + 1)); }
done
/usr/bin/python3 - "$bench/random.json" "$bench/refused.$$" "$root/tests/bench/random_operators.txt" "$crashed" <<'PYTHON'
import json, os, re, sys
from collections import Counter
explained = []
for line in open(sys.argv[3]):
    if line.strip() and not line.startswith('#'):
        operator, pattern, reason = line.rstrip('\n').split('\t')
        explained.append((operator, re.compile(pattern), reason))
counts = {}
left = []
def count(name, what):
    counts.setdefault(name.split('_', 1)[1], Counter())[what] += 1
for case in json.load(open(sys.argv[1]))['cases']:
    name, reason = case['name'], case['reason']
    if case['status'] == 'passed':
        count(name, 'agree')
    elif any(o == name.split('_', 1)[1] and p.search(reason) for o, p, _ in explained):
        count(name, 'explained')
    else:
        count(name, 'differ')
        left.append((name, reason))
for name in os.listdir(sys.argv[2]):
    count(name, 'refused')
print(f"{'operator':26}{'cases':>7}{'agree':>7}{'refused':>9}{'explained':>11}{'differ':>8}")
total = Counter()
for operator in sorted(counts):
    c = counts[operator]
    total.update(c)
    print(f"{operator:26}{sum(c.values()):7}{c['agree']:7}{c['refused']:9}{c['explained']:11}{c['differ']:8}")
print(f"{'all':26}{sum(total.values()):7}{total['agree']:7}{total['refused']:9}{total['explained']:11}{total['differ']:8}")
for name, reason in left:
    print(f"{name}: {reason[:300]}")
sys.exit(1 if left or int(sys.argv[4]) else 0)
PYTHON
status=$?
rm -rf "$bench/refused.$$"
exit $status
