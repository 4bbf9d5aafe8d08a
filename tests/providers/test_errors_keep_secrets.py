"""Errors contain no fact: no value, no key, and no name of an encrypted store.

Messages about a plain store may contain the names of its places.
"""

import os
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from factmem.encryption.key import Key
from factmem.errors import FactmemError
from factmem.models.facts import Concept, FactSource, SingleFact, SourceKind
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage, Storage
from tests.providers.local_stores import KEY, run, sealed

VALUES = ["the safe opens with 4711", "she said four-seven-one-one", "chat-of-tuesday"]
NAMES = ["mincemeat", "capulet", "confidant", "combination"]
CONCEPT = Concept(NAMES[3], "How the safe is opened, says the butler")
PERSON = MemorySubject(NAMES[2], "Somebody who is trusted", 1, per_entity=True)
SUBJECT, OTHER = PERSON.of(NAMES[1]), PERSON.of(f"{NAMES[1]} the younger")
SCOPE = MemoryScope.Product(NAMES[0])

Damage = Callable[[Path], None]


def flipped(at: float) -> Damage:
    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[int(at * (len(content) - 1))] ^= 1
        path.write_bytes(content)

    return flip


def cut(share: float) -> Damage:
    return lambda path: os.truncate(path, int(share * path.stat().st_size))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def nonsense(path: Path) -> None:
    path.write_bytes(f'{{"factmem":1,"place":["{VALUES[0]}"],"value":"{VALUES[0]}"}}\n'.encode())


def by_sql(statement: str) -> Damage:
    def damage(path: Path) -> None:
        run(path.parent, statement)

    return damage


DAMAGES: dict[str, Damage] = {
    **{f"flipped at {share}": flipped(share) for share in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)},
    **{f"cut at {share}": cut(share) for share in (0.0, 0.3, 0.7)},
    "a pipe": pipe,
    "nonsense": nonsense,
    "a line gone": by_sql("DELETE FROM entries WHERE number = 2"),
    "lines changed": by_sql("UPDATE entries SET line = CAST(replace(line, '1', '2') AS BLOB)"),
    "lines that are no JSON": by_sql("UPDATE entries SET line = CAST(hex(line) AS BLOB)"),
    "lines without bytes": by_sql("UPDATE entries SET line = x''"),
    "names changed": by_sql("UPDATE places SET names = CAST(hex(names) AS BLOB)"),
    "no names": by_sql("UPDATE places SET names = x''"),
    "ends changed": by_sql("UPDATE places SET last = last + 1, tail = names, bytes = bytes + 1"),
    "data keys changed": by_sql("UPDATE places SET data_key = CAST(hex(data_key) AS BLOB)"),
    "the store changed": by_sql("UPDATE stores SET slots = '[{}]', id = hex(name)"),
    "no store": by_sql("DELETE FROM stores"),
    "swapped": by_sql("UPDATE entries SET line = (SELECT line FROM entries ORDER BY random())"),
    "gone": Path.unlink,
}

LATER = {f"flipped at {share}" for share in (0.2, 0.4, 0.8)} | {"cut at 0.3"}
"""Damage that a storm adds."""

CALLS: list[Callable[[LocalFileMemoryProvider, str], Awaitable[object]]] = [
    lambda store, _: store.load(CONCEPT, SUBJECT, SCOPE),
    lambda store, _: store.load(_AS_NUMBER, SUBJECT, SCOPE),
    lambda store, _: store.load_all(SUBJECT, SCOPE),
    lambda store, _: store.load_by_description("safe", SUBJECT, SCOPE),
    lambda store, _: store.history(CONCEPT, SUBJECT, SCOPE),
    lambda store, _: store.entries(SUBJECT, SCOPE),
    lambda store, _: store.places(),
    lambda store, _: store.anchor(),
    lambda store, anchor: store.verify(anchor),
    lambda store, _: store.forget(SUBJECT, SCOPE, concept=CONCEPT, value=VALUES[1]),
    lambda store, _: store.save(_fact(VALUES[0]), SUBJECT, SCOPE),
    lambda store, _: store.compact(SUBJECT, SCOPE),
    lambda store, _: store.forget(SUBJECT, SCOPE, concept=CONCEPT, purge=True),
    lambda store, _: store.erase(SUBJECT, SCOPE),
]

_AS_NUMBER: Concept[Any, Any] = Concept(CONCEPT.keyword, CONCEPT.description, value_type=int)


def _fact(value: str) -> SingleFact:
    said = FactSource(SourceKind.USER, conversation=VALUES[2], message=0, quote=VALUES[1])
    return SingleFact(CONCEPT, value, source=said)


def logged(exc: BaseException) -> str:
    """Return the lines of a log with the whole chain, without the lines of this file."""
    frames = traceback.TracebackException.from_exception(exc)
    here: traceback.TracebackException | None = frames
    while here is not None:
        here.stack = traceback.StackSummary.from_list(
            [frame for frame in here.stack if frame.filename != __file__]
        )
        here = here.__cause__ or here.__context__
    return "".join(frames.format(chain=True)) + repr(exc)


async def made(root: Path, storage: Storage) -> str:
    """Make a store with history and two places, and return its anchor."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        for value in (*VALUES, VALUES[0]):
            await store.save(_fact(value), SUBJECT, SCOPE)
            await store.save(_fact(value), OTHER, SCOPE)
        return await store.anchor()


async def complaints(root: Path, storage: Storage, anchor: str) -> list[str]:
    found: list[str] = []
    for call in CALLS:
        try:
            await call(LocalFileMemoryProvider(root, storage=storage), anchor)
        except FactmemError as exc:
            found.append(logged(exc))
    return found


@pytest.mark.parametrize(
    "what",
    [pytest.param(each, marks=pytest.mark.storm) if each in LATER else each for each in DAMAGES],
)
async def test_no_error_shows_stored_facts(
    root: Path, storage: Storage, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It covers every kind of damage, and every operation after it."""
    caplog.set_level("DEBUG")
    secrets = [*VALUES, KEY.to_base64(), CONCEPT.description]
    if isinstance(storage, EncryptedStorage):
        secrets += NAMES
    anchor = await made(root, storage)
    DAMAGES[what](root / "facts.db")

    found = await complaints(root, storage, anchor)

    assert found or what.startswith("flipped") or "keys" in what, "nothing failed"
    for text in (*found, caplog.text):
        shown = [secret for secret in secrets if secret in text]
        # The expected type is looked up by keyword.
        assert set(shown) <= ({NAMES[3]} if "A stored value of" in text else set()), text


async def test_a_wrong_key_shows_nothing(root: Path) -> None:
    """The error shows neither key and none of the encrypted data."""
    right = sealed()
    anchor = await made(root, right)
    wrong = Key.generate()
    secrets = [*VALUES, *NAMES, KEY.to_base64(), wrong.to_base64()]

    found = await complaints(root, sealed(wrong), anchor)

    assert len(found) == len(CALLS)
    assert not [secret for secret in secrets for text in found if secret in text]
