#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bands_table.py OURO [-l LIMIT,...] [-s SECONDS] [-r ROUNDS] [-t THREADS] [--predicted] [--before "COMMAND"] [-j FILE.json] MODEL.onnx|FOLDER...: what
bands of rows take of memory and time.

A table in Markdown, one line a model: the least arena without bands, then for each limit (as --arena-limit has them; min, 5% and 20% unless
-l says others) the arena, the time that is predicted and the time that is measured, both as ratios to the plan that is made without bands
(the predicted one with its kernels, too), which may take more memory for faster kernels. The time of a plan is the least of many runs, which a busy
machine changes less than means or processor seconds: the plans take turns, -r rounds of about -s seconds each. --predicted measures nothing.
--before: words in front of each command (taskset -c 1, or what keeps the machine quiet); a command compiles a plan, or runs all plans of a model for a
round. A folder is an ONNX test folder, whose first data set gives the shapes. Models that have nothing to gain (no limit gives less) stand below the
table, and so do those that do not compile with static shapes. Last, the geometric means, and how far the measured times are from the predicted ones."""
import argparse
import hashlib
import json
import math
import pathlib
import subprocess
import sys
import tempfile

from compare_table import reason

COMPILE_SECONDS = 900


def varint(data, at):
    value, shift = 0, 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 128:
            return value, at


def dims_of(path):
    """The dimensions of a TensorProto: field 1, packed or not."""
    data, at, dims = path.read_bytes(), 0, []
    while at < len(data):
        tag, at = varint(data, at)
        field, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = varint(data, at)
            dims += [value] if field == 1 else []
        elif kind == 2:
            size, at = varint(data, at)
            end = at + size
            while field == 1 and at < end:
                value, at = varint(data, at)
                dims.append(value)
            at = end
        else:
            at += 8 if kind == 1 else 4
    return dims


def shapes_of(ouro, folder):
    """--shape options from the first data set of a test folder."""
    data = sorted(folder.glob("test_data_set_*"))
    about = json.loads(subprocess.run([ouro, "inspect", "--json", str(folder / "model.onnx")], check=True, capture_output=True, text=True).stdout)
    options = []
    for index, entry in enumerate(about["inputs"] if data else []):
        file = data[0] / f"input_{index}.pb"
        dims = dims_of(file) if file.exists() else []
        if dims:
            options += ["--shape", f"{entry['name']}={'x'.join(map(str, dims))}"]
    return options


def compile_plan(given, model, plan, limit, shapes):
    """What the report says."""
    report = plan.with_suffix(".json")
    command = given.before.split() + [given.ouro, "compile", str(model), "-q", "-o", str(plan), "--threads", str(given.threads), "--report", str(report)] + shapes
    done = subprocess.run(command + (["--arena-limit", limit] if limit else ["--no-bands"]), capture_output=True, text=True, timeout=COMPILE_SECONDS)
    if done.returncode != 0:
        raise RuntimeError(reason(done))
    return json.loads(report.read_text())


def least_seconds(given, plans, runs):
    """The least of so many runs of each plan, one plan after another."""
    with tempfile.NamedTemporaryFile(suffix=".json") as numbers:
        command = given.before.split() + [given.ouro, "bench", "--runs", str(runs), "--json", numbers.name] + [str(plan) for plan in plans]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(reason(done))
        return [measured["min_ms"] / 1e3 for measured in json.load(open(numbers.name))]


def content_of(plan):
    with plan.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read()).hexdigest()


def ratios_of(given, plans):
    """The time of each plan as a ratio to the first one's; the same plans are run once."""
    different = {content_of(plan): plan for plan in reversed(plans)}
    first = content_of(plans[0])
    least = {content: math.inf for content in different}
    if len(different) > 1:
        runs = max(3, round(given.seconds / least_seconds(given, plans[:1], 3)[0]))
        for turn in range(given.rounds):
            order = list(different.items())[:: -1 if turn % 2 else 1]
            for (content, _), seconds in zip(order, least_seconds(given, [plan for _, plan in order], runs)):
                least[content] = min(least[content], seconds)
    return [least[content_of(plan)] / least[first] if content_of(plan) != first else 1.0 for plan in plans]


def predicted(report):
    bands = report.get("bands")
    whole = bands["predicted_seconds_without"] if bands else 0
    return bands["predicted_seconds"] / whole if whole else 1.0


def measure(given, path, limits):
    path = pathlib.Path(path)
    model = path / "model.onnx" if path.is_dir() else path
    with tempfile.TemporaryDirectory() as folder:
        plans = [pathlib.Path(folder) / f"{i}.plan" for i in range(len(limits) + 1)]
        shapes = shapes_of(given.ouro, path) if path.is_dir() else []
        reports = [compile_plan(given, model, plan, limit, shapes) for plan, limit in zip(plans, [None] + limits)]
        worth = min(report["arena_bytes"] for report in reports[1:]) < 0.99 * reports[0]["least_arena_bytes"]
        times = ratios_of(given, plans) if worth and not given.predicted else [None] * len(plans)
        return {"name": path.name if path.is_dir() else path.stem, "without": reports[0]["least_arena_bytes"], "worth": worth,
                "limits": {limit: {"bytes": report["arena_bytes"], "time": time, "predicted": predicted(report)}
                           for limit, report, time in zip(limits, reports[1:], times[1:])}}


def ratio_text(time):
    return f"{time:.2f}" if time else ""


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ouro")
    parser.add_argument("-l", dest="limits", default="min,5%,20%")
    parser.add_argument("-s", dest="seconds", type=float, default=0.3, help="seconds of each plan in a round")
    parser.add_argument("-r", dest="rounds", type=int, default=8)
    parser.add_argument("-t", dest="threads", type=int, default=1)
    parser.add_argument("-j", dest="json", help="the numbers as JSON")
    parser.add_argument("--predicted", action="store_true", help="measure nothing")
    parser.add_argument("--before", default="", help="words in front of each command")
    parser.add_argument("models", nargs="+", help="models, or ONNX test folders")
    given = parser.parse_args()
    limits, rows, others, failed = given.limits.split(","), [], [], []
    print("| model | without bands, MiB |" + "".join(f" {limit} | predicted | time |" for limit in limits) + " without / " + limits[0] + " |")
    print("|---|--:|" + "--:|--:|--:|" * len(limits) + "--:|")
    for path in given.models:
        try:
            row = measure(given, path, limits)
        except (subprocess.SubprocessError, RuntimeError, KeyError, ValueError, OSError) as error:
            failed.append(f"{path}: {error}")
            print(failed[-1], file=sys.stderr)
            continue
        if not row["worth"]:
            others.append(row["name"])
            continue
        rows.append(row)
        print(f"| {row['name']} | {row['without'] / 2**20:.2f} |" +
              "".join(f" {of['bytes'] / 2**20:.2f} | {of['predicted']:.2f} | {ratio_text(of['time'])} |" for of in row["limits"].values()) +
              f" {row['without'] / row['limits'][limits[0]]['bytes']:.1f} |", flush=True)
    print()
    for limit in limits if rows else []:
        of = [row["limits"][limit] for row in rows]
        line = f"geometric means of {len(rows)} models at {limit}: {mean([row['without'] / row['limits'][limit]['bytes'] for row in rows]):.2f} times less"
        line += f", predicted time {mean([one['predicted'] for one in of]):.2f}"
        if not given.predicted:
            wrong = [one["time"] / one["predicted"] for one in of]
            line += f", measured {mean([one['time'] for one in of]):.2f}; measured / predicted {min(wrong):.2f} to {max(wrong):.2f}"
        print(line)
    if others:
        print("nothing to gain: " + ", ".join(others))
    for line in failed:
        print("not compiled or not run: " + line)
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(rows, indent=1))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
