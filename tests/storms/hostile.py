"""Databases that an attacker or another program changed: each call refuses them, or is harmless.

    python -m tests.storms.hostile --cases 1000

Half of the cases are of encrypted stores. Whoever changes a plain store makes its checksums right
again, as they are no secret. Harmless means, without an anchor and without a backup:

- a call ends in time, and raises nothing but an error of factmem;
- an encrypted store returns what was saved, a plain one perhaps other values and times, which it
  believes;
- a user whose facts can be read is listed, exported and copied by a backup;
- a save that returned is read by other processes, and after it no other user is missing;
- an erasure that returned leaves nothing to read, and the receipt of an encrypted store is not from
  the future.
"""

import argparse
import faulthandler
import shutil
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Iterable
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio

from factmem import (
    AgentMemory,
    Concept,
    Key,
    LocalFileMemoryProvider,
    MemoryScopesProfile,
    export_facts,
)
from factmem.errors import FactmemError
from factmem.models.places import Place
from factmem.providers._sqlite.files import DamagedError
from factmem.providers.results import ErasureReceipt
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, languages, theme
from tests.storms.hostile_changes import BY_FILES, BY_SQL, SEALED_AGAIN, Copies
from tests.world import storage_of

NAMES = ["anna", "ben", "carl", "dora"]
PEOPLE = [PERSON.of(name) for name in NAMES]
CHAT = "chat-1"
_REPLACED = {"database swapped", "files"}
LIMIT = 20.0
"""Seconds of the processor that a call or a case may take. After six times as many by the clock, a
call hangs, and the process ends with its traces."""


_IMPOSSIBLE = sqlite3.Error, ArithmeticError, LookupError, TypeError, ValueError, OSError
"""What a change raises whose rows an earlier change of the case has removed or made odd."""


class Trial:
    """A store to change, and what is true of it."""

    def __init__(self, folder: Path, *, is_encrypted: bool) -> None:
        self.is_encrypted = is_encrypted
        self._storage = storage_of(*[Key.generate()] * is_encrypted, busy_timeout=2)
        self.folder, self.home = folder, folder / "home"
        self.copies = Copies(b"", b"", folder / "second" / "facts.db")
        self.past: dict[str, list[object]] = {name: [] for name in NAMES}
        """The facts that each has had: an older state is detected by an anchor only."""
        self.faults: list[str] = []
        """Calls that were neither refused nor harmless."""
        self.refusals = 0
        self.case = ""
        self.is_damaged, self.is_told, self.found_by_verify = False, False, 0
        self.refused: set[str] = set()
        """The users whose facts are refused."""

    def opened(self, root: Path) -> LocalFileMemoryProvider:
        store = LocalFileMemoryProvider(root, storage=self._storage)
        if store._search is not None:
            store._search._from = 0
        return store

    @staticmethod
    def memory(store: LocalFileMemoryProvider, name: str) -> AgentMemory:
        scopes = MemoryScopesProfile(agent=AGENT.name)
        return AgentMemory(store, scopes=scopes, subjects=[PERSON]).of(name)

    async def _fill(self, root: Path) -> None:
        async with self.opened(root) as store:
            for turn in range(2):
                for name, person in zip(NAMES, PEOPLE, strict=True):
                    await store.save(languages(f"{name}-{turn}", "python"), person, AGENT)
                    await self._note(store)
                    await store.save(theme(f"theme {turn}"), person, AGENT)
                    await self._note(store)
            for name in NAMES[:2]:
                said = [{"role": "user", "content": f"hello {number} there"} for number in range(3)]
                await self.memory(store, name).conversation(CHAT).append(*said)
            await store.save(theme("gone"), PERSON.of("gone"), AGENT)
            await store.define([Concept("pet", "The pet of the user")])

    async def prepare(self) -> None:
        """Fill the store; keep an early copy, another database and the log of a killed process."""
        await self._fill(self.folder / "second")
        await self._fill(self.home)
        early = (self.home / "facts.db").read_bytes()
        async with self.opened(self.home) as store:
            await store.forget(PEOPLE[0], AGENT, concept=LANGUAGES, value="anna-0", purge=True)
            await self._note(store)
            await store.erase(PERSON.of("gone"), AGENT)
            for name in NAMES:
                await self.memory(store, name).recall("which theme")
                await self.memory(store, name).recall("python hello")
            for person in PEOPLE:
                await store.save(theme("now"), person, AGENT)
            log = (self.home / "facts.db-wal").read_bytes()
            self.copies = self.copies._replace(early=early, log=log)
        async with self.opened(self.home) as store:
            await self._note(store)
            self.turns = await store.conversations.turns(CHAT, Place(AGENT, PEOPLE[0]))

    async def _note(self, store: LocalFileMemoryProvider) -> None:
        for name in NAMES:
            self.past[name].append(await self._facts(store, name))

    @staticmethod
    async def _facts(store: LocalFileMemoryProvider, name: str) -> list[tuple[str, object]]:
        found = await store.load_all(PERSON.of(name), AGENT)
        return sorted((fact.concept.keyword, str(fact.values)) for fact in found)

    def _fault(self, what: str) -> None:
        self.faults.append(f"{self.case}: {what}")

    def _silent(self, what: str) -> None:
        """Note what no error told; a damaged index of SQLite is found by `verify` only."""
        if self.is_damaged:
            self.found_by_verify += 1
        else:
            self._fault(what)

    async def _try(self, name: str, call: Awaitable[Any]) -> tuple[bool, Any]:
        """Return whether a call returned, and what."""
        begin = time.process_time()
        try:
            return True, await call
        except FactmemError as exc:
            self.refusals += 1
            if not str(exc):
                self._fault(f"{name}: an error without a word")
            return False, exc
        except Exception as exc:
            last = traceback.extract_tb(exc.__traceback__)[-1]
            self._fault(f"{name}: {exc!r:.150} at {last.filename}:{last.lineno} {last.name}")
            return False, exc
        finally:
            if (took := time.process_time() - begin) > LIMIT:
                self._fault(f"{name}: took {took:.0f} s")

    async def judge(self, root: Path) -> None:
        """Call all of the API, and look whether what it did is harmless."""
        self.is_damaged, self.refused = False, set()
        async with self.opened(root) as store:
            readable = await self._read(store)
            await self._leave(store, root, readable)
        await self._write(root, readable)
        await self._erase(root, readable)

    async def _read(self, store: LocalFileMemoryProvider) -> dict[str, object]:
        """Read all there is; return the facts of the users that can be read."""
        readable: dict[str, object] = {}
        for name, person in zip(NAMES, PEOPLE, strict=True):
            place = Place(AGENT, person)
            done, facts = await self._try("load_all", self._facts(store, name))
            if done and facts:
                readable[name] = facts
            elif not done:
                self.refused.add(name)
            if done and facts and self.is_encrypted and facts not in self.past[name]:
                self._fault(f"load_all: {name} has other facts")
            calls: list[Awaitable[Any]] = [
                store.load(THEME, person, AGENT), store.load(LANGUAGES, person, AGENT),
                store.history(THEME, person, AGENT), store.entries(person, AGENT),
                store.version(person, AGENT),
                store.proposals(person, AGENT), store.load_by_description("theme", person, AGENT),
                store.erased_at(person, AGENT), store.conversations.conversations(place),
            ]  # fmt: skip
            for call in calls:
                await self._try(str(getattr(call, "__name__", call)), call)
            done, turns = await self._try("turns", store.conversations.turns(CHAT, place))
            if done and self.is_encrypted and name == "anna" and turns != self.turns[: len(turns)]:
                self._fault("turns: others than were saved")
            memory = self.memory(store, name)
            await self._try("recall", memory.recall("which theme"))
            await self._try("recall", memory.recall("python hello"))
            await self._try("text", memory.text())
        calls = [
            store.concepts(), store.conversations.state(), store.anchor(),
            self.memory(store, "anna").contents.tree(),
        ]  # fmt: skip
        for call in calls:
            await self._try(str(getattr(call, "__name__", call)), call)
        done, error = await self._try("verify", store.verify())
        self.is_damaged, self.is_told = isinstance(error, DamagedError), not done
        return readable

    async def _leave(
        self, store: LocalFileMemoryProvider, root: Path, readable: dict[str, object]
    ) -> None:
        """List, export and copy: no user that can be read is missing."""
        listed, places = await self._try("list_places", store.list_places())
        if listed:
            self._missing(
                "list_places", {*readable, *self.refused}, [each.subject.entity for each in places]
            )
        listed, infos = await self._try("places", store.places())
        if listed:
            self._missing(
                "places", {*readable, *self.refused}, [each.subject.entity for each in infos]
            )
        bundle = root.with_name("bundle.jsonl")
        done, report = await self._try("export", export_facts(store, bundle))
        if done:
            self._missing(
                "export",
                {*readable, *self.refused},
                [each.subject.entity for each in report.places],
            )
        copy, again = root.with_name("copy"), root.with_name("again")
        done, anchor = False, ""
        if (root / "facts.db").exists():  # else nothing was saved, as far as anyone can know
            done, anchor = await self._try("backup", store.backup(copy))
        if done:
            async with self.opened(copy) as backup:
                found = [n for n in readable if await self._has(backup, n, readable[n])]
                self._missing("backup", readable, found)
            async with self.opened(again) as restored:
                done, _ = await self._try("restore", restored.restore(copy, anchor=anchor))
                if done:
                    found = [n for n in readable if await self._has(restored, n, readable[n])]
                    self._missing("restore", readable, found)
        await self._try("salvage", store.salvage(root.with_name("salvaged")))

    async def _has(self, store: LocalFileMemoryProvider, name: str, facts: object) -> bool:
        done, found = await self._try("load_all of a copy", self._facts(store, name))
        return not done or found == facts

    def _missing(self, call: str, expected: Iterable[str], found: Iterable[str | None]) -> None:
        missing = set(expected) - set(found)
        if missing <= self.refused and self.is_told:  # such as one whose row was deleted
            return
        if missing:
            self._silent(f"{call}: {sorted(missing)} missing")

    async def _write(self, root: Path, readable: dict[str, object]) -> None:
        """Save, and read that in other processes."""
        saved: list[str] = []
        for name in ("anna", "dora", "new"):
            async with self.opened(root) as store:
                done, _ = await self._try(
                    "save", store.save(theme("saved"), PERSON.of(name), AGENT)
                )
                if done:
                    saved.append(name)
        async with self.opened(root) as store:
            for name in saved:
                done, facts = await self._try(
                    "load a save", store.load(THEME, PERSON.of(name), AGENT)
                )
                is_read = done and [fact.value for fact in facts] == ["saved"]
                # A plain store believes a time at which another value was said.
                if done and not is_read and (self.is_encrypted or not facts):
                    self._silent(f"load: a save of {name} is not read")
            for name in set(readable) - set(saved):
                done, facts = await self._try("load another", self._facts(store, name))
                if done and facts != readable[name]:
                    self._silent(f"load: the facts of {name} are others after saves")
            listed, places = await self._try("list_places", store.list_places())
            if listed:
                self._missing("list_places", saved, [each.subject.entity for each in places])

    async def _erase(self, root: Path, readable: dict[str, object]) -> None:
        """Purge, erase and reset: nothing is left to read, and receipts are not from the future."""
        receipts: list[ErasureReceipt] = []
        for name, person in zip(NAMES, PEOPLE, strict=True):
            async with self.opened(root) as store:
                if name == "dora":
                    reset = self.memory(store, name).contents.reset(confirm=True)
                    done, report = await self._try("reset", reset)
                    receipts += report.receipts if done else []
                elif name == "carl":
                    purge = store.forget(person, AGENT, concept=LANGUAGES, purge=True)
                    done, _ = await self._try("purge", purge)
                else:
                    done, receipt = await self._try("erase", store.erase(person, AGENT))
                    receipts += [receipt] if done else []
            if not done:
                continue
            async with self.opened(root) as store:
                read, facts = await self._try("load the erased", self._facts(store, name))
                left = (
                    [fact for fact in facts if name != "carl" or fact[0] == "languages"]
                    if read
                    else []
                )
                if left:
                    self._silent(f"erase: {name} is still read after an erasure")
                place = Place(AGENT, person)
                read, turns = await self._try("turns", store.conversations.turns(CHAT, place))
                if read and turns and name != "carl":
                    self._silent(f"erase: the messages of {name} are still read")
        if not self.is_encrypted:
            return
        if any(each.erased_at > datetime.now(UTC) + timedelta(minutes=5) for each in receipts):
            self._fault("erase: a receipt is from the future")
        async with self.opened(root) as store:
            for receipt in receipts:
                save = store.save(theme("later"), receipt.subject, receipt.scope)
                if not (await self._try("save again", save))[0]:
                    continue
                done, _ = await self._try("replay_erasures", store.replay_erasures([receipt]))
                loaded, facts = await self._try(
                    "load again", store.load(THEME, receipt.subject, receipt.scope)
                )
                if done and loaded and [fact.value for fact in facts] != ["later"]:
                    self._fault("replay_erasures: what was saved later is gone")

    async def run_case(self, seed: str) -> None:
        """Change a copy of the store in one to three ways, and judge it."""
        random = Random(seed)
        kinds = [
            *BY_SQL,
            *BY_SQL,
            *BY_FILES,
            *([] if self.is_encrypted else 3 * list(SEALED_AGAIN)),
        ]
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            root = Path(name) / "store"
            shutil.copytree(self.home, root)
            said: list[str] = []
            for _ in range(random.choice([1, 1, 1, 2, 3])):
                kind = random.choice(kinds)
                if kind in _REPLACED and any(each.split(":")[0] in _REPLACED for each in said):
                    continue  # a whole folder replaced is noticed by `name=` only
                with suppress(*_IMPOSSIBLE):
                    if kind in BY_FILES:
                        said.append(f"{kind}: {BY_FILES[kind](random, root, self.copies)}")
                        continue
                    change = (BY_SQL | SEALED_AGAIN)[kind]
                    with closing(sqlite3.connect(root / "facts.db", timeout=1)) as db, db:
                        said.append(f"{kind}: {change(random, db)}")
            self.case = f"{', '.join(said)}, seed {seed!r}"
            faulthandler.dump_traceback_later(6 * LIMIT, exit=True)
            begin = time.process_time()
            try:
                await self.judge(root)
            finally:
                faulthandler.cancel_dump_traceback_later()
            if (took := time.process_time() - begin) > LIMIT:
                self._fault(f"the case took {took:.0f} s")


async def run(folder: Path, cases: int, seed: int, *, is_encrypted: bool) -> Trial:
    """Change a store in so many ways, each by itself."""
    trial = Trial(folder, is_encrypted=is_encrypted)
    await trial.prepare()
    for number in range(cases):
        await trial.run_case(f"{seed} {number}")
    return trial


def main() -> int:
    """Run as many cases as the command line asks for; 0 if each was refused or harmless."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.hostile")
    parser.add_argument("--cases", type=int, default=1000, help="half of them encrypted")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what is drawn")
    given = parser.parse_args()
    print(f"hostile databases, seed {given.seed}", flush=True)
    count = 0
    for is_encrypted in (False, True):
        with tempfile.TemporaryDirectory() as name:
            cases, begin = given.cases // 2, time.monotonic()
            trial = anyio.run(
                partial(run, is_encrypted=is_encrypted), Path(name), cases, given.seed
            )
        kind = "encrypted" if is_encrypted else "plain"
        print(
            f"{kind}: {cases} cases, {trial.refusals} calls refused, "
            f"{trial.found_by_verify} found by verify alone, {len(trial.faults)} faults, "
            f"{time.monotonic() - begin:.0f} s",
            *trial.faults[:200],
            sep="\n",
            flush=True,
        )
        count += len(trial.faults)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
