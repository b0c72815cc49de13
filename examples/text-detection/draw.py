"""Draws the boxes that were found around the text of each picture.

    opengpu exec run examples/text-detection --out boxes.jsonl
    python3 examples/text-detection/draw.py boxes.jsonl output.png
"""

import json
import sys

import write_input

RED = (230, 30, 60)


def main(found, target):
    pictures = dict(write_input.PICTURES)
    painted = []
    with open(found) as lines:
        for line in map(json.loads, lines):
            picture = pictures[line["name"]]()
            for box in line["boxes"]:
                left, top, right, bottom = (box[side] for side in ("left", "top", "right", "bottom"))
                picture.box(left, top, right, top + 3, RED)
                picture.box(left, bottom - 3, right, bottom, RED)
                picture.box(left, top, left + 3, bottom, RED)
                picture.box(right - 3, top, right, bottom, RED)
            painted.append(picture)
    with open(target, "wb") as file:
        file.write(write_input.side_by_side(painted))


main(*sys.argv[1:])
