"""Commands that change concepts for all users: rename, merge, convert."""

import sys
from typing import Annotated, Any, Literal

import typer

from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.named_objects import load_function
from factmem._cli.opening import Store, run
from factmem._cli.options import Json, Options, Yes, confirm, options_of
from factmem._cli.output import counted, print_error, print_json, print_line
from factmem._cli.place_names import place_name
from factmem._cli.targets import stored_target
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.concept_changes import ChangeReport
from factmem.models.facts import Concept

__all__ = ["app"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""

_EVERY = 1000
"""The number of places between two lines of progress."""

IfBoth = Annotated[
    Literal["later", "both"] | None,
    typer.Option(help="What a user with values of several keywords keeps."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report what would be changed.")]


@app.command()
def rename(
    ctx: typer.Context,
    keyword: Annotated[str, typer.Argument(metavar="KEYWORD")],
    new: Annotated[str, typer.Argument(metavar="NEW")],
    if_both: IfBoth = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Give the facts of a keyword, with their history, another keyword, for all users."""
    _merge(ctx, [keyword], new, if_both, dry_run=dry_run, as_json=as_json, yes=yes)


@app.command()
def merge(
    ctx: typer.Context,
    new: Annotated[str, typer.Argument(metavar="NEW")],
    keywords: Annotated[list[str], typer.Argument(metavar="KEYWORD...")],
    if_both: IfBoth = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Give the facts of several keywords, with their history, one keyword, for all users."""
    _merge(ctx, keywords, new, if_both, dry_run=dry_run, as_json=as_json, yes=yes)


def _merge(
    ctx: typer.Context,
    keywords: list[str],
    new: str,
    if_both: Literal["later", "both"] | None,
    *,
    dry_run: bool,
    as_json: bool,
    yes: bool,
) -> None:
    if not dry_run:
        names = ", ".join(map(repr, keywords))
        confirm(f"Store the facts of {names} as {new!r}, for all users?", yes)

    async def work(store: Store) -> ChangeReport:
        concept = await _concept(store, options_of(ctx), [new, *keywords])
        return await AgentMemory(store).contents.merge(
            keywords, concept, if_both=if_both, dry_run=dry_run, progress=_progress
        )

    _show(run(ctx, work), as_json=as_json)


async def _concept(store: Store, options: Options, keywords: list[str]) -> Concept[Any, Any]:
    """Return the concept of the first keyword, described like the first that has facts."""
    own = options.concept(keywords[0])
    return own or await stored_target(store, keywords)


@app.command()
def convert(
    ctx: typer.Context,
    keyword: Annotated[str, typer.Argument(metavar="KEYWORD", help="Of one of --concepts.")],
    function: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="Returns the new value for a stored one.")
    ],
    operation: Annotated[
        str, typer.Option(metavar="NAME", help="Marks what it has converted: repeat it with this.")
    ],
    dry_run: DryRun = False,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Convert the values of a concept, with their history, to its new type, for all users."""
    concept = options_of(ctx).concept(keyword)
    if concept is None:
        raise CommandError(f"Pass the concept {keyword!r} with its new type before the command: "
                           "--concepts my_app.memory:CONCEPTS")  # fmt: skip
    made = load_function(function)
    if not dry_run:
        confirm(f"Convert the values of {keyword!r}, for all users?", yes)

    async def work(store: Store) -> ChangeReport:
        return await AgentMemory(store).contents.convert(
            concept, made, operation=operation, dry_run=dry_run, progress=_progress
        )

    _show(run(ctx, work), as_json=as_json)


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty() and done % _EVERY == 0:
        print_error(f"{done:,} of {of:,} places")


def _show(report: ChangeReport, *, as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "place": place_name(each.place),
                "values": each.values,
                "has_both": each.has_both,
                "problem": each.problem,
                "failed": list(each.failed),
            }
            for each in report.changes
        ]
        print_json({"is_dry_run": report.is_dry_run, "changes": rows})
    else:
        did = "Would change" if report.is_dry_run else "Changed"
        places = counted(len(report.places), "place")
        print_line(f"{did} {counted(report.values, 'value')} in {places}")
        for each in report.refused:
            print_line(f"{place_name(each.place)}: {each.problem}")
            for fact_id in each.failed:
                print_line(f"  fact {fact_id}")
    if report.refused:
        raise typer.Exit(ExitCode.REFUSED)
