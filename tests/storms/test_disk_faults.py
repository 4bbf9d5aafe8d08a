"""The short form of the storm of disk faults, and proof that it would notice."""

from pathlib import Path

import pytest

from tests.storms.disk_faults.storm import disk_fault_storm
from tests.storms.disk_faults.worker import MUTANTS

pytestmark = pytest.mark.storm


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_a_failing_disk_loses_nothing(
    tmp_path: Path, *, is_encrypted: bool, thorough: bool
) -> None:
    """The process goes on, the others notice nothing, and no sound file is called damaged."""
    faults = 60 if thorough else 25
    outcome = disk_fault_storm(tmp_path, faults, is_encrypted=is_encrypted)

    assert not outcome.found, outcome
    assert outcome.injected >= faults
    assert outcome.failed > faults // 3
    assert outcome.operations > 2 * faults


def test_a_broken_rule_is_noticed(tmp_path: Path) -> None:
    """A save that failed is acknowledged, and is not there."""
    outcome = disk_fault_storm(tmp_path, 40, mutant=MUTANTS[0])

    assert outcome.found.lost, outcome
