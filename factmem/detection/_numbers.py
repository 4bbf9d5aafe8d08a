"""Numbers and dates in text, in digits and words, and whether one follows from a message."""

import re
from collections.abc import Iterable
from datetime import date

from factmem.models._spoken_time import spoken_times
from factmem.models._text import normalized
from factmem.models._written_dates import dates_in, shifted

_DIGITS = re.compile(r"\d+(?:[,\u066b.']\d+)*")
_UNITS, _TENS, _GERMAN, _GERMAN_TENS = map(str.split, (
    ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"),
    "twenty thirty forty fifty sixty seventy eighty ninety",
    ("null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn "
    "sechzehn siebzehn achtzehn neunzehn"),
    "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
))  # fmt: skip
_KOREAN = ["한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉"]
_KOREAN_TENS = ["열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔"]

_SPELT: dict[str, float] = {
    **{word: number for number, word in enumerate(_UNITS)},
    **{word: 10 * number for number, word in enumerate(_TENS, 2)},
    **{
        f"{tens}{unit}": 10 * ten + one
        for ten, tens in enumerate(_TENS, 2)
        for one, unit in enumerate(_UNITS[1:10], 1)
    },
    **{word: number for number, word in enumerate(_GERMAN)},
    **{word: 10 * number for number, word in enumerate(_GERMAN_TENS, 2)},
    **{
        f"{unit}und{tens}": 10 * ten + one
        for ten, tens in enumerate(_GERMAN_TENS, 2)
        for one, unit in enumerate(_GERMAN[1:10], 1)
    },
}
_WORDS = {word.casefold(): number for word, number in _SPELT.items()}
_SPLIT_TENS = re.compile(rf"\b({'|'.join(_TENS)})[ -]({'|'.join(_UNITS[1:10])})\b")
_KOREAN_NUMBER = re.compile(
    rf"({'|'.join(_KOREAN_TENS)})?(하나|둘|셋|넷|{'|'.join(_KOREAN)}|스무)?"
)
_KOREAN_VALUES = {word: number for number, word in enumerate(_KOREAN, 1)} | {
    "하나": 1, "둘": 2, "셋": 3, "넷": 4, "스무": 20,
}  # fmt: skip
_SINO = "일이삼사오육칠팔구"
_HAN = "一二三四五六七八九"
_SINO_NUMBER = re.compile(rf"[{_SINO}{_HAN}两십백천만十百千万]+")
_SINO_POWERS = {"십": 10, "백": 100, "천": 1000, "十": 10, "百": 100, "千": 1000}


def years_in(text: str) -> set[int]:
    """Return the years in a string."""
    return {each.year for each in dates_in(text)[0] if each.year is not None}


def numbers_in(text: str) -> set[float]:
    """Return the numbers in a string, in the digits of any script or in words.

    Words are read in English, German, Korean and Chinese.
    """
    plain = normalized("NFKC", text).casefold()
    found: set[float] = set()
    for match in _DIGITS.finditer(plain):
        found |= _readings(match.group()[:40])
    for match in _SPLIT_TENS.finditer(plain):
        found.add(_WORDS[match.group(1)] + _WORDS[match.group(2)])
    for word in re.findall(r"[^\W\d_]+", plain):
        if word in _WORDS:
            found.add(_WORDS[word])
    for match in _KOREAN_NUMBER.finditer(plain):
        if match.group():
            tens = _KOREAN_TENS.index(match.group(1)) + 1 if match.group(1) else 0
            found.add(10 * tens + _KOREAN_VALUES.get(match.group(2) or "", 0))
    found |= {_sino(match.group()[:20]) for match in _SINO_NUMBER.finditer(plain)}
    return found


def written_numbers(text: str) -> list[set[float]]:
    """Return the possible readings of each number in digits: "1.500" is 1500 or 1.5.

    The minutes of a full hour are left out.
    """
    plain = re.sub(r"(\d{1,2})[:h]00(?!\d)", r"\1", normalized("NFKC", text))
    found: list[set[float]] = []
    for match in _DIGITS.finditer(plain):
        parts = re.split(r"\D", match.group()[:40])
        readings = {float("".join(parts))}
        if len(parts) == 2:
            readings.add(float(f"{parts[0]}.{parts[1]}"))
        found.append(readings)
    return found


def follows(number: float, numbers: Iterable[float], said: date) -> bool:
    """Whether a number is among those of a message, or can be counted from one of them.

    An age and a year of birth follow from each other, a year from "12 years ago", and "19" from
    "7 pm".
    """
    if number == 1:
        return True
    for each in numbers:
        if number == each:
            return True
        is_age = 1900 <= each <= 2100 and said.year - each - 1 <= number <= said.year - each
        is_year = 0 < each <= 120 and abs(said.year - each - number) <= 1
        if is_age or is_year or (1 <= each <= 11 and number == each + 12):
            return True
    return False


_VAGUE = [
    (re.compile(pattern), first, last)
    for pattern, first, last in (
        (r"\b(?:recently|lately|just|the other day)\b|최근|얼마 전|neulich|kürzlich", -62, 0),
        (r"\b(?:soon|later)\b|곧|bald", 0, 400),
        (r"\b(?:few|some|several|einigen) (?:of )?(?:day|week|month|tag|woche|monat)|며칠|몇 ?(?:주|달)", -200, 200),
        (r"week-?end|주말|wochenende|周末", -9, 9),
        (r"\b(?:christmas|easter)\b|추석|설날|weihnachten|ostern|봄|여름|가을|겨울", -400, 400),
    )
]  # fmt: skip
"""Words about time that name no day, and the first and last day that they can mean, counted from
that of the message."""
_SLACK = {"year": 366, "month": 31, "week": 7}
"""The days by which a time can miss what is meant: only a date outside of it raises a doubt."""


def counted_days(text: str, said: date) -> list[tuple[date, date]]:
    """Return the spans of days that the words about time in a message can mean.

    "yesterday" is one day, "last week" the two weeks before, "on Friday" the Fridays around.
    """
    spans: list[tuple[date, date]] = []
    for each in spoken_times(text, said):
        slack = _SLACK.get(each.unit, 0 if each.first == each.last else 7)
        spans.append((shifted(each.first, -slack), shifted(each.last, slack)))
    plain = normalized("NFKC", text[:20_000]).casefold()
    for pattern, first, last in _VAGUE:
        if pattern.search(plain):
            spans.append((shifted(said, first), shifted(said, last)))
    return spans


def _readings(digits: str) -> set[float]:
    """Return what digits with marks between them can be: "1.500" is 1500 or 1.5, and 1 and 500."""
    parts = re.split(r"\D", digits)
    found = {float(part) for part in parts}
    found.add(float("".join(parts)))
    if len(parts) == 2:
        found.add(float(f"{parts[0]}.{parts[1]}"))
    return found


def _sino(digits: str) -> float:
    """Return a number in Korean or Chinese numerals, such as "삼십육"."""
    total, section, digit = 0, 0, 0
    for char in digits:
        if char in "만万":
            total, section, digit = total + (section + digit or 1) * 10_000, 0, 0
        elif char in _SINO_POWERS:
            section, digit = section + (digit or 1) * _SINO_POWERS[char], 0
        else:
            one = 2 if char == "两" else (_SINO.find(char) + 1 or _HAN.find(char) + 1)
            digit = digit * 10 + one
    return float(total + section + digit)
