#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""drawn_problems.py FOLDER SEED[,SEED...] FAMILY_COUNT...: allocation problems of the families that OmniMalloc's benchmark draws.

FAMILY_COUNT is a family and a number of buffers, such as pinwheel_2001 or skewed_zipf_1000; FOLDER/FAMILY_COUNT_sSEED.csv is
written for each. The numbers are drawn in the order in which OmniMalloc's generators draw them, from Python's own generator: with
seed 42 the problems are those that were published.

    random         sizes of 1 KiB to 1 MiB, lives of 1 to 500 steps of 10,000
    contention     lives of up to 10 steps of 20
    sequential     lives of 5 to 15 steps, each overlaps the one before by at most two
    pow2           sizes 2^10 to 2^20, lives of up to 50 steps of 100
    skewed_KIND    uniform, log_uniform, zipf, bimodal or dominant sizes, lives of up to 64 steps of 1,024
    tiling         a full rectangle of 1 MiB, cut from edge to edge
    pinwheel       the same, cut into rings of four around a fifth
    sp_KIND        lives on two workers that meet in each step: dense (each hears from the other) or ring (one after the other)
"""
import bisect
import math
import pathlib
import random
import sys

KB, MB, STEPS = 1024, 1024 * 1024, 1024 * 1024


def draw_random(rng, count):
    for _ in range(count):
        size, life = rng.randint(KB, MB), rng.randint(1, 500)
        yield rng.randint(0, 10000 - life), life, size


def draw_contention(rng, count):
    for _ in range(count):
        size, life = rng.randint(KB, MB), rng.randint(1, 10)
        yield rng.randint(0, 20 - life), life, size


def draw_pow2(rng, count):
    for _ in range(count):
        exponent, life = rng.randint(10, 20), rng.randint(1, 50)
        yield rng.randint(0, 100 - life), life, 2**exponent


def draw_sequential(rng, count):
    end = 0
    for _ in range(count):
        size, life = rng.randint(KB, MB), rng.randint(5, 15)
        first = max(0, end - rng.randint(0, min(2, life // 2)))
        end = first + life
        yield first, life, size


def draw_sizes(rng, count, kind):
    clamp = lambda size: max(KB, min(MB, size))
    if kind == "uniform":
        return [rng.randint(KB, MB) for _ in range(count)]
    if kind == "log_uniform":
        return [clamp(int(2.0 ** rng.uniform(10, 20))) for _ in range(count)]
    if kind == "zipf":
        return [clamp(int(KB / (rng.random() or 1e-12) ** 0.8)) for _ in range(count)]
    if kind == "bimodal":
        middle = math.isqrt(KB * MB)
        return [rng.randint(KB, middle) if rng.random() < 0.9 else rng.randint(middle, MB) for _ in range(count)]
    large = int(MB * 0.9)
    sizes = [rng.randint(KB, max(KB, large // count)) for _ in range(count)]
    sizes[rng.randrange(count)] = large
    return sizes


def draw_skewed(rng, count, kind):
    for size in draw_sizes(rng, count, kind):
        life = rng.randint(1, 64)
        yield rng.randint(0, 1024 - life), life, size


def cut_in_two(rng, first, last, low, size):
    by_size, by_time = size >= 2 * KB, last - first >= 2
    if rng.random() < 0.5 if by_size and by_time else by_size:
        at = rng.randint(low + KB, low + size - KB)
        return [(first, last, low, at - low), (first, last, at, low + size - at)]
    at = rng.randint(first + 1, last - 1)
    return [(first, at, low, size), (at, last, low, size)]


def cut_in_five(rng, first, last, low, size):
    p, q = rng.randint(1, (last - first - 1) // 2), rng.randint(KB, (size - KB) // 2)
    return [(first, last - p, low, q), (last - p, last, low, size - q), (first + p, last, low + size - q, q),
            (first, first + p, low + q, size - q), (first + p, last - p, low + q, size - 2 * q)]


def draw_tiles(rng, count, cut, can_cut):
    """The larger the area of a tile, the sooner it is cut."""
    tiles = [(0, STEPS, 0, MB)]
    while len(tiles) < count:
        those = [i for i, tile in enumerate(tiles) if can_cut(tile)]
        at = rng.choices(those, weights=[(tiles[i][1] - tiles[i][0]) * tiles[i][3] for i in those])[0]
        tiles[at:at + 1] = cut(rng, *tiles[at])
    return [(first, last - first, size) for first, last, _, size in tiles]


def draw_tiling(rng, count):
    return draw_tiles(rng, count, cut_in_two, lambda t: t[1] - t[0] >= 2 or t[3] >= 2 * KB)


def draw_pinwheel(rng, count):
    return draw_tiles(rng, count, cut_in_five, lambda t: t[1] - t[0] >= 3 and t[3] >= 3 * KB)


def draw_sp(rng, count, kind):
    """A life begins and ends with a step of one of two workers, each of which knows how far the other one was when it last heard
    from it. What cannot be told to be over is live; the steps are put in an order that says the same."""
    steps = max(4, count)
    know, seen = [[0, 0], [0, 0]], [[], []]
    for step in range(1, steps + 1):
        know[0][0] = know[1][1] = step
        if kind == "ring":
            know[1 - step % 2][step % 2] = step
        else:
            know = [[step, step], [step, step]]
            rng.randrange(1), rng.randrange(1)  # from whom each one hears
        for worker in (0, 1):
            seen[worker].append(tuple(know[worker]))
    lives = []
    for size in draw_sizes(rng, count, "uniform"):
        worker, birth = rng.randrange(2), rng.randrange(steps - 1)
        death = rng.randint(birth + 1, min(steps - 1, birth + max(1, steps // 4)))
        lives.append((seen[worker][birth], seen[worker][death], size))
    if kind == "dense":
        return [(begin[0], end[0] - begin[0], size) for begin, end, size in lives]
    return in_one_order(lives)


def in_one_order(lives):
    """Steps as ranks of what is over before a life begins: a chain, where the order is one of intervals."""
    over = lambda at: sum(end[0] <= at[0] and end[1] <= at[1] for _, end, _ in lives)
    begins = {begin: over(begin) for begin, _, _ in lives}
    ranks = sorted(set(begins.values()))
    first_at = {}
    for begin, count in begins.items():
        first_at.setdefault(count, begin)
    rows = []
    for begin, end, size in lives:
        low, high = 0, len(ranks)
        while low < high:
            middle = (low + high) // 2
            at = first_at[ranks[middle]]
            if end[0] <= at[0] and end[1] <= at[1]:
                high = middle
            else:
                low = middle + 1
        first = bisect.bisect_left(ranks, begins[begin])
        rows.append((first, low - first, size))
    return rows


FAMILIES = {"random": draw_random, "contention": draw_contention, "sequential": draw_sequential, "pow2": draw_pow2,
            "tiling": draw_tiling, "pinwheel": draw_pinwheel, "skewed": draw_skewed, "sp": draw_sp}


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for problem in sys.argv[3:]:
        name, count = problem.rsplit("_", 1)
        family, _, kind = name.partition("_")
        for seed in map(int, sys.argv[2].split(",")):
            rows = FAMILIES[family](random.Random(seed), int(count), *([kind] if kind else []))
            text = "".join(f"{i},{first},{first + life},{size}\n" for i, (first, life, size) in enumerate(rows))
            (folder / f"{problem}_s{seed}.csv").write_text("id,lower,upper,size\n" + text)


main()
