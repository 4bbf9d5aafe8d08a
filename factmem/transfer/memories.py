"""Imports from other memory libraries: mem0 and CrewAI."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from anyio.to_thread import run_sync

from factmem._arguments import expect, expect_function, expect_path, kind_of
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
"""Entries per call of the store. A call first reads the whole place, so small batches would be
slow. An import that was killed continues after the last completed batch."""


@dataclass(frozen=True, slots=True)
class MemoryProblem:
    """A memory that was not imported. It is left unchanged."""

    id: str
    """The id that the other library gave it, or its position if it has none."""
    reason: str
    """The reason, without any content of the memory."""

    def __str__(self) -> str:
        return f"Memory {self.id!r} was not imported: {self.reason}"


@dataclass(frozen=True, slots=True)
class MemoriesReport(Displayed):
    """The result of an import from another library."""

    places: tuple[Place, ...]
    """The places of the memories that were read, in the order of the other store."""
    new: int
    """How many of the facts were not in the store before."""
    known: int
    """How many of the facts were skipped, because an earlier import had added them."""
    problems: tuple[MemoryProblem, ...]


def library_of(path: str | os.PathLike[str]) -> Literal["crewai", "mem0"] | None:
    """Return the library that a folder or file of memories belongs to; None if it is unknown.

    Raises:
        ValueError: A JSON file is damaged.
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

    Each memory becomes a value of a concept, whose keyword is the memory's first category or else
    `keyword`. The memory's `user_id` becomes the entity of its subject; without a user the subject
    is `MemorySubject.EVERYTHING`. An `agent_id` selects the scope of that agent, an `app_id` that
    of the product. The `run_id` becomes the conversation of the source. Metadata is imported too.

    A memory counts as said at its last update: in a SINGLE concept the latest memory is current,
    whatever the order of imports. A second import adds what mem0 has saved since and replaces
    memories that mem0 has updated since, so an import can be repeated after a failure or a kill. It
    does not remove memories that mem0 has deleted since.

    mem0's files are opened only for reading, in a worker thread. Nothing in them is executed: the
    pickled points of Qdrant's local mode are read without calling anything that they name. No LLM
    calls.

    Args:
        path: The folder of the local vector store (Qdrant, Chroma or FAISS) or its parent; a JSON
            file with the result of `get_all()`; or `history.db`, which contains no users.
        into: The store to import into.
        scope: The scope of memories without `agent_id` and `app_id`.
        subject: The subject of the facts: an unbound per-entity subject such as `USER`, which is
            bound to each memory's user, or one subject for all, such as `USER.of("alice")`.
        user_field: The field of a memory, or of its metadata, that names its user.
        keyword: The keyword of the concept for memories without a category.
        concepts: The application's concepts, matched by keyword. Other keywords become concepts of
            many strings.
        clock: Returns the time. No fact is recorded at a later time.
        progress: Called after each place, with the number of finished memories and of all memories.

    Raises:
        TypeError: `into` is not a `FactStore`, or an argument is of the wrong type.
        ValueError: `path` contains no memories of mem0 or is damaged, or `keyword` is not a valid
            name.
        OSError: A file cannot be read.
        StorageError: The store failed.
    """
    how = MemoryImport(scope, subject, keyword, concepts, clock)
    expect_path(path, "path", "import_mem0('qdrant', store, scope=scope, subject=USER)")
    expect(user_field, str, "user_field", "user_field='user_id'")
    records = await run_sync(mem0_records, Path(path))
    return await _import_records(
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

    Each memory becomes a value of a concept, whose keyword is the memory's first category or else
    `keyword`. CrewAI's metadata, scope, source and private flag become metadata of the fact.

    Times and repeated imports work as in `import_mem0`, and files are opened only for reading. A
    LanceDB table, which CrewAI 1 stores in `memory/memories.lance`, needs the package `lancedb`, a
    dependency of CrewAI.

    Args:
        path: The folder of CrewAI's memory or its parent; for older versions the folder with
            `long_term_memory_storage.db`, `short_term` and `entities`; or a JSON file of
            `[record.model_dump(mode="json") for record in memory.list_records(limit=...)]`.
        into: The store to import into.
        scope: Where the facts are visible.
        subject: The subject of the facts: one subject for all, such as `USER.of("alice")`, or an
            unbound per-entity subject, which is bound to the user in `user_field`.
        user_field: The field of a memory, or of its metadata, that names its user: "source", or
            "scope" for the last part of the path.
        keyword: The keyword of the concept for memories without a category.
        concepts: The application's concepts, matched by keyword. Other keywords become concepts of
            many strings.
        clock: Returns the time. No fact is recorded at a later time.
        progress: Called after each place, with the number of finished memories and of all memories.

    Raises:
        TypeError: `into` is not a `FactStore`, or an argument is of the wrong type.
        ValueError: `path` contains no memories of CrewAI or is damaged, or `keyword` is not a valid
            name.
        UnboundSubjectError: `subject` is not bound, and no `user_field` names the users.
        MissingExtraError: It is a LanceDB table, and lancedb is not installed.
        OSError: A file cannot be read.
        StorageError: The store failed.
    """
    how = MemoryImport(scope, subject, keyword, concepts, clock)
    expect_path(path, "path", "import_crewai('memory', store, scope=scope, subject=USER)")
    if user_field is None:
        subject.check_bound()
    records = await run_sync(crewai_records, Path(path))
    return await _import_records(
        records, lambda record: crewai_memory(record, user_field), into, how, progress
    )


async def _import_records(
    records: Iterable[Record],
    memory_of: Callable[[Record], ForeignMemory],
    into: FactStore,
    how: MemoryImport,
    progress: Callable[[int, int], None] | None,
) -> MemoriesReport:
    """Write records to a store, place by place."""
    if not isinstance(into, FactStore):
        raise TypeError(
            f"into must be a FactStore, not {kind_of(into)}: LocalFileMemoryProvider(path)"
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
    """The state of one import: the counts of new and known facts, and the problems."""

    def __init__(self, into: FactStore, how: MemoryImport) -> None:
        self._into = into
        self._how = how
        self.new = self.known = 0
        self.problems: list[MemoryProblem] = []

    def by_place(
        self, records: Iterable[Record], memory_of: Callable[[Record], ForeignMemory]
    ) -> list[tuple[Place, list[ForeignMemory]]]:
        """Return the memories of each place, ordered by the time they were said."""
        found: dict[Identity, tuple[Place, list[ForeignMemory]]] = {}
        for record in records:
            try:
                memory = memory_of(record)
                place = self._how.place_of(memory)
            except ValueError as exc:
                self.problems.append(MemoryProblem(record.id, str(exc)))
            else:
                found.setdefault(place.identity, (place, []))[1].append(memory)
        for _, memories in found.values():  # entries of a place are recorded in order of time
            memories.sort(key=lambda memory: memory.said)
        return [*found.values()]

    async def write(self, place: Place, memories: list[ForeignMemory]) -> None:
        """Write the memories that a place does not have yet."""
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
