"""Entries: conversion of facts to entries and to bytes."""

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.errors import FactmemError
from factmem.ledger.entries import Entry, decoded, encoded_entry, stamped, untimed
from factmem.models.when import moment, stamp
from tests.ledgers import Step, ledgers, saved, searched
from tests.tables import table

AT = "2001-02-03T04:05:06.000000Z"


@searched
@given(st.datetimes(timezones=st.timezones()))
def test_stamps_sort_by_time(when: datetime) -> None:
    """A stamp is a string of fixed length, in UTC, with microseconds."""
    text = stamp(when)

    when = when.astimezone(
        UTC
    )  # zones whose clocks go back would make the comparison of others ambiguous
    assert moment(text) == when
    assert len(text) == len(AT)
    assert (text < AT) == (when < moment(AT))


@searched
@given(ledgers())
def test_entries_survive_a_round_trip_as_bytes(steps: list[Step]) -> None:
    """Each is one line, with the time added when it is known; wide integers are exact."""
    for step in steps:
        entry: Any = orjson.loads(orjson.dumps(_narrow(step.entry)))
        parts = untimed(entry.get("facts", ()), entry.get("forget", ()))
        line = stamped(encoded_entry(parts), entry["at"])
        whole = stamped(encoded_entry(step.entry), step.entry["at"])

        assert b"\n" not in whole
        assert decoded(line) == {name: part for name, part in entry.items() if part}
        assert repr(decoded(whole).get("facts")) == repr(step.entry.get("facts"))


def _narrow(entry: Entry) -> Any:
    """Return an entry without the integers that orjson cannot write."""
    return {
        "at": entry["at"],
        "facts": [fact for fact in entry.get("facts", []) if str(2**70) not in str(fact)],
        "forget": entry.get("forget", []),
    }


def test_wide_numbers_are_marked_and_exact() -> None:
    """The first bytes stop parsers that would round them, and are not content."""
    body = encoded_entry({"facts": [saved(2**70, -(2**70), 2**64 - 1)]})
    line = stamped(body, AT)

    assert line.startswith(b'{"wide":true,"at":"2001')
    assert decoded(line) == {"at": AT, "facts": [saved(2**70, -(2**70), 2**64 - 1)]}
    assert not stamped(encoded_entry({"facts": [saved(2**64 - 1)]}), AT).startswith(b'{"wide"')


@table(
    "line", [b"", b"{", b"[]", b"7", b"null", b'{"facts":[]}', b'{"wide":true,', b"\xff", b'"at"']
)
def test_a_malformed_entry_raises(line: bytes) -> None:
    """The error for an intact but malformed record quotes nothing."""
    with pytest.raises(FactmemError, match="is not a factmem entry") as caught:
        decoded(line)

    assert caught.value.__cause__ is None
