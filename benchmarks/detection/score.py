"""The scorer of the detection benchmark: compares saved facts with a dialogue's gold facts."""

import json
import unicodedata
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.detection.dialogue import HERE, SCOPE, USER, Dialogue
from factmem import Concept, InMemoryProvider
from factmem.detection import DetectionReport, RejectionReason
from factmem.models.facts import FactType

_SETTLED = {RejectionReason.DUPLICATE, RejectionReason.SUPERSEDED}


@dataclass
class Score:
    """Counts over dialogues; add two to sum them."""

    items: int = 0
    """Values that were saved or confirmed."""
    right: int = 0
    """Saved or confirmed values that state a gold fact."""
    gold: int = 0
    """Gold facts, without the optional ones."""
    found: int = 0
    """Gold facts that a value states."""
    datable: int = 0
    """Found gold facts that have a date."""
    dated: int = 0
    leaks: int = 0
    """Values with words that must not become facts: jokes, other people, pages, secrets."""
    ungrounded: int = 0
    """Values whose quote is not in the message that their source names."""
    stale: int = 0
    """Old values that are still current."""
    right_refused: int = 0
    right_flagged: int = 0
    flagged: int = 0

    def __add__(self, other: "Score") -> "Score":
        return Score(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def precision(self) -> float:
        """The share of values that are right."""
        return self.right / max(self.items, 1)

    @property
    def recall(self) -> float:
        """The share of gold facts that were found."""
        return self.found / max(self.gold, 1)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.precision * self.recall / max(self.precision + self.recall, 1e-9)


def gold_of(dialogue: Dialogue) -> dict[str, Any]:
    """Return the gold facts of a dialogue."""
    path: Path = HERE / "gold" / f"{dialogue.name}.json"
    gold: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return gold


async def score(dialogue: Dialogue, report: DetectionReport, store: InMemoryProvider) -> Score:
    """Return the score of one dialogue."""
    gold = gold_of(dialogue)
    facts, result = gold["facts"], Score()
    flagged = {id(each): each for each in report.doubtful}.values()
    texts: list[str] = []
    for placed in (*report.saved, *report.superseded, *report.confirmed):
        for value in placed.fact.values:
            text = _plain(f"{placed.fact.concept.keyword} {value}")
            texts.append(text)
            result.right += any(_states(text, fact) for fact in facts)
            result.leaks += any(leak in text for leak in map(_plain, gold["leaks"]))
            source = placed.fact.source
            said = dialogue.messages[source.message or 0]["content"] if source else ""
            grounds = said if isinstance(said, str) else "".join(part["text"] for part in said[:1])
            result.ungrounded += source is None or _letters(source.quote or "?") not in _letters(
                grounds
            )
    result.items = len(texts)
    for fact in facts:
        stating = [text for text in texts if _states(text, fact)]
        is_counted = not fact.get("optional")
        result.gold += is_counted
        result.found += is_counted and bool(stating)
        if "date" in fact and stating:
            result.datable += 1
            result.dated += any(_plain(d) in text for d in fact["date"] for text in stating)
    for each in flagged:
        text = _plain(f"{each.concept.keyword} {each.value}")
        result.flagged += 1
        result.right_flagged += each.is_retraction or any(_states(text, fact) for fact in facts)
    for rejected in report.rejected:
        item = rejected.item if isinstance(rejected.item, dict) else {}
        text = _plain(f"{item.get('keyword')} {item.get('value')}")
        is_right = any(_states(text, fact) for fact in facts)
        result.right_refused += is_right and rejected.reason not in _SETTLED
    for keyword, value in gold.get("gone", []):
        known = await store.load(
            Concept(keyword, "", FactType.MULTIPLE), USER.of(dialogue.entity), SCOPE
        )
        result.stale += any(value in fact.values for fact in known)
    return result


def _states(text: str, fact: dict[str, Any]) -> bool:
    return all(any(_plain(each) in text for each in group) for group in fact["needs"])


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _letters(text: str) -> str:
    return "".join(char for char in _plain(text) if char.isalnum())
