"""Invented keywords, joined keywords, times and speakers: the result of several items."""

import json
from datetime import UTC, datetime, timedelta, timezone
from threading import get_ident
from typing import Any

import pytest

from factmem.detection import Detection
from factmem.detection import _detector as detector
from factmem.detection.report import DetectionReport
from factmem.llm.base import message_time
from factmem.models.facts import Concept, FactType, SourceKind
from factmem.prompt._transcript import Transcript
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.detection.judging import SUNDAY, judge
from tests.tables import table
from tests.world import Chat, answer, assistant, memory_of, user

CITY = Concept("city", "Where the user lives")


def said(value: str, message: int = 0, keyword: str = "pet", **fields: Any) -> dict[str, Any]:
    given = {"message": message, "quote": value, "value": value, "keyword": keyword}
    return {"fact_type": "SINGLE", **given, **fields}


def saved(verdict: DetectionReport) -> list[tuple[str, str, object]]:
    return [
        (each.fact.concept.keyword, each.fact.concept.fact_type.value, value)
        for each in verdict.saved
        for value in each.fact.values
    ]


# One value or many


def test_two_values_of_an_invented_keyword_are_both_kept() -> None:
    """The model marked both as SINGLE, but neither statement corrects the other."""
    verdict = judge(["A cat named Miso", "and a parrot named Rico"], said("Miso"), said("Rico", 1))

    assert saved(verdict) == [("pet", "MULTIPLE", "Miso"), ("pet", "MULTIPLE", "Rico")]


def test_a_model_can_mark_a_value_as_replaced() -> None:
    known = [("pet", "Miso", "SINGLE")]

    kept = judge("It is Rico", said("Rico"), known=known)
    replaced = judge("It is Rico", said("Rico", action="replace"), known=known)

    assert saved(kept) == [("pet", "MULTIPLE", "Rico")]
    assert saved(replaced) == [("pet", "SINGLE", "Rico")]


def test_a_retraction_ends_the_old_value() -> None:
    ended = said("Miso", 0, action="retract", quote="Miso died")

    verdict = judge("Miso died. It is Rico", ended, said("Rico"), known=[("pet", "Miso", "SINGLE")])

    assert saved(verdict) == [("pet", "SINGLE", "Rico")]


@pytest.mark.parametrize("is_in_store", [True, False])
def test_multiple_wins_if_either_item_says_so(*, is_in_store: bool) -> None:
    known = [("pet", "Miso", "MULTIPLE" if is_in_store else "SINGLE")]
    fact_type = "SINGLE" if is_in_store else "MULTIPLE"

    verdict = judge("Now it is Rico", said("Rico", fact_type=fact_type), known=known)

    assert saved(verdict) == [("pet", "MULTIPLE", "Rico")]


def test_what_the_application_saved_as_single_stays_single() -> None:
    """A made-up keyword replaces its value and does not double it."""
    known = [("plan", "Gold", "SINGLE")]

    verdict = judge("It is Silver", said("Silver", keyword="plan"), known=known, is_learnt=False)

    assert saved(verdict) == [("plan", "SINGLE", "Silver")]


def test_a_declared_concept_keeps_its_type_and_its_history() -> None:
    """The later statement is current and the earlier is history, in either order."""
    items = said("Bonn", 1, "city"), said("Rome", 0, "city", fact_type="MULTIPLE")

    for given in (items, items[::-1]):
        verdict = judge(["I live in Rome", "I live in Bonn"], *given, declared=[CITY])

        assert saved(verdict) == [("city", "SINGLE", "Bonn")]
        assert [each.fact.values for each in verdict.superseded] == [("Rome",)]


# Keywords


@pytest.mark.parametrize("keyword", ["my-city", "the city", "cities"])
def test_similar_keywords_are_joined_and_reported(keyword: str) -> None:
    verdict = judge("I live in Bonn", said("Bonn", keyword=keyword), declared=[CITY])

    assert saved(verdict) == [("city", "SINGLE", "Bonn")]
    assert [each.keyword for each in verdict.joined] == ["city"]


def test_a_join_never_replaces_another_value() -> None:
    known = [("city", "Rome", "SINGLE")]

    verdict = judge("I know Bonn", said("Bonn", keyword="home-city"), known=known)

    assert saved(verdict) == [("home-city", "SINGLE", "Bonn")]
    assert verdict.joined == []


def test_a_different_thing_has_a_different_keyword() -> None:
    known = [("mother", "Ruth", "SINGLE")]

    verdict = judge("She likes golf", said("golf", keyword="mother-hobby"), known=known)

    assert saved(verdict) == [("mother-hobby", "SINGLE", "golf")]


# Times


@table(
    ("given", "expected"),
    [
        ({"timestamp": "2024-05-01T10:00:00Z"}, "2024-05-01T10:00:00+00:00"),
        ({"created_at": 1714557600}, "2024-05-01T10:00:00+00:00"),
        ({"created_at": 1714557600.5}, "2024-05-01T10:00:00.500000+00:00"),
        ({"created_at": 1714557600000}, "2024-05-01T10:00:00+00:00"),
        ({"created_at": "1714557600"}, "2024-05-01T10:00:00+00:00"),
        ({"timestamp": "2024-05-01 10:00"}, "2024-05-01T10:00:00+00:00"),
        ({"timestamp": datetime(2024, 5, 1, 10, tzinfo=UTC)}, "2024-05-01T10:00:00+00:00"),
        ({"timestamp": "soon", "created_at": "2024-05-01"}, "2024-05-01T00:00:00+00:00"),
    ],
)
def test_a_message_has_its_time(given: dict[str, object], expected: str) -> None:
    found = message_time(given, UTC)

    assert found is not None
    assert found.isoformat() == expected


@table(
    "given",
    [
        None,
        "",
        "soon",
        True,
        -1,
        0,
        float("nan"),
        float("inf"),
        10**30,
        [],
        "9" * 50,
        "0001-01-01T00:00:00+14:00",
        datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=12))),
    ],
)
def test_a_field_that_is_not_a_time_is_ignored(given: object) -> None:
    assert message_time({"timestamp": given}, UTC) is None


async def test_facts_carry_the_time_of_their_message() -> None:
    model = ScriptedChatModel(answer(said("Bonn", 1, "city"), said("chess", 0, "hobby")))
    early = {**user("I play chess"), "created_at": "2020-02-03T04:05:06Z"}

    report = await memory_of(InMemoryProvider(), model).auto_detect_facts(
        [early, user("I live in Bonn")], said_at=SUNDAY
    )

    told = {each.fact.concept.keyword: each.fact.timestamp for each in report.saved}
    assert told == {"city": SUNDAY, "hobby": datetime(2020, 2, 3, 4, 5, 6, tzinfo=UTC)}


async def test_a_time_without_a_zone_raises() -> None:
    with pytest.raises(ValueError, match="naive"):
        await memory_of(model=ScriptedChatModel()).remember("Hi", said_at=datetime(2024, 5, 1))  # noqa: DTZ001


# Speakers

GROUP: Chat = [
    {**user("I am vegetarian"), "name": "bob"},
    {**user("I live in Bonn"), "name": "alice"},
    assistant("Noted"),
]


def test_messages_without_names_belong_to_the_speaker() -> None:
    assert len(Transcript([user("I am here")], speaker="alice")) == 1
    assert len(Transcript([user("I am here"), *GROUP], speaker="alice")) == 1
    assert '"name"' not in Transcript([{**user("Hi"), "name": "alice"}]).lines()


@pytest.mark.parametrize("kind", ["tool_result", "document", "file", "search_result"])
def test_attached_parts_are_not_the_users_words(kind: str) -> None:
    parts = [{"type": "text", "text": "See this"}, {"type": kind, "text": "I am an admin"}]

    transcript = Transcript([{"role": "user", "content": parts}])

    assert transcript.span(0, "I am an admin") is None
    assert "admin" not in transcript.lines()


# Long chats


def talk(count: int) -> Chat:
    return [
        user(f"I like the number {i}, because of its {'very ' * 20}nice shape.")
        for i in range(count)
    ]


@pytest.mark.storm
async def test_a_long_chat_is_read_in_parts_that_see_earlier_facts() -> None:
    def read(messages: Any) -> str:
        lines = str(messages[1]["content"]).splitlines()
        told = [json.loads(line) for line in lines if line.startswith('{"message"')]
        return answer(
            *(
                said(f"the number {m['message']}", m["message"], "numbers", fact_type="MULTIPLE")
                for m in told
            )
        )

    model = ScriptedChatModel(*[read] * 9)
    report = await memory_of(model=model).auto_detect_facts(talk(400), said_at=SUNDAY)

    assert len(report.saved) == 400
    assert report.usage.calls == len(model.calls) == 4
    assert "the number 1" not in str(model.calls[0][0]["content"])
    assert '"the number 1' in str(model.calls[1][0]["content"])


async def test_a_long_message_is_processed_outside_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Splitting, writing the prompt and parsing the answer use a thread; a short one needs none."""
    threads: dict[str, list[int]] = {}

    def recorded(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def call(*args: Any, **options: Any) -> Any:
            threads.setdefault(name, []).append(get_ident())
            return function(*args, **options)

        monkeypatch.setattr(owner, name, call)

    for name in ("detection_question", "read_items"):
        recorded(detector, name)
    recorded(Transcript, "pieces")
    memory = memory_of(model=ScriptedChatModel(answer(), answer()))

    await memory.auto_detect_facts([user("I like tea. " * 10)])
    await memory.auto_detect_facts([user("I like tea. " * 10_000)])

    assert threads.keys() == {"detection_question", "read_items", "pieces"}
    for here, elsewhere in threads.values():
        assert here == get_ident() != elsewhere


async def test_context_is_bounded() -> None:
    model = ScriptedChatModel(answer())

    await memory_of(model=model).auto_detect_facts(talk(100), since=99)

    assert str(model.calls[0][1]["content"]).count('"role"') == 21


# Verification


def checks(*verdicts: str) -> str:
    """Return the answer of a verifying call."""
    given = [
        {
            "statement": number,
            "reason": "stated" if each == "keep" else "of another",
            "verdict": each,
        }
        for number, each in enumerate(verdicts)
    ]
    return json.dumps({"checks": given})


STRICT = Detection(verify="new")


async def test_a_second_call_keeps_proposes_and_drops() -> None:
    items = said("chess", 0, "hobby"), said("nuts", 0, "allergies"), said("Rome", 0, "city")
    model = ScriptedChatModel(answer(*items), checks("keep", "drop", "propose"))
    text = "I play chess, my dog is allergic to nuts, and I may move to Rome"

    report = await memory_of(model=model).auto_detect_facts([user(text)], detection=STRICT)

    assert [each.fact.values for each in report.saved] == [("chess",)]
    assert [each.fact.values for each in report.proposed] == [("Rome",)]
    [rejected] = report.rejected
    assert (rejected.reason.value, "of another" in rejected.detail) == ("not confirmed", True)
    assert report.usage.calls == 2


async def test_a_second_call_settles_doubts() -> None:
    """A value in other words than its quote is proposed, unless the call finds that it follows."""
    given = answer(said("Lisbon", 0, "city", quote="live there"))
    for model, expected in (
        (ScriptedChatModel(given, checks("keep")), ([("Lisbon",)], [])),
        (ScriptedChatModel(given, checks()), ([], [("Lisbon",)])),
    ):
        report = await memory_of(model=model).auto_detect_facts(
            [user("I live there")], detection=STRICT
        )
        saved = [each.fact.values for each in report.saved]
        assert (saved, [each.fact.values for each in report.proposed]) == expected


async def test_a_second_call_does_not_make_an_instruction() -> None:
    """Its value must stand in the user's own words, whatever a model says."""
    style = Concept("style", "How to answer")
    given = said("in rhymes", 0, "style", quote="Please answer briefly")
    model = ScriptedChatModel(answer(given), checks("keep"))
    memory = memory_of(model=model, instructions=[style])

    report = await memory.auto_detect_facts([user("Please answer briefly.")], detection=STRICT)

    assert (report.saved, [each.fact.values for each in report.proposed]) == ([], [("in rhymes",)])


async def test_what_is_known_is_not_checked_again() -> None:
    chess = said("chess", 0, "hobby")
    model = ScriptedChatModel(answer(chess), checks("keep"), answer(chess))
    memory = memory_of(model=model)
    await memory.auto_detect_facts([user("I play chess")], detection=STRICT)

    report = await memory.auto_detect_facts([user("Yes, I play chess")], detection=STRICT)

    assert (report.usage.calls, len(report.confirmed)) == (1, 1)


@table(
    ("options", "error", "message"),
    [
        ({"verify": "all"}, ValueError, "verify must be 'new', or None"),
        ({"speaker": {"Bob": 7}}, TypeError, "not int: speaker='alice'"),
        ({"speaker": 7}, TypeError, "not int: speaker='alice'"),
        ({"only": CITY}, TypeError, r"not Concept: only=\[AGE\]"),
        ({"only": [CITY, Concept("city", "", FactType.MULTIPLE)]}, ValueError, "Two concepts"),
        ({"trust": "tool"}, TypeError, r"trust=\[SourceKind\.ASSISTANT\]"),
        ({"trust": [SourceKind.DOCUMENT]}, ValueError, "trust must not contain document"),
    ],
)
def test_wrong_options_raise(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Detection(**options)


def test_equal_options_are_equal() -> None:
    """They are a value: lists that a caller changes later have no effect."""
    kinds = [SourceKind.TOOL, SourceKind.ASSISTANT]
    given = Detection(only=[CITY], trust=kinds)
    kinds.clear()

    assert given == Detection(only=(CITY,), trust={SourceKind.ASSISTANT, SourceKind.TOOL})


async def test_the_options_of_a_memory_apply_to_texts_and_to_every_chat() -> None:
    items = said("chess", 0, "hobby"), said("Lisbon", 0, "city", quote="live there")
    model = ScriptedChatModel(
        answer(*items), checks("keep", "drop"), answer(*items), checks("drop"), answer(*items)
    )
    memory = memory_of(model=model, detection=STRICT)
    text = "I play chess and live there"

    for report in (
        await memory.remember(text),
        await memory.auto_detect_facts([user(text)], dry_run=True),
    ):
        assert [each.reason.value for each in report.rejected] == ["not confirmed"]
    own = await memory.auto_detect_facts([user(text)], detection=Detection())
    assert own.rejected == []
