"""The key file: reading it while a writer replaces it and overwrites the previous one."""

from pathlib import Path
from typing import Any

import pytest

from factmem.encryption import KeyFile

STORE = "5f" * 16


def test_a_reader_of_the_previous_file_reads_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys are renewed and the old file is overwritten between its open and its read."""
    path = tmp_path / "factmem.keys"
    slot = KeyFile(path).wrap(b"r" * 32, STORE)
    renewals = [KeyFile(path).renew]
    open_path: Any = Path.open

    def opened(file: Path, *args: Any, **options: Any) -> Any:
        held = open_path(file, *args, **options)
        if renewals:
            renewals.pop()(STORE)
        return held

    monkeypatch.setattr(Path, "open", opened)

    assert KeyFile(path).unwrap([slot], STORE).ring == b"r" * 32
    assert not renewals
