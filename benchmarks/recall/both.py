"""Recall over facts, over messages, and over both, in conversations of our own making.

    python -m benchmarks.recall.both            evidence within a number of tokens
    python -m benchmarks.recall.both weights    the weights of what tells an answer from chatter

[conversations/](conversations) has the chats of a nurse with an assistant and of two friends, all
in one place, with the facts that a detection would find (not all of it, and nothing that the
assistant said) and with questions in other words. Each question stands below the message that
answers it, with a word of the answer. A fact is evidence if it comes from that message and has that
word, a message if it is that message. `!name` and `?name` are messages and a question with several
answers.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from random import Random
from statistics import mean

import anyio

from factmem import (
    AgentMemory,
    Concept,
    FactSource,
    FactType,
    InMemoryProvider,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.models import AnyFact
from factmem.prompt.memory_message import value_text
from factmem.recall import RecallResult
from factmem.recall._search import WEIGHTS, Telling

FILES = sorted((Path(__file__).parent / "conversations").glob("*.txt"))
HOME = MemorySubject("household", "The people who share the assistant", 1)
PROFILE = MemoryScopesProfile(agent="bench")
BUDGETS = (400, 800, 2000)


Gold = tuple[str, int]
"""A conversation and the number of a message."""


@dataclass
class Question:
    """A question, the messages that answer it, and words of the answer."""

    text: str
    answer: str
    gold: set[Gold] = field(default_factory=set[Gold])


@dataclass
class Said:
    """A message with the facts that were detected in it."""

    at: datetime
    chat: str
    number: int
    message: dict[str, str]
    facts: list[AnyFact] = field(default_factory=list[AnyFact])


def read(path: Path) -> tuple[list[Said], list[Question]]:
    """Return the messages and the questions of a file."""
    said, questions, lists = list[Said](), list[Question](), dict[str, Question]()
    at, chat, number = datetime(2023, 1, 1, tzinfo=UTC), "", 0
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("@ "):
            _, day, name = line.split()
            at, chat, number = (
                datetime.fromisoformat(day).replace(tzinfo=UTC),
                f"{path.stem}/{name}",
                0,
            )
        elif line[:3] in (" = ", " + "):
            said[-1].facts.append(fact_of(line, said[-1]))
        elif line.startswith(" ?"):
            name, text, answer = re.fullmatch(r" \?(\w*) (.*) \| (.*)", line).groups()  # type: ignore[union-attr]
            question = Question(text, answer, {(chat, number - 1)})
            questions.append(question)
            if name:
                lists[name] = question
        elif line.startswith(" !"):
            lists[line[2:]].gold.add((chat, number - 1))
        elif line:
            name, text = line.split(": ", 1)
            role = {"a": "assistant"}.get(name, "user")
            message = {"role": role, "content": text}
            if name not in ("a", "u"):
                message["name"] = name
            said.append(Said(at + timedelta(minutes=number), chat, number, message))
            number += 1
    return said, questions


def fact_of(line: str, said: Said) -> AnyFact:
    """Return a detected fact, with the sentence that states it as its quote."""
    keyword, description, value = line[3:].split(" | ")
    sentences = re.split(r"(?<=[.!?])\s+", said.message["content"])
    words = set(re.findall(r"\w+", value.lower()))
    quote = max(sentences, key=lambda each: len(words & set(re.findall(r"\w+", each.lower()))))
    source = FactSource(SourceKind.USER, said.chat, said.number, quote)
    if line.startswith(" ="):
        single = Concept(keyword, description, FactType.SINGLE, value_type=str)
        return SingleFact(single, value, timestamp=said.at, source=source)
    several = Concept(keyword, description, FactType.MULTIPLE, value_type=str)
    return MultipleFacts(several, [value], timestamp=said.at, source=source)


async def memory_of(
    said: Sequence[Said], *, has_facts: bool = True, has_turns: bool = True
) -> AgentMemory:
    """Return a memory with the messages and the facts, all in one place."""
    end = max(each.at for each in said) + timedelta(days=1)
    memory = AgentMemory(InMemoryProvider(), scopes=PROFILE, subjects=[HOME], clock=lambda: end)
    place = memory.places[0]
    for each in sorted(said, key=lambda each: each.at):
        chat = memory.conversation(each.chat, learn=False)
        if has_turns:
            await chat.append(each.message, said_at=each.at)
        for fact in each.facts if has_facts else ():
            await memory.store.save(fact, place.subject, place.scope)
    return memory


# Evidence within a number of tokens


@dataclass
class Asked:
    """A question with what recall finds."""

    question: Question
    found: RecallResult

    def in_text(self, text: str) -> set[Gold]:
        """Return the messages whose evidence is in a text."""
        facts = {
            (str(fact.source.conversation), int(fact.source.message or 0))
            for fact in (match.fact for match in self.found)
            if fact.source is not None and self._is_shown(fact, text)
        }
        turns = {
            (turn.conversation, turn.turn.number)
            for turn in self.found.turns
            if f"- {turn.text} (" in text
        }
        return (facts | turns) & self.question.gold

    def _is_shown(self, fact: AnyFact, text: str) -> bool:
        concept, answer = fact.concept, self.question.answer
        value = ", ".join(map(str, fact.values))
        is_answer = re.search(
            answer, f"{concept.keyword} {concept.description} {value}", re.IGNORECASE
        )
        return is_answer is not None and f"- {value_text(value)} (" in text


async def evidence(
    kind: str, said: Sequence[Said], questions: Sequence[Question], tokens: int
) -> tuple[float, float]:
    """Return the share of questions with some, and with all of their evidence in a text.

    Args:
        kind: "facts", "turns" or "both".
        said: The messages with their facts.
        questions: The questions.
        tokens: The size of the text.
    """
    memory = await memory_of(said, has_facts=kind != "turns", has_turns=kind != "facts")
    both = await memory_of(said)
    some = every = 0
    for question in questions:
        asked = Asked(question, await both.recall(question.text, limit=1000))
        shown = asked.in_text(await memory.text(question.text, max_tokens=tokens))
        some += bool(shown)
        every += len(shown) == len(question.gold)
    return some / len(questions), every / len(questions)


# Weights of the features of messages

Features = dict[str, bool]
Scored = tuple[float, Features, bool]
"""The score of a message without features, its features, and whether it is the answer."""


async def scored(said: Sequence[Said], questions: Sequence[Question]) -> list[list[Scored]]:
    """Return the messages that are found for each question."""
    memory = await memory_of(said)
    rows = list[list[Scored]]()
    for question in questions:
        turns = (await memory.recall(question.text, limit=60)).turns
        telling = Telling(question.text, {match.turn.name for match in turns})
        row = list[Scored]()
        for match in turns:
            features = telling.features(match.quote, match.turn.name)
            plain = match.score / telling.factor(match.quote, match.turn.name)
            gold = (match.conversation, match.turn.number) in question.gold
            row.append((plain, features, gold))
        rows.append(row)
    return rows


def quality(rows: Sequence[Sequence[Scored]], weights: Mapping[str, float]) -> tuple[float, float]:
    """Return hit@5 and MRR of messages with some weights."""
    hits = ranks = 0.0
    for row in rows:
        ordered = sorted(row, key=lambda each: -each[0] * _factor(each[1], weights))
        golds = [at for at, (_, _, is_gold) in enumerate(ordered[:10], 1) if is_gold]
        hits += any(at <= 5 for at in golds)
        ranks += 1 / golds[0] if golds else 0
    return hits / len(rows), ranks / len(rows)


def _factor(features: Features, weights: Mapping[str, float]) -> float:
    return 1 + sum(weights.get(name, 0) for name, has in features.items() if has)


def fitted(rows: Sequence[Sequence[Scored]]) -> dict[str, float]:
    """Return the best weights, one feature after another, three times; small ones for ties."""
    weights = dict.fromkeys(WEIGHTS, 0.0)
    for _ in range(3):
        for name in weights:
            steps = [step / 5 for step in range(-2, 3)]
            best = {step: sum(quality(rows, {**weights, name: step})) for step in steps}
            weights[name] = max(steps, key=lambda step: (round(best[step], 6), -abs(step)))
    return weights


async def find_weights(said: Sequence[Said], questions: Sequence[Question]) -> None:
    """Print the weights that fit all questions, and their worth on held-out fifths."""
    rows = await scored(said, questions)
    Random(1).shuffle(rows)
    print("all:", fitted(rows), "hit@5 {:.3f}, MRR {:.3f}".format(*quality(rows, fitted(rows))))
    print("in use:", WEIGHTS, "hit@5 {:.3f}, MRR {:.3f}".format(*quality(rows, WEIGHTS)))
    plain, crossed = list[tuple[float, float]](), list[tuple[float, float]]()
    for part in range(5):
        test = rows[part::5]
        weights = fitted([row for at, row in enumerate(rows) if at % 5 != part])
        plain.append(quality(test, {}))
        crossed.append(quality(test, weights))
    for name, figures in (("without", plain), ("crossed", crossed)):
        hits, ranks = (mean(column) for column in zip(*figures, strict=True))
        print(f"{name}: hit@5 {hits:.3f}, MRR {ranks:.3f}")


def read_all() -> tuple[list[Said], list[Question]]:
    """Return all messages and questions."""
    said, questions = zip(*map(read, FILES), strict=True)
    return [*chain.from_iterable(said)], [*chain.from_iterable(questions)]


async def main() -> None:
    said, questions = read_all()
    if sys.argv[1:] == ["weights"]:
        await find_weights(said, questions)
        return
    facts = sum(len(each.facts) for each in said)
    print(f"{len(said)} messages, {facts} facts, {len(questions)} questions")
    print(f"tokens  {'           '.join(map(str, BUDGETS))}   (some evidence, all evidence)")
    for kind in ("facts", "turns", "both"):
        shares = [await evidence(kind, said, questions, tokens) for tokens in BUDGETS]
        print(
            f"{kind:8}{'   '.join(f'{some:.3f} {every:.3f}' for some, every in shares)}", flush=True
        )


if __name__ == "__main__":
    anyio.run(main)
