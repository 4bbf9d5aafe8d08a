"""Recall, tools, events and listings of a view show nothing of other places.

Every place holds a fact whose keyword, description, value and quote are its own, so that a trace of
it would be seen wherever it came out.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factmem.embedding.base import CallableEmbedder
from factmem.errors import MemoryAccessError
from factmem.events import MemoryEvent
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept, FactSource, SingleFact, SourceKind
from factmem.models.places import (
    MemoryScope,
    MemoryScopesProfile,
    MemoryScopeType,
    MemorySubject,
    Place,
)
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.store import FactStore
from factmem.recall.match import RecallResult
from factmem.testing.chat import ScriptedChatModel
from factmem.transfer.bundle import export_facts
from tests.properties import examples

NAMES = ["team", "team2", "a", "a/b", "A", "a%", "..", "café", "cafe\u0301", "*", "null"]
"""Names that a careless store would mix up; two of them are equal in NFC."""
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven"]
"""Return a word for each place that no other string contains."""
SHARED = "shared words of everybody"
ALL_WORDS = " ".join([SHARED, *(f"{kind}{n}" for n in NUMBERS for kind in ("value", "quote"))])


def subject_of(name: str, entity: str | None) -> MemorySubject:
    return MemorySubject(name, "", 1, per_entity=entity is not None, entity=entity)


def described(places: list[Place]) -> list[Place]:
    """Give each subject a description that only its place has."""
    return [
        Place(place.scope, replace(place.subject, prompt_description=f"told{n}"))
        for n, place in zip(NUMBERS, places, strict=False)
    ]


SUBJECTS = st.builds(subject_of, st.sampled_from(NAMES), st.none() | st.sampled_from(NAMES))
SCOPES = st.builds(
    MemoryScope,
    st.sampled_from([MemoryScopeType.AGENT, MemoryScopeType.PRODUCT]),
    st.sampled_from(NAMES),
)
PLACES = st.lists(
    st.builds(Place, SCOPES, SUBJECTS),
    min_size=2,
    max_size=len(NUMBERS),
    unique_by=lambda place: place.identity,
).map(described)
SETTINGS = settings(
    max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
EMBEDDER = CallableEmbedder(
    lambda texts: [[float(text.count(n)) for n in NUMBERS] + [0.3] for text in texts], model="count"
)


def fact_of(number: int) -> SingleFact[str]:
    n = NUMBERS[number]
    source = FactSource(SourceKind.USER, f"talk{n}", 0, f"quote{n}")
    return SingleFact(Concept(f"keyword{n}", f"about{n}"), f"value{n} {SHARED}", source=source)


async def stored(places: Sequence[Place], among: Iterable[int] | None = None) -> InMemoryProvider:
    """Create a store with a fact in each place, or only in some places."""
    store = InMemoryProvider()
    for number, place in enumerate(places):
        if among is None or number in among:
            await store.save(fact_of(number), place.subject, place.scope)
    return store


def words_of(numbers: Iterable[int]) -> set[str]:
    kinds = ("keyword", "about", "value", "quote", "talk", "told")
    return {f"{kind}{NUMBERS[number]}" for number in numbers for kind in kinds}


def assert_silent(told: object, outside: Iterable[int]) -> None:
    """No word of `told` comes from a place outside."""
    text = told if isinstance(told, str) else repr(told)
    assert not [word for word in words_of(outside) if word in text]


def deep(model_says: Any) -> ScriptedChatModel:
    return ScriptedChatModel(*[model_says] * 20)


def named(places: Iterable[Place]) -> tuple[list[MemorySubject], list[MemoryScope]]:
    """Return the objects of a caller who knows names only."""
    bare = [Place.of_identity(place.identity) for place in places]
    return [place.subject for place in bare], [place.scope for place in bare]


async def asked(memory: AgentMemory, places: Sequence[Place]) -> list[RecallResult]:
    """Return all results of recall, for any named subject."""
    subjects, scopes = named(places)
    return [
        await memory.recall(ALL_WORDS, limit=99),
        await memory.recall(ALL_WORDS, limit=99, subjects=subjects, scopes=scopes),
        *[
            await memory.recall(f"value{n}", subjects=subjects, scopes=scopes)
            for n in NUMBERS[: len(places)]
        ],
    ]


@given(places=PLACES, data=st.data())
@SETTINGS
async def test_no_path_of_a_view_shows_what_is_outside(places: list[Place], data: Any) -> None:
    """It covers reads, recall, prompts, tools, contents, history, events and erasures."""
    inside = data.draw(st.sets(st.sampled_from(range(len(places)))))
    outside = set(range(len(places))) - inside
    shown = [places[number] for number in sorted(inside)]
    identities = {place.identity for place in shown}
    store, events = await stored(places), list[MemoryEvent]()
    names = [place.subject.name for place in places]
    model = deep({"queries": [SHARED, *(f"value{n}" for n in NUMBERS[:2])], "subjects": names})
    memory = AgentMemory(
        store,
        chat_model=model,
        embedder=EMBEDDER,
        scopes=MemoryScopesProfile(agent="team"),
        listeners=[events.append],
    )
    for other in (memory.view(places=places), memory.view(places=places[:1])):
        await asked(other, places)  # so that indexes and vectors of all places exist
    events.clear()
    model.calls.clear()
    view = memory.view(places=shown)

    results = await asked(view, places)
    for result in results:
        assert {match.place.identity for match in result} <= identities
        assert_silent([match.fact for match in result], outside)
    assert len(results[0]) <= len(inside)
    for rules, _ in model.calls:
        assert_silent(rules["content"], outside)
        listed = str(rules["content"]).partition("Subjects\n")[2].partition("\n\n")[0]
        named = {json.loads(line)["name"] for line in listed.splitlines()}
        assert named == {place.subject.name for place in shown}
    for prompt in await _prompts(view, places):
        assert_silent(prompt, outside)
    assert_silent(await _looked_around(view, places), outside)
    if inside:
        for answer in await _told_by_tools(view):
            assert_silent(answer, outside)
    for event in events:
        assert_silent(event.error_type, outside)
        assert event.operation != "recall" or event.count <= len(inside)
    for event in events:
        if event.operation in ("recall", "embed"):
            assert {place.identity for place in event.places} <= identities
    counts = {info.place.identity: info.count for info in await view.contents.places()}
    assert counts == dict.fromkeys(identities, 1)
    for number, place in enumerate(places):
        here = (place.subject, place.scope)
        found = await view.store.load(fact_of(number).concept, *here)
        assert bool(found) is (number in inside)
        if number in inside:
            await view.store.erase(*here)
        else:
            with pytest.raises(MemoryAccessError):
                await view.store.erase(*here)
    left = {info.place.identity for info in await store.places()}
    assert left == {places[number].identity for number in outside}


async def _prompts(view: AgentMemory, places: Sequence[Place]) -> list[str]:
    subjects, scopes = named(places)
    chats: list[list[dict[str, Any]]] = [[{"role": "user", "content": ALL_WORDS}] for _ in "123"]
    await view.recall_facts_to_agent(chats[0], SHARED, limit=99)
    await view.recall_facts_to_agent(chats[1], SHARED, limit=99, subjects=subjects, scopes=scopes)
    await view.view(subjects=subjects, scopes=scopes).load_facts_to_agent(chats[2])
    return [json.dumps([m for m in chat if m.get("name")]) for chat in chats]


async def _looked_around(view: AgentMemory, places: Sequence[Place]) -> list[object]:
    contents, seen = view.contents, view.provider
    assert isinstance(seen, FactStore)
    bundle = BytesIO()
    await export_facts(seen, bundle, places=places)
    found: list[object] = [
        str(await contents.tree()),
        await contents.concepts(),
        await contents.records(),
        [str(info) for info in await contents.places()],
        [str(info.place) for info in (await contents.reset()).places],
        bundle.getvalue().decode(),
    ]
    for number, place in enumerate(places):
        fact = fact_of(number)
        here: dict[str, Any] = {"subjects": [place.subject], "scopes": [place.scope]}
        found += [
            await seen.load_all(place.subject, place.scope),
            await seen.load_by_description(fact.concept.keyword, place.subject, place.scope),
            await seen.entries(place.subject, place.scope),
            await seen.history(fact.concept, place.subject, place.scope),
            await seen.places(**here),
            await view.view(**here).current(),
            await view.view(**here).why(fact),
        ]
    return found


async def _told_by_tools(view: AgentMemory) -> list[str]:
    tools = {tool.name: tool for tool in view.tools("")}
    answers = [
        await tools["recall"].call(json.dumps({"query": SHARED, "limit": 99})),
        await tools["recall"].call(json.dumps({"query": SHARED, "concepts": ["keywordone"]})),
        await tools["list_concepts"].call("{}"),
    ]
    for answer in (answers[0], answers[2]):
        assert json.loads(answer)["found"] <= len(await view.contents.places())
    return answers
