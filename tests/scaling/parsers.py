"""The parsers of what users, pages and models write."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pydantic import BaseModel

from factmem import Concept, Key
from factmem._text.analysis import sentences, words
from factmem._text.spelling import Keywords, tidy_keyword
from factmem.llm.base import estimate_tokens
from factmem.llm.extraction import AnswerType, json_values, unwrapped
from factmem.models._values import case_folded, checked_name, normalized
from factmem.prompt._transcript import Transcript, folded
from factmem.prompt.memory_message import harmless, name_text, value_text

Parser: TypeAlias = Callable[[str], object]


class _Answer(BaseModel):
    items: list[dict[str, str]]


def _quoted(text: str) -> object:
    return Transcript([{"role": "user", "content": text}]).span(0, text)


def _known_keyword(text: str) -> str | None:
    return Keywords([Concept("ide-theme", "The theme")]).known(text)


_answer: AnswerType[Any] = AnswerType(_Answer)

TEXT_PARSERS: Mapping[str, Parser] = {
    "normalized": lambda text: normalized("NFC", text),
    "case_folded": case_folded,
    "folded": folded,
    "checked_name": lambda text: checked_name(text, "keyword"),
    "Key.from_passphrase": Key.from_passphrase,
    "Concept": lambda text: Concept(text, text),
    "tidy_keyword": tidy_keyword,
    "Keywords.known": _known_keyword,
    "Transcript.holds": _quoted,
    "value_text": value_text,
    "harmless": harmless,
    "name_text": name_text,
    "estimate_tokens": estimate_tokens,
    "words": words,
    "sentences": sentences,
}

JSON_PARSERS: Mapping[str, Parser] = {
    "json_values": json_values,
    "unwrapped": unwrapped,
    "AnswerType.read": _answer.read,
    "JSON in a member": lambda text: _answer.read(value_text({"items": text})),
}
