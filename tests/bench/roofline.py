#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""roofline.py OURO [-t THREADS] [--before "COMMAND"] MODEL.onnx|FOLDER...: how far models are from what the machine allows.

A table in Markdown, one line a model, from `ouro bench --profile --json`: the time of all nodes; the least that their arithmetic or their bytes,
whichever takes longer, would take on this machine, node by node (its peaks are measured in the same process: a product of matrices, and a copy
through memory); how many times as long the model takes; and which operators take most of what is over. A node whose bytes come from a cache can be faster than
the copy: it counts as it is. So can a convolution that multiplies less (Winograd's). The time of nodes is that of runs that are observed, which small nodes feel.
A folder is an ONNX test folder, whose first data set gives the inputs."""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

from compare_table import FEW_SECONDS, inputs_of, reason

MOST_OPERATORS = 3


def profile(given, path):
    """What `ouro bench` observes; an error as text."""
    path = pathlib.Path(path)
    model = path / "model.onnx" if path.is_dir() else path
    with tempfile.NamedTemporaryFile(suffix=".json") as numbers:
        command = given.before.split() + [given.ouro, "bench", str(model), "--profile", "--threads", str(given.threads), "--json", numbers.name]
        try:
            command += inputs_of(given.ouro, path) if path.is_dir() else []
            done = subprocess.run(command, capture_output=True, text=True, timeout=FEW_SECONDS)
        except (subprocess.SubprocessError, KeyError, ValueError) as error:
            return str(error)
        if done.returncode != 0:
            return reason(done)
        return json.load(open(numbers.name))[0]["profile"]


def row_of(observed):
    """Milliseconds, those that the machine allows, and what the operators take beyond that, the largest first."""
    over = {}
    for node in observed["nodes"]:
        over[node["operator"]] = over.get(node["operator"], 0) + node["ms"] * (1 - min(node["share_of_peak"], 1))
    taken = sum(node["ms"] for node in observed["nodes"])
    return taken, taken - sum(over.values()), sorted(over.items(), key=lambda item: -item[1])


def main():
    parser = argparse.ArgumentParser(prog="roofline.py", description=__doc__.split("\n")[0])
    parser.add_argument("ouro")
    parser.add_argument("-t", dest="threads", type=int, default=1, help="threads")
    parser.add_argument("--before", default="", help="words in front of each command, which keep the machine quiet")
    parser.add_argument("models", nargs="+", help="models, or ONNX test folders")
    given = parser.parse_args()
    failed, ratios, peaks = [], [], []
    print("| model | ms | the machine allows | time / that | most of what is over |\n|---|--:|--:|--:|---|")
    for path in given.models:
        name, observed = pathlib.Path(path).stem, profile(given, path)
        if isinstance(observed, str):
            failed.append((name, observed))
            continue
        taken, allowed, over = row_of(observed)
        peaks.append((observed["peak_gflops"], observed["peak_gbytes_per_second"]))
        ratios.append(taken / allowed)
        most = ", ".join(f"{operator} {ms:.3g}" for operator, ms in over[:MOST_OPERATORS] if ms > 0.02 * taken)
        print(f"| {name} | {taken:.3f} | {allowed:.3f} | {ratios[-1]:.2f} | {most} |", flush=True)
    if ratios:
        print(f"| geometric mean | | | {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} | |\n")
        flops, rates = zip(*peaks)
        print(f"The peaks were {min(flops):.0f} to {max(flops):.0f} GFLOP/s and {min(rates):.0f} to {max(rates):.0f} GB/s.")
    for name, reason in failed:
        print(f"{name}: {reason}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
