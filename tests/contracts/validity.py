"""What holds at a time, as known now and as known then.

The model in `tests/ledger/test_validity.py` has no states, expiry, zones, and days
that begin at noon.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from factmem import Concept, FactStore, FactType, MultipleFacts, Place, SingleFact
from factmem.ledger._undo import undoing
from factmem.ledger.history import change_ids
from factmem.models.facts import AnyFact, FactState
from factmem.models.when import When
from factmem.providers.results import RetractedFact
from factmem.testing._facts import AGENT, USER
from factmem.testing.clock import SettableClock

SITUATIONS: dict[str, str] = {
    "moved to earlier": """
        2026-01 say Naver | say Kakao since=2026-05
        2026-02 say Kakao since=2026-03
        2026-03 ask Kakao | ask Naver valid=2026-02 | ask Naver valid=2026-03 as_of=2026-01-15
        2026-06 ask Kakao since=2026-03
    """,
    "said late": """
        2026-01 say Kakao
        2026-02 say Naver said=2025-06
        2026-03 ask Kakao | ask Naver valid=2025-09 | ask - valid=2025-09 as_of=2026-01-15
    """,
    "the same place long ago": """
        2026-01 say Seoul since=2020
        2026-02 say Seoul since=2001 until=2009
        2026-03 ask Seoul since=2020 | ask Seoul valid=2005 | ask - valid=2015
    """,
    "a month at its border": """
        2026-01 say Busan since=2026-02 until=2026-05
        2026-01-31T23:59:59.999999Z ask -
        2026-02 ask Busan | ask - valid=2026-01 | ask Busan valid=2026-05-31
        2026-06 ask - | ask Busan valid=2026-05-31T23:59:59.999999Z
        2026-06 ask - valid=2026-06-01T00:00:00Z
    """,
    "a year that has begun": """
        2026-03 say Busan since=2026
        2026-03 ask Busan | ask Busan valid=2026-01-01 | ask - valid=2025-12-31
    """,
    "a time zone": """
        2026-01 say Seoul | say Busan since=2026-03-01[Asia/Seoul]
        2026-02-28T14:59:59Z ask Seoul
        2026-02-28T15:00:00Z ask Busan | ask Seoul valid=2026-02-28T14:00:00Z
        2026-03-02 ask Busan valid=2026-03-01[Asia/Seoul] | ask Seoul valid=2026-02-28[Asia/Seoul]
    """,
    "a day in which it changed": """
        2026-01 say Seoul | say Busan since=2026-03-15T12:00:00Z
        2026-04 ask Busan valid=2026-03-15 | ask Seoul valid=2026-03-15T11:00:00Z
        2026-04 ask Busan valid=2026 | ask Seoul valid=2026-02
    """,
    "many values with times": """
        2026-01 say Netflix,Wavve many since=2024 | say Tving many until=2026-03
        2026-02 say Wavve many until=2026-02
        2026-02-15 ask Netflix,Wavve,Tving
        2026-05 ask Netflix | ask Netflix,Tving valid=2026-03 | ask Netflix,Wavve valid=2025
    """,
    "one more of many, planned": """
        2026-01 say Netflix many | say Tving,Wavve many since=2026-03
        2026-02 ask Netflix | ask Netflix,Tving,Wavve valid=2026-03
        2026-03 ask Netflix,Tving,Wavve | ask Netflix valid=2026-02
    """,
    "one of the planned values forgotten": """
        2026-01 say Netflix many | say Tving,Wavve many since=2026-03
        2026-02 forget Tving many
        2026-03 ask Netflix,Wavve | ask Netflix,Tving,Wavve valid=2026-03 as_of=2026-01-15
    """,
    "kept longer than it holds": """
        2026-01 say Busan until=2026-03 expires=2026-08
        2026-04 ask - | ask Busan valid=2026-02
        2026-08 ask - valid=2026-02 | ask Busan valid=2026-02 as_of=2026-05
    """,
    "kept shorter than it holds": """
        2026-01 say Busan until=2026-08 expires=2026-03
        2026-02 ask Busan | ask Busan valid=2026-05
        2026-04 ask - | ask - valid=2026-02
    """,
    "expired before it began": """
        2026-01 say Seoul | say Busan since=2026-05 expires=2026-03
        2026-06 ask Seoul | ask Busan valid=2026-05 as_of=2026-02
    """,
    "as known now and as known then": """
        2026-01 say Seoul since=2025
        2026-03 say Busan since=2025-06 | say Jeju since=2026-05
        2026-04 ask Busan valid=2025-08 | ask Seoul valid=2025-08 as_of=2026-02
        2026-04 ask Jeju valid=2026-06 | ask Seoul valid=2026-06 as_of=2026-02
    """,
    "no longer true": """
        2026-01 say Seoul
        2026-03 retract Seoul
        2026-04 ask - | ask Seoul valid=2026-02 | ask - valid=2026-03-02
    """,
    "a plan that was given up": """
        2026-01 say Naver | say Kakao since=2026-03
        2026-02 retract Kakao
        2026-04 ask Naver | ask Naver valid=2026-03
    """,
    "a proposed plan": """
        2026-01 say Naver | say Kakao since=2026-03 state=proposed
        2026-03 ask Naver | ask Naver valid=2026-03
        2026-04 say Kakao since=2026-03 state=confirmed | ask Kakao | ask Naver valid=2026-02
    """,
    "a confirmed plan": """
        2026-01 say Naver | say Kakao since=2026-03 state=confirmed
        2026-02 say Line | ask Line
        2026-03 ask Kakao confirmed
    """,
    "purged": """
        2026-01 say Naver | say Kakao since=2026-03
        2026-04 say Line since=2026-04 | purge Line | ask - | ask Kakao valid=2026-03
    """,
}
"""Each line is a time and what is done then. `ask` names the values, `-` for none."""


class Step(NamedTuple):
    """What is done or asked in a situation."""

    at: When
    name: str
    does: str
    values: tuple[str, ...]
    options: dict[str, str]

    @property
    def concept(self) -> Concept[str, Any]:
        """The concept of its situation."""
        is_many = "Netflix" in SITUATIONS[self.name]
        kind = FactType.MULTIPLE if is_many else FactType.SINGLE
        return Concept(self.name.replace(" ", "-").replace(",", ""), "About her", kind)


def steps() -> list[Step]:
    """Return the steps of all situations, by their times."""
    return sorted(_parsed(), key=lambda step: step.at.begin)


def _parsed() -> Iterator[Step]:
    for name, lines in SITUATIONS.items():
        for line in lines.strip().splitlines():
            at, _, rest = line.strip().partition(" ")
            for said in rest.split(" | "):
                does, *words = said.split(" ")
                options = dict(word.split("=") for word in words if "=" in word)
                named = next((word for word in words if "=" not in word), "-")
                values = () if named == "-" else tuple(named.split(","))
                if words[-1:] == ["confirmed"]:
                    options["state"] = "confirmed"
                yield Step(When(at), name, does, values, options)


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
