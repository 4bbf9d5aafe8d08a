"""What a run of cases finds: each outcome has a memory that causes it."""

from typing import Any

import pytest

from factmem import (
    AgentMemory,
    Concept,
    FactSource,
    FactType,
    InMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.evaluation import EvalCase, EvalReport, Outcome, assert_cases, compared, evaluate
from factmem.testing.chat import ScriptedChatModel
from tests.tables import table

USER = MemorySubject("user", "The user", 1, per_entity=True)
ALICE = USER.of("alice")
DESK = MemoryScope.Agent("desk")
CITY = Concept("city", "Where she lives")
JOB = Concept("job", "Her jobs", FactType.MULTIPLE)
SAID = FactSource(SourceKind.USER, "chat-1", 3)


async def memory_with(*facts: Any, answers: tuple[Any, ...] = ()) -> AgentMemory:
    store = InMemoryProvider()
    for fact in facts:
        await store.save(fact, ALICE, DESK)
    return AgentMemory(
        store,
        scopes=MemoryScopesProfile(agent="desk"),
        subjects=[ALICE],
        concepts=[CITY],
        chat_model=ScriptedChatModel(*answers) if answers else None,
    )


async def outcome(memory: AgentMemory, **case: Any) -> Outcome:
    report = await evaluate(memory, [EvalCase(id="1", **case)])
    return report.results[0].outcome


LIVES = "Where does she live?"


@table(
    ("case", "expected"),
    [
        ({"expect": ["Busan"]}, "found"),
        ({"expect": ["busan", "Haeundae"]}, "found"),
        ({"expect": ["Bus"]}, "missed"),
        ({"expect": ["Seoul"]}, "missed"),
        ({"expect": ["Seoul"], "stale": ["Busan"]}, "stale"),
        ({"expect": ["Busan"], "message": 3}, "found"),
        ({"expect": ["Busan"], "message": 4}, "unproven"),
        ({"expect": ["Busan"], "message": 3, "conversation": "chat-2"}, "unproven"),
        ({"expect": ["Busan"], "place": ["agent", "desk", "user", "alice"]}, "found"),
        ({"expect": ["Busan"], "place": ["agent", "desk", "user", "bob"]}, "silent"),
        ({}, "answered"),
        ({"erased": ["Busan"]}, "leaked"),
        ({"question": "xyzzy"}, "unanswered"),
        ({"question": "xyzzy", "expect": ["Busan"]}, "silent"),
        ({"question": "xyzzy", "erased": ["haeundae"]}, "leaked"),
        ({"place": ["galaxy", "desk", "user", "bob"]}, "failed"),
    ],
)
async def test_each_outcome(case: dict[str, Any], expected: str) -> None:
    """The memory has one fact: she lives in Busan, Haeundae."""
    memory = await memory_with(SingleFact(CITY, "Busan, Haeundae", source=SAID))

    assert await outcome(memory, **{"question": LIVES, **case}) == expected


@table(
    ("stored", "expect", "expected"),
    [
        ("2026-05-01", ["May 1, 2026"], "found"),
        ("2026-05-01", ["1. Mai 2026"], "found"),
        ("since 1 May 2026", ["2026-05"], "found"),
        ("2026-05-01", ["May 2, 2026"], "missed"),
        ("2026-05", ["May 1, 2026"], "missed"),
        ("1200.5", ["1,200.50"], "found"),
        ("1,200 EUR", ["1200 EUR"], "found"),
        ("12000", ["1,200"], "missed"),
        ("3.05", ["3.5"], "missed"),
        ("Busan", [["Pusan", "Busan"]], "found"),
        ("Busan in Korea", [["Pusan", "Busan"], "Korea"], "found"),
        ("Busan", [["Pusan", "Seoul"]], "missed"),
        ("Busan", [["Pusan", "Busan"], "Korea"], "missed"),
    ],
)
async def test_values_are_compared_as_they_are_stored(
    stored: str, expect: list[str | list[str]], expected: str
) -> None:
    """A detection writes dates in ISO 8601 and numbers in digits; people write cases."""
    memory = await memory_with(SingleFact(CITY, stored))

    assert await outcome(memory, question=LIVES, expect=expect) == expected


async def test_an_agent_is_shown_facts_and_quotes_in_turn() -> None:
    """A quote after five facts is not in a text of five."""
    jobs = [MultipleFacts(JOB, [f"a job in shop {number}"]) for number in range(4)]
    memory = await memory_with(*jobs)
    await memory.conversation("chat-1").append(
        {"role": "user", "content": "My best job was in the shop on Elm Street."}
    )

    report = await evaluate(
        memory, [EvalCase(id="1", question="Which job in a shop?", expect=["Elm Street"])]
    )

    assert report.results[0].rank == 2
    assert len(report.results[0].got) == 5


async def test_an_earlier_value_may_come_after_the_present_one() -> None:
    """And not before it: the model reads the first facts first."""
    memory = await memory_with(
        MultipleFacts(JOB, ["teacher"], importance=1.0), MultipleFacts(JOB, ["baker"], importance=0)
    )
    asked = {"question": "Which jobs?"}

    assert await outcome(memory, **asked, expect=["teacher"], stale=["baker"]) is Outcome.FOUND
    assert await outcome(memory, **asked, expect=["baker"], stale=["teacher"]) is Outcome.STALE


async def test_a_forgotten_value_is_not_erased() -> None:
    """It is in the history until it is purged."""
    memory = await memory_with(SingleFact(CITY, "Busan"))
    case = {"question": LIVES, "erased": ["Busan"]}
    await memory.store.forget(ALICE, DESK, concept=CITY)
    assert await outcome(memory, **case) is Outcome.LEAKED

    await memory.store.save(SingleFact(CITY, "Busan"), ALICE, DESK)
    await memory.store.forget(ALICE, DESK, concept=CITY, purge=True)

    assert await outcome(memory, **case) is Outcome.UNANSWERED


async def test_a_message_answers_too() -> None:
    """It is its own evidence, and an erased value may be left in one."""
    memory = await memory_with()
    said = {"role": "user", "content": "I have lived in Busan for years."}
    await memory.conversation("chat-1").append(said)
    case = {"question": "Where have I lived for years?", "expect": ["Busan"]}

    assert await outcome(memory, **case) is Outcome.FOUND
    assert await outcome(memory, **case, message=0, conversation="chat-1") is Outcome.FOUND
    assert await outcome(memory, **case, message=1) is Outcome.UNPROVEN
    assert await outcome(memory, question="xyzzy", erased=["Busan"]) is Outcome.LEAKED
    await memory.conversation("chat-1").clear()
    assert await outcome(memory, question="xyzzy", erased=["Busan"]) is Outcome.UNANSWERED


def _found(quote: str, value: str, message: int = 0) -> dict[str, Any]:
    return {
        "message": message,
        "quote": quote,
        "subject": "user",
        "keyword": "city",
        "value": value,
    }


@table(
    ("facts", "expected", "extra"),
    [
        ([{"keyword": "city", "value": "Busan"}], "found", 0),
        ([{"value": "Busan"}], "found", 0),
        ([], "found", 1),
        ([{"keyword": "home", "value": "Busan"}], "missed", 1),
        ([{"value": "Seoul"}], "missed", 1),
    ],
)
async def test_detection_is_compared_with_expected_facts(
    facts: list[dict[str, str]], expected: str, extra: int
) -> None:
    """Nothing is saved."""
    memory = await memory_with(answers=({"facts": [_found("I live in Busan", "Busan")]},))
    chat = [{"role": "user", "content": "I live in Busan."}]

    report = await evaluate(memory, [EvalCase(id="1", messages=chat, facts=facts)])  # type: ignore[arg-type]

    assert (report.results[0].outcome, report.results[0].extra) == (expected, extra)
    assert await memory.store.load_all(ALICE, DESK) == []


async def test_detection_without_a_model_fails_with_the_reason() -> None:
    """And the other cases are run."""
    memory = await memory_with(SingleFact(CITY, "Busan"))
    chat = [{"role": "user", "content": "I live in Busan."}]
    cases = [
        EvalCase(id="chat", messages=chat),
        EvalCase(id="question", question=LIVES, expect=["Busan"]),
    ]

    report = await evaluate(memory, cases)

    assert [each.id for each in report.failed] == ["chat"]
    assert "chat_model" in report.failed[0].problem


async def test_a_failed_case_fails_a_test_by_its_name() -> None:
    """In pytest by one function, which returns the report if all pass."""
    memory = await memory_with(SingleFact(CITY, "Busan"))
    right = EvalCase(id="home", question=LIVES, expect=["Busan"])
    wrong = EvalCase(id="old-home", question=LIVES, expect=["Seoul"], stale=["Busan"])
    draft = EvalCase(id="draft", question=LIVES, expect=["Paris"], accepted=False)

    report = await assert_cases(memory, [right, draft])
    with pytest.raises(AssertionError, match="old-home stale") as failed:
        await assert_cases(memory, [right, wrong])

    assert [each.id for each in report.results] == ["home"]
    assert "home found" not in str(failed.value)
    with pytest.raises(ValueError, match="accepted"):
        await assert_cases(memory, [draft])


async def test_a_report_comes_back_from_json_and_is_compared() -> None:
    """Broken and mended cases are named, and other cases are told."""
    memory = await memory_with(SingleFact(CITY, "Busan"))
    cases = [
        EvalCase(id="old", question=LIVES, expect=["Seoul"]),
        EvalCase(id="new", question=LIVES, expect=["Busan"]),
    ]
    before = EvalReport.from_json((await evaluate(memory, cases)).to_json())
    await memory.store.save(SingleFact(CITY, "Seoul"), ALICE, DESK)

    after = await evaluate(memory, cases)
    broken, lines = compared(before, after)

    assert [each.id for each in broken] == ["new"]
    assert lines[:2] == [f"broken: new missed: {LIVES}", f"fixed: old found: {LIVES}"]
    fewer = await evaluate(memory, cases[:1])
    assert "different cases" in compared(before, fewer)[1][0]
    with pytest.raises(ValueError, match="not a report"):
        EvalReport.from_json('{"cases": 3}')


async def test_a_page_escapes_what_it_shows() -> None:
    """Facts are other people's words."""
    memory = await memory_with(SingleFact(CITY, "<script>alert(1)</script>"))
    page = (await evaluate(memory, [EvalCase(id="<b>", question=LIVES, expect=["<i>"])])).to_html()

    assert "<script" not in page
    assert "&lt;i&gt;" in page
    assert "<b>" not in page
