"""The corpus of the recall benchmark matches its README."""

import json
import re
import unicodedata
from collections import defaultdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from benchmarks.recall.corpus.chats import read_chats
from factmem.recall._documents import value_words
from tests.tables import table

CORPUS = Path(__file__).parent.parent.parent / "benchmarks" / "recall" / "corpus"
PEOPLE = {"mara", "tobias", "서윤", "jiho", "nadia"}
NAMES = PEOPLE | {"seoyun", "지호", "나디아", "마라", "토비아스"}
KINDS = {"direct", "paraphrase", "cross-lingual", "date", "distractor", "no-name", "old-new"}
JSON_TYPES: dict[str, type] = {
    "str": str,
    "int": int,
    "date": str,
    "list": list,
    "object": dict,
}


def lines(name: str) -> list[dict[str, Any]]:
    text = (CORPUS / name).read_text(encoding="utf-8")
    assert text == unicodedata.normalize("NFC", text)
    return [json.loads(line) for line in text.splitlines()]


FACTS = lines("facts.jsonl")
QUESTIONS = lines("questions.jsonl")
UNANSWERABLE = lines("unanswerable.jsonl")
BY_ID = {fact["id"]: fact for fact in FACTS}


def values(fact: dict[str, Any]) -> list[Any]:
    """Return the values of a fact as a list."""
    return fact["values"] if fact["fact_type"] == "multiple" else [fact["value"]]


def test_ids_are_unique() -> None:
    """They are unique within each file, and no question repeats."""
    for rows in (FACTS, QUESTIONS, UNANSWERABLE):
        assert len({row["id"] for row in rows}) == len(rows)
    texts = [question["question"] for question in QUESTIONS + UNANSWERABLE]
    assert len(set(texts)) == len(texts)


@table("fact", FACTS, ids=lambda fact: fact["id"])
def test_a_fact_has_the_documented_fields(fact: dict[str, Any]) -> None:
    """It has every field of the README, and no other."""
    needed = {"id", "entity", "language", "keyword", "description", "fact_type", "timestamp"}
    moment = datetime.fromisoformat(fact["timestamp"])
    value_type = fact.get("value_type", "str")

    assert set(fact) - {"value_type", "quote"} == needed | {
        {"single": "value", "multiple": "values"}[fact["fact_type"]]
    }
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", fact["keyword"])
    assert moment.tzinfo is UTC
    assert 2022 <= moment.year <= 2026
    assert values(fact)
    assert all(
        type(value) is JSON_TYPES[value_type] and value_words(value) for value in values(fact)
    )
    if value_type == "date":
        assert date.fromisoformat(fact["value"]).isoformat() == fact["value"]
    assert fact["description"].strip()
    assert fact.get("quote", "a quote").strip()


def test_a_store_would_keep_all_facts() -> None:
    """No fact replaces or confirms another when the corpus is saved, so all can be recalled."""
    concepts = defaultdict(list)
    for fact in FACTS:
        concepts[fact["entity"], fact["keyword"]].append(fact)

    for same in concepts.values():
        assert len({(fact["description"], fact["fact_type"]) for fact in same}) == 1
        assert same[0]["fact_type"] == "multiple" or len(same) == 1
        written = [value_words(value) for fact in same for value in values(fact)]
        assert len(set(written)) == len(written)


@table("question", QUESTIONS, ids=lambda question: question["id"])
def test_a_question_has_its_answers(question: dict[str, Any]) -> None:
    """There are one to three existing facts; across languages only where marked."""
    right = [BY_ID[key] for key in question["facts"]]
    kinds = question["kinds"]

    assert set(question) == {"id", "language", "question", "facts", "kinds"}
    assert 1 <= len(set(question["facts"])) == len(right) <= 3
    assert set(kinds) <= KINDS
    assert len({"direct", "paraphrase"}.intersection(kinds)) == 1
    across = all(fact["language"] != question["language"] for fact in right)
    assert across is ("cross-lingual" in kinds)
    named = any(name in question["question"].casefold() for name in NAMES)
    assert named is ("no-name" not in kinds)


def test_the_chats_have_one_right_answer_each() -> None:
    """There are three languages, turns and groups; no answer repeats words of its question."""
    facts, questions, unanswerable = read_chats()
    by_id = {fact.id: fact for fact in facts}

    assert len(FACTS) + len(facts) >= 1_500
    assert len(QUESTIONS) + len(questions) >= 400
    assert len(by_id) == len(facts) == len({(f.entity, f.keyword, f.values) for f in facts})
    texts = [question.text for question in (*questions, *unanswerable)]
    assert len(set(texts)) == len(texts)
    assert {question.language for question in questions} == {"en", "ko", "de"}
    kinds = {kind for question in questions for kind in question.kinds}
    assert kinds == {"turns", "turns-group", "extracted", "extracted-group"}
    for question in questions:
        [right] = question.facts
        answer, chat = by_id[right], by_id[right].conversation
        said = [fact for fact in facts if fact.conversation == chat]
        assert answer.entity.casefold() in question.text.casefold()
        assert len({fact.message for fact in said}) == (1 if answer.message is None else len(said))
    for question in unanswerable:
        assert not question.facts
        there = {f.entity for f in facts if f.conversation == question.id.removeprefix("n-")}
        assert not any(name in question.text for name in there)
    assert read_chats()[0] == facts
