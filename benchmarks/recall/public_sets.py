"""Loaders of public sets: LoCoMo, LongMemEval and BEAM, in the forms in which they are published.

None of their data is in this repository. The sets are for measuring, and never for choosing between
variants: choices are made on the sets of this folder, so that the public ones stay a fair test.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

__all__ = ["SETS", "Asked", "Chat", "PublicSet", "Turn", "files_of", "hashes"]


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of a chat."""

    id: str
    """Its name in the set, unique in the chat."""
    speaker: str
    text: str
    session: str
    said_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about a chat."""

    text: str
    kind: str
    """The kind of the question, in the words of the set."""
    turns: frozenset[str] = frozenset()
    """The messages that answer it; empty if the set names none."""
    sessions: frozenset[str] = frozenset()
    """The sessions that answer it."""
    has_answer: bool = True
    answer: str = ""
    is_update: bool = False
    """Whether a later message of `turns` corrects an earlier one."""
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat with its questions: the unit that the bootstrap draws."""

    name: str
    turns: Sequence[Turn]
    questions: Sequence[Asked]
    ignored: int = 0
    """How many pieces of evidence name no message of the chat."""


@dataclass(frozen=True, slots=True)
class PublicSet:
    """A set: where it comes from, and how its files are read."""

    name: str
    source: str
    licence: str
    data: str
    """What DATA is."""
    load: Any = field(repr=False)

    def chats(self, path: Path) -> Iterator[Chat]:
        """Yield the chats of a file or a folder."""
        loaded: Iterator[Chat] = self.load(path)
        return loaded


def hashes(path: Path) -> dict[str, str]:
    """Return the SHA-256 of each file that was read, by its path inside DATA."""
    return {
        str(each.relative_to(path) if path.is_dir() else each.name): sha256(
            each.read_bytes()
        ).hexdigest()
        for each in files_of(path)
    }


def files_of(path: Path) -> list[Path]:
    """Return the files of DATA."""
    if path.is_dir():
        return sorted(each for each in path.rglob("*.json") if each.is_file())
    return [path]


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


# LoCoMo

_EVIDENCE = re.compile(r"D:?0*(\d+):0*(\d+)")
_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open domain", 4: "single hop", 5: "adversarial"}
_LOCOMO_TIME = "%I:%M %p on %d %B, %Y"


def _locomo(path: Path) -> Iterator[Chat]:
    for sample in _json(path):
        conversation = sample["conversation"]
        turns = list(_locomo_turns(conversation))
        known = {turn.id for turn in turns}
        sessions = {turn.id: turn.session for turn in turns}
        questions: list[Asked] = []
        ignored = 0
        for qa in sample["qa"]:
            named = _evidence(qa.get("evidence") or ())
            gold = frozenset(named & known)
            ignored += len(named - known)
            is_trick = qa["category"] == 5
            questions.append(
                Asked(
                    text=qa["question"],
                    kind=_CATEGORIES.get(qa["category"], str(qa["category"])),
                    turns=frozenset() if is_trick else gold,
                    sessions=frozenset()
                    if is_trick
                    else frozenset(sessions[each] for each in gold),
                    has_answer=not is_trick,
                    answer=str(qa.get("answer", "")),
                )
            )
        yield Chat(sample["sample_id"], turns, questions, ignored)


def _locomo_turns(conversation: Mapping[str, Any]) -> Iterator[Turn]:
    numbers = [key for key in conversation if re.fullmatch(r"session_\d+", key)]
    for session in sorted(numbers, key=lambda key: int(key[8:])):
        at = _time(conversation.get(f"{session}_date_time"), _LOCOMO_TIME)
        for turn in conversation[session]:
            text = turn["text"]
            if turn.get("blip_caption"):
                text += f" [{turn['blip_caption']}]"
            yield Turn(_name(turn["dia_id"]), turn["speaker"], text, session, at)


def _name(dialogue: str) -> str:
    found = _EVIDENCE.search(dialogue)
    return f"D{found[1]}:{found[2]}" if found else dialogue


def _evidence(given: Sequence[str] | str) -> set[str]:
    """Return the ids of evidence; the files write some as "D8:6; D9:17", "D:11:26" or "D30:05"."""
    texts = [given] if isinstance(given, str) else given
    return {f"D{one}:{two}" for text in texts for one, two in _EVIDENCE.findall(str(text))}


# LongMemEval

_LONGMEMEVAL_TIME = "%Y/%m/%d (%a) %H:%M"


def _longmemeval(path: Path) -> Iterator[Chat]:
    for sample in _json(path):
        dates = sample.get("haystack_dates") or [None] * len(sample["haystack_sessions"])
        turns: list[Turn] = []
        gold: list[str] = []
        parts = zip(sample["haystack_session_ids"], dates, sample["haystack_sessions"], strict=True)
        for number, (session, date, messages) in enumerate(parts):
            at = _time(date, _LONGMEMEVAL_TIME)
            for position, message in enumerate(messages):
                turn = Turn(
                    f"{number}:{position}", message["role"], message["content"], session, at
                )
                turns.append(turn)
                if message.get("has_answer"):
                    gold.append(turn.id)
        has_answer = not sample["question_id"].endswith("_abs")
        asked = Asked(
            text=sample["question"],
            kind=sample["question_type"] if has_answer else "abstention",
            turns=frozenset(gold if has_answer else ()),
            sessions=frozenset(sample["answer_session_ids"] if has_answer else ()),
            has_answer=has_answer,
            answer=str(sample["answer"]),
            is_update=sample["question_type"] == "knowledge-update",
            asked_at=_time(sample.get("question_date"), _LONGMEMEVAL_TIME),
        )
        yield Chat(sample["question_id"], turns, [asked])


# BEAM

_ARROW = re.compile(r"\s*->->\s*[\d,\s]*$")


def _beam(path: Path) -> Iterator[Chat]:
    folders = sorted({file.parent for file in path.rglob("chat.json")}, key=_natural)
    for folder in folders:
        turns = list(_beam_turns(_json(folder / "chat.json"), ()))
        known = {turn.id: turn.session for turn in turns}
        probes = _json(folder / "probing_questions" / "probing_questions.json")
        questions: list[Asked] = []
        ignored = 0
        for kind, asked in probes.items():
            for each in asked:
                named = set(map(str, _numbers(each.get("source_chat_ids"))))
                gold = frozenset(named & known.keys())
                ignored += len(named - known.keys())
                has_answer = kind != "abstention"
                answer = each.get("answer") or each.get("rubric") or ""
                questions.append(
                    Asked(
                        text=each["question"],
                        kind=kind,
                        turns=gold if has_answer else frozenset(),
                        sessions=frozenset(known[g] for g in gold) if has_answer else frozenset(),
                        has_answer=has_answer,
                        answer=answer if isinstance(answer, str) else json.dumps(answer),
                        is_update=kind == "knowledge_update",
                    )
                )
        yield Chat(str(folder.relative_to(path)), turns, questions, ignored)


def _beam_turns(part: Any, at: tuple[int, ...]) -> Iterator[Turn]:
    """Yield the messages of nested lists and mappings: a message is what has `id` and `content`."""
    if isinstance(part, Mapping):
        if "id" in part and isinstance(part.get("content"), str):
            session = ".".join(map(str, at[:-1])) or "0"
            text = _ARROW.sub("", part["content"])
            yield Turn(str(part["id"]), str(part.get("role", "")), text, session)
            return
        part = list(part.values())
    if isinstance(part, list):
        for number, each in enumerate(part):
            yield from _beam_turns(each, (*at, number))


def _numbers(given: Any) -> Iterator[int]:
    """Yield the numbers of nested lists and mappings."""
    if isinstance(given, Mapping):
        given = list(given.values())
    if isinstance(given, list):
        for each in given:
            yield from _numbers(each)
    elif isinstance(given, int | str) and str(given).isdecimal():
        yield int(given)


def _natural(path: Path) -> list[Any]:
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", str(path))]


def _time(text: str | None, form: str) -> datetime | None:
    if not text:
        return None
    return datetime.strptime(text.strip(), form).replace(tzinfo=UTC)


SETS = {
    each.name: each
    for each in (
        PublicSet(
            "locomo",
            "github.com/snap-research/locomo, data/locomo10.json (Maharana et al., ACL 2024)",
            "CC BY-NC 4.0: not for commercial use",
            "the file locomo10.json",
            _locomo,
        ),
        PublicSet(
            "longmemeval",
            "https://github.com/xiaowu0162/LongMemEval (Wu et al., ICLR 2025)",
            "MIT",
            "one of longmemeval_s.json, longmemeval_m.json and longmemeval_oracle.json",
            _longmemeval,
        ),
        PublicSet(
            "beam",
            "github.com/mohammadtavakoli78/BEAM, folder chats/ (Tavakoli et al., arXiv 2510.27246)",
            "not stated in its README of November 2025: look at the repository before you use it",
            "a folder of chats of one size, such as chats/100K, with chat.json in each",
            _beam,
        ),
    )
}
"""The sets by name."""
