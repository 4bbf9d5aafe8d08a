"""A few random changes to an encrypted store; `python -m tests.postgres.tampering` makes many."""

from tests.postgres.cluster import Cluster
from tests.postgres.tampering import run
from tests.storms.changed_rows import unnoticed


async def test_no_change_goes_unnoticed(cluster: Cluster) -> None:
    """With an anchor from outside the database."""
    outcomes = await run(cluster.dsn(), cases=20, seed=7)

    assert unnoticed(outcomes) == []
    assert sum(each.is_noticed for each in outcomes) > 10
