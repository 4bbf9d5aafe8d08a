"""Numbers of declared types: a type does not prove what the quote does not say."""

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from factmem.detection.report import Doubt
from factmem.models.facts import Concept, FactType
from tests.detection.judging import judge
from tests.tables import table


class Flat(BaseModel):
    city: str
    rent: int


# message, type, value as the model writes it, what the quote leaves out
WRONG: list[tuple[str, Any, Any, str]] = [
    ("My budget is 100", int, 900, ""),
    ("My budget is 100", int, 1000, ""),
    ("My budget is 100", int, 2000, ""),
    ("My budget is 100", float, 900.0, ""),
    ("My budget is 100", float, 100.5, ""),
    ("My budget is 100", Decimal, "900", ""),
    ("My budget is 100", int | None, 900, ""),
    ("My budget is 100", int, "900", ""),
    ("My budget is 100", int, 900, " 100"),
    ("In 2024 my budget is 100", float, 900.0, ""),
    ("I have 3 dogs", int, 36, ""),
    ("I was born in May 1990", int, 99, ""),
    ("I was born on 3 May 1990", date, "1999-05-03", ""),
    ("Ich habe 2 Kinder", int, 5, ""),
    ("저는 고양이가 3마리 있어요", int, 8, ""),
    ("I bike 45 minutes to work", timedelta, "PT900M", ""),
    ("I pay 800 for a flat in Rome", Flat, {"city": "Rome", "rent": 1800}, ""),
]
RIGHT: list[tuple[str, Any, Any, str]] = [
    ("My budget is 100", int, 100, ""),
    ("My budget is 100", float, 100.0, ""),
    ("My budget is 100", int, "100", ""),
    ("My budget is 1,500.50", float, 1500.5, ""),
    ("My budget is 85k", int, 85_000, ""),
    ("My budget is 2 million", int, 2_000_000, ""),
    ("I have three dogs", int, 3, ""),
    ("Ich habe drei Hunde", int, 3, ""),
    ("강아지가 세 마리 있어요", int, 3, ""),
    ("I was born in May 1990", int, 34, ""),
    ("I was born in May 1990", int, 33, ""),
    ("I turn 30 this year", int, 1994, ""),
    ("I have worked there for 5 years", int, 2019, ""),
    ("I was born on 3 May 1990", date, "1990-05-03", ""),
    ("I fly in 3 days", date, "2024-05-15", ""),
    ("I am 185 cm tall", float, 1.85, ""),
    ("I save 30% of it", float, 0.3, ""),
    ("I take 2 weeks off", timedelta, "P14D", ""),
    ("I bike 90 minutes to work", timedelta, "PT1H30M", ""),
    ("Yes, I have a car", bool, True, ""),
    ("I pay 800 for a flat in Rome", Flat, {"city": "Rome", "rent": 800}, ""),
]


@table(
    ("said", "value_type", "value", "cut", "is_right"),
    [*((*case, False) for case in WRONG), *((*case, True) for case in RIGHT)],
)
def test_a_number_must_follow_from_its_quote(
    said: str, value_type: Any, value: Any, cut: str, is_right: bool
) -> None:
    """A declared type must not weaken what an undeclared keyword owes."""
    concept = Concept("amount", "A number of the user", FactType.SINGLE, value_type=value_type)
    item = {"quote": said.removesuffix(cut), "keyword": "amount", "value": value}

    report = judge(said, {**item, "said_as": "stated"}, declared=[concept])

    assert not report.rejected
    assert [doubtful.doubts for doubtful in report.doubtful] == (
        [] if is_right else [(Doubt.NUMBER,)]
    )
