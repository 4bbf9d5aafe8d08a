"""A journal of a later version is not damaged: it cannot be salvaged."""

from pathlib import Path

import pytest

from factmem.errors import CorruptJournalError, StorageError
from factmem.storage._plain_codec import with_checksum
from factmem.storage.simple import SimpleStorage

NAME = ("product", "my-app", "user", "Ann")


def test_a_journal_of_a_later_version_asks_for_an_upgrade(tmp_path: Path) -> None:
    """Reading, writing, listing and salvaging raise; a salvage would keep nothing."""
    journals = SimpleStorage().open(tmp_path / "store")
    with journals.exclusive() as writer:
        writer.append(NAME, [b'{"v":1}'])
    (file,) = (tmp_path / "store" / "journals").iterdir()
    header = file.read_bytes().partition(b"\n")[0].replace(b'{"factmem":2,', b'{"factmem":3,')
    body, _, _ = header.rpartition(b',"crc"')
    file.write_bytes(with_checksum(body, 0) + b"\nwhatever it is then\n")
    before = file.read_bytes()

    again = SimpleStorage().open(tmp_path / "store")
    with pytest.raises(StorageError, match="newer version of factmem: upgrade") as caught:
        again.read(NAME)
    assert not isinstance(caught.value, CorruptJournalError)
    assert str(file) in str(caught.value)
    with again.exclusive() as writer:
        for call in (
            lambda: writer.append(NAME, [b'{"v":2}']),
            lambda: writer.salvage(NAME),
            lambda: writer.rewrite(NAME, []),
        ):
            with pytest.raises(StorageError, match="newer version"):
                call()
    with pytest.raises(StorageError, match="newer version"):
        again.anchor()

    assert [each.read_bytes() for each in file.parent.iterdir()] == [before]
