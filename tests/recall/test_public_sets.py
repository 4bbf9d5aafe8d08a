"""The loaders of public sets on small files, and the measures on rankings by hand."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recall import public
from benchmarks.recall.measures import Ranked, Scores, interval, mean, scored
from benchmarks.recall.public_sets import SETS, Asked, Chat, Turn, hashes
from tests.tables import table

DATA = Path(__file__).parents[1] / "data" / "public_sets"
"""Two chats, and a few questions, in the form of each set."""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Copy small files in the published forms."""
    for name in ("locomo10.json", "longmemeval_s.json"):
        shutil.copy(DATA / name, tmp_path)
    for number in ("10", "2"):
        folder = tmp_path / "100K" / number / "probing_questions"
        folder.mkdir(parents=True)
        shutil.copy(DATA / "beam_chat.json", folder.parent / "chat.json")
        shutil.copy(DATA / "beam_probes.json", folder / "probing_questions.json")
    return tmp_path


def chats(name: str, path: Path) -> list[Chat]:
    return list(SETS[name].chats(path))


def test_locomo_is_read(files: Path) -> None:
    """Sessions by number, captions as words, evidence repaired, tricks without an answer."""
    [chat] = chats("locomo", files / "locomo10.json")

    assert [turn.id for turn in chat.turns] == ["D1:1", "D1:2", "D2:1", "D10:1"]
    assert chat.turns[1].text == "Look! [a sailing boat]"
    assert [str(turn.said_at) for turn in chat.turns[1:]] == [
        "2023-05-08 13:56:00+00:00",
        "2023-05-09 09:05:00+00:00",
        "None",
    ]
    single, hops, trick, none = chat.questions
    assert (single.kind, set(single.turns), single.answer) == ("single hop", {"D1:1"}, "Rex")
    assert hops.turns == {"D1:1", "D1:2", "D2:1", "D10:1"}
    assert hops.sessions == {"session_1", "session_2", "session_10"}
    assert (trick.has_answer, trick.turns) == (False, frozenset())
    assert (none.has_answer, none.turns, none.answer) == (True, frozenset(), "3")
    assert chat.ignored == 1


def test_longmemeval_is_read(files: Path) -> None:
    """Each question has a chat of its own, and the time at which it is asked."""
    update, abstention = chats("longmemeval", files / "longmemeval_s.json")

    assert [(t.id, t.speaker, t.session) for t in update.turns] == [
        ("0:0", "user", "s1"),
        ("0:1", "assistant", "s1"),
        ("1:0", "user", "s2"),
    ]
    [asked] = update.questions
    assert (set(asked.turns), set(asked.sessions), asked.is_update) == (
        {"0:0", "1:0"},
        {"s1", "s2"},
        True,
    )
    assert str(asked.asked_at) == "2023-06-01 10:00:00+00:00"
    [asked] = abstention.questions
    assert (asked.kind, asked.has_answer, asked.sessions) == ("abstention", False, frozenset())


def test_beam_is_read(files: Path) -> None:
    """A folder for each chat, messages at any depth, without the arrows around them."""
    found = chats("beam", files / "100K")

    assert [chat.name for chat in found] == ["2", "10"]
    chat = found[0]
    assert [(t.id, t.text) for t in chat.turns] == [
        ("0", "I plan a trip to Oslo."),
        ("1", "When? -> soon"),
        ("2", "In May"),
        ("3", "The trip is in June now."),
    ]
    assert chat.turns[0].session == chat.turns[1].session != chat.turns[3].session
    update, order, abstention = chat.questions
    assert (set(update.turns), update.is_update) == ({"2", "3"}, True)
    assert (set(order.turns), order.answer) == ({"0", "2", "3"}, '["trip", "May"]')
    assert not abstention.has_answer
    assert chat.ignored == 1


TURNS = {each: Turn(each, "user", each, session=each[0]) for each in ("a1", "a2", "b1", "b2", "c1")}
ORDER = {each: at for at, each in enumerate(TURNS)}


def of(asked: Asked, *found: str) -> Scores:
    return scored(asked, Ranked([TURNS[each] for each in found], 7), (1, 3), ORDER)


def test_measures_of_a_ranking() -> None:
    """Two right messages, in two sessions: one is second, the other is not found."""
    asked = Asked("?", "kind", frozenset({"a1", "c1"}), frozenset({"a", "c"}))

    assert of(asked, "b1", "a1", "b2") == {
        "tokens": 7.0,
        "empty": 0.0,
        "any@1": 0.0,
        "all@1": 0.0,
        "recall@1": 0.0,
        "session@1": 0.0,
        "any@3": 1.0,
        "all@3": 0.0,
        "recall@3": 0.5,
        "session@3": 1.0,
        "MRR": 0.5,
    }
    assert of(asked)["empty"] == 1.0
    assert of(Asked("?", "kind", has_answer=False), "a1") == {
        "tokens": 7.0,
        "empty, no answer": 0.0,
    }
    assert of(Asked("?", "kind"), "a1") == {"tokens": 7.0, "empty": 0.0}


@table(
    ("found", "stale"),
    [(("a1", "b1"), 1.0), (("b1", "a1"), 0.0), (("c1", "a1"), 1.0), (("c1",), None)],
)
def test_an_older_value_before_the_newer_one_is_stale(
    found: tuple[str, ...], stale: float | None
) -> None:
    """Of questions whose answer changed."""
    asked = Asked("?", "update", frozenset({"a1", "b1"}), is_update=True)

    assert of(asked, *found).get("stale") == stale


def test_intervals_draw_conversations() -> None:
    """Questions of one conversation are not independent: the interval is wide with two of them."""
    clusters: list[list[Scores]] = [[{"any@5": 1.0}] * 50, [{"any@5": 0.0}] * 50]
    many: list[list[Scores]] = [[{"any@5": float(n % 2)}] for n in range(100)]

    assert mean([each for cluster in clusters for each in cluster], "any@5") == 0.5
    assert interval(clusters, "any@5") == (0.0, 1.0)
    low, high = interval(many, "any@5") or (0, 0)
    assert 0.38 < low < 0.45
    assert 0.55 < high < 0.62
    assert interval(clusters[:1], "any@5") is None
    assert interval(clusters, "MRR") is None


@pytest.mark.parametrize(
    ("name", "data"),
    [("locomo", "locomo10.json"), ("longmemeval", "longmemeval_s.json"), ("beam", "100K")],
)
async def test_a_run_measures_each_method(files: Path, name: str, data: str) -> None:
    """Over the same questions, with the full context as the most that can be found."""
    methods = public.methods_of(None)
    kept = {each: methods[each] for each in ("grep", "recall: words", "full context")}
    found = chats(name, files / data)

    results = public.report(await public.measured(found, kept), found)

    count = sum(len(chat.questions) for chat in found)
    assert {each["all"]["questions"] for each in results.values()} == {count}
    assert results["recall: words"]["all"]["any@5"]["mean"] == 1.0
    whole = results["full context"]["all"]
    assert whole["tokens"]["mean"] >= results["grep"]["all"]["tokens"]["mean"]
    assert "recall: words" in public.table(results)
    kinds = {asked.kind for chat in found for asked in chat.questions}
    assert set(results["grep"]) == {"all", *kinds}


def test_help_names_source_and_licence() -> None:
    """Of each set, before anyone fetches it."""
    text = public.parser().format_help()

    for each in SETS.values():
        assert each.source in text
        assert each.licence in text
        assert each.data in text


def test_results_name_the_data_by_its_hash(files: Path) -> None:
    """Each file that was read, so that a stranger can compare."""
    one = hashes(files / "locomo10.json")
    many = hashes(files / "100K")

    assert list(one) == ["locomo10.json"]
    assert len(many) == 4
    assert all(len(each) == 64 for each in (*one.values(), *many.values()))


async def test_equal_messages_are_two(files: Path) -> None:
    """Each counts as evidence by itself."""
    turns = [Turn(str(n), "user", "Yes, of course.", "s") for n in range(3)]
    chat = Chat("c", turns, [Asked("Of course?", "kind", frozenset({"2"}))])

    ask: Any = await public.methods_of(None)["recall: words"](chat)

    assert sorted(await ask(chat.questions[0])) == [0, 1, 2]
