"""Recall on a public set, beside simple methods: python -m benchmarks.recall.public --help."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from benchmarks.recall.measures import Ranked, Scores, interval, mean, scored
from benchmarks.recall.public_sets import SETS, Asked, Chat, PublicSet, Turn, hashes
from benchmarks.recall.quality import Remembering
from benchmarks.recall.simple import Text, bm25, grep, pairs_in, words_in
from factmem import (
    AgentMemory,
    Concept,
    Embedder,
    FactSource,
    FactType,
    InMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
    SourceKind,
)
from factmem.llm.base import estimate_tokens

USER = MemorySubject("user", "The user", 1)
AGENT = MemoryScope.Agent("bench")
DEPTHS = (5, 10, 20)
_MOST = 100
"""The most messages that are ranked: as many as fit into the budget of `benchmarks.qa`."""
SAID = Concept("said", "", FactType.MULTIPLE)

Rank: TypeAlias = Callable[[Asked], Awaitable[list[int]]]
"""Returns the numbers of the best messages for a question, best first."""

Method: TypeAlias = Callable[[Chat], Awaitable[Rank]]


def _simple(rank: Callable[[Sequence[Text]], Callable[[str], Sequence[int]]]) -> Method:
    async def of(chat: Chat) -> Rank:
        found = rank([Text("", "", _line(turn)) for turn in chat.turns])

        async def ask(asked: Asked) -> list[int]:
            return list(found(asked.text))

        return ask

    return of


def _line(turn: Turn) -> str:
    return f"{turn.speaker}: {turn.text}"


async def _whole(chat: Chat) -> Rank:
    """Return the full context: every message, the newest last, as a model would read it."""

    async def ask(_: Asked) -> list[int]:
        return list(range(len(chat.turns)))

    return ask


def _recall(embedder: Embedder | None) -> Method:
    async def of(chat: Chat) -> Rank:
        store = InMemoryProvider()
        await store.save_many(_facts(chat), USER, AGENT)
        times = [turn.said_at for turn in chat.turns if turn.said_at is not None]
        now = [max(times, default=datetime.now(UTC)) + timedelta(days=1)]
        memory = AgentMemory(
            store,
            scopes=MemoryScopesProfile(agent="bench"),
            subjects=[USER],
            embedder=embedder,
            clock=lambda: now[0],
        )

        async def ask(asked: Asked) -> list[int]:
            if asked.asked_at is not None:
                now[0] = asked.asked_at
            found = await memory.recall(asked.text, limit=_MOST)
            return [int(str(match.fact.metadata["at"])) for match in found]

        return ask

    return of


def _facts(chat: Chat) -> Iterator[MultipleFacts[str]]:
    firsts: dict[str, int] = {}
    repeated: Counter[str] = Counter()
    for at, turn in enumerate(chat.turns):
        position = at - firsts.setdefault(turn.session, at)
        source = FactSource(SourceKind.USER, f"{chat.name} {turn.session}", position)
        line = _line(turn)
        # Equal values are one fact, and equal messages are two: spaces keep them apart.
        value = line + " " * repeated[line]
        repeated[line] += 1
        fact = MultipleFacts(SAID, [value], source=source, metadata={"at": at})
        yield fact if turn.said_at is None else replace(fact, timestamp=turn.said_at)


def _vectors(embedder: Embedder) -> Method:
    async def of(chat: Chat) -> Rank:
        import numpy as np

        known = _unit(np.array(await embedder.embed([_line(turn)[:4000] for turn in chat.turns])))

        async def ask(asked: Asked) -> list[int]:
            vector = _unit(np.array(await embedder.embed([asked.text])))[0]
            ranked: list[int] = np.argsort(-(known @ vector), kind="stable").tolist()
            return ranked

        return ask

    return of


def _unit(vectors: Any) -> Any:
    return vectors / (abs((vectors**2).sum(1, keepdims=True) ** 0.5) + 1e-12)


def methods_of(embedder: Embedder | None) -> dict[str, Method]:
    """Return the methods of a run, by name."""
    found = {
        "grep": _simple(grep),
        "bm25s words": _simple(lambda texts: bm25(texts, words_in)),
        "bm25s pairs": _simple(lambda texts: bm25(texts, pairs_in)),
        "recall: words": _recall(None),
    }
    if embedder is not None:
        remembering = Remembering(embedder)
        found |= {"vectors": _vectors(remembering), "recall: both": _recall(remembering)}
    return found | {"full context": _whole}


async def measured(
    chats: Sequence[Chat], methods: Mapping[str, Method]
) -> dict[str, list[list[Scores]]]:
    """Return the measures of each question by method, those of a chat in one list."""
    found: dict[str, list[list[Scores]]] = {name: [] for name in methods}
    for number, chat in enumerate(chats, 1):
        order = {turn.id: at for at, turn in enumerate(chat.turns)}
        for name, method in methods.items():
            rank = await method(chat)
            scores: list[Scores] = []
            for asked in chat.questions:
                numbers = await rank(asked)
                if name != "full context":
                    numbers = numbers[: max(DEPTHS)]
                turns = [chat.turns[at] for at in numbers]
                # What a prompt would have: the first messages, or the whole chat.
                shown = turns if name == "full context" else turns[: DEPTHS[0]]
                tokens = estimate_tokens("\n".join(map(_line, shown)))
                depths = () if name == "full context" else DEPTHS
                scores.append(scored(asked, Ranked(turns, tokens), depths, order))
            found[name].append(scores)
        print(f"\r{number} of {len(chats)} chats", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def report(found: Mapping[str, list[list[Scores]]], chats: Sequence[Chat]) -> dict[str, Any]:
    """Return the means and intervals of all measures, over all questions and by kind."""
    kinds = list(dict.fromkeys(asked.kind for chat in chats for asked in chat.questions))
    whole: dict[str, Any] = {}
    for name, clusters in found.items():
        whole[name] = {"all": _means(clusters)}
        for kind in kinds:
            part = [
                [s for s, asked in zip(scores, chat.questions, strict=True) if asked.kind == kind]
                for scores, chat in zip(clusters, chats, strict=True)
            ]
            whole[name][kind] = _means(part)
    return whole


def _means(clusters: Sequence[Sequence[Scores]]) -> dict[str, Any]:
    every = [each for cluster in clusters for each in cluster]
    names = dict.fromkeys(name for each in every for name in each)
    means: dict[str, Any] = {"questions": len(every)}
    for name in names:
        means[name] = {"mean": mean(every, name), "interval": interval(clusters, name)}
    return means


_SHOWN = ("any@5", "recall@5", "all@5", "any@20", "session@5", "MRR", "stale", "empty")


def table(found: Mapping[str, Any]) -> str:
    """Return the measures over all questions as lines: means, and the interval of any@5."""
    lines = [
        f"{'':14}" + "".join(f"{name:>11}" for name in _SHOWN) + "   empty of no answer  tokens"
    ]
    for name, parts in found.items():
        whole = parts["all"]
        cells = "".join(f"{_number(whole, each):>11}" for each in _SHOWN)
        tokens = whole["tokens"]["mean"]
        lines.append(f"{name:14}{cells}{_number(whole, 'empty, no answer'):>21}{tokens:>8.0f}")
        if (around := whole.get("any@5", {}).get("interval")) is not None:
            lines.append(
                f"{'':14}any@5 from {around[0]:.3f} to {around[1]:.3f} (95 %, by conversation)"
            )
    return "\n".join(lines)


def _number(whole: Mapping[str, Any], name: str) -> str:
    found = whole.get(name)
    return "-" if found is None or found["mean"] is None else f"{found['mean']:.3f}"


async def run(
    chosen: PublicSet, data: Path, embedder: str | None, first: int | None
) -> dict[str, Any]:
    """Measure a set, print the table, and return the results for a file."""
    chats = list(chosen.chats(data))[:first]
    vectors: Embedder | None = None
    if embedder == "minilm":
        from benchmarks.recall.minilm import MiniLM

        vectors = MiniLM()
    elif embedder is not None:
        from factmem.embedding._named import named_embedder

        vectors = named_embedder(embedder)
    found = report(await measured(chats, methods_of(vectors)), chats)
    print(table(found))
    return {
        "set": chosen.name,
        "source": chosen.source,
        "licence": chosen.licence,
        "data": hashes(data),
        "chats": len(chats),
        "questions": sum(len(chat.questions) for chat in chats),
        "messages": sum(len(chat.turns) for chat in chats),
        "evidence that names no message": sum(chat.ignored for chat in chats),
        "first": first,
        "embedder": embedder,
        "versions": {name: version(name) for name in ("factmem", "bm25s", "numpy")},
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "results": found,
    }


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    sets = "\n".join(
        f"  {each.name}: DATA is {each.data}.\n"
        f"    Source: {each.source}.\n    Licence: {each.licence}."
        for each in SETS.values()
    )
    found = argparse.ArgumentParser(
        prog="python -m benchmarks.recall.public",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measure recall on a public set, beside grep, BM25, vectors and the full "
        "context, in one run and without a judge.",
        epilog=f"The data is yours to fetch; nothing of it is in this repository.\n{sets}\n\n"
        "Each message is one fact. Tokens are those of the first five messages, of the whole chat "
        "for\nthe full context, in which everything is found by definition. Intervals draw "
        "conversations.\nNeeds bm25s: pip install bm25s.",
    )
    found.add_argument("--set", choices=list(SETS), required=True, dest="name")
    found.add_argument("data", metavar="DATA", type=Path)
    found.add_argument(
        "--embedder", help="minilm, or a name such as ollama:nomic-embed-text; words only without"
    )
    found.add_argument("--first", type=int, help="Only the first chats, to try it.")
    found.add_argument(
        "--out", type=Path, help="Write the results as JSON, with hashes of the data."
    )
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parser().parse_args(arguments)
    results = anyio.run(run, SETS[options.name], options.data, options.embedder, options.first)
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
