"""Imports of chats that ChatGPT and Claude export.

The chats in the exports of ChatGPT and Claude: `conversations.json`, or the archive with it.

ChatGPT: a list of conversations, each with a tree of nodes in `mapping` and the `current_node`. What the
user has edited, and answers that were repeated, are branches beside that of the current node, and left
out. Claude: a list of conversations, each with its `chat_messages`.
"""

import io
import json
import re
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TextIO
from zipfile import BadZipFile, ZipFile, is_zipfile

from anyio import to_thread

from factmem._arguments import expect
from factmem.errors import InputValueError
from factmem.models._values import checked_name
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.models.when import utc
from factmem.providers.conversations import new_turn, rest_of
from factmem.providers.store import FactStore
from factmem.transfer._rows import check_store
from factmem.transfer.reports import ImportProblem, ImportReport

__all__ = ["import_chats"]


_NAME = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json")
_CHUNK = 1024 * 1024
_MOST = 64 * 1024 * 1024
"""The most characters of a conversation: a parsed one may take twenty times its size."""

_BETWEEN = re.compile(r"[\s,]*")


class ChatMessage(NamedTuple):
    """A message of the user or of the model."""

    id: str
    role: str
    text: str
    said_at: datetime


class Chat(NamedTuple):
    """A conversation of an export."""

    id: str
    messages: list[ChatMessage]


def chats_of(path: str | PathLike[str]) -> Generator[Chat | tuple[str, str]]:
    """Yield the chats of an export, or the position of one that cannot be read, and why.

    It reads a megabyte, or the current conversation, at a time.

    Raises:
        ValueError: The file is no export. The message quotes nothing of it.
        OSError: It cannot be read.
    """
    with ExitStack() as opened:
        items = (item for file in _files(Path(path), opened) for item in _items(file))
        try:
            for number, item in enumerate(items, 1):
                try:
                    yield _chat(item)
                except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError):
                    yield f"conversation {number}", "It is not as ChatGPT or Claude exports it"
        except UnicodeDecodeError:
            raise InputValueError("The file is not UTF-8: is it conversations.json?") from None
        except (BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error):
            raise InputValueError("The archive is damaged, or has a password") from None


def _files(path: Path, opened: ExitStack) -> Iterator[TextIO]:
    if not is_zipfile(path):
        yield opened.enter_context(path.open(encoding="utf-8-sig"))
        return
    archive = opened.enter_context(ZipFile(path))
    names = sorted(name for name in archive.namelist() if _NAME.fullmatch(name))
    if not names:
        raise InputValueError("The archive has no conversations.json: is it an export?")
    for name in names:
        file = opened.enter_context(archive.open(name))
        yield io.TextIOWrapper(file, encoding="utf-8-sig")


def _items(file: TextIO) -> Iterator[Any]:
    """Yield the items of a JSON list without reading all of it."""
    decoder = json.JSONDecoder()
    text = file.read(_CHUNK).lstrip()
    if not text.startswith("["):
        raise InputValueError("The file is not a list of conversations: is it conversations.json?")
    at = 1
    while True:
        found = _BETWEEN.match(text, at)
        at = at if found is None else found.end()
        try:
            item, at = decoder.raw_decode(text, at)
        except RecursionError:
            raise InputValueError("The file is nested too deeply") from None
        except ValueError:
            if text.startswith("]", at):
                return
            more = file.read(max(_CHUNK, len(text) - at))  # doubled, as the item is read anew
            if not more or len(text) - at > _MOST:
                raise InputValueError(
                    "The file is cut off or damaged, or a chat is too large"
                ) from None
            text, at = text[at:] + more, 0
        else:
            yield item


def _chat(item: Mapping[str, Any]) -> Chat:
    if "mapping" in item:
        program, messages = "chatgpt", _of_chatgpt(item)
        name = item.get("conversation_id") or item["id"]
    else:
        program, name, messages = "claude", item["uuid"], _of_claude(item)
    whole = checked_name(f"{program}-{name}", "conversation")
    for each in messages:
        utc(each.said_at, "said_at")
    return Chat(whole, [each for each in messages if each.text.strip()])


def _of_chatgpt(item: Mapping[str, Any]) -> list[ChatMessage]:
    nodes: Mapping[str, Any] = item["mapping"]
    leaves = [name for name, node in nodes.items() if not node.get("children")]
    current = item.get("current_node") or (leaves[-1] if leaves else None)
    branch = _branch(current, nodes, lambda node: node.get("parent"))
    said: Any = item.get("create_time")
    messages: list[ChatMessage] = []
    for name in branch:
        message = nodes[name].get("message")
        if not message or not _is_shown(message):
            continue
        said = message.get("create_time") or said
        messages.append(
            ChatMessage(
                checked_name(message.get("id") or name, "message"),
                message["author"]["role"],
                _clean("\n".join(_parts(message["content"]))),
                datetime.fromtimestamp(float(said), UTC),
            )
        )
    return messages


def _is_shown(message: Mapping[str, Any]) -> bool:
    """Whether the user wrote or read a message; others are for tools or the model."""
    is_hidden = (message.get("metadata") or {}).get("is_visually_hidden_from_conversation")
    is_said = message["author"]["role"] in {"user", "assistant"}
    return is_said and not is_hidden and message.get("recipient", "all") == "all"


def _parts(content: Mapping[str, Any]) -> Iterator[str]:
    if content.get("content_type") not in {"text", "multimodal_text"}:
        return
    for part in content.get("parts") or ():
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping) and part.get("content_type") == "audio_transcription":
            yield str(part["text"])


def _of_claude(item: Mapping[str, Any]) -> list[ChatMessage]:
    given: list[Mapping[str, Any]] = item["chat_messages"]
    by_id = {each["uuid"]: each for each in given}
    if given and given[-1].get("parent_message_uuid"):
        names = _branch(given[-1]["uuid"], by_id, lambda each: each.get("parent_message_uuid"))
        given = [by_id[name] for name in names]
    roles = {"human": "user", "assistant": "assistant"}
    return [
        ChatMessage(
            checked_name(each["uuid"], "message"),
            roles[each["sender"]],
            _clean(_words(each)),
            datetime.fromisoformat(each["created_at"]),
        )
        for each in given
    ]


def _words(message: Mapping[str, Any]) -> str:
    """Return the text of a message without thoughts, tools and attached files."""
    parts = message.get("content") or ()
    words = [str(part["text"]) for part in parts if part.get("type") == "text"]
    return "\n".join(words) or str(message.get("text") or "")


def _branch(
    last: str | None, nodes: Mapping[str, Any], parent: Callable[[Mapping[str, Any]], str | None]
) -> list[str]:
    """Return the names of the nodes from the root to a node."""
    names: dict[str, None] = {}
    while last is not None and last in nodes and last not in names:
        names[last] = None
        last = parent(nodes[last])
    return [*reversed(names)]


def _clean(text: str) -> str:
    """Replace lone surrogates, which exports contain where an emoji was cut."""
    return text.encode("utf-8", "replace").decode()


async def import_chats(
    path: str | PathLike[str],
    into: FactStore,
    *,
    scope: MemoryScope,
    subject: MemorySubject,
    learn: bool = True,
    learn_after: timedelta | None = None,
) -> ImportReport:
    """Import the chats of an export of ChatGPT or Claude as conversations of a user.

    They are stored with the times at which each message was said, and queued: `conversations.learn` finds
    their facts, whose sources name conversation and message. Only what the user and the assistant
    wrote is stored, in the branch that the user saw last: no files, no thoughts, no calls of tools. No
    LLM calls.

    A conversation is stored in one durable write, and a message that is stored already is left out.
    So an import can be repeated after a failure or a kill, and with a newer export.

    Args:
        path: The archive that was sent to the user, or the file `conversations.json` in it.
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
        ValueError: The file is no export, or is cut off. The chats before that are stored.
        StorageError: The store failed. The chats before that are stored.
        OSError: The file cannot be read.
    """
    check_store(into, "into")
    expect(scope, MemoryScope, "scope", 'MemoryScope.Product("my-app")')
    rest = rest_of(learn_after, is_queued=learn)
    place = Place(scope, expect(subject, MemorySubject, "subject", 'USER.of("alice")'))
    problems, read, new = list[ImportProblem](), 0, 0
    with closing(chats_of(path)) as chats:
        while (found := await to_thread.run_sync(next, chats, None)) is not None:
            if not isinstance(found, Chat):
                problems.append(ImportProblem(*found))
                continue
            turns = [
                new_turn({"role": each.role, "content": each.text}, each.said_at, each.id)
                for each in found.messages
            ]
            if turns:
                added = await into.conversations.append(turns, found.id, place, learn_after=rest)
                read, new = read + len(turns), new + len(added)
    return ImportReport((place,), read, new, tuple(problems), turns=read)
