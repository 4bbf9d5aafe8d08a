"""The short form of random changes by SQL and by bytes, and proof that it would notice."""

from pathlib import Path
from random import Random

import pytest

from factmem.providers._sql.sealing import _SUM_END, _CheckedLines
from tests.storms.changed_rows import Outcome, run, unnoticed
from tests.storms.tampering import KINDS, Files

both_kinds = pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])


@both_kinds
@pytest.mark.parametrize("cases", [30, pytest.param(100, marks=pytest.mark.storm)])
async def test_no_change_goes_unnoticed(tmp_path: Path, cases: int, *, is_encrypted: bool) -> None:
    """With an anchor from outside; damage of single lines also without one."""
    trial = Files(tmp_path, is_encrypted=is_encrypted)
    outcomes = await run(trial, KINDS, cases=cases, seed=7)

    assert unnoticed(outcomes) == []
    for each in outcomes:
        if each.kind in {"lines swapped", "lines removed", "line moved", "old copy of a line"}:
            assert each.is_noticed_alone, each
    assert sum(each.is_noticed for each in outcomes) > cases / 2


async def test_a_checksum_that_is_not_compared_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial that finds nothing, whatever the store does, would prove nothing."""
    trial = Files(tmp_path, is_encrypted=False)
    await trial.prepare()

    async def swapped() -> list[Outcome]:
        """Swap lines in eight ways; that of the last line of a place is noticed by its row, too."""
        found = [await trial.change("lines swapped", Random(seed)) for seed in range(8)]
        return [each for each in found if each is not None]

    sound = await swapped()

    def unchecked(lines: object, number: int, at: int, previous: bytes, stored: bytes) -> bytes:
        return b"{" + stored[_SUM_END:].removeprefix(b",")

    monkeypatch.setattr(_CheckedLines, "open", unchecked)
    weak = await swapped()

    assert sound
    assert unnoticed(sound) == []
    assert unnoticed(weak)
