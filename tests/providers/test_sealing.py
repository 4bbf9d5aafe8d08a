"""What is sealed in an encrypted store: fresh nonces and keys, and what sizes reveal."""

import json
import os
from pathlib import Path

import pytest

from factmem import Key
from factmem.errors import TamperedError
from factmem.providers._sql import sealed
from factmem.providers._sql.sealed import KeyRing, RingSealing
from factmem.providers._sql.sealing import NO_TAG, _CheckedLines
from factmem.testing._facts import AGENT, PERSON, languages, theme
from tests.providers.local_stores import ALICE, BOB, opened, run

STORE = "00" * 16
PLACE = bytes(16)


@pytest.mark.parametrize("count", [50_000, pytest.param(1_000_000, marks=pytest.mark.storm)])
def test_no_nonce_repeats(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Each line draws a nonce of 96 bits from the operating system."""
    nonces: list[bytes] = []

    class Recorder:
        def __init__(self, key: bytes) -> None:
            assert len(key) == 32

        def seal(self, nonce: bytes, data: bytes, aad: bytes) -> bytes:
            nonces.append(nonce)
            return bytes(48)

        def open(self, nonce: bytes, sealed: bytes, aad: bytes) -> bytes:
            return os.urandom(32)

    monkeypatch.setattr(sealed, "Aead", Recorder)
    ring = RingSealing(STORE, KeyRing.new("default"))
    sealer = ring.sealer(PLACE, ring.new_data_key(PLACE))
    nonces.clear()
    for number in range(count):
        sealer.seal(number, 0, NO_TAG, b"{}")

    assert len(nonces) == len(set(nonces)) == count
    assert {len(nonce) for nonce in nonces} == {12}


def test_every_place_has_its_own_key() -> None:
    """A line of one place does not open in another one, nor after the place was made again."""
    ring = RingSealing(STORE, KeyRing.new("default"))
    keys = [ring.new_data_key(place) for place in (PLACE, PLACE, b"x" * 16)]
    line = ring.sealer(PLACE, keys[0]).seal(1, 0, NO_TAG, b"{}")

    assert ring.sealer(PLACE, keys[0]).open(1, 0, NO_TAG, line) == b"{}"
    assert len(set(keys)) == 3
    with pytest.raises(TamperedError):
        ring.sealer(PLACE, keys[1]).open(1, 0, NO_TAG, line)
    with pytest.raises(TamperedError):
        ring.sealer(PLACE, keys[2])


async def test_a_rewritten_place_has_a_new_key(root: Path) -> None:
    """What was purged does not open with the key in the newest row."""
    store = opened(root, Key.generate())
    await store.save_many([theme("dark"), languages("java", "c")], ALICE, AGENT)
    await store.save(theme("light"), ALICE, AGENT)
    await store.save(theme("dark"), BOB, AGENT)
    before = dict(run(root, "SELECT place, data_key FROM places"))

    await store.forget(ALICE, AGENT, concept=languages("").concept, value="c", purge=True)

    after = dict(run(root, "SELECT place, data_key FROM places"))
    assert after.keys() == before.keys()
    assert sum(after[place] != before[place] for place in before) == 1


async def test_names_are_keyed_hashes(root: Path) -> None:
    """The same place has other keys in another store, under the same key and the same name."""
    key = Key.generate()
    seen: set[bytes] = set()
    for name in ("one", "two"):
        store = opened(root / name, key)
        for number in range(3):
            await store.save(theme("dark"), PERSON.of(f"p{number}"), AGENT)
        for row in run(root / name, "SELECT place, subject FROM places"):
            seen.update(row)
    assert len(seen) == 12


async def test_sizes_reveal_little(root: Path) -> None:
    """Lines and names are padded to 64 bytes."""
    store = opened(root, Key.generate())
    for size in range(0, 200, 7):
        await store.save(theme("x" * size), PERSON.of("p" * (1 + size % 60)), AGENT)

    sizes = {size for (size,) in run(root, "SELECT length(line) FROM entries")}
    names = {size for (size,) in run(root, "SELECT length(names) FROM places")}

    assert len(sizes) <= 5
    assert all((size - 28) % 64 == 0 for size in sizes | names)


@pytest.mark.parametrize("line", [b"{}", b'{"facts":[]}'])
def test_a_checksum_is_a_field_of_its_line(line: bytes) -> None:
    """Any tool reads the line, also one without another field."""
    sealer = _CheckedLines(b"place")

    stored = sealer.seal(1, 2, b"", line)

    assert json.loads(stored).keys() == {"sum", *json.loads(line)}
    assert sealer.open(1, 2, b"", stored) == line
