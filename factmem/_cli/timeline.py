"""Commands that show what changed: log, diff."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any, TypeAlias

import typer
from pydantic import JsonValue

from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store, run
from factmem._cli.options import Json, Reveal, options_of
from factmem._cli.output import print_json, print_table
from factmem._cli.place_names import PlaceWord, find_place, place_name
from factmem._cli.reads import facts_of
from factmem._cli.records import author, value_words
from factmem._cli.times import parse_time
from factmem.ledger.changes import FactChange, changes_of
from factmem.ledger.entries import stored
from factmem.models.clock import stamp
from factmem.models.facts import AnyFact

__all__ = ["app", "change_records", "change_rows"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""

_TIME = "A day, a time or a time span: 2026-03-01, 7d."


@app.command()
def log(
    ctx: typer.Context,
    place: Annotated[
        str | None, typer.Argument(metavar="[PLACE]", help="All places by default.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help=_TIME)] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help=_TIME)] = None,
    name: Annotated[str | None, typer.Option("--name", help="Only changes of this name.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="The maximum of changes.")] = 50,
    as_json: Json = False,
    reveal: Reveal = False,
) -> None:
    """Show what was saved, proposed, confirmed and forgotten, by whom, newest first."""
    options_of(ctx).check_revealed(reveal)
    begin, end = stamp_of(parse_time(since)), stamp_of(parse_time(until))

    async def work(store: Store) -> list[FactChange]:
        where = await store.list_places() if place is None else [await find_place(store, place)]
        found: list[FactChange] = []
        for each in where:
            entries = await store.entries(each.subject, each.scope)
            changes = changes_of(each, entries, {}, since=begin or "", until=end)
            found += [change for change in changes if name in (None, change.actor)][::-1]
            found.sort(key=attrgetter("at"), reverse=True)
            del found[limit:]
        return found

    changes = run(ctx, work)
    if not changes:
        raise CommandError("Nothing changed in that time", ExitCode.NOTHING)
    if as_json:
        print_json([record for change in changes for record in change_records(change)])
    else:
        print_table(*change_rows(changes))


_Part: TypeAlias = tuple[str, AnyFact]


def _parts(change: FactChange) -> Iterator[_Part]:
    """Yield each fact of a change, with what became of it; a replaced one is in its successor."""
    replaced = {fact.concept.keyword for fact in change.added if change.kind == "replaced"}
    yield from (("saved", fact) for fact in change.added)
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


def change_rows(changes: Sequence[FactChange]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return the columns and rows of changes: one for each of their facts."""
    rows: list[tuple[Any, ...]] = []
    for change in changes:
        was = {fact.concept.keyword: value_words(fact.values) for fact in change.removed}
        for action, fact in _parts(change):
            value = value_words(fact.values)
            if action == "saved" and (old := was.get(fact.concept.keyword)) is not None:
                value = f"{value} (was {old})"
            by = change.actor if action in _DECIDED else author(change.actor, fact.source)
            rows.append(
                (
                    value,
                    "undone" if change.undoes and action == "saved" else action,
                    change.id,
                    fact.concept.keyword,
                    place_name(change.place),
                    change.at,
                    f"{by}: {change.reason}" if change.reason else by,
                )
            )
    return ("value", "action", "id", "keyword", "place", "recorded", "by"), rows


_DECIDED = frozenset({"forgotten", "rejected"})
"""What a program or a person does, whoever said the value."""


def stamp_of(when: datetime | None) -> str | None:
    """Return a time as a stamp."""
    return None if when is None else stamp(when)


@app.command()
def diff(
    ctx: typer.Context,
    place: PlaceWord,
    then: Annotated[str, typer.Argument(metavar="TIME", help=_TIME)],
    now: Annotated[
        str | None, typer.Argument(metavar="[TIME]", help="The later time; now by default.")
    ] = None,
    as_json: Json = False,
    reveal: Reveal = False,
) -> None:
    """Compare the facts of a place at two times."""
    options_of(ctx).check_revealed(reveal)
    first, second = parse_time(then), parse_time(now)

    async def work(store: Store) -> list[tuple[str, str, JsonValue]]:
        where = await find_place(store, place)
        before = [
            (f.concept.keyword, v)
            for f in await facts_of(store, where, as_of=first)
            for v in f.values
        ]
        after = [
            (f.concept.keyword, v)
            for f in await facts_of(store, where, as_of=second)
            for v in f.values
        ]
        gone = [("removed", *each) for each in before if each not in after]
        new = [("added", *each) for each in after if each not in before]
        return sorted(gone + new, key=lambda row: (row[1], row[0] == "added"))

    found = run(ctx, work)
    if not found:
        raise CommandError("Nothing differs between these times", ExitCode.NOTHING)
    if as_json:
        print_json(
            [{"change": change, "keyword": key, "value": value} for change, key, value in found]
        )
        return
    print_table(
        ("value", "change", "keyword"),
        [(value_words([value]), change, keyword) for change, keyword, value in found],
    )
