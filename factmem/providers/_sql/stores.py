"""The row of a store: its id, its mode, its key slots; and opening it.

A database may have many stores, each with its own places and keys; a folder has one. `Opening`
finds the row, unwraps the key ring, and remembers the store until another process has changed its
keys.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from logging import INFO, getLogger
from secrets import token_hex
from typing import TYPE_CHECKING, TypeAlias

import orjson

from factmem.errors import (
    CorruptJournalError,
    KeyRequiredError,
    StorageError,
    TamperedError,
    WrongKeyError,
)
from factmem.ledger.entries import Entry
from factmem.providers._sql import session as sql
from factmem.providers._sql.sealing import Sealing
from factmem.providers._sql.session import Database, Session

if TYPE_CHECKING:
    from factmem.encryption.aes256gcm import Encryption, KeySlot
    from factmem.providers._sql.sealed import KeyRing

PLAIN, SEALED = "plain", "aes-256-gcm"

_logger = getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class OpenStore:
    number: int
    id: str
    mode: str
    sealing: Sealing
    anchors: int
    """How many anchors had been taken of it when it was read."""

    @property
    def is_sealed(self) -> bool:
        return self.mode == SEALED


@dataclass(frozen=True, slots=True, repr=False)
class StoreRow:
    number: int
    id: str
    mode: str
    slots: "list[KeySlot]"
    generation: int
    anchors: int


Removal: TypeAlias = Callable[[Session, bytes, Sequence[Entry] | None], None]
"""Takes the key of a place or a conversation, and the removed entries; None for all of them."""


def _nothing(session: Session, key: bytes, removed: Sequence[Entry] | None) -> None:
    """Drop nothing: this store derives nothing."""


class Opening:
    """Finds a store, and creates it at the first write. `sealed_as` is its name in the key ring."""

    def __init__(
        self,
        name: str,
        encryption: "Encryption | None",
        database: Database,
        *,
        must_exist: bool = False,
        sealed_as: str | None = None,
    ) -> None:
        self.name = name
        self._sealed_as = name if sealed_as is None else sealed_as
        self.encryption = encryption
        self._given = encryption
        """The encryption given by the application, which may open more than the current key."""
        self.coming: Encryption | None = None
        """The encryption of a rotation that is about to commit."""
        self.database = database
        self.on_removal: Removal = _nothing
        """Drops what is derived from entries that are removed, in their transaction."""
        self._must_exist = must_exist
        self.start_afresh()

    def start_afresh(self) -> None:
        """Forget what was opened, for a forked child, where no thread would release the lock."""
        self._lock = threading.Lock()
        self.known: OpenStore | None = None
        """The store, if it was found already."""
        self._logged: str | None = None
        """The id of the store that was logged last; empty if there was none."""

    def find(self, session: Session) -> OpenStore | None:
        """Return the store, or None if nothing was saved in it yet."""
        opened = self._find(session)
        if opened is None and self._must_exist:
            raise self._missing(session)
        if self._logged != ("" if opened is None else opened.id):
            self._log(session, opened)
        return opened

    def _find(self, session: Session) -> OpenStore | None:
        opened = self.known
        if opened is None:
            with self._lock:
                opened = self.known = self.known or self._open(session)
        if opened is not None and session.store != opened.number:
            session.select_store(opened.number)
        return opened

    def _missing(self, session: Session) -> StorageError:
        where = self.database.where(session)
        if self.database.has_one_store:
            return StorageError(
                f"There is no store in {where}, and must_exist is set: correct the folder, or "
                "create the store with create()"
            )
        has_tables = self.database.are_there(session)
        remedy = "correct the name" if has_tables else "create its tables with migrate()"
        return StorageError(
            f"There is no store {self.name!r} in {where}, and must_exist is set: correct the "
            f"database, {remedy}, or create the store with create()"
        )

    def _log(self, session: Session, opened: OpenStore | None) -> None:
        """Log which store was found: a wrong folder or database looks like an empty store."""
        with self._lock:
            is_new, self._logged = self._logged == "", "" if opened is None else opened.id
        if not _logger.isEnabledFor(INFO):
            return
        where = self.database.where(session)
        if not where:  # in memory: no folder or database to mistake
            return
        if opened is None:
            _logger.info(
                "No store %r in %s yet: reads find nothing, and the first save creates it",
                self.name,
                where,
            )
            return
        ((places,),) = session.rows(sql.COUNT_PLACES, [opened.number])
        kind = "encrypted" if opened.is_sealed else "plain"
        made = "new " if is_new and not places else ""
        _logger.info(
            "Opened the %s%s store %r in %s (places: %d)", made, kind, self.name, where, places
        )

    def create(self, session: Session, *, is_wanted: bool = False) -> OpenStore:
        """Return the store; create its tables and row, with `is_wanted` also if it must exist."""
        found = self._find(session) if is_wanted else self.find(session)
        if found is not None:
            return found
        if not self.database.are_there(session):
            self.database.make(session)
        # Without effect if another process has made the store meanwhile.
        session.rows(sql.MAKE_STORE, [self.name, *self._new_row()])
        found = self.find(session)
        assert found is not None  # noqa: S101 - it was there, or was inserted
        return found

    def is_renewable(self) -> bool:
        """Whether the keys of erased places can be destroyed."""
        if self.encryption is None:
            return False
        from factmem.encryption.key_file import RenewableEncryption  # plain stores need no keys

        return isinstance(self.encryption, RenewableEncryption)

    def is_prepared(self, session: Session) -> bool:
        """Whether the store exists, or can be created without more rights than it needs itself."""
        is_found = self.find(session) is not None
        return is_found or self.database.has_one_store or self.database.are_there(session)

    def reload(self) -> None:
        """Make the next call read the row again: another process changed its keys."""
        with self._lock:
            self.known = None

    def row(self, session: Session, *, lock: str = "") -> StoreRow | None:
        """Return the store's row, locked if `lock` is FOR UPDATE or FOR SHARE."""
        rows = session.rows(f"{sql.FIND_STORE} {lock}", [self.name])
        if not rows:
            return None
        number, store_id, mode, slots, generation, anchors = rows[0]
        try:
            bytes.fromhex(store_id)
            found: list[KeySlot] = orjson.loads(slots)
            "".join(slot["kid"] + slot["wrap"] for slot in found)
        except (ValueError, TypeError, KeyError):
            raise TamperedError(
                "The row of the store cannot be read: it was changed. Restore it from a backup"
            ) from None
        return StoreRow(number, store_id, mode, found, generation, anchors)

    def ring(self, row: StoreRow) -> "tuple[KeyRing, str]":
        if self.encryption is None:
            raise KeyRequiredError(
                "The store is encrypted: open it with its key, storage=EncryptedStorage"
                "(Aes256GCMEncryptor(key)), a database with encryption=Aes256GCMEncryptor(key)"
            )
        # The coming one is read before the present one: see _change in StoreKeys.
        others = [each for each in (self.coming, self._given) if each is not None]
        present = self.encryption
        try:
            unwrapped = present.unwrap(row.slots, row.id)
        except WrongKeyError:
            for each in others:
                with suppress(WrongKeyError):
                    unwrapped = each.unwrap(row.slots, row.id)
                    break
            else:
                raise
        from factmem.providers._sql.sealed import KeyRing

        ring = KeyRing.load(unwrapped.ring)
        if ring.store != self._sealed_as:
            raise TamperedError(
                "The row of the store is that of another store: it was exchanged. Restore it from "
                "a backup"
            )
        return ring, unwrapped.kid

    def _open(self, session: Session) -> OpenStore | None:
        row = self.row(session) if self.database.are_there(session) else None
        if row is None and self._has_places(session):
            row = self.row(session)  # another process may have made the store in between
            if row is None:
                raise TamperedError("The row of the store was removed: restore it from a backup")
        if row is None:
            return None
        if row.mode == SEALED:
            from factmem.providers._sql.sealed import RingSealing  # plain stores need no cipher

            sealing: Sealing = RingSealing(row.id, self.ring(row)[0])
            self.database.check_mark(sealing.key("folder", ()))
        elif self.encryption is not None:
            raise TamperedError(
                "The store is not encrypted, and a key was given: either its row was replaced, or "
                "it was made without. Open it without a key, or export its facts and import them "
                "into an encrypted store"
            )
        else:
            sealing = Sealing(row.id, has_checksums=self.database.has_checksums)
        if session.store != row.number:
            session.select_store(row.number)
        _check_places(session, row, sealing)
        return OpenStore(row.number, row.id, row.mode, sealing, row.anchors)

    def _has_places(self, session: Session) -> bool:
        """Whether there are places; only in a database with one store are they all of it."""
        has_one, query = self.database.has_one_store, "SELECT place FROM factmem.places LIMIT 1"
        return has_one and self.database.are_there(session) and bool(session.rows(query))

    def _new_row(self) -> tuple[str, str, str]:
        made = token_hex(16)
        if self.encryption is None:
            return made, PLAIN, "[]"
        from factmem.providers._sql.sealed import KeyRing

        slot = self.encryption.wrap(KeyRing.new(self._sealed_as).dump(), made)
        return made, SEALED, orjson.dumps([slot]).decode()


def _check_places(session: Session, row: StoreRow, sealing: Sealing) -> None:
    """Raise unless a place has the key that the store's row gives it.

    With the id of another store, every place would seem to be missing.
    """
    for place, names, data_key, _ in session.rows(
        sql.LIST.format(where=""), [row.number, sql.FIRST_PLACE, 1]
    ):
        identity = sealing.sealer(place, data_key).open_names(names)
        if sealing.key("place", identity) != place:
            error = TamperedError if row.mode == SEALED else CorruptJournalError
            raise error(
                "The row of the store does not belong to its places: it was damaged, or exchanged "
                "with that of another store. Restore it from a backup"
            )
