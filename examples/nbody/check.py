"""The output of nbody, computed another way: whole numbers of Python, forces body by body.

Usage: check.py INPUT > OUTPUT
"""

import argparse
import math

ONE = 1 << 20


def quotient(number, by):
    """Rounded towards zero."""
    return number // by if number >= 0 else -(-number // by)


def gain(body, others):
    """What the others add to the velocity of a body in one move."""
    mass, x, y, vx, vy = body
    for other in others:
        dx, dy = other[1] - x, other[2] - y
        square = (dx * dx >> 20) + (dy * dy >> 20) + ONE // 1024
        cube = square * math.isqrt(square << 20) >> 20
        vx += quotient(other[0] * dx, cube)
        vy += quotient(other[0] * dy, cube)
    return [mass, x, y, vx, vy]


def main(file):
    steps, moves, *numbers = map(int, file.read().split())
    scale = [ONE, ONE, ONE, ONE << 10, ONE << 10]
    bodies = [
        [quotient(number * by, 1000) for number, by in zip(numbers[at : at + 5], scale)]
        for at in range(0, len(numbers), 5)
    ]
    for step in range(1, steps + 1):
        for _ in range(moves):
            bodies = [gain(body, bodies[:i] + bodies[i + 1 :]) for i, body in enumerate(bodies)]
            bodies = [[m, x + (vx >> 20), y + (vy >> 20), vx, vy] for m, x, y, vx, vy in bodies]
        places = [place * 1000 >> 20 for body in bodies for place in body[1:3]]
        print(step, *places, sep="\t")


def arguments():
    """What is missing is told in words, with exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", type=argparse.FileType("r"), help="what the program reads")
    return parser.parse_args()


main(arguments().input)
