"""Writes the plate that heat-gpu warms: a PGM picture with a head of exactly 16 bytes.

Usage: write_input.py > input.pgm
"""

import sys

SIDE = 64
# Left, top, width, height, temperature.
BARS = [
    (4, 22, 2, 20, 255), (6, 22, 6, 2, 255), (6, 40, 6, 2, 255), (12, 22, 2, 20, 255),
    (20, 22, 8, 2, 230), (20, 24, 2, 18, 230), (22, 40, 6, 2, 230), (26, 32, 2, 8, 230),
    (34, 22, 2, 20, 205), (36, 22, 6, 2, 205), (36, 31, 6, 2, 205), (42, 22, 2, 11, 205),
    (50, 22, 2, 20, 180), (52, 40, 6, 2, 180), (58, 22, 2, 20, 180), (0, 56, 64, 1, 90),
]


def main():
    plate = bytearray(SIDE * SIDE)
    for left, top, width, height, temperature in BARS:
        for y in range(top, top + height):
            plate[y * SIDE + left : y * SIDE + left + width] = bytes([temperature]) * width
    head = b"P5\n64 64\n   255\n"
    assert len(head) == 16
    sys.stdout.buffer.write(head + plate)


main()
