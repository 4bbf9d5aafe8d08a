"""Questions about conversations, answered by your model: python -m benchmarks.qa --help."""

import argparse
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

import anyio

from benchmarks.qa.arms import Arm, arms_of
from benchmarks.qa.scoring import JUDGE, READER, UNKNOWN, judged, words_in_common
from benchmarks.recall.measures import Scores, interval, mean
from benchmarks.recall.public_sets import SETS, Asked, Chat, hashes
from factmem import ChatModel, Embedder
from factmem.embedding._named import named_embedder
from factmem.errors import ChatModelError
from factmem.llm.base import estimate_tokens
from factmem.llm.openai import named_chat_model

MEASURES = ("right", "F1", "says unknown", "tokens")


async def answered(reader: ChatModel, context: str, asked: Asked) -> str:
    """Return the reader's answer."""
    date = "" if asked.asked_at is None else f"Today is {asked.asked_at:%Y-%m-%d}.\n"
    words = f"<memory>\n{context}\n</memory>\n\n{date}Question: {asked.text}"
    response = await reader.respond(
        [{"role": "system", "content": READER}, {"role": "user", "content": words}]
    )
    return response.text.strip()


async def _row(
    chat: Chat, asked: Asked, context: str, reader: ChatModel, judge: ChatModel | None
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "chat": chat.name,
        "question": asked.text,
        "kind": asked.kind,
        "right answer": asked.answer if asked.has_answer else None,
        "tokens": estimate_tokens(context),
    }
    try:
        row["answer"] = await answered(reader, context, asked)
        if judge is not None:
            row["verdict"] = await judged(judge, asked, row["answer"])
    except ChatModelError as exc:  # such as a chat that is longer than the model's context
        row["error"] = f"{type(exc).__name__}: {exc}"
    return row


def scores_of(row: Mapping[str, Any]) -> Scores:
    """Return the measures of an answer; an answer that the model did not give is wrong.

    A question without an answer is right if the reader says that it does not know.
    """
    answer, right = row.get("answer", ""), row["right answer"]
    is_unknown = UNKNOWN.casefold() in answer.casefold()
    scores: dict[str, float | None] = {
        "tokens": float(row["tokens"]),
        "says unknown": float(is_unknown),
        "F1": float(is_unknown) if right is None else words_in_common(answer, right),
    }
    if "verdict" in row or "error" in row:
        wanted = "unknown" if right is None else "right"
        scores["right"] = float(row.get("verdict") == wanted)
    return scores


def sampled(chats: Sequence[Chat], most: int | None, seed: int) -> list[Chat]:
    """Return chats with a random sample of all questions, without those that have none left."""
    every = [(at, n) for at, chat in enumerate(chats) for n in range(len(chat.questions))]
    if most is not None and most < len(every):
        every = Random(seed).sample(every, most)
    kept = set(every)
    found = [
        replace(chat, questions=[q for n, q in enumerate(chat.questions) if (at, n) in kept])
        for at, chat in enumerate(chats)
    ]
    return [chat for chat in found if chat.questions]


def cost_of(chats: Sequence[Chat], arms: Collection[str], budget: int) -> str:
    """Return what a run asks of the models, at most, as lines."""
    questions = sum(len(chat.questions) for chat in chats)
    whole = [estimate_tokens("\n".join(turn.text for turn in chat.turns)) for chat in chats]
    full = sum(size * len(chat.questions) for size, chat in zip(whole, chats, strict=True))
    few = len({*arms} - {"nothing", "full context"}) * budget * questions
    asked = len(arms) * questions
    read = few + full * ("full context" in arms) + asked * estimate_tokens(READER)
    sessions = sum(len({turn.session for turn in chat.turns}) for chat in chats)
    lines = [
        f"Reader, and judge if any: {asked:,} calls each; the reader reads up to {read:,} tokens"
    ]
    if "facts" in arms:
        lines.append(
            f"Detector: {sessions:,} calls or more, {sum(whole):,} tokens of messages and the "
            "instructions of each call"
        )
    return "\n".join(lines)


async def measured(
    chats: Sequence[Chat], arms: Mapping[str, Arm], reader: ChatModel, judge: ChatModel | None
) -> dict[str, list[list[dict[str, Any]]]]:
    """Return the answers by arm, those about a chat in one list."""
    found: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in arms}
    for number, chat in enumerate(chats, 1):
        for name, arm in arms.items():
            context = await arm(chat)
            found[name].append(
                [
                    await _row(chat, asked, await context(asked), reader, judge)
                    for asked in chat.questions
                ]
            )
        print(f"\r{number} of {len(chats)} chats", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def report(found: Mapping[str, list[list[dict[str, Any]]]]) -> dict[str, Any]:
    """Return the means and the intervals of each arm."""
    whole: dict[str, Any] = {}
    for name, clusters in found.items():
        scored = [[scores_of(row) for row in cluster] for cluster in clusters]
        every = [each for cluster in scored for each in cluster]
        whole[name] = {
            "questions": len(every),
            "errors": sum("error" in row for cluster in clusters for row in cluster),
            **{m: {"mean": mean(every, m), "interval": interval(scored, m)} for m in MEASURES},
        }
    return whole


def table(results: Mapping[str, Any]) -> str:
    """Return the results as lines, tokens beside each score."""
    lines = [f"{'':16}" + "".join(f"{each:>26}" for each in MEASURES) + "  errors"]
    for name, arm in results.items():
        cells = "".join(f"{_cell(arm[each]):>26}" for each in MEASURES)
        lines.append(f"{name:16}{cells}{arm['errors']:>8}")
    return "\n".join(lines)


def _cell(found: Mapping[str, Any]) -> str:
    if found["mean"] is None:
        return "-"
    around = found["interval"]
    shown = "" if around is None else f" [{around[0]:.3f}, {around[1]:.3f}]"
    return f"{found['mean']:.3f}{shown}"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    sets = "\n".join(f"  {s.name}: {s.source}. Licence: {s.licence}." for s in SETS.values())
    found = argparse.ArgumentParser(
        prog="python -m benchmarks.qa",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Questions about conversations, answered by a model of yours: with nothing, "
        "with the full context, and within one budget of tokens with BM25, with recalled messages "
        "(turns), with detected facts, and with the text of facts and quotes that an agent gets.",
        epilog=f"The data is yours to fetch:\n{sets}\n\nThe instructions of reader and judge are "
        "printed, and the raw answers are in --out. Without --judge\nonly the words in common with "
        "the right answer count. A judge's score depends on its words and its\nmodel: compare arms "
        "of one run, never figures of different runs. No such figure is published here.",
    )
    found.add_argument("--set", choices=list(SETS), required=True, dest="name")
    found.add_argument("data", metavar="DATA", type=Path)
    for name, what in (
        ("reader", "The model that answers: openai:gpt-4o-mini, ollama:qwen3."),
        ("judge", "The model that judges; words in common only without."),
        ("detector", "The model that detects facts; no arm with facts without."),
        ("embedder", "The embedder of recall: ollama:nomic-embed-text; words only without."),
    ):
        found.add_argument(f"--{name}", required=name == "reader", metavar="NAME", help=what)
    found.add_argument("--first", type=int, help="Only the first chats.")
    found.add_argument("--questions", type=int, help="A random sample of so many questions.")
    found.add_argument("--seed", type=int, default=0, help="The seed of the sample.")
    found.add_argument("--tokens", type=int, default=1600, help="The budget of an arm; 1600.")
    found.add_argument("--cost", action="store_true", help="Only print what the run would cost.")
    found.add_argument("--out", type=Path, help="Write answers, verdicts and results as JSON.")
    return found


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure a set, print the prompts and the table, and return all for a file."""
    reader, judge, detector = (
        None if name is None else named_chat_model(name)
        for name in (options.reader, options.judge, options.detector)
    )
    assert reader is not None
    embedder: Embedder | None = (
        None if options.embedder is None else named_embedder(options.embedder)
    )
    print(f"Reader {options.reader}:\n{READER}\n")
    print(f"Judge {options.judge}:\n{JUDGE}\n" if judge else "No judge: words in common only\n")
    chats = list(SETS[options.name].chats(options.data))[: options.first]
    chats = sampled(chats, options.questions, options.seed)
    arms = arms_of(detector, embedder, options.tokens)
    print(f"{cost_of(chats, arms, options.tokens)}\n")
    if options.cost:
        return {}
    found = await measured(chats, arms, reader, judge)
    results = report(found)
    print(table(results))
    return {
        "set": options.name,
        "data": hashes(options.data),
        "sample": {n: getattr(options, n) for n in ("first", "questions", "seed", "tokens")},
        "models": {n: getattr(options, n) for n in ("reader", "judge", "detector", "embedder")},
        "prompts": {"reader": READER, "judge": JUDGE if judge else None},
        "version": version("factmem"),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "results": results,
        "answers": found,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parser().parse_args(arguments)
    whole = anyio.run(run, options)
    if options.out is not None and whole:
        text = json.dumps(whole, ensure_ascii=False, indent=2)
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
