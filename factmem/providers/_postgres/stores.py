"""The row of a store: its id, its mode, its key slots; and opening it."""

import threading
from dataclasses import dataclass
from secrets import token_hex

import orjson

from factmem.errors import KeyRequiredError, StorageError, TamperedError
from factmem.providers._postgres import schema
from factmem.providers._postgres.driver import Session, is_state
from factmem.providers._postgres.sealing import PlainSealing, RingSealing, Sealing
from factmem.storage.encryption.aes256gcm import Encryption, KeySlot
from factmem.storage.encryption.ring import KeyRing

_IDLE = "30s"
"""How long a process that hangs inside a transaction keeps a place locked."""

PLAIN, SEALED = "plain", "aes-256-gcm"


@dataclass(frozen=True, slots=True, repr=False)
class OpenStore:
    """A store whose mode and keys are known."""

    number: int
    id: str
    mode: str
    sealing: Sealing
    anchors: int
    """How many anchors had been taken of it when it was read."""


@dataclass(frozen=True, slots=True, repr=False)
class StoreRow:
    """A store's row as it is in the database."""

    number: int
    id: str
    mode: str
    slots: list[KeySlot]
    generation: int
    anchors: int


class Opening:
    """Finds a store, and makes it at the first write. Safe for threads.

    Args:
        name: The name of the store.
        encryption: What wraps its key ring; None for a store in the clear.
        role: The role that each connection takes.
    """

    def __init__(self, name: str, encryption: Encryption | None, role: str | None) -> None:
        self.name = name
        self.encryption = encryption
        self.role = role
        self.start_afresh()

    def start_afresh(self) -> None:
        """Forget what was opened; in a forked child the lock may be held by no thread."""
        self._lock = threading.Lock()
        self._open: OpenStore | None = None

    def prepare(self, session: Session, lock_seconds: float) -> None:
        """Configure a new connection, so that it sees this store and no other."""
        number = "-1" if self._open is None else str(self._open.number)
        settings = {
            "factmem.name": self.name,
            "factmem.store": number,
            "lock_timeout": str(int(lock_seconds * 1000)),
            "idle_in_transaction_session_timeout": _IDLE,
        }
        session.configure(settings if self.role is None else {**settings, "role": self.role})

    @property
    def known(self) -> OpenStore | None:
        """The store, if it was found already."""
        return self._open

    def found(self, session: Session) -> OpenStore | None:
        """Return the store, or None where nothing was saved in it yet."""
        opened = self._open
        if opened is None:
            with self._lock:
                opened = self._open = self._open or self._opened(session)
        if opened is not None and session.store != opened.number:
            session.configure({"factmem.store": str(opened.number)})
            session.store = opened.number
        return opened

    def made(self, session: Session) -> OpenStore:
        """Return the store; make the tables and its row where they are missing."""
        found = self.found(session)
        if found is not None:
            return found
        if schema.found_version(session) < schema.LATEST:
            self.migrate(session)
        session.rows(
            "INSERT INTO factmem.stores (name, id, mode, slots, generation) "
            "VALUES (%s, %s, %s, %s, 1) ON CONFLICT (name) DO NOTHING",
            [self.name, *self._new_row()],
        )
        found = self.found(session)
        assert found is not None  # noqa: S101 - it was there, or was inserted
        return found

    def is_prepared(self, session: Session) -> bool:
        """Whether there are tables, in which a store can be made without more rights."""
        return self.found(session) is not None or schema.found_version(session) > 0

    def migrate(self, session: Session) -> None:
        """Bring the tables to the latest version, as the role that logged in."""
        if self.role is not None:
            session.configure({"role": "none"})
        schema.migrate(session, self.role)
        if self.role is not None:
            session.configure({"role": self.role})

    def reload(self) -> None:
        """Have the next call read the row again: another process changed its keys."""
        with self._lock:
            self._open = None

    def row(self, session: Session, *, lock: str = "") -> StoreRow | None:
        """Return the store's row, locked where `lock` says FOR UPDATE or FOR SHARE."""
        rows = session.rows(
            f"SELECT store, id, mode, slots, generation, anchors FROM factmem.stores WHERE name = %s {lock}",  # noqa: S608 - two constants
            [self.name],
        )
        if not rows:
            return None
        number, store_id, mode, slots, generation, anchors = rows[0]
        return StoreRow(number, store_id, mode, orjson.loads(slots), generation, anchors)

    def ring(self, row: StoreRow) -> tuple[KeyRing, str]:
        """Return the key ring of a sealed store, and the id of the slot that it was in."""
        if self.encryption is None:
            raise KeyRequiredError("The store is encrypted: open it with encryption=")
        unwrapped = self.encryption.unwrap(row.slots, row.id)
        return KeyRing.load(unwrapped.ring), unwrapped.kid

    def _opened(self, session: Session) -> OpenStore | None:
        version = schema.found_version(session)
        schema.check_version(version)
        if 0 < version < schema.LATEST:
            self._migrate_forward(session, version)
        row = None if version == 0 else self.row(session)
        if row is None:
            return None
        if row.mode == SEALED:
            sealing: Sealing = RingSealing(row.id, self.ring(row)[0])
        elif self.encryption is not None:
            raise TamperedError(
                "The store is not encrypted, and encryption= was given: either its row was "
                "replaced, or it was made without. Open it without, or move its facts to an "
                "encrypted store by export_facts and import_facts"
            )
        else:
            sealing = PlainSealing(row.id)
        return OpenStore(row.number, row.id, row.mode, sealing, row.anchors)

    def _migrate_forward(self, session: Session, version: int) -> None:
        """Update tables of an earlier release, which this one could not even read."""
        try:
            self.migrate(session)
        except Exception as exc:
            if not is_state(exc, "42501"):
                raise
            raise StorageError(
                f"The tables in the database have version {version}, this release needs "
                f"{schema.LATEST}, and its role must not change them: call migrate() as their "
                f"owner. Nothing was read or written"
            ) from None

    def _new_row(self) -> tuple[str, str, str]:
        made = token_hex(16)
        if self.encryption is None:
            return made, PLAIN, "[]"
        slot = self.encryption.wrap(KeyRing.new().dump(), made)
        return made, SEALED, orjson.dumps([slot]).decode()
