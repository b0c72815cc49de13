"""The output of sha256-search, computed another way: hashlib over every number.

Usage: check.py INPUT > OUTPUT
"""

import argparse
import hashlib


def zeros(digest):
    return 256 - int.from_bytes(digest, "big").bit_length()


def main(file):
    prefix, count = file.read().split()
    texts = (f"{prefix}{number:016x}" for number in range(int(count)))
    digest = lambda text: hashlib.sha256(text.encode()).digest()
    best = max(texts, key=lambda text: zeros(digest(text)))  # the first of equals
    print(f"bits {zeros(digest(best))}\ntext {best}\nsha-256 {digest(best).hex()}")


def arguments():
    """What is missing is told in words, with exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", type=argparse.FileType("r"), help="what the program reads")
    return parser.parse_args()


main(arguments().input)
