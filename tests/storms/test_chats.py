"""The short form of chats that are learnt while workers are killed and places erased."""

from pathlib import Path

import pytest

from tests.storms.chats import chat_storm

pytestmark = pytest.mark.storm


def test_chats_are_learnt_while_workers_are_killed(tmp_path: Path) -> None:
    """Nothing is lost, learnt twice or back, and nothing older is current."""
    outcome = chat_storm(str(tmp_path / "store"), 100, kills=2, erasures=10)

    assert outcome.is_good, outcome
    assert outcome.statements > 100


@pytest.mark.parametrize(("mutant", "erasures"), [("moment", 200), ("retry", 0)])
def test_the_storm_notices_a_rule_that_is_switched_off(
    tmp_path: Path, mutant: str, erasures: int
) -> None:
    """Each rule by its own count."""
    outcome = chat_storm(str(tmp_path / "store"), 150, erasures=erasures, mutant=mutant)

    assert (outcome.came_back if mutant == "moment" else outcome.lost) > 0, outcome
