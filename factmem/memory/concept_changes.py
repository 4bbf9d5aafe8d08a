"""Changes of concepts over all users: rename and convert, with their report.

The history is rewritten under the new keyword if that leaves the current values that the rule
wants. If not, an appended entry first moves the current values; the history of a former keyword
that would still change them stays under that keyword.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias

from factmem._arguments import expect_all, kind_of
from factmem.errors import InputTypeError, InputValueError
from factmem.events import MemoryOperation
from factmem.ledger._items import Item, name_of
from factmem.ledger._reads import last_said, restated
from factmem.ledger.entries import Entry, ForgottenItem, StoredFact, stored
from factmem.ledger.ledger import Ledger
from factmem.memory._parts import MemoryParts
from factmem.models._display import Displayed, Sheet
from factmem.models._values import Canonical, canonical, checked_name
from factmem.models.facts import (
    AnyFact,
    Concept,
    FactType,
    MultipleFacts,
    SingleFact,
    checked_concept,
    new_id,
)
from factmem.models.places import Place
from factmem.models.when import moment, stamp
from factmem.providers.provider import fact_store
from factmem.providers.store import FactStore

__all__: list[str] = []

BothRule: TypeAlias = Literal["later", "both"] | Callable[[list[Any], list[Any]], Any]
Conversion: TypeAlias = Callable[[Any], Any]
Progress: TypeAlias = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class PlaceChange(Displayed):
    """What `rename` or `convert` did in one place, or would do. It contains no value."""

    place: Place
    values: int
    """The number of values that were changed: current ones, of a conversion also those of
    history."""
    has_both: bool = False
    """Whether the place had current values under several of the keywords."""
    problem: str | None = None
    """Why nothing was changed here; None if it was."""
    failed: tuple[str, ...] = ()
    """The ids of facts with a value that cannot be converted."""


@dataclass(frozen=True, slots=True)
class ChangeReport(Displayed):
    """The result of `rename` or `convert`: the places that had something to change."""

    changes: list[PlaceChange]
    is_dry_run: bool = False

    @property
    def places(self) -> list[Place]:
        """The places that were changed, or would be."""
        return [each.place for each in self.changes if each.problem is None]

    @property
    def values(self) -> int:
        """The number of changed values."""
        return sum(each.values for each in self.changes if each.problem is None)

    @property
    def refused(self) -> list[PlaceChange]:
        """The places that were left as they are; repeat the call for them."""
        return [each for each in self.changes if each.problem is not None]

    def _sheet(self) -> Sheet:
        rows = [(each.place, each.values, each.has_both, each.problem) for each in self.changes]
        return Sheet("ChangeReport", ("place", "values", "has both", "problem"), rows)


class ConceptChanges:
    """The methods of `MemoryContents` that change concepts."""

    def __init__(self, parts: MemoryParts) -> None:
        self._parts = parts
        self._provider = parts.provider
        self._selection = parts.selection
        self._events = parts.events
        self._clock = parts.clock

    async def rename(
        self,
        keywords: str | Iterable[str],
        concept: Concept[Any, Any],
        *,
        if_both: BothRule | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ChangeReport:
        """Store the facts of one or more keywords, with history, as facts of one concept.

        Each place is changed in atomic steps that lose no value. To finish a call that was killed,
        that failed or that refused places, repeat it: a place without facts of the keywords is
        skipped. Values are not changed; see `convert`. If the history of a place with both would
        change what is current, it stays under its keyword, where `Concept(was=)` finds it.

        Args:
            keywords: The former keyword, or several.
            concept: The concept that the facts get.
            if_both: Which current values a place keeps that has them under several keywords:
                `"later"` those of the keyword that was said last, `"both"` all of a concept with
                many values. A function takes the former values and those of the concept as lists
                of plain JSON, and returns the value, or the values. It runs while the store is
                locked, possibly in a worker thread, and must be fast. Without it such a place is
                refused, and all others are renamed.
            dry_run: Whether to only report what would be changed.
            progress: Is called after each place with the number of places so far, and of all.

        Raises:
            ValueError: One of `keywords` is that of the concept, or `"both"` was passed for a
                concept with one value.
            MemoryAccessError: The view is read-only.
        """
        async with self._events.before(MemoryOperation.SAVE):
            store = fact_store(self._provider)
            several = [keywords] if isinstance(keywords, str) else keywords
            former = checked_former(several, concept, if_both)
        merge = KeywordMerge(former, concept, if_both, stamp(self._clock()))

        change = partial(merge_in_place, store, merge=merge, dry_run=dry_run)
        return await self._each(store, change, progress, dry_run=dry_run)

    async def convert(
        self,
        concept: Concept[Any, Any],
        function: Callable[[Any], Any],
        *,
        operation: str,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ChangeReport:
        """Convert the stored values of a concept and its history to the concept's type.

            report = await memory.contents.convert(PRICE, to_cents, operation="cents", dry_run=True)
            if not report.refused:
                await memory.contents.convert(PRICE, to_cents, operation="cents")

        Each place is rewritten in one atomic step. A place with a value that cannot be converted is
        not changed, and is in `refused` with the fact. To finish a call that was killed or refused
        places, repeat it with the same `operation`: no value is converted twice. Values that were
        saved after the first call are new ones, and are not converted.

        Args:
            concept: The concept with its new value type.
            function: Takes a stored value as plain JSON and returns a value of the concept's type.
                It runs while the store is locked, possibly in a worker thread, and must be fast.
            operation: The application's name for this conversion, which marks what it has
                converted.
            dry_run: Whether to only report what would be converted.
            progress: Is called after each place with the number of places so far, and of all.

        Raises:
            MemoryAccessError: The view is read-only.
        """
        async with self._events.before(MemoryOperation.SAVE):
            store = fact_store(self._provider)
            checked_concept(concept)
            checked_name(operation, "operation")
            if not callable(function):
                raise InputTypeError(f"function must be a function, not {kind_of(function)}: int")
        until = None if dry_run else stamp(await store.begin(operation))

        change = partial(
            convert_place,
            store,
            concept=concept,
            function=function,
            operation=operation,
            until=until,
        )
        return await self._each(store, change, progress, dry_run=dry_run)

    async def _each(
        self,
        store: FactStore,
        change: Callable[[Place], Awaitable[PlaceChange | None]],
        progress: Progress | None,
        *,
        dry_run: bool,
    ) -> ChangeReport:
        places = await store.list_places()
        found: list[PlaceChange] = []
        for number, place in enumerate(places, 1):
            if made := await change(place):
                found.append(made)
            if progress is not None:
                progress(number, len(places))
        return ChangeReport(found, dry_run)


async def convert_place(
    store: FactStore,
    place: Place,
    *,
    concept: Concept[Any, Any],
    function: Conversion,
    operation: str,
    until: str | None,
) -> PlaceChange | None:
    """Convert the values of a concept in one place and its history, recorded until a time.

    Each converted entry is marked with the operation, and skipped if the operation is repeated.
    Without a time nothing is written. Nothing is written either if a value cannot be converted.
    """
    counted, failed = 0, list[str]()

    def edit(entries: Sequence[Entry]) -> Sequence[Entry | None]:
        nonlocal counted
        counted = 0
        failed.clear()
        after: list[Entry] = []
        for entry in entries:
            copy = deepcopy(entry)
            facts = [each for each in copy.get("facts", ()) if each["keyword"] == concept.keyword]
            done = copy.get("operations", [])
            is_due = operation not in done and (until is None or entry["at"] <= until)
            if facts and is_due:
                counted += sum(_convert(fact, concept, function, failed) for fact in facts)
                copy["operations"] = [*done, operation]
            after.append(copy)
        return entries if failed or not counted else after

    # A trial: `rewrite` calls the edit again under the lock, with the entries at that time.
    edit(await store.entries(place.subject, place.scope))
    if counted and not failed and until is not None:
        await store.rewrite(edit, place.subject, place.scope)
    if not counted:
        return None
    problem = "It has values that cannot be converted" if failed else None
    return PlaceChange(place, counted, problem=problem, failed=tuple(dict.fromkeys(failed)))


def _convert(
    fact: StoredFact, concept: Concept[Any, Any], function: Conversion, failed: list[str]
) -> int:
    values = fact["values"] if "values" in fact else [fact["value"]] if "value" in fact else []
    try:
        codec, keyword = concept.codec, concept.keyword
        new = [codec.dump(codec.check(function(value), keyword), keyword) for value in values]
    except Exception:  # noqa: BLE001 - the function is the application's; the report has the id
        failed.append(fact["id"])
        return len(values)
    if "values" in fact:
        fact["values"] = new
    elif new:
        fact["value"] = new[0]
    fact["description"] = concept.description
    return len(values)


class Merged(NamedTuple):
    """What a merge does in a place."""

    change: PlaceChange
    history: list[Entry] | None = None
    """The entries under the new keyword; None if they would have other current values."""
    entry: Entry | None = None
    """The entry that moves the current values."""


class KeywordMerge:
    """Gives the facts of former keywords the keyword of a concept."""

    def __init__(
        self, former: Sequence[str], concept: Concept[Any, Any], if_both: BothRule | None, now: str
    ) -> None:
        self._former = frozenset(former)
        self._concept = concept
        self._rule = if_both
        self._now = now

    def of(self, place: Place, entries: Sequence[Entry]) -> Merged | None:
        """Return what to do with the entries of a place; None if there is nothing to do."""
        if not any(
            each["keyword"] in self._former
            for entry in entries
            for each in (*entry.get("facts", ()), *entry.get("retract", ()))
        ):
            return None
        held = self._held(Ledger(entries))
        moved = sum(len(items) for keyword, items in held.items() if keyword in self._former)
        change = PlaceChange(place, moved, len(held) > 1)
        if change.has_both and self._rule is None:
            problem = "It has values of several of the keywords: pass if_both"
            return Merged(replace(change, problem=problem))
        try:
            wanted = self._wanted(held)
        except Exception as exc:  # noqa: BLE001 - the application's; its text may be a value
            return Merged(replace(change, problem=f"if_both raised {type(exc).__name__}"))
        renamed = [self._renamed(entry) for entry in entries]
        # The rules of the ledger decide what is current, so the result is folded and compared.
        after = Ledger(renamed).items(self._concept.keyword, self._now)
        history = renamed if after.keys() == wanted.keys() else None
        entry = self._moving(entries, held, wanted) if moved else None
        if moved and history is None and entry is None:
            problem = "Its values contradict each other: pass a function as if_both"
            change = replace(change, problem=problem)
        return Merged(change, history, entry)

    def _moving(
        self,
        entries: Sequence[Entry],
        held: dict[str, list[Item]],
        wanted: dict[Canonical, StoredFact],
    ) -> Entry | None:
        """Return the entry that leaves the wanted values; None if what was said before forbids it.

        The values keep their times, unless a later retraction would end them: then they count as
        said now, and in the end as saved by the application.
        """
        now = {"timestamp": self._now}
        for changes, is_saved in (({}, False), (now, False), (now, True)):
            entry = self._entry(held, wanted, changes, is_saved=is_saved)
            after = Ledger([*entries, entry])
            if after.items(self._concept.keyword, self._now).keys() == wanted.keys():
                return entry
        return None

    def _held(self, ledger: Ledger) -> dict[str, list[Item]]:
        """Return the current items of each keyword that has any, the concept's keyword last."""
        keywords = [*sorted(self._former), self._concept.keyword]
        found = {each: [*ledger.items(each, self._now).values()] for each in keywords}
        return {keyword: items for keyword, items in found.items() if items}

    def _wanted(self, held: dict[str, list[Item]]) -> dict[Canonical, StoredFact]:
        rule = self._rule
        items = [item for each in held.values() for item in each]
        if len(held) > 1 and callable(rule):
            new = held.get(self._concept.keyword, [])
            old = [item for item in items if item not in new]
            old.sort(key=attrgetter("said"))
            return self._made(rule([each.value for each in old], [each.value for each in new]))
        if len(held) > 1 and rule == "later":
            last = last_said([item for item in items if item.state == "confirmed"] or items)
            items = next(each for each in held.values() if last in each)
        is_many = len(items) > 1
        return {canonical(item.value): self._fact(item, is_many=is_many) for item in items}

    def _made(self, result: Any) -> dict[Canonical, StoredFact]:
        concept, now = self._concept, moment(self._now)
        facts: list[AnyFact]
        if concept.fact_type is FactType.SINGLE:
            facts = [SingleFact(concept, result, timestamp=now)]
        else:
            facts = [MultipleFacts(concept, [each], timestamp=now) for each in result]
        made: list[Any] = [stored(each) for each in facts]
        return {
            canonical(each["value"] if "value" in each else each["values"][0]): each
            for each in made
        }

    def _fact(self, item: Item, *, is_many: bool) -> StoredFact:
        is_single = self._concept.fact_type is FactType.SINGLE and not is_many
        fact = restated(item, self._concept.keyword, self._concept.description, is_single=is_single)
        if item.state == "learnt":
            fact["stated"] = True
        if (source := item.sources[-1]) is not None:
            fact["source"] = source
        return fact

    def _entry(
        self,
        held: dict[str, list[Item]],
        wanted: dict[Canonical, StoredFact],
        changes: Mapping[str, str],
        *,
        is_saved: bool,
    ) -> Entry:
        """Return an entry with the wanted values under the concept's keyword; it forgets others."""
        own = {canonical(item.value): item for item in held.get(self._concept.keyword, ())}
        ids = {item.fact_id for item in own.values()}
        gone: list[ForgottenItem] = [
            name_of(keyword, item)
            for keyword, items in held.items()
            for item in items
            if keyword in self._former or canonical(item.value) not in wanted
        ]
        new: list[Any] = [{**fact, **changes} for key, fact in wanted.items() if key not in own]
        for fact in new:
            if fact["id"] in ids:  # an id that `gone` names
                fact["id"] = new_id()
            if is_saved:
                fact.pop("stated", None)
        return {"at": self._now, "facts": new, "forget": gone}

    def _renamed(self, entry: Entry) -> Entry:
        keyword = self._concept.keyword
        renamed: Any = entry.copy()
        whole = {"keyword": keyword, "description": self._concept.description}
        for kind, about in (("facts", whole), ("retract", {"keyword": keyword})):
            parts: Any = entry.get(kind, ())
            if any(part["keyword"] in self._former for part in parts):
                renamed[kind] = [
                    part | about if part["keyword"] in self._former else part for part in parts
                ]
        if forget := entry.get("forget"):
            renamed["forget"] = [
                (keyword if name in self._former else name, fact_id, digest)
                for name, fact_id, digest in forget
            ]
        found: Entry = renamed
        return found


def checked_former(
    keywords: Iterable[str], concept: Concept[Any, Any], if_both: object
) -> tuple[str, ...]:
    """Return the former keywords of a merge after a check of its arguments."""
    example = "rename(['animal'], PETS, if_both='both')"
    keyword = checked_concept(concept).keyword
    former = expect_all(keywords, str, "keywords", example)
    if keyword in former or not former:
        raise InputValueError(
            f"keywords must be those of other concepts than {keyword!r}: {example}"
        )
    if if_both == "both" and concept.fact_type is FactType.SINGLE:
        raise InputValueError(f"{keyword!r} has one value: pass if_both='later' or a function")
    if not (if_both in (None, "later", "both") or callable(if_both)):
        raise InputValueError("if_both must be 'later', 'both' or a function of two lists")
    return tuple(checked_name(each, "keyword") for each in former)


async def merge_in_place(
    store: FactStore, place: Place, *, merge: KeywordMerge, dry_run: bool
) -> PlaceChange | None:
    """Merge the keywords of one place; return None if there is nothing to merge."""
    found = merge.of(place, await store.entries(place.subject, place.scope))
    if found is None or (found.change.values == 0 and found.history is None):
        return None
    if dry_run or found.change.problem is not None:
        return found.change

    def edit(entries: Sequence[Entry]) -> Sequence[Entry | None]:
        plan = merge.of(place, entries)
        return entries if plan is None or plan.history is None else plan.history

    def move(entries: Sequence[Entry], now: str) -> list[Entry]:
        plan = merge.of(place, entries)
        return [] if plan is None or plan.entry is None else [plan.entry]

    # If the history cannot be renamed first, the appended entry makes that possible afterwards.
    if not await store.rewrite(edit, place.subject, place.scope):
        await store.amend(move, place.subject, place.scope)
        await store.rewrite(edit, place.subject, place.scope)
    return found.change
