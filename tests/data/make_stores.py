"""Make the frozen stores of one format version, once: `python -m tests.data.make_stores`.

They are read by every later version for ever, so this writes over nothing that is there. The key
and the passphrase are public: nothing in these stores is secret.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio

from factmem import (
    Aes256GCMEncryptor,
    Concept,
    EncryptedStorage,
    FactSource,
    FactType,
    Key,
    LocalFileMemoryProvider,
    MemoryScope,
    MemorySubject,
    MultipleFacts,
    SimpleStorage,
    SingleFact,
    SourceKind,
)
from factmem.storage import Storage

STORES = Path(__file__).parent
FOLDER = STORES / "format-2"
"""The stores of the current format; those of older formats are beside it.

The stores named `marked` have end marks beside their journals, the others in them."""

STORE_NAMES = [
    "plain",
    "plain-compacted",
    "plain-torn",
    "plain-abridged",
    "plain-marked",
    "encrypted",
    "encrypted-compacted",
    "encrypted-torn",
    "encrypted-abridged",
    "encrypted-marked",
    "passphrase",
]

KEY = Key.from_base64("A" * 43 + "=")
PASSPHRASE = "correct horse battery staple"

USER = MemorySubject("user", "The user", 1, per_entity=True)
ALICE = USER.of("alice")
PRODUCT = MemoryScope.Product("my-app")
CITY = Concept("city", "Where the user lives")
LANGUAGES = Concept("languages", "What the user speaks", FactType.MULTIPLE)
NUMBER = Concept("number", "A number beyond 64 bits", value_type=int)
SAID = datetime(2026, 5, 17, 12, 30, tzinfo=UTC)


class _Clock:
    """Every reading is a second later."""

    def __init__(self) -> None:
        self._now = datetime(2026, 5, 17, 13, tzinfo=UTC)

    def __call__(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now


async def fill(
    folder: Path, storage: Storage, *, is_compacted: bool = False, is_read: bool = False
) -> None:
    """Make one store: replaced, added, confirmed and forgotten values in two places.

    A writer that has read the place leaves out descriptions that stand there.
    """
    source = FactSource(SourceKind.USER, "chat-1", 3, "부산으로 이사했어요", "a-model")
    async with LocalFileMemoryProvider(folder, storage=storage, clock=_Clock()) as store:
        await store.save(SingleFact(CITY, "Seoul", timestamp=SAID, id="1"), ALICE, PRODUCT)
        if is_read:
            await store.load_all(ALICE, PRODUCT)
        await store.save(
            SingleFact(CITY, "Busan", timestamp=SAID, id="2", source=source, importance=0.9),
            ALICE,
            PRODUCT,
        )
        many = MultipleFacts(LANGUAGES, ["Korean", "English", "日本語"], timestamp=SAID, id="3")
        await store.save_many(
            [many, SingleFact(NUMBER, 2**70, timestamp=SAID, id="4")], ALICE, PRODUCT
        )
        await store.save(
            MultipleFacts(LANGUAGES, ["English"], timestamp=SAID, id="5"), ALICE, PRODUCT
        )
        await store.forget(ALICE, PRODUCT, concept=LANGUAGES, value="日本語")
        other = MemoryScope.CrossProduct()
        await store.save(
            SingleFact(CITY, "everywhere", timestamp=SAID, id="6"), MemorySubject.EVERYTHING, other
        )
        if is_compacted:
            await store.compact(ALICE, PRODUCT)


async def main() -> None:
    """Make those that are not there."""
    sealed = EncryptedStorage(Aes256GCMEncryptor(KEY))
    passphrase = EncryptedStorage(
        Aes256GCMEncryptor(Key.from_passphrase(PASSPHRASE, cost="interactive"))
    )
    kinds: dict[str, Storage] = {"plain": SimpleStorage(), "encrypted": sealed}
    for name in STORE_NAMES:
        if (FOLDER / name).exists():
            continue
        kind, _, state = name.partition("-")
        storage = kinds.get(kind, passphrase)
        await fill(
            FOLDER / name,
            storage,
            is_compacted=state == "compacted",
            is_read=state == "abridged",
        )
        if state == "torn":
            for file in (FOLDER / name / "journals").iterdir():
                lines = file.read_bytes().split(b"\n")
                file.write_bytes(b"\n".join(lines) + lines[-3][: len(lines[-3]) // 2])


if __name__ == "__main__":
    anyio.run(main)
