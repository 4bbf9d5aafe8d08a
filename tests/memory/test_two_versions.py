"""Two services with different definitions of the same concepts, on every kind of store."""

from pathlib import Path

import pytest

from tests.storms.two_versions import KINDS, run, stores


@pytest.mark.parametrize("kind", KINDS)
async def test_two_versions_hide_nothing_from_each_other(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Renamed, retyped, one value to many, a field removed; `tests.storms.two_versions` runs longer."""
    is_on_server = kind.startswith("postgres")
    cluster = request.getfixturevalue("cluster") if is_on_server else None
    old, new = stores(kind, tmp_path / tmp_path.name / kind, cluster)
    async with old, new:
        outcome = await run(old, new, lambda number: number <= 24)

    assert not outcome.faults, outcome
    assert (outcome.writes, outcome.reads > 50, outcome.unreadable > 0) == (48, True, True)
