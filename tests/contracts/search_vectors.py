"""Tests of the vectors in stores that search large places themselves."""

from collections.abc import Sequence
from math import hypot
from typing import Any

import pytest

from factmem.models.places import Place
from factmem.models.recall_filter import RecallFilter
from factmem.providers.results import SearchAnswer
from factmem.providers.store import FactStore
from factmem.testing._facts import AGENT, PERSON, THEME, USER, languages, theme
from tests.contracts.search_questions import (
    AXES,
    HERE,
    MODEL,
    ask,
    asking,
    embed,
    found_in,
    vector_of,
)

ANN = Place(AGENT, PERSON.of("ann"))

HALF = 2e-3
"""The maximum error in half precision."""

DARK = vector_of("dark")


def _cosines(answer: SearchAnswer) -> dict[str, Any]:
    return {str(each.load({}).values[0]): each.cosine for each in answer.candidates}


class SearchVectors:
    """`facts_to_embed`, `add_vectors`, and `candidates` by meaning."""

    async def test_each_text_is_embedded_once(self, provider: FactStore, second: FactStore) -> None:
        """At most `limit` at a time, equal texts once; then every instance has the vectors."""
        values = ["dark java", "light", "green", "java", "rust"]
        await provider.save_many([languages(each) for each in values], USER, AGENT)
        await provider.save(theme("dark"), USER, AGENT)
        await ask(provider, asking("dark", vector=DARK))

        named = await embed(provider, limit=2)

        assert len(named) == len(set(named)) == 6
        for store in (second, provider):
            answer = await ask(store, asking("dark", vector=DARK))
            assert answer.unembedded == frozenset()
            assert await embed(store) == []

    async def test_places_without_vectors_are_named(self, provider: FactStore) -> None:
        """From each save until they have them, and only if the question has a vector."""
        await provider.save(theme("dark"), USER, AGENT)
        await provider.save(theme("light"), PERSON.of("ann"), AGENT)
        both = [HERE, ANN]

        first = await ask(provider, asking("dark", vector=DARK), both)
        assert found_in(first) == [("dark",)]
        assert first.unembedded == {HERE.identity, ANN.identity}
        await embed(provider, HERE)
        second = await ask(provider, asking("dark", vector=DARK), both)
        assert second.unembedded == {ANN.identity}
        await embed(provider, ANN)
        third = await ask(provider, asking("dark", vector=DARK), both)
        assert third.unembedded == frozenset()
        await provider.save(languages("java"), USER, AGENT)
        fourth = await ask(provider, asking("dark", vector=DARK), both)
        assert fourth.unembedded == {HERE.identity}
        assert (await ask(provider, asking("dark"), both)).unembedded == frozenset()

    async def test_the_nearest_facts_are_candidates(self, provider: FactStore) -> None:
        """They need no word of the question; with a limit the nearest ones are returned."""
        values = [*(f"rust number{number}" for number in range(30)), "dark", "dark light"]
        await provider.save_many([languages(each) for each in values], USER, AGENT)
        await ask(provider, asking(vector=DARK))
        await embed(provider)

        answer = await ask(provider, asking("absent", vector=DARK, limit=2))

        assert answer.has_meaning
        assert {"dark", "dark light"} <= _cosines(answer).keys()
        assert len(answer.candidates) < 30

    async def test_candidates_have_their_cosines(self, provider: FactStore) -> None:
        """Also candidates found by words. `ranked` lacks a share of the mean of all vectors."""
        values = ["dark", "dark java", "java rust", "light"]
        await provider.save_many([languages(each) for each in values], USER, AGENT)
        await ask(provider, asking(vector=DARK))
        await embed(provider)

        answer = await ask(provider, asking("rust", vector=DARK, common=0.5))

        vectors = {each: vector_of(each) for each in values}
        total = [sum(column) for column in zip(*vectors.values(), strict=True)]
        shared = [number / hypot(*total) for number in total]
        for each in answer.candidates:
            vector = vectors[str(each.load({}).values[0])]
            cosine = _product(vector, DARK)
            assert each.cosine == pytest.approx(cosine, abs=HALF)
            assert each.ranked == pytest.approx(cosine - 0.5 * _product(vector, shared), abs=HALF)
        assert len(answer.candidates) == 4
        statistics = answer.places[HERE.identity]
        assert statistics.vectors == 4
        assert statistics.cosines == pytest.approx(_product(total, DARK), abs=4 * HALF)
        ranked = [_product(each, DARK) - 0.5 * _product(each, shared) for each in vectors.values()]
        assert statistics.ranked == pytest.approx(sum(ranked), abs=4 * HALF)
        assert statistics.least is not None
        assert statistics.least <= min(ranked) + 0.2

    async def test_a_filter_holds_for_meaning(self, provider: FactStore) -> None:
        """The nearest fact is no candidate if it is outside the filter."""
        await provider.save(theme("dark"), USER, AGENT)
        await provider.save_many([languages("light"), languages("java")], USER, AGENT)
        await ask(provider, asking(vector=DARK))
        await embed(provider)
        wanted = RecallFilter(concepts=["languages"])

        answer = await ask(provider, asking(vector=DARK, filter=wanted))

        assert found_in(answer) == [("java",), ("light",)]

    async def test_vectors_of_another_model_are_not_compared(self, provider: FactStore) -> None:
        """Nor vectors with other dimensions. Several models have vectors at the same time."""
        await provider.save(theme("dark"), USER, AGENT)
        await ask(provider, asking(vector=DARK))
        await embed(provider)

        short = vector_of("dark", AXES[:3])
        for model, vector in (("other", DARK), (MODEL, short)):
            answer = await ask(provider, asking("dark", vector=vector, model=model))
            assert not answer.has_meaning
            assert _cosines(answer) == {"dark": None}
            assert answer.unembedded == {HERE.identity}

        await ask(provider, asking(vector=short, model="other"))
        assert len(await embed(provider, model="other", axes=AXES[:3])) == 1
        for model, vector in (("other", short), (MODEL, DARK)):
            answer = await ask(provider, asking(vector=vector, model=model))
            assert _cosines(answer) == {"dark": pytest.approx(1.0, abs=HALF)}
            assert answer.unembedded == frozenset()

    async def test_vectors_stay_in_their_place(self, provider: FactStore) -> None:
        """The same text is embedded again in another place, and facts of other places do not count."""
        await provider.save(theme("dark"), USER, AGENT)
        await provider.save_many([theme("dark"), languages("java")], PERSON.of("ann"), AGENT)
        await ask(provider, asking(vector=DARK), [HERE, ANN])
        await embed(provider, HERE)

        answer = await ask(provider, asking("dark", vector=DARK), [ANN])

        assert not answer.has_meaning
        assert len(await embed(provider, ANN)) == 2
        answer = await ask(provider, asking(vector=DARK), [ANN])
        assert {each.identity for each in answer.candidates} == {ANN.identity}
        assert answer.places[ANN.identity].vectors == 2

    async def test_a_text_without_a_vector_is_found_by_words(self, provider: FactStore) -> None:
        """None means that the embedder refused the text. It is not returned for embedding again."""
        await provider.save_many([languages("dark java"), languages("forbidden")], USER, AGENT)
        await ask(provider, asking(vector=DARK))
        assert len(await embed(provider, refused=["forbidden"])) == 2

        answer = await ask(provider, asking("forbidden", vector=DARK))

        assert answer.unembedded == frozenset()
        assert await embed(provider) == []
        assert answer.has_meaning
        assert _cosines(answer)["forbidden"] is None
        assert answer.places[HERE.identity].vectors == 1

    @pytest.mark.parametrize("how", ["purged", "erased"])
    async def test_vectors_go_with_their_texts(self, provider: FactStore, how: str) -> None:
        """A purged value that is saved again is embedded again."""
        await provider.save_many([theme("dark"), languages("java")], USER, AGENT)
        await ask(provider, asking(vector=DARK))
        await embed(provider)
        if how == "erased":
            await provider.erase(USER, AGENT)
        else:
            await provider.forget(USER, AGENT, concept=THEME, purge=True)
        answer = await ask(provider, asking("dark", vector=DARK))
        assert "dark" not in _cosines(answer)
        await provider.save(theme("dark"), USER, AGENT)

        answer = await ask(provider, asking("dark", vector=DARK))

        assert answer.unembedded == {HERE.identity}
        assert _cosines(answer)["dark"] is None
        await embed(provider)
        found = _cosines(await ask(provider, asking("dark", vector=DARK)))
        assert found["dark"] == pytest.approx(1.0, abs=HALF)

    async def test_vectors_of_unknown_texts_are_ignored(self, provider: FactStore) -> None:
        """For example of a text that was purged during its embedding."""
        await provider.save_many([theme("dark"), languages("java")], USER, AGENT)
        await ask(provider, asking(vector=DARK))
        space: dict[str, Any] = {"model": MODEL, "dimensions": len(DARK)}
        named = await provider.facts_to_embed(HERE, **space, limit=50)
        await provider.forget(USER, AGENT, concept=THEME, purge=True)

        given = dict.fromkeys(named, DARK) | {b"\x07" * 16: DARK}
        await provider.add_vectors(HERE, given, **space)

        answer = await ask(provider, asking(vector=DARK))
        await embed(provider)
        answer = await ask(provider, asking(vector=DARK))
        assert found_in(answer) == [("java",)]
        assert answer.places[HERE.identity].vectors == 1
        await provider.save(theme("dark"), USER, AGENT)
        answer = await ask(provider, asking("dark", vector=DARK))
        assert _cosines(answer)["dark"] is None

    async def test_vectors_are_no_facts(self, provider: FactStore) -> None:
        """They neither change nor create a place."""
        await provider.save(theme("dark"), USER, AGENT)
        entries = await provider.entries(USER, AGENT)
        await ask(provider, asking(vector=DARK))
        await embed(provider)
        await embed(provider, ANN)

        assert await provider.entries(USER, AGENT) == entries
        assert [(info.scope, info.count) for info in await provider.places()] == [(AGENT, 1)]


def _product(one: Sequence[float], two: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, two, strict=True))
