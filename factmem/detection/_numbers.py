"""Numbers and dates in text, in digits and words, and whether one follows from a message."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from factmem.models._text import normalized

__all__ = [
    "WrittenDate",
    "counted_days",
    "dates_in",
    "follows",
    "numbers_in",
    "written_numbers",
    "years_in",
]


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

_MONTH_NAMES = (
    ("jan", "january", "januar", "jänner"), ("feb", "february", "februar"),
    ("mar", "march", "märz"), ("apr", "april"), ("may", "mai"), ("jun", "june", "juni"),
    ("jul", "july", "juli"), ("aug", "august"), ("sep", "sept", "september"),
    ("oct", "october", "oktober", "okt"), ("nov", "november"), ("dec", "december", "dezember",
    "dez"),
)  # fmt: skip
_MONTHS = {name: month for month, names in enumerate(_MONTH_NAMES, 1) for name in names}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_WEEKDAYS = {
    word: day
    for day, words in enumerate(
        ("monday montag 월요일 星期一 月曜", "tuesday dienstag 화요일 星期二 火曜",
         "wednesday mittwoch 수요일 星期三 水曜", "thursday donnerstag 목요일 星期四 木曜",
         "friday freitag 금요일 星期五 金曜", "saturday samstag 토요일 星期六 土曜",
         "sunday sonntag 일요일 星期天 日曜")
    )
    for word in words.split()
}  # fmt: skip

_DATES = (
    re.compile(r"(?<!\d)(?P<y>(?:19|20)\d\d)[-/.](?P<m>\d{1,2})(?:[-/.](?P<d>\d{1,2}))?(?!\d)"),
    re.compile(r"(?<!\d)(?P<y>(?:19|20)\d\d)[年년]\s*(?P<m>\d{1,2})[月월](?:\s*(?P<d>\d{1,2})[日일])?"),
    re.compile(r"(?<!\d)(?P<m>\d{1,2})[月월]\s*(?P<d>\d{1,2})[日일]"),
    re.compile(r"(?<!\d)(?P<d>\d{1,2})\.\s?(?P<m>\d{1,2})\.(?P<y>(?:19|20)\d\d)"),
    re.compile(
        rf"(?<!\d)(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\.?\s+(?:of\s+)?(?P<n>{_MONTH})\b\.?,?"
        r"(?:\s+(?P<y>(?:19|20)\d\d))?", re.IGNORECASE,
    ),
    re.compile(
        rf"\b(?P<n>{_MONTH})\b\.?\s+(?P<d>\d{{1,2}})(?!\d)(?:st|nd|rd|th)?,?"
        r"(?:\s+(?P<y>(?:19|20)\d\d))?", re.IGNORECASE,
    ),
    re.compile(rf"\b(?P<n>{_MONTH})\b\.?,?\s+(?P<y>(?:19|20)\d\d)", re.IGNORECASE),
    re.compile(r"(?<![\d.,])(?P<y>(?:19|20)\d\d)(?![\d,]|\.\d)"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WrittenDate:
    """A written date: a day, a month, a year, or a day without its year."""

    year: int | None
    month: int | None = None
    day: int | None = None

    def span(self, year: int) -> tuple[date, date] | None:
        """Return the first and the last day, in `year` if it has none of its own."""
        try:
            first = date(self.year or year, self.month or 1, self.day or 1)
        except ValueError:
            return None
        if self.day is not None:
            return first, first
        if self.month is not None:
            after = date(first.year + first.month // 12, first.month % 12 + 1, 1)
            return first, after - timedelta(1)
        return first, date(first.year, 12, 31)


def dates_in(text: str) -> tuple[list[WrittenDate], str]:
    """Return the dates in a string, and the string without them."""
    found: list[WrittenDate] = []
    rest = normalized("NFKC", text)
    for pattern in _DATES:

        def taken(match: re.Match[str]) -> str:
            given = match.groupdict()
            name = given.get("n")
            month = _MONTHS[name.lower()] if name else _int(given.get("m"))
            found.append(WrittenDate(_int(given.get("y")), month, _int(given.get("d"))))
            return " "

        rest = pattern.sub(taken, rest)
    return found, rest


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


_RELATIVE: tuple[tuple[str, int, int], ...] = (
    (r"(?<!before )yesterday|last night|어제|gestern|昨天|昨日", -1, -1),
    (r"day before yesterday|그저께|그제|vorgestern|前天", -2, -2),
    (r"(?<!after )tomorrow|내일|(?<!guten )\bmorgen|明天|明日", 1, 1),
    (r"day after tomorrow|모레|übermorgen|后天", 2, 2),
    (r"last week\b|지난\s?주|letzte[nr]? woche|上周|先週", -14, -1),
    (r"next week\b|다음\s?주|nächste[nr]? woche|下周|来週", 1, 14),
    (r"this week\b|이번\s?주|diese[rn]? woche|这周|今週", -7, 7),
    (r"week-?end|주말|wochenende|周末", -9, 9),
    (r"last month|지난\s?달|letzten monat|上个月|先月", -62, 0),
    (r"next month|다음\s?달|nächsten monat|下个月|来月", 0, 62),
    (r"this month|이번\s?달|diesen monat|这个月|今月", -31, 31),
    (r"last year|작년|지난해|letztes jahr|去年", -731, 0),
    (r"next year|내년|nächstes jahr|明年|来年", 0, 731),
    (r"this year|올해|dieses jahr|今年", -366, 366),
    (r"\b(?:spring|summer|autumn|fall|winter|christmas|easter)\b|봄|여름|가을|겨울", -400, 400),
    (r"추석|설날|frühling|sommer|herbst|weihnachten|ostern", -400, 400),
    (r"\b(?:recently|lately|just|the other day)\b|최근|얼마 전|neulich|kürzlich", -62, 0),
    (r"\b(?:soon|later)\b|곧|bald", 0, 400),
)  # fmt: skip
"""Words about time, and the first and last day that they can mean, from the day of the message on.

The spans are wide, as only a date outside of them raises a doubt.
"""
_RELATIVES = [(re.compile(pattern), first, last) for pattern, first, last in _RELATIVE]
_COUNT = r"(\d{1,3}|[^\W\d_]{1,14}?)"
_LENGTHS = {"day": 1, "tag": 1, "일": 1, "天": 1, "week": 7, "woch": 7, "주": 7, "周": 7,
            "month": 31, "monat": 31, "달": 31, "개월": 31, "year": 366, "jahr": 366, "년": 366,
            "年": 366}  # fmt: skip
_AGO = (  # the pattern of a number and a unit, and the direction
    (re.compile(rf"\b{_COUNT} (?:of )?(day|week|month|year)s? ago"), -1),
    (re.compile(rf"\b(?:in|within|for) {_COUNT} (?:more )?(day|week|month|year)s?"), 1),
    (re.compile(rf"\b(?:since|for|past|last) (?:the )?(?:past |last )?{_COUNT} (day|week|month|year)s?"), -1),
    (re.compile(rf"\bvor {_COUNT} (tag|woch|monat|jahr)"), -1),
    (re.compile(rf"\bin {_COUNT} (tag|woch|monat|jahr)"), 1),
    (re.compile(rf"{_COUNT}\s?(일|주|달|개월|년)\s?(?:일|간)?\s?전"), -1),
    (re.compile(rf"{_COUNT}\s?(일|주|달|개월|년)\s?(?:일|간)?\s?(?:후|뒤|있으면)"), 1),
)  # fmt: skip


def counted_days(text: str, said: date) -> list[tuple[date, date]]:
    """Return the spans of days that the words about time in a message can mean.

    "yesterday" is one day, "last week" the two weeks before, "on Friday" the Fridays around.
    """
    plain = normalized("NFKC", text[:20_000]).casefold()
    spans = [
        (_shifted(said, first), _shifted(said, last))
        for pattern, first, last in _RELATIVES
        if pattern.search(plain)
    ]
    for pattern, sign in _AGO:
        for match in pattern.finditer(plain):
            counts = numbers_in(match.group(1)) or {2.0, 3.0, 5.0}  # "a few weeks ago"
            length = _LENGTHS[match.group(2)]
            near = [sign * int(min(number, 200)) * length for number in counts]
            slack = 0 if length == 1 else length
            spans.append((_shifted(said, min(near) - slack), _shifted(said, max(near) + slack)))
    for word, weekday in _WEEKDAYS.items():
        if word in plain:
            start = _shifted(said, -14)
            days = [_shifted(start, offset) for offset in range(29)]
            spans += [(day, day) for day in days if day.weekday() == weekday]
    for word in set(re.findall(rf"\b(?:{_MONTH})\b", plain)):
        for year in (said.year - 1, said.year, said.year + 1):
            if (span := WrittenDate(year, _MONTHS[word]).span(year)) is not None:
                spans.append(span)
    return spans


def _shifted(day: date, days: int) -> date:
    try:
        return day + timedelta(days)
    except OverflowError:
        return day


def _int(text: str | None) -> int | None:
    return int(text) if text else None


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
