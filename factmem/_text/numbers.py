"""Numbers in strings: what digits with marks between them can be, and what follows from them."""

import re
from collections.abc import Iterable
from datetime import date
from itertools import chain

from factmem.models._values import normalized

NUMBER = re.compile(r"\d+(?:[.,'\u066b\u066c]\d+)*")
_DURATION = re.compile(r"P(?:(\d+)Y)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
_SECONDS = (365 * 86_400, 86_400, 3_600, 60, 1)


def numbers_in(text: str) -> set[float]:
    found = NUMBER.findall(normalized("NFKC", text))
    return set(chain.from_iterable(map(readings, found)))


def readings(digits: str) -> set[float]:
    """Return what digits with marks between them can be: "1.500" is 1500 or 1.5, and 1 and 500."""
    parts = re.split(r"\D", digits[:40])
    found = {float(part) for part in parts} | {float("".join(parts))}
    return found | ({float(f"{parts[0]}.{parts[1]}")} if len(parts) == 2 else set())


def in_units(text: str) -> set[float]:
    """Return a duration of a typed value in each unit: "P14D" is two weeks."""
    parts = _DURATION.fullmatch(text)
    total = (
        sum(int(n or 0) * size for n, size in zip(parts.groups(), _SECONDS, strict=True))
        if parts
        else 0
    )
    return {total / size for size in (*_SECONDS, 7 * 86_400, 30 * 86_400)} if total else set()


def follows(number: float, known: Iterable[float], said: date) -> bool:
    """Whether a number is among known ones, or a multiple, an age, a year or an hour of one."""
    for each in known:
        if number == each or (each and number / each in (100, 1_000, 10_000, 1e6, 1e8, 1e9)):
            return True
        if number % 1 and each in (round(number * 100, 6), round(number * 1_000, 6)):
            return True  # a share of a percentage, metres of centimetres, kilograms of grams
        is_age = 1900 <= each <= 2100 and said.year - each - 1 <= number <= said.year - each
        is_year = 0 < each <= 120 and abs(said.year - each - number) <= 1
        if is_age or is_year or (1 <= each <= 11 and number == each + 12):
            return True
    return False
