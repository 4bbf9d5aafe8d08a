"""Changes of concepts over all users: rename, merge, convert."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.ledger.entries import Entry
from factmem.ledger.ledger import Ledger
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.concept_changes import KeywordMerge
from factmem.models.facts import Concept, FactState, FactType, MultipleFacts, SingleFact
from factmem.models.places import MemorySubject, Place
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.results import RetractedFact
from factmem.providers.store import FactStore
from factmem.testing.clock import SettableClock
from tests.doubles import BareProvider
from tests.ledgers import KEYWORDS, Step, entries_of, ledgers, searched, stamp
from tests.world import AGENT, ALICE, BOB, KINDS, THEME, USER, memory_of, store_of, theme

CITY = Concept("city", "The city where the user lives")


HOME = Concept("home-city", "The user's home")


PETS = Concept("pets", "The user's pets", FactType.MULTIPLE)


PET = Concept("pet", "The user's pet")


ANIMALS = Concept("animals", "Animals of the user", FactType.MULTIPLE)


CAROL = USER.of("carol")
HERE = Place(AGENT, ALICE)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FactStore:
    """Return a store of each kind that needs no server."""
    return store_of(request.param, tmp_path)


@pytest.fixture
def memory(store: FactStore) -> AgentMemory:
    return memory_of(store, subjects=[ALICE])


async def values(store: FactStore, who: MemorySubject) -> dict[str, list[Any]]:
    """Return the current values of a user, by keyword."""
    found: dict[str, list[Any]] = {}
    for fact in await store.load_all(who, AGENT):
        found.setdefault(fact.concept.keyword, []).extend(fact.values)
    return found


async def filled(store: FactStore) -> None:
    """Alice has both keywords, Bob the old one, Carol the new one."""
    await store.save(SingleFact(HOME, "Busan"), ALICE, AGENT)
    await store.save(SingleFact(CITY, "Seoul"), ALICE, AGENT)
    await store.save(SingleFact(HOME, "Jeju"), BOB, AGENT)
    await store.save(SingleFact(CITY, "Daegu"), CAROL, AGENT)


async def test_a_user_with_both_keywords_stops_no_other(
    store: FactStore, memory: AgentMemory
) -> None:
    """A dry run says what would happen; the refused user is renamed with a rule."""
    await filled(store)
    seen: list[tuple[int, int]] = []

    def progress(done: int, of: int) -> None:
        seen.append((done, of))

    dry = await memory.contents.rename("home-city", CITY, dry_run=True)
    assert await values(store, BOB) == {"home-city": ["Jeju"]}
    done = await memory.contents.rename("home-city", CITY, progress=progress)

    assert (dry.changes, dry.is_dry_run) == (done.changes, True)
    assert [str(place.subject.entity) for place in done.places] == ["bob"]
    (refused,) = done.refused
    assert (refused.place.subject.entity, refused.has_both, refused.values) == ("alice", True, 1)
    assert refused.problem is not None
    assert "if_both" in refused.problem
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert await values(store, ALICE) == {"home-city": ["Busan"], "city": ["Seoul"]}

    again = await memory.contents.rename("home-city", CITY, if_both="later")

    assert [(each.place.subject.entity, each.has_both) for each in again.changes] == [
        ("alice", True)
    ]
    assert await values(store, ALICE) == {"city": ["Seoul"]}
    assert (await memory.contents.rename("home-city", CITY)).changes == []


async def test_keywords_are_merged(store: FactStore, memory: AgentMemory) -> None:
    """Several keywords, one with a single value that was replaced before."""
    await store.save(MultipleFacts(PETS, ["Miso"]), ALICE, AGENT)
    await store.save(SingleFact(PET, "Tom"), ALICE, AGENT)
    await store.save(SingleFact(PET, "Rex"), ALICE, AGENT)
    await store.save(MultipleFacts(ANIMALS, ["Rex", "Ant"]), ALICE, AGENT)

    report = await memory.contents.rename(["pet", "animals"], PETS, if_both="both")

    assert report.values == 3
    assert {name: sorted(found) for name, found in (await values(store, ALICE)).items()} == {
        "pets": ["Ant", "Miso", "Rex"]
    }
    assert (await memory.contents.rename(["pet", "animals"], PETS, if_both="both")).changes == []


async def test_a_function_decides(store: FactStore, memory: AgentMemory) -> None:
    """Its error refuses the place, and is not shown: its text may be a value."""
    await filled(store)

    def broken(former: list[str], new: list[str]) -> str:
        raise ValueError(former, new)

    refused = await memory.contents.rename("home-city", CITY, if_both=broken)
    assert [each.problem for each in refused.refused] == ["if_both raised ValueError"]
    wrong = await memory.contents.rename("home-city", CITY, if_both=lambda old, new: (old, new))
    assert len(wrong.refused) == 1

    await memory.contents.rename(
        "home-city", CITY, if_both=lambda old, new: f"{old[0]} and {new[0]}"
    )

    assert await values(store, ALICE) == {"city": ["Busan and Seoul"]}
    assert await values(store, BOB) == {"city": ["Jeju"]}


async def test_a_function_decides_about_many_values(store: FactStore, memory: AgentMemory) -> None:
    """It returns all that the place keeps; each becomes a value of its own."""
    await store.save(MultipleFacts(ANIMALS, ["Rex", "Ant"]), ALICE, AGENT)
    await store.save(MultipleFacts(PETS, ["Miso"]), ALICE, AGENT)

    report = await memory.contents.rename(
        "animals", PETS, if_both=lambda old, new: [*new, old[0], "Tom"]
    )

    assert report.refused == []
    kept = await values(store, ALICE)
    assert {name: sorted(found) for name, found in kept.items()} == {"pets": ["Miso", "Rex", "Tom"]}


async def test_what_was_saved_during_a_conversion_is_not_converted(
    store: FactStore, memory: AgentMemory
) -> None:
    """A killed conversion is repeated while new programs save values of the new type."""
    price = Concept("price", "What it costs, in cents", value_type=int)
    await store.save(SingleFact(price, 3), ALICE, AGENT)
    await store.save(SingleFact(price, 4), BOB, AGENT)

    def once(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await memory.contents.convert(price, lambda each: each * 100, operation="c", progress=once)
    await store.save(SingleFact(price, 550), CAROL, AGENT)
    report = await memory.contents.convert(price, lambda each: each * 100, operation="c")

    assert len(report.places) == 1
    found = [(await values(store, who))["price"] for who in (ALICE, BOB, CAROL)]
    assert found == [[300], [400], [550]]


@pytest.mark.parametrize(
    ("keywords", "concept", "rule", "message"),
    [
        (["city"], CITY, None, "other concepts than 'city'"),
        ([], CITY, None, "other concepts"),
        (["home-city"], CITY, "both", "has one value"),
        (["home-city"], CITY, "newest", "if_both must be"),
    ],
)
async def test_wrong_merges(keywords: list[str], concept: Any, rule: Any, message: str) -> None:
    """They raise before anything is read."""
    with pytest.raises(ValueError, match=message):
        await memory_of().contents.rename(keywords, concept, if_both=rule)


RULES: dict[str, Any] = {
    "later": "later",
    "both": "both",
    "function": lambda old, new: [*old, *new][:2],
}


def _current(entries: Sequence[Entry], keywords: Sequence[str]) -> set[tuple[str, bytes | str]]:
    ledger = Ledger(entries)
    return {(each, key) for each in keywords for key in ledger.items(each, stamp(99))}


def _saved(entries: Sequence[Entry]) -> set[str]:
    """Return all values of a ledger with its history, as strings."""
    facts = [fact for entry in entries for fact in entry.get("facts", ())]
    return {repr(value) for f in facts for value in [*f.get("values", ()), f.get("value", ...)]}


@searched
@given(ledgers(), st.sampled_from(list(RULES)), st.sampled_from(FactType))
def test_a_merge_loses_nothing(steps: list[Step], rule: str, fact_type: FactType) -> None:
    """Afterwards there are the wanted values and no former ones, and the history is whole."""
    old, new = KEYWORDS
    entries = entries_of(steps)
    now = max(stamp(98), Ledger(entries).recorded_at)
    rule = "later" if rule == "both" and fact_type is FactType.SINGLE else rule
    function = RULES[rule]
    if rule == "function" and fact_type is FactType.SINGLE:
        function = lambda old, new: [*old, *new][0]
    concept = Concept(new, "New", fact_type, value_type=Any)
    merge = KeywordMerge([old], concept, function, now)
    before = _current(entries, KEYWORDS)

    plan = merge.of(HERE, entries)
    if plan is None:
        assert old not in {f["keyword"] for e in entries for f in e.get("facts", ())}
        return
    assert plan.change.problem is None
    after = plan.history if plan.history is not None else [*entries, *filter(None, [plan.entry])]

    found = _current(after, KEYWORDS)
    assert {keyword for keyword, _ in found} <= {new}
    kept = {key for _, key in found}
    assert kept <= {key for _, key in before}
    if len({keyword for keyword, _ in before}) < 2 or rule == "both":
        assert kept == {key for _, key in before}
    assert bool(kept) == bool(before)
    assert _saved(entries) <= _saved(after)
    again = merge.of(HERE, after)
    assert again is None or again.change.values == 0


async def test_what_a_person_confirmed_stays_so(store: FactStore, memory: AgentMemory) -> None:
    """A value that a model learnt later does not end it, and the state of each value stays."""
    await memory.save(HOME, "Busan", confirmed=True)
    await store.learn([SingleFact(CITY, "Seoul")], ALICE, AGENT)
    await store.learn([SingleFact(HOME, "Jeju")], BOB, AGENT)
    await store.save(MultipleFacts(PETS, ["Miso"]), BOB, AGENT)

    await memory.contents.rename("home-city", CITY, if_both="later")

    (alice,) = await store.load(CITY, ALICE, AGENT)
    (bob,) = await store.load(CITY, BOB, AGENT)
    assert (alice.value, alice.state) == ("Busan", FactState.CONFIRMED)
    assert (bob.value, bob.state) == ("Jeju", FactState.STATED)


async def test_a_retraction_under_the_new_keyword_ends_no_value(
    store: FactStore, memory: AgentMemory
) -> None:
    """What holds under the former keyword holds under the new one."""
    home = SingleFact(HOME, "Busan")
    await store.save(home, ALICE, AGENT)
    await store.learn([], ALICE, AGENT, retracted=[RetractedFact(CITY, "Busan", datetime.now(UTC))])

    await memory.contents.rename("home-city", CITY)

    assert await values(store, ALICE) == {"city": ["Busan"]}


LOOK = Concept("look", "The look of the user's IDE", was=["ide-theme"])


WORDS = Concept("words", "Words", FactType.MULTIPLE)


TERMS = Concept("terms", "Words", FactType.MULTIPLE, was=["words"])


@pytest.mark.parametrize("is_bare", [False, True])
async def test_a_renamed_concept_is_one_concept_in_a_memory(is_bare: bool) -> None:
    """In loads, prompts and recalls, with any provider."""
    store = InMemoryProvider()
    await store.save(theme("dark"), ALICE, AGENT)
    await store.save(MultipleFacts(WORDS, ["tea"]), ALICE, AGENT)
    provider: Any = BareProvider(store) if is_bare else store
    memory = memory_of(provider, concepts=[LOOK, TERMS], subjects=[ALICE])

    known = await memory.current()
    report = await memory.load_facts_to_agent([])
    (match, *_) = await memory.recall("Which look?")

    assert {fact.concept.keyword: fact.values for fact in known} == {
        "look": ("dark",),
        "terms": ("tea",),
    }
    assert "ide-theme" not in report.text
    assert (match.fact.concept, match.fact.values) == (LOOK, ("dark",))


async def test_an_update_writes_the_new_keyword() -> None:
    """Of a fact with one value, and of one with many."""
    store = InMemoryProvider(clock=SettableClock())
    await store.save(theme("dark"), ALICE, AGENT)
    await store.save(MultipleFacts(WORDS, ["tea", "cup"]), ALICE, AGENT)
    memory = memory_of(store, concepts=[LOOK, TERMS], subjects=[ALICE])
    ids = {fact.concept.keyword: fact.id for fact in await memory.current()}

    await memory.contents.update(ids["look"], value="light")
    await memory.contents.update(ids["terms"], values=["tea", "mug"])

    stored = {fact.concept.keyword: fact.values for fact in await store.load_all(ALICE, AGENT)}
    assert stored == {"look": ("light",), "terms": ("tea", "mug")}


async def test_a_former_keyword_cannot_be_declared_too() -> None:
    with pytest.raises(ValueError, match="'ide-theme' is a former keyword of 'look'"):
        memory_of(concepts=[THEME, LOOK])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"was": "city"}, "was must be a list"),
        ({"was": [""]}, "keyword in was"),
        ({"was": ["home"]}, "must not contain the keyword"),
        ({"read": 7}, "read must be a function"),
    ],
)
def test_former_keywords_and_readers_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Concept("home", "Home", **options)


def test_equal_concepts_may_have_other_former_keywords() -> None:
    """The facts that they load are the same kind of facts."""
    assert Concept("look", "The look of the user's IDE") == LOOK
    assert SingleFact(LOOK, "dark").concept.keywords == ("look", "ide-theme")
