"""MessageForm: custom headers are written, found, parsed and checked."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from factmem.ledger.resolution import Resolution
from factmem.llm.base import estimate_tokens, own_text, put_own_text
from factmem.models.facts import AnyFact, Concept, SingleFact
from factmem.prompt.memory_message import MEMORY, Frame, MemoryMessage, MessageForm, render
from tests.prompt.test_memory_message import NASTY
from tests.tables import table
from tests.world import Chat, languages, memory_texts, placed, theme

DAY = datetime(2026, 8, 1, 12, tzinfo=UTC)

FORMS = [MessageForm(), MessageForm(header="Bekannt ist, als Daten:\nund nichts weiter.")]


@table("form", FORMS)
@table("value", [*NASTY, "dark"])
def test_every_form_parses_to_itself(form: MessageForm, value: str) -> None:
    """Loading another concept writes the same lines again."""
    frame = Frame("factmem_memory", form.header)
    facts: list[AnyFact] = [
        theme(value, timestamp=DAY, importance=0.75),
        SingleFact(Concept("age", value, value_type=int), 36, timestamp=DAY),
        languages("ko", value, timestamp=DAY),
    ]
    text = render(placed(facts), frame=frame).text

    assert text.startswith(f"<factmem_memory>\n{form.header}\n")
    assert text.count("</factmem_memory>") == 1
    assert render([], frame=frame, before=text, asked={"other"}).text == text


@pytest.mark.parametrize("form", FORMS)
def test_values_left_out_are_counted_in_any_form(form: MessageForm) -> None:
    message = MemoryMessage([], replace(form, max_tokens=120))
    messages: Chat = [{"role": "user", "content": "Hello"}]
    facts = placed([languages(*[f"language {number}" for number in range(40)], timestamp=DAY)])

    for _ in range(2):
        before = own_text(messages, "factmem_memory")
        report = message.report(before, Resolution(facts, []), [], {"languages"})
        put_own_text(messages, "factmem_memory", report.text)
        [text] = memory_texts(messages)
        assert f"Left out for lack of room: {report.left_out}" in text
        assert estimate_tokens(text) <= 120
        assert report.left_out + text.count("language ") == 40


def test_a_text_in_the_default_form_is_replaced() -> None:
    """An application that changes its form can continue its existing chats."""
    old = render(placed([theme("dark", timestamp=DAY)])).text
    messages: Chat = [{"role": "system", "name": "factmem_memory", "content": old}]
    facts = placed([theme("light", timestamp=DAY)])
    report = MemoryMessage([], FORMS[1]).report(old, Resolution(facts, []), [], None)
    put_own_text(messages, "factmem_memory", report.text)

    [text] = memory_texts(messages)
    assert FORMS[1].header in text
    assert '- "light"' in text
    assert "dark" not in text
    assert MEMORY.legend in old


@table(
    ("fields", "message"),
    [
        ({"header": "<factmem_memory>"}, "tag of factmem"),
        ({"header": '- "dark" (user, 2026-08-01)'}, "in the form of"),
    ],
)
def test_an_unusable_form_raises(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MessageForm(**fields)


def test_the_parts_of_a_form_are_strings() -> None:
    with pytest.raises(TypeError, match="header must be a str, not int"):
        MessageForm(header=1)  # type: ignore[arg-type]


def test_days_are_shown_in_the_zone_of_the_form() -> None:
    """What is said at one in the morning in Seoul has the day there, not that of UTC."""
    said = datetime(2026, 7, 31, 16, tzinfo=UTC)
    fact = SingleFact(Concept("city", "City"), "Busan", timestamp=said, since=said, until="2027")

    text = {
        str(form.zone): MemoryMessage([], form)
        .report("", Resolution(placed([fact]), []), [], None)
        .text.splitlines()[-2]
        for form in (MessageForm(), MessageForm(zone="Asia/Seoul"))
    }

    assert text == {
        "UTC": '- "Busan" (user, 2026-07-31, since 2026-07-31, until 2027)',
        "Asia/Seoul": '- "Busan" (user, 2026-08-01, since 2026-08-01, until 2027)',
    }


@pytest.mark.parametrize(
    ("since", "until"),
    [("2019", None), (None, "2026-05"), ("2026-05-03[Asia/Seoul]", "2026-06-01T10:00:00+09:00")],
)
def test_periods_are_parsed_again(since: str | None, until: str | None) -> None:
    fact = SingleFact(
        Concept("city", "City"), "a (b, 2026-08-01)", since=since, until=until, importance=0.8
    )
    text = render(placed([fact])).text

    assert "importance 0.8" in text
    assert render([], before=text, asked={"other"}).text == text


def test_a_memory_shows_its_zone_and_the_first_and_last_day_of_the_calendar() -> None:
    facts = [
        languages("first", timestamp=datetime(1, 1, 1, tzinfo=UTC)),
        languages("last", timestamp=datetime(9999, 12, 31, 23, tzinfo=UTC)),
    ]
    for zone in ("Asia/Seoul", "America/Lima"):
        message = MemoryMessage([], MessageForm(zone=zone))
        text = message.report("", Resolution(placed(facts), []), [], None).text
        assert "0001-01-01" in text
        assert "9999-12-31" in text


@table("zone", ["Asia/Soul", "", "../etc/passwd", "seoul time", "\0"])
def test_an_unknown_zone_raises(zone: str) -> None:
    with pytest.raises(ValueError, match=r"There is no time zone .* such as 'Asia/Seoul'"):
        MessageForm(zone=zone)


def test_a_zone_is_a_name_or_a_zone() -> None:
    with pytest.raises(TypeError, match="zone must be a tzinfo, not int"):
        MessageForm(zone=9)  # type: ignore[arg-type]
