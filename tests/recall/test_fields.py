"""The indexed fields of a fact: dates in words, values of any shape."""

from datetime import UTC, date, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from factmem.models.facts import (
    Concept,
    FactSource,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.recall._documents import FIELD_WEIGHTS, date_words, value_words, words_of
from tests.recall.lexical_index import LexicalIndex
from tests.tables import table

PET = Concept("pet", "An animal", FactType.MULTIPLE)
MAY = datetime(2023, 5, 7, 23, 30, tzinfo=UTC)


def test_a_day_in_words() -> None:
    """English, ISO 8601 and Korean have no leading zeros, except ISO."""
    assert date_words(MAY) == "7 May 2023 2023-05-07 2023년 5월 7일"
    assert date_words(date(2026, 12, 31)) == "31 December 2026 2026-12-31 2026년 12월 31일"


def test_a_day_depends_on_the_time_zone() -> None:
    """Half past eleven at night in UTC is the next morning in Seoul."""
    seoul = MAY.astimezone(timezone(timedelta(hours=9)))

    assert date_words(seoul).startswith("8 May 2023")


@table(
    "question",
    [
        "What happened in May 2023?",
        "on 7 May",
        "2023-05-07",
        "2023년 5월에 무슨 일이 있었어?",
        "5월 7일",
        "2023年5月に何があった?",
        "2023年5月7日发生了什么",
    ],
)
def test_date_questions_find_the_day(question: str) -> None:
    """For every spelling, the day's own fact ranks before those of another month or year."""
    index: LexicalIndex[str] = LexicalIndex(weights=FIELD_WEIGHTS)
    days = {"right": MAY, "month": MAY.replace(month=7), "year": MAY.replace(year=2024, day=5)}
    for name, moment in days.items():
        fact = SingleFact(Concept("trip", "A trip"), "x", timestamp=moment)
        index.add(name, words_of(fact, None))

    assert index.search(question)[0].id == "right"


@table(
    ("value", "words"),
    [
        ("Kotlin", "Kotlin"),
        (18, "18"),
        (4.35, "4.35"),
        (True, "true"),
        (None, ""),
        (["red", ["blue"]], "red blue"),
        ({"bank": "Aire", "rates": [1, {"from": 2}]}, "bank Aire rates 1 from 2"),
        (date(2024, 2, 1), "2024-02-01 1 February 2024 2024-02-01 2024년 2월 1일"),
        ("2024-02-01", "2024-02-01 1 February 2024 2024-02-01 2024년 2월 1일"),
        ("2024-02-01T10:00:00Z", "2024-02-01T10:00:00Z " + date_words(date(2024, 2, 1))),
        ("2024-02-31", "2024-02-31"),
        ("2024-02-01, perhaps", "2024-02-01, perhaps"),
    ],
)
def test_values_become_words(value: object, words: str) -> None:
    """Keys, members and scalars keep their order; a day is also written out."""
    assert value_words(value) == words


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=8,
    )
)
def test_any_json_becomes_words(value: object) -> None:
    assert isinstance(value_words(value), str)


def test_deep_values_are_indexed() -> None:
    """A list in a list, a hundred thousand times, is walked and not recursed into."""
    value: object = "bottom"
    for _ in range(100_000):
        value = [value]

    assert value_words(value) == "bottom"


def test_the_parts_of_a_fact() -> None:
    """A missing part has no field."""
    source = FactSource(SourceKind.USER, quote="my cat")
    fact = MultipleFacts(PET, ["Biscuit", "3"], timestamp=MAY, source=source)
    whole = words_of(fact, "mara")

    assert whole == {
        "keyword": "pet",
        "description": "An animal",
        "value": "Biscuit\n3",
        "date": date_words(MAY),
        "entity": "mara",
        "quote": "my cat",
    }
    bare = words_of(MultipleFacts(PET, ["x"], timestamp=MAY), None)
    assert set(whole) - set(bare) == {"entity", "quote"}
    assert set(FIELD_WEIGHTS) <= set(whole)
