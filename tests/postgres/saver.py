"""A process that saves until its time is up, and reports what became of each save.

    python -m tests.postgres.saver DSN STORE NAME SECONDS KEY

Prints a line when its first save is done, and at the end one of JSON: the values that were
acknowledged, those whose outcome is unknown, and those that were refused without a write. KEY may
be empty.
"""

import sys
import time
from typing import NamedTuple

import anyio
import orjson

from factmem.encryption import Aes256GCMEncryptor
from factmem.errors import StorageError, UnknownOutcomeError
from factmem.models.facts import Concept, FactType, MultipleFacts
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.postgres import PostgresMemoryProvider

THINGS = Concept("things", "Things", FactType.MULTIPLE)
PERSON = MemorySubject("person", "", 1, per_entity=True)
APP = MemoryScope.Product("app")
USERS = 4
TASKS = 8


class Told(NamedTuple):
    """What became of the saves of one process, as pairs of user and value."""

    acknowledged: list[tuple[str, str]]
    unknown: list[tuple[str, str]]
    refused: list[tuple[str, str]]


async def run(dsn: str, store: str, name: str, seconds: float, key: str) -> Told:
    """Save with several tasks, to all users in turn."""
    told = Told([], [], [])
    encryption = Aes256GCMEncryptor(key) if key else None

    async def save(task: int, end: float) -> None:
        number = 0
        while time.monotonic() < end:
            each = (f"u{number % USERS}", f"{name}-{task}-{number}")
            number += 1
            try:
                await provider.save(MultipleFacts(THINGS, [each[1]]), PERSON.of(each[0]), APP)
            except UnknownOutcomeError:
                told.unknown.append(each)
            except StorageError:
                told.refused.append(each)
            else:
                told.acknowledged.append(each)

    async with PostgresMemoryProvider(dsn, store=store, encryption=encryption) as provider:
        first = MultipleFacts(THINGS, [f"{name}-first"])
        await provider.save(first, PERSON.of("u0"), APP)
        told.acknowledged.append(("u0", first.values[0]))
        print("saving", flush=True)
        async with anyio.create_task_group() as group:
            for task in range(TASKS):
                group.start_soon(save, task, time.monotonic() + seconds)
    return told


if __name__ == "__main__":
    _dsn, _store, _name, _seconds, _key = sys.argv[1:]
    _told = anyio.run(run, _dsn, _store, _name, float(_seconds), _key)
    print(orjson.dumps(list(_told)).decode())
