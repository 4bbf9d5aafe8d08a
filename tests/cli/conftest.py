"""The commands, built once for all tests."""

import functools
from collections.abc import Iterator

import pytest
import typer.testing


@pytest.fixture(scope="session", autouse=True)
def built_once() -> Iterator[None]:
    """Keep the command that Typer builds, which takes two thirds of the time of each call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", functools.cache(typer.main.get_command))
        yield
