"""Draws the boxes that were found around the text of each picture.

    opengpu exec run examples/text-detection --out boxes.jsonl
    python3 examples/text-detection/draw.py boxes.jsonl output.png
"""

import argparse
import json

import write_input

RED = (230, 30, 60)


def main(found, target):
    pictures = dict(write_input.PICTURES)
    painted = []
    for line in map(json.loads, found):
        picture = pictures[line["name"]]()
        for box in line["boxes"]:
            left, top, right, bottom = (box[side] for side in ("left", "top", "right", "bottom"))
            picture.box(left, top, right, top + 3, RED)
            picture.box(left, bottom - 3, right, bottom, RED)
            picture.box(left, top, left + 3, bottom, RED)
            picture.box(right - 3, top, right, bottom, RED)
        painted.append(picture)
    # Only now: what was there is lost for nothing less than a picture.
    with open(target, "wb") as file:
        file.write(write_input.side_by_side(painted))


def arguments():
    """What is missing is told in words, with exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("boxes", type=argparse.FileType("r"), help="what the example wrote")
    parser.add_argument("png", help="the picture to write")
    return parser.parse_args()


given = arguments()
main(given.boxes, given.png)
