"""Commands that show what changed: log, diff."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer
from pydantic import JsonValue

from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store, run
from factmem._cli.options import Json, Reveal, options_of
from factmem._cli.output import print_json, print_table
from factmem._cli.place_names import PlaceWord, find_place, place_name
from factmem._cli.reads import facts_of
from factmem._cli.records import history_record, speaker, value_words
from factmem._cli.times import parse_time
from factmem.ledger._presentation import as_plain
from factmem.ledger.entries import Entry
from factmem.ledger.history import HistoryAction, HistoryEntry, history
from factmem.models.facts import Concept
from factmem.models.places import Place

__all__ = ["app"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""

_TIME = "A day, a time or a time span: 2026-03-01, 7d."


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of a keyword in a place; the values of a forgetting are those that it ended."""

    place: Place
    keyword: str
    entry: HistoryEntry
    values: tuple[JsonValue, ...]


@app.command()
def log(
    ctx: typer.Context,
    place: Annotated[
        str | None, typer.Argument(metavar="[PLACE]", help="All places by default.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help=_TIME)] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help=_TIME)] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="The maximum of changes.")] = 50,
    as_json: Json = False,
    reveal: Reveal = False,
) -> None:
    """Show what was saved, confirmed and forgotten, by whom, newest first."""
    options_of(ctx).check_revealed(reveal)
    begin, end = parse_time(since), parse_time(until)

    async def work(store: Store) -> list[_Change]:
        where = await store.list_places() if place is None else [await find_place(store, place)]
        found: list[_Change] = []
        for each in where:
            entries = await store.entries(each.subject, each.scope)
            found += (change for change in _changes(each, entries) if _is_in(change, begin, end))
            found.sort(key=lambda change: change.entry.recorded_at, reverse=True)
            del found[limit:]
        return found

    changes = run(ctx, work)
    if not changes:
        raise CommandError("Nothing changed in that time", ExitCode.NOTHING)
    if as_json:
        print_json(
            [
                {
                    "place": place_name(change.place),
                    "keyword": change.keyword,
                    "values": [*change.values],
                    **history_record(change.entry),
                }
                for change in changes
            ]
        )
        return
    print_table(
        ("value", "action", "keyword", "place", "recorded", "by"),
        [
            (
                value_words(change.values),
                change.entry.action.value,
                change.keyword,
                place_name(change.place),
                change.entry.recorded_at,
                "" if change.entry.fact is None else speaker(change.entry.fact.source),
            )
            for change in changes
        ],
    )


def _is_in(change: _Change, begin: datetime | None, end: datetime | None) -> bool:
    at = change.entry.recorded_at
    return (begin is None or at >= begin) and (end is None or at <= end)


def _changes(place: Place, entries: Sequence[Entry]) -> Iterator[_Change]:
    keywords = {fact["keyword"]: None for entry in entries for fact in entry.get("facts", ())}
    for keyword in keywords:
        known: dict[str, tuple[JsonValue, ...]] = {}
        for each in history(entries, as_plain(Concept(keyword, ""))):
            if each.fact is not None:
                known[each.fact.id] = each.fact.values
                yield _Change(place, keyword, each, each.fact.values)
            elif each.action is HistoryAction.FORGOTTEN:
                ended = [value for name in each.forgotten for value in known.get(name, ())]
                yield _Change(place, keyword, each, tuple(ended))


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
