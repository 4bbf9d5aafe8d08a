"""Commands that change facts: set, forget, erase; for all users: rename, merge, convert.

`targets.target_of` finds the concept of a keyword and parses values, so that a typed value keeps
the kind of JSON that the application saved. Commands that remove something call `confirm` first.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import typer

from factmem._cli.commands import command
from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store, load_function
from factmem._cli.options import GIVEN, Keyword, Period, confirm
from factmem._cli.output import Answer, counted, progress_bar
from factmem._cli.place_names import PlaceWord, find_place, place_name, whole
from factmem._cli.targets import (
    Kind,
    facts_of,
    kind_of,
    known_facts,
    plain,
    stored_target,
    target_of,
)
from factmem._cli.times import parse_age, parse_when
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.concept_changes import ChangeReport
from factmem.models.facts import (
    AnyFact,
    FactSource,
    FactState,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.models.places import Place
from factmem.models.when import EVER, stamp


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
    known = [] if options.concept(keyword) else await known_facts(store, where, keyword)
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
    record = {"place": place_name(where), "keyword": keyword, "id": fact.id}
    words = f"Saved {keyword} in {place_name(where)}"
    if (
        is_new
        and not target.is_own
        and any(kind_of(plain(each)) is not Kind.TEXT for each in values)
    ):
        words += " as text: pass --type for another kind"
    return Answer(record, words)


_REMAIN = (
    "Bytes of purged values are still in the store's files, until other programs stop reading it or "
    "the server has removed its log"
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


BothRule: TypeAlias = Literal["later", "both"] | None
IfBoth = Annotated[
    BothRule, typer.Option(help="What a user with values of several keywords keeps.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report what would be changed.")]
New = Annotated[str, typer.Argument(metavar="NEW")]


@command(asks=True)
async def rename(
    store: Store, keyword: Keyword, new: New, if_both: IfBoth = None, dry_run: DryRun = False
) -> Answer:
    """Rename a keyword in the facts of all users, and in their history."""
    return await _merge(store, new, [keyword], if_both, dry_run=dry_run)


@command(asks=True)
async def merge(
    store: Store,
    new: New,
    keywords: Annotated[list[str], typer.Argument(metavar="KEYWORD...")],
    if_both: IfBoth = None,
    dry_run: DryRun = False,
) -> Answer:
    """Give the facts of several keywords, with their history, one keyword, for all users."""
    return await _merge(store, new, keywords, if_both, dry_run=dry_run)


async def _merge(
    store: Store, new: str, keywords: list[str], if_both: BothRule, *, dry_run: bool
) -> Answer:
    if not dry_run:
        names = ", ".join(map(repr, keywords))
        confirm(f"Store the facts of {names} as {new!r}, for all users?")
    concept = GIVEN.get().concept(new) or await stored_target(store, [new, *keywords])
    with progress_bar("Renaming") as update:
        report = await AgentMemory(store).contents.rename(
            keywords, concept, if_both=if_both, dry_run=dry_run, progress=update
        )
    return _answer(report)


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
    concept = GIVEN.get().concept(keyword)
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
    return _answer(report)


def _answer(report: ChangeReport) -> Answer:
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
