"""Chats of ChatGPT and Claude become conversations with the times of their messages."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import anyio
import pytest
from anyio.lowlevel import checkpoint

from factmem import InMemoryProvider, Place, UnboundSubjectError
from factmem.testing.chat import ScriptedChatModel
from factmem.transfer import import_chats
from tests.world import AGENT, ALICE, USER, item, memory_of

MORNING = datetime(2024, 3, 4, 9, tzinfo=UTC)


def node(name: str, parent: str | None, children: list[str], **message: Any) -> dict[str, Any]:
    return {"id": name, "message": message or None, "parent": parent, "children": children}


def said(
    role: str, *parts: Any, minute: int = 0, kind: str = "text", **more: Any
) -> dict[str, Any]:
    return {
        "id": f"{role}-{minute}",
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": MORNING.timestamp() + 60 * minute,
        "content": {"content_type": kind, "parts": [*parts]},
        "recipient": "all",
        "metadata": {},
        **more,
    }


def of_chatgpt(name: str = "c1") -> dict[str, Any]:
    hidden = {"is_visually_hidden_from_conversation": True}
    photo = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
    spoken = {"content_type": "audio_transcription", "text": "and I have a dog"}
    return {
        "title": "Moving",
        "create_time": MORNING.timestamp(),
        "conversation_id": name,
        "current_node": "5",
        "mapping": {
            "0": node("0", None, ["1"]),
            "1": node("1", "0", ["2", "x"], **said("system", "Be nice", metadata=hidden)),
            "x": node("x", "1", [], **said("user", "I moved to Bonn", minute=1)),
            "2": node("2", "1", ["3"], **said("user", "I moved to Busan", minute=2)),
            "3": node("3", "2", ["4"], **said("assistant", "ls", minute=3, recipient="python")),
            "4": node("4", "3", ["5"], **said("assistant", "Nice!", "A sea.", minute=4)),
            "5": node(
                "5", "4", [], **said("user", photo, spoken, minute=5, kind="multimodal_text")
            ),
        },
    }


def of_claude(name: str = "c2") -> dict[str, Any]:
    def message(sender: str, minute: int, text: str, **more: Any) -> dict[str, Any]:
        at = (MORNING + timedelta(minutes=minute)).isoformat().replace("+00:00", "Z")
        return {
            "uuid": f"{sender}-{minute}",
            "text": text,
            "content": [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": text}],
            "sender": sender,
            "created_at": at,
            "attachments": [{"file_name": "a.txt", "extracted_content": "Someone moved to Rome"}],
            **more,
        }

    return {
        "uuid": name,
        "name": "Moving",
        "created_at": MORNING.isoformat(),
        "chat_messages": [
            message("human", 0, "I moved to Busan"),
            message("assistant", 1, "Nice \ud83d sea"),
        ],
    }


def written(folder: Path, *conversations: Any) -> Path:
    path = folder / "conversations.json"
    path.write_text(json.dumps(conversations))
    return path


async def turns_of(store: Any, conversation: str) -> list[tuple[str, str, datetime]]:
    turns = await store.conversations.turns(conversation, Place(AGENT, ALICE))
    return [(turn.role, turn.text, turn.said_at) for turn in turns]


def at(minute: int) -> datetime:
    return MORNING + timedelta(minutes=minute)


async def test_chats_have_what_was_said_and_when(tmp_path: Path) -> None:
    """Edited messages, tools, thoughts and files were not said."""
    store = InMemoryProvider()
    file = written(tmp_path, of_chatgpt(), of_claude())
    report = await import_chats(file, store, scope=AGENT, subject=ALICE)

    assert await turns_of(store, "chatgpt-c1") == [
        ("user", "I moved to Busan", at(2)),
        ("assistant", "Nice!\nA sea.", at(4)),
        ("user", "and I have a dog", at(5)),
    ]
    assert await turns_of(store, "claude-c2") == [
        ("user", "I moved to Busan", at(0)),
        ("assistant", "Nice \ufffd sea", at(1)),
    ]
    assert (report.entries, report.new, report.problems) == (5, 5, ())


async def test_the_archive_is_read_as_it_is(tmp_path: Path) -> None:
    """Large exports have several files."""
    path = tmp_path / "export.zip"
    with ZipFile(path, "w") as archive:
        archive.writestr("chat.html", "<html>")
        for number in (0, 1):
            texts = json.dumps([of_chatgpt(f"c{number}")])
            archive.writestr(f"export/conversations-00{number}.json", texts)
    store = InMemoryProvider()
    report = await import_chats(path, store, scope=AGENT, subject=ALICE)

    infos = await store.conversations.conversations(Place(AGENT, ALICE))
    assert {info.id for info in infos} == {"chatgpt-c0", "chatgpt-c1"}
    assert report.new == 6


async def test_an_import_is_repeated_with_a_newer_export(tmp_path: Path) -> None:
    store, chat = InMemoryProvider(), of_claude()
    first = await import_chats(written(tmp_path, chat), store, scope=AGENT, subject=ALICE)
    late = {"uuid": "late", "sender": "human", "text": "Bye", "created_at": at(9).isoformat()}
    chat["chat_messages"].append(late)
    again = await import_chats(written(tmp_path, chat), store, scope=AGENT, subject=ALICE)

    assert (first.new, again.new, again.entries, again.known) == (2, 1, 3, 2)
    assert [text for _, text, _ in await turns_of(store, "claude-c2")][-1] == "Bye"


async def test_edited_messages_of_claude_are_left_out(tmp_path: Path) -> None:
    chat = of_claude()
    first, answer = chat["chat_messages"]
    edited = {**first, "uuid": "edited", "content": [], "text": "I moved to Seoul"}
    chat["chat_messages"] = [
        {**first, "parent_message_uuid": "root"},
        {**edited, "parent_message_uuid": "root"},
        {**answer, "parent_message_uuid": "edited"},
    ]
    store = InMemoryProvider()
    await import_chats(written(tmp_path, chat), store, scope=AGENT, subject=ALICE)

    texts = [text for _, text, _ in await turns_of(store, "claude-c2")]
    assert texts == ["I moved to Seoul", "Nice \ufffd sea"]


async def test_facts_are_learnt_by_the_queue(tmp_path: Path) -> None:
    """With the day on which it was said, and the message as the source."""
    found = {"facts": [item(quote="I moved to Busan", value="Busan")]}
    memory = memory_of(InMemoryProvider(), ScriptedChatModel(found))
    file, soon = written(tmp_path, of_claude()), timedelta(microseconds=1)
    await import_chats(file, memory.store, scope=AGENT, subject=ALICE, learn_after=soon)
    with anyio.fail_after(60):
        while not (await memory.conversations.learn()).learnt:
            await checkpoint()

    (fact,) = await memory.current()
    assert fact.timestamp == at(0)
    assert fact.source
    assert (fact.source.conversation, fact.source.message) == ("claude-c2", 0)


async def test_chats_can_be_stored_without_learning(tmp_path: Path) -> None:
    memory = memory_of(InMemoryProvider())
    await import_chats(
        written(tmp_path, of_claude()), memory.store, scope=AGENT, subject=ALICE, learn=False
    )
    assert (await memory.conversations.pending()).pending == 0


async def test_a_chat_that_must_not_be_remembered_is_stored_only(tmp_path: Path) -> None:
    """ChatGPT marks chats whose user asked it not to remember them."""
    memory = memory_of(InMemoryProvider())
    marked = {**of_chatgpt(), "is_do_not_remember": True}
    report = await import_chats(written(tmp_path, marked), memory.store, scope=AGENT, subject=ALICE)
    assert report.turns > 0
    assert (await memory.conversations.pending()).pending == 0


@pytest.mark.parametrize("text", [b"", b"[", b'[{"uuid": "x"', b"[[" * 100_000, b"[1 2"])
async def test_another_file_is_an_error(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "conversations.json"
    path.write_bytes(text)
    with pytest.raises(ValueError, match="The file is"):
        await import_chats(path, InMemoryProvider(), scope=AGENT, subject=ALICE)


async def test_another_archive_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with ZipFile(path, "w") as archive:
        archive.writestr("a.json", "[]")
    with pytest.raises(ValueError, match=r"no conversations\.json"):
        await import_chats(path, InMemoryProvider(), scope=AGENT, subject=ALICE)


async def test_a_damaged_archive_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps([of_claude()]))
    data = path.read_bytes()
    for position in range(60, 200, 10):
        path.write_bytes(data[:position] + b"\xff\xff" + data[position + 2 :])
        with pytest.raises(ValueError, match=r"The archive is damaged|The file is"):
            await import_chats(path, InMemoryProvider(), scope=AGENT, subject=ALICE)


async def test_chats_need_their_user(tmp_path: Path) -> None:
    with pytest.raises(UnboundSubjectError):
        await import_chats(written(tmp_path), InMemoryProvider(), scope=AGENT, subject=USER)
