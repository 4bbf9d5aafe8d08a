"""The short form of the storm of hostile databases."""

from pathlib import Path

import pytest

from tests.storms.hostile import run


@pytest.mark.storm
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
async def test_each_is_refused_or_harmless(tmp_path: Path, *, is_encrypted: bool) -> None:
    """No call swallows, hides, waits for ever, or raises an error of another library."""
    trial = await run(tmp_path, 8, 7, is_encrypted=is_encrypted)

    assert trial.faults == []
    assert trial.refusals.total() > 50
