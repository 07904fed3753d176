"""exact_varied.py FOLDER COUNT SEED PROBLEM...: published problems NAME.CAPACITY.csv in other words, COUNT times each, so that a placement
within the capacity still exists: rows in another order, time running backwards, one or five of a hundred buffers dropped, sizes up to a
fortieth smaller, a tenth of the lives shorter. Written to FOLDER/NAME-VARIATION-K.CAPACITY.csv. Run by exact_problems.sh."""
import csv
import os
import random
import sys


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
    os.makedirs(folder, exist_ok=True)
    for file in files:
        name, capacity = os.path.basename(file).split('.')[:2]
        with open(file, newline='') as text:
            rows = [tuple(int(row[key]) for key in ('lower', 'upper', 'size')) for row in csv.DictReader(text)]
        for variation, change in VARIATIONS.items():
            for k in range(1, count + 1):
                draw = random.Random(f'{name} {variation} {seed} {k}')
                varied = list(change(draw, rows))
                draw.shuffle(varied)
                with open(os.path.join(folder, f'{name}-{variation}-{k}.{capacity}.csv'), 'w', newline='') as text:
                    text.write('id,lower,upper,size\n')
                    for i, row in enumerate(varied):
                        text.write(f'{i},{row[0]},{row[1]},{row[2]}\n')


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
