"""A store opens with its own key and mode, or raises a clear error; it never looks empty.

`factmem.json` says how a store is kept and holds its wrapped key ring.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from factmem.errors import (
    CorruptJournalError,
    FactmemError,
    KeyRequiredError,
    StorageError,
    TamperedError,
    WrongKeyError,
)
from factmem.storage.base import Storage
from factmem.storage.encrypted import EncryptedStorage
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.storage.encryption.key import Key
from factmem.storage.simple import SimpleStorage
from tests.storage.disk_model import Image
from tests.storage.memory_disk import MemoryDisk
from tests.storage.stores import ANN, KEYS, PLAIN, SEALED, Kind, append, read, record, texts
from tests.storage.tampering import sample
from tests.tables import table

KINDS = pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=lambda kind: kind.name)

_ENCRYPTED = EncryptedStorage(Aes256GCMEncryptor(KEYS[0]))
_PHRASE = "correct horse"
_NAMED = r"factmem\.json"


def _manifest(kind: Kind) -> bytes:
    manifest = sample(kind).image["factmem.json"]
    assert manifest is not None
    return manifest


def _with_manifest(kind: Kind, manifest: bytes) -> Image:
    return Image({**sample(kind).image, "factmem.json": manifest})


def _refusal(kind: Kind, image: Image) -> FactmemError:
    """Return the errors of reading and writing, after a check that nothing changed."""
    disk = MemoryDisk(image)
    before = disk.image()
    with pytest.raises(FactmemError) as reading:
        read(kind.open(disk), ANN)
    with pytest.raises(type(reading.value)):
        append(kind.open(disk), ANN, record(1000))
    with pytest.raises(type(reading.value)):
        kind.open(disk).names()
    with pytest.raises(type(reading.value)):
        kind.open(disk).exists()
    assert disk.image() == before
    return reading.value


@KINDS
def test_every_damage_to_the_manifest_is_reported(kind: Kind) -> None:
    """With any bit flipped, an error names the file, or the change does not matter."""
    manifest, store = _manifest(kind), sample(kind)
    told: list[FactmemError] = []
    for at in range(len(manifest)):
        flipped = bytes([manifest[at] ^ (1 << at % 8)])
        image = _with_manifest(kind, manifest[:at] + flipped + manifest[at + 1 :])
        try:
            found = texts(read(kind.open(MemoryDisk(image)), ANN))
        except FactmemError as exc:
            told.append(exc)
            if at % 8 == 0:
                _refusal(kind, image)
        else:
            assert found == store.expected[ANN]

    assert all("factmem.json" in str(exc) for exc in told)
    counter = len('"made":64,')
    assert len(told) >= (len(manifest) - counter if kind.is_sealed else len(manifest) / 2)


@KINDS
def test_a_manifest_cut_anywhere_is_reported(kind: Kind) -> None:
    """Writers replace it only as a whole."""
    manifest = _manifest(kind)

    for at in range(len(manifest) - 1):
        with pytest.raises(CorruptJournalError, match=_NAMED):
            read(kind.open(MemoryDisk(_with_manifest(kind, manifest[:at]))), ANN)


@KINDS
def test_a_store_without_its_manifest_is_not_an_empty_one(kind: Kind) -> None:
    """Nothing is created over journals whose key ring is missing."""
    image = Image(sample(kind).image)
    del image["factmem.json"]

    told = _refusal(kind, image)

    assert isinstance(told, CorruptJournalError)
    assert "restore" in str(told)


def test_a_manifest_of_another_store_is_reported() -> None:
    """It has another key ring, whatever key opens it."""
    other = MemoryDisk()
    append(SEALED.open(other), ANN, record(1))
    manifest = other.content("factmem.json")
    assert manifest is not None
    store = sample(SEALED)
    disk = MemoryDisk(_with_manifest(SEALED, manifest))

    with pytest.raises(TamperedError, match=r"\.fmj"):
        SEALED.open(disk).names()

    disk.put("factmem.json", _manifest(SEALED))
    assert texts(read(SEALED.open(disk), ANN)) == store.expected[ANN]


# Key slots


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store that a passphrase opens."""
    folder = tmp_path_factory.mktemp("locked") / "store"
    append(_phrase().open(folder), ANN, record(1))
    return folder


def _phrase() -> Storage:
    return EncryptedStorage(Aes256GCMEncryptor(Key.from_passphrase(_PHRASE, cost="interactive")))


def _copy(store: Path, folder: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    """Return a copy of a store with another first key slot."""
    shutil.copytree(store, folder)
    manifest = json.loads((folder / "factmem.json").read_bytes())
    edit(manifest["slots"][0])
    (folder / "factmem.json").write_text(json.dumps(manifest))
    return folder


def _set(*path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def edit(slot: dict[str, Any]) -> None:
        for part in path[:-1]:
            slot = slot[part]
        slot[path[-1]] = value

    return edit


def _move_wrap(slot: dict[str, Any]) -> None:
    slot["wrap"] = slot["wrap"][4:8] + slot["wrap"][:4] + slot["wrap"][8:]


_OTHER_SALT = "AAAAAAAAAAAAAAAAAAAAAA=="

_EDITS: dict[str, tuple[Callable[[dict[str, Any]], None], type[FactmemError]]] = {
    "another kid": (_set("kid", value="0" * 16), WrongKeyError),
    "a kid that is not ASCII": (_set("kid", value="\u00e9"), WrongKeyError),
    "no kid": (lambda slot: slot.pop("kid"), TamperedError),
    "a kid of another type": (_set("kid", value=7), TamperedError),
    "another wrap": (_move_wrap, TamperedError),
    "a short wrap": (_set("wrap", value="AAAA"), TamperedError),
    "a wrap that is not base64": (_set("wrap", value="?"), TamperedError),
    "an empty wrap": (_set("wrap", value=""), TamperedError),
    "no wrap": (lambda slot: slot.pop("wrap"), TamperedError),
    "another salt": (_set("kdf", "salt", value=_OTHER_SALT), WrongKeyError),
    "no salt": (lambda slot: slot["kdf"].pop("salt"), TamperedError),
    "a salt that is not base64": (_set("kdf", "salt", value="?"), TamperedError),
    "a short salt": (_set("kdf", "salt", value="AAAA"), TamperedError),
    "another kind of derivation": (_set("kdf", "name", value="scrypt"), TamperedError),
    "other passes": (_set("kdf", "t", value=1), WrongKeyError),
    "no passes": (_set("kdf", "t", value=0), TamperedError),
    "very many passes": (_set("kdf", "t", value=1 << 20), TamperedError),
    "a fraction of a pass": (_set("kdf", "t", value=1.5), TamperedError),
    "passes as a text": (_set("kdf", "t", value="2"), TamperedError),
    "passes that are true": (_set("kdf", "t", value=True), TamperedError),
    "other memory": (_set("kdf", "m", value=19_000), WrongKeyError),
    "too little memory": (_set("kdf", "m", value=4), TamperedError),
    "very much memory": (_set("kdf", "m", value=1 << 40), TamperedError),
    "very many lanes": (_set("kdf", "p", value=1 << 10), TamperedError),
    "no lanes": (_set("kdf", "p", value=0), TamperedError),
    "no derivation": (lambda slot: slot.pop("kdf"), WrongKeyError),
    "a derivation that is none": (_set("kdf", value=[1]), TamperedError),
}


@pytest.mark.parametrize("edit", _EDITS)
def test_an_edited_key_slot_is_reported(edit: str, locked: Path, tmp_path: Path) -> None:
    """For any parameters the error comes within a second, and nothing changes."""
    change, expected = _EDITS[edit]
    folder = _copy(locked, tmp_path / "store", change)
    before = _bytes(folder)

    with pytest.raises(expected, match=_NAMED) as caught:
        read(_phrase().open(folder), ANN)
    with pytest.raises(expected, match=_NAMED):
        append(_phrase().open(folder), ANN, record(2))

    assert _PHRASE not in str(caught.value)
    assert _bytes(folder) == before


@table("slots", [None, 7, "slots", {}, [7], [[]], [{}], [None]], ids=repr)
def test_malformed_slots_are_reported(slots: object) -> None:
    """The error is not a KeyError."""
    manifest = {**json.loads(_manifest(SEALED)), "slots": slots}

    told = _refusal(SEALED, _with_manifest(SEALED, json.dumps(manifest).encode()))

    assert isinstance(told, TamperedError)


def test_a_manifest_without_slots_is_a_wrong_key() -> None:
    """No key fits."""
    manifest = {**json.loads(_manifest(SEALED)), "slots": []}

    told = _refusal(SEALED, _with_manifest(SEALED, json.dumps(manifest).encode()))

    assert isinstance(told, WrongKeyError)


# Keys and modes


def test_no_wrong_key_opens_a_store(tmp_path: Path) -> None:
    """File names come from the key ring, so a wrong key must not look like an empty store."""
    folder = tmp_path / "store"
    append(_ENCRYPTED.open(folder), ANN, record(1))
    before = _bytes(folder)

    for _ in range(256):
        wrong = EncryptedStorage(Aes256GCMEncryptor(Key.generate())).open(folder)
        with pytest.raises(WrongKeyError, match=_NAMED):
            read(wrong, ANN)
        with pytest.raises(WrongKeyError, match=_NAMED):
            append(wrong, ANN, record(2))
        with pytest.raises(WrongKeyError, match=_NAMED):
            wrong.names()
        with pytest.raises(WrongKeyError, match=_NAMED):
            wrong.anchor()
        assert not wrong.is_current(ANN, None)

    assert _bytes(folder) == before


def test_a_wrong_passphrase_is_a_wrong_key(locked: Path) -> None:
    """The error does not say which of them is wrong."""
    key = Key.from_passphrase("incorrect horse", cost="interactive")

    with pytest.raises(WrongKeyError) as caught:
        read(EncryptedStorage(Aes256GCMEncryptor(key)).open(locked), ANN)

    assert "horse" not in str(caught.value)


@pytest.mark.parametrize(
    ("made", "opened", "expected"),
    [
        (_ENCRYPTED, SimpleStorage(), KeyRequiredError),
        (SimpleStorage(), _ENCRYPTED, TamperedError),
    ],
    ids=["encrypted opened as plain", "plain opened as encrypted"],
)
def test_a_store_opens_only_in_its_own_mode(
    made: Storage, opened: Storage, expected: type[FactmemError], tmp_path: Path
) -> None:
    """The mode is set when a store is created, and never guessed."""
    folder = tmp_path / "store"
    append(made.open(folder), ANN, record(1))
    before = _bytes(folder)
    journals = opened.open(folder)

    with pytest.raises(expected, match=_NAMED):
        read(journals, ANN)
    with pytest.raises(expected, match=_NAMED):
        append(journals, ANN, record(2))
    with pytest.raises(expected, match=_NAMED):
        journals.names()

    assert _bytes(folder) == before
    assert texts(read(made.open(folder), ANN)) == [record(1)]


@KINDS
def test_an_encrypted_store_ignores_plain_journals(kind: Kind) -> None:
    """A plain file in the folder of journals is not listed, read or changed."""
    store, other = sample(kind), sample(SEALED if kind is PLAIN else PLAIN)
    disk = store.disk({**store.files, **other.files})

    assert set(kind.open(disk).names()) == set(store.expected)
    append(kind.open(disk), ANN, record(500))

    assert {name: disk.files()[name] for name in other.files} == other.files


@KINDS
def test_a_newer_version_raises(kind: Kind) -> None:
    """This is not damage: a newer version can read it."""
    manifest = {**json.loads(_manifest(kind)), "factmem": 3}

    told = _refusal(kind, _with_manifest(kind, json.dumps(manifest).encode()))

    assert type(told) is StorageError
    assert "upgrade" in str(told)


# Older keys


def test_a_file_of_an_older_key_is_reported() -> None:
    """After a rotation an older file no longer belongs to the store."""
    store = sample(SEALED)
    disk = store.disk(store.files)
    folder = SEALED.open(disk)
    assert folder.keys is not None
    folder.keys.rotate(Aes256GCMEncryptor(KEYS[1]))

    disk.put(f"journals/{store.ann}", store.files[store.ann])
    before = disk.image()

    with pytest.raises(TamperedError, match=store.ann) as caught:
        read(SEALED.open(disk), ANN)
    assert "a key that this store no longer has" in str(caught.value)
    with pytest.raises(TamperedError, match=store.ann):
        append(SEALED.open(disk), ANN, record(2))
    assert disk.image() == before


def test_an_older_manifest_does_not_open_newer_files() -> None:
    """If restored, the old key opens it, and it opens no file under the new one."""
    store = sample(SEALED)
    disk = store.disk(store.files)
    folder = SEALED.open(disk)
    assert folder.keys is not None
    folder.keys.rotate(Aes256GCMEncryptor(KEYS[1]))

    disk.put("factmem.json", _manifest(SEALED))

    with pytest.raises(TamperedError, match=store.ann):
        read(SEALED.open(disk), ANN)


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}
