"""What a device knows of a shared folder, and the entries of its files as bundles."""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple, TypeAlias

import orjson

from factmem.ledger.entries import Entry, encoded_entry
from factmem.models.places import Identity
from factmem.providers.conversations import conversation_of, identity_in, owner_of
from factmem.transfer.bundle import BundleReader, BundleWriter

CHUNK = 8 * 1024 * 1024
"""About the most bytes of a bundle in one file; file services send a changed file whole."""

Digests: TypeAlias = str
"""The digests of entries one after the other, as a JSON parser is slow with many strings."""
_DIGEST = 12
"""The characters of one: 72 bits."""


class Sent(NamedTuple):
    """What this device has published of a place."""

    identity: Identity
    digests: Digests = ""
    """Of the entries in its own files."""
    last: str = ""
    """When the last entry of the place was recorded."""
    state: str = ""
    """The state of the place in the store: while it has this one, it is not read."""
    keys: Digests = ""
    """Of a conversation, the keys of its messages in the store."""


@dataclass
class Known:
    """What this device has read and written; the file `state.json`."""

    device: str = field(default_factory=lambda: token_hex(8))
    key: str = ""
    serial: int = 0
    own: dict[str, list[int]] = field(default_factory=dict)
    """Its files, each with its size and time."""
    receipt: str | None = None
    """The one of them that only says what was read."""
    removed_at: int = 0
    """The serial of the last files from which something was removed."""
    wanted: list[str] | None = None
    """The only places that were synced."""
    concepts: list[Any] = field(default_factory=list)
    """The definitions in its files."""
    read: dict[str, dict[str, dict[str, Digests]]] = field(default_factory=dict)
    """The entries in the files that were read, by device, file and place."""
    latest: dict[str, tuple[int, list[str], str]] = field(default_factory=dict)
    """The last serial of each device, the files that it had then, and the time."""
    places: dict[str, Sent] = field(default_factory=dict)
    erased: dict[str, tuple[Identity, str, str]] = field(default_factory=dict)
    """The time of the last erasure of each place, and when this device learnt of it."""
    chats: bool = False
    """Whether conversations are synced, too."""
    marks: dict[str, Digests] = field(default_factory=dict)
    """The keys of removed messages, by place."""
    seen_by: dict[str, int] = field(default_factory=dict)
    """The last serial of this device that each other one has read."""

    @classmethod
    def load(cls, path: Path) -> "tuple[Known, bytes]":
        """Return the state and its text; a new device if there is none, or a damaged one."""
        try:
            text = path.read_bytes()
            known = cls(**orjson.loads(text))
            known.places = {
                name: Sent(identity_of(name), *rest) for name, (_, *rest) in known.places.items()
            }
        except (FileNotFoundError, ValueError, TypeError):
            return cls(), b""
        return known, text

    def theirs(self, place: str) -> frozenset[str]:
        """Return the digests of a place in the files of others."""
        files = (found for files in self.read.values() for found in files.values())
        return frozenset(each for found in files for each in cut(found.get(place, "")))


def name_of(identity: Sequence[str | None]) -> str:
    return orjson.dumps(identity).decode()


MARKS = ""
"""The id of the conversation that has the keys of a place's removed messages."""


def chat_of(identity: Identity) -> str | None:
    """Return the id of a conversation; None for the facts of a place."""
    named = conversation_of(identity)
    return None if named is None else named[1]


def owner_name(name: str) -> str:
    """Return the name of the place that a conversation belongs to, or of the place itself."""
    return name_of(owner_of(identity_of(name)))


def identity_of(name: str) -> Identity:
    kind, scope, subject, entity = orjson.loads(name)
    return kind, scope, subject, entity


def cut(digests: Digests) -> list[str]:
    return [digests[at : at + _DIGEST] for at in range(0, len(digests), _DIGEST)]


def parts_of(bundle: bytes) -> list[tuple[Identity, list[Entry], list[str]]]:
    """Return the places of a bundle, each with its entries and their digests.

    A file that opens was written by a device with the key, and what that has in its store is valid.
    """
    reader = BundleReader(BytesIO(bundle), is_verified=True)
    reader.read_header()
    found: list[tuple[Identity, list[Entry], list[str]]] = []
    while (part := reader.read_part()) is not None:
        entries = [reader.read_entry() for _ in range(part.lines)]
        identity, chat = part.place.identity, part.conversation
        identity = identity if chat is None else identity_in(identity, chat)
        found.append((identity, entries, digests_of(entries)))
    return found


def digests_of(entries: Iterable[Entry]) -> list[str]:
    """Return a digest of each entry; where it stands among those of its time may change."""
    found: list[str] = []
    for entry in entries:
        rest: Any = entry
        if "tie" in entry or "number" in entry:
            rest = {name: part for name, part in entry.items() if name not in {"tie", "number"}}
        body = encoded_entry(rest) + entry["at"].encode()
        found.append(b64encode(blake2b(body, digest_size=9).digest()).decode())
    return found


def bundles_of(new: Sequence[tuple[Identity, list[Entry]]], now: str) -> Iterator[bytes]:
    """Yield the entries as bundles of about `CHUNK` bytes."""
    file = BytesIO()
    writer = BundleWriter(file)
    writer.write_header(now, history=True)
    for identity, entries in new:
        start = 0
        while start < len(entries):
            size, end = 0, start
            while end < len(entries) and size < CHUNK - writer.bytes:
                size += len(encoded_entry(entries[end]))
                end += 1
            end = max(end, start + 1)
            # Those of one time stay together, so that the next file only has later ones.
            while end < len(entries) and entries[end]["at"] == entries[end - 1]["at"]:
                end += 1
            writer.write_place(identity, entries[start:end])
            start = end
            if writer.bytes >= CHUNK:
                writer.write_end()
                yield file.getvalue()
                file = BytesIO()
                writer = BundleWriter(file)
                writer.write_header(now, history=True)
    if writer.entries:
        writer.write_end()
        yield file.getvalue()
