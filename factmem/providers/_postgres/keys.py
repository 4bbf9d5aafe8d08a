"""The keys of an encrypted store: adding, removing and rotating them while others use the store."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import orjson

from factmem.errors import WrongKeyError
from factmem.providers._postgres import statements as sql
from factmem.providers._postgres.blocking import PostgresPlaces
from factmem.providers._postgres.driver import Session
from factmem.providers._postgres.stores import StoreRow
from factmem.storage.encryption.aes256gcm import Encryption
from factmem.storage.encryption.ring import KeyRing

_Change: TypeAlias = Callable[[StoreRow], StoreRow]

_MOST_LISTED = 1000
"""Places that are looked at by one question."""


class PostgresKeys:
    """Changes the keys of one store; see `factmem.storage.base.KeySlots` for the contract.

    The store's row is the lock. Writers that make a place hold it shared, so that none is made with
    a generation of keys that is being dropped.
    """

    def __init__(self, places: PostgresPlaces) -> None:
        self._places = places
        self._opening = places.opening

    def ids(self) -> list[str]:
        """See `KeySlots.ids`."""

        def read(session: Session, _: int) -> list[str]:
            self._opening.made(session)
            row = self._opening.row(session)
            return [] if row is None else [slot["kid"] for slot in row.slots]

        return self._places.run(read)

    def add(self, encryption: Encryption) -> None:
        """See `KeySlots.add`."""

        def change(row: StoreRow) -> StoreRow:
            ring, _ = self._opening.ring(row)
            slot = encryption.wrap(ring.dump(), row.id)
            others = [each for each in row.slots if each["kid"] != slot["kid"]]
            return replace(row, slots=[*others, slot])

        self._change(change)

    def remove(self, encryption: Encryption) -> None:
        """See `KeySlots.remove`."""

        def change(row: StoreRow) -> StoreRow:
            self._opening.ring(row)
            kid = encryption.unwrap(row.slots, row.id).kid
            others = [each for each in row.slots if each["kid"] != kid]
            if not others:
                raise ValueError("The last key of a store cannot be removed: add another one first")
            return replace(row, slots=others)

        self._change(change)

    def rotate(self, encryption: Encryption, *, rewrite: bool = True) -> None:
        """See `KeySlots.rotate`. Each place is rewritten in a transaction of its own."""
        if not rewrite:
            self._change(lambda row: self._rewrapped(row, encryption), encryption)
            return
        self._change(lambda row: self._with_new_generation(row, encryption), encryption)
        while self._rewrite_some():
            pass
        self._change(lambda row: self._without_old_generations(row, encryption), encryption)

    def _rewrapped(self, row: StoreRow, encryption: Encryption) -> StoreRow:
        ring, kid = self._opened_by(row, encryption)
        others = [each for each in row.slots if each["kid"] != kid]
        return replace(row, slots=[encryption.wrap(ring.dump(), row.id), *others])

    def _with_new_generation(self, row: StoreRow, encryption: Encryption) -> StoreRow:
        ring, kid = self._opened_by(row, encryption)
        is_begun = len(ring.generations) > 1 and kid in _kids(encryption, row)
        ring = ring if is_begun else ring.with_new_generation()
        slots = [encryption.wrap(ring.dump(), row.id)]
        return replace(row, slots=slots, generation=ring.generation)

    def _without_old_generations(self, row: StoreRow, encryption: Encryption) -> StoreRow:
        ring, _ = self._opened_by(row, encryption)
        ring = replace(ring, generations={ring.generation: ring.generations[ring.generation]})
        return replace(row, slots=[encryption.wrap(ring.dump(), row.id)])

    def _opened_by(self, row: StoreRow, encryption: Encryption) -> tuple[KeyRing, str]:
        """Return the ring, also where only the new key opens it: a rotation was cut short."""
        try:
            return self._opening.ring(row)
        except WrongKeyError:
            unwrapped = encryption.unwrap(row.slots, row.id)
            return KeyRing.load(unwrapped.ring), unwrapped.kid

    def _change(self, change: _Change, encryption: Encryption | None = None) -> None:
        """Write the store's row anew, under its lock; go on with another encryption from then."""

        def write(session: Session, _: int) -> None:
            self._make(session)
            with session.transaction():
                row = self._opening.row(session, lock="FOR UPDATE")
                assert row is not None  # noqa: S101 - stores are never deleted
                new = change(row)
                session.rows(
                    sql.SET_KEYS, [orjson.dumps(new.slots).decode(), new.generation, row.number]
                )

        self._places.run(write)
        if encryption is not None:
            self._opening.encryption = encryption
        self._opening.reload()

    def _make(self, session: Session) -> None:
        """Make the store if need be; one that only a new key opens is there already."""
        try:
            self._opening.made(session)
        except WrongKeyError:
            return

    def _rewrite_some(self) -> bool:
        """Rewrite places that have a data key of an older generation; whether there were any."""

        def outdated(session: Session, _: int) -> list[str]:
            store = self._opening.made(session)
            given = [store.number, store.sealing.generation.to_bytes(4, "big"), _MOST_LISTED]
            return [row[0].hex for row in session.rows(sql.LIST_OUTDATED, given)]

        def rewrite(key: str, session: Session, _: int) -> None:
            reader, writer = self._places.writing(session)
            with session.transaction():
                row = writer.lock(session, key)
                if row is not None:  # not erased meanwhile
                    identity = reader.sealer(key, row.data_key).open_names(row.names)
                    writer.rekey(session, identity)

        keys = self._places.run(outdated)
        for key in keys:
            self._places.run(partial(rewrite, key))
        return bool(keys)


def _kids(encryption: Encryption, row: StoreRow) -> set[str]:
    """Return the id of the slot that an encryption opens, if there is one."""
    try:
        return {encryption.unwrap(row.slots, row.id).kid}
    except WrongKeyError:
        return set()
