"""From when and until when a value holds: what was said decides, and nothing is invented."""

# ruff: noqa: RUF001 - letters of other scripts that look like Latin ones

from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from benchmarks.detection.times import judged, statements
from factmem._text.spoken_time import spoken_times, stated_period
from factmem.models.facts import Concept, FactType
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.detection.judging import judge
from tests.tables import table
from tests.world import answer, item, memory_of, user

CITY = Concept("city", "Where the user lives")


def lives(value: str, quote: str, **more: Any) -> dict[str, Any]:
    return {"quote": quote, "keyword": "city", "value": value, "fact_type": "SINGLE", **more}


@pytest.mark.parametrize("recording", ["first", "second"])
async def test_recorded_periods_are_stored_as_they_were_said(recording: str) -> None:
    """Every third statement; `python -m benchmarks.detection.times` replays all."""
    given = list(statements(recording))
    counted = [(await judged(each))[0] for each in given[::3]]

    total = sum(counted[1:], counted[0])
    assert len(given) >= 100
    assert total.f1 >= 0.9
    assert total.invented == 0
    assert total.lost <= 1  # a value of other words than its quote is a proposal


@table(
    ("said", "since", "until", "expected"),
    [
        ("I live in Rome since May", "2024-05", "", ("2024-05", None)),
        ("I live in Rome since May", "2024-05-03", None, ("2024-05", None)),  # no day was said
        ("I live in Rome since May", "2023-05", "", (None, None)),  # another year than the words'
        ("I live in Rome since May", "", "2024-05", (None, None)),  # it began, and did not end
        ("I live in Rome", "2020", "2024-05-12", (None, None)),
        ("I lived in Rome from 2010 to 2012", "2010", "2012", ("2010", "2012")),
        ("I lived in Rome from 2010 to 2012", "2012", "2010", (None, None)),
        ("I lived in Rome in 2019", "2019-01-01", "2019-12-31", ("2019", "2019")),
        ("저는 지난주까지 Rome에 살았어요", None, "2024-05-05", (None, "2024-05-05")),
        ("I live in Rome since May", 7, {"a": 1}, (None, None)),
        ("I live in Rome since May", "in spring", "soon", (None, None)),
    ],
)
def test_the_words_of_the_message_decide(
    said: str, since: object, until: object, expected: tuple[str | None, str | None]
) -> None:
    """A bound that the words do not support is left out; the value is kept."""
    [placed] = judge(said, lives("Rome", said, since=since, until=until)).saved

    given = (placed.fact.since, placed.fact.until)
    assert tuple(None if each is None else each.text for each in given) == expected


@table(
    ("said", "expected"),
    [
        ("Since 2019, I live in Rome", "2019"),
        ("I live in Rome, since 2019", "2019"),
        ("I live in Rome, and met Ana in 2019", None),
        ("I was born in Oslo in 2019, I live in Rome", None),
        ("I live in Rome. It was founded in 2019", None),
    ],
)
def test_a_time_of_another_clause_is_of_another_thing(said: str, expected: str | None) -> None:
    [placed] = judge(said, lives("Rome", "I live in Rome", since="2019")).saved

    since = placed.fact.since
    assert (None if since is None else since.text) == expected


def test_what_was_and_what_will_be_do_not_overrule_what_is() -> None:
    said = "I live in Rome, from June in Bonn. Until 2020 I lived in Oslo."
    items = [
        lives("Rome", "I live in Rome"),
        lives("Bonn", "from June in Bonn", since="2024-06"),
        lives("Oslo", "Until 2020 I lived in Oslo", until="2020"),
    ]

    report = judge(said, *items, declared=[CITY])

    assert [placed.fact.values[0] for placed in report.saved] == ["Rome", "Bonn"]
    assert [placed.fact.values[0] for placed in report.superseded] == ["Oslo"]
    assert report.rejected == []


def test_a_made_up_keyword_stays_single_with_an_earlier_value() -> None:
    said = "I live in Rome. Until 2020 I lived in Oslo."
    items = [
        lives("Rome", "I live in Rome"),
        lives("Oslo", "Until 2020 I lived in Oslo", until="2020"),
    ]

    [placed] = judge(said, *items).saved

    assert placed.fact.concept.fact_type is FactType.SINGLE
    assert placed.fact.values == ("Rome",)


def test_an_event_of_yesterday_is_not_over() -> None:
    """Its end would make it history: "yesterday" is when it happened."""
    event = {"quote": "I adopted a cat yesterday", "keyword": "pets", "value": "a cat"}
    period = {"since": "2024-05-11", "until": "2024-05-11"}

    [placed] = judge("I adopted a cat yesterday", {**event, **period}).saved

    assert (str(placed.fact.since), placed.fact.until) == ("2024-05-11", None)


async def test_days_are_those_of_the_conversation() -> None:
    """At one in the morning in Seoul "yesterday" is a day there."""
    seoul = ZoneInfo("Asia/Seoul")
    said = item(quote="어제부터 부산에 살아요", keyword="city", value="부산", since="2024-05-11")
    store = InMemoryProvider()
    memory = memory_of(store, ScriptedChatModel(answer(said)), concepts=[CITY])

    report = await memory.auto_detect_facts(
        [user("어제부터 부산에 살아요")], said_at=datetime(2024, 5, 12, 1, tzinfo=seoul)
    )

    since = report.saved[0].fact.since
    assert str(since) == "2024-05-11[Asia/Seoul]"
    assert since is not None
    assert since.begin == datetime(2024, 5, 10, 15, tzinfo=UTC)


@table(
    ("text", "expected"),
    [
        ("2019년부터 부산에 살아요", [("since", 2019)]),
        ("2019년에서 2021년까지 살았어요", [("since", 2019), ("until", 2021)]),
        ("2020년 전에 살던 도시", [("before", 2020)]),
        ("2020년 이후 회사", [("after", 2020)]),
        ("20년 전에 살던 도시", [("", 2004)]),
        ("between 2019 and 2021", [("since", 2019), ("until", 2021)]),
    ],
)
def test_years_begin_and_end_something(text: str, expected: list[tuple[str, int]]) -> None:
    found = spoken_times(text, date(2024, 5, 15))
    assert [(each.role, each.first.year) for each in found] == expected


def test_may_between_other_words_is_a_month() -> None:
    found = spoken_times("I lived in Rome between May and August", date(2024, 11, 15))
    assert {(each.role, each.first.month) for each in found} == {("since", 5), ("until", 8)}


@table(
    "text",
    ["I may go", "We march on", "version 2.2019", "a fall from 13월", "twenty years old", ""],
)
def test_other_words_are_no_times(text: str) -> None:
    assert not spoken_times(text, date(2024, 5, 15))


@pytest.mark.parametrize("on", [date.min, date.max, date(2024, 2, 29)])
def test_times_at_the_ends_of_the_calendar_are_read(on: date) -> None:
    text = (
        "last week, next Friday, 999 years ago, in 999 months, from February 29 to March 2023, "
        "내년 겨울"
    )

    assert spoken_times(text, on)


LANGUAGES = {
    "en": (
        "I have lived in Rome since 2019",
        "We moved to Busan in May",
        "I quit smoking yesterday",
    ),
    "de": (
        "Ich wohne seit 2019 in Rom",
        "Wir sind im Mai nach Busan gezogen",
        "Ich habe gestern mit dem Rauchen aufgehört",
    ),
    "fr": (
        "J'habite à Rome depuis 2019",
        "Nous avons déménagé à Busan en mai",
        "J'ai arrêté de fumer hier",
    ),
    "es": ("Vivo en Roma desde 2019", "Nos mudamos a Busan en mayo", "Dejé de fumar ayer"),
    "it": (
        "Vivo a Roma dal 2019",
        "Ci siamo trasferiti a Busan a maggio",
        "Ho smesso di fumare ieri",
    ),
    "pt": ("Moro em Roma desde 2019", "Mudámo-nos para Busan em maio", "Deixei de fumar ontem"),
    "nl": (
        "Ik woon sinds 2019 in Rome",
        "We zijn in mei naar Busan verhuisd",
        "Ik ben gisteren gestopt met roken",
    ),
    "pl": (
        "Mieszkam w Rzymie od 2019 roku",
        "W maju przeprowadziliśmy się do Busan",
        "Wczoraj rzuciłem palenie",
    ),
    "tr": (
        "2019'dan beri Roma'da yaşıyorum",
        "Mayıs ayında Busan'a taşındık",
        "Dün sigarayı bıraktım",
    ),
    "ru": ("Я живу в Риме с 2019 года", "В мае мы переехали в Пусан", "Вчера я бросил курить"),
    "ar": ("أعيش في روما منذ 2019", "انتقلنا إلى بوسان في مايو", "تركت التدخين أمس"),
    "hi": ("मैं 2019 से रोम में रहता हूँ", "हम मई में बुसान चले गए", "मैंने कल धूम्रपान छोड़ दिया"),
    "ko": (
        "2019년부터 로마에 살고 있어요",
        "우리는 5월에 부산으로 이사했어요",
        "어제 담배를 끊었어요",
    ),
    "ja": ("2019年からローマに住んでいます", "5月に釜山に引っ越しました", "昨日タバコをやめました"),
    "zh": ("我从2019年起住在罗马", "我们五月搬到了釜山", "我昨天戒烟了"),
    "vi": (
        "Tôi sống ở Rome từ năm 2019",
        "Chúng tôi chuyển đến Busan vào tháng 5",
        "Hôm qua tôi đã bỏ thuốc lá",
    ),
}
"""A year, a month and the day before, on 10 June 2026."""
MEANT = ("2019", "2026-05", "2026-06-09")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_time_that_is_said_is_kept_in_every_language(language: str) -> None:
    """And one that a model makes up is not."""
    said_at = datetime(2026, 6, 10, tzinfo=UTC)

    for said, meant in zip(LANGUAGES[language], MEANT, strict=True):
        since, until = stated_period({"since": meant}, ("", said, ""), said_at)
        invented, _ = stated_period({"since": "2012-03-04"}, ("", said, ""), said_at)

        assert (str(since and since.text), until, invented) == (meant, None, None)
