"""The keys of an encrypted store: adding, removing, rotating and destroying them in use.

A rotation has steps, between which other processes read and write. It adds a new generation of keys
to the store's row; moves the places to it, some in each transaction; and drops the old generation
when no place uses it. An interrupted call leaves both, and the next one continues. `rotate` seals
all lines again, unless only the ring is to be wrapped. `shred` only wraps the data keys again,
because erasures and purges have already dropped the old data keys.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import orjson

from factmem.encryption.aes256gcm import Encryption, KeySlot
from factmem.encryption.key_file import RenewableEncryption
from factmem.errors import WrongKeyError
from factmem.models.when import moment
from factmem.providers._sql import session as sql
from factmem.providers._sql.places import MOST_LISTED
from factmem.providers._sql.sealed import RingSealing
from factmem.providers._sql.session import Session
from factmem.providers._sql.stored_places import Progress, StoredPlaces
from factmem.providers._sql.stores import StoreRow
from factmem.providers.results import ShredReceipt

_Change: TypeAlias = Callable[[StoreRow], StoreRow]


class StoreKeys:
    """Changes the keys of one store. The public class `ProviderKeys` describes the methods.

    The store's row is the lock. Writers that create a place hold it shared, so that no place is
    created with a generation of keys that is being dropped.
    """

    def __init__(self, places: StoredPlaces) -> None:
        self._places = places
        self._opening = places.opening

    def ids(self) -> list[str]:
        """Return the ids of the key slots; there are none before the store was created."""

        def read(session: Session, _: int) -> list[str]:
            if self._opening.find(session) is None:
                return []
            row = self._opening.row(session)
            return [] if row is None else [slot["kid"] for slot in row.slots]

        return self._places.run(read)

    def add(self, encryption: Encryption) -> None:

        def change(row: StoreRow) -> StoreRow:
            ring, _ = self._opening.ring(row)
            slot = encryption.wrap(ring.dump(), row.id)
            others = [each for each in row.slots if each["kid"] != slot["kid"]]
            return replace(row, slots=[*others, slot])

        self._change(change)

    def remove(self, encryption: Encryption) -> None:

        def change(row: StoreRow) -> StoreRow:
            self._opening.ring(row)
            kid = encryption.unwrap(row.slots, row.id).kid
            others = [each for each in row.slots if each["kid"] != kid]
            if not others:
                raise ValueError("The last key of a store cannot be removed: add another one first")
            return replace(row, slots=others)

        self._change(change)

    def rotate(
        self, encryption: Encryption, *, rewrite: bool = True, progress: Progress | None = None
    ) -> None:
        """Give the store a new key. Each place is rewritten in a transaction of its own."""
        if not rewrite:
            self._change(lambda row: self._rewrapped(row, encryption), encryption)
            return
        self._change(lambda row: self._with_new_generation(row, encryption), encryption)
        done, total = 0, 0 if progress is None else sum(map(len, self._outdated()))

        def reporting(keys: list[bytes], session: Session, attempt: int) -> None:
            nonlocal done
            for key in keys:
                self._rewrite([key], session, attempt)
                done = min(done + 1, total)
                if progress is not None:
                    progress(done, total)

        self._settle(
            self._rewrite if progress is None else reporting,
            lambda row: self._without_old_generations(row, encryption),
            encryption,
        )

    def _rewrapped(self, row: StoreRow, encryption: Encryption) -> StoreRow:
        ring, kid = self._opening.ring(row)
        others = [each for each in row.slots if each["kid"] != kid]
        return replace(row, slots=[encryption.wrap(ring.dump(), row.id), *others])

    def _with_new_generation(self, row: StoreRow, encryption: Encryption) -> StoreRow:
        ring, kid = self._opening.ring(row)
        is_begun = len(ring.generations) > 1 and kid == _kid(encryption, row.slots, row.id)
        ring = ring if is_begun else ring.with_new_generation()
        slots = [encryption.wrap(ring.dump(), row.id)]
        return replace(row, slots=slots, generation=ring.generation)

    def _without_old_generations(self, row: StoreRow, encryption: Encryption) -> StoreRow:
        ring, _ = self._opening.ring(row)
        ring = replace(ring, generations={ring.generation: ring.generations[ring.generation]})
        return replace(row, slots=[encryption.wrap(ring.dump(), row.id)])

    def _change(
        self, change: _Change, encryption: Encryption | None = None, *, is_last: bool = False
    ) -> bool:
        """Rewrite the store's row under its lock; then use `encryption`, if given, to open it.

        With `is_last`, change nothing and return False unless every place has a data key of the
        newest generation: another process may have begun a newer one.
        """

        def write(session: Session, _: int) -> bool:
            self._opening.create(session)
            with session.transaction():
                row = self._opening.row(session, lock="FOR UPDATE")
                assert row is not None  # noqa: S101 - stores are never deleted
                if is_last and session.rows(sql.LIST_OUTDATED, _outdated(row, sql.FIRST_PLACE, 1)):
                    return False
                new = change(row)
                session.rows(
                    sql.SET_KEYS, [orjson.dumps(new.slots).decode(), new.generation, row.number]
                )
                session.on_removal()
            return True

        # Until this commits, both keys are tried: another thread may read the old row, and an
        # interrupted rotation may have left the new one.
        self._opening.coming = encryption
        try:
            is_done = self._places.write(write)
            if encryption is not None and is_done:
                self._opening.encryption = encryption
        finally:
            self._opening.coming = None
        self._opening.reload()
        self._places.database.finish_erasure()  # the log has the old key ring, and lines under it
        return is_done

    def _settle(
        self,
        bring: Callable[[list[bytes], Session, int], None],
        change: _Change,
        encryption: Encryption,
    ) -> None:
        """Move all places to the newest generation, then change the row of the store."""
        is_done = False
        while not is_done:
            for keys in self._outdated():
                self._places.write(partial(bring, keys))
            is_done = self._change(change, encryption, is_last=True)

    def shred(self) -> ShredReceipt:
        """See `FactStore.shred`.

        The old generation of keys is never wrapped under the new key. While the data keys are
        wrapped again, one ring has both generations, and only the old key opens it and its copies
        in the database's logs. Then the old key is destroyed.
        """
        encryption = self._renewable()
        began_at = self._places.time()
        self._change(lambda row: self._begun(row, encryption))
        self._settle(self._rewrap, lambda row: self._renewed(row, encryption), encryption)
        # This locks the row of the store again: another process may be shredding too.
        self._change(lambda row: _only_used(row, encryption))
        return ShredReceipt(moment(began_at), self._places.write(self._counted))

    def _renewable(self) -> RenewableEncryption:
        encryption = self._opening.encryption
        if not isinstance(encryption, RenewableEncryption):
            raise ValueError(  # noqa: TRY004 - a valid encryption, but not for this
                "The keys of this store cannot be destroyed by shred(): open it with "
                "encryption=KeyFile(path), or with a RenewableEncryption of your own"
            )
        return encryption

    def _begun(self, row: StoreRow, encryption: RenewableEncryption) -> StoreRow:
        """Return the row with a new generation of data keys, under the old key."""
        if any(_kid(encryption, [slot], row.id) is None for slot in row.slots):
            raise ValueError(
                "The store has keys that shred() cannot destroy, and what they open stays readable "
                "in copies: remove them with keys.remove, and destroy them yourself"
            )
        # A crash may have left an unused key. The ring must not be wrapped under it.
        encryption.destroy_unused(row.slots, row.id)
        ring, _ = self._opening.ring(row)
        if len(ring.generations) == 1:
            ring = ring.with_new_generation()
        return replace(
            row, slots=[encryption.wrap(ring.dump(), row.id)], generation=ring.generation
        )

    def _renewed(self, row: StoreRow, encryption: RenewableEncryption) -> StoreRow:
        """Return the row with the new generation alone, under a new key."""
        encryption.renew(row.id)
        return self._without_old_generations(row, encryption)

    def _counted(self, session: Session, _: int) -> int:
        store = self._opening.create(session)
        return int(session.rows(sql.COUNT_PLACES, [store.number])[0][0])

    def _outdated(self) -> Iterator[list[bytes]]:
        """Yield batches of places that have a data key of an older generation."""
        after = sql.FIRST_PLACE
        keys: list[bytes] = []

        def outdated(session: Session, _: int) -> list[bytes]:
            self._opening.create(session)
            row = self._opening.row(session)
            assert row is not None  # noqa: S101 - stores are never deleted
            rows = session.rows(sql.LIST_OUTDATED, _outdated(row, after, MOST_LISTED))
            return [row[0] for row in rows]

        while keys := self._places.write(outdated):
            yield keys
            after = keys[-1]

    def _rewrite(self, keys: list[bytes], session: Session, _: int) -> None:
        reader, writer = self._places.writing(session)
        for key in keys:
            with session.transaction():
                row = writer.lock(session, key)
                if row is not None:  # not erased meanwhile
                    identity = reader.sealer(key, row.data_key).open_names(row.names)
                    writer.rekey(session, identity)

    def _rewrap(self, keys: list[bytes], session: Session, _: int) -> None:
        reader, writer = self._places.writing(session)
        sealing = reader.store.sealing
        assert isinstance(sealing, RingSealing)  # noqa: S101 - only sealed stores have slots
        with session.transaction():
            rows = session.rows(*sql.among(sql.LOCK_DATA_KEYS, keys))
            writer.check_ring(session)
            for place, data_key in rows:
                session.rows(sql.SET_DATA_KEY, [sealing.rewrapped(place, data_key), place])


def _outdated(row: StoreRow, after: bytes, most: int) -> list[object]:
    return [row.number, after, row.generation.to_bytes(4, "big"), most]


def _only_used(row: StoreRow, encryption: RenewableEncryption) -> StoreRow:
    """Destroy the keys that the row of a store does not use."""
    encryption.destroy_unused(row.slots, row.id)
    return row


def _kid(encryption: Encryption, slots: Sequence[KeySlot], store: str) -> str | None:
    """Return the id of the slot that an encryption opens; None if it opens none."""
    try:
        return encryption.unwrap(slots, store).kid
    except WrongKeyError:
        return None
