"""The output of sha256-search, computed another way: hashlib over every number.

Usage: check.py INPUT > OUTPUT
"""

import hashlib
import sys


def zeros(digest):
    return 256 - int.from_bytes(digest, "big").bit_length()


def main(path):
    with open(path, encoding="ascii") as file:
        prefix, count = file.read().split()
    texts = (f"{prefix}{number:016x}" for number in range(int(count)))
    digest = lambda text: hashlib.sha256(text.encode()).digest()
    best = max(texts, key=lambda text: zeros(digest(text)))  # the first of equals
    print(f"bits {zeros(digest(best))}\ntext {best}\nsha-256 {digest(best).hex()}")


main(sys.argv[1])
