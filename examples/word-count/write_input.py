"""Writes the text that word-count counts: sentences about a harbour, by a small generator with a seed.

Usage: write_input.py > input.txt
"""

import sys

SEED, BYTES = 20090103, 60_000

PEOPLE = """captain pilot sailor fisherman widow clerk painter baker keeper carpenter harbourmaster
teacher traveller musician printer smith merchant doctor child stranger""".split()
THINGS = """boat lantern letter chart rope barrel bell compass anchor ledger net window door key coat
coin map engine table wheel mast sail bottle drum kettle ladder mirror candle basket hammer""".split()
PLACES = """harbour market tower bridge island quay tavern chapel lighthouse square river hill garden
station library workshop mill shore cellar courtyard""".split()
QUALITIES = """old young quiet bright broken heavy small green silver distant cold warm patient curious
golden narrow careful hungry early late empty steady blue grey""".split()
ACTS = """carried found painted watched repaired sold lost remembered opened counted followed measured
hid drew bought lifted borrowed kept cleaned named""".split()
MOVES = """walked sailed waited slept returned looked wandered worked listened stood climbed hurried sang
""".split()
TIMES = """in the morning|after the storm|before the tide turned|at dusk|on the third day|during the winter
|when the fog lifted|by the light of the moon|while the town slept|once a year""".replace("\n", "").split("|")
JOINTS = "and,but,so,because,although,while,until".split(",")


def numbers(seed):
    """A linear congruential generator; its high bits are good enough for prose."""
    state = seed
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33


DRAWS = numbers(SEED)


def pick(words):
    """Earlier words are more frequent, as in speech."""
    return words[min(next(DRAWS), next(DRAWS)) * len(words) >> 31]


def noun(words):
    return f"{pick(QUALITIES)} {pick(words)}" if next(DRAWS) % 3 == 0 else pick(words)


def clause():
    subject = f"the {noun(PEOPLE)}"
    form = next(DRAWS) % 4
    if form == 0:
        return f"{subject} {pick(MOVES)} to the {noun(PLACES)}"
    if form == 1:
        return f"{subject} {pick(ACTS)} the {noun(THINGS)} of the {pick(PEOPLE)}"
    if form == 2:
        return f"{subject} {pick(ACTS)} a {noun(THINGS)} near the {noun(PLACES)}"
    return f"{subject} {pick(MOVES)} {pick(TIMES)}"


def sentence():
    text = clause()
    if next(DRAWS) % 2:
        text = f"{text}, {pick(JOINTS)} {clause()}"
    elif next(DRAWS) % 2:
        text = f"{pick(TIMES)} {text}"
    return text[0].upper() + text[1:] + "."


def main():
    text = ""
    while len(text) < BYTES:
        text += " ".join(sentence() for _ in range(3 + next(DRAWS) % 4)) + "\n\n"
    text = text[:BYTES]
    sys.stdout.write(text[: text.rindex(".") + 1] + "\n")


main()
