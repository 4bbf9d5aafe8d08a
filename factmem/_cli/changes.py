"""Commands that change facts, and with which a person decides about them; and watch.

set, forget, erase; for all users rename and convert. `targets.target_of` finds the concept
of a keyword and parses values, so that a typed value keeps the kind of JSON that the application
saved. Commands that remove something call `confirm` first.

inbox, accept, reject, correct, undo: what they leave is confirmed. The name comes from --name,
FACTMEM_ACTOR, or is that of the command.
"""

import json
import sys
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeAlias

import typer
from pydantic import JsonValue

from factmem._cli.commands import command
from factmem._cli.desk import DONE, Desk, review_of
from factmem._cli.opening import Store, load_function
from factmem._cli.options import (
    GIVEN,
    Keyword,
    Limit,
    Period,
    confirm,
    parse_age,
    parse_time,
    parse_when,
)
from factmem._cli.output import (
    Answer,
    CommandError,
    ExitCode,
    Table,
    counted,
    print_line,
    print_table,
    progress_bar,
)
from factmem._cli.readings import author, fact_record, value_words
from factmem._cli.reads import change_records, change_table
from factmem._cli.targets import (
    Kind,
    PlaceOrAll,
    PlaceWord,
    facts_of,
    find_place,
    kind_of,
    known_facts,
    place_name,
    plain,
    stored_target,
    target_of,
    whole,
)
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.concept_changes import ChangeReport
from factmem.memory.review import InboxItem
from factmem.models.facts import (
    AnyFact,
    FactSource,
    FactState,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
    stored_concept,
)
from factmem.models.places import Place
from factmem.models.when import EVER, stamp
from factmem.recall.match import plain_values


@command(signs=True, creates=True)
async def set_(
    store: Store,
    place: PlaceWord,
    keyword: Keyword,
    values: Annotated[list[str], typer.Argument(metavar="VALUE...", help="Several for MULTIPLE.")],
    kind: Annotated[
        Kind | None, typer.Option("--type", help="The type of JSON values of a new keyword.")
    ] = None,
    description: Annotated[
        str | None, typer.Option(help="A description of the keyword for models.")
    ] = None,
    multiple: Annotated[
        bool, typer.Option("--multiple", help="A new keyword has many values.")
    ] = False,
    since: Period = None,
    until: Period = None,
) -> Answer:
    """Save a value: replace that of a SINGLE keyword, or add to those of a MULTIPLE keyword.

    The value must have the JSON type of the keyword's current values. No model replaces it.
    """
    options, where = GIVEN.get(), await find_place(store, place, creates=True)
    known = [] if keyword in options.concepts else await known_facts(store, where, keyword)
    is_new = not known and kind is None
    given_kind = Kind.TEXT if is_new else kind
    target = target_of(
        options, keyword, known, kind=given_kind, description=description, multiple=multiple
    )
    given, concept = [target.value(each) for each in values], target.concept
    more: dict[str, Any] = {"since": parse_when(since), "until": parse_when(until)}
    more["source"] = FactSource(SourceKind.CODE, conversation="command line")
    more["state"] = FactState.CONFIRMED
    fact: AnyFact
    if concept.fact_type is FactType.MULTIPLE:
        fact = MultipleFacts(concept, given, **more)
    elif len(given) == 1:
        fact = SingleFact(concept, given[0], **more)
    else:
        raise CommandError(f"{keyword!r} has one value: pass one VALUE, not {len(given)}")
    await store.save(fact, where.subject, where.scope)
    # As plain JSON, because the concept may not fit all values.
    stored = stored_concept(keyword, concept.description, concept.fact_type, JsonValue)
    found = await store.load(stored, where.subject, where.scope)
    held = [value for each in found for value in plain_values(each)]
    is_current = all(value in held for value in plain_values(fact))
    record = {"place": place_name(where), "keyword": keyword, "id": fact.id, "current": is_current}
    words = f"Saved {keyword} in {place_name(where)}"
    if (
        is_new
        and not target.is_own
        and any(kind_of(plain(each)) is not Kind.TEXT for each in values)
    ):
        words += " as text: pass --type for another kind"
    if not is_current:
        words += (
            "; it is not current: its period does not include today, or what was said at a later "
            "time counts. See `log`, and check the clocks of all machines"
        )
    return Answer(record, words)


_REMAIN = (
    "Bytes of purged values are still in the store's files, until other programs stop reading it "
    "or the server has removed its log"
)


@command(signs=True, asks=True)
async def forget(
    store: Store,
    place: PlaceWord,
    keyword: Annotated[str | None, typer.Argument(metavar="[KEYWORD]")] = None,
    value: Annotated[str | None, typer.Option(help="Only this value of the keyword.")] = None,
    fact_id: Annotated[str | None, typer.Option("--id", help="Only values of this fact.")] = None,
    older_than: Annotated[
        str | None, typer.Option(help="Only values last confirmed longer ago: 30d.")
    ] = None,
    purge: Annotated[
        bool, typer.Option("--purge", help="Also remove the values from history.")
    ] = False,
) -> Answer:
    """Forget current values that meet all conditions. Without --purge, history keeps them."""
    given: dict[str, Any] = {"purge": purge}
    if fact_id is not None:
        given["fact_ids"] = [fact_id]
    if older_than is not None:
        given["older_than"] = parse_age(older_than)
    if value is not None and keyword is None:
        raise CommandError("--value requires KEYWORD, the keyword of the value")
    if keyword is None and fact_id is None and older_than is None:
        raise CommandError("Pass KEYWORD, --id or --older-than; `erase` removes the whole place")
    what = "selected values" if keyword is None else f"{keyword!r}"
    where = await find_place(store, place)
    name = place_name(where)
    confirm(f"Forget {what} in {name}{' and its history' if purge else ''}?")
    if keyword is not None:
        held = await facts_of(store, where, keyword)
        held = held or await facts_of(store, where, keyword, valid_at=EVER)
        if not held:
            raise CommandError(f"{name} has no facts of {keyword!r}", ExitCode.NOTHING)
        target = target_of(GIVEN.get(), keyword, held)
        given |= {"concept": target.concept}
        given |= {} if value is None else {"value": target.value(value)}
    count = await store.forget(where.subject, where.scope, **given)
    left = {
        name: list[str](getattr(count, name, ())) for name in ("quoting", "mentioning", "messages")
    }
    copies_remain = getattr(count, "copies_remain", False)
    return Answer(
        {"place": name, "forgotten": count, **left, "copies_remain": copies_remain},
        f"Forgot {counted(count, 'value')} in {name}",
        *(f"The quote of fact {each} still contains a purged value" for each in left["quoting"]),
        *(f"Another text of fact {each} contains a purged value" for each in left["mentioning"]),
        *(f"Message {each} contains a purged value in a word" for each in left["messages"]),
        *([_REMAIN] if copies_remain else []),
        code=ExitCode.OK if count else ExitCode.NOTHING,
    )


@command(asks=True)
async def erase(store: Store, place: PlaceWord) -> None:
    """Physically delete a place with its whole history, and print the receipt as JSON.

    If the command was killed before it printed the receipt, repeat it with the whole name.
    """
    where, erased_at = await _place_or_erased(store, place)
    if erased_at is None:
        confirm(f"Erase {place_name(where)} with its whole history? It cannot be undone.")
    receipt = await store.erase(where.subject, where.scope)
    record = {
        "place": place_name(where),
        "erased_at": stamp(erased_at or receipt.erased_at),
        "count": receipt.count if erased_at is None else None,
        "bytes": receipt.bytes,
        "copies_remain": receipt.copies_remain,
        "is_shreddable": receipt.is_shreddable,
    }
    Answer(record).show(as_json=True)  # a receipt is always JSON


async def _place_or_erased(store: Store, word: str) -> tuple[Place, datetime | None]:
    """Return a place; with the time of its erasure if it was erased, and has nothing since.

    A command that was killed before it printed the receipt can so be repeated.
    """
    named = whole(word)
    if named and not await store.list_places(
        subjects=[named.subject], scopes=[named.scope], limit=1
    ):
        erased_at = await store.erased_at(named.subject, named.scope)
        if erased_at is not None:
            return named, erased_at
    return await find_place(store, word), None


DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report what would be changed.")]


@command(asks=True)
async def rename(
    store: Store,
    keywords: Annotated[list[str], typer.Argument(metavar="KEYWORD...")],
    new: Annotated[str, typer.Argument(metavar="NEW")],
    if_both: Annotated[
        Literal["later", "both"] | None,
        typer.Option(help="What a user with values of several keywords keeps."),
    ] = None,
    dry_run: DryRun = False,
) -> Answer:
    """Rename a keyword, or several to one, in the facts of all users, and in their history."""
    if not dry_run:
        names = ", ".join(map(repr, keywords))
        confirm(f"Store the facts of {names} as {new!r}, for all users?")
    concept = GIVEN.get().concepts.get(new) or await stored_target(store, [new, *keywords])
    with progress_bar("Renaming") as update:
        report = await AgentMemory(store).contents.rename(
            keywords, concept, if_both=if_both, dry_run=dry_run, progress=update
        )
    return _change_answer(report)


@command(asks=True)
async def convert(
    store: Store,
    keyword: Annotated[str, typer.Argument(metavar="KEYWORD", help="Of one of --concepts.")],
    function: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="Returns the new value for a stored one.")
    ],
    operation: Annotated[
        str, typer.Option(metavar="NAME", help="Marks what it has converted: repeat it with this.")
    ],
    dry_run: DryRun = False,
) -> Answer:
    """Convert the values of a concept, with their history, to its new type, for all users."""
    concept = GIVEN.get().concepts.get(keyword)
    if concept is None:
        raise CommandError(
            f"Pass the concept {keyword!r} with its new type before the command: "
            "--concepts my_app.memory:CONCEPTS"
        )
    made = load_function(function)
    if not dry_run:
        confirm(f"Convert the values of {keyword!r}, for all users?")
    with progress_bar("Converting") as update:
        report = await AgentMemory(store).contents.convert(
            concept, made, operation=operation, dry_run=dry_run, progress=update
        )
    return _change_answer(report)


def _change_answer(report: ChangeReport) -> Answer:
    rows = [
        {
            "place": place_name(each.place),
            "values": each.values,
            "has_both": each.has_both,
            "problem": each.problem,
            "failed": [*each.failed],
        }
        for each in report.changes
    ]
    did = "Would change" if report.is_dry_run else "Changed"
    places = counted(len(report.places), "place")
    lines = [f"{did} {counted(report.values, 'value')} in {places}"]
    for each in report.refused:
        lines.append(f"{place_name(each.place)}: {each.problem}")
        lines += (f"  fact {fact_id}" for fact_id in each.failed)
    record = {"is_dry_run": report.is_dry_run, "changes": rows}
    return Answer(record, *lines, code=ExitCode.REFUSED if report.refused else ExitCode.OK)


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
            return _decision(f"{DONE[what]} {keyword}", await desk.decide(what, row, text))
    kind = "proposals" if what == "reject" else "values"
    raise CommandError(f"{place_name(place)} has no such {kind} for {keyword!r}", ExitCode.NOTHING)


def _decision(what: str, change: str) -> Answer:
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
    return _decision("Undone", await review.undo(wanted))


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
