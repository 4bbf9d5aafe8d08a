"""Listing a folder's journals from stored names, by page: complete, and without erased names."""

import random
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from factmem.errors import StoreBusyError
from factmem.storage import _listing
from factmem.storage._folder import JournalFolder
from factmem.storage._plain_codec import Codec
from factmem.storage.base import JournalName
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor
from tests.storage.memory_disk import Killed, MemoryDisk
from tests.storage.stores import KEYS, PLAIN, SEALED, Kind, append, record
from tests.tables import table

NAMES: list[JournalName] = [("agent", "support", "user", f"name-{n}") for n in range(12)]
NEW: JournalName = ("agent", "support", "user", "new")
GONE = NAMES[3]

kinds = pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=lambda kind: kind.name)


@pytest.fixture(autouse=True)
def _kept_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store names of few journals, all of them in one file."""
    monkeypatch.setattr(_listing, "_WORTH_KEEPING", 1)
    monkeypatch.setattr(_listing, "shard_of", lambda codec, file: "aa")


KEPT = "indexes/aa.names"


def _all(disk: MemoryDisk) -> bytes:
    return b"".join(content or b"" for content in disk.image().values())


def _kept(disk: MemoryDisk) -> bytes:
    content = disk.content(KEPT)
    assert content is not None
    return content


def _filled(kind: Kind) -> MemoryDisk:
    disk = MemoryDisk()
    folder = kind.open(disk)
    for name in NAMES:
        append(folder, name, record(1))
    return disk


def _erase(folder: JournalFolder, name: JournalName) -> None:
    with folder.exclusive() as writer:
        writer.erase(name)


def _opened(monkeypatch: pytest.MonkeyPatch, folder: JournalFolder) -> list[str]:
    """Record the files whose names are read from now on."""
    opened: list[str] = []
    read: Callable[..., JournalName | None] = folder.reader.name_in

    def noted(codec: Codec, file: str) -> JournalName | None:
        opened.append(file)
        return read(codec, file)

    monkeypatch.setattr(folder.reader, "name_in", noted)
    return opened


@kinds
def test_names_are_read_once_for_all_processes(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new process opens only journals that were not listed before."""
    disk = _filled(kind)
    assert kind.open(disk).names() == sorted(NAMES)
    folder = kind.open(disk)
    opened = _opened(monkeypatch, folder)

    assert folder.names() == sorted(NAMES)
    assert opened == []

    append(kind.open(disk), NEW, record(1))
    assert folder.names() == sorted([*NAMES, NEW])
    assert len(opened) == 1


@kinds
@table("damage", [b"", b"nonsense", None])
def test_a_damaged_file_of_names_hides_no_journal(kind: Kind, damage: bytes | None) -> None:
    """It is written again."""
    disk = _filled(kind)
    kind.open(disk).names()
    whole = _kept(disk)
    disk.put(KEPT, whole[:-3] if damage is None else damage)

    assert kind.open(disk).names() == sorted(NAMES)
    assert len(_kept(disk)) == len(whole)


@kinds
def test_files_decide_which_journals_exist(kind: Kind) -> None:
    """A journal whose file another program removed is not listed."""
    disk = _filled(kind)
    folder = kind.open(disk)
    folder.names()
    codec = folder.codec()
    assert codec is not None

    disk.remove(f"journals/{codec.file_name(GONE)}")

    assert kind.open(disk).names() == sorted(set(NAMES) - {GONE})


@kinds
def test_an_erased_name_is_not_stored(kind: Kind) -> None:
    """It is neither in the file nor in a leftover of a killed process."""
    disk = _filled(kind)
    folder = kind.open(disk)
    folder.names()
    disk.put(f"{KEPT}.tmp", _kept(disk))

    _erase(kind.open(disk), GONE)

    assert not [name for name in disk.image() if ".names" in name]
    assert folder.names() == sorted(set(NAMES) - {GONE})
    assert b"name-3" not in _all(disk)


def test_a_listing_before_an_erasure_does_not_store_the_name_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Existence is checked under the lock."""
    disk = _filled(PLAIN)
    lister = PLAIN.open(disk)
    keep = lister._listing._keep

    def erased_first(shard: str, names: dict[str, JournalName]) -> bool:
        _erase(PLAIN.open(disk), GONE)
        return keep(shard, names)

    monkeypatch.setattr(lister._listing, "_keep", erased_first)

    lister.names()

    assert b"name-1" in _kept(disk)
    assert b"name-3" not in _kept(disk)


@kinds
def test_the_next_call_completes_an_erasure_that_was_killed(kind: Kind) -> None:
    """No name remains, even after a power cut at that moment."""
    disk = _filled(kind)
    kind.open(disk).names()
    start, at = disk.image(), 0
    while True:
        at += 1
        disk = MemoryDisk(start)
        disk.kill_at = at
        try:
            _erase(kind.open(disk), GONE)
            break
        except Killed:
            disk.revive()
        _erase(kind.open(disk), GONE)
        for image in disk.images(random.Random(at), 5):
            left = MemoryDisk(image)
            assert b"name-3" not in _all(left)
            assert kind.open(left).names() == sorted(set(NAMES) - {GONE})
    assert at > 5


@kinds
def test_a_kill_while_names_are_stored_hides_nothing(kind: Kind) -> None:
    """The next listing is complete."""
    disk = _filled(kind)
    start, at = disk.image(), 0
    while True:
        at += 1
        disk = MemoryDisk(start)
        disk.kill_at = at
        try:
            kind.open(disk).names()
            break
        except Killed:
            disk.revive()
        assert kind.open(disk).names() == sorted(NAMES)
    assert at > 3


def test_a_rotation_removes_names_under_the_old_key() -> None:
    """They are stored again under the new one."""
    disk = _filled(SEALED)
    folder = SEALED.open(disk, [KEYS[0]])
    folder.names()
    before = _kept(disk)
    assert folder.keys is not None

    folder.keys.rotate(Aes256GCMEncryptor(KEYS[1]))

    assert disk.content(KEPT) is None
    assert SEALED.open(disk, [KEYS[1]]).names() == sorted(NAMES)
    assert _kept(disk) != before


def test_names_of_an_encrypted_store_are_encrypted() -> None:
    """Journals encrypt them too."""
    disk = _filled(SEALED)
    SEALED.open(disk).names()

    assert b"name-" not in _kept(disk)


def test_a_read_only_folder_can_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing needs no lock."""
    disk = _filled(PLAIN)

    def refuse(name: str) -> int:
        raise PermissionError(13, "not allowed", name)

    monkeypatch.setattr(disk, "create", refuse)

    assert PLAIN.open(disk).names() == sorted(NAMES)


def test_a_busy_lock_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing waits for it no longer than an index does."""
    monkeypatch.setattr(_listing, "shard_of", lambda codec, file: file[-7])
    asked: list[object] = []

    def busy() -> AbstractContextManager[None]:
        asked.append(None)
        raise StoreBusyError("held")

    folder = PLAIN.open(_filled(PLAIN))
    monkeypatch.setattr(folder._listing, "_exclusive", busy)

    assert folder.names() == sorted(NAMES)
    assert len(asked) == 1


@kinds
@table("limit", [1, 5, 12, 100])
def test_pages_have_each_journal_once(kind: Kind, limit: int) -> None:
    """The last one of a page may be erased in the meantime."""
    folder = kind.open(_filled(kind))
    found: list[JournalName] = []
    after: JournalName | None = None
    while page := folder.page(after, limit):
        assert len(page) <= limit
        found += page
        after = page[-1]
        if after == GONE:
            _erase(folder, GONE)

    assert sorted(found) == sorted(NAMES)


def test_operations_on_all_journals_hold_one_page_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """This covers anchor, verify and rotation, and their progress."""
    monkeypatch.setattr(_listing, "PAGE", 5)
    pages: list[int] = []
    page_of_files = _listing.page_of_files

    def counted(*arguments: object) -> list[str]:
        page = page_of_files(*arguments)  # type: ignore[arg-type]
        pages.append(len(page))
        return page

    monkeypatch.setattr(_listing, "page_of_files", counted)
    disk = _filled(SEALED)
    folder = SEALED.open(disk, [KEYS[0]])
    assert folder.keys is not None
    told: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        told.append((done, total))

    anchor = folder.anchor(progress)
    assert folder.verify(anchor, progress) == []
    folder.keys.rotate(Aes256GCMEncryptor(KEYS[1]), progress=progress)

    assert told == [(done, 12) for done in range(1, 13)] * 3
    assert max(pages) == 5
    assert SEALED.open(disk, [KEYS[1]]).verify(anchor) == []
