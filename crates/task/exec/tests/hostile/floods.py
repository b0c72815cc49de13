"""More output than anybody asked for."""

import os

CHUNK = b"x" * 65536


def stdout():
    while True:
        os.write(1, CHUNK)


def stderr():
    while True:
        os.write(2, CHUNK)


def both():
    while True:
        os.write(1, CHUNK)
        os.write(2, CHUNK)


def lines():
    while True:
        os.write(1, b"\n" * 4096)


def terminal_codes():
    """What would move the cursor, set the title, or answer for the user."""
    while True:
        os.write(2, b"\x1b]0;owned\x07\x1b[2J\x1b[6n" * 1000)
