"""What holds at a time, as known now and as known then."""

from typing import Any

from factmem import Concept, FactStore, FactType, MultipleFacts, Place, SingleFact
from factmem.ledger._undo import undoing
from factmem.ledger.history import change_ids
from factmem.models.facts import AnyFact, FactState
from factmem.models.when import When
from factmem.providers.results import RetractedFact
from factmem.testing._facts import AGENT, USER
from factmem.testing.clock import SettableClock
from tests.contracts.situations import Step, steps


def _fact(step: Step) -> AnyFact:
    given = step.options
    more: dict[str, Any] = {name: When(given[name]) for name in ("since", "until") if name in given}
    if "expires" in given:
        more["expires_at"] = When(given["expires"]).begin
    more["timestamp"] = When(given["said"]).begin if "said" in given else step.at.begin
    more["state"] = FactState(given.get("state", "stated"))
    if step.concept.fact_type is FactType.MULTIPLE:
        return MultipleFacts(step.concept, step.values, **more)
    return SingleFact(step.concept, step.values[0], **more)


async def _answer(store: FactStore, step: Step) -> str | None:
    """Ask, and return what is wrong with the answer."""
    given = step.options
    then = When(given["as_of"]).begin if "as_of" in given else None
    facts = await store.load(step.concept, USER, AGENT, as_of=then, valid_at=given.get("valid"))
    all_facts = await store.load_all(USER, AGENT, as_of=then, valid_at=given.get("valid"))
    alike = [each.values for each in all_facts if each.concept.keyword == step.concept.keyword]
    found = [value for fact in facts for value in fact.values]
    is_right = sorted(found) == sorted(step.values) and alike == [fact.values for fact in facts]
    if "state" in given:
        is_right &= all(fact.state == given["state"] for fact in facts)
    if "since" in given:
        is_right &= all(str(fact.since) == given["since"] for fact in facts)
    return None if is_right else f"{step.name}: at {step.at} {given}: {found} and not {step.values}"


async def _wrong(store: FactStore, clock: SettableClock) -> list[str]:
    """Do what situations say; return the wrong answers."""
    wrong: list[str] = []
    for step in steps():
        clock.now, concept = step.at.begin, step.concept
        if step.does == "say":
            await store.save(_fact(step), USER, AGENT)
        elif step.does == "retract":
            gone = RetractedFact(concept, step.values[0], step.at.begin)
            await store.learn([], USER, AGENT, retracted=[gone])
        elif step.does == "ask":
            wrong += filter(None, [await _answer(store, step)])
        else:
            chosen: Any = {"value": step.values[0]} if step.values else {}
            is_purged = step.does == "purge"
            await store.forget(USER, AGENT, concept=concept, purge=is_purged, **chosen)
    return wrong


class ValidTime:
    """A value holds from its `since` to its `until`, whatever was known about it when."""

    async def test_situations(self, provider: FactStore, clock: SettableClock) -> None:
        """What is current, what held at a time, as known now and as known then."""
        assert await _wrong(provider, clock) == []

    async def test_a_plan_can_be_undone(self, provider: FactStore, clock: SettableClock) -> None:
        """Until it begins; what was current stays."""
        job, identity = Concept("job", "Where she works"), Place(AGENT, USER).identity
        clock.now = When("2026-01").begin
        await provider.save(SingleFact(job, "Naver", timestamp=clock()), USER, AGENT)
        plan = SingleFact(job, "Kakao", since="2026-03", timestamp=clock())
        await provider.save(plan, USER, AGENT)
        last = change_ids(identity, await provider.entries(USER, AGENT))[-1]

        await provider.amend(undoing(identity, last), USER, AGENT)
        clock.now = When("2026-04").begin

        assert [fact.value for fact in await provider.load(job, USER, AGENT)] == ["Naver"]

    async def test_what_begins_and_ends_is_a_change(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """Of the version and of what changed since, as an expiry is; the history shows a plan."""
        job = Concept("job", "Where she works")
        clock.now = When("2026-01").begin
        await provider.save(SingleFact(job, "Naver", timestamp=clock()), USER, AGENT)
        plan = SingleFact(job, "Kakao", since="2026-03", until="2026-05", timestamp=clock())
        await provider.save(plan, USER, AGENT)
        seen: list[list[str]] = []
        for month in ("2026-02", "2026-03", "2026-06"):
            before = await provider.version(USER, AGENT)
            clock.now = When(month).begin
            is_same = await provider.version(USER, AGENT) == before
            assert is_same == (month == "2026-02")
            changes = await provider.changes(USER, AGENT, since=before)
            facts = await provider.load_all(USER, AGENT)
            if changes:
                shown = [fact for found in changes.facts.values() for fact in found]
                assert shown == ([] if month == "2026-02" else facts)
            seen.append([str(value) for fact in facts for value in fact.values])

        actions = [str(entry.action) for entry in await provider.history(job, USER, AGENT)]
        assert (seen, actions) == ([["Naver"], ["Kakao"], []], ["saved", "planned"])
        assert [info.count for info in await provider.places()] == [0]
