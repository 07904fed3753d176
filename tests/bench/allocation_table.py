#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""allocation_table.py [OPTIONS] FOLDER [PROBLEM...]: what `ouro alloc` reaches on allocation problems, beside other planners.

FOLDER holds NAME.csv (id,lower,upper,size). A README.md in it may hold rows `| name | buffers | bound | height of the first
other planner | height of the best other (who, when) |`; these heights stand beside ours. One line is printed for each problem,
as Markdown: heights as ratios to the lower bound, processor seconds, the memory of the process.

    --work N      units of work for each problem (default: 2,600,000, about 5 s of one processor); deterministic
    --seconds S   a time for each problem instead
    --threads N   as for ouro alloc
    --allocator A (default: exact)
    --ouro FILE   the command (default: build/ouro)
    --curve FILE  draws the height over processor time, from runs with N / 64, N / 32, ... N units of work, as SVG
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def solve(options, problem, limit):
    """The result of one run, its processor seconds and the most memory that it had, in MB."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [options.ouro, "alloc", str(problem), "--allocator", options.allocator, "--json", out.name,
                   "--threads", str(options.threads)] + limit
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{' '.join(command)}: status {process.returncode}")
        entry = json.load(open(out.name))[0]
    return entry, entry["results"][0], usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def read_others(folder):
    """Heights of other planners by problem: the fourth column, and the fifth with who it was."""
    others = {}
    readme = folder / "README.md"
    for line in readme.read_text().splitlines() if readme.exists() else []:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) < 5 or not cells[3].isdigit():
            continue
        best = re.match(r"(\d+) \((.*)\)", cells[4])
        others[cells[0]] = (int(cells[3]), int(best[1]), best[2])
    return others


def ratio(height, bound):
    """Rounded up, so that 1 says that the bound is reached."""
    if height == bound:
        return "1"
    text = f"{height / bound:.4f}"
    return text if text != "1.0000" else f"1 + {height / bound - 1:.0e}"


def table(options, problems, others):
    print("| problem | buffers | ouro | | s | MB | first other | best of the others |")
    print("|---|--:|--:|---|--:|--:|--:|---|")
    lower = equal = higher = 0
    limit = ["--seconds", options.seconds] if options.seconds else ["--work", str(options.work)]
    for problem in problems:
        entry, result, seconds, memory = solve(options, problem, limit)
        bound, height = entry["lower_bound"], result["height"]
        first, best, who = others.get(problem.stem, (None, None, ""))
        if first:
            lower, equal, higher = lower + (height < first), equal + (height == first), higher + (height > first)
        print(f"| {problem.stem} | {entry['buffers']} | {ratio(height, bound)} | {'proved' if result['optimal'] else ''} "
              f"| {seconds:.2f} | {memory:.0f} | {ratio(first, bound) if first else ''} "
              f"| {ratio(best, bound) + ', ' + who if best else ''} |", flush=True)
    print(f"\nLower than the first other on {lower}, equal on {equal}, higher on {higher}.")


def curve(options, problems):
    """Lines of height / bound over processor seconds, in logarithmic steps."""
    lines = []
    for problem in problems:
        points = []
        for halvings in range(6, -1, -1):
            entry, result, seconds, _ = solve(options, problem, ["--work", str(options.work >> halvings)])
            points.append((seconds, result["height"] / entry["lower_bound"]))
            print(problem.stem, f"{seconds:.2f} s: {points[-1][1]:.5f}", file=sys.stderr, flush=True)
            if result["optimal"]:
                break
        # Of two runs with less and more work the second may end first: what is drawn is the least height by then.
        lines.append((problem.stem, [p for p in sorted(points) if all(p[1] < q[1] or p == q for q in points if q[0] <= p[0])]))
    pathlib.Path(options.curve).write_text(draw(lines))


def draw(lines):
    import math
    width, height, left, right, top, bottom = 860, 440, 60, 200, 40, 40
    seconds = [s for _, points in lines for s, _ in points]
    # A single point, or heights that are all the bound's, are drawn too: no axis has the length 0.
    first, last = math.log(min(seconds)), math.log(max(max(seconds), 1.01 * min(seconds)))
    most = max(1.001, *(r for _, points in lines for _, r in points))
    x = lambda s: left + (math.log(s) - first) / (last - first) * (width - left - right)
    y = lambda r: height - bottom - (r - 1) / (most - 1) * (height - top - bottom)
    colours = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777"]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for k in range(6):
        level = 1 + (most - 1) * k / 5
        out.append(f'<line x1="{left}" x2="{width - right}" y1="{y(level):.1f}" y2="{y(level):.1f}" stroke="#dddddd"/>'
                   f'<text x="{left - 8}" y="{y(level) + 4:.1f}" text-anchor="end">{level:.3f}</text>')
    for s in (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30):
        if min(seconds) <= s <= max(seconds):
            out.append(f'<line x1="{x(s):.1f}" x2="{x(s):.1f}" y1="{top}" y2="{height - bottom}" stroke="#eeeeee"/>'
                       f'<text x="{x(s):.1f}" y="{height - bottom + 16}" text-anchor="middle">{s:g}</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 6}" text-anchor="middle">processor seconds</text>'
               f'<text x="{left - 50}" y="{top - 20}">height / lower bound</text>')
    taken = []
    for k, (name, points) in enumerate(lines):
        path = " ".join(f"{x(s):.1f},{y(r):.1f}" for s, r in points)
        at = y(points[-1][1]) - 4
        while any(abs(at - other) < 14 for other in taken):
            at -= 14
        taken.append(at)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colours[k % len(colours)]}" stroke-width="2"/>'
                   f'<circle cx="{x(points[-1][0]):.1f}" cy="{y(points[-1][1]):.1f}" r="3" fill="{colours[k % len(colours)]}"/>'
                   f'<text x="{x(points[-1][0]) + 6:.1f}" y="{at:.1f}" fill="{colours[k % len(colours)]}">{name}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("problems", nargs="*")
    parser.add_argument("--work", type=int, default=2600000)
    parser.add_argument("--seconds")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--allocator", default="exact")
    parser.add_argument("--ouro", default=str(ROOT / "build/ouro"))
    parser.add_argument("--curve")
    options = parser.parse_args()
    problems = sorted(options.folder.glob("*.csv"))
    if options.problems:
        problems = [p for p in problems if p.stem in options.problems]
    if options.curve:
        curve(options, problems)
    else:
        table(options, problems, read_others(options.folder))


main()
