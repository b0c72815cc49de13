"""The output of word-count, computed another way: a regular expression and a counter.

Usage: check.py INPUT > OUTPUT
"""

import argparse
import collections
import re


def main(file):
    text = file.read()
    words = [word.lower()[:24].decode() for word in re.findall(rb"[A-Za-z]+", text)]
    counts = collections.Counter(words)
    room, listed = 16384, set()
    for word in counts:  # in the order of first appearance
        if len(word) + 5 <= room:
            room -= len(word) + 5
            listed.add(word)
    other = sum(count for word, count in counts.items() if word not in listed)
    print(f"(words)\t{len(words)}\n(listed)\t{len(listed)}\n(other)\t{other}")
    for word in sorted(listed, key=lambda word: (-counts[word], word))[:20]:
        print(word, counts[word], sep="\t")


def arguments():
    """What is missing is told in words, with exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", type=argparse.FileType("rb"), help="what the program reads")
    return parser.parse_args()


main(arguments().input)
