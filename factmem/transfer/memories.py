"""Imports of what other memory libraries keep: mem0 and CrewAI."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from anyio.to_thread import run_sync

from factmem._arguments import expect, expect_function, expect_path
from factmem.ledger.entries import Entry
from factmem.models.clock import TimeProvider, system_clock
from factmem.models.display import Displayed
from factmem.models.facts import Concept
from factmem.models.places import Identity, MemoryScope, MemorySubject, Place
from factmem.providers.base import FactStore
from factmem.transfer._crewai_files import crewai_memory, crewai_records, is_crewai
from factmem.transfer._mem0_files import is_mem0, mem0_memory, mem0_records
from factmem.transfer._memory_facts import ForeignMemory, MemoryImport, MemoryVersions, Record

__all__ = ["MemoriesReport", "MemoryProblem", "import_crewai", "import_mem0", "library_of"]

_AT_A_TIME = 10_000
"""Entries in one call of the store, which reads what the place holds first. An import that was
killed goes on after the last call that ended."""


@dataclass(frozen=True, slots=True)
class MemoryProblem:
    """A memory that was not imported. It stays where it is, as it is."""

    id: str
    """The id that the other library gave it, or its position where it has none."""
    reason: str
    """What is wrong; never what it holds."""

    def __str__(self) -> str:
        return f"Memory {self.id!r} was left out: {self.reason}"


@dataclass(frozen=True, slots=True)
class MemoriesReport(Displayed):
    """What was imported from another library, and what was not."""

    places: tuple[Place, ...]
    """The places that memories were read for, in the order of the other store."""
    new: int
    """How many facts the store did not hold yet."""
    known: int
    """How many it held already, from an import before."""
    problems: tuple[MemoryProblem, ...]


def library_of(path: str | os.PathLike[str]) -> Literal["crewai", "mem0"] | None:
    """Return the library whose memories a folder or file holds; None if it looks like neither.

    Raises:
        ValueError: A file of JSON is damaged.
        OSError: It cannot be read.
    """
    where = Path(expect_path(path, "path", "library_of('memory')"))
    if is_crewai(where):
        return "crewai"
    return "mem0" if is_mem0(where) else None


async def import_mem0(
    path: str | os.PathLike[str],
    into: FactStore,
    *,
    scope: MemoryScope,
    subject: MemorySubject,
    user_field: str = "user_id",
    keyword: str = "notes",
    concepts: Iterable[Concept[Any, Any]] = (),
    clock: TimeProvider = system_clock,
    progress: Callable[[int, int], None] | None = None,
) -> MemoriesReport:
    """Import the memories of mem0's open-source `Memory` into a store.

    Each memory becomes a value of a concept: its first category, else `keyword`. Its `user_id` is
    the entity of its subject; one without a user concerns `MemorySubject.EVERYTHING`. A memory with
    an `agent_id` goes to the scope of that agent, one with an `app_id` to that of the product. Its
    `run_id` is the conversation of its source; its own metadata come with it.

    A memory is a statement of the day of its last update: in a concept that holds one value, the
    one that was said last is current, in whatever order they are imported. Importing again changes
    nothing, or adds what mem0 has saved since; a memory that mem0 has updated since is replaced.
    What mem0 has deleted since stays. So an import can be repeated after a failure or a kill.

    mem0's files are only read, in a worker thread. Nothing in them is executed: pickled points of
    Qdrant's local mode are read without calling anything that they name. No LLM calls.

    Args:
        path: The folder of the local vector store (Qdrant, Chroma or FAISS) or its parent; a JSON
            file of what `get_all()` returned; or `history.db`, which names no users.
        into: Where the facts go.
        scope: The scope of memories without `agent_id` and `app_id`.
        subject: Whom they are about: a per-entity subject that gets the users' names, as `USER`, or
            the one subject of all, as `USER.of("alice")`.
        user_field: The field of a memory, or of its metadata, that names its user.
        keyword: The concept of memories without a category.
        concepts: The application's concepts, found by their keywords; others hold many strings.
        clock: Tells the time: no fact counts as recorded later.
        progress: Called after each place, with how many memories are done and how many there are.

    Raises:
        TypeError: `into` is no `FactStore`, or an argument is of the wrong kind.
        ValueError: `path` holds nothing of mem0's or is damaged, or `keyword` is no valid name.
        OSError: A file cannot be read.
        StorageError: The store refused.
    """
    how = MemoryImport(scope, subject, keyword, concepts, clock)
    expect_path(path, "path", "import_mem0('qdrant', store, scope=scope, subject=USER)")
    expect(user_field, str, "user_field", "user_field='user_id'")
    records = await run_sync(mem0_records, Path(path))
    return await _imported(
        records, lambda record: mem0_memory(record, user_field), into, how, progress
    )


async def import_crewai(
    path: str | os.PathLike[str],
    into: FactStore,
    *,
    scope: MemoryScope,
    subject: MemorySubject,
    user_field: str | None = None,
    keyword: str = "notes",
    concepts: Iterable[Concept[Any, Any]] = (),
    clock: TimeProvider = system_clock,
    progress: Callable[[int, int], None] | None = None,
) -> MemoriesReport:
    """Import the memories of CrewAI into a store.

    Each memory becomes a value of a concept: its first category, else `keyword`. Its metadata come
    with it, and so do CrewAI's scope and source, and whether it is private.

    Times, repeated imports and reading are as in `import_mem0`. A LanceDB table, which CrewAI 1
    keeps in `memory/memories.lance`, is read by the package `lancedb`, which CrewAI needs too.

    Args:
        path: The folder of CrewAI's memory or its parent; of older versions the folder with
            `long_term_memory_storage.db`, `short_term` and `entities`; or a JSON file of
            `[record.model_dump(mode="json") for record in memory.list_records(limit=...)]`.
        into: Where the facts go.
        scope: Where the facts are visible.
        subject: Whom they are about: the one subject of all, as `USER.of("alice")`, or a per-entity
            subject that gets the names in `user_field`.
        user_field: The field of a memory, or of its metadata, that names its user: "source", or
            "scope" for the last part of the path.
        keyword: The concept of memories without a category.
        concepts: The application's concepts, found by their keywords; others hold many strings.
        clock: Tells the time: no fact counts as recorded later.
        progress: Called after each place, with how many memories are done and how many there are.

    Raises:
        TypeError: `into` is no `FactStore`, or an argument is of the wrong kind.
        ValueError: `path` holds nothing of CrewAI's or is damaged, or `keyword` is no valid name.
        UnboundSubjectError: `subject` is not bound, and no `user_field` names the users.
        MissingExtraError: It is a LanceDB table, and lancedb is not installed.
        OSError: A file cannot be read.
        StorageError: The store refused.
    """
    how = MemoryImport(scope, subject, keyword, concepts, clock)
    expect_path(path, "path", "import_crewai('memory', store, scope=scope, subject=USER)")
    if user_field is None:
        subject.check_bound()
    records = await run_sync(crewai_records, Path(path))
    return await _imported(
        records, lambda record: crewai_memory(record, user_field), into, how, progress
    )


async def _imported(
    records: Iterable[Record],
    memory_of: Callable[[Record], ForeignMemory],
    into: FactStore,
    how: MemoryImport,
    progress: Callable[[int, int], None] | None,
) -> MemoriesReport:
    """Write records into a store, place by place."""
    if not isinstance(into, FactStore):
        raise TypeError(
            f"{type(into).__name__} is no FactStore: it needs replay, as factmem's have"
        )
    if progress is not None:
        expect_function(progress, "progress", "progress=lambda done, total: print(done, total)")
    importing = _Importing(into, how)
    by_place = importing.by_place(records, memory_of)
    total = sum(len(memories) for _, memories in by_place)
    done = 0
    for target, memories in by_place:
        await importing.write(target, memories)
        done += len(memories)
        if progress is not None:
            progress(done, total)
    places = tuple(target for target, _ in by_place)
    return MemoriesReport(places, importing.new, importing.known, tuple(importing.problems))


class _Importing:
    """One import: counts what was new and known, and collects problems."""

    def __init__(self, into: FactStore, how: MemoryImport) -> None:
        self._into = into
        self._how = how
        self.new = self.known = 0
        self.problems: list[MemoryProblem] = []

    def by_place(
        self, records: Iterable[Record], memory_of: Callable[[Record], ForeignMemory]
    ) -> list[tuple[Place, list[ForeignMemory]]]:
        """Return the memories of each place, in the order in which they were said."""
        found: dict[Identity, tuple[Place, list[ForeignMemory]]] = {}
        for record in records:
            try:
                memory = memory_of(record)
                place = self._how.place_of(memory)
            except ValueError as exc:
                self.problems.append(MemoryProblem(record.id, str(exc)))
            else:
                found.setdefault(place.identity, (place, []))[1].append(memory)
        for _, memories in found.values():
            memories.sort(key=lambda memory: memory.said)
        return [*found.values()]

    async def write(self, place: Place, memories: list[ForeignMemory]) -> None:
        """Write what a place lacks."""
        versions = MemoryVersions(await self._into.entries(place.subject, place.scope))
        entries: list[Entry] = []
        for memory in memories:
            try:
                entry = versions.entry_of(memory, self._how)
            except (ValueError, TypeError) as exc:
                self.problems.append(MemoryProblem(memory.id, str(exc)))
                continue
            if entry is None:
                self.known += 1
            else:
                entries.append(entry)
        for start in range(0, len(entries), _AT_A_TIME):
            part = entries[start : start + _AT_A_TIME]
            self.new += await self._into.replay(part, place.subject, place.scope)
