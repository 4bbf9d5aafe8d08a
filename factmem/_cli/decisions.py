"""Commands with which a person decides: inbox, accept, reject, correct, undo; and watch.

What they leave is confirmed. The name comes from --name, FACTMEM_ACTOR, or is that of the command.
"""

import json
import sys
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias

import typer

from factmem._cli.commands import command
from factmem._cli.desk import DONE, Desk, review_of
from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store
from factmem._cli.options import GIVEN, Keyword, Limit
from factmem._cli.output import Answer, Table, print_line, print_table
from factmem._cli.place_names import PlaceOrAll, PlaceWord, find_place, place_name
from factmem._cli.readings import author, fact_record, value_words
from factmem._cli.reads import change_records, change_table
from factmem._cli.times import parse_time
from factmem.memory.review import InboxItem

_SIGNS = {"contradiction": "≠", "proposed": "?", "doubtful": "!", "new": "+"}

OneValue: TypeAlias = Annotated[
    str | None, typer.Option("--value", help="Which value, if the keyword has several.")
]


@command(reveals=True)
async def inbox(
    store: Store,
    place: PlaceOrAll = None,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="From when on learnt values are new.")
    ] = "7d",
    limit: Limit = 50,
) -> Answer:
    """Show what waits for a person: contradictions, proposals, doubtful and new values."""
    where = [] if place is None else [await find_place(store, place)]
    found = await review_of(store, *where).inbox(since=parse_time(since), limit=limit)
    if not found:
        raise CommandError("Nothing waits for a decision", ExitCode.NOTHING)
    rows = (
        (
            value_words(item.fact.values),
            f"{_SIGNS[item.kind]} {'ended' if item.is_ending else item.kind}",
            item.fact.concept.keyword,
            "" if item.current is None else value_words(item.current.values),
            place_name(item.place),
            item.at,
            author(item.actor, item.source),
            item.quote,
        )
        for item in found
    )
    columns = ("value", "kind", "keyword", "current", "place", "recorded", "by", "quote")
    return Answer(map(_record, found), Table(columns, rows))


def _record(item: InboxItem) -> dict[str, Any]:
    current = {} if item.current is None else {"current": [*item.current.values]}
    is_ending = {"is_ending": True} if item.is_ending else {}
    return {"kind": item.kind, **fact_record(item.fact, item.place), **current, **is_ending}


@command(signs=True)
async def accept(
    store: Store, place: PlaceWord, keyword: Keyword, value: OneValue = None
) -> Answer:
    """Accept a proposed value, which becomes current, or confirm a current one."""
    return await _decided(store, "accept", place, keyword, value)


@command(signs=True)
async def reject(
    store: Store, place: PlaceWord, keyword: Keyword, value: OneValue = None
) -> Answer:
    """Reject a proposed value. A model that states it again only proposes it."""
    return await _decided(store, "reject", place, keyword, value)


@command(signs=True)
async def correct(
    store: Store,
    place: PlaceWord,
    keyword: Keyword,
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="The right value.")],
    value: OneValue = None,
) -> Answer:
    """Replace a wrong value by a right one, which no model replaces."""
    return await _decided(store, "correct", place, keyword, value, right)


async def _decided(
    store: Store, what: str, word: str, keyword: str, value: str | None, text: str = ""
) -> Answer:
    """Decide about the proposal or the current value that a command names."""
    desk, place = Desk(store, GIVEN.get()), await find_place(store, word)
    reading = await desk.reading(place)
    waits = [row for row in reading.waiting(datetime.now(UTC)) if row.is_proposed]
    first, then = (reading.rows, waits) if what == "correct" else (waits, reading.rows)
    for listed in (first,) if what == "reject" else (first, then):
        unique = {
            row.subject: row
            for row in listed
            if row.fact.concept.keyword == keyword and value in (None, value_words([row.value]))
        }
        if len(unique) > 1:
            raise CommandError(
                f"{keyword!r} has several values: name one by --value, as `show` prints it"
            )
        for row in unique.values():
            return _answer(f"{DONE[what]} {keyword}", await desk.decide(what, row, text))
    kind = "proposals" if what == "reject" else "values"
    raise CommandError(f"{place_name(place)} has no such {kind} for {keyword!r}", ExitCode.NOTHING)


def _answer(what: str, change: str) -> Answer:
    return Answer({"change": change}, f"{what}; `undo {change}` takes it back")


@command(signs=True)
async def undo(
    store: Store,
    change: Annotated[
        str, typer.Argument(metavar="ID", help="A change as `log` prints it, or the end of its id.")
    ],
) -> Answer:
    """Undo any change, however old, unless a later change depends on it."""
    review, wanted = review_of(store), change
    if len(change) != 16:
        found = {each.id for each in await review.changes() if each.id.endswith(change)}
        if len(found) != 1:
            what = f"{len(found)} changes have" if found else "No change has"
            code = ExitCode.USAGE if found else ExitCode.NOTHING
            raise CommandError(f"{what} an id that ends with {change!r}: see `log`", code)
        (wanted,) = found
    return _answer("Undone", await review.undo(wanted))


@command(reveals=True)
async def watch(
    store: Store,
    place: Annotated[
        list[str] | None, typer.Argument(metavar="[PLACE]...", help="All places by default.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|POSITION",
            help="Show changes from this time on first, or after the position of one in --json.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="End after so many changes.")
    ] = None,
) -> None:
    """Show changes as they are recorded, by any process, until you press Ctrl-C.

    Without PLACE those of all places that exist now.
    """
    begin = since if since and since.startswith("p1-") else parse_time(since)
    where = [await find_place(store, word, creates=True) for word in place or ()]
    count = 0
    async with aclosing(store.watch(where or await store.list_places(), since=begin)) as changes:
        async for change in changes:
            if GIVEN.get().as_json:
                for record in change_records(change):
                    print_line(json.dumps(record, ensure_ascii=False))
            else:
                print_table(*change_table([change]), headed=False)
            sys.stdout.flush()
            count += 1
            if count == limit:
                return
