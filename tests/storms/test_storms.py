"""The short form of the storms, and proof that they would notice."""

import shutil
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from factmem import Key
from tests.storms.chats import chat_storm
from tests.storms.erasures import residue
from tests.storms.hostile import run
from tests.storms.kill_storm import kill_storm
from tests.storms.power_cuts.__main__ import faults_after_cuts, record
from tests.storms.rotation_storm import rotation_storm

pytestmark = pytest.mark.storm

preloaded = pytest.mark.skipif(
    shutil.which("cc") is None or sys.platform != "linux", reason="needs Linux and a C compiler"
)

both_kinds = pytest.mark.parametrize(
    "key", [None, Key.generate().to_base64()], ids=["plain", "encrypted"]
)


@both_kinds
def test_nothing_acknowledged_is_lost(tmp_path: Path, key: str | None, thorough: bool) -> None:
    """With kills of any process at any time; readers get no error and miss nothing."""
    kills = 25 if thorough else 12
    outcome = kill_storm(tmp_path / "store", kills, key=key)

    assert not outcome.faults, outcome
    assert outcome.kills >= kills
    assert outcome.suicides > 0
    assert outcome.operations > 4 * kills
    assert outcome.looks > kills // 3


@both_kinds
@pytest.mark.parametrize("mutant", ["no transactions", "no locks"])
def test_a_broken_rule_is_noticed(tmp_path: Path, key: str | None, mutant: str) -> None:
    """A storm that finds nothing, whatever the code does, would prove nothing."""
    outcome = kill_storm(tmp_path / "store", 200, key=key, mutant=mutant)

    assert outcome.faults, outcome


def test_rotations_lose_nothing_and_shut_out_every_older_key(
    tmp_path: Path, thorough: bool
) -> None:
    """Whichever process is killed, and whenever; an older copy of the store is reported."""
    rotations = 10 if thorough else 3
    outcome, storm = rotation_storm(tmp_path / "store", rotations)

    assert not outcome.faults, outcome
    assert storm.rotations == rotations
    assert storm.cut_short > 0
    assert outcome.kills > storm.cut_short
    assert outcome.operations > 50


CUTS = 8


@preloaded
def test_power_cuts(tmp_path: Path) -> None:
    """The syncs of the log keep what was saved, those of the database what was removed."""
    steps = record(tmp_path, 7, "", operations=80)

    assert faults_after_cuts(tmp_path, steps, CUTS, 7, "") == []
    unsafe = faults_after_cuts(tmp_path, steps, CUTS, 7, "", unsynced="facts.db-wal")
    assert any("lost" in fault or "damaged" in fault for fault in unsafe)
    unsafe = faults_after_cuts(tmp_path, steps, CUTS, 7, "", unsynced="facts.db")
    assert any("was removed" in fault or "damaged" in fault for fault in unsafe)


@preloaded
@pytest.mark.parametrize(
    ("encrypted", "is_mutant"),
    [(False, False), (True, False), (True, True)],
    ids=["plain", "encrypted", "a log that is not emptied"],
)
def test_no_piece_of_what_was_removed_is_left(
    tmp_path: Path, *, encrypted: bool, is_mutant: bool
) -> None:
    """Beside a killed process and a failing disk."""
    wanted = Namespace(removals=1, kills=0, faults=0, gap=400, seed=7, encrypted=encrypted)
    storm = residue(tmp_path, wanted, operations=50, mutant="log" if is_mutant else "")

    assert storm.clear > 10
    assert bool(storm.found) == is_mutant, storm.found


@preloaded
@pytest.mark.parametrize("mutant", ["", "errors", "order"])
def test_a_failing_disk_loses_nothing(tmp_path: Path, mutant: str, thorough: bool) -> None:
    """Process and others go on; values stay in order, with the last one current."""
    faults = 60 if thorough else 25
    wanted = Namespace(removals=0, kills=0, faults=faults, gap=20, seed=7, encrypted=not mutant)
    storm = residue(tmp_path, wanted, operations=60, mutant=mutant)

    assert storm.faults >= faults or storm.found
    wanted_fault = {"errors": "lost", "order": "disordered"}.get(mutant)
    assert wanted_fault in storm.found if mutant else not storm.found, storm.found


def test_chats_are_learnt_while_workers_are_killed(tmp_path: Path) -> None:
    """Nothing is lost, learnt twice or back, and nothing older is current, in a plain store."""
    key = Key.generate().to_base64()
    outcome = chat_storm(str(tmp_path / "store"), 100, kills=2, erasures=10, key=key)

    assert outcome.is_good, outcome
    assert outcome.done["statements"] > 100


@pytest.mark.parametrize(("mutant", "chats", "erasures"), [("moment", 150, 200), ("retry", 50, 0)])
def test_the_storm_notices_a_rule_that_is_switched_off(
    tmp_path: Path, mutant: str, chats: int, erasures: int
) -> None:
    """Each rule by its own count."""
    outcome = chat_storm(str(tmp_path / "store"), chats, erasures=erasures, mutant=mutant)

    assert outcome.faults["came back" if mutant == "moment" else "lost"] > 0, outcome


@pytest.mark.storm
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
async def test_each_is_refused_or_harmless(tmp_path: Path, *, is_encrypted: bool) -> None:
    """No call swallows, hides, waits for ever, or raises an error of another library."""
    trial = await run(tmp_path, 8, 7, is_encrypted=is_encrypted)

    assert trial.faults == []
    assert trial.refusals > 50
