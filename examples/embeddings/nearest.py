"""Finds, for each question in the second line, the nearest sentence of the first line.

    opengpu exec run examples/embeddings --out points.jsonl
    python3 examples/embeddings/nearest.py points.jsonl
"""

import argparse
import json
import pathlib

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("points", type=argparse.FileType("r"), help="what the example wrote")
given = parser.parse_args()
folder = pathlib.Path(__file__).parent
texts = [json.loads(line)["embed"] for line in (folder / "input.jsonl").read_text().splitlines()]
points = [json.loads(line)["points"]["vectors"] for line in given.points]
for question, point in zip(texts[1], points[1]):
    scores = [sum(a * b for a, b in zip(point, other)) for other in points[0]]
    best = max(range(len(scores)), key=scores.__getitem__)
    print(f"{scores[best]:.3f}  {question}  ->  {texts[0][best]}")
