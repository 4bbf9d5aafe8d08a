"""Commands that show facts: places, show, history, why, recall, log, diff; and `factmem` alone.

Each returns an `Answer`, of which `command` prints the records as JSON or the table. A keyword or
place without facts is an exit code of its own and no empty table, for scripts. Only `recall` opens
the store itself: without an embedder it uses stored indexes of words, as the process asks once and
ends.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias

import typer
from pydantic import JsonValue

from factmem._cli.commands import command
from factmem._cli.opening import Store, has_store, load_embedder, run
from factmem._cli.options import (
    GIVEN,
    AsOf,
    EmbedderName,
    Keyword,
    Limit,
    Period,
    parse_time,
    parse_when,
)
from factmem._cli.output import Answer, CommandError, Cut, ExitCode, Problem, Table, counted
from factmem._cli.readings import (
    author,
    fact_record,
    history_record,
    origin_record,
    place_record,
    source_words,
    value_words,
)
from factmem._cli.targets import PlaceOrAll, PlaceWord, facts_of, find_place, place_name
from factmem.ledger._reads import as_plain
from factmem.ledger.entries import stored
from factmem.ledger.history import FactChange, HistoryEntry
from factmem.ledger.ledger import Ledger
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.listing import origin_of
from factmem.models.facts import AnyFact, Concept, FactState
from factmem.models.places import Place
from factmem.models.when import stamp
from factmem.recall.match import RecallResult, TurnMatch


@command()
async def places(store: Store) -> Answer:
    """List the places with facts, with their counts and sizes."""
    found = await store.places()
    rows = ((place_name(info.place), info.count, info.bytes, info.newest) for info in found)
    table = Table(("place", "values", "bytes", "newest"), rows)
    if not found:
        return Answer([], Problem("factmem: No place has facts"), code=ExitCode.NOTHING)
    return Answer(map(place_record, found), table)


def _check_found(found: object, place: Place, keyword: str | None) -> None:
    if not found:
        what = "no facts" if keyword is None else f"no facts of {keyword!r}"
        raise CommandError(f"{place_name(place)} has {what}", ExitCode.NOTHING)


@command(reveals=True)
async def show(
    store: Store,
    place: PlaceWord,
    keyword: Annotated[str | None, typer.Argument(metavar="[KEYWORD]")] = None,
    as_of: AsOf = None,
    valid_at: Period = None,
) -> Answer:
    """Show the current and the planned facts of a place, or those of one keyword."""
    where, then = await find_place(store, place), parse_when(valid_at)
    facts = await facts_of(store, where, keyword, parse_time(as_of, is_end=True), valid_at=then)
    planned: list[AnyFact] = []
    if as_of is None and then is None:
        ledger = Ledger(await store.entries(where.subject, where.scope))
        planned = ledger.planned(max(stamp(datetime.now(UTC)), ledger.recorded_at))
        planned = [fact for fact in planned if keyword in (None, fact.concept.keyword)]
    _check_found(facts or planned, where, keyword)
    rows = (
        (
            value_words(fact.values),
            fact.concept.keyword,
            fact.timestamp,
            author(fact.actor, fact.source),
            _state(fact, is_planned=number >= len(facts)),
            fact.expires_at,
        )
        for number, fact in enumerate((*facts, *planned))
    )
    columns = ("value", "keyword", "said", "by", "state", "expires")
    records = [fact_record(fact, where) for fact in facts]
    records += [{**fact_record(fact, where), "planned": True} for fact in planned]
    return Answer(records, Table(columns, rows))


def _state(fact: AnyFact, *, is_planned: bool) -> str:
    if is_planned:
        return f"planned from {fact.since}"
    return "✓ confirmed" if fact.state is FactState.CONFIRMED else ""


@command(reveals=True)
async def history(store: Store, place: PlaceWord, keyword: Keyword) -> Answer:
    """Show every save, confirmation and forgetting of a keyword, oldest first."""
    where = await find_place(store, place)
    found = await store.history(as_plain(Concept(keyword, "")), where.subject, where.scope)
    _check_found(found, where, keyword)
    return Answer(map(history_record, found), _history_table(found))


def _history_table(entries: Sequence[HistoryEntry]) -> Table:
    rows = (
        (
            "" if entry.fact is None else value_words(entry.fact.values),
            entry.action.value,
            entry.recorded_at,
            author(entry.actor, None if entry.fact is None else entry.fact.source),
            entry.reason,
        )
        for entry in entries
    )
    return Table(("value", "action", "recorded", "by", "reason"), rows)


@command(reveals=True)
async def why(store: Store, place: PlaceWord, keyword: Keyword) -> Answer:
    """Show the sources, quotes and history of the current values of a keyword."""
    where = await find_place(store, place)
    facts = await facts_of(store, where, keyword)
    _check_found(facts, where, keyword)
    origins = [(fact, await origin_of(fact, [where], store)) for fact in facts]
    found = [(fact, origin) for fact, origin in origins if origin is not None]
    lines: list[str] = []
    for fact, origin in found:
        lines.append(Cut(f"{keyword}: {value_words(fact.values)}"))
        lines.append(f"  id {fact.id}, importance {fact.importance:g}")
        lines += (Cut(f"  said by {source_words([source])}") for source in origin.sources)
    records = (origin_record(fact, origin) for fact, origin in found)
    return Answer(records, *lines, _history_table(found[0][1].history or []))


@command(reveals=True)
def recall(
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    place: Annotated[
        list[str] | None, typer.Option("--place", help="Search only this place; can be repeated.")
    ] = None,
    limit: Limit = 5,
    embedder: EmbedderName = None,
) -> Answer:
    """Find facts that answer a question, best first: by words, with --embedder by meaning."""
    options = GIVEN.get()
    vectors = load_embedder(embedder or options.embedder)
    named = place or ([options.place] if options.place else [])

    async def work(store: Store) -> RecallResult:
        only = [await find_place(store, each) for each in named]
        where = only or await store.list_places()
        memory = AgentMemory(store, embedder=vectors).view(places=where)
        return await memory.recall(question, limit=limit)

    matches = run(work)
    if not (matches or matches.turns):
        raise CommandError("No fact matches the question", ExitCode.NOTHING)
    records = [
        {"relevance": round(match.relevance, 4), **fact_record(match.fact, match.place)}
        for match in matches
    ]
    turns = (
        Cut(f"{turn.turn.name or turn.turn.role}, {turn.conversation}: {turn.quote}")
        for turn in matches.turns
    )
    parts = [_match_table(matches), *turns] if matches else [*turns]
    return Answer([*records, *map(_turn_record, matches.turns)], *parts)


def _match_table(matches: RecallResult) -> Table:
    rows = (
        (
            value_words(match.fact.values),
            match.fact.concept.keyword,
            place_name(match.place),
            match.fact.timestamp,
            f"{match.relevance:.2f}",
        )
        for match in matches
    )
    return Table(("value", "keyword", "place", "said", "relevance"), rows)


def _turn_record(match: TurnMatch) -> dict[str, Any]:
    turn = match.turn
    return {
        "relevance": round(match.relevance, 4),
        "place": place_name(match.place),
        "conversation": match.conversation,
        "message": turn.number,
        "role": turn.role,
        "quote": match.quote,
        "said_at": stamp(turn.said_at),
    }


_LISTED = 5
_MOST_READ = 1_000
"""Places of a store up to which the inbox of all of them is read."""
_MOST_WAITING = 100
_HELP = (
    "`factmem --help` lists all commands, and `factmem COMMAND --help` shows two examples of each"
)
_FIRST = "factmem set product/my-app/user/alice city Busan"


def overview() -> Answer:
    """Return what the store of the options contains, or how to name or make one."""
    options = GIVEN.get()
    if not options.store:
        return Answer(
            {},
            "factmem shows, changes and moves what AI agents remember",
            'Name a store: `factmem --store PATH`, FACTMEM_STORE or store = "PATH" in factmem.toml',
            _HELP,
        )
    if not options.is_database and not has_store(options.location):
        return Answer(
            {}, f"There is no store in {options.location!r} yet: `{_FIRST}` makes one", _HELP
        )
    return run(_contents)


async def _contents(store: Store) -> Answer:
    options, places = GIVEN.get(), await store.places()
    values, size = sum(each.count for each in places), sum(each.bytes for each in places)
    counts = counted(len(places), "place"), counted(values, "value"), counted(size, "byte")
    title = f"{options.title}: {', '.join(counts)}"
    newest = sorted(places, key=lambda each: str(each.newest), reverse=True)[:_LISTED]
    rows = ((place_name(each.place), each.count, each.newest) for each in newest)
    parts: list[str | Table] = [title, Table(("place", "values", "newest"), rows)]
    if len(places) > _LISTED:
        parts.append(f"and {counted(len(places) - _LISTED, 'place')} more: `factmem places`")
    if len(places) <= _MOST_READ and (
        waits := await AgentMemory(store).review.inbox(limit=_MOST_WAITING)
    ):
        least = "at least " if len(waits) == _MOST_WAITING else ""
        parts.append(f"To review: {least}{counted(len(waits), 'value')}: `factmem inbox`")
    state = await store.conversations.state()
    if state.pending or state.failed:
        chats = counted(state.pending, "conversation")
        parts.append(f"To learn: {chats}, {state.failed} given up: `factmem learn MODULE:NAME`")
    first = place_name(newest[0].place).rpartition("/")[2] if newest else None
    parts.append(f"Next: `factmem show {first}`" if first else f"Next: `{_FIRST}`")
    return Answer({}, *parts, _HELP)


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
    memory = AgentMemory(store)
    if place is not None:
        memory = memory.view(places=[await find_place(store, place)])
    found = await memory.review.changes(since=begin, until=end, actor=name, limit=limit)
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
    records = [
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
    if change.position:  # in its last line, so that a change that was read in part is read again
        records[-1]["position"] = change.position
    return records


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
"""Actions of a program or a person, independent of who said the value."""


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
