"""Search by the index in the database: what a search in memory finds, and nothing that is gone."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from factmem import (
    AgentMemory,
    Concept,
    FactSource,
    FactType,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.errors import StorageError
from factmem.models.facts import AnyFact
from factmem.models.places import Place
from factmem.models.recall_filter import RecallFilter
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.results import RetractedFact
from factmem.recall import _store_search
from factmem.testing.clock import START, SettableClock
from tests.doors import watched
from tests.providers.local_stores import run

USER = MemorySubject("user", "The user", 1, per_entity=True)
TEAM = MemorySubject("team", "The team", 2)
ANN, BEN = USER.of("ann"), USER.of("ben")
APP = MemoryScope.Product("app")
SAID = Concept("said", "What was said", FactType.MULTIPLE)
MOOD = Concept("mood", "The mood")
WORDS = [
    "bicycle", "garden", "piano", "kimchi", "harbour", "teacher", "violin", "mountain", "부산에서",
    "커피를", "Straße", "xylophone",
]  # fmt: skip
MORE = [
    *WORDS, "자전거를", "library", "printer", "window", "orange", "concert", "running", "chess",
    "여행을", "winter", "C++", "IONIQ5", "010-1234-5678", "don't",
]  # fmt: skip
NOTES = Concept("notes", "What the user told", FactType.MULTIPLE)
CITY = Concept("city", "Where the user lives")
KNOWN: list[Concept[Any, Any]] = [
    NOTES,
    Concept("plans", "What is planned", FactType.MULTIPLE),
    CITY,
    Concept("job", "What the user does"),
]

Opened = Callable[[], LocalFileMemoryProvider]


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def opened(root: Path, clock: SettableClock) -> Opened:
    """Return new instances that search every place in the database, as other processes do."""

    def make() -> LocalFileMemoryProvider:
        store = LocalFileMemoryProvider(root, clock=clock)
        assert store._search is not None
        store._search._from = 0
        return store

    return make


def memory_of(
    store: LocalFileMemoryProvider | InMemoryProvider, clock: SettableClock
) -> AgentMemory:
    return AgentMemory(
        store, scopes=MemoryScopesProfile(product="app"), subjects=[ANN, TEAM], clock=clock
    )


def words_in(root: Path) -> str:
    """Return all bytes of the files."""
    return "".join(each.read_bytes().decode("latin-1") for each in root.iterdir())


def said(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


async def found(memory: AgentMemory, question: str) -> list[tuple[str, tuple[object, ...]]]:
    matches = await memory.recall(question, limit=50)
    return sorted((each.fact.id, each.fact.values) for each in matches)


@pytest.fixture
async def both(
    opened: Opened, clock: SettableClock
) -> AsyncIterator[tuple[LocalFileMemoryProvider, InMemoryProvider]]:
    async with opened() as stored:
        yield stored, InMemoryProvider(clock=clock)


@pytest.mark.parametrize("seed", range(4))
async def test_it_finds_what_a_search_in_memory_finds(
    both: tuple[LocalFileMemoryProvider, InMemoryProvider], clock: SettableClock, seed: int
) -> None:
    """After each of some random changes."""
    chance = Random(seed)
    memories = [memory_of(each, clock) for each in both]
    for _ in range(14):
        clock.now += timedelta(minutes=10)
        await step(chance, [ANN, ANN, TEAM], both)
        question = " ".join(chance.sample(WORDS, 3))
        stored, expected = [await found(each, question) for each in memories]
        assert stored == expected


async def test_scores_are_nearly_those_of_a_search_in_memory(
    both: tuple[LocalFileMemoryProvider, InMemoryProvider], clock: SettableClock
) -> None:
    """By words, similar ones, letters, and what was said before and after."""
    chance = Random(3)
    facts = [
        MultipleFacts(
            SAID,
            [
                text := " ".join(
                    chance.choices([*WORDS, "gardens", "pianist"], k=chance.randint(3, 9))
                )
            ],
            id=f"f{number}",
            source=FactSource(
                SourceKind.USER, "chat", number, f"I said {text}", before="Which tea?"
            )
            if number % 3
            else None,
        )
        for number in range(80)
    ]
    for store in both:
        await store.save_many(facts, ANN, APP)
    for question in ("garden kimchi", "Which pianos are in 부산?", "gardener", "mountaineers"):
        found = [await memory_of(each, clock).recall(question, limit=5) for each in both]
        ids, expected = [[match.fact.id for match in matches] for matches in found]
        assert len(set(ids) & set(expected)) >= 4, question
        stored, scores = [[match.score for match in matches] for matches in found]
        assert stored == pytest.approx(scores, rel=0.05), question


async def test_a_search_analyses_no_stored_text(
    opened: Opened, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The terms of candidates are in their rows, as stemming would take most of the time."""
    analysed = list[object]()
    async with opened() as store:
        facts = [MultipleFacts(SAID, [f"a piano {n}"], timestamp=START) for n in range(50)]
        await store.save_many(facts, ANN, APP)
        memory = memory_of(store, clock)
        await memory.recall("violin")
        for module in ("_store_search", "_fact_index"):
            monkeypatch.setattr(f"factmem.recall.{module}.document_of", analysed.append)
        assert len(await memory.recall(f"pianos on {START:%-d %B %Y}", limit=20)) == 20
    assert not analysed


async def test_without_numpy_a_large_place_is_read(
    opened: Opened, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scores of candidates need it."""
    monkeypatch.setattr(_store_search, "numpy_or_none", lambda: None)
    async with opened() as store:
        await store.save_many([MultipleFacts(SAID, [f"a piano {n}"]) for n in range(50)], ANN, APP)
        memory = memory_of(store, clock)
        await memory.conversation("c", learn=False).append({"role": "user", "content": "A violin"})
        assert len(await memory.recall("pianos", limit=5)) == 5
        assert len((await memory.recall("violins", limit=5)).turns) == 1


async def test_a_place_that_is_asked_often_is_read(opened: Opened, clock: SettableClock) -> None:
    """Then its questions need no search in the database, and find what others save later."""
    seen = list[str]()
    with watched(seen.append):
        async with opened() as store, opened() as other:
            await store.save(MultipleFacts(SAID, ["the piano"]), ANN, APP)
            memory = memory_of(store, clock)
            before = [await found(memory, "Which piano?") for _ in range(10)]
            assert any("terms" in each for each in seen)
            assert len(await memory.recall("Which piano?", subjects=[ANN])) == 1
            seen.clear()

            after = await found(memory, "Which piano?")

            assert [after] * 10 == before
            assert len(await memory.recall("Which piano?", subjects=[ANN])) == 1
            assert not any("terms" in each for each in seen)

            await other.save(MultipleFacts(SAID, ["another piano"]), ANN, APP)

            assert len(await found(memory, "Which piano?")) == len(after) + 1


def sentence(random: Random) -> str:
    return " ".join(random.choices(MORE, k=5))


def some_fact(random: Random, person: MemorySubject) -> AnyFact:
    concept = random.choice(KNOWN)
    fields: dict[str, Any] = {"timestamp": START + timedelta(hours=random.randrange(50))}
    if random.random() < 0.5:
        fields["source"] = FactSource(
            random.choice(list(SourceKind)),
            f"chat {random.randrange(2)} of {person.entity}",
            random.choice([None, *range(8)]),
            quote=sentence(random),
            before=random.choice([None, sentence(random)]),
        )
    if random.random() < 0.2:
        fields["expires_at"] = START + timedelta(minutes=random.randrange(1, 200))
    if random.random() < 0.3:
        fields["metadata"] = {"room": random.randrange(3)}
    fields["importance"] = random.choice([0.2, 0.5, 0.9])
    values = [sentence(random) for _ in range(random.choice([1, 1, 3]))]
    if concept.fact_type is FactType.MULTIPLE:
        return MultipleFacts(concept, values, **fields)
    return SingleFact(concept, values[0], **fields)


async def step(random: Random, people: Sequence[MemorySubject], stores: Sequence[Any]) -> None:
    """Do the same to each store."""
    drawn, concept, person = random.random(), random.choice(KNOWN), random.choice(people)
    fact = some_fact(random, person)
    known = await stores[-1].load(concept, person, APP)
    old = random.choice(known).values[0] if known else "nothing"
    again = Concept(concept.keyword, f"Now {fact.importance}", concept.fact_type)
    is_single = concept.fact_type is FactType.SINGLE
    said: AnyFact = SingleFact(again, old) if is_single else MultipleFacts(again, [old])
    confirmed = MultipleFacts(NOTES, [old])
    for store in stores:
        if drawn < 0.6:
            await store.save(fact, person, APP)
        elif drawn < 0.7:
            await store.save_many([fact, confirmed], person, APP)
        elif drawn < 0.8:
            await store.forget(person, APP, concept=concept, value=old)
        elif drawn < 0.85:
            await store.forget(person, APP, concept=concept, value=old, purge=True)
        elif drawn < 0.9:
            retracted = RetractedFact(concept, old, fact.timestamp)
            await store.learn([], person, APP, retracted=[retracted])
        else:
            await store.save(said, person, APP)


async def test_a_replaced_and_a_forgotten_value_are_not_found(
    opened: Opened, clock: SettableClock
) -> None:
    """Their words stay in the table of words until it is made again."""
    async with opened() as store:
        memory = memory_of(store, clock)
        await store.save(SingleFact(MOOD, "xylophone"), ANN, APP)
        assert len(await memory.recall("xylophone")) == 1
        await store.save(SingleFact(MOOD, "piano"), ANN, APP)
        assert not await memory.recall("xylophone")
        await store.forget(ANN, APP, concept=MOOD)
        assert not await memory.recall("piano")


@pytest.mark.parametrize("way", ["purge", "erase", "compact", "edit"])
async def test_what_is_removed_leaves_no_word_in_any_file(
    opened: Opened, root: Path, clock: SettableClock, way: str
) -> None:
    """The table of words is dropped in the transaction of the removal."""
    async with opened() as store:
        memory = memory_of(store, clock)
        turns = memory.conversation("chat", learn=False)
        await turns.append(said("My xylophone broke"))
        await store.save(SingleFact(MOOD, "xylophone"), ANN, APP)
        assert (await memory.recall("xylophone")).turns
        assert "xylophon" in words_in(root)
        if way == "erase":
            await store.erase(ANN, APP)
        elif way == "purge":
            await store.forget(ANN, APP, concept=MOOD, purge=True)
            await turns.clear()
        else:
            clock.now += timedelta(hours=1)
            await store.save(SingleFact(MOOD, "calm"), ANN, APP)
            await memory.recall("calm")
            await turns.clear()
            if way == "compact":
                await store.compact(ANN, APP)
            else:
                await store.rewrite(
                    lambda entries: [*[None] * (len(entries) - 1), entries[-1]], ANN, APP
                )
        assert "xylophon" not in words_in(root)
        result = await memory.recall("xylophone")
        assert not result
        assert not result.turns


async def test_messages_are_found_with_their_neighbours(
    opened: Opened, clock: SettableClock
) -> None:
    """A second process reads only what the first did not index; other users' are not found."""
    async with opened() as store:
        memory = memory_of(store, clock)
        mine = memory.conversation("chat", learn=False)
        await mine.append(*(said(f"My {word} is here") for word in WORDS))
        bens = AgentMemory(store, scopes=MemoryScopesProfile(product="app"), subjects=[BEN])
        await bens.conversation("chat", learn=False).append(said("A secret piano"))
        (turn, *_) = (await memory.recall("piano")).turns
        assert turn.quote == "My piano is here"
    async with opened() as store:
        memory = memory_of(store, clock)
        mine = memory.conversation("chat", learn=False)
        await mine.append(said("And a piano tuner comes"))
        quotes = {each.quote for each in (await memory.recall("piano")).turns}
        assert {"My piano is here", "And a piano tuner comes"} <= quotes
        assert "A secret piano" not in quotes


async def test_filters_restrict_candidates(opened: Opened, clock: SettableClock) -> None:
    """By concept, time and metadata, among many facts of the same words."""
    async with opened() as store:
        facts: list[AnyFact] = [
            MultipleFacts(SAID, [f"a piano {n}"], id=f"p{n}", timestamp=START - timedelta(days=n))
            for n in range(400)
        ]
        marked = MultipleFacts(SAID, ["a piano that was marked"], id="x", metadata={"case": 7})
        other = SingleFact(MOOD, "like a piano", id="m")
        await store.save_many([marked, *facts, other], ANN, APP)
        memory = memory_of(store, clock)
        assert [
            m.fact.id
            for m in await memory.recall("piano", where=RecallFilter(metadata={"case": 7}))
        ] == ["x"]
        assert [
            m.fact.id for m in await memory.recall("piano", where=RecallFilter(concepts=[MOOD]))
        ] == ["m"]
        old = await memory.recall(
            "piano", where=RecallFilter(until=START - timedelta(days=398, hours=12))
        )
        assert [m.fact.id for m in old] == ["p399"]


async def test_items_of_many_blocks_are_found(
    opened: Opened, root: Path, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of three items, whose first and last are less than six apart, written in turns."""
    monkeypatch.setattr("factmem.providers._sql.search_index._BLOCK", 3)
    monkeypatch.setattr("factmem.providers._sql.search_index._FARTHEST", 5)
    async with opened() as store:
        memory = memory_of(store, clock)
        for turn in range(4):
            texts = [f"{'violin' if n == 4 else 'piano'} {turn} {n}" for n in range(13)]
            await store.save_many([MultipleFacts(SAID, [text]) for text in texts], ANN, APP)
            assert len(await memory.recall("piano", limit=60)) == 12 * (turn + 1)
            assert len(await memory.recall("violin", limit=60)) == turn + 1
    assert run(root, "SELECT max(length(items)) FROM terms") == [(9,)]


async def test_an_index_that_cannot_be_written_is_no_failure(
    opened: Opened, root: Path, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recall is a read: the disk may be full. Later the index is made as a new one."""

    def refuse(*_: object) -> None:
        raise StorageError("The disk is full")

    async with opened() as store:
        await store.save(SingleFact(MOOD, "piano"), ANN, APP)
        with monkeypatch.context() as full:
            full.setattr("factmem.providers._sql.search_index.SearchIndex._write", refuse)
            assert len(await memory_of(store, clock).recall("piano")) == 1
        monkeypatch.setattr("factmem.providers._sql.places.PlaceReader.searched", refuse)
        assert len(await memory_of(store, clock).recall("piano")) == 1
    assert run(root, "SELECT count(*) FROM items") == [(1,)]


@pytest.mark.parametrize("change", ["items = x'0000ff0000'", "first = 1 << 60", "first = -1"])
async def test_a_damaged_block_is_an_error(
    opened: Opened, root: Path, clock: SettableClock, change: str
) -> None:
    """Not an array of as many items as it says, and no saved fact is lost."""
    async with opened() as store:
        await store.save(SingleFact(MOOD, "piano"), ANN, APP)
        await memory_of(store, clock).recall("piano")
    run(root, f"UPDATE terms SET {change}")
    async with opened() as store:
        with pytest.raises(StorageError, match="damaged block"):
            await memory_of(store, clock).recall("piano")
        assert len(await store.load_all(ANN, APP)) == 1


async def test_an_index_that_has_each_item_twice(
    opened: Opened, root: Path, clock: SettableClock
) -> None:
    """A fact and a message are each found once, and no array is too short for both."""
    async with opened() as store:
        memory = memory_of(store, clock)
        await store.save(SingleFact(MOOD, "piano"), ANN, APP)
        await memory.conversation("chat", learn=False).append(said("My piano is here"))
        await memory.recall("piano")
    columns = [name for _, name, *_ in run(root, "PRAGMA table_info(items)")]
    others = ", ".join("item + 1" if each == "item" else each for each in columns)
    run(root, f"INSERT INTO items SELECT {others} FROM items")
    run(root, "UPDATE searches SET next = next + 1")
    again = "CAST(items || x'0100' || substr(items, 3, 1) AS BLOB)"
    run(root, f"UPDATE terms SET items = {again}")
    async with opened() as store:
        found = await memory_of(store, clock).recall("piano")
        assert len(found) == len(found.turns) == 1


async def test_an_index_of_other_stems_is_made_again(
    opened: Opened, root: Path, clock: SettableClock
) -> None:
    """Such as of a process without the extra `recall`."""
    async with opened() as store:
        await store.save(SingleFact(MOOD, "piano"), ANN, APP)
        await memory_of(store, clock).recall("piano")
    run(root, "UPDATE searches SET form = 'other'")
    async with opened() as store:
        assert len(await memory_of(store, clock).recall("piano")) == 1
    assert run(root, "SELECT count(*) FROM searches WHERE form = 'other'") == [(0,)]


async def test_many_replaced_facts_wear_an_index_out(
    opened: Opened, root: Path, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it is made again without their words."""
    monkeypatch.setattr("factmem.providers._sql.search_index._SLACK", 5)
    async with opened() as store:
        memory = memory_of(store, clock)
        for number in range(20):
            await store.save(SingleFact(MOOD, f"piano {number}"), ANN, APP)
            assert [m.fact.values for m in await memory.recall("piano")] == [(f"piano {number}",)]
    assert run(root, "SELECT max(next) < 10 FROM searches WHERE kind = 0") == [(1,)]


async def test_small_and_sealed_places_have_no_index(root: Path, clock: SettableClock) -> None:
    """Reading a small place is as fast; an index would reveal the words of a sealed one."""
    async with LocalFileMemoryProvider(root, clock=clock) as store:
        await store.save(SingleFact(MOOD, "piano"), ANN, APP)
        assert len(await memory_of(store, clock).recall("piano")) == 1
        assert not await store.is_searched([Place(APP, ANN)], meaning=False)
    assert run(root, "SELECT count(*) FROM searches") == [(0,)]


async def test_similar_words_do_not_crowd_out_the_words_of_a_question(
    opened: Opened, clock: SettableClock
) -> None:
    """Hundreds of texts with eight similar words each, and one with both words themselves."""
    async with opened() as store:
        chance, similar = Random(1), [f"garden{each}" for each in "bcdfghjklmnpqrstvwxz"]
        texts = [[*chance.sample(similar, 8), "garden" if n % 2 else "piano"] for n in range(400)]
        facts = [MultipleFacts(SAID, [f"{' '.join(each)} {n}"]) for n, each in enumerate(texts)]
        right = MultipleFacts(SAID, ["the garden and the piano"], id="right")
        await store.save_many([right, *facts], ANN, APP)
        assert (await memory_of(store, clock).recall("garden piano"))[0].fact.id == "right"


async def test_lengths_and_times_choose_among_facts_with_the_same_words(
    opened: Opened, clock: SettableClock
) -> None:
    """Hundreds of later facts have them in long texts, and of other days."""
    async with opened() as store:
        facts = [
            MultipleFacts(SAID, [f"a piano and {' '.join(WORDS[4:])} {n}"], timestamp=START)
            for n in range(400)
        ]
        short = MultipleFacts(SAID, ["a piano"], id="short", timestamp=START)
        earlier = START - timedelta(days=90)
        timely = MultipleFacts(
            SAID, [f"{facts[0].values[0]} again"], id="timely", timestamp=earlier
        )
        await store.save_many([*facts[:50], short, timely, *facts[50:]], ANN, APP)
        memory = memory_of(store, clock)
        assert (await memory.recall("piano"))[0].fact.id == "short"
        asked = f"piano on {earlier:%-d %B %Y}"
        assert (await memory.recall(asked))[0].fact.id == "timely"


async def test_facts_of_a_long_line_are_found_without_reading_it(
    opened: Opened, root: Path, clock: SettableClock
) -> None:
    """SQLite compares keys of such rows by reading all of their bytes: .3 ms for each fact."""
    async with opened() as store:
        facts = [MultipleFacts(SAID, [f"a piano {n}"], id=f"p{n}") for n in range(100)]
        await store.save_many(facts, ANN, APP)
        await store.save(SingleFact(MOOD, "piano", id="m"), ANN, APP)
        assert len(await memory_of(store, clock).recall("piano", limit=200)) == 101
    assert run(root, "SELECT count(*) FROM items WHERE line IS NOT NULL") == [(1,)]


async def test_a_search_after_a_save_indexes_a_large_place_by_keyword(
    opened: Opened, clock: SettableClock, root: Path
) -> None:
    """Else each search after a save would read all of the place again."""
    async with opened() as store:
        facts = [SingleFact(Concept(f"point-{n}", "A point"), "x" * 300) for n in range(1000)]
        await store.save_many(facts, ANN, APP)
        memory = memory_of(store, clock)
        await found(memory, "garden")
        assert run(root, "SELECT count(*) FROM indexes") == [(0,)]

        await store.save(SingleFact(MOOD, "garden"), ANN, APP)
        (match,) = await found(memory, "garden")

        assert match[1] == ("garden",)
        assert run(root, "SELECT count(*) FROM indexes") == [(16,)]
