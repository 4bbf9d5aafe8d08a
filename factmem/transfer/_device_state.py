"""The state of a device, the entries in its files, and the merging of conversations."""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple, TypeAlias

import orjson

from factmem.ledger._merging import numbered
from factmem.ledger._purging import REMOVED
from factmem.ledger.entries import Entry, encoded_entry
from factmem.models.places import Identity, Place
from factmem.models.when import moment, stamp
from factmem.providers.conversations import conversation_of, identity_in
from factmem.transfer.bundle import BundleReader, BundleWriter

_CHUNK = 8 * 1024 * 1024
"""About the most bytes of a bundle in one file; file services send a changed file whole."""

Digests: TypeAlias = str
"""The digests of entries, concatenated because a JSON parser is slow with many strings."""
_DIGEST, KEY = 16, 10
"""The characters of a digest, 96 bits, and of the key of a message, which begins it."""


@dataclass
class Known:
    """What this device has read and written, as in the file `state.json`."""

    device: str = field(default_factory=lambda: token_hex(8))
    key: str = ""
    serial: int = 0
    own: dict[str, list[int]] = field(default_factory=dict)
    """The size and time of each of its files."""
    files: dict[str, dict[str, Digests]] = field(default_factory=dict)
    """The entries in its own files and in files that it has read, by file and place."""
    removed_at: int = 0
    """The serial of the last files from which something was removed."""
    wanted: list[str] | None = None
    """The only places that were synced."""
    chats: bool = False
    """Whether conversations are synced, too."""
    concepts: list[Any] = field(default_factory=list)
    """The definitions in its files."""
    latest: dict[str, tuple[int, list[str], str]] = field(default_factory=dict)
    """The last serial of each other device, its files at that time, and the time."""
    seen_by: dict[str, int] = field(default_factory=dict)
    """The last serial of this device that each other device has read."""
    places: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The state of each place in the store, which is not read while it has this one, and when its
    last entry was recorded."""
    erased: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The time of the last erasure of each place, and when this device learnt of it."""
    marks: dict[str, set[str]] = field(default_factory=dict)
    """The keys of removed messages, by place."""

    @classmethod
    def load(cls, path: Path) -> "tuple[Known, bytes]":
        """Return the state and its text; a new device if there is none, or a damaged one."""
        try:
            text = path.read_bytes()
            known = cls(**orjson.loads(text))
            known.marks = {name: {*each} for name, each in known.marks.items()}
        except (FileNotFoundError, ValueError, TypeError):
            return cls(), b""
        return known, text

    def held(self, place: str) -> set[str]:
        """Return the digests of a place in all files."""
        return {each for found in self.files.values() for each in cut(found.get(place, ""))}


class Where(NamedTuple):
    """The place or conversation of a name."""

    owner: str
    """The name of the place."""
    place: Place
    chat: str | None
    """The id of the conversation; None for the facts of the place."""


MARKS = ""
"""The id of the conversation that has the keys of a place's removed messages."""


def name_of(identity: Sequence[str | None]) -> str:
    return orjson.dumps(identity).decode()


def _identity_of(name: str) -> Identity:
    kind, scope, subject, entity = orjson.loads(name)
    return kind, scope, subject, entity


@lru_cache(10_000)
def where(name: str) -> Where:
    """Return the place or conversation of a name that `name_of` made."""
    identity = _identity_of(name)
    owner, chat = conversation_of(identity) or (identity, None)
    return Where(name_of(owner), Place.of_identity(owner), chat)


def cut(digests: Digests) -> list[str]:
    return [digests[at : at + _DIGEST] for at in range(0, len(digests), _DIGEST)]


@dataclass
class Part:
    """Entries of a place or of a conversation, each with its digest."""

    name: str
    entries: list[Any] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    state: str = ""
    is_whole: bool = True
    """Whether these are all of its entries, and not only those since the last sync."""

    def __post_init__(self) -> None:
        self.last: str = self.entries[-1]["at"] if self.entries else ""

    @classmethod
    def of(cls, name: str, entries: list[Any], state: str = "") -> "Part":
        """Compute digests, without the numbers of entries of one time, which may change."""
        return cls(name, entries, [_digest_of(name, entry) for entry in entries], state)

    @property
    def keys(self) -> set[str]:
        """The keys of messages."""
        return {digest[:KEY] for digest in self.digests}


def parts_of(bundle: bytes) -> list[Part]:
    """Return the places of a bundle.

    A file that decrypts was written by a device with the key, so its entries are valid.
    """
    reader = BundleReader(BytesIO(bundle), is_verified=True)
    reader.read_header()
    found: list[Part] = []
    while (part := reader.read_part()) is not None:
        entries = [reader.read_entry() for _ in range(part.lines)]
        identity, chat = part.place.identity, part.conversation
        name = name_of(identity if chat is None else identity_in(identity, chat))
        found.append(Part.of(name, entries))
    return found


def marks_of(owner: str, marks: set[str]) -> Part:
    """Return the keys of the removed messages of a place as entries."""
    name = name_of(identity_in(_identity_of(owner), MARKS))
    return Part.of(name, [{"at": "", "gone": mark} for mark in sorted(marks)])


def _digest_of(name: str, entry: Any) -> Digests:
    if "gone" in entry:
        return str(entry["gone"]).ljust(_DIGEST, "-")
    key = key_of(name, entry) if "turn" in entry else ""
    if "tie" in entry or "number" in entry:
        entry = {each: part for each, part in entry.items() if each not in {"tie", "number"}}
    return key + _digest(encoded_entry(entry) + entry["at"].encode(), _DIGEST - len(key))


def key_of(name: str, entry: Any) -> str:
    """Return the key of a message, which reveals nothing about it."""
    return _digest(f"{name} {entry['turn']['id']} {entry['at']}".encode(), KEY)


def _digest(text: bytes, length: int) -> str:
    return b64encode(blake2b(text, digest_size=12).digest()).decode()[:length]


def bundles_of(new: Sequence[Part], now: str) -> Iterator[tuple[bytes, dict[str, Digests]]]:
    """Yield the entries as bundles of about `_CHUNK` bytes, with the digests by place."""
    file, held = BytesIO(), dict[str, Digests]()
    writer = BundleWriter(file)
    writer.write_header(now, history=True)
    for part in new:
        name, entries, digests, start = part.name, part.entries, part.digests, 0
        while start < len(entries):
            size, end = 0, start
            while end < len(entries) and size < _CHUNK - writer.bytes:
                size += len(encoded_entry(entries[end]))
                end += 1
            end = max(end, start + 1)
            # Entries of one time stay together, so that the next file only has later ones.
            while end < len(entries) and entries[end]["at"] == entries[end - 1]["at"]:
                end += 1
            writer.write_place(_identity_of(name), entries[start:end])
            held[name] = held.get(name, "") + "".join(digests[start:end])
            start = end
            if writer.bytes >= _CHUNK:
                writer.write_end()
                yield file.getvalue(), held
                file, held = BytesIO(), {}
                writer = BundleWriter(file)
                writer.write_header(now, history=True)
    if held:
        writer.write_end()
        yield file.getvalue(), held


def sent_form(lines: Mapping[int, Entry]) -> list[Any]:
    """Return the messages of a conversation with their numbers, and those among their time."""
    pairs = zip(lines, numbered([*lines.values()]), strict=True)
    return [{**entry, "number": number} for number, entry in pairs]


class Rules(NamedTuple):
    """Merges the copies of a conversation, without removed messages.

    A message has the key of its conversation, its id and the time when it was appended. Of two with
    one id the later one is the edited one. What one device has removed, all others lose: its key is
    a mark, and what has the key of a mark is never taken again. Where two copies of a message
    differ, a value was purged in one of them, and the copy without it is taken.
    """

    name: str
    gone: set[str]
    """The keys of removed messages. `merged` adds those that an edited message replaces."""
    until: str = ""
    """The time of the last erasure of the place."""
    learnt_at: str = ""
    """When this device learnt of it."""

    def merged(
        self, known: Mapping[int, Entry], last: int, given: Sequence[Any]
    ) -> dict[int, Entry]:
        """Return the messages of a conversation and of another copy in one order.

        Args:
            known: The messages of this device by number.
            last: The first number that it never used.
            given: Those of the other copy, in the form of `sent_form`.
        """
        best: dict[str, tuple[int, Any]] = {}
        others: list[tuple[Any, int]] = [({**each}, each["number"]) for each in given]
        for entry, number in [*self._kept(known, last), *others]:
            entry.pop("number", None)
            is_gone = bool(self.gone) and key_of(self.name, entry) in self.gone
            if is_gone or entry["at"] <= self.until:
                continue
            found = best.setdefault(entry["turn"]["id"], (number, entry))
            if found[1] is not entry:
                best[entry["turn"]["id"]] = self._joined(found, (number, entry))
        order = sorted(
            best.values(),
            key=lambda each: (each[1]["at"], each[1].get("tie", 0), each[1]["turn"]["id"]),
        )
        merged: dict[int, Entry] = {}
        following = expected = 0
        at = ""
        for wanted, entry in order:
            at_least = max(wanted, following)
            free = (each for each in range(at_least, last) if each in known)
            number = next(free, max(at_least, last))
            tie = entry.pop("tie", 0)
            if tie != (expected if entry["at"] == at else 0):
                entry["tie"] = tie
            merged[number] = entry
            following, expected, at = number + 1, tie + 1, entry["at"]
        return merged

    def _kept(self, known: Mapping[int, Entry], last: int) -> list[tuple[Any, int]]:
        """Return own messages, with later times if a slow clock dated them before an erasure."""
        kept: list[tuple[Any, int]] = []
        for number, entry in enumerate(sent_form(known)):
            if self.until and self.learnt_at <= entry["at"] <= self.until:
                later = stamp(moment(self.until) + timedelta(microseconds=1))
                entry |= {"at": later, "tie": number, "number": last}  # appended again
            kept.append((entry, entry["number"]))
        return kept

    def _joined(self, one: tuple[int, Any], other: tuple[int, Any]) -> tuple[int, Any]:
        (number, mine), (_, theirs) = one, other
        if mine["at"] != theirs["at"]:
            older, newer = sorted([one, other], key=lambda each: each[1]["at"])
            self.gone.add(key_of(self.name, older[1]))
            return newer
        tie = max(mine.get("tie", 0), theirs.get("tie", 0))
        return number, {**mine, "turn": _purged(mine["turn"], theirs["turn"]), "tie": tie}


def _purged(one: Any, other: Any) -> Any:
    """Return the copy of a message in which more was purged; one without words if unclear."""
    texts = [orjson.dumps(each).decode() for each in (one, other)]
    if _is_part(*texts):
        return one
    if _is_part(*texts[::-1]):
        return other
    return {**one, "message": {"role": one["message"]["role"], "content": REMOVED}}


def _is_part(one: str, other: str) -> bool:
    """Whether removing pieces of a text gives another text."""
    *pieces, last = map(re.escape, one.split(REMOVED))
    # Atomic groups, so that this takes no longer than a search for each piece.
    middle = "".join(f"(?>.*?{piece})" for piece in pieces[1:])
    text = f"{pieces[0]}{middle}.*{last}" if pieces else last
    return re.fullmatch(text, other, re.DOTALL) is not None
