"""Commands that change facts: set, forget, erase.

`targets.target_of` finds the concept of a keyword and parses values, so that a typed value keeps
the kind of JSON that the application saved. Commands that remove something call `confirm` first.
"""

from typing import Annotated, Any

import typer

from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store, run
from factmem._cli.options import Json, Name, Reason, Yes, confirm, named, options_of
from factmem._cli.output import counted, print_json, print_line
from factmem._cli.place_names import PlaceWord, find_place, place_name
from factmem._cli.reads import facts_of
from factmem._cli.targets import known_facts, target_of
from factmem._cli.times import parse_age
from factmem._cli.value_kinds import Kind
from factmem.models.actors import FactState
from factmem.models.clock import stamp
from factmem.models.facts import AnyFact, FactType, MultipleFacts, SingleFact
from factmem.models.places import Place
from factmem.models.sources import FactSource, SourceKind
from factmem.providers.results import ErasureReceipt

__all__ = ["app"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""


@app.command("set")
def set_(
    ctx: typer.Context,
    place: PlaceWord,
    keyword: Annotated[str, typer.Argument(metavar="KEYWORD")],
    values: Annotated[list[str], typer.Argument(metavar="VALUE...", help="Several for MULTIPLE.")],
    kind: Annotated[
        Kind | None, typer.Option("--type", help="The type of JSON values of a new keyword.")
    ] = None,
    description: Annotated[
        str | None, typer.Option(help="A description of the keyword for models.")
    ] = None,
    multiple: Annotated[bool, typer.Option(help="A new keyword has many values.")] = False,
    name: Name = None,
    reason: Reason = None,
    as_json: Json = False,
) -> None:
    """Save a value: replace that of a SINGLE keyword, or add to those of a MULTIPLE keyword.

    The value must have the JSON type of the keyword's current values. No model replaces it.
    """
    options = options_of(ctx)
    source = FactSource(SourceKind.CODE, conversation="command line")

    async def work(store: Store) -> tuple[Place, AnyFact]:
        where = await find_place(store, place, creates=True)
        known = [] if options.concept(keyword) else await known_facts(store, where, keyword)
        target = target_of(
            options, keyword, known, kind=kind, description=description, multiple=multiple
        )
        given = [target.value(each) for each in values]
        concept = target.concept
        if concept.fact_type is FactType.SINGLE and len(given) != 1:
            raise CommandError(f"{keyword!r} has one value: pass one VALUE, not {len(given)}")
        fact: AnyFact = (
            SingleFact(concept, given[0], source=source, state=FactState.CONFIRMED)
            if concept.fact_type is FactType.SINGLE
            else MultipleFacts(concept, given, source=source, state=FactState.CONFIRMED)
        )
        await store.save(fact, where.subject, where.scope)
        return where, fact

    with named(name, reason, "set"):
        where, saved = run(ctx, work, creates=True)
    if as_json:
        print_json({"place": place_name(where), "keyword": keyword, "id": saved.id})
    else:
        print_line(f"Saved {keyword} in {place_name(where)}")


@app.command()
def forget(
    ctx: typer.Context,
    place: PlaceWord,
    keyword: Annotated[str | None, typer.Argument(metavar="[KEYWORD]")] = None,
    value: Annotated[str | None, typer.Option(help="Only this value of the keyword.")] = None,
    fact_id: Annotated[str | None, typer.Option("--id", help="Only values of this fact.")] = None,
    older_than: Annotated[
        str | None, typer.Option(help="Only values last confirmed longer ago: 30d.")
    ] = None,
    purge: Annotated[bool, typer.Option(help="Also remove the values from history.")] = False,
    name: Name = None,
    reason: Reason = None,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Forget current values that meet all conditions. Without --purge, history keeps them."""
    given: dict[str, Any] = {"fact_id": fact_id, "purge": purge}
    if older_than is not None:
        given["older_than"] = parse_age(older_than)
    if value is not None and keyword is None:
        raise CommandError("--value requires KEYWORD, the keyword of the value")
    if keyword is None and fact_id is None and older_than is None:
        raise CommandError("Pass KEYWORD, --id or --older-than; `erase` removes the whole place")
    what = "selected values" if keyword is None else f"{keyword!r}"
    also = " and its history" if purge else ""

    async def work(store: Store) -> tuple[Place, int]:
        where = await find_place(store, place)
        confirm(f"Forget {what} in {place_name(where)}{also}?", yes)
        if keyword is not None:
            given.update(await _condition(store, ctx, where, keyword, value))
        return where, await store.forget(where.subject, where.scope, **given)

    with named(name, reason, "forget"):
        where, count = run(ctx, work)
    if as_json:
        left = {name: list(getattr(count, name, ())) for name in ("quoting", "mentioning")}
        print_json({"place": place_name(where), "forgotten": count, **left})
    else:
        print_line(f"Forgot {counted(count, 'value')} in {place_name(where)}")
        for each in getattr(count, "quoting", ()):
            print_line(f"The quote of fact {each} still contains a purged value")
        for each in getattr(count, "mentioning", ()):
            print_line(
                f"The keyword, description or metadata of fact {each} contains a purged value"
            )
    if count == 0:
        raise typer.Exit(ExitCode.NOTHING)


async def _condition(
    store: Store, ctx: typer.Context, place: Place, keyword: str, value: str | None
) -> dict[str, Any]:
    """Return the arguments of `forget` for a keyword and, if passed, one of its values."""
    held = await facts_of(store, place, keyword)
    if not held:
        raise CommandError(f"{place_name(place)} has no facts of {keyword!r}", ExitCode.NOTHING)
    target = target_of(options_of(ctx), keyword, held)
    condition: dict[str, Any] = {"concept": target.concept}
    if value is not None:
        condition["value"] = target.value(value)
    return condition


@app.command()
def erase(ctx: typer.Context, place: PlaceWord, as_json: Json = False, yes: Yes = False) -> None:
    """Physically delete a place with its whole history, and print the receipt as JSON."""
    del as_json  # a receipt is always JSON

    async def work(store: Store) -> tuple[Place, ErasureReceipt]:
        where = await find_place(store, place)
        confirm(f"Erase {place_name(where)} with its whole history? It cannot be undone.", yes)
        return where, await store.erase(where.subject, where.scope)

    where, receipt = run(ctx, work)
    print_json(
        {
            "place": place_name(where),
            "erased_at": stamp(receipt.erased_at),
            "count": receipt.count,
            "bytes": receipt.bytes,
            "copies_remain": receipt.copies_remain,
            "is_shreddable": receipt.is_shreddable,
        }
    )
