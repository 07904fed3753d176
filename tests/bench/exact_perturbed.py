# SPDX-License-Identifier: Apache-2.0
"""exact_perturbed.py FOLDER COUNT SEED SOLUTION.csv...: problems of the same kind as published ones. Every SOLUTION (a problem with the column
`offset`, as `ouro alloc --output` writes it) is changed COUNT times, in ways that keep a placement within its capacity: buffers that fill a
rectangle together become one, others are cut in two, through time or through memory; some are dropped, become shorter or smaller; others
grow into what is free around them; time runs backwards in every other one. Written to FOLDER/NAME-K.CAPACITY.csv, without the placement. Run by
exact_problems.sh."""
import random
import sys

import problem_files

FIRST, LAST, LOW, HIGH = range(4)
SHARE = 0.2  # of the buffers that are merged, and of those that are cut
QUANTUM = 1024


def meets(a, b):
    """Live together and at the same addresses."""
    return a[FIRST] < b[LAST] and b[FIRST] < a[LAST] and a[LOW] < b[HIGH] and b[LOW] < a[HIGH]


def merge(draw, pieces):
    """One buffer and a neighbour that make up a rectangle become one."""
    a = draw.choice(pieces)
    around = [b for b in pieces if b is not a and (
        (a[LAST] == b[FIRST] and a[LOW:] == b[LOW:]) or (a[HIGH] == b[LOW] and a[:LOW] == b[:LOW]))]
    if not around:
        return False
    b = draw.choice(around)
    a[LAST], a[HIGH] = b[LAST], b[HIGH]
    pieces.remove(b)
    return True


def cut(draw, pieces, times):
    """One buffer becomes two, at a step at which another one begins or ends, or at any address."""
    a = draw.choice(pieces)
    b = list(a)
    inside = [t for t in times if a[FIRST] < t < a[LAST]]
    if draw.random() < 0.5 and inside:
        a[LAST] = b[FIRST] = draw.choice(inside)
    elif a[HIGH] - a[LOW] >= 2 * QUANTUM:
        a[HIGH] = b[LOW] = a[LOW] + QUANTUM * draw.randrange(1, (a[HIGH] - a[LOW]) // QUANTUM)
    else:
        return False
    pieces.append(b)
    return True


def loosen(draw, pieces, times):
    """One buffer goes, ends earlier, begins later or becomes smaller."""
    a = draw.choice(pieces)
    inside = [t for t in times if a[FIRST] < t < a[LAST]]
    what = draw.randrange(4)
    if what == 0 and len(inside) < 8:
        pieces.remove(a)
    elif what == 1 and inside:
        a[FIRST] = draw.choice(inside[:3])
    elif what == 2 and inside:
        a[LAST] = draw.choice(inside[-3:])
    elif what == 3 and a[HIGH] - a[LOW] > 4 * QUANTUM:
        a[HIGH] -= QUANTUM * draw.randrange(1, (a[HIGH] - a[LOW]) // QUANTUM // 4 + 1)


def grow(draw, pieces, times, capacity):
    """One buffer takes what is free beside it: some steps or some bytes."""
    a = draw.choice(pieces)
    others = [b for b in pieces if b is not a]
    side = draw.randrange(4)
    grown = list(a)
    if side == FIRST:
        grown[FIRST] = max([times[0]] + [b[LAST] for b in others if b[LAST] <= a[FIRST] and b[LOW] < a[HIGH] and a[LOW] < b[HIGH]])
    elif side == LAST:
        grown[LAST] = min([times[-1]] + [b[FIRST] for b in others if b[FIRST] >= a[LAST] and b[LOW] < a[HIGH] and a[LOW] < b[HIGH]])
    elif side == LOW:
        grown[LOW] = max([0] + [b[HIGH] for b in others if b[HIGH] <= a[LOW] and b[FIRST] < a[LAST] and a[FIRST] < b[LAST]])
    else:
        grown[HIGH] = min([capacity] + [b[LOW] for b in others if b[LOW] >= a[HIGH] and b[FIRST] < a[LAST] and a[FIRST] < b[LAST]])
    a[:] = grown


def area(pieces):
    return sum((p[LAST] - p[FIRST]) * (p[HIGH] - p[LOW]) for p in pieces)


def perturb(draw, pieces, capacity):
    times = sorted({t for p in pieces for t in p[:LOW]})
    count, wanted, full = len(pieces), area(pieces), capacity * (times[-1] - times[0])
    changed = 0
    for _ in range(20 * count):
        changed += merge(draw, pieces)
        if changed >= SHARE * count:
            break
    while len(pieces) < count:
        cut(draw, pieces, times)
    for _ in range(int(SHARE * count)):
        if cut(draw, pieces, times):
            for _ in range(50):
                if merge(draw, pieces):
                    break
    while area(pieces) > wanted - full // 50:
        loosen(draw, pieces, times)
    for _ in range(20 * count):
        if area(pieces) >= wanted:
            break
        grow(draw, pieces, times, capacity)
    assert all(p[FIRST] < p[LAST] and 0 <= p[LOW] < p[HIGH] <= capacity for p in pieces)
    assert not any(meets(a, b) for i, a in enumerate(pieces) for b in pieces[:i])


def main(folder, count, seed, files):
    for file in files:
        name, capacity, rows = problem_files.read(file, 'lower', 'upper', 'offset', 'size')
        for k in range(1, count + 1):
            draw = random.Random(f'{name} {seed} {k}')
            pieces = [[first, last, offset, offset + size] for first, last, offset, size in rows if size]
            perturb(draw, pieces, int(capacity))
            if k % 2:
                pieces = [[-p[LAST], -p[FIRST], p[LOW], p[HIGH]] for p in pieces]
            draw.shuffle(pieces)
            problem_files.write(folder, f'{name}-{k}', capacity, [(p[FIRST], p[LAST], p[HIGH] - p[LOW]) for p in pieces])


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
