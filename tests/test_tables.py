"""Tables of cases fail when a case fails, and name each of them."""

import pytest

from tests.tables import table


def test_every_case_runs_and_each_failure_is_named() -> None:
    ran: list[int] = []

    @table("number", [1, 2, 3], ids=["one", "two", "three"])
    def check(number: int) -> None:
        ran.append(number)
        assert number == 2

    with pytest.raises(pytest.fail.Exception) as caught:
        check()

    assert ran == [1, 2, 3]
    assert "2 cases fail" in str(caught.value)
    assert "one" in str(caught.value)
    assert "assert 3 == 2" in str(caught.value)
    assert "two" not in str(caught.value)


async def test_cases_are_awaited_and_tables_combine() -> None:
    ran: list[tuple[int, str, str]] = []

    @table("number", [1, 2])
    @table(("one", "other"), [("a", "b"), ("c", "d")])
    async def check(number: int, one: str, other: str, *, fixture: str) -> None:
        assert fixture == "given"
        ran.append((number, one, other))
        if other == "d":
            raise LookupError(one)

    with pytest.raises(pytest.fail.Exception, match="LookupError"):
        await check(fixture="given")

    assert ran == [(1, "a", "b"), (1, "c", "d"), (2, "a", "b"), (2, "c", "d")]


def test_a_check_that_should_raise_and_does_not_is_a_failure() -> None:
    """The exception of `pytest.raises` is not an `Exception`."""

    @table("number", [1])
    def check(number: int) -> None:
        with pytest.raises(ValueError, match="never"):
            int(number)

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        check()


@table("fixture_of_pytest", ["tmp_path"])
def test_fixtures_reach_the_function(
    fixture_of_pytest: str, request: pytest.FixtureRequest
) -> None:
    assert request.getfixturevalue(fixture_of_pytest).exists()


def test_a_table_without_cases_raises() -> None:
    with pytest.raises(AssertionError, match="tests nothing"):
        table("number", [])
