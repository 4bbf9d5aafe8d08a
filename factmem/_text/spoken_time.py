"""Times as people say them: dates, months, seasons, "last week", "3년 전부터", relative to a day.

`spoken_times` finds them, each with the days that it can mean and its role: the begin of something
("since May"), its end ("until May"), or neither ("in May"). English and Korean are read in full;
dates and names of months also in German, Chinese and Japanese. `dates_in` finds written dates only.

`stated_period` returns from when and until when a value holds, as far as its sentence says so: the
times of an item are compared with those that are spoken in its sentence, and with its numbers.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from factmem._text.spelling import has_unspaced_script, is_english_or_german, numbers_in
from factmem.models._values import normalized
from factmem.models.when import When

_MONTH_NAMES = (
    ("jan", "january", "januar", "jänner"), ("feb", "february", "februar"),
    ("mar", "march", "märz"), ("apr", "april"), ("may", "mai"), ("jun", "june", "juni"),
    ("jul", "july", "juli"), ("aug", "august"), ("sep", "sept", "september"),
    ("oct", "october", "oktober", "okt"), ("nov", "november"), ("dec", "december", "dezember",
    "dez"),
)  # fmt: skip
MONTHS = {name: month for month, names in enumerate(_MONTH_NAMES, 1) for name in names}
"""The number of each month's name in English and German."""
MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
"""A pattern of these names."""
YEAR = r"(?:19|20)\d\d"

_PATTERNS = (
    rf"(?<!\d)(?P<y>{YEAR})[-/.](?P<m>\d{{1,2}})(?:[-/.](?P<d>\d{{1,2}}))?(?!\d)",
    rf"(?<!\d)(?P<y>{YEAR})[年년]\s*(?P<m>\d{{1,2}})[月월](?:\s*(?P<d>\d{{1,2}})[日일])?",
    r"(?<!\d)(?P<m>\d{1,2})[月월]\s*(?P<d>\d{1,2})[日일]",
    rf"(?<!\d)(?P<d>\d{{1,2}})\.\s?(?P<m>\d{{1,2}})\.(?P<y>{YEAR})",
    (
        r"(?<!\d)(?P<d>\d{1,2})(?:st|nd|rd|th)?\.?\s+(?:of\s+)?"
        rf"(?P<n>{MONTH})\b\.?,?(?:\s+(?P<y>{YEAR}))?"
    ),
    rf"\b(?P<n>{MONTH})\b\.?\s+(?P<d>\d{{1,2}})(?!\d)(?:st|nd|rd|th)?,?(?:\s+(?P<y>{YEAR}))?",
    rf"\b(?P<n>{MONTH})\b\.?,?\s+(?:of\s+)?(?P<y>{YEAR})",
    rf"(?<![\d.,])(?P<y>{YEAR})(?!\d|[.,]\d)",
)
DATES = [re.compile(pattern, re.IGNORECASE) for pattern in _PATTERNS]


class WrittenDate(NamedTuple):
    """A written date: a day, a month, a year, or a day or month without its year."""

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
            return first, month_end(first)
        return first, date(first.year, 12, 31)


def dates_in(text: str) -> tuple[list[WrittenDate], str]:
    """Return the dates in a string, and the string without them."""
    found: list[WrittenDate] = []
    rest = normalized("NFKC", text)
    for pattern in DATES:

        def taken(match: re.Match[str]) -> str:
            found.append(written(match))
            return " "

        rest = pattern.sub(taken, rest)
    return found, rest


def written(match: re.Match[str]) -> WrittenDate:
    """Return the date that a pattern of `DATES` found."""
    given = match.groupdict()
    name = given.get("n")
    month = MONTHS[name.lower()] if name else _int(given.get("m"))
    return WrittenDate(_int(given.get("y")), month, _int(given.get("d")))


def shifted(day: date, days: int) -> date:
    """Return a day some days later; the day itself where no date is left."""
    try:
        return day + timedelta(days)
    except OverflowError:
        return day


def month_after(day: date, months: int) -> date:
    """Return the first day of a month some months later."""
    year, number = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(min(max(year, 1), 9999), number + 1, 1)


def month_end(day: date) -> date:
    """Return the last day of a month."""
    after = month_after(day, 1)
    return shifted(after, -1) if after > day else date(day.year, 12, 31)


def _int(text: str | None) -> int | None:
    return int(text) if text else None


Role: TypeAlias = Literal["", "since", "until", "before", "after"]

_AMBIGUOUS = frozenset({"may", "mar", "march", "jan", "dec", "sep"})
"""Names of months that are also words or names. Alone they count after a preposition only."""


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


class SpokenTime(NamedTuple):
    """A time in a text. Of a time that can mean several, such as "in May", there are several."""

    first: date
    """The first day that it can mean."""
    last: date
    role: Role
    unit: str
    """Its precision: "year", "month" or "day"; "week" for a day that was counted in weeks."""
    start: int
    """The position of its words in the text, in NFKC."""
    end: int
    is_yearly: bool = False
    """Whether the year was not said."""
    is_open: bool = False
    """Whether it lasts to this day: "since May", and not "from May"."""

    def text(self, role: str) -> str:
        """Return the year, month or day with which something began or ended, in ISO 8601."""
        day = (self.last if role == "until" else self.first).isoformat()
        return day[: {"year": 4, "month": 7}.get(self.unit, 10)]


_NUMBERS = {
    word: number
    for number, words in enumerate(
        ("a an one 한 일 ein einem einer 一", "two couple 두 이 zwei 两 二",
         "three few 세 석 삼 drei 三", "four 네 넉 사 vier 四", "five 다섯 오 fünf 五",
         "six 여섯 육 sechs 六", "seven 일곱 칠 sieben 七", "eight 여덟 팔 acht 八",
         "nine 아홉 구 neun 九", "ten 열 십 zehn 十", "eleven 열한 elf", "twelve 열두 zwölf"), 1,
    )
    for word in words.split()
}  # fmt: skip
_UNITS = {"day": "day", "tag": "day", "일": "day", "天": "day", "week": "week", "woch": "week",
          "주": "week", "周": "week", "month": "month", "monat": "month", "달": "month",
          "개월": "month", "个月": "month", "year": "year", "jahr": "year", "년": "year",
          "해": "year", "年": "year"}  # fmt: skip
_SEASONS = {"spring": 3, "frühling": 3, "봄": 3, "summer": 6, "sommer": 6, "여름": 6, "autumn": 9,
            "fall": 9, "herbst": 9, "가을": 9, "winter": 12, "겨울": 12}  # fmt: skip
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
_DAYS = {
    word: offset
    for words, offset in (
        ("the day before yesterday|그저께|그제|이틀 전|vorgestern|前天", -2),
        ("사흘 전", -3), ("나흘 전", -4), ("열흘 전", -10), ("보름 전", -15),
        ("yesterday|last night|어제|gestern|昨天|昨日", -1),
        ("today|tonight|오늘|heute|今天|今日", 0),
        ("the day after tomorrow|모레|übermorgen|后天", 2), ("tomorrow|내일|明天|明日", 1),
    )
    for word in words.split("|")
}  # fmt: skip
_YEARS = {"재작년": -2, "작년": -1, "지난해": -1, "去年": -1, "올해": 0, "금년": 0, "今年": 0,
          "내년": 1, "明年": 1, "来年": 1}  # fmt: skip
_STEPS = {
    word: step
    for words, step in (
        ("vorletzten?r?s?|지지난|上上个?|先々", -2),
        ("last|past|previous|지난|저번|letzten?r?s?|上个?|先", -1),
        ("this|diesen?r?s?|이번|这个?|今", 0), ("next|coming|다음|오는|nächsten?r?s?|下个?|来", 1),
    )
    for word in words.split("|")
}  # fmt: skip
_WHAT = {"주": "week", "週": "week", "周": "week", "주말": "weekend", "wochenende": "weekend",
         "weekend": "weekend", "月": "month"} | _UNITS  # fmt: skip

_COUNT = rf"(?P<count>(?<!\d)\d{{1,3}}|(?<![^\W_])(?:{_any(_NUMBERS)}))"
_LATIN = r"(?P<unit>day|week|month|year|tag|woch|monat|jahr)\w*"
_ASIAN = r"\s?(?P<unit>일|주|개월|달|년|해|天|周|个月|年)"
_COUNTED: list[tuple[re.Pattern[str], int]] = [
    (re.compile(pattern, re.IGNORECASE), sign)
    for pattern, sign in (
        (rf"{_COUNT}\s(?:more |of |whole )?{_LATIN}\s(?:ago|earlier|back)\b", -1),
        (rf"\bvor {_COUNT} {_LATIN}", -1),
        (rf"{_COUNT}{_ASIAN}\s?(?:일|간)?\s?[전前]", -1),
        (rf"\b(?:in|within) {_COUNT} (?:more )?{_LATIN}", 1),
        (rf"{_COUNT}{_ASIAN}\s?(?:일|간)?\s?(?:후|뒤|있으면|后)", 1),
        ((r"\b(?:for|since|past|last|seit) (?:(?:the|past|last|about|almost|over) )*"
          rf"{_COUNT} {_LATIN}"), 0),
        (rf"{_COUNT}{_ASIAN}\s?(?:간|동안)?\s?째", 0),
    )
]  # fmt: skip
"""Times that are counted from the day, and the direction; 0 for lengths up to it."""
_DAY = re.compile(_any(_DAYS), re.IGNORECASE)
_WHICH = re.compile(
    rf"(?<![^\W_])(?P<which>{'|'.join(_STEPS)})\s?"
    rf"(?P<what>{_any(_WHAT)}|{MONTH}|{_any(_SEASONS)}|{_any(_WEEKDAYS)})",
    re.IGNORECASE,
)
_EARLIER = re.compile(
    rf"\b(?P<what>{_any(_WHAT)}|{MONTH}|{_any(_SEASONS)}|{_any(_WEEKDAYS)}) before "
    r"(?:(?P<last>(?:the )?last(?: one)?)|this(?: one)?)\b",
    re.IGNORECASE,
)
_PART = re.compile(
    r"(?<![^\W_])(?:(?P<part>first|second|third|fourth|erste|zweite|dritte|vierte)[nrs]? "
    r"(?:(?P<half>half|hälfte|jahreshälfte)|quarter|quartal)(?: of| von| des jahres)?(?: the year)?"
    rf"|(?P<letter>[HQ])(?P<number>[1-4])) (?P<year>{YEAR})"
    rf"|(?P<year2>{YEAR})년?\s?(?:(?P<half2>[상하])반기|(?P<number2>[1-4])분기)",
    re.IGNORECASE,
)
_PARTS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "erste": 1, "zweite": 2, "dritte": 3,
          "vierte": 4, "상": 1, "하": 2}  # fmt: skip
_OF_YEAR = re.compile(
    rf"(?P<year>{_any(_YEARS)})(?:\s?(?:(?P<month>\d{{1,2}})[월月]|(?P<season>{_any(_SEASONS)})))?"
)
_SEASON = re.compile(
    rf"(?P<season>{_any(_SEASONS)})(?: of| in)?\s(?P<year>{YEAR})"
    rf"|(?P<year2>{YEAR})년?\s?(?P<season2>{_any(_SEASONS)})",
    re.IGNORECASE,
)
_NUMERALS = "一二三四五六七八九"
_ALONE = re.compile(
    rf"(?<!\d)(?P<number>\d{{1,2}}|十[一二]?|[{_NUMERALS}])[월月](?!\s*\d)"
    rf"|\b(?P<name>{MONTH}|{_any(_WEEKDAYS)})(?![a-zäöü])|\b(?P<season>{_any(_SEASONS)})",
    re.IGNORECASE,
)


def _said(words: str) -> re.Pattern[str]:
    """Return the pattern of words before a time, such as "since about the end of"."""
    about = "about|around|early|late|mid|the|of|in|on|beginning|start|end|very|sometime|roughly"
    return re.compile(rf"(?<![^\W_])(?:{words})(?:\s(?:{about})\b-?)*\s?$", re.IGNORECASE)


_BEFORE: tuple[tuple[Role, re.Pattern[str]], ...] = (
    ("since", _said("since|from|as of|start(?:ed|s|ing)?|beginning|begins?|effective|seit|ab|von")),
    ("until", _said("until|till|'til|up to|through|bis")),
    ("before", _said("before|prior to|earlier than|vor dem")),
    ("after", _said("after|later than")),
)
_BEHIND: tuple[tuple[Role, re.Pattern[str]], ...] = (
    ("since", re.compile(r"년?\s?(?:초|말|중순)?\s?부터|년?\s?이래")),
    ("until", re.compile(r"년?\s?(?:초|말|중순)?\s?까지")),
    ("before", re.compile(r"년?\s?(?:이전|전에)")),
    ("after", re.compile(r"년?\s?(?:이후|후에)")),
)
_SINCE = _said("since|seit")
_LENGTH = re.compile(
    r"(?:for|since|past|last|seit) .*\w (?:day|week|month|year|tag|woch|monat|jahr)|.*째",
    re.IGNORECASE,
)
"""The begin of a length up to now: "for three years"."""
_RANGE = re.compile(
    r"\s?(?:to|and|년?에서|[-\u2013~])\s?(?:the |in |early |late |mid-?|end of )*", re.IGNORECASE
)
_PREPOSITION = re.compile(
    r"(?:in|on|of|by|since|until|till|from|before|after|between|during|to|through|early|late|mid"
    r"|im|ab|seit|bis|vor|nach|en)[ -]$",
    re.IGNORECASE,
)


@lru_cache(maxsize=512)  # a recall asks several times, and agents ask again
def spoken_times(text: str, on: date) -> tuple[SpokenTime, ...]:
    """Return the times that a text names, in their order."""
    plain = rest = normalized("NFKC", text[:20_000])
    found: list[SpokenTime] = []
    for pattern, meanings in _READERS:
        for match in pattern.finditer(rest):
            meant = list(meanings(match, on))
            role = _role(plain, match.start(), match.end()) if meant else ""
            is_past = role == "since" and _SINCE.search(plain[: match.start()][-40:]) is not None
            for first, last, unit, is_yearly in meant:
                if not (
                    is_past and is_yearly and first > on
                ):  # nobody lives there since a later May
                    where = match.span()
                    found.append(SpokenTime(first, last, role, unit, *where, is_yearly, is_past))
            if meant:
                blank = "\x00" * len(match.group())
                rest = rest[: match.start()] + blank + rest[match.end() :]
    found.sort(key=lambda each: each.start)
    return tuple(_with_ranges(found, plain))


_Meaning: TypeAlias = tuple[date, date, str, bool]
"""First and last day, precision, and whether the year was not said."""


def _role(plain: str, start: int, end: int) -> Role:
    for role, pattern in _BEHIND:
        if pattern.match(plain, end):
            return role
    before = plain[max(start - 40, 0) : start]
    for role, pattern in _BEFORE:
        if pattern.search(before):
            return role
    return "since" if _LENGTH.match(plain, start, end) else ""


def _with_ranges(found: Sequence[SpokenTime], plain: str) -> list[SpokenTime]:
    """Return the times, with "May to August 2022" as one from the begin of May on, until August."""
    result = list(found)
    for index, each in enumerate(found):
        for number, other in enumerate(found[index + 1 : index + 5], index + 1):
            between = plain[each.end : other.start]
            if each.end >= other.start or each.role not in ("", "since"):
                continue
            is_pair = between.strip() != "and" or "between" in plain[: each.start].casefold()
            if not (is_pair and _RANGE.fullmatch(between)):
                continue
            result[index] = result[index]._replace(role="since")
            result[number] = result[number]._replace(role="until")
            if each.is_yearly and not other.is_yearly:
                back = other.last.year - (each.first.timetuple()[1:3] > other.last.timetuple()[1:3])
                day = each.first.day if each.unit == "day" else None
                span = WrittenDate(back, each.first.month, day).span(back) or each[:2]
                result[index] = result[index]._replace(first=span[0], last=span[1], is_yearly=False)
    return result


def _dated(match: re.Match[str], on: date) -> list[_Meaning]:
    return _of_date(written(match), on)


def _of_date(said: WrittenDate, on: date) -> list[_Meaning]:
    unit = "day" if said.day else "month" if said.month else "year"
    if said.year is not None:
        span = said.span(said.year)
        return [] if span is None else [(*span, unit, False)]
    spans = [said.span(year) for year in (on.year - 1, on.year, on.year + 1)]
    return _nearest([span for span in spans if span], on, unit)


def _nearest(spans: Sequence[tuple[date, date]], on: date, unit: str) -> list[_Meaning]:
    """Return the last of some spans that has begun, and the next one."""
    begun = [span for span in spans if span[0] <= on]
    ahead = [span for span in spans if span[0] > on]
    return [(*span, unit, True) for span in (*begun[-1:], *ahead[:1])]


def _counted(sign: int) -> Callable[[re.Match[str], date], list[_Meaning]]:
    def meanings(match: re.Match[str], on: date) -> list[_Meaning]:
        count, unit = match["count"].casefold(), _UNITS[match["unit"].casefold()]
        number = int(count) if count.isdecimal() else _NUMBERS[count]
        return [_counted_from(on, number * (sign or -1), unit)]

    return meanings


def _counted_from(on: date, number: int, unit: str) -> _Meaning:
    """Return the time some units before or after a day: "two months ago" is a month."""
    if unit == "year":
        year = min(max(on.year + number, 1), 9999)
        return date(year, 1, 1), date(year, 12, 31), "year", False
    if unit == "month":
        first = month_after(on, number)
        return first, month_end(first), "month", False
    day = shifted(on, number * (7 if unit == "week" else 1))
    return day, day, unit, False


def _of_day(match: re.Match[str], on: date) -> list[_Meaning]:
    day = shifted(on, _DAYS[match.group().casefold()])
    return [(day, day, "day", False)]


def _which(match: re.Match[str], on: date) -> list[_Meaning]:
    """Return what "last", "this" or "next" and a unit or a name mean."""
    which, what = match["which"].casefold(), match["what"].casefold()
    step = next(step for word, step in _STEPS.items() if re.fullmatch(word, which))
    unit = _WHAT.get(what, what)
    if unit in ("week", "weekend"):
        monday = shifted(on, 7 * step - on.weekday())
        return [(shifted(monday, 5 * (unit == "weekend")), shifted(monday, 6), "day", False)]
    if unit in _UNITS:
        return [_counted_from(on, step, unit)]
    unit, spans = "day" if what in _WEEKDAYS else "month", _spans(what, on)
    past = [span for span in spans if span[1] < on]
    ahead = [span for span in spans if span[0] > on]
    nearest = sorted(spans, key=lambda span: abs((span[0] - on).days))
    chosen: Sequence[tuple[date, date]] = (nearest[:1], ahead[:1], past[-2:-1], past[-1:])[step]
    if step == 1 and unit == "day":  # next Friday: the next one, or that of the next week
        chosen = [(shifted(day, days), shifted(day, days)) for day, _ in chosen for days in (0, 7)]
    return [(*span, unit, False) for span in chosen]


def _earlier(match: re.Match[str], on: date) -> list[_Meaning]:
    """Return the week, month or season before the last one, or before this one."""
    word = "vorletzte" if match["last"] else "last"
    which = _WHICH.match(f"{word} {match['what']}")
    return [] if which is None else _which(which, on)


def _of_part(match: re.Match[str], _: date) -> list[_Meaning]:
    """Return a half or a quarter of a year."""
    is_half = bool(match["half"] or match["half2"] or (match["letter"] or "").upper() == "H")
    digit, name = match["number"] or match["number2"], match["part"] or match["half2"]
    number = int(digit) if digit else _PARTS[name.casefold()]
    months = 6 if is_half else 3
    if number > 12 // months:
        return []
    first = date(int(match["year"] or match["year2"]), months * (number - 1) + 1, 1)
    return [(first, month_end(month_after(first, months - 1)), "month", False)]


def _of_year(match: re.Match[str], on: date) -> list[_Meaning]:
    return _within(on.year + _YEARS[match["year"]], match["season"], match["month"])


def _of_season(match: re.Match[str], _: date) -> list[_Meaning]:
    return _within(int(match["year"] or match["year2"]), match["season"] or match["season2"])


def _within(year: int, season: str | None, number: str | None = None) -> list[_Meaning]:
    if season is not None:
        return [(*_season(year, _SEASONS[season.casefold()]), "month", False)]
    date_of = WrittenDate(year, None if number is None else int(number))
    return _of_date(date_of, date(2000, 1, 1))


def _alone(match: re.Match[str], on: date) -> list[_Meaning]:
    if number := match["number"]:
        tens, ones = 10 * ("十" in number), _NUMERALS.find(number[-1]) + 1
        month = int(number) if number.isdecimal() else tens + ones
        return _of_date(WrittenDate(None, month), on)
    name = match["name"] or match["season"]
    is_word = name.casefold() in _AMBIGUOUS | {"fall", "spring", "mai"}
    if is_word and not _PREPOSITION.search(match.string[: match.start()][-20:]):
        return []
    return _nearest(
        _spans(name.casefold(), on), on, "day" if name.casefold() in _WEEKDAYS else "month"
    )


def _spans(name: str, on: date) -> list[tuple[date, date]]:
    """Return the days of a weekday, month or season around a day, in their order."""
    if name in _WEEKDAYS:
        start = shifted(on, _WEEKDAYS[name] - on.weekday() - 7)
        return [(day, day) for day in (shifted(start, 7 * week) for week in range(3))]
    years = range(max(on.year - 2, 1), min(on.year + 3, 9999))
    if name in _SEASONS:
        return [_season(year, _SEASONS[name]) for year in years]
    spans = (WrittenDate(year, MONTHS[name]).span(year) for year in years)
    return [span for span in spans if span is not None]


def _season(year: int, month: int) -> tuple[date, date]:
    """Return the three months that begin in a month, in winter until the next year."""
    first = date(min(max(year, 1), 9998), month, 1)
    return first, month_end(month_after(first, 2))


_READERS: list[tuple[re.Pattern[str], Callable[[re.Match[str], date], list[_Meaning]]]] = [
    *((pattern, _dated) for pattern in DATES[:-1]),
    *((pattern, _counted(sign)) for pattern, sign in _COUNTED),
    (_PART, _of_part),
    (_EARLIER, _earlier),
    (_DAY, _of_day),
    (_SEASON, _of_season),
    (_OF_YEAR, _of_year),
    (_WHICH, _which),
    (_ALONE, _alone),
    (DATES[-1], _dated),
]
"""The forms of times, the more telling first: what one has read, the next ones do not see."""


_CLAUSE = re.compile(r"[,;]|\b(?:but|and now|aber|und jetzt)\b")
"""Where a clause ends: a time beyond it belongs to something else."""
_FEW_WORDS = 4
"""A clause with a time and at most this many words states nothing else."""


def stated_period(
    item: Mapping[str, object],
    around: tuple[str, str, str],
    said_at: datetime,
    *,
    is_event: bool = False,
) -> tuple[When | None, When | None]:
    """Return from when and until when a value holds, as far as its message says so.

    The words decide, and a model only says which of them it means: the precision is theirs, and a
    time that they do not name is left out. Where the words are not read, the numbers decide.

    Args:
        item: The item, with `since` and `until` as a model wrote them.
        around: The sentence of the quote: what is before it, the quote, and what is behind it.
        said_at: When the message was written.
        is_event: Whether the value may be an event. Then "yesterday" says when it began, and not
            that it is over.
    """
    dates = [_first_date(item.get(role)) for role in ("since", "until")]
    if dates == [None, None]:
        return None, None
    *earlier, before = _CLAUSE.split(around[0])
    after, *later = _CLAUSE.split(around[2])
    clause = f"{before}{around[1]}{after}"
    times = spoken_times(clause, said_at.date())
    if not times:  # "In March 2021, I started ..."
        short = [each for each in (*earlier, *later) if len(each.split()) <= _FEW_WORDS]
        times = tuple(time for each in short for time in spoken_times(each, said_at.date()))
    since, until = (
        _supporting(written, role, times)
        for written, role in zip(dates, ("since", "until"), strict=True)
    )
    if not times and not is_english_or_german(clause) and not has_unspaced_script(clause):
        since, until = (_named(each, clause, said_at.date()) for each in dates)
    if is_event and since is not None and until is not None and since.start == until.start:
        until = None
    key = getattr(said_at.tzinfo, "key", "UTC")
    zone = "" if key == "UTC" else f"[{key}]"
    begin = None if since is None else When(since.text("since") + zone)
    finish = None if until is None else When(until.text("until") + zone)
    if begin is not None and finish is not None and finish.end <= begin.begin:
        return None, None
    return begin, finish


def _first_date(given: object) -> WrittenDate | None:
    dates = dates_in(given[:40])[0] if isinstance(given, str) else []
    return dates[0] if dates else None


def _supporting(
    written: WrittenDate | None, role: str, times: Sequence[SpokenTime]
) -> SpokenTime | None:
    """Return the time that a model means by a date; one with its role before one without."""
    span = None if written is None or written.year is None else written.span(written.year)
    if span is None:
        return None
    meant = [
        each
        for each in times
        if each.role in (role, "")
        and (
            (each.first <= span[0] and span[1] <= each.last)
            or (span[0] <= each.first and each.last <= span[1])
        )
    ]
    return max(meant, key=lambda each: each.role == role, default=None)


def _named(written: WrittenDate | None, text: str, said: date) -> SpokenTime | None:
    """Return the time of a model in a language whose times are not read, as far as it is named.

    A year and a day need their numbers, or the number by which they are counted. Without a number
    the day, month and year before and after the message's are taken, and the last months and days:
    models make up other times, and that of the message.
    """
    if written is None or written.year is None:
        return None
    numbers = numbers_in(text)
    if (written.month, written.day) == (1, 1) and not numbers & {1.0}:
        written = written._replace(month=None, day=None)
    year, day = written.year, written.day
    if day is not None and year not in numbers and day not in numbers:
        return _time(written, said) if _is_near(written, said, numbers) else None
    if day is not None and day not in numbers:
        written = written._replace(day=None)
    if year in numbers or day in numbers:
        return _time(written, said)
    return _time(written, said) if _is_near(written, said, numbers) else None


def _is_near(written: WrittenDate, said: date, numbers: set[float]) -> bool:
    span = written.span(said.year)
    if span is None:
        return False
    first = span[0]
    months = (said.year - first.year) * 12 + said.month - (written.month or said.month)
    days = (said - first).days if written.day is not None else 0
    if numbers:
        if written.day is None and written.month in numbers:  # "tháng 5"
            return -1 <= months < 12
        counts = {float(abs(months)), abs(months) / 12, float(abs(days)), abs(days) / 7}
        return bool((counts - {0.0}) & numbers)
    if written.day is not None:
        return -1 <= days <= 7 and days != 0
    if written.month is not None:
        return -1 <= months < 12 and months != 0
    return -1 <= said.year - first.year <= 10 and first.year != said.year


def _time(written: WrittenDate, said: date) -> SpokenTime | None:
    span = written.span(said.year)
    unit = "day" if written.day else "month" if written.month else "year"
    return None if span is None else SpokenTime(*span, "", unit, 0, 0)
