"""Every rule of the protocol is needed: if it is broken, a test fails.

What is right is found right by the same means: `test_crash_states.py`, `test_interleaving.py` and
`test_damage.py`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

import pytest

from tests.storage import tampering
from tests.storage.crash_sweep import sweep
from tests.storage.crash_trial import Outcome
from tests.storage.interleaved_trial import InterleavedTrial, without_locks
from tests.storage.mutant import Catcher, Mutant
from tests.storage.mutants import MUTANTS
from tests.storage.stores import Kind
from tests.storage.test_called_again import OPERATIONS, swept

pytestmark = pytest.mark.storm

_MOST_STATES = 40_000
_MOST_RUNS = 3_000

_CASES = [(mutant, kind) for mutant in MUTANTS for kind in mutant.kinds]


@pytest.fixture(autouse=True)
def _fresh_samples() -> Iterator[None]:
    """Create the sample stores with the broken code, and do not cache them for other tests."""
    tampering.sample.cache_clear()
    yield
    tampering.sample.cache_clear()


def _power(kind: Kind) -> bool:
    """Return True if a power cut or a kill reveals it."""
    return bool(_swept(kind, is_failing=False).violations)


def _errors(kind: Kind) -> bool:
    """Return True if an I/O error reveals it."""
    return bool(_swept(kind, is_failing=True).violations)


def _alone(kind: Kind) -> bool:
    """Return True if an I/O error leads to a false alarm with one process."""
    done = _swept(kind, is_failing=True, is_lone=True)
    return bool(done.violations or done.alarms)


def _swept(kind: Kind, *, is_failing: bool, is_lone: bool = False) -> Outcome:
    return sweep(
        kind,
        states=_MOST_STATES,
        is_failing=is_failing,
        is_lone=is_lone,
        first=-1,
        most=3,
        share=0.3,
        stops_early=True,
    )


def _interleaving(kind: Kind) -> bool:
    """Return True if some order of several processes' calls reveals it."""
    return any(_raises(InterleavedTrial(kind, seed).run) for seed in range(_MOST_RUNS))


def _no_locks(kind: Kind) -> bool:
    """Return True if it shows where locks have no effect."""
    lost = sum(_raises(partial(without_locks, kind, seed)) for seed in range(300))
    return lost > 15  # a few orders lose a record in any case


def _raises(part: Callable[[], object]) -> bool:
    try:
        part()
    except Exception:
        return True
    return False


def _damage(kind: Kind) -> bool:
    """Return True if some damage goes unreported."""
    return _is_missed(kind, tampering.TAMPERINGS)


def _forgery(kind: Kind) -> bool:
    """Return True if some forgery goes unreported."""
    return _is_missed(kind, tampering.FORGERIES)


def _again(kind: Kind) -> bool:
    """Return True if an operation that is cut and called again reveals it."""
    cases = [name for name, each in OPERATIONS.items() if kind in each.kinds]
    return any(_raises(partial(swept, name, kind)) for name in cases)


def _is_missed(
    kind: Kind, ways: dict[str, Callable[[tampering.Sample], Iterator[tampering.Files]]]
) -> bool:
    # A few samples: whether a flipped bit is another spelling of a digit depends on random digits.
    fresh = (tampering.sample.__wrapped__(kind) for _ in range(9))
    return any(
        tampering.verdict(store, store.disk(files)) != "told"
        for store in chain([tampering.sample(kind)], fresh)
        for way in reversed(ways.values())
        for files in reversed(list(way(store)))
    )


_CATCHERS: dict[Catcher, Callable[[Kind], bool]] = {
    "power": _power,
    "errors": _errors,
    "alone": _alone,
    "interleaving": _interleaving,
    "no locks": _no_locks,
    "damage": _damage,
    "forgery": _forgery,
    "again": _again,
}


@pytest.mark.parametrize(
    ("mutant", "kind"), _CASES, ids=[f"{mutant.rule}-{kind.name}" for mutant, kind in _CASES]
)
def test_a_broken_rule_is_noticed(
    mutant: Mutant, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The named check fails."""
    mutant.break_rule(monkeypatch)

    assert _CATCHERS[mutant.catcher](kind)


def test_the_names_of_mutants_are_unique() -> None:
    """A repeated name would hide one."""
    rules = [mutant.rule for mutant in MUTANTS]

    assert len(set(rules)) == len(rules) >= 40
