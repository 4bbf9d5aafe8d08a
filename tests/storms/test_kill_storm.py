"""The short form of the storm of kills, and proof that it would notice."""

from pathlib import Path

import pytest

from factmem import Key
from tests.storms.kill_storm import kill_storm

pytestmark = pytest.mark.storm

both_kinds = pytest.mark.parametrize(
    "key", [None, Key.generate().to_base64()], ids=["plain", "encrypted"]
)


@both_kinds
def test_nothing_acknowledged_is_lost(tmp_path: Path, key: str | None) -> None:
    """With kills of any process at any time; readers get no error and miss nothing."""
    outcome = kill_storm(tmp_path / "store", 25, key=key)

    assert not outcome.faults, outcome
    assert outcome.kills >= 25
    assert outcome.suicides > 0
    assert outcome.operations > 100
    assert outcome.looks > 10


@both_kinds
@pytest.mark.parametrize("mutant", ["no transactions", "no locks"])
def test_a_broken_rule_is_noticed(tmp_path: Path, key: str | None, mutant: str) -> None:
    """A storm that finds nothing, whatever the code does, would prove nothing."""
    outcome = kill_storm(tmp_path / "store", 200, key=key, mutant=mutant)

    assert outcome.faults, outcome
