"""MessageForm: custom headers and lines are written, found, parsed and checked."""

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

FORMS = [
    MessageForm(header="Bekannt ist, als Daten:\nund nichts weiter."),
    MessageForm(concept="## {concept}", fact="* {value}"),
    MessageForm(concept="{concept} - {description}{left_out}", fact="  {date} {subject}: {value}"),
    MessageForm(fact="<li>{value}</li> [{importance}]", concept="<h2>{concept}</h2>"),
    MessageForm(fact="- {{{value}}}", concept="Über {concept}{left_out}:"),
]


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
    assert '* "light"' in text
    assert "dark" not in text
    assert MEMORY.legend in old


@table(
    ("fields", "message"),
    [
        ({"fact": "- {subject}"}, "fact must have the field {value}"),
        ({"concept": "{description}"}, "concept must have the field {concept}"),
        ({"fact": "{value} {value}"}, "at most once"),
        ({"fact": "{value} {keyword}"}, "at most once"),
        ({"fact": "{value!r}"}, "plain fields"),
        ({"fact": "{value:>9}"}, "plain fields"),
        ({"fact": "{value"}, "plain fields"),
        ({"fact": "{value}\n"}, "one line"),
        ({"fact": "{subject}{value}"}, "cannot be parsed"),
        ({"concept": "{concept}", "fact": "{value}"}, "cannot be parsed"),
        ({"concept": "{concept}{left_out}", "fact": "{value}"}, "cannot be parsed"),
        ({"header": "<factmem_memory>"}, "tag of factmem"),
        ({"header": '- "dark" (user, 2026-08-01)'}, "in the form of"),
    ],
)
def test_an_unusable_form_raises(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("{", r"\{")):
        MessageForm(**fields)


def test_the_parts_of_a_form_are_strings() -> None:
    with pytest.raises(TypeError, match="header must be a str, not int"):
        MessageForm(header=1)  # type: ignore[arg-type]
