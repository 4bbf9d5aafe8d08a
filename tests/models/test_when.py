"""When: years, months, days and moments in their own precision and zone."""

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from factmem import Concept, InMemoryProvider, MemoryScope, MemorySubject, MultipleFacts, SingleFact
from factmem.models import FactType, When
from tests.tables import table

HOME = Concept("home", "Where the user lives")
PETS = Concept("pets", "The user's pets", FactType.MULTIPLE)
SEOUL = ZoneInfo("Asia/Seoul")
END = datetime.max.replace(tzinfo=UTC)
"""The end of the year 9999, which applications write for "never"."""


@table(
    ("text", "begin", "end"),
    [
        ("2026", datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        ("2026-12", datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        ("2024-02-29", datetime(2024, 2, 29, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC)),
        (
            "2026-05-03[Asia/Seoul]",
            datetime(2026, 5, 2, 15, tzinfo=UTC),
            datetime(2026, 5, 3, 15, tzinfo=UTC),
        ),
        (
            "2026-05-03T10:00+09:00",
            datetime(2026, 5, 3, 1, tzinfo=UTC),
            datetime(2026, 5, 3, 1, tzinfo=UTC),
        ),
        ("9999", datetime(9999, 1, 1, tzinfo=UTC), END),
        ("9999-12-31", datetime(9999, 12, 31, tzinfo=UTC), END),
        ("9999-12[America/Lima]", datetime(9999, 12, 1, 5, tzinfo=UTC), END),
        (
            "0001-01-01[Asia/Seoul]",
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(1, 1, 1, 15, 32, 8, tzinfo=UTC),
        ),
    ],
)
def test_a_time_has_a_begin_and_an_end(text: str, begin: datetime, end: datetime) -> None:
    """In UTC, whatever its zone; the end is the first moment after it."""
    when = When(text)
    assert (when.begin, when.end, str(when)) == (begin, end, text)


@table("text", ["", "May", "2026-13", "2026-02-30", "26-05", "2026-05-03T10:00", "0000"])
def test_a_text_that_is_no_time_is_refused(text: str) -> None:
    """With an example of each form; a moment without a zone could be any of 26 hours."""
    with pytest.raises(ValueError, match="A time must be '2026', '2026-05'"):
        When(text)


@table("text", ["2026-05[Mars]", "2026[UTC", "2026[]", "2026[../UTC]", "2026[\x00]"])
def test_a_zone_that_is_unknown_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="The time zone is unknown"):
        When(text)


def test_an_error_names_the_argument() -> None:
    with pytest.raises(ValueError, match="until: A time must be"):
        SingleFact(HOME, "Busan", since="2026", until="tomorrow")


def test_dates_and_datetimes_keep_their_precision_and_zone() -> None:
    """A date is a day; a datetime a moment with its offset and the name of its zone."""
    assert When.of(date(2026, 5, 3), "since") == When("2026-05-03")
    moment = datetime(2026, 5, 3, 10, tzinfo=SEOUL)
    assert When.of(moment, "since").text == "2026-05-03T10:00:00+09:00[Asia/Seoul]"
    offset = datetime(2026, 5, 3, 10, tzinfo=timezone(timedelta(hours=-3)))
    assert When.of(offset, "since").text == "2026-05-03T10:00:00-03:00"
    with pytest.raises(ValueError, match="since is naive"):
        When.of(datetime(2026, 5, 3), "since")  # noqa: DTZ001 - naive on purpose
    with pytest.raises(TypeError, match="since must be"):
        When.of(5, "since")  # type: ignore[arg-type]


def test_a_fact_takes_any_form_and_checks_their_order() -> None:
    """A fact that ends before it begins is a mistake of the caller."""
    fact = SingleFact(HOME, "Busan", since=date(2026, 5, 1), until="2026-08")
    assert (fact.since, fact.until) == (When("2026-05-01"), When("2026-08"))
    assert SingleFact(HOME, "Busan", since="2026-05", until="2026-05").until == When("2026-05")
    with pytest.raises(ValueError, match="until must be after since"):
        SingleFact(HOME, "Busan", since="2026-05", until="2026-04")


async def test_a_store_returns_them_as_they_were_given() -> None:
    """Not converted to UTC: a day in Seoul stays a day in Seoul."""
    user, scope = MemorySubject("user", "The user", 1), MemoryScope.Product("app")
    async with InMemoryProvider() as store:
        home = SingleFact(HOME, "Busan", since="2020-05-03[Asia/Seoul]", until="2199")
        pets = MultipleFacts(PETS, ["Miso", "Rex"], since="2019")
        await store.save_many([home, pets], user, scope)
        assert await store.load(HOME, user, scope) == [home]
        assert await store.load_all(user, scope) == [home, pets]
        (saved,) = await store.history(HOME, user, scope)
        assert saved.fact == home
