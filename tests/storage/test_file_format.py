"""The files follow docs/file-format.md: a reader written from that page alone reads them.

It uses nothing of factmem, so a change of the format that forgets the page fails here.
"""

import base64
import hashlib
import hmac
import json
import struct
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

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
    SingleFact,
    SourceKind,
)
from factmem.storage import Storage

CITY = Concept("city", "Where the user lives")
SNACKS = Concept("snacks", "What the user eats", FactType.MULTIPLE)
NUMBER = Concept("number", "A large one", value_type=int)
ANN = MemorySubject("user", "The user", 1, per_entity=True).of("Ann 안")
APP = MemoryScope.Product("My App!")
NAME = ["product", "My App!", "user", "Ann 안"]
SAID = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOURCE = FactSource(SourceKind.USER, conversation="chat-1", message=3, quote="in Busan")


async def write(folder: Path, storage: Storage | None = None) -> None:
    """Write a journal that was appended to, rewritten by a purge, and appended to again."""
    async with LocalFileMemoryProvider(folder, storage=storage) as store:
        city = SingleFact(CITY, "Seoul", id="one", timestamp=SAID)
        await store.save(city, ANN, APP)
        snacks = MultipleFacts(SNACKS, ("김밥", "nuts", "tea"), id="two", timestamp=SAID)
        city = SingleFact(CITY, "Busan", id="three", timestamp=SAID, importance=1, source=SOURCE)
        await store.save_many([snacks, city], ANN, APP)
        await store.forget(ANN, APP, concept=SNACKS, value="nuts", purge=True)
        wide = SingleFact(NUMBER, 2**70, id="four", timestamp=SAID, expires_at=SAID)
        await store.save(wide, ANN, APP)


EXPECTED = [
    {
        "id": "one",
        "keyword": "city",
        "description": "Where the user lives",
        "type": "SINGLE",
        "timestamp": "2026-03-01T12:00:00.000000Z",
        "value": "Seoul",
    },
    {
        "id": "two",
        "keyword": "snacks",
        "description": "What the user eats",
        "type": "MULTIPLE",
        "timestamp": "2026-03-01T12:00:00.000000Z",
        "values": ["김밥", "tea"],
        "positions": [0, 2],
    },
    {
        "id": "three",
        "keyword": "city",
        "description": "Where the user lives",
        "type": "SINGLE",
        "timestamp": "2026-03-01T12:00:00.000000Z",
        "value": "Busan",
        "importance": 1.0,
        "source": {"kind": "user", "conversation": "chat-1", "message": 3, "quote": "in Busan"},
    },
    {
        "id": "four",
        "keyword": "number",
        "description": "A large one",
        "type": "SINGLE",
        "timestamp": "2026-03-01T12:00:00.000000Z",
        "value": 2**70,
        "expires_at": "2026-03-01T12:00:00.000000Z",
    },
]


def compact(value: object) -> bytes:
    """Encode JSON as the page defines its bytes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def lines_of(file: Path) -> tuple[bytes, list[bytes]]:
    header, *records, rest = file.read_bytes().split(b"\n")
    assert rest == b""
    return header, records


def marked(folder: Path, journal: bytes, made: int) -> tuple[str, bytes]:
    """Check the first line of the one end mark, and return its tag and its second line."""
    [file] = (folder / "ends").iterdir()
    [journal_file] = (folder / "journals").iterdir()
    assert file.name == f"{journal_file.stem}.end"
    first, [line] = lines_of(file)
    head = verified(first, 0)
    assert head.keys() == {"journal", "made", "tag"}
    assert head["journal"] == hashlib.sha256(journal + b"\n").hexdigest()
    assert head["made"] == made
    return head["tag"], line


def checked(header: dict[str, Any], records: list[dict[str, Any]]) -> list[Any]:
    """Check numbers and marks, and return all facts in their order."""
    assert header["factmem"] == 2
    numbers = [record["n"] for record in records]
    assert numbers == sorted(set(numbers))
    snapshot = [number for number in numbers if number < header["next"]]
    assert len(snapshot) == header["snap"]
    assert numbers[len(snapshot) :] == [header["next"]]
    times = [record["at"] for record in records if "at" in record]
    assert times == sorted(times)
    assert records[-1]["wide"] is True
    facts = [fact for record in records for fact in record.get("facts", ())]
    assert sum("description" in fact for fact in facts) < len(facts)
    last: dict[str, str] = {}
    for fact in facts:
        last[fact["keyword"]] = fact.setdefault("description", last.get(fact["keyword"]))
    return facts


def read_plain(folder: Path) -> list[Any]:
    """Read the only journal of a plain store."""
    manifest = json.loads((folder / "factmem.json").read_bytes())
    expected = {"factmem": 2, "erased": 1, "made": 64, "mode": "plain", "store": ""}
    assert {**manifest, "store": ""} == expected
    assert len(bytes.fromhex(manifest["store"])) == 16
    [file] = (folder / "journals").iterdir()
    digest = hashlib.sha256(compact(NAME)).hexdigest()[:20]
    assert file.name == f"product-my-app-user-ann-{digest}.jsonl"

    first, rest = lines_of(file)
    header = verified(first, 0)
    assert header["place"] == NAME
    assert 1 < header["made"] <= 64
    records = [verified(line, zlib.crc32(first)) for line in rest]
    tag, mark = marked(folder, first, header["made"])
    assert rest[-1].endswith(f',"crc":"{bytes.fromhex(tag).decode()}"}}'.encode())
    assert verified(mark, zlib.crc32(first)) == {"n": records[-1]["n"], "end": True}
    return checked(header, records)


def verified(line: bytes, seed: int) -> dict[str, Any]:
    body, _, end = line.rpartition(b',"crc":"')
    assert end == b'%08x"}' % zlib.crc32(body, seed)
    fields: dict[str, Any] = json.loads(line)
    fields.pop("crc")
    return fields


def read_sealed(folder: Path, key: bytes) -> list[Any]:
    """Read the only journal of an encrypted store with the 32 bytes of a slot's key."""
    manifest = json.loads((folder / "factmem.json").read_bytes())
    ring = ring_of(manifest, key)
    [file] = (folder / "journals").iterdir()
    names = bytes.fromhex(ring["names"])
    assert file.name == hmac.new(names, compact(NAME), "sha256").hexdigest()[:40] + ".fmj"

    first, rest = lines_of(file)
    header = json.loads(first)
    mac = header.pop("mac")
    info = b"factmem/1/file\0" + bytes.fromhex(manifest["store"]) + file.name.encode() + b"\0"
    data_key = bytes.fromhex(ring["gens"][str(header["gen"])])
    okm = hkdf(data_key, bytes.fromhex(header["id"]), info + compact(header), 48)
    assert okm[32:].hex() == mac
    named, *records = unsealed(rest, okm[:32], okm[32:])
    assert named == {"n": 0, "place": NAME}
    tag, mark = marked(folder, first, header["made"])
    [end] = unsealed([mark], okm[:32], bytes.fromhex(tag))
    assert end == {"n": records[-1]["n"], "end": True}
    assert base64.b64decode(rest[-1])[-16:].hex() == tag
    return checked({**header, "snap": header["snap"] - 1}, records)


def ring_of(manifest: dict[str, Any], key: bytes) -> dict[str, Any]:
    okm = hkdf(key, bytes.fromhex(manifest["store"]), b"factmem/1/kek", 40)
    [slot] = [slot for slot in manifest["slots"] if slot["kid"] == okm[32:].hex()]
    wrap = base64.b64decode(slot["wrap"], validate=True)
    aad = f"factmem/1/slot {manifest['store']} {slot['kid']}".encode()
    ring: dict[str, Any] = json.loads(AESGCM(okm[:32]).decrypt(wrap[:12], wrap[12:], aad))
    return ring


def unsealed(lines: list[bytes], key: bytes, tag: bytes) -> Iterator[dict[str, Any]]:
    for line in lines:
        raw = base64.b64decode(line, validate=True)
        number, previous = struct.unpack(">Q16s", raw[:24])
        assert previous == tag
        tag = raw[-16:]
        text = AESGCM(key).decrypt(raw[24:36], raw[36:], raw[:24])
        assert len(text) % 64 == 0
        is_end = text.rstrip(b" ") == b"[end]"
        yield {"n": number, **({"end": True} if is_end else json.loads(text))}


def hkdf(key: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt, info).derive(key)


async def test_a_plain_store_reads_as_specified(tmp_path: Path) -> None:
    """It takes only a JSON parser and a CRC."""
    await write(tmp_path)

    assert read_plain(tmp_path) == EXPECTED


async def test_an_encrypted_store_reads_as_specified(tmp_path: Path) -> None:
    """It takes only the key and standard primitives."""
    key = Key.generate()
    await write(tmp_path, EncryptedStorage(Aes256GCMEncryptor(key)))

    assert read_sealed(tmp_path, base64.urlsafe_b64decode(key.to_base64())) == EXPECTED


async def test_a_passphrase_reads_as_specified(tmp_path: Path) -> None:
    """The slot says how to derive the key; a ligature counts as its letters."""
    key = Key.from_passphrase("\N{LATIN SMALL LIGATURE FI}nd a horse", cost="interactive")
    await write(tmp_path, EncryptedStorage(Aes256GCMEncryptor(key)))

    [slot] = json.loads((tmp_path / "factmem.json").read_bytes())["slots"]
    kdf = slot["kdf"]
    assert kdf["name"] == "argon2id"
    stretched = Argon2id(
        salt=base64.b64decode(kdf["salt"]),
        length=32,
        iterations=kdf["t"],
        memory_cost=kdf["m"],
        lanes=kdf["p"],
    ).derive(b"find a horse")

    assert read_sealed(tmp_path, stretched) == EXPECTED
