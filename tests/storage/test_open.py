"""Opening the files of a store: their access times stay, and other users' files can be read."""

import os
from pathlib import Path

import pytest

from factmem.storage import _open
from factmem.storage._open import open_safely

needs_flag = pytest.mark.skipif(not _open._UNTIMED, reason="the system has no O_NOATIME")


@needs_flag
def test_reading_does_not_set_the_access_time(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    os.utime(path, ns=(0, 0))  # long ago, so that any other read sets it
    fd = open_safely(str(path), os.O_RDONLY)
    assert os.read(fd, 7) == b"content"
    os.close(fd)
    assert path.stat().st_atime_ns == 0


@needs_flag
def test_a_file_of_another_user_is_opened_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the owner of a file may read it without setting its access time."""
    (tmp_path / "file").write_bytes(b"content")
    opened, tried = os.open, []

    def refusing(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        tried.append(bool(flags & _open._UNTIMED))
        if tried[-1]:
            raise PermissionError(1, "Operation not permitted")
        return opened(name, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refusing)
    folder = opened(tmp_path, os.O_RDONLY)
    fd = open_safely("file", os.O_RDONLY, folder)
    assert os.read(fd, 7) == b"content"
    assert tried == [True, False]
    os.close(fd)
    new = open_safely("new", os.O_RDWR | os.O_CREAT | os.O_EXCL, folder)
    assert tried[2:] == [False]  # a refusal after the file was created would leave it behind
    assert os.fstat(new).st_mode & 0o777 == 0o600
    os.close(new)
    os.close(folder)


def test_a_file_that_may_not_be_opened_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(PermissionError, match="Permission denied") as caught:
        open_safely(str(tmp_path / "file"), os.O_RDONLY)
    assert caught.value.__context__ is None  # its traceback shows one refusal, not two
