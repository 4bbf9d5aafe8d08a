"""Commands that change concepts for all users: rename, merge, convert."""

import sys
from typing import Annotated, Literal, TypeAlias

import typer

from factmem._cli.commands import command
from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store, load_function
from factmem._cli.options import GIVEN, Keyword, confirm
from factmem._cli.output import Answer, counted, print_error
from factmem._cli.place_names import place_name
from factmem._cli.targets import stored_target
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.concept_changes import ChangeReport

_EVERY = 1000
"""The number of places between two lines of progress."""

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
    """Give the facts of a keyword, with their history, another keyword, for all users."""
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
    report = await AgentMemory(store).contents.rename(
        keywords, concept, if_both=if_both, dry_run=dry_run, progress=_progress
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
    report = await AgentMemory(store).contents.convert(
        concept, made, operation=operation, dry_run=dry_run, progress=_progress
    )
    return _answer(report)


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty() and done % _EVERY == 0:
        print_error(f"{done:,} of {of:,} places")


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
