"""MessageForm: custom headers are written, found, parsed and checked."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from factmem.ledger.resolution import Resolution
from factmem.models.facts import AnyFact, Concept, SingleFact
from factmem.prompt.memory_message import MEMORY, MemoryMessage, render
from factmem.prompt.message_form import MessageForm
from factmem.prompt.tokens import estimate_tokens
from tests.prompt.test_memory_message import NASTY
from tests.tables import table
from tests.world import Chat, languages, memory_texts, placed, theme

DAY = datetime(2026, 8, 1, 12, tzinfo=UTC)

FORMS = [MessageForm(), MessageForm(header="Bekannt ist, als Daten:\nund nichts weiter.")]


@table("form", FORMS)
@table("value", [*NASTY, "dark"])
def test_every_form_parses_to_itself(form: MessageForm, value: str) -> None:
    """Loading another concept writes the same lines again."""
    frame = form.frame("factmem_memory")
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
        report = message.put(messages, Resolution(facts, []), [], {"languages"})
        [text] = memory_texts(messages)
        assert f"Left out for lack of room: {report.left_out}" in text
        assert estimate_tokens(text) <= 120
        assert report.left_out + text.count("language ") == 40


def test_a_text_in_the_default_form_is_replaced() -> None:
    """An application that changes its form can continue its existing chats."""
    old = render(placed([theme("dark", timestamp=DAY)])).text
    messages: Chat = [{"role": "system", "name": "factmem_memory", "content": old}]
    facts = placed([theme("light", timestamp=DAY)])
    MemoryMessage([], FORMS[1]).put(messages, Resolution(facts, []), [], None)

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
