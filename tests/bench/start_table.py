#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""start_table.py BUILD [-t THREADS] [-n STARTS] [-r] MODEL.onnx|FOLDER...: what start.sh runs once ONNX Runtime is found: a table in Markdown, one
line a model, and the geometric means of the ratios. A model that one of both cannot run is named below the table."""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from compare_table import reason

TYPES = ["", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "float64", "uint32", "uint64",
         "complex64", "complex128", "bfloat16"]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            return value, at


def extents_of(file):
    """The dims of a TensorProto: its field 1."""
    data, at, extents = file.read_bytes(), 0, []
    while at < len(data):
        tag, at = varint(data, at)
        if tag == 8:
            value, at = varint(data, at)
            extents.append(value)
        elif tag == 10:
            size, at = varint(data, at)
            end = at + size
            while at < end:
                value, at = varint(data, at)
                extents.append(value)
        elif tag & 7 == 0:
            _, at = varint(data, at)
        elif tag & 7 == 2:
            size, at = varint(data, at)
            at += size
        else:
            at += 4 if tag & 7 == 5 else 8
    return extents


def describe(build, path):
    """The model's file, its inputs as (name, type, extents), and the names of its outputs."""
    path = pathlib.Path(path)
    model = path / "model.onnx" if path.is_dir() else path
    about = json.loads(subprocess.run([f"{build}/ouro", "inspect", "--json", str(model)], check=True, capture_output=True, text=True).stdout)
    data = sorted(path.glob("test_data_set_*")) if path.is_dir() else []
    inputs = []
    for index, entry in enumerate(about["inputs"]):
        if entry["kind"] != "tensor" or entry["type"] not in TYPES or entry["type"] == "string":
            raise ValueError(f"input {entry['name']} is no tensor of numbers")
        file = data[0] / f"input_{index}.pb" if data else None
        extents = extents_of(file) if file and file.exists() else [e if isinstance(e, int) and e >= 0 else 1 for e in entry["shape"]]
        inputs.append((entry["name"], str(TYPES.index(entry["type"])), "x".join(str(e) for e in extents)))
    return str(model), inputs, [entry["name"] for entry in about["outputs"]]


def start(command):
    """Seconds to the first output, those for the model, for the session and for the run, and bytes."""
    command = [part if part != "SINCE" else repr(time.clock_gettime(time.CLOCK_MONOTONIC)) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise ValueError(reason(done))
    return [float(number) for number in done.stdout.split()]


def measure(build, path, threads, starts, how, plan):
    model, inputs, outputs = describe(build, path)
    subprocess.run([f"{build}/ouro", "compile", model, "-o", plan, "-q", "--threads", threads], check=True, capture_output=True)
    ours = [f"{build}/tests/bench_start", "SINCE", how, plan, threads] + [extents for _, _, extents in inputs]
    others = [f"{build}/tests/bench_start_onnxruntime", "SINCE", model, threads, str(len(inputs))] + [part for entry in inputs for part in entry] + outputs
    rounds = [(start(ours), start(others)) for _ in range(starts)]
    return [[statistics.median(r[side][i] for r in rounds) for i in range(5)] for side in (0, 1)]


def main():
    parser = argparse.ArgumentParser(prog="start.sh")
    parser.add_argument("build", help=argparse.SUPPRESS)
    parser.add_argument("-t", dest="threads", default="1", help="threads")
    parser.add_argument("-n", dest="starts", type=int, default=7, help="starts of each")
    parser.add_argument("-r", dest="how", action="store_const", const="read", default="map", help="read plans, in place of mapping them")
    parser.add_argument("models", nargs="+", help="models, or ONNX test folders")
    given = parser.parse_args()
    failed, times, memory = [], [], []
    print("| model | ouro ms | of these plan | session | run | ONNX Runtime ms | ratio | MiB | ONNX Runtime | ratio |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        for path in given.models:
            name = pathlib.Path(path).stem if path.endswith(".onnx") else pathlib.Path(path).name
            try:
                ours, others = measure(given.build, path, given.threads, given.starts, given.how, os.path.join(folder, "model.plan"))
            except (ValueError, KeyError, subprocess.SubprocessError) as error:
                failed.append((name, str(error)))
                continue
            times.append(ours[0] / others[0])
            memory.append(ours[4] / others[4])
            print(f"| {name} | {ours[0] * 1e3:.1f} | {ours[1] * 1e3:.1f} | {ours[2] * 1e3:.1f} | {ours[3] * 1e3:.1f} | {others[0] * 1e3:.1f} "
                  f"| {times[-1]:.2f} | {ours[4] / 2**20:.0f} | {others[4] / 2**20:.0f} | {memory[-1]:.2f} |", flush=True)
    if times:
        mean = lambda ratios: math.exp(sum(math.log(r) for r in ratios) / len(ratios))
        print(f"\ngeometric mean of {len(times)} ratios: time {mean(times):.2f}, the largest {max(times):.2f}; memory {mean(memory):.2f}, the largest {max(memory):.2f}")
    for name, why in failed:
        print(f"not measured: {name}: {why}")


if __name__ == "__main__":
    sys.exit(main())
