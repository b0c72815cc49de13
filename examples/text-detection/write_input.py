"""Paints the pictures that the example looks at, with nothing but the standard library.

Usage: write_input.py > pictures.tar
"""

import io
import struct
import sys
import tarfile
import zlib

WIDTH, HEIGHT = 640, 480

# Seven rows of five points for each letter.
LETTERS = {
    letter: [int(row, 16) for row in rows.split()]
    for letter, rows in {
        "A": "0e 11 11 1f 11 11 11", "B": "1e 11 11 1e 11 11 1e", "C": "0e 11 10 10 10 11 0e",
        "D": "1e 11 11 11 11 11 1e", "E": "1f 10 10 1e 10 10 1f", "F": "1f 10 10 1e 10 10 10",
        "G": "0e 11 10 17 11 11 0e", "H": "11 11 11 1f 11 11 11", "I": "0e 04 04 04 04 04 0e",
        "K": "11 12 14 18 14 12 11", "L": "10 10 10 10 10 10 1f", "M": "11 1b 15 15 11 11 11",
        "N": "11 19 15 13 11 11 11", "O": "0e 11 11 11 11 11 0e", "P": "1e 11 11 1e 10 10 10",
        "R": "1e 11 11 1e 14 12 11", "S": "0f 10 10 0e 01 01 1e", "T": "1f 04 04 04 04 04 04",
        "U": "11 11 11 11 11 11 0e", "V": "11 11 11 11 11 0a 04", "W": "11 11 11 15 15 1b 11",
        "Y": "11 11 0a 04 04 04 04", "0": "0e 11 13 15 19 11 0e", "1": "04 0c 04 04 04 04 0e",
        "2": "0e 11 01 02 04 08 1f", "3": "1f 02 04 02 01 11 0e", "4": "02 06 0a 12 1f 02 02",
        "5": "1f 10 1e 01 01 11 0e", "7": "1f 01 02 04 08 08 08", "8": "0e 11 11 0e 11 11 0e",
        ".": "00 00 00 00 00 0c 0c", " ": "00 00 00 00 00 00 00",
    }.items()
}


class Picture:
    """A canvas."""

    def __init__(self, above, below):
        """A background that goes from one colour to the other."""
        self.points = bytearray()
        for y in range(HEIGHT):
            colour = [a + (b - a) * y // HEIGHT for a, b in zip(above, below)]
            self.points += bytes(colour) * WIDTH

    def box(self, left, top, right, bottom, colour):
        left, right = max(left, 0), min(right, WIDTH)
        for y in range(max(top, 0), min(bottom, HEIGHT)):
            at = (y * WIDTH + left) * 3
            self.points[at : at + (right - left) * 3] = bytes(colour) * (right - left)

    def disc(self, x, y, radius, colour):
        for row in range(-radius, radius + 1):
            half = int((radius * radius - row * row) ** 0.5)
            self.box(x - half, y + row, x + half + 1, y + row + 1, colour)

    def text(self, left, top, size, colour, words):
        """Letters of five by seven blocks; `size` is the side of a block."""
        for letter in words:
            for y, row in enumerate(LETTERS[letter]):
                for x in range(5):
                    if row >> (4 - x) & 1:
                        at = left + x * size, top + y * size
                        self.box(*at, at[0] + size, at[1] + size, colour)
            left += 6 * size

    def rows(self):
        row = WIDTH * 3
        return [bytes(self.points[at : at + row]) for at in range(0, len(self.points), row)]


def png(rows):
    """A picture of rows of red, green and blue."""
    head = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    parts = [(b"IHDR", head), (b"IDAT", body), (b"IEND", b"")]
    chunk = lambda kind, body: (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def side_by_side(pictures):
    """Two in a row."""
    rows = []
    for left, right in zip(pictures[::2], pictures[1::2]):
        rows += [a + b for a, b in zip(left.rows(), right.rows())]
    return png(rows)


def sign():
    picture = Picture((90, 150, 220), (210, 225, 240))
    picture.box(0, 400, WIDTH, HEIGHT, (80, 120, 70))
    picture.box(310, 250, 330, 420, (110, 110, 115))
    picture.box(120, 70, 520, 260, (250, 250, 250))
    picture.box(128, 78, 512, 252, (20, 90, 50))
    picture.text(160, 100, 8, (250, 250, 250), "HARBOUR")
    picture.text(240, 185, 6, (250, 220, 60), "25 KM")
    return picture


def receipt():
    picture = Picture((120, 95, 75), (90, 70, 55))
    picture.box(150, 20, 490, 460, (248, 246, 240))
    picture.text(200, 45, 4, (30, 30, 30), "CORNER SHOP")
    for row, (what, price) in enumerate(
        [("BREAD", "3.20"), ("MILK", "1.85"), ("APPLES", "2.40"), ("TEA", "4.75")]
    ):
        picture.text(180, 130 + 55 * row, 3, (50, 50, 50), what)
        picture.text(380, 130 + 55 * row, 3, (50, 50, 50), price)
    picture.box(180, 350, 460, 353, (120, 120, 120))
    picture.text(180, 380, 4, (20, 20, 20), "TOTAL")
    picture.text(350, 380, 4, (20, 20, 20), "12.20")
    return picture


def poster():
    picture = Picture((60, 20, 90), (230, 90, 60))
    picture.disc(470, 300, 110, (250, 200, 90))
    picture.text(50, 60, 9, (255, 240, 220), "NIGHT")
    picture.text(50, 150, 9, (255, 240, 220), "MUSIC")
    picture.text(60, 400, 4, (255, 240, 220), "FRIDAY AT 8 IN THE PARK")
    return picture


def landscape():
    picture = Picture((110, 170, 230), (240, 230, 200))
    picture.disc(470, 300, 110, (255, 230, 120))
    picture.disc(150, 640, 330, (70, 130, 70))
    picture.disc(470, 700, 360, (95, 150, 80))
    return picture


PICTURES = [
    ("sign.png", sign),
    ("receipt.png", receipt),
    ("poster.png", poster),
    ("landscape.png", landscape),
]


def main():
    archive = tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.USTAR_FORMAT)
    for name, paint in PICTURES:
        data = png(paint().rows())
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    archive.close()


if __name__ == "__main__":
    main()
