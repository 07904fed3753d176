# SPDX-License-Identifier: Apache-2.0
"""problem_files.py: allocation problems as files NAME.CAPACITY.csv, for the scripts here that make new ones of them."""
import csv
import os


def read(file, *columns):
    """The name, the capacity (text) and, by row, the numbers in these columns."""
    name, capacity = os.path.basename(file).split('.')[:2]
    with open(file, newline='') as text:
        return name, capacity, [tuple(int(row[column]) for column in columns) for row in csv.DictReader(text)]


def write(folder, name, capacity, rows):
    """Rows are (lower, upper, size); ids are their numbers."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f'{name}.{capacity}.csv'), 'w', newline='') as text:
        text.write('id,lower,upper,size\n')
        for i, row in enumerate(rows):
            text.write(f'{i},{row[0]},{row[1]},{row[2]}\n')
