"""Commands that show what changed: log, diff."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any, TypeAlias

import typer
from pydantic import JsonValue

from factmem._cli.commands import command
from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store
from factmem._cli.options import Limit
from factmem._cli.output import Answer, Table
from factmem._cli.place_names import PlaceOrAll, PlaceWord, find_place, place_name
from factmem._cli.records import author, value_words
from factmem._cli.targets import facts_of
from factmem._cli.times import parse_time
from factmem.ledger.entries import stored
from factmem.ledger.history import FactChange, changes_of
from factmem.models.facts import AnyFact
from factmem.models.when import stamp

_TIME = "A day, a time or a time span: 2026-03-01, 7d."


@command(reveals=True)
async def log(
    store: Store,
    place: PlaceOrAll = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help=_TIME)] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help=_TIME)] = None,
    name: Annotated[str | None, typer.Option("--name", help="Only changes of this name.")] = None,
    limit: Limit = 50,
) -> Answer:
    """Show what was saved, proposed, confirmed and forgotten, by whom, newest first."""
    begin, end = parse_time(since), parse_time(until, is_end=True)
    first, last = stamp(begin) if begin else "", stamp(end) if end else None
    found: list[FactChange] = []
    for each in await store.list_places() if place is None else [await find_place(store, place)]:
        entries = await store.entries(each.subject, each.scope)
        changes = changes_of(each, entries, {}, since=first, until=last)
        found += [change for change in changes if name in (None, change.actor)][::-1]
        found.sort(key=attrgetter("at"), reverse=True)
        del found[limit:]
    if not found:
        raise CommandError("Nothing changed in that time", ExitCode.NOTHING)
    records = (record for change in found for record in change_records(change))
    return Answer(records, change_table(found))


_Part: TypeAlias = tuple[str, AnyFact]


def _parts(change: FactChange) -> Iterator[_Part]:
    """Yield each fact of a change, with what became of it; a replaced one is in its successor."""
    is_new = change.kind in {"replaced", "planned"}
    replaced = {fact.concept.keyword for fact in change.added if is_new}
    for fact in change.added:
        yield "planned" if fact.since and fact.since.begin > change.at else "saved", fact
    yield from (("confirmed", fact) for fact in change.confirmed)
    yield from (("proposed", fact) for fact in change.proposed)
    yield from (("superseded", fact) for fact in change.superseded)
    yield from (("rejected", fact) for fact in change.rejected)
    for fact in change.removed:
        if fact.concept.keyword not in replaced:
            yield "forgotten", fact


def change_records(change: FactChange) -> list[dict[str, Any]]:
    """Return a change as JSON: an object for each of its facts."""
    about: dict[str, Any] = {"place": place_name(change.place)}
    by: dict[str, Any] = {"id": change.id, "actor": change.actor}
    by |= {"reason": change.reason} if change.reason else {}
    by |= {"undoes": change.undoes} if change.undoes else {}
    return [
        {
            **about,
            "keyword": fact.concept.keyword,
            "values": [*fact.values],
            "action": action,
            "recorded_at": stamp(change.at),
            **({"forgotten": [fact.id]} if action == "forgotten" else {"fact": stored(fact)}),
            **by,
        }
        for action, fact in _parts(change)
    ]


def change_table(changes: Sequence[FactChange]) -> Table:
    """Return the table of changes, with a row for each of their facts."""
    rows: list[tuple[Any, ...]] = []
    for change in changes:
        was = {fact.concept.keyword: value_words(fact.values) for fact in change.removed}
        for action, fact in _parts(change):
            value = value_words(fact.values)
            old = was.get(fact.concept.keyword) if action in _ADDED else None
            if old not in {None, value}:
                value = f"{value} (was {old})"
            by = change.actor if action in _DECIDED else author(change.actor, fact.source)
            rows.append(
                (
                    value,
                    "undone" if change.undoes and action in _ADDED else action,
                    change.id,
                    fact.concept.keyword,
                    place_name(change.place),
                    change.at,
                    f"{by}: {change.reason}" if change.reason else by,
                )
            )
    return Table(("value", "action", "id", "keyword", "place", "recorded", "by"), rows)


_ADDED = frozenset({"saved", "planned"})
_DECIDED = frozenset({"forgotten", "rejected"})
"""What a program or a person does, whoever said the value."""


@command(reveals=True)
async def diff(
    store: Store,
    place: PlaceWord,
    then: Annotated[str, typer.Argument(metavar="TIME", help=_TIME)],
    now: Annotated[
        str | None, typer.Argument(metavar="[TIME]", help="The later time; now by default.")
    ] = None,
) -> Answer:
    """Compare the facts of a place at two times."""
    first, second = parse_time(then, is_end=True), parse_time(now, is_end=True)
    where = await find_place(store, place)

    async def values(when: datetime | None) -> list[tuple[str, JsonValue]]:
        facts = await facts_of(store, where, as_of=when)
        return [(fact.concept.keyword, value) for fact in facts for value in fact.values]

    before, after = await values(first), await values(second)
    found = [("removed", *each) for each in before if each not in after]
    found += [("added", *each) for each in after if each not in before]
    if not found:
        raise CommandError("Nothing differs between these times", ExitCode.NOTHING)
    found.sort(key=lambda row: (row[1], row[0] == "added"))
    records = ({"change": change, "keyword": key, "value": value} for change, key, value in found)
    rows = ((value_words([value]), change, keyword) for change, keyword, value in found)
    return Answer(records, Table(("value", "change", "keyword"), rows))
