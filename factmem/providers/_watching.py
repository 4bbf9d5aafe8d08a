"""Watching of places: the changes of a store in the order of their commits, by any process.

Each poll reads what is new in all places in one snapshot, so that no change is yielded before one
that was committed earlier in another place. Changes are ordered by the time at which this store
recorded or imported them, which never decreases in a place, although an import inserts its entries
among older ones. A position contains this time and the id of the last change of each place.
"""

import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from struct import Struct
from struct import error as struct_error

import anyio
import orjson

from factmem.errors import FactmemError
from factmem.ledger.history import ChangeReader, FactChange
from factmem.models.facts import AnyConcept, checked_concepts
from factmem.models.places import Identity, Place, checked_places
from factmem.models.when import micros, stamp, utc
from factmem.providers._backend import Backend, Unread
from factmem.providers._sql.places import stamp_at

_PAUSE = 0.02
"""Seconds between two polls; one of ten places of a local store takes 0.3 ms of processor time."""
_SHARE = 0.5
"""A pause takes at least this share of the time of the poll before it."""

_FORM = "p1-"
"""The prefix of a position."""
_PLACE = Struct(">8sq8s")
"""A place in a position: digests of its names and of its last change, with the time of that
between."""


async def watched(
    backend: Backend,
    check_open: Callable[[], None],
    places: Iterable[Place],
    *,
    since: datetime | str | None,
    concepts: Iterable[AnyConcept],
) -> AsyncGenerator[FactChange]:
    named = {word: each for each in checked_concepts(concepts) for word in each.keywords}
    known, first = dict[bytes, _Passed](), None
    if isinstance(since, str):
        known = _parsed(since)
    elif since is not None:
        first = stamp(utc(since, "moment since"))
    followed = {
        each.identity: _Followed(each, named, known.get(_digest(each)))
        for each in checked_places(places)
    }
    is_first = not isinstance(since, str)  # then what is there is new only from a time on
    while True:
        began = time.perf_counter()
        check_open()
        try:
            new = await _poll(backend, followed)
        except FactmemError:  # an older copy may have taken the place of the file
            for each in followed.values():
                each.start_again()
            new = await _poll(backend, followed)
        spent = time.perf_counter() - began
        for at, _, change, place in new:
            place.passed = at, _short(change.id)
            if not is_first or (first is not None and at >= first):
                yield replace(change, position=_position(followed.values()))
        is_first = False
        await anyio.sleep(max(_PAUSE, spent * _SHARE))


_New = tuple[str, bool, FactChange, "_Followed"]
"""When a change was stored, whether it was saved here (imports sort first), change and place."""

_Passed = tuple[str, bytes]


async def _poll(backend: Backend, followed: Mapping[Identity, "_Followed"]) -> list[_New]:

    def take(found: Mapping[Identity, Unread]) -> list[_New]:
        new = [change for key, each in followed.items() for change in each.read(found.get(key))]
        return sorted(new, key=lambda change: change[:2])

    known = {identity: each.position for identity, each in followed.items()}
    return await backend.unread(known, take)


class _Followed:
    """A place, and how far its changes were read and yielded."""

    def __init__(
        self, place: Place, concepts: Mapping[str, AnyConcept], passed: _Passed | None
    ) -> None:
        self.digest = _digest(place)
        self.passed = passed or ("", b"")
        """The time of the last yielded change, and a digest of its id."""
        self.position: object = None
        self._place = place
        self._concepts = concepts
        self.start_again()

    def start_again(self) -> None:
        self.position, self._at = None, ""
        self._reader = ChangeReader(self._place, self._concepts)

    def read(self, unread: Unread | None) -> list[_New]:
        """Return the new changes in order; `unread` is None if the place does not exist."""
        if unread is None:
            self.start_again()
            return []
        if unread.is_from_start:
            self.start_again()
        self.position = unread.position
        latest, last = self.passed
        new: list[_New] = []
        for entry in unread.entries:
            self._at = entry["at"] = max(entry["at"], self._at)
            change = self._reader.read(entry)
            came = entry.get("received", self._at)
            if change is not None and came >= latest:
                new.append((came, "received" not in entry, change, self))
        new.sort(key=lambda change: change[:2])
        passed = [n for n, each in enumerate(new) if _short(each[2].id) == last]
        return new[passed[0] + 1 :] if passed else new


def _short(change_id: str) -> bytes:
    return blake2b(change_id.encode(), digest_size=8).digest()


def _digest(place: Place) -> bytes:
    return blake2b(orjson.dumps(place.identity), digest_size=8).digest()


def _position(followed: Iterable[_Followed]) -> str:
    parts = [
        _PLACE.pack(each.digest, micros(at), last)
        for each in followed
        for at, last in [each.passed]
        if at
    ]
    return _FORM + urlsafe_b64encode(b"".join(parts)).decode()


def _parsed(position: str) -> dict[bytes, _Passed]:
    try:
        head, text = position[: len(_FORM)], position[len(_FORM) :]
        parts = _PLACE.iter_unpack(urlsafe_b64decode(text) if head == _FORM else b"x")
        return {digest: (stamp_at(at), last) for digest, at, last in parts}
    except (ValueError, struct_error, OverflowError):
        raise ValueError("since must be a datetime or the position of a change") from None
