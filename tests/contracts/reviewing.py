"""What a person has confirmed, what waits for a decision, and who changed what."""

import pytest

from factmem import (
    Concept,
    FactSource,
    FactStore,
    FactType,
    MultipleFacts,
    Place,
    SingleFact,
    SourceKind,
    acting,
)
from factmem.ledger._undo import undoing
from factmem.ledger.history import change_ids
from factmem.models.facts import AnyFact, FactState
from factmem.providers.results import RetractedFact
from factmem.testing._facts import AGENT, THEME, USER
from factmem.testing.clock import SettableClock

SAID = FactSource(SourceKind.USER, "chat", 3, "I like it dark")
MANY = Concept(THEME.keyword, THEME.description, FactType.MULTIPLE)
HERE = Place(AGENT, USER)


async def values(provider: FactStore) -> list[object]:
    """Return all current values."""
    return [each for fact in await provider.load_all(USER, AGENT) for each in fact.values]


class Reviewing:
    """A confirmed value stays, whatever models learn; what they learn waits for a decision."""

    async def confirm(self, provider: FactStore, fact: AnyFact) -> None:
        """Save a fact as a person."""
        with acting("jane", reason="she asked"):
            await provider.save(fact, USER, AGENT)

    async def test_a_state_is_kept_with_its_actor(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """They come back from loads, from the history and from another statement of the value."""
        await self.confirm(provider, SingleFact(THEME, "light", state=FactState.CONFIRMED))
        clock.advance()
        said = SingleFact(THEME, "light", timestamp=clock(), source=SAID)
        await provider.learn([said], USER, AGENT)

        (fact,) = await provider.load(THEME, USER, AGENT)
        first, again = await provider.history(THEME, USER, AGENT)

        assert (fact.state, fact.actor, fact.reason) == (FactState.CONFIRMED, "jane", "she asked")
        assert (first.actor, first.reason, first.action) == ("jane", "she asked", "saved")
        assert (again.actor, again.action) == (None, "confirmed")

    async def test_statements_never_replace_or_double_it(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """Of a SINGLE concept, and under a made-up keyword that is MULTIPLE; proposals are once."""
        await self.confirm(provider, SingleFact(THEME, "light", state=FactState.CONFIRMED))
        for concept in (THEME, MANY, THEME, MANY):
            clock.advance()
            said: AnyFact = SingleFact(THEME, "dark", timestamp=clock(), source=SAID)
            if concept is MANY:
                said = MultipleFacts(MANY, ["dark"], timestamp=clock(), source=SAID)
            learned = await provider.learn([said], USER, AGENT)
            assert learned.proposed == {said.id}

        assert await values(provider) == ["light"]
        (fact,) = await provider.load_all(USER, AGENT)
        assert fact.concept.fact_type is FactType.SINGLE
        (proposal,) = await provider.proposals(USER, AGENT)
        assert proposal.fact.values == ("dark",)
        assert proposal.fact.state is FactState.PROPOSED
        assert proposal.source == SAID
        assert proposal.current is not None
        assert proposal.current.values == ("light",)

    async def test_a_retraction_of_it_waits(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """A person decides; only a confirmed retraction ends the value."""
        await self.confirm(provider, SingleFact(THEME, "light", state=FactState.CONFIRMED))
        clock.advance()
        ended = RetractedFact(THEME, "light", clock(), SAID)

        learned = await provider.learn([], USER, AGENT, retracted=[ended])

        assert learned.disputed == (ended,)
        assert await values(provider) == ["light"]
        (proposal,) = await provider.proposals(USER, AGENT)
        assert proposal.is_ending
        assert proposal.source == FactSource(SourceKind.USER, "chat", 3)

    async def test_a_purge_removes_proposals_too(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """Nothing of the value stays, and what it had changed cannot be undone."""
        await self.confirm(provider, SingleFact(THEME, "light", state=FactState.CONFIRMED))
        clock.advance()
        said = SingleFact(THEME, "zebra", timestamp=clock(), source=SAID)
        await provider.learn([said], USER, AGENT)
        entries = await provider.entries(USER, AGENT)
        lost = change_ids(HERE.identity, entries)[-1]
        assert "zebra" in str(entries)

        assert await provider.forget(USER, AGENT, concept=THEME, value="zebra", purge=True) == 1

        assert await provider.proposals(USER, AGENT) == []
        assert "zebra" not in str(await provider.entries(USER, AGENT))
        with pytest.raises(ValueError, match="purged"):
            await provider.amend(undoing(HERE.identity, lost), USER, AGENT)
        assert await values(provider) == ["light"]
