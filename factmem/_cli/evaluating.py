"""The commands of the group eval: draft, accept, run, compare."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from factmem._cli.commands import command, evaluation
from factmem._cli.opening import Store, check_revealed, load_embedder, load_memory, load_model, run
from factmem._cli.options import GIVEN, EmbedderName, Reveal, confirm
from factmem._cli.output import Answer, CommandError, ExitCode, counted, print_line
from factmem._cli.targets import find_place
from factmem.memory.agent_memory import AgentMemory
from factmem.transfer._outputs import write_whole

if TYPE_CHECKING:  # `factmem.evaluation` is imported by the commands that need it
    from factmem.evaluation import EvalCase, EvalReport

Cases = Annotated[str, typer.Argument(metavar="CASES", help="A JSON Lines file of cases.")]


@command(group=evaluation)
def draft(
    chats: Annotated[str, typer.Argument(metavar="CHATS", help="A .json or .jsonl file of chats.")],
    model: Annotated[
        str, typer.Option(metavar="NAME", help="openai:MODEL, ollama:MODEL or MODULE:NAME.")
    ],
    out: Annotated[
        str, typer.Option(metavar="CASES", help="The file to add the cases to.")
    ] = "cases.jsonl",
    most: Annotated[int, typer.Option(min=1, help="Cases for each call of the model.")] = 5,
) -> Answer:
    """Let a model propose cases from chats. They are not run before you accept them."""
    from factmem.evaluation import draft_cases, read_cases, read_chats, write_cases

    known = read_cases(out) if Path(out).exists() else []
    found = read_chats(chats)
    chat_model = load_model(model)
    made = anyio.run(lambda: draft_cases(chat_model, found, known=known, most=most))
    write_cases(out, [*known, *made.cases])
    count, dropped = len(made.cases), made.dropped
    words = f"{counted(count, 'case')} to accept in {out}, {dropped} dropped"
    return Answer({"cases": count, "dropped": dropped}, words)


@command(group=evaluation, asks=True)
def accept(cases: Cases) -> Answer:
    """Show each case that is not accepted yet, and accept or remove it."""
    from factmem.evaluation import alternatives, read_cases, write_cases

    kept: list[EvalCase] = []
    known = read_cases(cases)
    for case in known:
        if case.accepted:
            kept.append(case)
            continue
        if not GIVEN.get().as_json:
            print_line(f"{case.id}: {case.question}")
            expected = ", ".join(" or ".join(alternatives(each)) for each in case.expect)
            print_line(f"  {expected or 'no answer'}    {case.note}")
        if _is_wanted():
            kept.append(replace(case, accepted=True))
    write_cases(cases, kept)
    removed = len(known) - len(kept)
    words = f"{counted(len(kept), 'accepted case')}, {removed} removed"
    return Answer({"accepted": len(kept), "removed": removed}, words)


def _is_wanted() -> bool:
    try:
        confirm("Accept it?")
    except typer.Exit:
        return False
    return True


@command("run", group=evaluation)
def run_cases(
    cases: Cases,
    memory: Annotated[
        str | None,
        typer.Option(metavar="MODULE:NAME", help="The application's AgentMemory, not --store."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Facts per question.")] = 5,
    embedder: EmbedderName = None,
    out: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Write the report as .json or .html; can be repeated."),
    ] = None,
    reveal: Reveal = False,
) -> Answer:
    """Run the accepted cases against a memory. Exit code 1 means that a case failed."""
    from factmem.evaluation import evaluate, read_cases

    for path in out or ():
        if not path.endswith((".json", ".html")):
            raise CommandError(f"--out must end in .json or .html, not {path!r}")
    given = read_cases(cases)
    if memory is not None:
        own = load_memory(memory)

        async def evaluated() -> "EvalReport":
            async with own.store, own:
                return await evaluate(own, given, limit=limit)

        report = anyio.run(evaluated)
    else:
        options = GIVEN.get()
        check_revealed(options, reveal)
        vectors = load_embedder(embedder or options.embedder)

        async def work(store: Store) -> "EvalReport":
            async with AgentMemory(store, embedder=vectors) as whole:
                only = [await find_place(store, options.place)] if options.place else None
                view = whole.view(places=only or await store.list_places())
                return await evaluate(view, given, limit=limit)

        report = run(work)
    if not report.results:
        raise CommandError("No case is accepted: use `factmem eval accept`", ExitCode.NOTHING)
    for path in out or ():
        text = report.to_json() if path.endswith(".json") else report.to_html()
        write_whole(path, text)
    code = ExitCode.FAILED if report.failed else ExitCode.OK
    return Answer(report.summary(), *report.to_text().splitlines(), code=code)


@command(group=evaluation)
def compare(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A report of eval run.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="A later report.")],
) -> Answer:
    """Compare two reports. Exit code 1 means that a case passed before and fails now."""
    from factmem.evaluation import EvalReport, compared

    old, new = (
        EvalReport.from_json(Path(path).read_text(encoding="utf-8")) for path in (before, after)
    )
    broken, lines = compared(old, new)
    record = {"broken": [each.id for each in broken], "changes": lines}
    return Answer(record, *lines, code=ExitCode.FAILED if broken else ExitCode.OK)
