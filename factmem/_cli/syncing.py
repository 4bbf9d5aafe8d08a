"""The command that syncs a store with other devices: sync."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import anyio
import typer

from factmem._cli.commands import command
from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store, ask_passphrase
from factmem._cli.options import GIVEN
from factmem._cli.output import Answer, Problem, counted, progress_bar
from factmem._cli.place_names import find_place
from factmem._cli.transfers import PlaceOptions
from factmem.encryption.key import Key
from factmem.transfer._outputs import write_whole
from factmem.transfer.devices import (
    SyncReport,
    key_of_phrase,
    new_phrase,
    opens_none,
    shared_folder,
    sync_devices,
)


@command(creates=True)
async def sync(
    store: Store,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Shared by the devices.")],
    new: Annotated[
        bool, typer.Option("--new", help="Make a key, and show its phrase once.")
    ] = False,
    join: Annotated[bool, typer.Option("--join", help="Ask for the phrase of the key.")] = False,
    watch: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Sync again and again.", min=1)
    ] = None,
    place: PlaceOptions = None,
    conversations: Annotated[
        bool, typer.Option("--conversations", help="Conversations as well, from now on.")
    ] = False,
    state: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="By default the store's path with .sync.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
) -> Answer | None:
    """Exchange facts with your other devices through a folder, encrypted end to end."""
    if new and join:
        raise CommandError("--new makes a key and --join asks for that of another device")
    if state is None and GIVEN.get().is_database:
        raise CommandError("Pass --state FOLDER: a database has no folder on this device")
    shared_folder(folder)  # before a phrase is shown that no other device could use
    own = Path(state or GIVEN.get().location.rstrip("/\\") + ".sync")
    phrase = new_phrase() if new else None
    if join:
        is_typed = sys.stdin.isatty()
        phrase = ask_passphrase("Phrase: ", twice=False) if is_typed else sys.stdin.readline()
    given = None if phrase is None else key_of_phrase(phrase)
    if join and given is not None and opens_none(folder, given):
        raise CommandError(
            "The phrase opens no file of the folder: it is that of another memory or folder, or an "
            "old one; `--new` shows the new one. Nothing was changed",
            ExitCode.KEY,
        )
    key = _key(own / "key", given)
    if new:
        sys.stderr.write(f"The phrase for your other devices, shown only now:\n\n  {phrase}\n\n")
    places = [await find_place(store, each) for each in place] if place else None
    while True:
        with progress_bar("Receiving") as update:
            report = await sync_devices(
                store,
                folder,
                key=key,
                state=own,
                places=places,
                conversations=conversations,
                dry_run=dry_run,
                progress=update,
            )
        answer = _answer(report, is_dry=dry_run)
        if watch is None:
            return answer
        if report.sent or report.received or report.erased or report.problems:
            answer.show(as_json=GIVEN.get().as_json, is_last=False)
        await anyio.sleep(watch)


def _key(path: Path, new: Key | None) -> Key:
    """Return the key of the shared memory; write it first if it is new to this device."""
    if new is None:
        if not path.exists():
            raise CommandError(
                "This device has no key: pass --new on the first device, --join on the others",
                ExitCode.KEY,
            )
        return Key.from_file(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(str(path), f"{new.to_base64()}\n")
    return new


def _answer(report: SyncReport, *, is_dry: bool) -> Answer:
    behind = [{"device": device, "last_sync": at.isoformat()} for device, at in report.behind]
    sent = counted(report.sent, "entry", "entries")
    erased = f", erased {counted(report.erased, 'place')}" if report.erased else ""
    devices = counted(report.devices, "device")
    done = f"Would send {sent}" if is_dry else f"Sent {sent}, received {report.received}{erased}"
    return Answer(
        {**asdict(report), "behind": behind},
        f"{done}; the folder has files of {devices}",
        *(
            f"Device {device} may still have what was removed: its last sync was {at:%Y-%m-%d %H:%M}Z"
            for device, at in report.behind
        ),
        *(Problem(each) for each in report.problems),
        code=ExitCode.DAMAGED if report.problems else ExitCode.OK,
    )
