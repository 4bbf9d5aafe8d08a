"""The short form of the storm of rotations."""

from pathlib import Path

import pytest

from tests.storms.rotation_storm import rotation_storm

pytestmark = pytest.mark.storm


def test_rotations_lose_nothing_and_shut_out_every_older_key(
    tmp_path: Path, thorough: bool
) -> None:
    """Whichever process is killed, and whenever; an older copy of the store is reported afterwards."""
    rotations = 10 if thorough else 5
    outcome, storm = rotation_storm(tmp_path / "store", rotations)

    assert not outcome.faults, outcome
    assert storm.rotations == rotations
    assert storm.cut_short > 0
    assert outcome.kills > storm.cut_short
    assert outcome.operations > 50
