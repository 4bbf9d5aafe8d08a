"""Commands that show facts: places, show, history, why, recall.

Each command reads through `opening.run` and prints either JSON, with the forms of `records`, or a
table. Values of an encrypted store are printed only to a terminal unless `--reveal` is passed, and
`Options.check_revealed` is called before anything is read.
"""

from datetime import datetime
from typing import Annotated, Any

import typer

from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.named_objects import load_embedder
from factmem._cli.opening import Store, run
from factmem._cli.options import AsOf, EmbedderName, Json, Reveal, options_of
from factmem._cli.output import print_json, print_line, print_table
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
from factmem._cli.times import parse_time
from factmem.ledger._presentation import as_plain
from factmem.ledger.history import HistoryEntry
from factmem.memory.origin import FactOrigin, origin_of
from factmem.models.actors import FactState
from factmem.models.clock import stamp
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Place
from factmem.recall.match import RecallResult, TurnMatch

__all__ = ["app", "facts_of"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""

Keyword = Annotated[str, typer.Argument(metavar="KEYWORD", help="The keyword of a concept.")]


@app.command()
def places(ctx: typer.Context, as_json: Json = False) -> None:
    """List the places with facts, with their counts and sizes."""
    found = run(ctx, lambda store: store.places())
    if as_json:
        print_json([place_record(info) for info in found])
        return
    print_table(
        ("place", "values", "bytes", "newest"),
        [(place_name(info.place), info.count, info.bytes, info.newest) for info in found],
    )


async def facts_of(
    store: Store, place: Place, keyword: str | None = None, as_of: datetime | None = None
) -> list[AnyFact]:
    """Return the facts of a place, of one keyword or of all, with plain JSON values."""
    facts = await store.load_all(place.subject, place.scope, as_of=as_of)
    return [fact for fact in facts if keyword in (None, fact.concept.keyword)]


def _check_found(found: object, place: Place, keyword: str | None) -> None:
    if not found:
        what = "no facts" if keyword is None else f"no facts of {keyword!r}"
        raise CommandError(f"{place_name(place)} has {what}", ExitCode.NOTHING)


@app.command()
def show(
    ctx: typer.Context,
    place: PlaceWord,
    keyword: Annotated[str | None, typer.Argument(metavar="[KEYWORD]")] = None,
    as_of: AsOf = None,
    as_json: Json = False,
    reveal: Reveal = False,
) -> None:
    """Show the current facts of a place, or those of one keyword."""
    options_of(ctx).check_revealed(reveal)
    when = parse_time(as_of)

    async def work(store: Store) -> tuple[Place, list[AnyFact]]:
        where = await find_place(store, place)
        facts = await facts_of(store, where, keyword, when)
        _check_found(facts, where, keyword)
        return where, facts

    where, facts = run(ctx, work)
    if as_json:
        print_json([fact_record(fact, where) for fact in facts])
        return
    print_table(
        ("value", "keyword", "said", "by", "state", "expires"),
        [
            (
                value_words(fact.values),
                fact.concept.keyword,
                fact.timestamp,
                author(fact.actor, fact.source),
                "✓ confirmed" if fact.state is FactState.CONFIRMED else "",
                fact.expires_at,
            )
            for fact in facts
        ],
    )


@app.command()
def history(
    ctx: typer.Context,
    place: PlaceWord,
    keyword: Keyword,
    as_json: Json = False,
    reveal: Reveal = False,
) -> None:
    """Show every save, confirmation and forgetting of a keyword, oldest first."""
    options_of(ctx).check_revealed(reveal)
    concept = as_plain(Concept(keyword, ""))

    async def work(store: Store) -> list[HistoryEntry]:
        where = await find_place(store, place)
        found = await store.history(concept, where.subject, where.scope)
        _check_found(found, where, keyword)
        return found

    entries = run(ctx, work)
    if as_json:
        print_json([history_record(entry) for entry in entries])
    else:
        _print_history(entries)


def _print_history(entries: list[HistoryEntry]) -> None:
    print_table(
        ("value", "action", "recorded", "by", "reason"),
        [
            (
                "" if entry.fact is None else value_words(entry.fact.values),
                entry.action.value,
                entry.recorded_at,
                author(entry.actor, None if entry.fact is None else entry.fact.source),
                entry.reason,
            )
            for entry in entries
        ],
    )


@app.command()
def why(
    ctx: typer.Context,
    place: PlaceWord,
    keyword: Keyword,
    as_json: Json = False,
    reveal: Reveal = False,
) -> None:
    """Show the sources, quotes and history of the current values of a keyword."""
    options_of(ctx).check_revealed(reveal)

    async def work(store: Store) -> list[tuple[AnyFact, FactOrigin]]:
        where = await find_place(store, place)
        facts = await facts_of(store, where, keyword)
        _check_found(facts, where, keyword)
        origins = [(fact, await origin_of(fact, [where], store)) for fact in facts]
        return [(fact, origin) for fact, origin in origins if origin is not None]

    found = run(ctx, work)
    if as_json:
        print_json([origin_record(fact, origin) for fact, origin in found])
        return
    for fact, origin in found:
        print_line(f"{keyword}: {value_words(fact.values)}", most=True)
        print_line(f"  id {fact.id}, importance {fact.importance:g}")
        for source in origin.sources:
            print_line(f"  said by {source_words([source])}", most=True)
    _print_history(found[0][1].history or [])


@app.command()
def recall(
    ctx: typer.Context,
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    place: Annotated[
        list[str] | None, typer.Option("--place", help="Search only this place; can be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="The maximum of facts to show.")] = 5,
    embedder: EmbedderName = None,
    as_json: Json = False,
    reveal: Reveal = False,
) -> None:
    """Find facts that answer a question, best first: by words, with --embedder by meaning."""
    options = options_of(ctx)
    options.check_revealed(reveal)
    vectors = load_embedder(embedder or options.embedder)
    named = place or ([options.place] if options.place else [])
    from factmem.memory.agent_memory import AgentMemory  # slow import, only needed here

    async def work(store: Store) -> RecallResult:
        only = [await find_place(store, each) for each in named]
        where = only or await store.list_places()
        memory = AgentMemory(store, embedder=vectors).view(places=where)
        return await memory.recall(question, limit=limit)

    matches = run(ctx, work, is_searched=vectors is None)
    if not (matches or matches.turns):
        raise CommandError("No fact matches the question", ExitCode.NOTHING)
    if as_json:
        records = [_match_record(match.relevance, match.fact, match.place) for match in matches]
        print_json([*records, *map(_turn_record, matches.turns)])
        return
    if matches:
        _print_matches(matches)
    for turn in matches.turns:
        print_line(
            f"{turn.turn.name or turn.turn.role}, {turn.conversation}: {turn.quote}", most=True
        )


def _print_matches(matches: RecallResult) -> None:
    print_table(
        ("value", "keyword", "place", "said", "relevance"),
        [
            (
                value_words(match.fact.values),
                match.fact.concept.keyword,
                place_name(match.place),
                match.fact.timestamp,
                f"{match.relevance:.2f}",
            )
            for match in matches
        ],
    )


def _match_record(relevance: float, fact: AnyFact, place: Place) -> dict[str, Any]:
    return {"relevance": round(relevance, 4), **fact_record(fact, place)}


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
