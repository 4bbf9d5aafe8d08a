"""The keys of an encrypted store: opening it, and adding, removing and rotating keys."""

from dataclasses import replace
from typing import Any

from factmem.errors import TamperedError, WrongKeyError
from factmem.storage._folder import JournalFolder
from factmem.storage._journal import Damage
from factmem.storage._listing import NameFiles, each_file, reported
from factmem.storage._plain_codec import Codec
from factmem.storage._sealed_codec import SealedCodec
from factmem.storage.base import Progress
from factmem.storage.encryption.aes256gcm import Encryption, KeySlot
from factmem.storage.encryption.ring import KeyRing
from factmem.storage.simple import corrupt

_MOST_CLOSED = 16
"""The number of removed keys that are remembered, so that a removal can be repeated."""

_IN_A_SLOT = ("kid", "wrap")


class SealedMode:
    """The mode of an encrypted store."""

    name = "aes-256-gcm"
    is_sealed = True

    def __init__(self, encryption: Encryption) -> None:
        self.encryption = encryption

    def new_manifest(self, store: str) -> dict[str, Any]:
        """See `Mode.new_manifest`."""
        return {"slots": [self.encryption.wrap(KeyRing.new().dump(), store)]}

    def ring(self, manifest: dict[str, Any]) -> tuple[KeyRing, str]:
        """Return the key ring, and the id of the slot that it was in."""
        unwrapped = self.encryption.unwrap(_slots(manifest), manifest["store"])
        return KeyRing.load(unwrapped.ring), unwrapped.kid

    def codec(self, manifest: dict[str, Any]) -> Codec:
        """See `Mode.codec`."""
        return SealedCodec(manifest["store"], self.ring(manifest)[0])

    def refusal(self, path: str) -> Exception:
        """See `Mode.refusal`."""
        return TamperedError(
            f"The store of {path!r} is not encrypted, but EncryptedStorage was passed: either "
            f"another program replaced it, or it was created with SimpleStorage. Open it with "
            f"SimpleStorage, or move its facts to an encrypted store by export_facts and import_facts"
        )

    def error_of(self, damage: Damage, path: str) -> Exception:
        """See `Mode.error_of`."""
        if not damage.is_forged:
            return corrupt(damage, path)
        return TamperedError(
            f"The journal {path!r} does not verify, {damage}: it was changed, swapped or put back "
            f"to an older copy. Nothing was changed: restore it from a backup, or keep the readable "
            f"records with salvage()"
        )


def _slots(manifest: dict[str, Any]) -> list[KeySlot]:
    slots = manifest.get("slots")
    if isinstance(slots, list) and all(map(_is_slot, slots)):
        return slots
    raise TamperedError("The key slots in factmem.json are damaged: restore the file from a backup")


def _is_slot(slot: object) -> bool:
    return isinstance(slot, dict) and all(isinstance(slot.get(each), str) for each in _IN_A_SLOT)


def _closed(slot: KeySlot) -> KeySlot:
    return {**slot, "wrap": ""}


class StoreKeys:
    """Changes the keys of one store; see `factmem.storage.base.KeySlots` for the contract."""

    def __init__(self, folder: JournalFolder, mode: SealedMode) -> None:
        self._folder = folder
        self._mode = mode

    def ids(self) -> list[str]:
        """See `KeySlots.ids`."""
        self._folder.codec()
        return [slot["kid"] for slot in self._slots()]

    def add(self, encryption: Encryption) -> None:
        """See `KeySlots.add`."""
        self._folder.check_made()
        with self._folder.exclusive():
            ring, _ = self._opened()
            slot = encryption.wrap(ring.dump(), self._store())
            kid = slot["kid"]
            others = [each for each in self._slots() if each["kid"] != kid]
            self._write([*others, slot], [each for each in self._closed() if each["kid"] != kid])

    def remove(self, encryption: Encryption) -> None:
        """See `KeySlots.remove`."""
        self._folder.check_made()
        with self._folder.exclusive():
            self._opened()
            try:
                kid = encryption.unwrap(self._slots(), self._store()).kid
            except WrongKeyError:
                # The process that removed it may have died before that was durable.
                with self._folder.errors.of(None):
                    self._folder.manifest.settle()
                if self._is_closed(encryption):
                    return
                raise
            others = [each for each in self._slots() if each["kid"] != kid]
            if not others:
                raise ValueError("The last key of a store cannot be removed: add another one first")
            removed = [each for each in self._slots() if each["kid"] == kid]
            self._write(others, [*map(_closed, removed), *self._closed()][:_MOST_CLOSED])

    def rotate(
        self, encryption: Encryption, *, rewrite: bool = True, progress: Progress | None = None
    ) -> None:
        """See `KeySlots.rotate`."""
        self._folder.check_made()
        with self._folder.locked():
            ring, kid = self._opened_by(encryption)
            if not rewrite:
                others = [each for each in self._slots() if each["kid"] != kid]
                self._rewrap(encryption, ring, others)
                return
            is_unfinished = self._is_any_outdated(ring)
            was_begun = kid in self._ids_of(encryption)
        if is_unfinished:
            self._reseal_all(progress)
        if not (is_unfinished and was_begun):
            with self._folder.exclusive():
                ring, _ = self._opened()
                self._rewrap(encryption, ring.with_new_generation(), [])
            self._reseal_all(progress)
        self._forget_old_generations(encryption)

    def _opened(self) -> tuple[KeyRing, str]:
        self._folder.codec()
        return self._mode.ring(self._folder.manifest.fields)

    def _opened_by(self, encryption: Encryption) -> tuple[KeyRing, str]:
        """Return the ring, also if only the new key opens it because a rotation was interrupted."""
        try:
            return self._opened()
        except WrongKeyError:
            before, self._mode.encryption = self._mode.encryption, encryption
            try:
                return self._opened()
            except BaseException:
                self._mode.encryption = before
                raise

    def _ids_of(self, encryption: Encryption) -> set[str]:
        try:
            return {encryption.unwrap(self._slots(), self._store()).kid}
        except WrongKeyError:
            return set()

    def _store(self) -> str:
        store: str = self._folder.manifest.fields["store"]
        return store

    def _slots(self) -> list[KeySlot]:
        slots: list[KeySlot] = self._folder.manifest.fields["slots"]
        return slots

    def _closed(self) -> list[KeySlot]:
        """Return the slots of removed keys, without their wrapped rings."""
        found: list[KeySlot] = self._folder.manifest.fields.get("closed", [])
        return [each for each in found if _is_slot(each)]

    def _is_closed(self, encryption: Encryption) -> bool:
        """Return whether a key was removed from the store."""
        try:
            encryption.unwrap(self._closed(), self._store())
        except TamperedError:  # its slot exists, and is empty
            return True
        except WrongKeyError:
            pass
        return False

    def _write(self, slots: list[KeySlot], closed: list[KeySlot] | None = None) -> None:
        fields = self._folder.manifest.fields
        if closed is not None:
            fields = {**fields, "closed": closed}
        with self._folder.errors.of(None):
            self._folder.manifest.write({**fields, "slots": slots})

    def _rewrap(self, encryption: Encryption, ring: KeyRing, others: list[KeySlot]) -> None:
        slots = [encryption.wrap(ring.dump(), self._store()), *others]
        # Other threads see the new file only together with the key that opens it.
        with self._folder.manifest.opening:
            self._write(slots)
            self._mode.encryption = encryption
        self._folder.codec()

    def _is_any_outdated(self, ring: KeyRing) -> bool:
        """Return whether any journal is sealed with an older data key; under the lock."""
        codec = SealedCodec(self._store(), ring)
        files = each_file(self._folder.reader, codec)
        return any(self._is_outdated(codec, file, ring) for file in files)

    def _is_outdated(self, codec: SealedCodec, file: str, ring: KeyRing) -> bool:
        return codec.generation_in(self._folder.reader.first_line(file)) != ring.generation

    def _reseal_all(self, progress: Progress | None) -> None:
        """Rewrite journals under older data keys, one at a time."""
        with self._folder.exclusive():
            ring, _ = self._opened()
            codec = SealedCodec(self._store(), ring)
            with self._folder.errors.of(None):
                NameFiles(self._folder.files).remove_all(codec)
        for file in reported(self._folder.reader, codec, progress):
            with self._folder.exclusive() as writer:
                ring, _ = self._opened()
                codec = SealedCodec(self._store(), ring)
                # It may have been erased meanwhile.
                if self._folder.reader.has_journal(file) and self._is_outdated(codec, file, ring):
                    writer.reseal(file)

    def _forget_old_generations(self, encryption: Encryption) -> None:
        with self._folder.exclusive():
            ring, kid = self._opened()
            if len(ring.generations) == 1 or self._is_any_outdated(ring):
                return
            ring = replace(ring, generations={ring.generation: ring.generations[ring.generation]})
            others = [each for each in self._slots() if each["kid"] != kid]
            self._rewrap(encryption, ring, others)
