"""Power cuts, kills and failing calls at every moment: nothing is lost.

`python -m tests.storage.crash_sweep` is the long form. The figures of a run are in the assertions'
messages; `tests/storage/crash_trial.py` says what is looked at in every state.
"""

import pytest

from factmem.errors import StorageError
from tests.storage.crash_sweep import SCRIPT, accidents, sweep
from tests.storage.crash_trial import Append, Outcome, Trial
from tests.storage.memory_disk import MemoryDisk
from tests.storage.stores import ANN, BOB, PLAIN, SEALED, Kind, append, read, record, texts

pytestmark = pytest.mark.storm

KINDS = pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=lambda kind: kind.name)

_PART = 5_000
_PARTS = [(PLAIN, part) for part in range(6)] + [(SEALED, part) for part in range(6, 8)]
_FAILING_PARTS = [(PLAIN, part) for part in range(4)] + [(SEALED, part) for part in range(4, 5)]
_FAILING_PART = 4_000
_FALSE_ALARMS = 0.03
"""The share of states after an I/O error that may be called damaged: a failed sync shows another
process a record that is not on the disk, and what that process writes vouches for it."""


def _check(outcome: Outcome) -> None:
    told = "\n".join(
        f"{n} x {what}: {outcome.samples[what]}" for what, n in outcome.violations.items()
    )
    assert not outcome.violations, f"in {outcome.states} states of {outcome.runs} runs:\n{told}"


@pytest.mark.parametrize(("kind", "part"), _PARTS, ids=lambda each: getattr(each, "name", each))
def test_no_power_cut_and_no_kill_loses_a_record(kind: Kind, part: int) -> None:
    """Forty thousand states of the disk, with kills in any call of random scripts."""
    done = sweep(kind, states=_PART, is_failing=False, first=part - 1, step=len(_PARTS), share=0.25)

    _check(done)
    assert done.states >= _PART
    assert done.alarms == 0


@pytest.mark.parametrize(
    ("kind", "part"), _FAILING_PARTS, ids=lambda each: getattr(each, "name", each)
)
def test_no_failing_call_loses_a_record(kind: Kind, part: int) -> None:
    """Twenty thousand states after one or many failed writes, syncs and renames."""
    done = sweep(
        kind,
        states=_FAILING_PART,
        is_failing=True,
        first=part - 1,
        step=len(_FAILING_PARTS),
        share=0.2,
    )

    _check(done)
    assert done.failed_states >= _FAILING_PART
    assert done.alarms <= done.failed_states * _FALSE_ALARMS


@KINDS
def test_a_single_process_gets_no_false_alarm(kind: Kind) -> None:
    """After an error it continues in a new file, so nothing vouches for lost data."""
    done = sweep(kind, states=2_000, is_failing=True, is_lone=True, first=-1, share=0.2)

    _check(done)
    assert done.failed_states >= 2_000
    assert done.alarms == 0


@KINDS
def test_every_state_of_a_short_run(kind: Kind) -> None:
    """Not a sample: each cut at each byte, with each set of sectors and of folder changes.

    These are more than ten thousand, and make it fifty thousand in all.
    """
    script = [Append("A", ((ANN, (10,)),)), Append("B", ((ANN, (10, 10)),))]

    done = Trial(kind, script, most=None).run()

    _check(done)
    assert done.states > (10_000 if kind.is_sealed else 1_000)


@KINDS
def test_the_scripts_use_every_call(kind: Kind) -> None:
    """Together they use every file call of a store."""
    base = Trial(kind, SCRIPT)
    _check(base.run())

    calls = set(base.disk.log)

    expected = {"make_folder", "create", "append", "sync", "rename", "remove", "sync_parents"}
    expected |= {"sync_folder ", "sync_folder ends", "sync_folder journals", "sync_folder indexes"}
    assert calls == expected | ({"destroy"} if kind.is_sealed else set())
    assert len(accidents(base.disk.log, is_failing=False)) > len(base.disk.log)
    assert len(accidents(base.disk.log, is_failing=True)) > len(base.disk.log)


@KINDS
@pytest.mark.parametrize("call", range(1, 13))
def test_a_disk_that_is_full_for_a_while(kind: Kind, call: int) -> None:
    """From some call on everything fails; when the disk works again, the next save succeeds."""
    disk = MemoryDisk()
    folder = kind.open(disk)
    append(folder, ANN, record(1), record(2))
    disk.fail_at = frozenset(range(disk.count + call, disk.count + call + 4))
    saved, lost, messages = [record(1), record(2)], list[bytes](), list[str]()

    for number in range(3, 12):
        try:
            append(folder, ANN, record(number))
        except StorageError as exc:
            lost.append(record(number))
            messages.append(str(exc))
        else:
            saved.append(record(number))
    append(folder, BOB, record(12))

    found = texts(read(kind.open(disk), ANN))
    assert [each for each in found if each not in lost] == saved
    assert texts(read(kind.open(disk), BOB)) == [record(12)]
    assert lost
    assert all("is not acknowledged" in message for message in messages)
