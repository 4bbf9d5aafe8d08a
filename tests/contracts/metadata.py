"""Tests of metadata, and of `rewrite`."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import JsonValue

from factmem import FactStore, MultipleFacts, SingleFact
from factmem.testing._facts import AGENT, LANGUAGES, THEME, USER, languages, theme
from factmem.testing.clock import SettableClock

TICKET: dict[str, JsonValue] = {"ticket": "T-7", "tags": ["a", {"b": None}], "rank": 2, "ok": True}


def noted(value: str, metadata: Mapping[str, JsonValue]) -> SingleFact[str]:
    return replace(theme(value), metadata=metadata)


class FactMetadata:
    """Metadata is stored with a fact, and a save without metadata keeps it."""

    async def test_metadata_comes_back(self, provider: FactStore) -> None:
        """Equal and immutable, from `load`, `load_all` and the history."""
        fact = noted("dark", TICKET)
        many = MultipleFacts(LANGUAGES, ["java", "go"], metadata=TICKET)
        await provider.save_many([fact, many], USER, AGENT)

        (loaded,) = await provider.load(THEME, USER, AGENT)
        (entry,) = await provider.history(THEME, USER, AGENT)

        assert loaded == fact
        assert json.loads(json.dumps(loaded.metadata)) == TICKET
        assert [fact.metadata for fact in await provider.load_all(USER, AGENT)] == [TICKET, TICKET]
        assert entry.fact is not None
        assert entry.fact.metadata == TICKET
        with pytest.raises(TypeError):
            loaded.metadata["ticket"] = "other"  # type: ignore[index]

    async def test_a_confirmation_without_metadata_leaves_it(self, provider: FactStore) -> None:
        """The same value saved again keeps its metadata, unless the save has other metadata."""
        await provider.save(noted("dark", {"ticket": "one"}), USER, AGENT)
        await provider.save(theme("dark"), USER, AGENT)
        (kept,) = await provider.load(THEME, USER, AGENT)
        await provider.save(noted("dark", {"ticket": "two"}), USER, AGENT)
        (taken,) = await provider.load(THEME, USER, AGENT)

        assert kept.metadata == {"ticket": "one"}
        assert taken.metadata == {"ticket": "two"}

    async def test_forgetting_by_metadata(self, provider: FactStore) -> None:
        """Every key must be there, with an equal value of the same JSON type."""
        await provider.save(noted("dark", TICKET), USER, AGENT)
        await provider.save(languages("java"), USER, AGENT)

        for other in ({"ticket": "T-8"}, {"rank": 2.0}, {"ok": 1}, {"ticket": "T-7", "no": None}):
            assert await provider.forget(USER, AGENT, metadata=other) == 0
        assert await provider.forget(USER, AGENT, metadata={"ticket": "T-7", "ok": True}) == 1
        assert [fact.values for fact in await provider.load_all(USER, AGENT)] == [("java",)]

    async def test_forgetting_several_facts_and_concepts(self, provider: FactStore) -> None:
        """Ids and concepts are lists, and both must agree."""
        facts = [theme("dark"), languages("java"), languages("go")]
        for fact in facts:
            await provider.save(fact, USER, AGENT)
        ids = [fact.id for fact in facts]

        assert await provider.forget(USER, AGENT, fact_ids=[]) == 0
        assert await provider.forget(USER, AGENT, fact_ids=ids, concepts=[LANGUAGES]) == 2
        assert await provider.forget(USER, AGENT, concepts=[THEME, LANGUAGES]) == 1

    async def test_purged_metadata_is_gone(self, provider: FactStore) -> None:
        """Metadata is removed from the ledger together with its values."""
        await provider.save(noted("dark", {"ticket": "very secret"}), USER, AGENT)
        await provider.forget(USER, AGENT, concept=THEME, purge=True)

        assert "very secret" not in json.dumps(await provider.entries(USER, AGENT))


class Rewriting:
    """`rewrite` replaces a ledger by the result of a function."""

    async def test_entries_are_changed_and_removed(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """Reads show the rewritten ledger at once; times stay."""
        await provider.save(theme("dark"), USER, AGENT)
        clock.advance(timedelta(hours=1))
        await provider.save(languages("java"), USER, AGENT)
        before = await provider.entries(USER, AGENT)
        assert len(await provider.load_all(USER, AGENT)) == 2

        assert await provider.rewrite(lambda entries: [None, entries[1]], USER, AGENT) == 1

        assert await provider.load(THEME, USER, AGENT) == []
        assert await provider.entries(USER, AGENT) == before[1:]
        assert await provider.rewrite(lambda entries: [*entries], USER, AGENT) == 0

    async def test_what_no_store_records_is_refused(self, provider: FactStore) -> None:
        """Nothing changes."""
        await provider.save(theme("dark"), USER, AGENT)
        before = await provider.entries(USER, AGENT)

        with pytest.raises(ValueError, match="cannot be recorded"):
            await provider.rewrite(
                lambda entries: [{**entries[0], "facts": [{}]}],  # type: ignore[list-item]
                USER,
                AGENT,
            )
        with pytest.raises(ValueError, match="for each entry"):
            await provider.rewrite(lambda _: [], USER, AGENT)
        assert await provider.entries(USER, AGENT) == before
