"""Power cuts, kills and a failing disk lose nothing acknowledged and bring back nothing removed."""

from argparse import Namespace
from pathlib import Path

import pytest

from tests.storms.disk_faults.storm import CompilerMissingError
from tests.storms.erasures import residue
from tests.storms.power_cuts.__main__ import faults_after_cuts, record

CUTS = 8

pytestmark = pytest.mark.storm


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
    assert any("was removed" in fault or "damaged" in fault for fault in unsafe)


@pytest.mark.parametrize(
    ("encrypted", "is_mutant"),
    [(False, False), (True, False), (True, True)],
    ids=["plain", "encrypted", "a log that is not emptied"],
)
def test_no_piece_of_what_was_removed_is_left(
    tmp_path: Path, *, encrypted: bool, is_mutant: bool
) -> None:
    """Beside a killed process and a failing disk."""
    wanted = Namespace(removals=1, kills=0, faults=0, seed=7, encrypted=encrypted)
    try:
        storm = residue(tmp_path, wanted, operations=50, is_mutant=is_mutant)
    except CompilerMissingError as exc:
        pytest.skip(str(exc))

    assert storm.clear > 10
    assert bool(storm.found) == is_mutant, storm.found
