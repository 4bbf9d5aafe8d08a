"""The command doctor: problems of a store and the commands that repair them."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from factmem._cli.commands import command
from factmem._cli.exits import ExitCode
from factmem._cli.opening import Store, run
from factmem._cli.options import GIVEN
from factmem._cli.output import Answer, counted
from factmem._cli.place_names import place_name
from factmem.errors import CorruptJournalError, DecryptionError, FactmemError, TamperedError
from factmem.models.places import Place


class _Finding(NamedTuple):
    """A problem and its remedy."""

    problem: str
    remedy: str
    is_damage: bool = True


@command()
def doctor() -> Answer:
    """Check a store place by place; report problems and the commands that repair them."""
    options, places = GIVEN.get(), list[Place]()
    findings: list[_Finding] = []

    async def examine(store: Store) -> None:
        if options.is_database:
            places.extend(info.place for info in await store.places())
            return
        places.extend(await store.list_places())
        for place in places:
            try:
                await store.entries(place.subject, place.scope)
                await store.load_all(place.subject, place.scope)
            except FactmemError as exc:
                remedy = "restore from a backup, or: salvage NEW_FOLDER"
                findings.append(_Finding(f"{place_name(place)}: {exc}", remedy))

    try:
        if not options.is_database:
            findings += _files_of(Path(options.location))
        run(examine)
    except (DecryptionError, CorruptJournalError) as exc:
        if isinstance(exc, DecryptionError) and not isinstance(exc, TamperedError):
            raise
        findings.append(_Finding(str(exc), "restore from a backup"))
    lines = [line for each in findings for line in (each.problem, f"  -> {each.remedy}")]
    listed = [{"problem": each.problem, "remedy": each.remedy} for each in findings]
    return Answer(
        {"places": len(places), "findings": listed},
        *lines,
        f"{counted(len(places), 'place')} checked, {counted(len(findings), 'finding')}",
        code=ExitCode.DAMAGED if any(each.is_damage for each in findings) else ExitCode.OK,
    )


def _files_of(folder: Path) -> Iterator[_Finding]:
    """Yield the problems of the folder itself."""
    for path in (folder, folder / "facts.db"):
        if path.exists() and path.stat().st_mode & 0o077:
            mode = "700" if path.is_dir() else "600"
            remedy = f"chmod {mode} {path}"
            yield _Finding(f"{path} can be read by other users", remedy, is_damage=False)
