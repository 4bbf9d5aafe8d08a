"""Imports of chats that ChatGPT and Claude export: `conversations.json`, or the archive with it.

ChatGPT: a list of conversations, each with a tree of nodes in `mapping` and the `current_node`.
What the user has edited, and answers that were repeated, are branches beside that of the current
node, and left out. Claude: a list of conversations, each with its `chat_messages`.
"""

import os
import re
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile, is_zipfile

from anyio import to_thread

from factmem._arguments import expect
from factmem.errors import InputValueError
from factmem.models._values import checked_name, sendable
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.models.when import utc
from factmem.providers.conversations import NewTurn, new_turn, rest_of
from factmem.providers.store import FactStore
from factmem.transfer._inputs import DamagedError, InputFile, has_wrong_bytes, json_values, opened
from factmem.transfer._rows import check_store
from factmem.transfer.reports import ImportReport, Problems

__all__ = ["import_chats"]

_NAME = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json")
_MOST_USELESS = 1_000
"""Items in a row without a message, after which a file is given up: a zip of 3 KB holds a
million."""


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation of an export, and what of it cannot be imported."""

    id: str
    turns: list[NewTurn] = field(default_factory=list[NewTurn])
    """The messages of the user and of the model."""
    problems: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Pairs of an item and a reason."""
    is_private: bool = False
    """Whether its user asked ChatGPT not to remember it: it is stored, and never learnt."""

    def report(self, reason: str, message: str = "") -> None:
        """Add a problem of a message, or of the conversation."""
        self.problems.append((f"{self.id}, message {message}" if message else self.id, reason))


def chat_files(folder: str | PathLike[str]) -> list[Path]:
    """Return the files of conversations in the folder of an unpacked export, by name."""
    found = (path for path in Path(folder).rglob("conversations*.json"))
    return sorted(path for path in found if _NAME.fullmatch(path.name) and path.is_file())


def chats_of(source: InputFile) -> Generator[Chat]:
    """Yield the chats of an export: a file, an archive or a folder with several files.

    A chat without messages is yielded only if it has problems. It reads a megabyte, or the current
    conversation, at a time.

    Raises:
        ValueError: The folder or archive has no conversations. The message quotes nothing of it.
        OSError: A file cannot be read.
    """
    is_read, damages = False, list[tuple[str, str]]()
    with ExitStack() as stack:
        for name, file in _files(source, stack):
            useless = 0
            try:
                for where, item in json_values(file):
                    chat = _chat(item, f"{name}{where}")
                    is_read = is_read or bool(chat.turns)
                    useless = 0 if chat.turns else useless + 1
                    if useless > _MOST_USELESS:
                        raise DamagedError(f"{_MOST_USELESS:,} items in a row have no message")
                    if chat.turns or chat.problems:
                        yield chat
            except UnicodeDecodeError:
                damages.append((name, "The file is not UTF-16"))
            except DamagedError as exc:
                damages.append((name, str(exc)))
            except (BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error):
                damages.append((name, "The archive is damaged, or has a password"))
    if damages and not is_read:
        raise InputValueError(damages[0][1])
    if damages:
        yield Chat("", problems=[(name.rstrip(": ") or "the rest", why) for name, why in damages])


def _files(source: InputFile, stack: ExitStack) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the files of an export; each with a prefix that names it, if there are several."""
    if isinstance(source, str | PathLike) and os.path.isdir(source):
        paths = chat_files(source)
        if not paths:
            raise InputValueError("The folder has no conversations.json: is it an export?")
        for path in paths:
            with open(path, "rb") as part:
                yield f"{path.name}: ", part
        return
    file = stack.enter_context(opened(source))
    begin = file.tell()
    if not is_zipfile(file):
        file.seek(begin)
        yield "", file
        return
    try:
        archive = stack.enter_context(ZipFile(file))
    except BadZipFile:
        raise InputValueError("The archive is damaged") from None
    names = sorted(name for name in archive.namelist() if _NAME.fullmatch(name))
    if not names:
        raise InputValueError("The archive has no conversations.json: is it an export?")
    for name in names:
        try:
            member = archive.open(name)
        except (BadZipFile, NotImplementedError, RuntimeError):
            raise InputValueError("The archive is damaged, or has a password") from None
        with member:
            yield f"{name}: ", member


def _chat(item: Any, where: str) -> Chat:
    """Read a conversation; what cannot be read of it is among its problems."""
    if isinstance(item, ValueError):
        return Chat("", problems=[(where, str(item))])
    nodes: Any = item.get("mapping") if isinstance(item, Mapping) else None
    given: Any = item.get("chat_messages") if isinstance(item, Mapping) else None
    is_chatgpt = isinstance(nodes, Mapping)
    if not is_chatgpt and not isinstance(given, list):
        return Chat("", problems=[(where, "It is not as ChatGPT or Claude exports it")])
    try:
        if is_chatgpt:
            name = _name("chatgpt", nodes, item.get("conversation_id"), item.get("id"))
            chat = Chat(name, is_private=item.get("is_do_not_remember") is True)
            _read_chatgpt(item, nodes, chat)
        else:
            chat = Chat(_name("claude", given, item.get("uuid")))
            _read_claude(item, given, chat)
    except (ValueError, RecursionError) as exc:  # of the name
        reason = str(exc) if isinstance(exc, ValueError) else "It is nested too deeply"
        return Chat("", problems=[(where, reason)])
    return chat


def _name(program: str, content: object, *names: object) -> str:
    """Return the id of a conversation: its own, or a digest of its content."""
    given = next((str(each) for each in names if each), None)
    return checked_name(f"{program}-{given or _digest(content)}", "conversation")


def _digest(content: object) -> str:
    return sha256(repr(content).encode("utf-8", "replace")).hexdigest()[:32]


_WRITERS = {"user": "user", "human": "user", "assistant": "assistant"}
_OTHERS = ("system", "tool")


def _read_chatgpt(item: Mapping[str, Any], nodes: Mapping[str, Any], chat: Chat) -> None:
    parents = {
        name: _link(node.get("parent")) for name, node in nodes.items() if isinstance(node, Mapping)
    }
    for name in nodes.keys() - parents.keys():
        chat.report("It is not a message", name)
    current = _link(item.get("current_node"))
    if current not in parents and item.get("current_node") is not None:
        chat.report("'current_node' names no message: the last branch was imported")
    said = [name for name in parents if nodes[name].get("message") is not None]
    reader = _Reader(chat, item)
    for name in _branch(current, parents, said, chat):
        message = nodes[name].get("message")
        if message is None:
            continue
        if not isinstance(message, Mapping):
            chat.report("It is not a message", name)
            continue
        about, author = message.get("metadata"), message.get("author")
        if isinstance(about, Mapping) and about.get("is_visually_hidden_from_conversation"):
            continue
        role = author.get("role") if isinstance(author, Mapping) else author
        if message.get("recipient") in (None, "all"):  # others are for tools
            own = message.get("id")
            reader.read(own or name, role, message.get("content"), message.get("create_time"))
    reader.end()


def _link(name: object) -> str | None:
    return name if isinstance(name, str) else None


def _read_claude(item: Mapping[str, Any], given: Sequence[Any], chat: Chat) -> None:
    messages: dict[str, Mapping[str, Any]] = {}
    for number, each in enumerate(given, 1):
        if not isinstance(each, Mapping):
            chat.report("It is not a message", f"number {number}")
            continue
        name = str(each.get("uuid") or _digest(each))
        messages[name if name not in messages else f"{name}-{number}"] = each
    parents = {name: _link(each.get("parent_message_uuid")) for name, each in messages.items()}
    names = [*messages]
    if any(parents.values()):
        names = _branch(names[-1], parents, names, chat)
    reader = _Reader(chat, item)
    for name in names:
        message = messages[name]
        content: Any = message.get("content")
        parts = content if isinstance(content, list) else [content]
        has_text = any(_text_of(part).strip() for part in parts)
        own = message.get("text")
        text = content if has_text or own is None else own
        reader.read(name, message.get("sender"), text, message.get("created_at"))
    reader.end()


class _Reader:
    """Adds the messages of a conversation to it, in order.

    Args:
        chat: The conversation.
        item: Its record, with the time of its first messages if they have none.
    """

    def __init__(self, chat: Chat, item: Mapping[str, Any]) -> None:
        self._chat = chat
        self._said = _time(item.get("create_time")) or _time(item.get("created_at"))
        self._names: set[str] = set()
        self._untimed: set[str] = set()
        self._early: list[tuple[str, str, str]] = []
        """Messages before the first time of the conversation."""

    def read(self, name: Any, role: Any, content: Any, time: Any) -> None:
        """Add a message, or report what is wrong with it."""
        name = str(name)
        if name in self._names:
            name = f"{name}-{len(self._names)}"
        self._names.add(name)
        try:
            name = checked_name(name, "message")
        except ValueError:
            name = _digest(name)
        if not isinstance(role, str) or role not in _WRITERS:
            if role in _OTHERS:
                return
            self._chat.report("It has no known author", name)
            return
        try:
            text = "\n".join(_texts(content))
        except ValueError as exc:
            self._chat.report(str(exc), name)
            return
        if not text.strip():
            return
        if has_wrong_bytes(text):
            self._chat.report("Some of its characters cannot be read; they are replaced", name)
        text = sendable(text)  # also an emoji that was cut in two
        found = _time(time)
        if found is None and time is not None:
            self._untimed.add(name)
        self._said = found or self._said
        self._early.append((name, _WRITERS[role], text))
        if self._said is not None:
            self._chat.turns.extend(
                new_turn({"role": author, "content": said}, self._said, own)
                for own, author, said in self._early
            )
            self._early.clear()

    def end(self) -> None:
        """Report the messages whose time cannot be read.

        Those that are left out without one.
        """
        left_out = {name for name, *_ in self._early}
        for name in left_out:
            self._chat.report("Neither it nor its conversation has a time", name)
        for name in self._untimed - left_out:
            self._chat.report("Its time cannot be read: it has that of its neighbour", name)


def _time(given: Any) -> datetime | None:
    """Return seconds since 1970, or an ISO 8601 time, which is in UTC if it has no zone."""
    try:
        if isinstance(given, str) and not given.replace(".", "", 1).isdecimal():
            found = datetime.fromisoformat(given)
            return utc(found if found.tzinfo else found.replace(tzinfo=UTC), "said_at")
        if isinstance(given, str | int | float) and not isinstance(given, bool):
            return datetime.fromtimestamp(float(given), UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def _texts(content: Any) -> Iterator[str]:
    """Yield the texts of a message, without thoughts, tools and files."""
    if isinstance(content, Mapping):  # of ChatGPT
        kind, parts = content.get("content_type"), content.get("parts")
        if isinstance(kind, str) and kind not in {"text", "multimodal_text"}:
            return
        content = content.get("text") if parts is None else parts
    if content is None:
        raise InputValueError("It has no content")
    parts = [content] if isinstance(content, str) else content
    if not isinstance(parts, list):
        raise InputValueError("Its content is not text")
    for part in parts:
        if text := _text_of(part):
            yield text


def _text_of(part: Any) -> str:
    """Return the text of a part: Claude's, or what ChatGPT has heard."""
    if not isinstance(part, Mapping):
        return part if isinstance(part, str) else ""
    is_said = part.get("type") == "text" or part.get("content_type") == "audio_transcription"
    text = part.get("text")
    return text if is_said and isinstance(text, str) else ""


def _branch(
    last: str | None, parents: Mapping[str, str | None], said: Sequence[str], chat: Chat
) -> list[str]:
    """Return the names of the messages from the first to one of them: the branch that was shown.

    Branches beside it are what the user has edited. What is in no branch of the same tree was lost
    by a broken link, and comes before.

    Args:
        last: The last message; that of the last branch if there is none of this name.
        parents: The parent of each message.
        said: The messages with content.
        chat: Gets a problem for a broken link.
    """
    inner = {parent for parent in parents.values() if parent in parents}
    leaves = [name for name in parents if name not in inner]
    roots = _roots(parents)
    if last not in parents:
        last = leaves[-1] if leaves else next(reversed([*parents]), None)
    branch, seen = _path(last, parents), set[str | None]()
    if last is not None:
        seen.add(roots[last])
    while left := [name for name in said if roots[name] not in seen]:
        root = roots[left[-1]]
        seen.add(root)
        chat.report("The link to its parent is broken", branch[0])
        end = next((each for each in reversed(leaves) if roots[each] == root), left[-1])
        branch = [*_path(end, parents), *branch]
    return branch


def _path(last: str | None, parents: Mapping[str, str | None]) -> list[str]:
    names: dict[str, None] = {}
    while last is not None and last in parents and last not in names:
        names[last] = None
        last = parents[last]
    return [*reversed(names)]


def _roots(parents: Mapping[str, str | None]) -> dict[str, str]:
    """Return for each message what its tree has of its own, in time that grows with their number.

    That is the parent of the first message, which Claude names though it is none, and which edited
    first messages have in common; or the first message itself.
    """
    roots: dict[str, str] = {}
    for name in parents:
        path: dict[str, None] = {}
        at: str = name
        while at in parents and at not in roots and at not in path:
            path[at] = None
            above = parents[at]
            if above is None:
                break
            at = above
        roots |= dict.fromkeys(path, roots.get(at, at))
    return roots


async def import_chats(
    path: InputFile,
    into: FactStore,
    *,
    scope: MemoryScope,
    subject: MemorySubject,
    learn: bool = True,
    learn_after: timedelta | None = None,
) -> ImportReport:
    """Import the chats of an export of ChatGPT or Claude as conversations of a user.

    They are stored with the times at which each message was said, and queued: `conversations.learn`
    finds their facts, whose sources name conversation and message. Only what the user and the
    assistant wrote is stored, in the branch that the user saw last: no files, no thoughts, no calls
    of tools. A chat that ChatGPT was told not to remember is stored and never learnt. No LLM calls.

    A message that is damaged is a problem of the report; the others of its conversation are
    imported. Where a link between messages is broken, all branches that it separates are.

    A conversation is stored in one durable write, and a message that is stored already is left out.
    So an import can be repeated after a failure or a kill, and with a newer export.

    Args:
        path: The archive that was sent to the user, its folder if it is unpacked, or a file of
            conversations in it: a list, or a single one; or a file object in binary mode.
        into: The store to import into.
        scope: The scope of the conversations.
        subject: The user, such as `USER.of("alice")`.
        learn: Whether the chats are queued for learning. False only stores them.
        learn_after: How long the chats rest before they are due; 30 seconds by default.

    Returns:
        A report that counts messages as entries.

    Raises:
        UnboundSubjectError: `subject` is per entity and has no entity.
        TypeError: `into` is not a `FactStore`, or an argument has the wrong type.
        ValueError: The file is no export, or nothing of it can be read.
        StorageError: The store failed. The chats before that are stored.
        OSError: The file cannot be read.
    """
    check_store(into, "into")
    expect(scope, MemoryScope, "scope", 'MemoryScope.Product("my-app")')
    place = Place(scope, expect(subject, MemorySubject, "subject", 'USER.of("alice")'))
    rest = rest_of(learn_after, is_queued=learn)
    problems, read, new = Problems(), 0, 0
    with closing(chats_of(path)) as chats:
        while (found := await to_thread.run_sync(next, chats, None)) is not None:
            for problem in found.problems:
                problems.add(*problem)
            if turns := found.turns:
                due = None if found.is_private else rest
                added = await into.conversations.append(turns, found.id, place, learn_after=due)
                read, new = read + len(turns), new + len(added)
    return ImportReport((place,), read, new, problems.kept, turns=read, failed=problems.failed)
