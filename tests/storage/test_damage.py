"""Damage to a journal's file, by accident or on purpose, is reported and never ignored.

That the last line is damaged, or gone, cannot be told from a save that the power cut short; an
anchor that was kept elsewhere tells that too.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from factmem.errors import (
    CorruptJournalError,
    StorageError,
    TamperedError,
)
from factmem.storage.encrypted import EncryptedStorage
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.storage.simple import SimpleStorage
from tests.storage.memory_disk import MemoryDisk
from tests.storage.stores import ANN, BOB, KEYS, PLAIN, SEALED, Kind, append, followed, read, texts
from tests.storage.stores import record as text_of
from tests.storage.tampering import FORGERIES, TAMPERINGS, Sample, sample, verdict
from tests.tables import table

KINDS = pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=lambda kind: kind.name)


@KINDS
@pytest.mark.parametrize("what", TAMPERINGS)
def test_damage_is_reported_and_not_changed(kind: Kind, what: str, stride: int) -> None:
    """Reads and writes raise an error that names the file; no byte changes."""
    store = sample(kind)

    verdicts = [
        verdict(store, store.disk(files)) for files in list(TAMPERINGS[what](store))[::stride]
    ]

    assert set(verdicts) == {"told"}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_forgery_is_reported_in_an_encrypted_store(what: str) -> None:
    """Genuine lines in a wrong combination are not genuine."""
    store = sample(SEALED)

    verdicts = [verdict(store, store.disk(files)) for files in FORGERIES[what](store)]

    assert set(verdicts) == {"told"}


@KINDS
def test_added_bytes_are_harmless_or_reported(kind: Kind, stride: int) -> None:
    """No record is invented."""
    store = sample(kind)
    content, lines = store.files[store.ann], store.lines()
    last = content.rindex(b"\n", 0, -1) + 1

    added = [content[:at] + b"7" + content[at:] for at in range(last)]
    added += [b"\n".join([*lines[:at], b'{"n":99,"v":1}', *lines[at:], b""]) for at in range(12)]
    verdicts = [verdict(store, store.disk(store.with_content(each))) for each in added[::stride]]

    assert set(verdicts) <= {"told", "right"}
    assert verdicts.count("told") > len(verdicts) / 2


@KINDS
def test_other_journals_stay_available(kind: Kind) -> None:
    """A damaged file affects only its own place."""
    store = sample(kind)
    folder = kind.open(store.disk(store.with_content(store.files[store.ann][40:])))

    append(folder, BOB, text_of(200))

    assert texts(read(folder, BOB)) == [*store.expected[BOB], text_of(200)]
    with pytest.raises((CorruptJournalError, TamperedError), match=store.ann):
        read(folder, ANN)


@KINDS
def test_a_file_cut_under_a_reader_is_reported(kind: Kind) -> None:
    """A process that had read further does not treat the shorter file as a new state."""
    store = sample(kind)
    disk = store.disk(store.files)
    folder = kind.open(disk)
    records, position = followed(folder, ANN, [], None)
    content = store.files[store.ann]

    disk.put(f"journals/{store.ann}", content[: content.rindex(b"\n", 0, -1) + 1])

    with pytest.raises((CorruptJournalError, TamperedError), match=store.ann):
        followed(folder, ANN, records, position)


@KINDS
def test_a_link_instead_of_a_journal_is_not_followed(kind: Kind, tmp_path: Path) -> None:
    """A store never reads or writes another file through a link."""
    storage = EncryptedStorage(Aes256GCMEncryptor(KEYS[0])) if kind.is_sealed else SimpleStorage()
    journals = storage.open(tmp_path / "store")
    append(journals, ANN, text_of(1))
    (file,) = (tmp_path / "store" / "journals").iterdir()
    elsewhere = file.rename(tmp_path / "elsewhere")
    file.symlink_to(elsewhere)
    before = elsewhere.read_bytes()

    with pytest.raises(StorageError, match=file.name):
        read(journals, ANN)
    with pytest.raises(StorageError, match=file.name):
        append(journals, ANN, text_of(2))

    assert elsewhere.read_bytes() == before


# Anchors


def _verdict_of_anchor(sample: Sample, disk: MemoryDisk, anchor: str) -> str:
    try:
        sample.kind.open(disk).verify(anchor)
    except TamperedError as exc:
        assert sample.kind.is_sealed
        return str(exc)
    except CorruptJournalError as exc:
        return str(exc)
    return "right"


@KINDS
def test_an_anchor_stays_valid(kind: Kind) -> None:
    """Saves, rewrites, new places and new keys after it raise no alarm."""
    store = sample(kind)
    disk = store.disk(store.files)
    folder = kind.open(disk)
    anchor = folder.anchor()

    append(folder, ANN, text_of(300))
    append(folder, ("agent", "support", "user", "Eve"), text_of(301))
    assert _verdict_of_anchor(store, disk, anchor) == "right"
    with folder.exclusive() as writer:
        writer.rewrite(ANN, read(writer, ANN)[3:])
    assert _verdict_of_anchor(store, disk, anchor) == "right"
    if folder.keys is not None:
        folder.keys.rotate(Aes256GCMEncryptor(KEYS[1]))

    assert _verdict_of_anchor(store, disk, anchor) == "right"


@KINDS
def test_an_anchor_detects_a_cut_end(kind: Kind, stride: int) -> None:
    """The cut is at a line's end, where the file alone cannot reveal it, or at any other byte."""
    store = sample(kind)
    anchor = kind.open(store.disk(store.files)).anchor()
    content = store.files[store.ann]
    header = content.index(b"\n") + 1

    for at in range(header, len(content), stride):
        told = _verdict_of_anchor(store, store.disk(store.with_content(content[:at])), anchor)
        assert store.ann in told, at


@KINDS
@table("which", ["the store", "one file", "one file, as long as before"])
def test_an_anchor_detects_a_rollback(kind: Kind, which: str) -> None:
    """The store or a file was replaced by an older copy."""
    store = sample(kind)
    disk = store.disk(store.files)
    folder = kind.open(disk)
    before = disk.files()
    if which == "one file, as long as before":
        with folder.exclusive() as writer:
            writer.rewrite(ANN, read(writer, ANN)[1:])
    else:
        append(folder, ANN, text_of(300))
    anchor = folder.anchor()
    if which == "the store":
        disk = store.disk(before)
    else:
        disk.put(f"journals/{store.ann}", before[store.ann])

    assert store.ann in _verdict_of_anchor(store, disk, anchor)


@KINDS
def test_an_anchor_detects_another_branch_of_history(kind: Kind) -> None:
    """Two copies were both written to: only one is the store of the anchor."""
    store = sample(kind)
    one, other = (store.disk(files) for files in store.branches)
    for disk in (one, other):
        for file in disk.files():
            disk.vouch_for(f"journals/{file}")
    anchor = kind.open(one).anchor()

    assert _verdict_of_anchor(store, one, anchor) == "right"
    assert store.ann in _verdict_of_anchor(store, other, anchor)


@KINDS
def test_an_anchor_detects_an_erased_journal(kind: Kind) -> None:
    """A missing file is not an empty place for a process that read it before."""
    store = sample(kind)
    disk = store.disk(store.files)
    folder = kind.open(disk)
    anchor = folder.anchor()

    with folder.exclusive() as writer:
        writer.erase(ANN)

    assert "gone" in _verdict_of_anchor(store, disk, anchor)


@pytest.mark.parametrize("text", ["", "anchor", "e30=", "eyJhbmNob3IiOjJ9", "ü"])
def test_an_invalid_anchor_raises(text: str) -> None:
    """The error is neither about the store nor about damage."""
    store = sample(PLAIN)

    with pytest.raises(ValueError, match="anchor cannot be read"):
        PLAIN.open(store.disk(store.files)).verify(text)


# Salvage


def _hurt_line(store: Sample, number: int) -> bytes:
    lines = store.lines()
    lines[number] = lines[number].replace(lines[number][30:34], b"####")
    return b"".join(line + b"\n" for line in lines)


@KINDS
@table(
    ("hurt", "missing"),
    [
        (lambda store: _hurt_line(store, 6), 1),
        (lambda store: _hurt_line(store, 2 + store.kind.is_sealed), 1),
        (lambda store: store.files[store.ann][:-1].replace(store.lines()[-2], b"", 1) + b"\n", 1),
    ],
    ids=["a later line", "a line of the rewriting", "an empty line"],
)
def test_salvage_continues_with_readable_records(
    kind: Kind, hurt: Callable[[Sample], bytes], missing: int
) -> None:
    """A copy of the damaged file stays, and the next save has a new number."""
    store = sample(kind)
    damaged = hurt(store)
    disk = store.disk(store.with_content(damaged))
    folder = kind.open(disk)
    last = read(kind.open(store.disk(store.files)), ANN)[-1].number

    with folder.exclusive() as writer:
        done = writer.salvage(ANN)
    append(folder, ANN, text_of(400))

    found = read(kind.open(disk), ANN)
    assert done.missing == missing
    assert done.kept == len(store.expected[ANN]) - missing
    assert [data for data in texts(found)[:-1] if data not in store.expected[ANN]] == []
    assert len(found) == done.kept + 1
    assert found[-1] == (last + 1, text_of(400))
    (copy,) = (each for each in disk.files() if ".damaged-" in each)
    assert done.copy.endswith(copy)
    assert disk.files()[copy] == damaged
    assert kind.open(disk).names() == sorted([ANN, BOB])


@KINDS
def test_salvage_of_a_file_without_a_first_line(kind: Kind) -> None:
    """None of it can be verified: the place starts empty, and the copy keeps the bytes."""
    store = sample(kind)
    damaged = b"?" + store.files[store.ann]
    disk = store.disk(store.with_content(damaged))
    folder = kind.open(disk)

    with folder.exclusive() as writer:
        done = writer.salvage(ANN)
    append(folder, ANN, text_of(400))

    assert done.kept == 0
    assert texts(read(kind.open(disk), ANN)) == [text_of(400)]
    assert damaged in disk.files().values()
