"""Errors of sockets at every wait: each public call raises a FactmemError or succeeds."""

import errno
import os
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from factmem.errors import FactmemError
from factmem.providers._postgres import driver
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, THEME, USER, languages, theme
from tests.postgres.conftest import NewStore

Call = Callable[[PostgresMemoryProvider], Awaitable[Any]]

CALLS: dict[str, Call] = {
    "load": lambda store: store.load(THEME, USER, AGENT),
    "places": lambda store: store.places(),
    "entries": lambda store: store.entries(USER, AGENT),
    "save": lambda store: store.save(theme("light"), USER, AGENT),
    "purge": lambda store: store.forget(USER, AGENT, concept=LANGUAGES, purge=True),
    "erase": lambda store: store.erase(USER, AGENT),
    "anchor": lambda store: store.anchor(),
    "verify": lambda store: store.verify(),
    "ping": lambda store: store.ping(),
    "migrate": lambda store: store.migrate(),
}
CODES = [errno.EMFILE, errno.ENOMEM, errno.EBADF, errno.EIO]


class Selectors:
    """Selectors that fail, once or from then on."""

    def __init__(self) -> None:
        self._real, self._random = driver._Selector, Random(1)
        self.calls, self.first, self.last = 0, -1, -1

    def __call__(self) -> Any:
        self.calls += 1
        if self.first < self.calls <= self.last:
            code = self._random.choice(CODES)
            raise OSError(code, os.strerror(code))
        return self._real()


@pytest.mark.parametrize("times", [1, 10**6], ids=["once", "always"])
@pytest.mark.parametrize("name", CALLS)
async def test_an_error_at_every_wait(
    new_store: NewStore,
    name: str,
    times: int,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    """A commit may have happened or not, and the next call works."""
    selectors = Selectors()
    monkeypatch.setattr(driver, "_Selector", selectors)
    healthy = new_store(store=f"{name}-{times}")
    step = 1 if pytestconfig.getoption("--both-loops") else 3  # the long form, and the gate's
    skip, failed, wrong = 0, True, list[str]()
    while failed:
        await healthy.erase(USER, AGENT)
        await healthy.save_many([theme("dark"), languages("java")], USER, AGENT)
        store = new_store(store=f"{name}-{times}", timeout=0.3)
        selectors.calls, selectors.first, selectors.last = 0, skip, skip + times
        try:
            await CALLS[name](store)
        except Exception as exc:
            if not isinstance(exc, FactmemError):
                wrong.append(f"{skip}: {exc!r}")
        failed = selectors.calls > skip
        selectors.first = selectors.last = -1
        found = sorted(fact.concept.keyword for fact in await healthy.load_all(USER, AGENT))
        gone = {"purge": [THEME.keyword], "erase": []}.get(name)
        assert found in (sorted([THEME.keyword, LANGUAGES.keyword]), gone)
        skip += step if skip < 40 else 7

    assert not wrong, "\n".join(wrong)
