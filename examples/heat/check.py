"""The output of heat, computed another way: rows of Python lists.

Usage: check.py INPUT > OUTPUT
"""

import argparse
import sys


def sweep(rows, held):
    up, down = [rows[0]] + rows[:-1], rows[1:] + [rows[-1]]
    swept = []
    for row, above, below in zip(rows, up, down):
        left, right = [row[0]] + row[:-1], row[1:] + [row[-1]]
        swept.append([(4 * c + n + s + w + e) >> 3
                      for c, n, s, w, e in zip(row, above, below, left, right)])
    for (x, y), temperature in held.items():
        swept[y][x] = temperature
    return swept


def main(file):
    width, height, steps, sweeps, *numbers = map(int, file.read().split())
    held = {}
    for at in range(0, len(numbers), 5):
        left, top, across, down, temperature = numbers[at : at + 5]
        for y in range(top, top + down):
            for x in range(left, left + across):
                held[x, y] = temperature
    rows = [[held.get((x, y), 0) for x in range(width)] for y in range(height)]
    for _ in range(steps * sweeps):
        rows = sweep(rows, held)
    picture = bytes(cell >> 7 for row in rows for cell in row)
    sys.stdout.buffer.write(b"P5\n%d %d\n255\n" % (width, height) + picture)


def arguments():
    """What is missing is told in words, with exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", type=argparse.FileType("r"), help="what the program reads")
    return parser.parse_args()


main(arguments().input)
