#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_python.sh PYTHON BUILD FOLDER: the Python package: its wheel is built with pip in a copy of python/, and pytest runs python/tests
# against it, and what the README shows is run. Nothing is loaded from elsewhere.
set -euo pipefail
python=$1
build=$2
work=$3
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

rm -rf "$work"
mkdir -p "$work/site"
cp -r "$root/python" "$work/source"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INDEX=1 PYTHONDONTWRITEBYTECODE=1
(cd "$work/source" && OURO_BUILD=$build "$python" -m pip wheel -q --no-build-isolation --no-deps -w "$work" .)
wheel=("$work"/ouro-*.whl)
case ${wheel[0]} in *-cp39-abi3-*) ;; *) echo "${wheel[0]}: not a wheel of the limited API"; exit 1 ;; esac
"$python" -m pip install -q --no-deps --no-warn-script-location --target "$work/site" "${wheel[0]}"
cd "$work/source/tests"
PYTHONPATH=$work/site OURO_MODELS=$build/ouro-models "$python" -m pytest -q -p no:cacheprovider
# The README's lines, on the demonstration's model.
mkdir -p "$work/readme/out/demo"
"$build/ouro-models" "$work/readme/out/demo" mobilenet_v2 >/dev/null
cd "$work/readme"
awk '/^## / {on = $0 == "## From Python"} on && /^    / {print substr($0, 5)}' "$root/README.md" >readme.py
PYTHONPATH=$work/site "$python" readme.py | tee readme.txt
grep -q '^class [0-9]* arena [0-9]*$' readme.txt
