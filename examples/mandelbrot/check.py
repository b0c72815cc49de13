"""The output of mandelbrot, computed another way: whole numbers of Python, one point at a time.

Usage: check.py INPUT > OUTPUT
"""

import argparse
import sys

ONE = 1 << 28


def quotient(number, by):
    """Rounded towards zero."""
    return number // by if number >= 0 else -(-number // by)


def escape(x, y, most):
    real = imaginary = 0
    for count in range(most):
        a, b = real * real >> 28, imaginary * imaginary >> 28
        if a + b > 4 * ONE:
            return count
        real, imaginary = a - b + x, (real * imaginary >> 27) + y
    return most


def wave(at):
    return min(at % 128, 127 - at % 128) * 255 // 63


def main(file):
    width, height, most, x, y, span = map(int, file.read().split())
    pitch = quotient(quotient(span * ONE, 10**6), width)
    left = quotient(x * ONE, 10**6) - pitch * (width - 1) // 2
    top = quotient(y * ONE, 10**6) + pitch * (height - 1) // 2
    rows = []
    for row in range(height):
        for column in range(width):
            count = escape(left + pitch * column, top - pitch * row, most)
            colour = (wave(count * 3), wave(count * 5 + 8), wave(count * 7 + 40))
            rows.append(bytes(colour) if count < most else bytes(3))
    sys.stdout.buffer.write(b"P6\n%d %d\n255\n" % (width, height) + b"".join(rows))


def arguments():
    """What is missing is told in words, with exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", type=argparse.FileType("r"), help="what the program reads")
    return parser.parse_args()


main(arguments().input)
