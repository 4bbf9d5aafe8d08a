"""The command doctor: problems of a store and the commands that repair them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import typer

from factmem._cli.exits import ExitCode
from factmem._cli.opening import Store, places_of, run, storage_of
from factmem._cli.options import Json, options_of
from factmem._cli.output import counted, print_json, print_line
from factmem._cli.place_names import place_name
from factmem.errors import CorruptJournalError, DecryptionError, FactmemError, TamperedError
from factmem.models.places import Place

__all__ = ["app"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and its remedy."""

    problem: str
    remedy: str
    is_damage: bool = True


@app.command()
def doctor(ctx: typer.Context, as_json: Json = False) -> None:
    """Check a store place by place; report problems and the commands that repair them."""
    options = options_of(ctx)
    places = 0
    findings: list[Finding] = []
    try:
        if not options.is_database:
            findings += _files_of(Path(options.location))
            storage = storage_of(options)
            found = places_of(options, storage)
            places = len(found)

            async def work(store: Store) -> list[Finding]:
                return [
                    each for place in found if (each := await _examine(store, place)) is not None
                ]

            findings += run(ctx, work, storage=storage)
        else:
            places = run(ctx, _database_places)
    except (DecryptionError, CorruptJournalError) as exc:
        if isinstance(exc, DecryptionError) and not isinstance(exc, TamperedError):
            raise
        findings.append(Finding(str(exc), "restore from a backup"))
    if as_json:
        listed = [{"problem": each.problem, "remedy": each.remedy} for each in findings]
        print_json({"places": places, "findings": listed})
    else:
        for each in findings:
            print_line(f"{each.problem}")
            print_line(f"  -> {each.remedy}")
        print_line(f"{counted(places, 'place')} checked, {counted(len(findings), 'finding')}")
    if any(each.is_damage for each in findings):
        raise typer.Exit(ExitCode.DAMAGED)


async def _database_places(store: Store) -> int:
    return len(await store.places())


async def _examine(store: Store, place: Place) -> Finding | None:
    """Read a place and return its problem, if there is one."""
    word = place_name(place)
    try:
        await store.entries(place.subject, place.scope)
        await store.load_all(place.subject, place.scope)
    except TamperedError as exc:
        return Finding(f"{word}: {exc}", "restore from a backup, or: salvage NEW_FOLDER")
    except FactmemError as exc:
        return Finding(f"{word}: {exc}", "restore from a backup, or: salvage NEW_FOLDER")
    return None


def _files_of(folder: Path) -> Iterator[Finding]:
    """Yield the problems of the folder itself."""
    for path in (folder, folder / "facts.db"):
        if path.exists() and path.stat().st_mode & 0o077:
            mode = "700" if path.is_dir() else "600"
            yield Finding(
                f"{path} can be read by other users", f"chmod {mode} {path}", is_damage=False
            )
