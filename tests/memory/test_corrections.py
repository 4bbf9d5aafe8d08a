"""What a person corrected stays as it is, whatever models state afterwards."""

from pathlib import Path

import pytest

from tests.corrections import check_corrections
from tests.world import KINDS, store_of


@pytest.mark.parametrize("kind", KINDS)
async def test_corrections_stay(kind: str, tmp_path: Path) -> None:
    """In every kind of local store."""
    async with store_of(kind, tmp_path) as store:
        await check_corrections(store, corrections=6, detections=40)


@pytest.mark.storm
@pytest.mark.parametrize("kind", KINDS)
async def test_many_corrections_stay(kind: str, tmp_path: Path, thorough: bool) -> None:
    """Hundreds of detections against many corrections; a thousand against a hundred at length."""
    async with store_of(kind, tmp_path) as store:
        corrections, detections = (100, 1000) if thorough else (30, 300)
        await check_corrections(store, corrections=corrections, detections=detections)
