"""The short form of workers that learn while places are erased."""

from pathlib import Path

import pytest

from tests.storms.learning import MUTANTS, learning_storm

pytestmark = pytest.mark.storm


def test_workers_learn_while_places_are_erased(tmp_path: Path) -> None:
    """Nothing comes back, and nothing that is older is current."""
    outcome = learning_storm(tmp_path / "store", 1.5, slowest=0.5)

    assert outcome.is_good, outcome
    assert outcome.learned > 0
    assert outcome.erasures > 0


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_storm_notices_a_rule_that_is_switched_off(tmp_path: Path, mutant: str) -> None:
    """Each rule by its own count."""
    outcome = learning_storm(tmp_path / "store", 3, slowest=1.0, mutant=mutant)

    assert (outcome.came_back if mutant == "moment" else outcome.older) > 0, outcome
