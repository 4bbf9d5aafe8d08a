"""Names are never used as paths: each has its own file, inside the folder."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from factmem.storage._plain_codec import Codec, PlainCodec
from factmem.storage._sealed_codec import SealedCodec
from factmem.storage.base import JournalName, Storage
from factmem.storage.encrypted import EncryptedStorage
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.storage.encryption.ring import KeyRing
from factmem.storage.simple import SimpleStorage
from tests.properties import examples
from tests.storage.memory_disk import MemoryDisk
from tests.storage.stores import KEYS, PLAIN, SEALED, Kind, append, read, record, texts

KINDS = pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=lambda kind: kind.name)
CODECS = pytest.mark.parametrize(
    "codec",
    [PlainCodec(), SealedCodec("00" * 16, KeyRing.new())],
    ids=lambda codec: type(codec).__name__,
)

_AWKWARD = st.sampled_from(
    [
        "",
        ".",
        "..",
        "../..",
        "/",
        "a/b",
        "a\\b",
        "con",
        "NUL.txt",
        "factmem.json",
        "lock",
        "x.jsonl",
        "x.tmp",
        "\x00",
        "\n",
        "caf\u00e9",
        "cafe\u0301",
        "Bob",
        "bob",
        "BOB",
        "\u0130",
        "i\u0307",
        "x" * 200,
        "-",
        "null",
    ]
)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | _AWKWARD
_NAMES = st.lists(_TEXTS | st.none(), min_size=1, max_size=5).map(tuple)


@CODECS
@given(one=_NAMES, other=_NAMES)
@example(one=("a", "bc"), other=("ab", "c"))
@example(one=("a",), other=("a", None))
@example(one=("a", None), other=("a", "null"))
@example(one=("Bob",), other=("bob",))
@example(one=("caf\u00e9",), other=("cafe\u0301",))
@example(one=("a", ""), other=("a",))
def test_different_names_have_different_files(
    codec: Codec, one: JournalName, other: JournalName
) -> None:
    """This holds for file systems that ignore case or normalisation."""
    assert (codec.file_name(one).casefold() == codec.file_name(other).casefold()) == (one == other)


@CODECS
@given(name=_NAMES)
@example(name=("../../etc/passwd",))
@example(name=("x" * 10_000,))
def test_a_file_name_is_portable(codec: Codec, name: JournalName) -> None:
    """It is short, uses few characters that every file system has, and is not a path."""
    file = codec.file_name(name)

    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*\.(jsonl|fmj)", file)
    assert len(file) <= 80


@given(name=_NAMES)
def test_a_sealed_file_name_reveals_nothing(name: JournalName) -> None:
    """It has one length for all names, and differs in every store."""
    one, other = (SealedCodec("00" * 16, KeyRing.new()).file_name(name) for _ in range(2))

    assert one != other
    assert re.fullmatch(r"[0-9a-f]{40}\.fmj", one)


@KINDS
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(names=st.lists(_NAMES, min_size=1, max_size=8, unique=True))
def test_names_are_listed_unchanged(kind: Kind, names: list[JournalName]) -> None:
    """Each has the records saved under it."""
    disk = MemoryDisk()
    for number, name in enumerate(names):
        append(kind.open(disk), name, record(number))

    folder = kind.open(disk)

    assert set(folder.names()) == set(names)
    assert len(folder.names()) == len(names)
    for number, name in enumerate(names):
        assert texts(read(folder, name)) == [record(number)]


@KINDS
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(names=st.lists(_NAMES, min_size=1, max_size=5, unique=True))
def test_no_name_leaves_the_folder(kind: Kind, tmp_path: Path, names: list[JournalName]) -> None:
    """On a real file system nothing is created beside the journals."""
    storage: Storage = SimpleStorage()
    if kind.is_sealed:
        storage = EncryptedStorage(Aes256GCMEncryptor(KEYS[0]))
    journals = storage.open(tmp_path / "above" / "store")
    for name in names:
        append(journals, name, record(1))

    beside = {each.relative_to(tmp_path) for each in tmp_path.rglob("*")}
    inside = {each for each in beside if each.parts[:3] == ("above", "store", "journals")}

    assert {str(each) for each in beside - inside} == {
        "above",
        "above/store",
        "above/store/factmem.json",
        "above/store/lock",
    }
    assert all(len(each.parts) <= 4 for each in inside)
    assert len(inside) == len(set(journals.names())) + 1


@KINDS
@pytest.mark.parametrize("name", [("\ud800",), ("a", "b\udfff")], ids=["high", "low"])
def test_a_name_that_is_not_a_string_raises(kind: Kind, name: JournalName) -> None:
    """A lone surrogate cannot be written; nothing is created for it."""
    disk = MemoryDisk()
    append(kind.open(disk), ("known",), record(1))
    before = disk.image()

    with pytest.raises(ValueError, match="surrogate"):
        append(kind.open(disk), name, record(2))

    assert disk.image() == before


@KINDS
def test_stores_share_no_file_names_and_no_files(kind: Kind) -> None:
    """A sealed journal of one store is not valid in another."""
    one, other = MemoryDisk(), MemoryDisk()
    for disk in (one, other):
        append(kind.open(disk), ("known",), record(1))

    assert (one.files().keys() == other.files().keys()) == (not kind.is_sealed)
