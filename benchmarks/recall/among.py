"""Recall by words in languages without rules: alone, and among many other texts.

    python -m benchmarks.recall.among [texts ...]

The sets are those of `letters`. Each language is a place of its own; then all texts of a set are in
one place with so many others in all, by default 6,000 and 30,000: scrambled lines, each of four
words that follow each other in the texts and five from nearby, so that most words of each text
occur many times. recall@3 is the share of questions whose text is among the first three.
"""

import random
import re
import sys
from collections.abc import Iterator, Sequence

import anyio

from benchmarks.recall.simple import LANGUAGES, Text, lines_of, recall

FIRST = 3
SETS = ("seen", "held_out", "later")
_LONG, _NEAR = 15, 2_000


def read(name: str) -> list[tuple[str, str, str]]:
    """Return the language, text and question of each line of a set."""
    return [(language, text, asked) for language, text, asked in lines_of("letters", name)]


def scrambled(texts: Sequence[str], seed: int = 3) -> Iterator[str]:
    """Yield lines of the words of some texts and of those in eight languages, without an end."""
    chance = random.Random(seed)
    known = [
        cell for name in LANGUAGES for line in lines_of("languages", name) for cell in line[1:3]
    ]
    pool = [
        word
        for text in (*texts, *(cell for cell in known if len(cell) > _LONG))
        for word in re.findall(r"[\w\u0300-\u036f\u0900-\u097f]+", text.casefold())
    ]
    while True:
        at = chance.randrange(len(pool) - 12)
        near = chance.sample(pool[max(0, at - _NEAR) : at + _NEAR], 5)
        yield " ".join(pool[at : at + 4] + near)


async def found(texts: Sequence[str], asked: Sequence[str]) -> int:
    """Return how many questions have their text, the one at the same place, among the first."""
    rank = await recall([Text("said", "", each) for each in texts], asked, None)
    return sum(at in rank(each)[:FIRST] for at, each in enumerate(asked))


async def measure(name: str, sizes: Sequence[int]) -> None:
    rows = read(name)
    asked, texts = [row[2] for row in rows], [row[1] for row in rows]
    alone = 0
    for language in dict.fromkeys(row[0] for row in rows):
        own = [row for row in rows if row[0] == language]
        alone += await found([row[1] for row in own], [row[2] for row in own])
    cells = [alone, await found(texts, asked)]
    for size in sizes:
        others = scrambled(texts)
        cells.append(
            await found([*texts, *(next(others) for _ in range(size - len(texts)))], asked)
        )
    print(f"{name:10}" + "".join(f"{cell / len(asked):12.3f}" for cell in cells), flush=True)


async def main() -> None:
    sizes = [*map(int, sys.argv[1:])] or [6_000, 30_000]
    heads = ("each", "one place", *(f"{size:,}" for size in sizes))
    print(f"{'recall@3':10}" + "".join(f"{head:>12}" for head in heads))
    for name in SETS:
        await measure(name, sizes)


if __name__ == "__main__":
    anyio.run(main)
