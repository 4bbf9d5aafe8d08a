"""Files of cases, and drafts: only what a chat supports is proposed."""

import json
from pathlib import Path
from typing import Any

import pytest

from factmem.evaluation import (
    Chat,
    EvalCase,
    digest,
    draft_cases,
    folded,
    has,
    read_cases,
    read_chats,
    write_cases,
)
from factmem.testing.chat import ScriptedChatModel
from tests.tables import table

CHAT = [
    {"role": "user", "content": "I drive a red Fiat."},
    {"role": "assistant", "content": "Nice."},
    {"role": "user", "content": "I sold it: now I have a blue Kia."},
]


def test_cases_survive_a_file(tmp_path: Path) -> None:
    """Fields with their defaults are left out, for the person who edits it."""
    cases = [
        EvalCase(id="1", question="Which car?", expect=["Kia"], stale=["Fiat"]),
        EvalCase(id="2", messages=CHAT, accepted=False),
    ]
    path = tmp_path / "cases.jsonl"

    write_cases(path, cases)

    assert read_cases(path) == read_cases(str(path))
    assert digest(read_cases(path)) == digest(reversed(cases))
    assert list(json.loads(path.read_text().splitlines()[0])) == [
        "id",
        "question",
        "expect",
        "stale",
    ]


@table(
    ("line", "problem"),
    [
        ("{}", "Line 2 is not a case: id"),
        ('{"id": "a"}', "either a question or messages"),
        ('{"id": "a", "question": "?", "expects": ["x"]}', "expects"),
        ('{"id": "a", "question": "?", "expect": "x"}', "expect"),
        ('{"id": "first", "question": "?"}', "Line 2 has the id 'first'"),
        ("nonsense", "Line 2 is not a case"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    """Also a misspelt field, which would silently test nothing."""
    path = tmp_path / "cases.jsonl"
    path.write_text(f'{{"id": "first", "question": "?"}}\n{line}\n', encoding="utf-8")

    with pytest.raises(ValueError, match=problem):
        read_cases(path)


@table(
    ("text", "value", "is_in"),
    [
        ("I went to a party", "art", False),
        ("Modern Art", "art", True),
        ("부산에 살아요", "부산", True),
        ("room 1012", "12", False),
        ("room 12", "12", True),
        ("\uff22\uff55san", "busan", True),
        ("anything", "", False),
        ("art and party art", "party ART", True),
    ],
)
def test_a_value_is_found_as_a_word(text: str, value: str, is_in: bool) -> None:
    """And in any case and width."""
    assert has(folded(text), value) is is_in


async def drafted(*proposals: dict[str, Any], known: list[EvalCase] | None = None) -> Any:
    model = ScriptedChatModel(list(proposals))
    return await draft_cases(model, [Chat("cars", CHAT)], known=known or [])


async def test_a_draft_has_its_evidence() -> None:
    """The chat, the message, and the earlier value; nothing is accepted."""
    asked = {"question": "Which car now?", "message": 2, "value": "blue Kia", "earlier": "red Fiat"}

    draft = await drafted(asked, {"question": "Who is the boss?", "message": -1, "value": ""})

    car, boss = draft.cases
    assert (car.expect, car.stale, car.accepted) == (["blue Kia"], ["red Fiat"], False)
    assert (car.conversation, car.message) == ("cars", 2)
    assert (boss.expect, boss.accepted) == ((), False)
    assert draft.dropped == 0


@table(
    "proposal",
    [
        {"question": "Which car?", "message": 2, "value": "Tesla"},
        {"question": "Which car?", "message": 0, "value": "blue Kia"},
        {"question": "Which car?", "message": 9, "value": "blue Kia"},
        {"question": " ", "message": 2, "value": "blue Kia"},
        {"question": "which  CAR was sold?", "message": 0, "value": "red Fiat"},
        {"question": "Which car?", "message": 2, "value": ""},
    ],
)
async def test_what_the_chat_does_not_support_is_dropped(proposal: dict[str, Any]) -> None:
    """Also a question that exists."""
    known = [EvalCase(id="cars-q1", question="Which car was sold?", expect=["Fiat"])]

    draft = await drafted(proposal, known=known)

    assert (list(draft.cases), draft.dropped) == ([], 1)


async def test_an_earlier_value_that_was_not_said_is_left_out() -> None:
    """And ids continue after those of the file."""
    known = [EvalCase(id="cars-q1", question="?", expect=["x"])]
    asked = {"question": "Which car now?", "message": 2, "value": "blue Kia", "earlier": "Tesla"}

    draft = await drafted(asked, known=known)

    assert [(case.id, list(case.stale)) for case in draft.cases] == [("cars-q2", [])]


async def test_a_message_that_corrects_itself_has_its_earlier_value() -> None:
    """ "in Seoul, no, in Busan" states both, and only one is true."""
    chat = Chat("home", [{"role": "user", "content": "I live in Seoul, sorry, I mean in Busan."}])
    asked = {"question": "Which city?", "message": 0, "value": "Busan", "earlier": "Seoul"}

    draft = await draft_cases(ScriptedChatModel([asked]), [chat], known=[])

    assert [list(case.stale) for case in draft.cases] == [["Seoul"]]


async def test_a_long_chat_takes_several_calls() -> None:
    """Of some thousand tokens each; numbers are those of the whole chat."""
    long = [{"role": "user", "content": f"{n} {'word ' * 4000}"} for n in range(3)]
    model = ScriptedChatModel(
        [], [], [{"question": "Which number?", "message": 2, "value": "2 word"}]
    )

    draft = await draft_cases(model, [Chat("long", long)])

    assert len(model.calls) == 3
    assert [case.message for case in draft.cases] == [2]


@table(
    ("name", "text", "chats"),
    [
        ("a.json", json.dumps(CHAT), [("a-1", 3)]),
        ("a.json", json.dumps([CHAT, CHAT[:1]]), [("a-1", 3), ("a-2", 1)]),
        ("a.json", json.dumps({"id": "x", "messages": CHAT}), [("x", 3)]),
        (
            "a.jsonl",
            json.dumps({"messages": CHAT}) + "\n\n" + json.dumps(CHAT),
            [("a-1", 3), ("a-2", 3)],
        ),
    ],
)
def test_chats_have_several_forms(
    tmp_path: Path, name: str, text: str, chats: list[tuple[str, int]]
) -> None:
    """One chat or many, with names or without."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")

    assert [(chat.name, len(chat.messages)) for chat in read_chats(path)] == chats


@table("text", ["[]]", '"text"', "[1]", "[[1]]", '{"messages": []}', '[{"id": 1, "messages": {}}]'])
def test_what_is_no_chat_is_refused(tmp_path: Path, text: str) -> None:
    """With the right form."""
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ValueError, match=r"a\.json"):
        read_chats(path)
