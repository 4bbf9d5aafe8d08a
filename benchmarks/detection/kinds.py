"""Right and wrong items of ten kinds in ten languages: how many are stored, by which check.

    python -m benchmarks.detection.kinds                  # counts
    python -m benchmarks.detection.kinds --prompts FILE   # the verifying calls, in random order

A line of `chat/wrong.txt` and `chat/right.txt` is a chat, the quote, the keyword and the value;
"> " marks the assistant, and "city>home-city" a keyword beside a declared one. `chat/checks.json`
has the answers of a reader to the verifying calls, `chat/checklist.json` what the reader says in
the checklist. `wrong-2.txt` and `right-2.txt` have twelve kinds.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from benchmarks.detection.dialogue import HERE, SCOPE, USER
from factmem import AgentMemory, Concept, Detection, InMemoryProvider, MemoryScopesProfile
from factmem.testing.chat import ScriptedChatModel


@dataclass(frozen=True)
class Case:
    """An item of a model's answer about a chat."""

    is_right: bool
    kind: str
    messages: Sequence[dict[str, str]]
    quote: str
    keyword: str
    value: str
    declared: str
    """The keyword of the application; empty if it declares none."""


def cases(part: str = "") -> list[Case]:
    """Return the cases in random order, so that a reader cannot tell which are right.

    Args:
        part: "-2" and "-3" for those that were written before later rules, and not seen while
            these were made.
    """
    found: list[Case] = []
    for label in ("wrong", "right"):
        kind = ""
        for line in (HERE / "chat" / f"{label}{part}.txt").read_text("utf-8").splitlines():
            if line.startswith("# "):
                kind = line[2:]
                continue
            said, quote, keyword, value = line.split(" | ")
            keyword, _, declared = keyword.partition(">")
            given = (label == "right", kind, _chat(said), quote, keyword, value, declared)
            found.append(Case(*given))
    random.Random(40).shuffle(found)
    return found


def _chat(said: str) -> list[dict[str, str]]:
    if said.startswith("Look"):  # a quoted line of a message, and no answer
        return [{"role": "user", "content": said.replace(" / ", "\n")}]
    return [
        {"role": "assistant", "content": text[2:]}
        if text.startswith("> ")
        else {"role": "user", "content": text}
        for text in said.split(" / ")
    ]


def checks() -> Mapping[str, tuple[str, str]]:
    """Return a reader's reason and verdict by the number of its case."""
    given: dict[str, str] = json.loads((HERE / "chat" / "checks.json").read_text("utf-8"))
    return {
        number: (reason, "keep" if reason == "stated" else "drop")
        for number, reason in given.items()
    }


def checklist(part: str = "") -> Mapping[str, tuple[str, str]]:
    """Return what a reader says in the checklist by the number of its case: who, and said as what.

    Cases that are not there are ("writer", "stated").
    """
    given = json.loads((HERE / "chat" / "checklist.json").read_text("utf-8"))[part]
    return {number: (who, said_as) for number, (who, said_as) in given.items()}


async def is_stored(
    case: Case, *, check: tuple[str, str] | None = None, **said: Any
) -> tuple[bool, ScriptedChatModel]:
    """Return whether the value becomes current, and the model with its calls.

    Args:
        case: The item.
        check: The reason and verdict of a verifying call; None for no such call.
        said: What the model says in its checklist: `who` and `said_as`.
    """
    item = {"message": len(case.messages) - 1, "quote": case.quote, "keyword": case.keyword}
    item |= {"value": case.value, "fact_type": "MULTIPLE", **said}
    found = {} if check is None else {"reason": check[0], "verdict": check[1]}
    model = ScriptedChatModel({"facts": [item]}, {"checks": [{"statement": 0, **found}]})
    concepts = [Concept(case.declared, f"The user's {case.declared}")] if case.declared else []
    memory = AgentMemory(
        InMemoryProvider(),
        chat_model=model,
        scopes=MemoryScopesProfile(agent=SCOPE.name),
        subjects=[USER.of("alice")],
        concepts=concepts,
    )
    detection = Detection(verify=None if check is None else "new")
    await memory.auto_detect_facts(case.messages, detection=detection)
    held = [each.concept.keyword for each in await memory.current()]
    return (case.declared in held if case.declared else bool(held)), model


async def counts(part: str = "", *, verify: bool = False) -> dict[str, Counter[str]]:
    """Return the cases by label, and those that are stored by way and label."""
    verdicts, answers = checks() if verify else {}, checklist(part)
    found: dict[str, Counter[str]] = {"all": Counter()}
    for number, case in enumerate(cases(part)):
        label = "right" if case.is_right else "wrong"
        who, said_as = answers.get(str(number), ("writer", "stated"))
        ways: dict[str, dict[str, Any]] = {
            "no checklist": {},
            "all stated": {"who": "writer", "said_as": "stated"},
            "who alone": {"who": who, "said_as": "stated"},
            "checklist": {"who": who, "said_as": said_as},
        }
        if verdicts:
            ways["verify"] = {"check": verdicts.get(str(number), ("stated", "keep"))}
        found["all"][label] += 1
        for way, given in ways.items():
            stored, _ = await is_stored(case, **given)
            counted = found.setdefault(way, Counter())
            counted[label] += stored
            counted[f"{label} {case.kind}"] += stored
    return found


async def prompts() -> str:
    """Return the verifying calls of all cases, each with its number; the rules once."""
    texts: list[str] = []
    for number, case in enumerate(cases()):
        _, model = await is_stored(case, check=("stated", "keep"))
        if len(model.calls) > 1:
            system, user = (str(each["content"]) for each in model.calls[1])
            texts = texts or [system]
            texts.append(f"### {number}\n{user}")
    return "\n\n".join(texts)


def main() -> None:
    """Print the counts, or write the prompts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=Path, help="a file for the prompts")
    options = parser.parse_args()
    if options.prompts:
        options.prompts.write_text(anyio.run(prompts), encoding="utf-8")
        return
    for part in ("", "-2", "-3", "-4"):
        for way, found in anyio.run(partial(counts, part, verify=not part)).items():
            print(f"{way:14} wrong {found['wrong']:4}  right {found['right']:4}")
            kinds = sorted(each for each in found.items() if " " in each[0])
            print("  " + ", ".join(f"{kind} {n}" for kind, n in kinds))


if __name__ == "__main__":
    main()
