#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_table.py OURO [-t THREADS[,THREADS]] [-n RUNS] MODEL.onnx|FOLDER...: what compare.sh runs once ONNX Runtime is found: a table in
Markdown, one line a model, and the geometric mean of the ratios. A model that one of both cannot run is named below the table."""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

FEW_SECONDS = 300


def reason(done):
    """Why a process failed: the first line that it wrote to stderr."""
    return (done.stderr.strip().splitlines() or ["no message"])[0]


def inputs_of(ouro, folder):
    """--input options from the first data set of a test folder."""
    data = sorted(folder.glob("test_data_set_*"))
    if not data:
        return []
    about = json.loads(subprocess.run([ouro, "inspect", "--json", str(folder / "model.onnx")], check=True, capture_output=True, text=True).stdout)
    options = []
    for index, entry in enumerate(about["inputs"]):
        file = data[0] / f"input_{index}.pb"
        if file.exists():
            options += ["--input", f"{entry['name']}={file}"]
    return options


def measure(ouro, path, threads, runs):
    """The numbers of ouro and of ONNX Runtime; an error as text."""
    path = pathlib.Path(path)
    model = path / "model.onnx" if path.is_dir() else path
    with tempfile.NamedTemporaryFile(suffix=".json") as numbers:
        command = [ouro, "bench", str(model), "--compare-ort", "--threads", str(threads), "--json", numbers.name]
        try:
            command += (["--runs", str(runs)] if runs else []) + (inputs_of(ouro, path) if path.is_dir() else [])
            done = subprocess.run(command, capture_output=True, text=True, timeout=FEW_SECONDS)
        except (subprocess.SubprocessError, KeyError, ValueError) as error:
            return str(error)
        if done.returncode != 0:
            return reason(done)
        return json.load(open(numbers.name))


def main():
    parser = argparse.ArgumentParser(prog="compare.sh")
    parser.add_argument("ouro", help=argparse.SUPPRESS)
    parser.add_argument("-t", dest="threads", default="1", help="numbers of threads, with commas")
    parser.add_argument("-n", dest="runs", type=int, default=0, help="runs a round (default: for a tenth of a second)")
    parser.add_argument("models", nargs="+", help="models, or ONNX test folders")
    given = parser.parse_args()
    failed, ratios = [], {}
    print("| model | threads | ouro ms | ONNX Runtime ms | ratio | least |\n|---|--:|--:|--:|--:|--:|")
    for path in given.models:
        name = pathlib.Path(path).stem
        for threads in [int(number) for number in given.threads.split(",")]:
            numbers = measure(given.ouro, path, threads, given.runs)
            if isinstance(numbers, str):
                failed.append((name, numbers))
                break
            ours, theirs = numbers
            ratios.setdefault(threads, []).append(ours["ratio"])
            print(f"| {name} | {threads} | {ours['median_ms']:.3f} | {theirs['median_ms']:.3f} | {ours['ratio']:.2f} | "
                  f"{ours['min_ms'] / theirs['min_ms']:.2f} |", flush=True)
    print()
    for threads, of in ratios.items():
        print(f"geometric mean of {len(of)} ratios at {threads} thread{'' if threads == 1 else 's'}: "
              f"{math.exp(sum(map(math.log, of)) / len(of)):.2f}, the largest {max(of):.2f}")
    for name, why in failed:
        print(f"not compared: {name}: {why}")
    return 0 if ratios else 1


if __name__ == "__main__":
    sys.exit(main())
