"""A power cut loses nothing acknowledged and brings back nothing removed; without a sync both are noticed."""

from pathlib import Path

import pytest

from tests.storms.disk_faults.storm import CompilerMissingError
from tests.storms.power_cuts.__main__ import faults_after_cuts, record

CUTS = 8


@pytest.mark.storm
def test_power_cuts(tmp_path: Path) -> None:
    """The syncs of the log keep what was saved, those of the database what was removed."""
    try:
        steps = record(tmp_path, 7, "", operations=80)
    except CompilerMissingError as exc:
        pytest.skip(str(exc))

    assert faults_after_cuts(tmp_path, steps, CUTS, 7, "") == []
    unsafe = faults_after_cuts(tmp_path, steps, CUTS, 7, "", unsynced="facts.db-wal")
    assert any("lost" in fault or "damaged" in fault for fault in unsafe)
    unsafe = faults_after_cuts(tmp_path, steps, CUTS, 7, "", unsynced="facts.db")
    assert any("removed value" in fault or "damaged" in fault for fault in unsafe)
