"""Tests of candidates of searched stores: words, filters and boundaries."""

from datetime import datetime
from typing import Any

import anyio
import pytest

from factmem.errors import StoredFactError
from factmem.models.facts import AnyFact, Concept, FactSource, MultipleFacts, SingleFact, SourceKind
from factmem.models.places import MemoryScope, Place
from factmem.models.recall_filter import RecallFilter
from factmem.providers.store import FactStore
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, SAID, THEME, USER, languages, theme
from factmem.testing.clock import START, SettableClock
from tests.contracts.place_changes import HOUR
from tests.contracts.search_questions import HERE, ask, asking, describe, found_in

MANY = 30
WRITERS = 12

ANN = Place(AGENT, PERSON.of("ann"))
NEIGHBOURS = (
    Place(AGENT, PERSON.of("Ann")),
    Place(AGENT, PERSON.of("ann ")),
    Place(MemoryScope.Product(AGENT.name), PERSON.of("ann")),
    Place(MemoryScope.Agent("Painter"), PERSON.of("ann")),
    Place(AGENT, PERSON.of("an_")),
)
"""Places whose names are similar to that of ANN."""

FILTERS: dict[str, tuple[RecallFilter, str]] = {
    "none": (RecallFilter(), "early late tool vital"),
    "another keyword": (RecallFilter(concepts=[THEME]), ""),
    "its keyword": (RecallFilter(concepts=["languages", "x"]), "early late tool vital"),
    "no keyword": (RecallFilter(concepts=[]), ""),
    "since": (RecallFilter(since=SAID + HOUR), "late"),
    "until": (RecallFilter(until=SAID + HOUR), "early tool vital"),
    "between": (RecallFilter(since=SAID, until=SAID + HOUR), "early tool vital"),
    "a pair of metadata": (RecallFilter(metadata={"room": 7}), "vital"),
    "another value": (RecallFilter(metadata={"room": 8}), ""),
    "two pairs": (RecallFilter(metadata={"room": 7, "floor": None}), "vital"),
}
"""Filters, each with the facts inside it."""

REMOVALS = ("forgotten", "purged", "erased", "replaced", "expired", "retyped")


async def _remove(how: str, store: FactStore, clock: SettableClock) -> None:
    """Remove the values "dark" and "java" from the current facts."""
    if how == "expired":
        clock.now = START + HOUR
    elif how == "erased":
        await store.erase(USER, AGENT)
    elif how == "replaced":
        await store.forget(USER, AGENT, concept=LANGUAGES)
        await store.save(theme("light"), USER, AGENT)
    elif how == "retyped":
        await store.forget(USER, AGENT, concept=LANGUAGES)
        again = Concept(THEME.keyword, "Another description")
        await store.save(SingleFact(again, "light"), USER, AGENT)
    else:
        for concept in (THEME, LANGUAGES):
            await store.forget(USER, AGENT, concept=concept, purge=how == "purged")


def _said(value: str, message: int | None, conversation: str = "chat", **fields: Any) -> AnyFact:
    source = FactSource(fields.pop("kind", SourceKind.USER), conversation, message)
    timestamp: datetime = fields.pop("timestamp", SAID)
    return MultipleFacts(LANGUAGES, [value], source=source, timestamp=timestamp, **fields)


class Searching:
    """`candidates` by words."""

    async def test_all_facts_with_a_word_are_candidates(self, provider: FactStore) -> None:
        """Among many other facts, and each fact once."""
        others = [languages(f"common number{number}") for number in range(MANY)]
        await provider.save_many([*others, languages("rare one"), languages("a rare")], USER, AGENT)

        answer = await ask(provider, asking("rare", "absent"))

        assert found_in(answer) == [("a rare",), ("rare one",)]
        assert not answer.has_meaning
        assert answer.unembedded == frozenset()

    @pytest.mark.parametrize("word", ["naïve", "부산", "it's", "a\0b", "c++", "x" * 300, "50%_"])
    async def test_any_word_is_found(self, provider: FactStore, word: str) -> None:
        """Terms are opaque strings."""
        await provider.save_many([languages(word), languages("another")], USER, AGENT)

        assert found_in(await ask(provider, asking(word))) == [(word,)]

    async def test_nothing_is_found_without_a_word(self, provider: FactStore) -> None:
        """With no term at all, or with terms that no fact has."""
        await provider.save_many([theme("dark"), languages("java")], USER, AGENT)

        for question in (asking(), asking("absent"), asking("dar"), asking("dark java")):
            assert found_in(await ask(provider, question)) == []

    async def test_candidates_have_the_counts_of_terms(self, provider: FactStore) -> None:
        """The counts of the question's terms only; the length includes all terms."""
        await provider.save(theme("dark dark blue"), USER, AGENT)
        await provider.save(languages("java"), USER, AGENT)

        (found,) = (await ask(provider, asking("dark", "java", "absent"))).candidates[:1]
        answer = await ask(provider, asking("dark", "blue", "absent"))

        assert found.counts.keys() <= {"dark", "java"}
        assert [dict(each.counts) for each in answer.candidates] == [
            {"dark": (2.0, True), "blue": (1.0, True)}
        ]
        assert answer.candidates[0].length == 3.0

    async def test_statistics_are_of_the_whole_place(self, provider: FactStore) -> None:
        """They include other facts than the candidates. Words of neighbours are not a fact's own."""
        facts = [_said("green", 7), _said("dark dark", 8), _said("dark java", None, "other")]
        await provider.save_many([*facts, theme("of no interest")], USER, AGENT)

        answer = await ask(provider, asking("dark", "green", "absent"))

        statistics = answer.places[HERE.identity]
        assert (len(answer.candidates), statistics.facts) == (3, 4)
        assert statistics.length == 1.5 + 2.5 + 2 + 3
        holders = {term: statistics.holders.get(term, 0) for term in ("dark", "green", "absent")}
        assert holders == {"dark": 2, "green": 1, "absent": 0}

    async def test_words_beside_a_fact_find_it(self, provider: FactStore) -> None:
        """Also words of a neighbour that is saved later, until it is forgotten."""
        await provider.save(_said("dark", 8), USER, AGENT)
        assert found_in(await ask(provider, asking("green"))) == []
        await provider.save(_said("green", 7), USER, AGENT)
        await provider.save(_said("rust", 7, "another chat"), USER, AGENT)

        answer = await ask(provider, asking("green"))

        counts = {str(each.load({}).values[0]): dict(each.counts) for each in answer.candidates}
        assert counts == {"dark": {"green": (0.5, False)}, "green": {"green": (1.0, True)}}
        await provider.forget(USER, AGENT, concept=LANGUAGES, value="green")
        assert found_in(await ask(provider, asking("green"))) == []

    async def test_a_candidate_loads_in_the_type_of_its_concept(self, provider: FactStore) -> None:
        """With all fields as saved. A value that does not fit the type raises an error."""
        fact = theme("1815 dark", importance=0.75, expires_at=START + HOUR)
        await provider.save(fact, USER, AGENT)
        await provider.save(languages("1815"), USER, AGENT)

        answer = await ask(provider, asking("1815"))

        loaded = {each.load({}).concept.keyword: each for each in answer.candidates}
        (current,) = await provider.load(THEME, USER, AGENT)
        assert loaded[THEME.keyword].load({}) == current
        years: Concept[Any, Any] = Concept(
            LANGUAGES.keyword, "Years", LANGUAGES.fact_type, value_type=int
        )
        assert loaded[LANGUAGES.keyword].load({LANGUAGES.keyword: years}).values == (1815,)
        wrong: Concept[Any, Any] = Concept(THEME.keyword, "A year", value_type=int)
        with pytest.raises(StoredFactError):
            loaded[THEME.keyword].load({THEME.keyword: wrong})

    async def test_a_value_is_found_from_its_begin_to_its_end(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """Without a save in between."""
        end = START + 2 * HOUR
        plan = SingleFact(THEME, "light green", timestamp=clock(), since=START + HOUR, until=end)
        await provider.save(theme("dark green"), USER, AGENT)
        await provider.save(plan, USER, AGENT)
        seen: list[tuple[object, ...]] = []
        for moment in (START, START + HOUR, end):
            clock.now = moment
            found = (await ask(provider, asking("green"))).candidates
            seen.append(tuple(value for each in found for value in each.load({}).values))

        assert seen == [("dark green",), ("light green",), ()]

    async def test_limits_hold_in_each_place(self, provider: FactStore) -> None:
        """Each place returns at least `limit` candidates, those with rare words first, and not all facts."""
        for place in (HERE, ANN):
            facts = [languages(f"common number{number}") for number in range(MANY)]
            await provider.save_many([*facts, languages("common rare")], place.subject, AGENT)

        answer = await ask(provider, asking("common", "rare", limit=3), [HERE, ANN])

        for place in (HERE, ANN):
            here = [each for each in answer.candidates if each.identity == place.identity]
            assert 3 <= len(here) < MANY
            assert any("rare" in each.counts for each in here)


class SearchFilters:
    """Facts outside a filter are no candidates."""

    @pytest.mark.parametrize("name", FILTERS)
    async def test_a_filter_leaves_what_is_inside(self, provider: FactStore, name: str) -> None:
        """`since` is included and `until` is not. All pairs of metadata must match."""
        facts = [
            _said("word early", 1),
            _said("word late", 2, timestamp=SAID + HOUR),
            _said("word tool", 3, kind=SourceKind.TOOL),
            _said("word vital", 4, importance=0.8, metadata={"room": 7, "floor": None}),
        ]
        await provider.save_many(facts, USER, AGENT)

        wanted, found = FILTERS[name]
        answer = await ask(provider, asking("word", filter=wanted))

        assert found_in(answer) == [(f"word {each}",) for each in found.split()]


class SearchBoundaries:
    """Candidates are current facts of the given places."""

    async def test_nothing_of_other_places_is_a_candidate(self, provider: FactStore) -> None:
        """Also if their names are similar."""
        for number, place in enumerate([ANN, *NEIGHBOURS]):
            await provider.save(languages(f"shared {number}"), place.subject, place.scope)

        for number, place in enumerate([ANN, *NEIGHBOURS]):
            answer = await ask(provider, asking("shared"), [place])
            assert found_in(answer) == [(f"shared {number}",)]
            assert list(answer.places) == [place.identity]
            assert {each.identity for each in answer.candidates} == {place.identity}
            assert not answer.others

    async def test_several_places_are_searched_at_once(self, provider: FactStore) -> None:
        """Each candidate names its place; a place without facts has no statistics."""
        await provider.save(theme("dark"), USER, AGENT)
        await provider.save(languages("dark java"), PERSON.of("ann"), AGENT)
        empty = Place(AGENT, PERSON.of("nobody"))

        answer = await ask(provider, asking("dark"), [HERE, ANN, empty])

        assert {each.identity for each in answer.candidates} == {HERE.identity, ANN.identity}
        assert answer.places.keys() == {HERE.identity, ANN.identity}

    async def test_facts_that_take_precedence_are_named(self, provider: FactStore) -> None:
        """A fact of the same concept in another place, without a word of the question."""
        await provider.save(theme("dark"), USER, AGENT)
        await provider.save(theme("light"), PERSON.of("ann"), AGENT)
        await provider.save(languages("java"), PERSON.of("ann"), AGENT)

        answer = await ask(provider, asking("dark"), [HERE, ANN])

        everything = [*answer.candidates, *answer.others]
        named = {(each.identity, each.load({}).values[0]) for each in everything}
        assert named == {(HERE.identity, "dark"), (ANN.identity, "light")}
        assert {each.load({}).concept.keyword for each in everything} == {THEME.keyword}

    async def test_asking_creates_nothing(self, provider: FactStore) -> None:
        """An empty place stays empty."""
        await provider.is_searched([HERE])
        answer = await provider.candidates([HERE], asking("dark"), describe)

        assert (list(answer.candidates), dict(answer.places)) == ([], {})
        assert await provider.places() == []
        assert await provider.entries(USER, AGENT) == []

    async def test_a_save_is_found_at_once(self, provider: FactStore, second: FactStore) -> None:
        """Through every instance, after each of several saves."""
        for number in range(5):
            saving, asked = (provider, second)[:: 1 if number % 2 else -1]
            await saving.save(languages(f"shared number{number}"), USER, AGENT)
            await saving.save(theme(f"theme{number}"), USER, AGENT)

            assert found_in(await ask(asked, asking(f"number{number}"))) == [
                (f"shared number{number}",)
            ]
            assert len((await ask(asked, asking("shared"))).candidates) == number + 1
            assert found_in(await ask(asked, asking(f"theme{number}", f"theme{number - 1}"))) == [
                (f"theme{number}",)
            ]

    @pytest.mark.parametrize("how", REMOVALS)
    async def test_what_is_removed_is_no_candidate(
        self, provider: FactStore, second: FactStore, clock: SettableClock, how: str
    ) -> None:
        """It is not counted either, through any instance. Other facts are still found."""
        lasting = SingleFact(Concept("job", "What the user does"), "dark rust")
        await provider.save(theme("dark", expires_at=START + HOUR), USER, AGENT)
        await provider.save(languages("dark java", expires_at=START + HOUR), USER, AGENT)
        await provider.save(lasting, USER, AGENT)
        for store in (provider, second):
            assert len((await ask(store, asking("dark"))).candidates) == 3

        await _remove(how, provider, clock)

        left = [] if how == "erased" else [("dark rust",)]
        for store in (second, provider):
            answer = await ask(store, asking("dark", "java"))
            assert found_in(answer) == left
            counted = [each.holders.get("dark", 0) for each in answer.places.values()]
            assert counted == [1] * len(left)

    async def test_what_was_erased_stays_gone(self, provider: FactStore) -> None:
        """Also if the place gets new facts."""
        await provider.save_many([languages("old java"), theme("old dark")], USER, AGENT)
        assert len((await ask(provider, asking("old"))).candidates) == 2
        await provider.erase(USER, AGENT)
        await provider.save(languages("new"), USER, AGENT)

        answer = await ask(provider, asking("old", "new"))

        assert found_in(answer) == [("new",)]
        assert answer.places[HERE.identity].facts == 1

    async def test_the_order_of_saves_does_not_matter(self, provider: FactStore) -> None:
        """Facts may be saved in one batch, one by one, or between questions."""
        facts = [
            *(_said(f"dark number{number}", number % 7) for number in range(12)),
            *(languages(f"java number{number}") for number in range(5)),
        ]
        places = [Place(AGENT, PERSON.of(name)) for name in ("one", "two", "three")]
        await provider.save_many(facts, places[0].subject, AGENT)
        for fact in reversed(facts):
            await provider.save(fact, places[1].subject, AGENT)
        for number, fact in enumerate(sorted(facts, key=lambda fact: str(fact.values))):
            await provider.save(fact, places[2].subject, AGENT)
            if number % 5 == 0:
                await ask(provider, asking("dark"), [places[2]])

        answers = [await ask(provider, asking("dark", "number3"), [place]) for place in places]

        seen = [
            sorted(
                (str(e.load({}).values), sorted(e.counts.items()), e.length) for e in a.candidates
            )
            for a in answers
        ]
        assert seen[0] == seen[1] == seen[2]
        totals = [next(iter(a.places.values())) for a in answers]
        assert [(t.facts, t.length, t.holders.get("dark")) for t in totals] == [
            (totals[0].facts, totals[0].length, 12)
        ] * 3

    async def test_concurrent_saves_are_all_found(
        self, provider: FactStore, second: FactStore
    ) -> None:
        """Each question finds the facts that were saved before it, and the final counts are right."""

        async def work(number: int) -> None:
            store = (provider, second)[number % 2]
            for turn in range(2):
                word = f"word{number}x{turn}"
                await store.save(languages(f"{word} shared"), USER, AGENT)
                assert found_in(await ask(store, asking(word))) == [(f"{word} shared",)]

        async with anyio.create_task_group() as group:
            for number in range(WRITERS):
                group.start_soon(work, number)

        for store in (provider, second):
            answer = await ask(store, asking("shared"))
            assert len(answer.candidates) == 2 * WRITERS
            assert answer.places[HERE.identity].holders.get("shared") == 2 * WRITERS
