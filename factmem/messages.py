"""Looking at a chat history, and keeping one message of factmem's own in it.

A history is a list of OpenAI chat-completions message dicts. factmem's message is recognised by
its `name`, in the role of the application's own instructions, and nothing else is ever changed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

__all__ = [
    "HISTORY_MESSAGE",
    "MEMORY_MESSAGE",
    "OWN_MESSAGES",
    "QUESTION_MESSAGE",
    "History",
    "content_text",
    "is_instruction",
    "last_said",
    "own_text",
    "put_own_text",
]

MEMORY_MESSAGE = "factmem_memory"
"""The name of the message that holds facts of earlier conversations."""
HISTORY_MESSAGE = "factmem_history"
"""The name of the message that stands for removed messages of this conversation."""
QUESTION_MESSAGE = "factmem_question"
"""The name of the questions that were put to the model about the conversation, and its answers."""
OWN_MESSAGES = frozenset({MEMORY_MESSAGE, HISTORY_MESSAGE, QUESTION_MESSAGE})
"""The names of all messages that factmem writes; no fact is ever taken from them."""

History = TypeVar("History", bound=Mapping[str, object])
"""A message of a history, in whatever type the application has it."""

_Found: TypeAlias = list[int]
_INSTRUCTIONS = frozenset({"system", "developer"})


def content_text(message: Mapping[str, object]) -> str:
    """Return the words of a message, those of several text parts one after the other.

    Lone surrogates, which no endpoint takes, are replaced.

    Raises:
        TypeError: The message is no dict.
    """
    _check(message)
    content = message.get("content")
    if isinstance(content, str):
        text = content
    elif isinstance(content, list | tuple):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        text = "\n".join(text for text in texts if isinstance(text, str))
    else:
        text = ""
    return text.encode("utf-8", "replace").decode()


def is_instruction(message: Mapping[str, object]) -> bool:
    """Whether a message is the application's own: its role is system or developer.

    Raises:
        TypeError: The message is no dict.
    """
    _check(message)
    return message.get("role") in _INSTRUCTIONS


def last_said(messages: Sequence[Mapping[str, object]]) -> str:
    """Return the words of the user's last message; empty where there is none, or none in it.

    Raises:
        TypeError: A message is no dict.
    """
    for message in reversed(messages):
        text = content_text(message)
        if message.get("role") == "user":
            return text
    return ""


def own_text(messages: Sequence[Mapping[str, object]], name: str) -> str:
    """Return the text of factmem's message of this name; empty where there is none."""
    found = _own(messages, name)
    return content_text(messages[found[0]]) if found else ""


def put_own_text(messages: list[History], name: str, text: str) -> None:
    """Make `text` the one message of this name, in place; without text there is none.

    A new one stands after the leading instructions; one that is there keeps its position, and is
    not touched when it says the same already.
    """
    history: list[Any] = messages
    found = _own(messages, name)
    for index in reversed(found[1:] if text else found):
        del history[index]
    if not text:
        return
    if not found:
        start = next((i for i, each in enumerate(messages) if not is_instruction(each)), None)
        index = len(messages) if start is None else start
        role = history[index - 1]["role"] if index else "system"
        history.insert(index, {"role": role, "name": name, "content": text})
    elif content_text(messages[found[0]]) != text:
        history[found[0]] = {**history[found[0]], "content": text}


def _own(messages: Sequence[Mapping[str, object]], name: str) -> _Found:
    return [
        index
        for index, message in enumerate(messages)
        if is_instruction(message) and message.get("name") == name
    ]


def _check(message: object) -> None:
    if not isinstance(message, Mapping):
        raise TypeError(
            f"A message is a dict as OpenAI's chat completions take it, not "
            f"{type(message).__name__}: append message.model_dump(exclude_none=True) instead"
        )
