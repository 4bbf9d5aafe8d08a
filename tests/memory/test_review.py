"""Reviewing: the inbox, decisions of people, changes, differences and undo."""

import json
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from factmem import LocalFileMemoryProvider, acting, export_facts, import_facts
from factmem.events import MemoryEvent
from factmem.ledger.history import place_digits
from factmem.ledger.ledger import Ledger
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import (
    Concept,
    FactSource,
    FactState,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.models.places import MemorySubject, Place
from factmem.models.when import stamp
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from factmem.testing.clock import SettableClock
from tests.corrections import check_corrections
from tests.world import (
    AGENT,
    ALICE,
    BOB,
    KINDS,
    LANGUAGES,
    THEME,
    USER,
    item,
    memory_of,
    store_of,
    user,
)

CHAT = [user("I prefer the dark theme.")]


CONCEPTS: list[Concept[Any, Any]] = [THEME, LANGUAGES]


SAID = FactSource(SourceKind.USER, "chat", 0, "I prefer the dark theme.")


def memory_that_reads(*answers: object, **options: Any) -> AgentMemory:
    """Return a memory on a new store whose model gives these items."""
    store = options.pop("store", None) or InMemoryProvider()
    model = ScriptedChatModel(*[{"facts": [each]} for each in answers])
    return memory_of(store, model, **options)


async def themes(memory: AgentMemory) -> list[str]:
    return [fact.value for fact in await memory.current(THEME)]


async def test_a_correction_stays_when_the_chat_says_it_again() -> None:
    """The next chat makes a proposal with its quote, once, and prompts keep the correction."""
    memory = memory_that_reads(item(), item(), item(), concepts=[THEME])
    await memory.auto_detect_facts(CHAT)
    (new,) = await memory.review.inbox()
    assert (new.kind, new.fact.values, new.quote, new.actor) == (
        "new",
        ("dark",),
        item()["quote"],
        "detection",
    )

    with acting("jane", reason="the customer called"):
        await memory.review.correct(new, "light")
    for _ in range(2):
        report = await memory.auto_detect_facts(CHAT)
        assert [each.fact.values for each in report.proposed] == [("dark",)]
        assert report.saved == []

    (found,) = await memory.review.inbox()
    assert (found.kind, found.quote) == ("contradiction", item()["quote"])
    assert found.current is not None
    assert (found.current.values, found.current.actor) == (("light",), "jane")
    assert await themes(memory) == ["light"]
    assert "jane" not in await memory.text()
    assert "dark" not in await memory.text()


async def test_keep_and_forget_decide_proposals() -> None:
    """A kept proposal becomes current; a rejected one is only proposed again."""
    concept = Concept(THEME.keyword, THEME.description, review=True)
    memory = memory_that_reads(item(), item(), concepts=[concept])
    await memory.auto_detect_facts(CHAT)
    assert await themes(memory) == []
    (waiting,) = await memory.review.inbox()
    assert (waiting.kind, waiting.fact.state) == ("proposed", FactState.PROPOSED)

    await memory.review.reject(waiting)
    assert await memory.review.inbox() == []
    await memory.auto_detect_facts(CHAT)
    (again,) = await memory.review.inbox()
    with pytest.raises(ValueError, match="no longer in"):
        await memory.review.accept(waiting)
    await memory.review.accept(again)

    (fact,) = await memory.current(concept)
    assert (fact.value, fact.state, fact.actor) == ("dark", FactState.CONFIRMED, "reviewer")
    assert fact.source is not None
    assert fact.source.quote == item()["quote"]
    assert await memory.review.inbox() == []
    with pytest.raises(ValueError, match="has the fact"):
        await memory.review.accept(SingleFact(THEME, "blue"))


async def test_a_person_forgets_what_was_said_at_the_same_time() -> None:
    """As after a clock was set back: an entry is never recorded before the one before it."""
    clock = SettableClock()
    memory = memory_of(InMemoryProvider(clock=clock), clock=clock)
    await memory.save(THEME, "dark")
    await memory.save(LANGUAGES, ["ko", "en"])
    clock.now -= timedelta(minutes=30)
    [theme] = await memory.current(THEME)
    [languages] = await memory.current(LANGUAGES)
    await memory.review.accept(theme)

    await memory.review.reject(theme)
    await memory.review.correct(languages, ["ko", "de"])
    assert await memory.current(THEME) == []
    assert {v for fact in await memory.current(LANGUAGES) for v in fact.values} == {"ko", "de"}


async def test_a_corrected_value_of_many_does_not_come_back() -> None:
    """A model that states the wrong one again proposes it."""
    memory = memory_that_reads()
    wrong = MultipleFacts(LANGUAGES, ["Java", "Go"], source=SAID)
    await memory.store.learn([wrong], ALICE, AGENT)
    (new,) = await memory.review.inbox()

    await memory.review.correct(new, ["Kotlin", "Go"])
    await memory.store.learn([MultipleFacts(LANGUAGES, ["Java", "C"])], ALICE, AGENT)

    current = [value for fact in await memory.current(LANGUAGES) for value in fact.values]
    assert sorted(current) == ["C", "Go", "Kotlin"]
    assert [each.fact.values for each in await memory.review.inbox()] == [("Java",)]


async def test_programs_with_other_definitions_show_what_was_confirmed() -> None:
    """A keyword that has many values for one program, or a former name, shows a person's value."""
    many = Concept(THEME.keyword, THEME.description, FactType.MULTIPLE)
    renamed = Concept("colours", THEME.description, was=[THEME.keyword])
    memory = memory_that_reads(concepts=[THEME])
    await memory.store.save(MultipleFacts(many, ["dark", "blue"]), ALICE, AGENT)
    (shown,) = await memory.current(THEME)
    await memory.review.correct(shown, "light")

    for value in ("dark", "blue", "red"):
        await memory.store.learn([MultipleFacts(many, [value])], ALICE, AGENT)
        await memory.store.learn([SingleFact(renamed, value)], ALICE, AGENT)

    assert await themes(memory) == ["light"]
    assert [fact.value for fact in await memory.store.load(renamed, ALICE, AGENT)] == ["light"]
    await memory.store.save(SingleFact(renamed, "green"), ALICE, AGENT)
    assert [fact.value for fact in await memory.store.load(renamed, ALICE, AGENT)] == ["green"]


async def test_the_end_of_a_confirmed_value_is_decided_by_a_person() -> None:
    """The tool of a model and a chat only propose it."""
    memory = memory_that_reads(item(action="retract"))
    await memory.review.accept(await _saved(memory, "dark"))
    await memory.auto_detect_facts(CHAT)

    (found,) = await memory.review.inbox()
    assert (found.kind, found.is_ending, found.fact.values) == ("contradiction", True, ("dark",))

    await memory.review.reject(found)
    assert await memory.review.inbox() == []
    assert await themes(memory) == ["dark"]
    await memory.review.accept(found)
    assert await themes(memory) == []


async def test_a_tool_does_not_forget_what_a_person_confirmed() -> None:
    """It forgets the other values; a person sees the wish in the inbox."""
    memory = memory_that_reads()
    await memory.save(LANGUAGES, ["Go"], confirmed=True)
    await memory.save(LANGUAGES, ["Java"])
    (forget,) = [each for each in memory.tools() if each.action == "forget"]

    answer = await forget.call({"concept": "languages"})

    assert json.loads(answer)["forgotten"] == json.loads(answer)["proposed"] == 1
    assert [fact.values for fact in await memory.current(LANGUAGES)] == [("Go",)]
    (found,) = [each for each in await memory.review.inbox() if each.is_ending]
    assert (found.fact.values, found.actor) == (("Go",), "memory tools")


async def test_a_merge_forgets_no_confirmed_value() -> None:
    """Of values that mean the same, a person's stays beside the kept one."""
    answer = {"groups": [{"same": [0, 1, 2], "keep": 0}]}
    memory = memory_of(InMemoryProvider(), ScriptedChatModel(answer))
    for value in ("JavaScript", "JS", "ECMAScript"):
        await memory.save(LANGUAGES, [value], confirmed=value == "JS")

    await memory.consolidation.merge(await memory.consolidation.propose(LANGUAGES))

    current = [value for fact in await memory.current(LANGUAGES) for value in fact.values]
    assert sorted(current) == ["ECMAScript", "JS"]
    newest, *_ = await memory.review.changes()
    assert newest.actor == "consolidation"
    await memory.review.undo(newest.id)
    assert len(await memory.current(LANGUAGES)) == 3


async def _saved(memory: AgentMemory, value: str) -> SingleFact[str]:
    fact = SingleFact(THEME, value)
    await memory.store.save(fact, ALICE, AGENT)
    return fact


async def test_changes_name_what_was_replaced_and_by_whom() -> None:
    """Newest first, by actor and by subject; diff compares two times."""
    clock = SettableClock()
    store = InMemoryProvider(clock=clock)
    memory = memory_of(store, clock=clock)
    with acting("robot"):
        await store.save(SingleFact(THEME, "dark", source=SAID), ALICE, AGENT)
    await store.save(SingleFact(THEME, "blue"), BOB, AGENT)
    start = clock.advance()
    with acting("jane", reason="asked"):
        await memory.view(subjects=[ALICE]).review.correct(
            (await store.load(THEME, ALICE, AGENT))[0], "light"
        )

    whole = memory.review
    newest, *others = await whole.changes()
    assert (newest.kind, newest.actor, newest.reason) == ("replaced", "jane", "asked")
    assert [fact.values for fact in newest.added] == [("light",)]
    assert [(fact.values, fact.source) for fact in newest.removed] == [(("dark",), SAID)]
    assert [each.actor for each in await whole.changes(actor="robot")] == ["robot"]
    assert [each.actor for each in await whole.changes(since=start)] == ["jane"]
    assert all(each.actor in {"robot", "application"} for each in others)
    (found,) = await whole.diff(timedelta(seconds=1), subjects=[ALICE])
    assert [fact.values for fact in found.before] == [("dark",)]
    assert [fact.values for fact in found.after] == [("light",)]


async def test_undo_is_refused_if_something_rests_on_it() -> None:
    """The error names the later change; undone in order, all is as before."""
    memory = memory_that_reads()
    await _saved(memory, "dark")
    await _saved(memory, "blue")
    await _saved(memory, "red")
    third, second, _ = await memory.review.changes()

    with pytest.raises(ValueError, match=f"undo '{third.id}' first"):
        await memory.review.undo(second.id)
    await memory.review.undo(third.id)
    assert await themes(memory) == ["blue"]
    undone = await memory.review.undo(second.id)
    assert await themes(memory) == ["dark"]
    await memory.review.undo(undone)
    assert await themes(memory) == ["blue"]
    with pytest.raises(ValueError, match="erased"):
        await memory.review.undo("0" * 16)
    assert {each.actor for each in await memory.review.changes()} == {"application", "reviewer"}


async def test_an_undo_finds_its_place_among_those_of_equal_digits() -> None:
    """Ids begin with six digits of the place, which two of some thousand users share."""
    known: dict[str, MemorySubject] = {}
    pair: list[MemorySubject] = []
    for number in range(100_000):
        who = USER.of(f"user-{number}")
        digits = place_digits(Place(AGENT, who).identity)
        if digits in known:
            pair = [known[digits], who]
            break
        known[digits] = who
    memory = memory_of(InMemoryProvider())
    for who in pair:
        for value in ("dark", "light"):
            await memory.store.save(SingleFact(THEME, value), who, AGENT)

    for who in pair:
        newest, *_ = await memory.review.changes(subjects=[who])
        await memory.review.undo(newest.id)
        assert [fact.value for fact in await memory.store.load(THEME, who, AGENT)] == ["dark"]


async def test_a_large_save_and_its_bundle_are_split_with_their_actor(tmp_path: Path) -> None:
    """Each part names it, in the store and in the bundle."""
    facts = [SingleFact(Concept(f"k{number}", "Anything"), "v" * 99) for number in range(1000)]
    async with LocalFileMemoryProvider(tmp_path / "store") as store:
        with acting("jane", reason="moved"):
            await store.save_many(facts, ALICE, AGENT)
        entries = await store.entries(ALICE, AGENT)
        await export_facts(store, tmp_path / "bundle")
    other = InMemoryProvider()
    with acting("joe"):
        await import_facts(tmp_path / "bundle", other)

    assert len(entries) > 1
    for found in (entries, await other.entries(ALICE, AGENT)):
        assert {(each.get("actor"), each.get("reason")) for each in found} == {("jane", "moved")}
        assert max(len(each.get("facts", ())) for each in found) <= 256


async def test_events_name_the_actor() -> None:
    """They have no values."""
    events: list[MemoryEvent] = []
    memory = memory_of(InMemoryProvider(), listeners=[events.append])

    with acting("jane", reason="asked"):
        await memory.store.save(SingleFact(THEME, "dark"), ALICE, AGENT)

    assert [(each.actor, each.reason) for each in events] == [("jane", "asked")]
    with pytest.raises(ValueError, match="must not be empty"), acting(" "):
        pass


@pytest.mark.parametrize("seed", range(20))
async def test_the_undo_of_random_changes_is_the_state_before(seed: int) -> None:
    """The whole state of a place, by a copy that was made before the change."""
    rng, clock = random.Random(seed), SettableClock()
    store = InMemoryProvider(clock=clock)
    memory = memory_of(store, clock=clock)
    for _ in range(50):
        before = await _state(memory)
        changed = await _random_change(memory, rng, clock)
        if not changed:
            continue
        clock.advance()
        (newest, *_) = await memory.review.changes(limit=1)
        after = await _state(memory)
        if rng.random() < 0.5 and before != after:
            undone = await memory.review.undo(newest.id)
            assert await _state(memory) == before
            if rng.random() < 0.5:
                await memory.review.undo(undone)
                assert await _state(memory) == after


async def _random_change(memory: AgentMemory, rng: random.Random, clock: SettableClock) -> bool:
    value, concept = rng.choice("abcd"), rng.choice(CONCEPTS)
    state = rng.choice([FactState.STATED, FactState.CONFIRMED, FactState.PROPOSED])
    more: Any = {
        "timestamp": clock(),
        "importance": rng.choice([0.5, 0.9]),
        "source": rng.choice([None, SAID, FactSource(SourceKind.USER, "mail", quote=value)]),
        "metadata": rng.choice([{}, {"ticket": value}]),
        "state": state,
    }
    fact: Any = (
        SingleFact(THEME, value, **more)
        if concept is THEME
        else MultipleFacts(LANGUAGES, rng.sample("abcdef", 2), **more)
    )
    with acting(rng.choice(["jane", "joe"])):
        match rng.choice(["save", "learn", "forget", "review"]):
            case "save":
                await memory.store.save(fact, ALICE, AGENT)
            case "learn":
                await memory.store.learn([fact], ALICE, AGENT)
            case "forget":
                return bool(await memory.store.forget(ALICE, AGENT, concept=concept))
            case _:
                items = await memory.review.inbox(since=None)
                if not items:
                    return False
                decide = rng.choice([memory.review.accept, memory.review.reject])
                await decide(rng.choice(items))
    return True


async def _state(memory: AgentMemory) -> list[str]:
    """Return every current and proposed value with its fields, and the proposed ends."""
    ledger, now = Ledger(await memory.store.entries(ALICE, AGENT)), stamp(memory.clock())
    found = [
        (
            keyword,
            key,
            *(getattr(item, name) for name in _FIELDS),
            item.state.replace("learnt", "saved"),
        )
        for keyword, held in ledger.state().by_keyword.items()
        for key, item in held.all_items()
        if item.is_alive(now)
    ]
    ends = [each.fact.text for each in ledger.proposals((), now) if each.is_ending]
    return sorted(map(str, [*found, *ends]))


_FIELDS = ("by", "importance", "expires_at", "metadata", "sources", "timestamp", "since", "until")


@pytest.mark.parametrize("kind", KINDS)
async def test_corrections_stay(kind: str, tmp_path: Path) -> None:
    """In every kind of local store."""
    async with store_of(kind, tmp_path) as store:
        await check_corrections(store, corrections=6, detections=40)
