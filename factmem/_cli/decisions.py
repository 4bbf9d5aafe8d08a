"""Commands with which a person decides: inbox, approve, reject, correct, undo; and watch.

What they leave is confirmed. The name comes from --name, FACTMEM_ACTOR, or is that of the command.
"""

import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Annotated, Any, TypeAlias

import typer

from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store, run
from factmem._cli.options import Json, Name, Reason, Reveal, named, options_of
from factmem._cli.output import print_json, print_line, print_table
from factmem._cli.place_names import PlaceWord, find_place, place_name
from factmem._cli.records import author, fact_record, value_words
from factmem._cli.targets import target_of
from factmem._cli.timeline import change_records, change_rows
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

__all__ = ["app", "review_of"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""

SIGNS = {"contradiction": "≠", "proposed": "?", "doubtful": "!", "new": "+"}

Keyword = Annotated[str, typer.Argument(metavar="KEYWORD", help="The keyword of a concept.")]
OneValue: TypeAlias = Annotated[
    str | None, typer.Option("--value", help="Which value, if the keyword has several.")
]
Chosen: TypeAlias = Callable[[InboxItem], bool]


def review_of(store: Store, *places: Place) -> MemoryReview:
    """Return the review of some places of a store, or of all, with plain JSON values."""
    boundary = UNBOUNDED.narrowed(places=places) if places else None
    kept, events = guarded(store, boundary, MemoryEvents()), MemoryEvents()
    return MemoryReview(kept, FactReader(kept), events, system_clock)


@app.command()
def inbox(
    ctx: typer.Context,
    place: Annotated[
        str | None, typer.Argument(metavar="[PLACE]", help="All places by default.")
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="From when on learnt values are new.")
    ] = "7d",
    limit: Annotated[int, typer.Option("--limit", "-n", help="The maximum of values.")] = 50,
    as_json: Json = False,
    reveal: Reveal = False,
) -> None:
    """Show what waits for a person: contradictions, proposals, doubtful and new values."""
    options_of(ctx).check_revealed(reveal)
    begin = parse_time(since)

    async def work(store: Store) -> list[InboxItem]:
        where = [] if place is None else [await find_place(store, place)]
        return await review_of(store, *where).inbox(since=begin, limit=limit)

    found = run(ctx, work)
    if not found:
        raise CommandError("Nothing waits for a decision", ExitCode.NOTHING)
    if as_json:
        print_json([_record(item) for item in found])
        return
    print_table(
        ("value", "kind", "keyword", "current", "place", "recorded", "by", "quote"),
        [
            (
                value_words(item.fact.values),
                f"{SIGNS[item.kind]} {'ended' if item.is_ending else item.kind}",
                item.fact.concept.keyword,
                "" if item.current is None else value_words(item.current.values),
                place_name(item.place),
                item.at,
                author(item.actor, item.source),
                item.quote,
            )
            for item in found
        ],
    )


def _record(item: InboxItem) -> dict[str, Any]:
    current = {} if item.current is None else {"current": [*item.current.values]}
    is_ending = {"is_ending": True} if item.is_ending else {}
    return {"kind": item.kind, **fact_record(item.fact, item.place), **current, **is_ending}


@app.command()
def approve(
    ctx: typer.Context,
    place: PlaceWord,
    keyword: Keyword,
    value: OneValue = None,
    name: Name = None,
    reason: Reason = None,
) -> None:
    """Confirm a proposed value, which becomes current, or a current one."""

    async def decide(store: Store, review: MemoryReview, where: Place) -> str:
        return await review.keep(await _chosen(store, review, where, keyword, value))

    with named(name, reason, "approve"):
        change = _decided(ctx, place, decide)
    print_line(f"Confirmed {keyword}; `undo {change}` takes it back")


@app.command()
def reject(
    ctx: typer.Context,
    place: PlaceWord,
    keyword: Keyword,
    value: OneValue = None,
    name: Name = None,
    reason: Reason = None,
) -> None:
    """Reject a proposed value. A model that states it again only proposes it."""

    async def decide(store: Store, review: MemoryReview, where: Place) -> str:
        item = await _chosen(store, review, where, keyword, value, only_proposed=True)
        return await (review.keep(item) if item.is_ending else review.forget(item))

    with named(name, reason, "reject"):
        change = _decided(ctx, place, decide)
    print_line(f"Rejected the proposal of {keyword}; `undo {change}` takes it back")


@app.command()
def correct(
    ctx: typer.Context,
    place: PlaceWord,
    keyword: Keyword,
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="The right value.")],
    value: OneValue = None,
    name: Name = None,
    reason: Reason = None,
) -> None:
    """Replace a wrong value by a right one, which no model replaces."""
    options = options_of(ctx)

    async def decide(store: Store, review: MemoryReview, where: Place) -> str:
        item = await _chosen(store, review, where, keyword, value, first_current=True)
        target = target_of(options, keyword, [item.fact])
        given = target.concept.codec.dump(target.value(right), keyword)
        if isinstance(item.fact, SingleFact):
            return await review.correct(item, given)
        wrong = value_words(item.fact.values) if value is None else value
        kept = [each for each in item.fact.values if value_words([each]) != wrong]
        return await review.correct(item, [*kept, given])

    with named(name, reason, "correct"):
        change = _decided(ctx, place, decide)
    print_line(f"Corrected {keyword}; `undo {change}` takes it back")


def _decided(
    ctx: typer.Context,
    place: str,
    decide: Callable[[Store, MemoryReview, Place], Awaitable[str]],
) -> str:
    """Decide in the place that a word names; return the id of the change."""

    async def work(store: Store) -> str:
        where = await find_place(store, place)
        return await decide(store, review_of(store, where), where)

    return run(ctx, work)


async def _chosen(
    store: Store,
    review: MemoryReview,
    place: Place,
    keyword: str,
    value: str | None,
    *,
    only_proposed: bool = False,
    first_current: bool = False,
) -> InboxItem:
    """Return the proposal or the current fact that a command names.

    Raises:
        CommandError: There is none, or there are several.
    """
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
            return found[0]
    what = "proposals" if only_proposed else "values"
    raise CommandError(f"{place_name(place)} has no such {what} of {keyword!r}", ExitCode.NOTHING)


@app.command()
def undo(
    ctx: typer.Context,
    change: Annotated[
        str, typer.Argument(metavar="ID", help="A change as `log` prints it, or the end of its id.")
    ],
    name: Name = None,
    reason: Reason = None,
) -> None:
    """Undo a change of any time, unless a later change rests on it."""

    async def work(store: Store) -> str:
        review, wanted = review_of(store), change
        if len(change) != 16:
            found = {each.id for each in await review.changes() if each.id.endswith(change)}
            if len(found) != 1:
                what = f"{len(found)} changes have" if found else "No change has"
                code = ExitCode.USAGE if found else ExitCode.NOTHING
                raise CommandError(f"{what} an id that ends with {change!r}: see `log`", code)
            (wanted,) = found
        return await review.undo(wanted)

    with named(name, reason, "undo"):
        print_line(f"Undone; `undo {run(ctx, work)}` takes it back")


@app.command()
def watch(
    ctx: typer.Context,
    place: Annotated[
        list[str] | None, typer.Argument(metavar="[PLACE]...", help="All places by default.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Show changes from this time on first.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", help="End after so many changes.")
    ] = None,
    as_json: Json = False,
    reveal: Reveal = False,
) -> None:
    """Show changes as they are recorded, by any process, until you press Ctrl-C.

    Without PLACE those of all places that exist now.
    """
    options_of(ctx).check_revealed(reveal)
    begin = parse_time(since)

    async def work(store: Store) -> None:
        words = place or []
        where = [await find_place(store, word, creates=True) for word in words]
        count = 0
        async with aclosing(
            store.watch(where or await store.list_places(), since=begin)
        ) as changes:
            async for change in changes:
                if as_json:
                    for record in change_records(change):
                        print_line(json.dumps(record, ensure_ascii=False))
                else:
                    print_table(*change_rows([change]), headed=False)
                sys.stdout.flush()
                count += 1
                if count == limit:
                    return

    run(ctx, work)
