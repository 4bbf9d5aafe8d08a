"""MemoryReview: what agents learnt, for people who accept, correct, reject and undo it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from factmem._arguments import expect, guided
from factmem.errors import InputValueError
from factmem.events import MemoryOperation
from factmem.ledger._items import Condition, digest_of
from factmem.ledger._reads import facts_of
from factmem.ledger._undo import undoing
from factmem.ledger.entries import Amendment, Entry, RetractedValue, stored
from factmem.ledger.history import FactChange, change_ids, changes_of, place_digits
from factmem.ledger.ledger import Ledger, Proposal
from factmem.ledger.resolution import PlacedFact, is_version, version_of
from factmem.memory._parts import MemoryParts
from factmem.memory._statements import changed, expected_version
from factmem.memory.listing import keys_of
from factmem.models._display import Displayed
from factmem.models._values import Canonical
from factmem.models.facts import AnyFact, FactSource, FactState, SingleFact, SourceKind
from factmem.models.places import MemorySubject, Place, acting_unless_named
from factmem.models.when import stamp, utc
from factmem.providers._view import each_of
from factmem.providers.provider import fact_store

__all__ = ["InboxItem", "MemoryReview"]

ItemKind: TypeAlias = Literal["contradiction", "proposed", "doubtful", "new"]


@dataclass(frozen=True, slots=True)
class InboxItem(Displayed):
    """Something that a person may want to decide."""

    kind: ItemKind
    """A proposal against a current value, another proposal, a current value that may not follow
    from its quote, or a current value that was learnt lately."""
    place: Place
    fact: AnyFact
    """The proposed fact, or the current one."""
    at: datetime | None
    """When it was recorded last."""
    actor: str | None
    """Who recorded it."""
    source: FactSource | None
    """Where it was said."""
    current: AnyFact | None = None
    """The current fact that a proposal contradicts."""
    is_ending: bool = False
    """Whether a model found that `current` is no longer true: `accept` removes it, `reject` keeps
    it."""

    @property
    def version(self) -> str:
        """A string that changes with what has to be decided, for `if_unchanged`."""
        against = "" if self.current is None else version_of(self.current)
        return version_of(self.fact) + against

    @property
    def quote(self) -> str | None:
        """The words that state it."""
        return None if self.source is None else self.source.quote


def proposed_item(place: Place, given: Proposal) -> InboxItem:
    """Return the item of a proposal."""
    is_against = given.is_ending or given.current is not None
    return InboxItem(
        "contradiction" if is_against else "proposed",
        place,
        given.fact,
        given.proposed_at,
        given.actor,
        given.source,
        given.current,
        given.is_ending,
    )


def kind_of(fact: AnyFact, begin: datetime | None) -> ItemKind | None:
    """Return the kind of an unconfirmed current fact; None if it needs no review."""
    source = fact.source
    is_by_model = source is not None and source.kind is SourceKind.ASSISTANT
    is_learnt = is_by_model or (source is not None and source.quote is not None)
    if source is None or fact.state is FactState.CONFIRMED or not is_learnt:
        return None
    if is_by_model or source.doubts:
        return "doubtful"
    at = fact.confirmed_at
    return "new" if begin is None or at is None or at >= begin else None


def inbox_items(
    place: Place, proposals: Iterable[Proposal], facts: Iterable[AnyFact], begin: datetime | None
) -> list[InboxItem]:
    """Return the items of a place: its proposals, then the current facts that need a review."""
    found = [proposed_item(place, each) for each in proposals]
    disputed = {item.fact.id for item in found if item.is_ending}
    for fact in facts:
        kind = kind_of(fact, begin)
        if kind is not None and fact.id not in disputed:
            found.append(InboxItem(kind, place, fact, fact.confirmed_at, fact.actor, fact.source))
    return found


WEEK = timedelta(days=7)
KINDS: tuple[ItemKind, ...] = ("contradiction", "proposed", "doubtful", "new")
"""The kinds of items, the most urgent first."""

Reviewed: TypeAlias = AnyFact | PlacedFact | InboxItem
"""A fact, with or without its place."""


@dataclass(frozen=True, slots=True)
class FactDifference(Displayed):
    """A concept of a place whose facts differ between two times."""

    place: Place
    keyword: str
    before: tuple[AnyFact, ...]
    after: tuple[AnyFact, ...]


@guided(
    {
        "approve confirm keep": "await review.accept(fact)",
        "decline remove delete forget": "await review.reject(fact)",
        "edit update": "await review.correct(fact, value)",
        "list pending proposals": "await review.inbox()",
    }
)
class MemoryReview:
    """What a memory learnt, and the decisions of people about it.

        for item in await memory.review.inbox():
            print(item.kind, item.fact.text, item.quote)
        with acting("jane", reason="the customer called"):
            await memory.review.correct(item, "Silver")

    It covers the places of a view, and the whole store for a memory that is none. `accept`,
    `correct` and `reject` are decisions of a person: what they leave is confirmed, and a model that
    says something else later only proposes it. Each returns the id of the change, for `undo`. No
    call to a model.

    `StorageError` is raised if a place could not be read or written, `MemoryAccessError` by a
    decision in a read-only view, and `ChangedError` by a decision about a fact that is neither
    current nor proposed any more, or not as it was shown: `if_unchanged` is the item or the fact
    that was shown, or its `version`, so that no decision overwrites one made since then.
    """

    def __init__(self, parts: MemoryParts) -> None:
        self._provider = parts.provider
        self._reader = parts.reader
        self._events = parts.events
        self._clock = parts.clock

    async def inbox(
        self,
        *,
        since: datetime | timedelta | None = WEEK,
        subjects: Iterable[MemorySubject] | None = None,
        limit: int | None = None,
    ) -> list[InboxItem]:
        """Return what a person may want to decide, each once: contradictions first, then newest.

        Args:
            since: From when on unconfirmed values that models learnt are new; None for all of them.
                Proposals and doubtful values stay in the inbox until they are decided.
            subjects: Only places of these subjects; all by default.
            limit: The maximum of items.
        """
        begin = self._time(since, "since")

        async def read(place: Place) -> list[InboxItem]:
            about, concepts = (place.subject, place.scope), self._reader.concepts.values()
            proposals = await self._provider.proposals(*about, concepts=concepts)
            facts = await self._provider.load_all(*about, concepts=concepts)
            return inbox_items(place, proposals, facts, begin)

        found = [item for items in await self._each(read, subjects) for item in items]
        found.sort(key=lambda item: item.at.timestamp() if item.at else 0.0, reverse=True)
        found.sort(key=lambda item: KINDS.index(item.kind))
        return found[:limit]

    async def accept(self, fact: Reviewed, *, if_unchanged: Reviewed | str | None = None) -> str:
        """Confirm an item of the inbox or a current fact, and return the id of the change.

        A proposal becomes current, in the place of the value that it contradicts. If the concept
        has one value, its other proposals are settled. A proposed end removes the value.
        `if_unchanged` is what was shown.
        """
        made = _removed if _is_ending(fact) else _confirmed
        return await self._decide(fact, made(_fact_of(fact)), if_unchanged)

    async def correct(
        self, fact: Reviewed, value: object, *, if_unchanged: Reviewed | str | None = None
    ) -> str:
        """Replace the value of a fact by a confirmed one, and return the id of the change.

        The new value has no source. Of a concept with many values, only those of this fact are
        replaced, and a model that states one of them again only proposes it.

        Args:
            fact: An item of the inbox, or a current fact.
            value: The right value; for a concept with many values one of them, or a list.
            if_unchanged: What was shown.

        Raises:
            ValueError: The value does not fit the concept.
        """
        old: Any = _fact_of(fact)
        is_single, keyword = isinstance(old, SingleFact), old.concept.keyword
        right: dict[str, Any] = {"value": value}
        if not is_single:
            right = {"values": tuple(value) if isinstance(value, list | tuple) else (value,)}
        right |= {"state": FactState.CONFIRMED, "source": None, "timestamp": self._clock()}
        new: Any = replace(old, **right)
        kept = keys_of(new)
        gone = [each for each in keys_of(old) if each not in kept]

        def made(ledger: Ledger, now: str) -> Entry:
            entry: Entry = {"at": now, "facts": [stored(new)]}
            # One value replaces another, unless other programs gave the concept several.
            if not is_single or ledger.is_wide(keyword, now):
                entry["retract"] = _retracted(old, gone, ledger, now)
            return entry

        return await self._decide(fact, made, if_unchanged)

    async def reject(self, fact: Reviewed, *, if_unchanged: Reviewed | str | None = None) -> str:
        """Forget a current fact or reject an item of the inbox; return the id of the change.

        A model that states the value again only proposes it. Of a proposed end, the value is
        confirmed. The history keeps it: to remove it from there too, use
        `memory.contents.forget(..., purge=True)`. `if_unchanged` is what was shown.
        """
        made = _confirmed if _is_ending(fact) else _removed
        return await self._decide(fact, made(_fact_of(fact)), if_unchanged)

    async def changes(
        self,
        *,
        since: datetime | timedelta | None = None,
        until: datetime | timedelta | None = None,
        actor: str | None = None,
        subjects: Iterable[MemorySubject] | None = None,
        limit: int | None = None,
    ) -> list[FactChange]:
        """Return what was added, replaced, confirmed, proposed and forgotten, newest first.

        Up to `limit` changes, between two times or spans of time, of an actor if one is given, and
        in the places of some subjects, by default of all.
        """
        begin, end = self._time(since, "since"), self._time(until, "until")
        concepts = {word: each for each in self._reader.concepts.values() for word in each.keywords}

        async def read(place: Place) -> list[FactChange]:
            entries = await self._provider.entries(place.subject, place.scope)
            first, last = _stamp(begin) or "", _stamp(end)
            found = changes_of(place, entries, concepts, since=first, until=last)
            newest = [each for each in found if actor in (None, each.actor)][::-1]
            return newest[:limit]

        found = [each for part in await self._each(read, subjects) for each in part]
        found.sort(key=lambda each: each.at, reverse=True)
        return found[:limit]

    async def diff(
        self,
        then: datetime | timedelta,
        now: datetime | timedelta | None = None,
        *,
        subjects: Iterable[MemorySubject] | None = None,
    ) -> list[FactDifference]:
        """Return the concepts whose values or states differ between two times, place by place.

        Args:
            then: The earlier time, or how long ago.
            now: The later time; the present by default.
            subjects: Only places of these subjects; all by default.
        """
        first, last = self._time(then, "then"), self._time(now, "now")
        concepts = self._reader.concepts.values()

        async def read(place: Place) -> list[FactDifference]:
            subject, scope, load = place.subject, place.scope, self._provider.load_all
            before = _by_keyword(await load(subject, scope, concepts=concepts, as_of=first))
            after = _by_keyword(await load(subject, scope, concepts=concepts, as_of=last))
            return [
                FactDifference(place, word, before.get(word, ()), after.get(word, ()))
                for word in sorted(before.keys() | after.keys())
                if _seen(before.get(word, ())) != _seen(after.get(word, ()))
            ]

        return [each for part in await self._each(read, subjects) for each in part]

    async def undo(self, change_id: str) -> str:
        """Undo a change of any time, and return the id of the change that does so.

        What the change removed is current again, with its dates, sources and state, and what it
        added is gone. The history has both. An undo can be undone too. Values that were purged do
        not come back.

        Raises:
            ValueError: A later change rests on it, it changed nothing, or there is no such change
                in the memory's places: purges and erasures cannot be undone, nor anything before.
        """
        expect(change_id, str, "change_id", "undo(change.id)")
        places = await fact_store(self._provider).list_places()
        found = [each for each in places if change_id.startswith(place_digits(each.identity))]
        if not found:
            raise InputValueError(
                f"No place of this memory has a change {change_id!r}: it has another spelling, or "
                "its place was erased, which cannot be undone"
            )
        # The id begins with a digest of its place. Usually one place has these digits.
        place = found[-1]
        for other in found[:-1]:  # of some thousand places, two share the digits
            entries = await self._provider.entries(other.subject, other.scope)
            if change_id in change_ids(other.identity, entries):
                place = other
        return await self._amended(place, undoing(place.identity, change_id))

    async def _decide(
        self,
        fact: Reviewed,
        made: Callable[[Ledger, str], Entry],
        if_unchanged: Reviewed | str | None,
    ) -> str:
        """Append the entry of a decision about a fact that is current or proposed."""
        async with self._events.before(MemoryOperation.SAVE):
            about = _fact_of(fact)
            wanted = None if if_unchanged is None else expected_version(if_unchanged)
            place = await self._place_of(fact)
        concepts, keywords = self._reader.concepts.values(), about.concept.keywords

        def change(entries: Sequence[Entry], now: str) -> list[Entry]:
            ledger = Ledger(entries)
            named = Condition(fact_ids=frozenset([about.id]), keywords=frozenset(keywords))
            facts = facts_of(ledger.at(now), keywords, concepts, now)
            if not ledger.matching(named, now):
                raise changed(facts, place)
            if wanted is not None:
                waiting = [proposed_item(place, each) for each in ledger.proposals(concepts, now)]
                shown = [each for each in waiting if each.fact.id == about.id]
                present = [*(each.fact for each in shown), *(f for f in facts if f.id == about.id)]
                is_shown = any(wanted == each.version for each in shown)
                if not (is_shown or any(is_version(wanted, each) for each in present)):
                    raise changed(facts, place)
            return [made(ledger, now)]

        return await self._amended(place, change)

    async def _amended(self, place: Place, change: Amendment) -> str:
        ids: list[str] = []

        def noted(entries: Sequence[Entry], now: str) -> list[Entry]:
            # Ids contain the time of the entry, which the store would set only later.
            made: list[Entry] = [{**each, "at": now} for each in change(entries, now)]
            ids[:] = change_ids(place.identity, [*entries, *made])
            return made

        with acting_unless_named("reviewer"):
            await self._provider.amend(noted, place.subject, place.scope)
        return ids[-1]

    async def _place_of(self, fact: Reviewed) -> Place:
        if isinstance(fact, PlacedFact | InboxItem):
            return fact.place
        for place in await fact_store(self._provider).list_places():
            if await self._provider.find(fact.id, place) is not None:
                return place
            waits = await self._provider.proposals(place.subject, place.scope)
            if any(each.fact.id == fact.id for each in waits):
                return place
        raise InputValueError(f"No place of this memory has the fact {fact.id!r}")

    async def _each(
        self, read: "Callable[[Place], Any]", subjects: Iterable[MemorySubject] | None
    ) -> list[Any]:
        store = fact_store(self._provider)
        return await each_of(read, await store.list_places(subjects=subjects))

    def _time(self, when: datetime | timedelta | None, name: str) -> datetime | None:
        if when is None:
            return None
        example = f"{name}=timedelta(days=1)"
        expect(when, (datetime, timedelta), name, example)
        return self._clock() - when if isinstance(when, timedelta) else utc(when, f"moment {name}")


def _stamp(when: datetime | None) -> str | None:
    return None if when is None else stamp(when)


def _fact_of(fact: Reviewed) -> AnyFact:
    if isinstance(fact, PlacedFact | InboxItem):
        return fact.fact
    return expect(fact, AnyFact, "fact", "accept(item), of await memory.review.inbox()")


def _is_ending(fact: Reviewed) -> bool:
    return isinstance(fact, InboxItem) and fact.is_ending


def _confirmed(fact: AnyFact) -> Callable[[Ledger, str], Entry]:
    confirmed: Any = replace(fact, state=FactState.CONFIRMED)
    return lambda _, now: {"at": now, "facts": [stored(confirmed)]}


def _removed(fact: AnyFact) -> Callable[[Ledger, str], Entry]:
    return lambda ledger, now: {"at": now, "retract": _retracted(fact, keys_of(fact), ledger, now)}


def _retracted(
    fact: AnyFact, keys: Iterable[Canonical], ledger: Ledger, now: str
) -> list[RetractedValue]:
    """Return the ends of values, also of those said at the same time: a clock may be set back."""
    held = [item for word in fact.concept.keywords for item in ledger.items(word, now).values()]
    last = max([fact.id, *(item.last[1] for item in held)])
    end: RetractedValue = {"keyword": "", "timestamp": now, "id": last, "confirmed": True}
    return [
        {**end, "keyword": keyword, "digest": digest_of(key)}
        for keyword in fact.concept.keywords
        for key in keys
    ]


def _by_keyword(facts: Iterable[AnyFact]) -> dict[str, tuple[AnyFact, ...]]:
    found: dict[str, tuple[AnyFact, ...]] = {}
    for fact in facts:
        found[fact.concept.keyword] = (*found.get(fact.concept.keyword, ()), fact)
    return found


def _seen(facts: Iterable[AnyFact]) -> set[tuple[Canonical, FactState]]:
    return {(key, fact.state) for fact in facts for key in keys_of(fact)}
