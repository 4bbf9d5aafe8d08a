"""Imports of chats that ChatGPT and Claude export."""

from contextlib import closing
from datetime import timedelta
from os import PathLike

from anyio import to_thread

from factmem._arguments import expect
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.providers.base import FactStore
from factmem.providers.conversations import new_turn
from factmem.transfer._chat_exports import Chat, chats_of
from factmem.transfer._checks import check_store
from factmem.transfer.reports import ImportProblem, ImportReport

__all__ = ["import_chats"]


async def import_chats(
    path: str | PathLike[str],
    into: FactStore,
    *,
    scope: MemoryScope,
    subject: MemorySubject,
    learn_after: timedelta | None = timedelta(seconds=30),
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
        learn_after: How long the chats rest before facts are learnt from them. None only stores them.

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
                added = await into.conversations.append(
                    turns, found.id, place, learn_after=learn_after
                )
                read, new = read + len(turns), new + len(added)
    return ImportReport((place,), read, new, tuple(problems), turns=read)
