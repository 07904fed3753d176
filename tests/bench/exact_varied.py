# SPDX-License-Identifier: Apache-2.0
"""exact_varied.py FOLDER COUNT SEED PROBLEM...: published problems NAME.CAPACITY.csv in other words, COUNT times each, so that a placement
within the capacity still exists: rows in another order, time running backwards, one or five of a hundred buffers dropped, sizes up to a
fortieth smaller, a tenth of the lives shorter. Written to FOLDER/NAME-VARIATION-K.CAPACITY.csv. Run by exact_problems.sh."""
import random
import sys

import problem_files


def shorter(draw, first, last):
    """Ends earlier or begins later, by up to half."""
    by = draw.randrange(1, (last - first) // 2 + 1)
    return (first + by, last) if draw.random() < 0.5 else (first, last - by)


def smaller(draw, rows):
    return [(first, last, size - draw.randrange(size // 40 + 1)) for first, last, size in rows]


def shortened(draw, rows):
    return [shorter(draw, first, last) + (size,) if last - first > 2 and draw.random() < 0.1 else (first, last, size)
            for first, last, size in rows]


VARIATIONS = {
    'order': lambda draw, rows: rows,
    'reverse': lambda draw, rows: [(-last, -first, size) for first, last, size in rows],
    'drop1': lambda draw, rows: [row for row in rows if draw.random() > 0.01],
    'drop5': lambda draw, rows: [row for row in rows if draw.random() > 0.05],
    'smaller': smaller,
    'shorter': shortened,
}


def main(folder, count, seed, files):
    for file in files:
        name, capacity, rows = problem_files.read(file, 'lower', 'upper', 'size')
        for variation, change in VARIATIONS.items():
            for k in range(1, count + 1):
                draw = random.Random(f'{name} {variation} {seed} {k}')
                varied = list(change(draw, rows))
                draw.shuffle(varied)
                problem_files.write(folder, f'{name}-{variation}-{k}', capacity, varied)


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
