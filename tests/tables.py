"""Tables of quick cases that are one test, which names each case that fails.

A case of its own costs a test more than most of these cases do: it is collected by each worker,
set up, and reported three times. Use `pytest.mark.parametrize` where a case changes a fixture.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

Test = Callable[..., Any]


def table(
    names: str | tuple[str, ...],
    cases: Iterable[Any],
    ids: Iterable[object] | Callable[[Any], object] | None = None,
) -> Callable[[Test], Test]:
    """Run a test function on each case in turn, as one test; the arguments are `parametrize`'s."""
    parameters = (names,) if isinstance(names, str) else names
    rows = list(cases)
    assert rows, "a table without cases tests nothing"
    titles = _titles(parameters, rows, ids)

    def decorate(function: Test) -> Test:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_async(*args: Any, **fixtures: Any) -> None:
                with _failures() as failures:
                    for title, row in zip(titles, rows, strict=True):
                        with _case(title, failures):
                            await function(*args, **fixtures, **_arguments(parameters, row))

            return _without(parameters, run_async)

        @functools.wraps(function)
        def run(*args: Any, **fixtures: Any) -> None:
            with _failures() as failures:
                for title, row in zip(titles, rows, strict=True):
                    with _case(title, failures):
                        function(*args, **fixtures, **_arguments(parameters, row))

        return _without(parameters, run)

    return decorate


def _titles(
    parameters: tuple[str, ...],
    rows: list[Any],
    ids: Iterable[object] | Callable[[Any], object] | None,
) -> list[str]:
    if ids is None:
        ids = [ascii(row)[:200] for row in rows]
    elif callable(ids):
        values = [_arguments(parameters, row).values() for row in rows]
        ids = ["-".join(str(ids(value)) for value in row) for row in values]
    return [f"case {number}: {title}" for number, title in enumerate(ids)]


def _arguments(parameters: tuple[str, ...], row: Any) -> dict[str, Any]:
    values = (row,) if len(parameters) == 1 else row
    return dict(zip(parameters, values, strict=True))


@contextmanager
def _failures() -> Iterator[list[str]]:
    """Fail with all that cases reported."""
    failures: list[str] = []
    yield failures
    if failures:
        summary = "\n\n".join([f"{len(failures)} cases fail", *failures])
        pytest.fail(summary, pytrace=False)


@contextmanager
def _case(title: str, failures: list[str]) -> Iterator[None]:
    """Add the failure of a case, with the lines that led to it."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as exc:
        shown = pytest.ExceptionInfo.from_exception(exc).getrepr(style="short")
        failures.append(f"{title}\n{shown}")


def _without(parameters: tuple[str, ...], function: Test) -> Test:
    """Hide the table's parameters from pytest, which would look for fixtures of these names."""
    signature = inspect.signature(function)
    assert set(parameters) <= set(signature.parameters), f"{function} does not take {parameters}"
    left = [each for each in signature.parameters.values() if each.name not in parameters]
    function.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
    return function
