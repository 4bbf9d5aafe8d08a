"""EvalCase: what a memory should answer, or what should be detected in a chat; JSON Lines of cases."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NotRequired

from pydantic import ConfigDict, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict

_STRICT = ConfigDict(extra="forbid", str_strip_whitespace=True)


class ExpectedFact(TypedDict):
    """A fact that a chat states: a part of its value, in any case, and its keyword, or any."""

    value: str
    keyword: NotRequired[str]


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class EvalCase:
    """A question with the facts that answer it, or a chat with the facts that it states.

    A question without `expect` has no answer: whatever a recall returns passes, but for `erased`.

    Raises:
        ValueError: It has neither a question nor messages, or both.
    """

    id: str
    """The name of the case in reports; unique in a file."""
    question: str = ""
    expect: Sequence[str] = ()
    """Parts of the values that answer it, in any case. All of them must be found."""
    stale: Sequence[str] = ()
    """Earlier values. None of them may come before the present one, or instead of it."""
    erased: Sequence[str] = ()
    """Values that must be in no answer, and in no entry or message of the searched places."""
    message: int | None = None
    """The number of the message, from 0, that the fact must name as its source."""
    conversation: str | None = None
    """The chat that the fact must name as its source."""
    place: tuple[str, str, str, str | None] | None = None
    """The place to search: scope type, scope, subject and entity. By default those of the memory."""
    messages: Sequence[dict[str, Any]] = ()
    """A chat, for a case of detection, in the form of OpenAI's messages."""
    facts: Sequence[ExpectedFact] = ()
    """The facts that the chat states: `{"keyword": "city", "value": "Busan"}`."""
    accepted: bool = True
    """Whether a person has accepted the case. Others are not run."""
    note: str = field(default="")
    """A remark for people."""

    @model_validator(mode="after")
    def _check(self) -> "EvalCase":
        if bool(self.question) == bool(self.messages):
            raise ValueError("a case needs either a question or messages")
        return self


@cache
def _cases() -> TypeAdapter[EvalCase]:
    return TypeAdapter(EvalCase)


def read_cases(path: str | os.PathLike[str]) -> list[EvalCase]:
    """Read cases from a JSON Lines file.

    Raises:
        ValueError: A line is no case, or two cases have one id; it names the line.
        OSError: The file could not be read.
    """
    found: dict[str, EvalCase] = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            case = _cases().validate_json(line)
        except ValidationError as exc:
            first = exc.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(f"Line {number} is no case: {where} {first['msg']}") from None
        if case.id in found:
            raise ValueError(f"Line {number} has the id {case.id!r} of an earlier case")
        found[case.id] = case
    return list(found.values())


def write_cases(path: str | os.PathLike[str], cases: Iterable[EvalCase]) -> None:
    """Write cases as JSON Lines, without fields that have their default."""
    lines = [_cases().dump_json(case, exclude_defaults=True).decode() for case in cases]
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def digest(cases: Iterable[EvalCase]) -> str:
    """Return a hash of cases, which tells whether two reports are about the same ones."""
    whole = sha256()
    for case in sorted(cases, key=lambda case: case.id):
        whole.update(_cases().dump_json(case) + b"\n")
    return whole.hexdigest()[:16]
