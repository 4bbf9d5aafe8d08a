"""A table of vectors: exact, and stored as bytes."""

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from math import hypot, isclose, sqrt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.recall._place_vectors import VectorTable, numpy_or_none, unit


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def similarities(table: VectorTable, vector: list[float]) -> dict[bytes, float]:
    products = table.products(unit(vector)) if table.width else ()
    return {
        key: float(products[row or 0]) for key, row in zip(table, table.rows(table), strict=True)
    }


def table(*vectors: list[float]) -> VectorTable:
    made = VectorTable(len(vectors[0]))
    for number, vector in enumerate(vectors):
        made.add(key(number), vector)
    return made


def test_cosines_ignore_length() -> None:
    """Opposite vectors give -1, orthogonal ones 0."""
    made = table([2.0, 0.0], [0.0, 0.1], [-3.0, 0.0], [0.0, 0.0], [1.0, 1.0])

    found = similarities(made, [40.0, 0.0])

    expected = [1.0, 0.0, -1.0, 0.0, 1 / sqrt(2)]
    assert list(found) == [key(n) for n in range(5)]
    assert all(isclose(a, b, abs_tol=1e-6) for a, b in zip(found.values(), expected, strict=True))
    assert set(similarities(made, [0.0, 0.0]).values()) == {0.0}


def test_a_key_keeps_its_first_vector() -> None:
    """A text has one vector; a second one is ignored."""
    made = table([1.0, 0.0])

    made.add(key(0), [0.0, 1.0])

    assert len(made) == 1
    assert similarities(made, [1.0, 0.0]) == {key(0): 1.0}
    assert key(0) in made
    assert key(1) not in made


def test_vectors_of_another_length_raise() -> None:
    """They cannot be compared."""
    with pytest.raises(ValueError, match="2 dimensions, not 3"):
        table([1.0, 0.0]).add(key(7), [1.0, 2.0, 3.0])


@given(
    loaded=st.integers(0, 4),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=30),
)
def test_keys_and_rows_stay_aligned(loaded: int, steps: list[tuple[bool, int]]) -> None:
    """This holds after any additions and removals, and after a reload."""
    made, expected = VectorTable(2), dict[bytes, list[float]]()
    for number in range(loaded):
        made.add(key(number), [1.0, float(number)])
        expected[key(number)] = [1.0, float(number)]
    made = VectorTable.load(made.dump("m"), "m")
    made.total(None)  # from here on it is updated
    for is_added, number in steps:
        if is_added:
            made.add(key(number), [1.0, float(number)])
            expected[key(number)] = [1.0, float(number)]
        else:
            made.discard(key(number))
            expected.pop(key(number), None)

    for each in (made, VectorTable.load(made.dump("m"), "m")):
        cosines = similarities(each, [1.0, 0.0])
        assert cosines.keys() == set(each) == expected.keys()
        assert all(
            isclose(cosines[k], 1 / hypot(*vector), rel_tol=1e-5) for k, vector in expected.items()
        )
        units = [unit(vector) for vector in expected.values()]
        for rows in (None, [row for row in each.rows(expected) if row is not None]):
            total = each.total(rows)
            assert (total is None) is (not units)
            for found, column in zip(total or (), zip(*units, strict=True), strict=False):
                assert isclose(found, sum(column), abs_tol=1e-9)


def _other_model(data: bytes) -> bytes:
    return data.replace(b'"mini"', b'"maxi"')


WRONG: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda _: b"",
    "other bytes": lambda data: b"x" + data,
    "cut": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "cut in its header": lambda data: data[:30],
    "another model": _other_model,
    "another count": lambda data: data.replace(b'"count": 2', b'"count": 1'),
    "other dimensions": lambda data: data.replace(b'"dimensions": 3', b'"dimensions": 4'),
    "no dimensions": lambda data: data.replace(b'"dimensions": 3', b'"dimensions": 0'),
    "a negative count": lambda data: data.replace(b'"count": 2', b'"count": -2'),
    "no number": lambda data: data.replace(b'"count": 2', b'"count": "2"'),
    "a list": lambda data: data.replace(b"{", b"[").replace(b"}", b"]"),
    "a key twice": lambda data: data.replace(key(1), key(0)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_bytes_are_refused(wrong: str) -> None:
    """For any damage; nothing else is ever raised."""
    data = table([1.0, 2.0, 2.0], [0.0, 0.0, 1.0]).dump("mini")

    with pytest.raises(ValueError, match=r"table of vectors"):
        VectorTable.load(WRONG[wrong](data), "mini")


@given(st.binary(max_size=300))
def test_any_bytes_are_handled(data: bytes) -> None:
    """A file may contain anything."""
    for given_data in (data, b"factmem vectors 1\n" + data):
        with pytest.raises(ValueError, match="table of vectors"):
            VectorTable.load(given_data, "mini")


def test_names_of_models_may_be_any_string() -> None:
    """They may have quotes, line breaks and other scripts."""
    for name in ('"', "a\nb", "모델", "\\", "x" * 1000):
        data = table([1.0]).dump(name)
        assert len(VectorTable.load(data, name)) == 1
        with pytest.raises(ValueError, match="of this model"):
            VectorTable.load(data, name + "2")


BROKEN = {
    "half": ("from numpy import einsum", True),
    "older": ("raise RuntimeError('compiled against another version')", True),
    "parts": ("import numpy._core_that_is_gone", True),
    "empty": ("", False),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_numpy_counts_as_missing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It can be found, but its import fails; words are compared, and the log gives the reason."""
    text, is_told = BROKEN[kind]
    package = tmp_path / "numpy"
    package.mkdir()
    (package / "__init__.py").write_text(text)
    monkeypatch.delitem(sys.modules, "numpy", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    numpy_or_none.cache_clear()
    try:
        for _ in range(2):
            assert numpy_or_none() is None
    finally:
        sys.modules.pop("numpy", None)
        numpy_or_none.cache_clear()

    assert len(caplog.records) == is_told
    assert "numpy" in "".join(record.message for record in caplog.records) or not is_told


def test_creating_a_table_does_not_import_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first comparison imports it, in a worker thread."""
    asked: list[str] = []

    class Watching(MetaPathFinder):
        def find_spec(self, fullname: str, *_: object) -> None:
            asked.append(fullname)

    monkeypatch.delitem(sys.modules, "numpy", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Watching(), *sys.meta_path])
    numpy_or_none.cache_clear()

    VectorTable(2).add(bytes(16), [3.0, 4.0])

    assert "numpy" not in asked
