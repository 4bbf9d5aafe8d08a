"""Signals beside a fact's own words: the chat around it, and names and days in the question."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import isinf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.recall.times import run as run_times
from factmem._text.analysis import words
from factmem.ledger.resolution import PlacedFact
from factmem.models.facts import Concept, FactSource, FactType, MultipleFacts, SourceKind
from factmem.models.places import Place
from factmem.models.recall_filter import RecallFilter
from factmem.providers.in_memory import InMemoryProvider
from factmem.recall._documents import Conversations, asked_spans, clause_of_time, named_entity
from factmem.recall._fact_index import FactIndex
from factmem.recall.match import RecallQuery, RecallSettings
from tests.doubles import TopicEmbedder
from tests.tables import table
from tests.world import (
    AGENT,
    ALICE,
    BOB,
    COMPANY,
    NOW,
    PRODUCT,
    bare_note,
    bare_notes,
    found_values,
    recall_memory,
)

CLOCK = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Score by words alone, so that the expected scores are those of the formula."""
    monkeypatch.setattr("factmem.recall._bm25.SIMILAR", 1e-9)
    monkeypatch.setattr("factmem.recall._bm25.LETTERS", 0.0)


def turn(message: int | None, text: str, conversation: str = "chat", **fields: Any) -> Any:
    source = FactSource(SourceKind.USER, conversation=conversation, message=message)
    return bare_notes("said", text, source=source, **fields)


@pytest.fixture(params=[0, 10**9], ids=["numpy", "python"], autouse=True)
def worth_numpy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute words alone with arrays, and with dictionaries."""
    monkeypatch.setattr("factmem.recall._fact_index._WORTH_NUMPY", request.param)


CHAT = [
    (BOB, turn(6, "I booked the trip to Lisbon")),
    (ALICE, turn(7, "how will you get there?")),
    (BOB, turn(8, "by ferry, with a good book")),
    (BOB, turn(20, "the dishwasher leaks")),
]


async def filled(*facts: tuple[Any, Any]) -> InMemoryProvider:
    store = InMemoryProvider(clock=lambda: NOW)
    for subject, fact in facts:
        await store.save(fact, subject, AGENT)
    return store


async def test_the_message_before_an_answer_finds_it() -> None:
    """Its own words do not mention Lisbon; a later message of the same chat is not found."""
    memory = recall_memory(await filled(*CHAT), subjects=[ALICE, BOB])

    found = await memory.recall("How does Bob travel to Lisbon?", limit=3)

    assert found_values(found)[:2] == ["I booked the trip to Lisbon", "by ferry, with a good book"]
    assert found[1].relevance < found[0].relevance
    assert "the dishwasher leaks" not in found_values(found)[:2]


async def test_neighbouring_messages_follow_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgotten messages find nothing any more, and new ones do, after those with the words."""
    monkeypatch.undo()  # only with similar words and letters a fact's own words weigh more
    store = await filled(*CHAT)
    memory = recall_memory(store, subjects=[ALICE, BOB])
    assert "by ferry, with a good book" in found_values(await memory.recall("Lisbon"))

    said = turn(6, "").concept
    await store.forget(BOB, AGENT, concept=said, value="I booked the trip to Lisbon")
    assert found_values(await memory.recall("Lisbon")) == []

    await store.save(turn(9, "Lisbon is worth it"), ALICE, AGENT)
    found = await memory.recall("Lisbon")
    assert found_values(found) == ["Lisbon is worth it", "by ferry, with a good book"]


@pytest.mark.parametrize("is_first", [True, False])
async def test_facts_of_one_conversation_support_each_other(is_first: bool) -> None:
    """Messages have no numbers; of two equal facts the one with others ranks first."""
    alone = [turn(None, "Lisbon by ferry", "other")]
    together = [turn(None, "Lisbon by coach"), turn(None, "Lisbon in May")]
    without = [bare_notes("said", "Lisbon by rail"), bare_notes("said", "Lisbon by bus")]
    facts = [*together, *alone, *without] if is_first else [*without, *alone, *together]
    memory = recall_memory(await filled(*((ALICE, each) for each in facts)))

    found = await memory.recall("Lisbon")

    support = {match.fact.values[0]: match.support for match in found}
    assert set(found_values(found)[:2]) == {"Lisbon by coach", "Lisbon in May"}
    assert support["Lisbon by ferry"] == 0.0
    assert support["Lisbon by rail"] == support["Lisbon by bus"] == 0.0
    assert support["Lisbon by coach"] == support["Lisbon in May"] == pytest.approx(0.15)


async def test_a_name_in_the_question_raises_that_entity() -> None:
    """The others count half; with two names, or none, no score rises."""
    facts = [(subject, bare_note("home", "a flat in Busan")) for subject in (ALICE, BOB)]
    memory = recall_memory(await filled(*facts), subjects=[ALICE, BOB])

    async def parts(question: str) -> dict[str | None, tuple[float, float]]:
        found = await memory.recall(question)
        return {m.place.subject.entity: (m.relevance, m.support) for m in found}

    nobody, bob, both = [
        await parts(question) for question in ("flat?", "Bob's flat?", "Bob's and Alice's flat?")
    ]
    assert nobody["alice"] == nobody["bob"] == (1.0, 0.0)
    assert bob["bob"] == (1.0, 0.2)
    assert bob["alice"][0] < 0.5
    assert {support for _, support in both.values()} == {0.0}


@table(
    ("question", "named"),
    [
        ("Where does 서윤이는 live?", "서윤"),
        ("서윤이와 alice", None),
        ("ALICE's house", "alice"),
        ("user 4711 said", "user-4711"),
        ("7 days ago", None),
        ("will it rain?", None),
        ("nobody", None),
    ],
)
def test_names_in_a_question(question: str, named: str | None) -> None:
    """A bare number and a stop word are not names."""
    assert named_entity(words(question), {"서윤", "alice", "user-4711", "7", "will"}) == named


@table(
    ("question", "first", "last"),
    [
        ("What happened on 2026-05-17?", "2026-05-17", "2026-05-17"),
        ("and in 2026-05?", "2026-05-01", "2026-05-31"),
        ("on May 17, 2026", "2026-05-17", "2026-05-17"),
        ("on the 3rd of June", "2026-06-03", "2026-06-03"),
        ("am 17. Mai 2026", "2026-05-17", "2026-05-17"),
        ("im März", "2026-03-01", "2026-03-31"),
        ("2026년 5월 17일에", "2026-05-17", "2026-05-17"),
        ("5月に", "2026-05-01", "2026-05-31"),
        ("in May", "2026-05-01", "2026-05-31"),
        ("last summer", "2026-06-01", "2026-08-31"),
        ("작년 여름에", "2025-06-01", "2025-08-31"),
        ("지난주에 뭐 했지", "2026-11-09", "2026-11-15"),
        ("in 2019", "2019-01-01", "2019-12-31"),
        ("before May 2019", None, "2019-04-30"),
        ("after 2019", "2020-01-01", None),
        ("may I? May I?", None, None),
        ("March on!", None, None),
        ("version 13월, mayonnaise", None, None),
        ("nothing", None, None),
    ],
)
def test_times_in_a_question(question: str, first: str | None, last: str | None) -> None:
    """Relative to the clock; a word that is also a month needs a preposition before it."""
    found = [each for each in asked_spans(question, CLOCK) if each.is_sure][:1]

    days = [
        None if isinf(at) else datetime.fromtimestamp(at, UTC).date().isoformat()
        for span in found
        for at in (span.begin, span.end - 1)
    ]
    assert days == ([] if first is last is None else [first, last])


@table(
    ("question", "clause"),
    [
        ("What did she play when she lived in Busan?", "she lived in Busan"),
        ("While I was at school, which sport?", "I was at school"),
        ("부산에 살 때 뭐 했지", "부산에 살"),
        ("When did I live in Busan?", ""),
        ("When will it rain?", ""),
        ("When is the concert", ""),
    ],
)
def test_a_clause_about_a_time(question: str, clause: str) -> None:
    assert clause_of_time(question) == clause


async def test_facts_that_held_then_come_first() -> None:
    jobs = Concept("job", "What the user worked as", FactType.MULTIPLE)
    store = InMemoryProvider()
    for value, since, until in (
        ("job as a cook", "2019", "2030"),
        ("job as a baker", "2024", None),
        ("job as a pilot on 2025-03-04", None, None),
        ("job as a nurse", None, None),
    ):
        said = datetime(2022, 5, 1, tzinfo=UTC)
        fact = MultipleFacts(jobs, [value], timestamp=said, since=since, until=until)
        await store.save(fact, ALICE, AGENT)
    memory = recall_memory(store)

    async def support(question: str) -> dict[str, float]:
        found = await memory.recall(question, limit=9)
        return {str(match.fact.values[0]).split()[3]: match.support for match in found}

    assert await support("Which job in 2020?") == {
        "cook": 0.2, "baker": 0.0, "pilot": 0.0, "nurse": 0.0,
    }  # fmt: skip
    assert await support("Which job in March 2025?") == {
        "cook": 0.2, "baker": 0.1, "pilot": 0.2, "nurse": 0.0,
    }  # fmt: skip
    assert await support("Which job in May 2022?") == {
        "cook": 0.2, "baker": 0.1, "pilot": 0.1, "nurse": 0.2,
    }  # fmt: skip
    assert await support("Which job when I was a baker?") == {
        "cook": 0.2, "baker": 0.2, "pilot": 0.2, "nurse": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize("worth_numpy", [0], ids=["numpy"], indirect=True)
async def test_questions_with_times_find_what_was_then() -> None:
    """`python -m benchmarks.recall.times` lists what is missed."""
    assert min(await run_times()) >= 0.85


async def test_a_day_in_the_question_raises_facts_of_that_day() -> None:
    """A month without a year means every year."""
    said = {4: "trip in spring", 5: "trip in May", 6: "trip in summer"}
    facts = [
        (ALICE, bare_note(f"k{month}", text, timestamp=datetime(2026, month, 9, tzinfo=UTC)))
        for month, text in said.items()
    ]
    memory = recall_memory(await filled(*facts))

    found = await memory.recall("the trip, on 9 June")

    assert found_values(found)[0] == "trip in summer"
    assert {m.fact.values[0]: m.support for m in found}["trip in spring"] == 0.0
    assert found[0].support == 0.2


async def test_hidden_places_do_not_affect_scores() -> None:
    """Neighbours, names, statistics, mean vectors and the score of a random fact are those of the
    places asked."""
    shown = [fact for fact in CHAT if fact[0] is BOB]
    alone, crowded = await filled(*shown), await filled(*CHAT)
    for text in ("Lisbon by ferry", "the trip of alice", "how will you get to Lisbon?"):
        await crowded.save(turn(7, text, id=text), BOB, PRODUCT)
        await crowded.save(bare_notes("said", text), COMPANY, AGENT)
    # Enough of them to change the mean vector and the score of a random fact, with the names and
    # the metadata of visible ones.
    for number in range(60):
        about = f"a flat, a car and a kitten, {number}"
        told = FactSource(SourceKind.USER, quote="by ferry", before="How will you get to Lisbon?")
        await crowded.save(bare_notes("said", about, source=told), BOB, PRODUCT)
        await crowded.save(bare_notes(f"k{number}", f"bob {about}"), ALICE, AGENT)

    for embedder in (None, TopicEmbedder()):
        results = [
            await recall_memory(store, subjects=[BOB], embedder=embedder)
            .view(scopes=[AGENT], subjects=[BOB])
            .recall("How does Bob get to Lisbon with Alice?")
            for store in (alone, crowded)
        ]
        parts = [
            [
                (m.fact.values, m.score, m.relevance, m.lexical, m.semantic, m.support)
                for m in result
            ]
            for result in results
        ]
        assert parts[0] == parts[1]
        assert parts[0]


async def test_filtered_results_reach_the_limit() -> None:
    """The index filters, so facts outside take no place in the result."""
    facts = [
        (ALICE, bare_note(f"k{n % 2}x{n}", "cat", timestamp=NOW - timedelta(days=n)))
        for n in range(10)
    ]
    memory = recall_memory(await filled(*facts))
    even = [f"k0x{n}" for n in range(0, 10, 2)]

    of_concepts = await memory.recall("cat", limit=5, where=RecallFilter(concepts=even))
    late = await memory.recall("cat", limit=3, where=RecallFilter(since=NOW - timedelta(days=2)))
    both = await memory.recall("cat", where=RecallFilter(even, since=NOW - timedelta(days=2)))

    assert sorted(m.fact.concept.keyword for m in of_concepts) == even
    assert sorted(m.fact.concept.keyword for m in late) == ["k0x0", "k0x2", "k1x1"]
    assert sorted(m.fact.concept.keyword for m in both) == ["k0x0", "k0x2"]
    with pytest.raises(TypeError, match=r"where=RecallFilter\("):
        await memory.recall("cat", where={"concepts": even})  # type: ignore[arg-type]


async def test_metadata_filter_the_index() -> None:
    """Every key must have an equal value: true is not 1, 1 is not 1.0. Changes are followed."""
    kinds: list[dict[str, Any]] = [
        {"ticket": "T-7", "open": True, "tags": {"b": [1], "a": None}},
        {"ticket": "T-7", "open": 1, "tags": {"b": [1.0]}},
        {"ticket": "T-8"},
        {},
    ]
    facts = [
        (ALICE, bare_note(f"k{n}", "cat", metadata=kinds[n % 4], id=f"f{n}")) for n in range(40)
    ]
    store = await filled(*facts)
    memory = recall_memory(store)

    async def found(**wanted: Any) -> set[int]:
        matches = await memory.recall("cat", limit=100, where=RecallFilter(metadata=wanted))
        return {int(match.fact.concept.keyword[1:]) % 4 for match in matches}

    assert await found(ticket="T-7") == {0, 1}
    assert await found(ticket="T-7", open=True) == {0}
    assert await found(open=1) == {1}
    assert await found(tags={"a": None, "b": [1]}) == {0}
    assert await found(ticket="T-9") == await found(nothing=None) == set()
    assert await found() == {0, 1, 2, 3}
    t8 = RecallFilter(metadata={"ticket": "T-8"})
    assert len(await memory.recall("cat", limit=7, where=t8)) == 7

    await store.forget(ALICE, AGENT, fact_ids=["f0"])
    await store.save(
        replace(bare_note("k4", "dog", metadata={"ticket": "T-8"}), id="later"), ALICE, AGENT
    )
    matches = await memory.recall("cat", limit=100, where=RecallFilter(metadata={"open": True}))
    assert {match.fact.id for match in matches} == {f"f{n}" for n in range(8, 40, 4)}
    messages: list[Any] = [{"role": "user", "content": "the dog?"}]
    report = await memory.recall_facts_to_agent(messages, where=t8)
    assert found_values(report.matches) == ["dog"]
    with pytest.raises(TypeError, match="metadata must be a mapping"):
        RecallFilter(metadata=["ticket"])  # type: ignore[arg-type]


async def test_facts_outside_a_filter_do_not_affect_scores() -> None:
    """This holds for every filter."""
    inside: dict[str, Any] = {
        "source": FactSource(SourceKind.USER),
        "importance": 0.9,
        "metadata": {"open": True},
        "timestamp": NOW,
    }
    shown = [
        (ALICE, bare_notes("pet", f"a cat named {name}", **inside)) for name in ("Miso", "Tofu")
    ]
    texts = ["Miso the cat", "a cat in Lisbon", "Miso", "cat cat cat"]
    outside: dict[str, dict[str, Any]] = {
        "metadata": {"metadata": {"open": 1}},
        "since": {"timestamp": datetime(2001, 1, 1, tzinfo=UTC)},
    }
    hidden: dict[str, list[Any]] = {
        name: [(ALICE, bare_notes("pet", text, **{**inside, **other})) for text in texts]
        for name, other in outside.items()
    }
    hidden["concepts"] = [(ALICE, bare_note(f"car{n}", t, **inside)) for n, t in enumerate(texts)]
    filters: dict[str, Any] = {
        "concepts": ["pet"],
        "metadata": {"open": True},
        "since": datetime(2002, 1, 1, tzinfo=UTC),
    }
    for name, others in hidden.items():
        for embedder in (None, TopicEmbedder()):
            scores = [
                [
                    (m.fact.values, m.score, m.relevance, m.lexical, m.semantic, m.support)
                    for m in await recall_memory(await filled(*facts), embedder=embedder).recall(
                        "Which cat is Miso?", where=RecallFilter(**{name: filters[name]})
                    )
                ]
                for facts in (shown, [*shown, *others])
            ]
            assert scores[0] == scores[1], name
            assert len(scores[0]) == 2


async def test_the_message_before_a_quote_finds_its_fact() -> None:
    """Its words change the score, but neither relevance nor the scores of other facts."""
    source = FactSource(SourceKind.USER, quote="by ferry", before="How will you get to Lisbon?")
    bare = FactSource(SourceKind.USER, quote="by ferry")
    results = []
    for told in (source, bare):
        memory = recall_memory(
            await filled(
                (ALICE, bare_note("travel", "by ferry", source=told)),
                (ALICE, bare_note("trip", "Lisbon in May")),
                (ALICE, bare_note("car", "a red car")),
            )
        )
        results.append({m.fact.values[0]: m for m in await memory.recall("Lisbon")})

    with_it, without = results
    assert with_it["by ferry"].lexical > 0
    assert with_it["by ferry"].relevance == 0
    assert set(without) == {"Lisbon in May"}
    assert with_it["Lisbon in May"].relevance == without["Lisbon in May"].relevance


async def test_confidence_is_high_if_the_best_match_has_all_words() -> None:
    """It estimates whether the question has an answer; without a match it is 0."""
    store = await filled((ALICE, bare_note("pet", "a cat")), (ALICE, bare_note("car", "a red car")))
    memory = recall_memory(store)

    sure, unsure = await memory.recall("cat"), await memory.recall("cat or dog, or anything else?")
    assert sure.confidence > 0.9
    assert sure.confidence > unsure.confidence > 0
    assert (await memory.recall("kumquats")).confidence == 0


steps = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from("ab"), st.none() | st.integers(0, 6)), max_size=30
)


@given(steps)
def test_conversations_contain_the_added_messages(steps: list[tuple[int, str, int | None]]) -> None:
    """After any changes they are as if only the remaining facts had been added."""
    conversations, kept = Conversations(), dict[int, FactSource]()
    for slot, name, message in steps:
        if slot in kept:
            conversations.drop(slot, kept.pop(slot))
        else:
            kept[slot] = FactSource(SourceKind.USER, conversation=name, message=message)
            conversations.put(slot, kept[slot])

    for name in "ab":
        for number in range(7):
            expected = {
                slot for slot, s in kept.items() if (s.conversation, s.message) == (name, number)
            }
            assert conversations.at(name, number) == expected
    loose = {slot: s.conversation for slot, s in kept.items() if s.message is None}
    codes = conversations.loose
    assert (codes is None) is not bool(loose)
    for slot, conversation in loose.items():
        assert codes is not None
        same = {s for s, other in loose.items() if other == conversation}
        assert {s for s, code in enumerate(codes) if code == codes[slot]} == same


def test_a_question_without_facts() -> None:
    """It has every filter at once."""
    query = RecallQuery.of_arguments(
        "cat on 3 June",
        RecallSettings(),
        limit=3,
        where=RecallFilter(["pet"], since=NOW, metadata={"open": True}),
    )
    index = FactIndex([Place(AGENT, ALICE)])
    assert index.search(query, NOW) == []
    index.put(
        Place(AGENT, ALICE).identity, PlacedFact(Place(AGENT, ALICE), bare_note("pet", "cat"))
    )
    assert index.search(query, NOW) == []
