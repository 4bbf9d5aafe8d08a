"""Scores of an answer: the words it shares with the right one, and the word of a judge."""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from benchmarks.recall.public_sets import Asked
from factmem import ChatModel

__all__ = ["JUDGE", "READER", "UNKNOWN", "Verdict", "judged", "words_in_common"]

UNKNOWN = "I do not know"

READER = f"""Answer the question from the memory below, in as few words as possible. If the memory \
does not tell, answer exactly: {UNKNOWN}"""
"""The instructions of the reader."""

JUDGE = """Decide whether an answer to a question is right.
- "right": it states what the right answer states. Other words, other forms of a date and more \
detail are fine.
- "wrong": it states something else, is too vague to be checked, or leaves out a part of the right \
answer.
- "unknown": it says that it does not know.
Judge only by the right answer, not by what you know."""
"""The instructions of the judge."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a judge."""

    verdict: Literal["right", "wrong", "unknown"]


async def judged(judge: ChatModel, asked: Asked, answer: str) -> str:
    """Return the judge's verdict on an answer."""
    right = asked.answer if asked.has_answer else "The conversation does not tell."
    words = f"Question: {asked.text}\nRight answer: {right}\nAnswer: {answer}"
    found = await judge.extract(
        [{"role": "system", "content": JUDGE}, {"role": "user", "content": words}], Verdict
    )
    return found.value.verdict


def words_in_common(answer: str, right: str) -> float:
    """Return the F1 of the words of two answers, without case, punctuation and English articles.

    It is the measure of SQuAD (Rajpurkar et al., EMNLP 2016): it needs no judge, and is low for an
    answer in other words.
    """
    one, two = _words(answer), _words(right)
    common = (one & two).total()
    if not one or not two or not common:
        return float(one == two)
    precision, recall = common / one.total(), common / two.total()
    return 2 * precision * recall / (precision + recall)


def _words(text: str) -> Counter[str]:
    found = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    return Counter(word for word in found if word not in {"a", "an", "the"})
