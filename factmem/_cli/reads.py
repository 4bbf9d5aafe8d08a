"""Commands that show facts: places, show, history, why, recall; and `factmem` without a command.

Each returns an `Answer`, of which `command` prints the records as JSON or the table. A keyword or
place without facts is an exit code of its own and no empty table, for scripts. Only `recall` opens
the store itself: without an embedder it uses stored indexes of words, as the process asks once and
ends.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from factmem._cli.commands import command
from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store, has_store, load_embedder, run
from factmem._cli.options import GIVEN, AsOf, EmbedderName, Keyword, Limit, Period
from factmem._cli.output import Answer, Cut, Table, counted
from factmem._cli.place_names import PlaceWord, find_place, place_name
from factmem._cli.records import (
    author,
    fact_record,
    history_record,
    origin_record,
    place_record,
    source_words,
    value_words,
)
from factmem._cli.targets import facts_of
from factmem._cli.times import parse_time, parse_when
from factmem.ledger._presentation import as_plain
from factmem.ledger.history import HistoryEntry
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
    return Answer(map(place_record, found), Table(("place", "values", "bytes", "newest"), rows))


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
    from factmem.memory.agent_memory import AgentMemory  # slow import, only needed here

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
            'Name the store: `factmem --store PATH`, FACTMEM_STORE, or store = "PATH" in factmem.toml',
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
    title = options.location if not options.is_database else "PostgreSQL"
    title += (
        f": {counted(len(places), 'place')}, {counted(values, 'value')}, {counted(size, 'byte')}"
    )
    newest = sorted(places, key=lambda each: str(each.newest), reverse=True)[:_LISTED]
    rows = ((place_name(each.place), each.count, each.newest) for each in newest)
    parts: list[str | Table] = [
        title,
        Table(("place", "values", "newest"), rows),
    ]
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
