"""Turns the output of an example into a PNG, with nothing but the standard library.

Usage: picture.py OUTPUT PNG [SCALE]

A PPM or PGM picture is kept as it is, of several the last, each point SCALE times as large; the table of
nbody becomes a picture of the paths; what ends in .rgba is a square of four bytes for each point.
"""

import argparse
import math
import struct
import zlib

COLOURS = [(255, 221, 87), (114, 187, 255), (255, 138, 101), (129, 199, 132), (200, 230, 201),
           (206, 147, 216), (240, 98, 146), (128, 222, 234)]


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width, height, samples, points):
    """`samples` bytes for each point: one is grey, three are a colour."""
    row = width * samples
    lines = b"".join(b"\0" + points[at : at + row] for at in range(0, row * height, row))
    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2}[samples], 0, 0, 0)
    body = zlib.compress(lines, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def enlarged(width, height, samples, points, scale):
    rows = []
    for y in range(height):
        row = points[y * width * samples : (y + 1) * width * samples]
        wide = b"".join(row[at : at + samples] * scale for at in range(0, len(row), samples))
        rows.append(wide * scale)
    return width * scale, height * scale, samples, b"".join(rows)


def netpbm(data):
    kind, width, height, _, points = data.split(maxsplit=4)
    samples = {b"P5": 1, b"P6": 3}[kind]
    # The split also takes points that look like spaces, so they are counted from the end.
    size = int(width) * int(height) * samples
    return int(width), int(height), samples, data[len(data) - size :]


def square(data):
    side = math.isqrt(len(data) // 4)
    points = b"".join(data[at : at + 3] for at in range(0, side * side * 4, 4))
    return side, side, 3, points


def paths(data, side=400, reach=11_000):
    points = bytearray(b"\x10\x12\x18" * (side * side))
    for line in data.decode().splitlines():
        places = list(map(int, line.split("\t")[1:]))
        for body, (x, y) in enumerate(zip(places[::2], places[1::2])):
            column, row = ((at + reach) * side // (2 * reach) for at in (x, -y))
            if 0 <= column < side and 0 <= row < side:
                at = (row * side + column) * 3
                points[at : at + 3] = bytes(COLOURS[body % len(COLOURS)])
    return side, side, 3, bytes(points)


def read(output):
    with open(output, "rb") as file:
        data = file.read()
    if output.endswith(".rgba"):
        return square(data)
    return netpbm(data) if data[:2] in (b"P5", b"P6") else paths(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", help="what the example wrote")
    parser.add_argument("png", help="the picture to write")
    parser.add_argument("scale", nargs="?", type=int, default=1, help="how large a point becomes")
    given = parser.parse_args()
    try:
        picture = read(given.output)
        with open(given.png, "wb") as file:
            file.write(png(*enlarged(*picture, given.scale)))
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    except ValueError:
        parser.error(f"{given.output}: neither a picture nor a table of nbody")


main()
