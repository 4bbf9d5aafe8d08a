"""Commands with which a person decides: inbox, approve, reject, correct, undo; and watch.

What they leave is confirmed. The name comes from --name, FACTMEM_ACTOR, or is that of the command.
"""

import json
import sys
from contextlib import aclosing
from typing import Annotated, Any, TypeAlias

import typer

from factmem._cli.commands import command
from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store
from factmem._cli.options import GIVEN, Keyword, Limit
from factmem._cli.output import Answer, Table, print_line, print_table
from factmem._cli.place_names import PlaceOrAll, PlaceWord, find_place, place_name
from factmem._cli.records import author, fact_record, value_words
from factmem._cli.targets import target_of
from factmem._cli.timeline import change_records, change_table
from factmem._cli.times import parse_time
from factmem.events import MemoryEvents
from factmem.memory.inbox import InboxItem
from factmem.memory.review import MemoryReview
from factmem.models.boundary import UNBOUNDED
from factmem.models.clock import system_clock
from factmem.models.facts import SingleFact
from factmem.models.places import Place
from factmem.providers._guarded import guarded
from factmem.providers._reader import FactReader

_SIGNS = {"contradiction": "≠", "proposed": "?", "doubtful": "!", "new": "+"}

OneValue: TypeAlias = Annotated[
    str | None, typer.Option("--value", help="Which value, if the keyword has several.")
]


def _review_of(store: Store, *places: Place) -> MemoryReview:
    """Return the review of some places of a store, or of all, with plain JSON values."""
    boundary = UNBOUNDED.narrowed(places=places) if places else None
    kept, events = guarded(store, boundary, MemoryEvents()), MemoryEvents()
    return MemoryReview(kept, FactReader(kept), events, system_clock)


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
    found = await _review_of(store, *where).inbox(since=parse_time(since), limit=limit)
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
async def approve(
    store: Store, place: PlaceWord, keyword: Keyword, value: OneValue = None
) -> Answer:
    """Confirm a proposed value, which becomes current, or a current one."""
    review, item = await _chosen(store, place, keyword, value)
    return _done(f"Confirmed {keyword}", await review.keep(item))


@command(signs=True)
async def reject(
    store: Store, place: PlaceWord, keyword: Keyword, value: OneValue = None
) -> Answer:
    """Reject a proposed value. A model that states it again only proposes it."""
    review, item = await _chosen(store, place, keyword, value, only_proposed=True)
    change = await (review.keep(item) if item.is_ending else review.forget(item))
    return _done(f"Rejected the proposal of {keyword}", change)


@command(signs=True)
async def correct(
    store: Store,
    place: PlaceWord,
    keyword: Keyword,
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="The right value.")],
    value: OneValue = None,
) -> Answer:
    """Replace a wrong value by a right one, which no model replaces."""
    review, item = await _chosen(store, place, keyword, value, first_current=True)
    target = target_of(GIVEN.get(), keyword, [item.fact])
    given: Any = target.concept.codec.dump(target.value(right), keyword)
    if not isinstance(item.fact, SingleFact):
        wrong = value_words(item.fact.values) if value is None else value
        given = [*(each for each in item.fact.values if value_words([each]) != wrong), given]
    return _done(f"Corrected {keyword}", await review.correct(item, given))


def _done(what: str, change: str) -> Answer:
    return Answer({"change": change}, f"{what}; `undo {change}` takes it back")


async def _chosen(
    store: Store,
    word: str,
    keyword: str,
    value: str | None,
    *,
    only_proposed: bool = False,
    first_current: bool = False,
) -> tuple[MemoryReview, InboxItem]:
    """Return the proposal or the current fact that a command names, and the review of its place.

    Raises:
        CommandError: There is none, or there are several.
    """
    place = await find_place(store, word)
    review = _review_of(store, place)
    waits = [each for each in await review.inbox() if each.kind in {"contradiction", "proposed"}]
    facts = [] if only_proposed else await store.load_all(place.subject, place.scope)
    current = [
        InboxItem("new", place, each, each.confirmed_at, each.actor, each.source) for each in facts
    ]

    def is_meant(item: InboxItem) -> bool:
        words = {value_words([each]) for each in item.fact.values}
        return item.fact.concept.keyword == keyword and (value is None or value in words)

    for listed in (current, waits) if first_current else (waits, current):
        found = list(filter(is_meant, listed))
        several = len(found) > 1 or (value is None and any(len(i.fact.values) > 1 for i in found))
        if several:
            raise CommandError(
                f"{keyword!r} has several values: name one by --value, as `show` prints it"
            )
        if found:
            return review, found[0]
    what = "proposals" if only_proposed else "values"
    raise CommandError(f"{place_name(place)} has no such {what} of {keyword!r}", ExitCode.NOTHING)


@command(signs=True)
async def undo(
    store: Store,
    change: Annotated[
        str, typer.Argument(metavar="ID", help="A change as `log` prints it, or the end of its id.")
    ],
) -> Answer:
    """Undo a change of any time, unless a later change rests on it."""
    review, wanted = _review_of(store), change
    if len(change) != 16:
        found = {each.id for each in await review.changes() if each.id.endswith(change)}
        if len(found) != 1:
            what = f"{len(found)} changes have" if found else "No change has"
            code = ExitCode.USAGE if found else ExitCode.NOTHING
            raise CommandError(f"{what} an id that ends with {change!r}: see `log`", code)
        (wanted,) = found
    return _done("Undone", await review.undo(wanted))


@command(reveals=True)
async def watch(
    store: Store,
    place: Annotated[
        list[str] | None, typer.Argument(metavar="[PLACE]...", help="All places by default.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Show changes from this time on first.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", help="End after so many changes.")
    ] = None,
) -> None:
    """Show changes as they are recorded, by any process, until you press Ctrl-C.

    Without PLACE those of all places that exist now.
    """
    begin = parse_time(since)
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
