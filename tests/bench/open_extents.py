#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""open_extents.py [-t THREADS] FOLDER...: of each ONNX test folder whose model leaves extents open, a plan for any extents beside one for those
of its first data set, one after the other: what it costs that a run alone knows them. The slowest comes first."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from compare_table import inputs_of, reason


def is_open(about):
    return any(not isinstance(extent, int) or extent < 0 for entry in about["inputs"] for extent in entry.get("shape") or [])


def measure(ouro, folder, threads, work):
    """The times of both in milliseconds and their ratio; None where all extents are known; an error as text."""
    model, plan, numbers = str(folder / "model.onnx"), os.path.join(work, "open.plan"), os.path.join(work, "numbers.json")
    about = subprocess.run([ouro, "inspect", "--json", model], capture_output=True, text=True)
    if about.returncode != 0:
        return reason(about)
    if not is_open(json.loads(about.stdout)):
        return None
    for command in ([ouro, "compile", model, "-o", plan, "-q", "--threads", str(threads)],
                    [ouro, "bench", plan, model, "--threads", str(threads), "--json", numbers] + inputs_of(ouro, folder)):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return reason(done)
    any_extents, these = json.load(open(numbers))
    return any_extents["median_ms"], these["median_ms"], any_extents["median_ms"] / these["median_ms"]


def main():
    parser = argparse.ArgumentParser(prog="open_extents.py")
    parser.add_argument("-t", dest="threads", type=int, default=1, help="threads")
    parser.add_argument("folders", nargs="+", help="ONNX test folders")
    given = parser.parse_args()
    ouro = str(pathlib.Path(__file__).resolve().parents[2] / "build" / "ouro")
    rows, failed = [], []
    with tempfile.TemporaryDirectory() as work:
        for folder in map(pathlib.Path, given.folders):
            numbers = measure(ouro, folder, given.threads, work)
            if isinstance(numbers, str):
                failed.append((folder.name, numbers))
            elif numbers:
                rows.append((numbers[2], folder.name, numbers))
    print("| model | any extents, ms | these, ms | ratio |\n|---|--:|--:|--:|")
    for ratio, name, numbers in sorted(rows, reverse=True):
        print(f"| {name} | {numbers[0]:.3f} | {numbers[1]:.3f} | {ratio:.2f} |")
    for name, why in failed:
        print(f"not measured: {name}: {why}")


if __name__ == "__main__":
    sys.exit(main())
