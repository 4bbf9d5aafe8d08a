"""Runner of the detection benchmark, with recorded answers or an OpenAI-compatible endpoint.

python -m benchmarks.detection                       # replay the reader's answers
python -m benchmarks.detection --recording author    # replay the author's answers
python -m benchmarks.detection --model NAME --base-url URL [--record FOLDER]
python -m benchmarks.detection --prompts FOLDER      # write the prompts, one file per dialogue
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
from typing_extensions import TypeForm, TypeVar

from benchmarks.detection.dialogue import HERE, Dialogue, detect, dialogues
from benchmarks.detection.score import Score, score
from factmem import Detection
from factmem.llm import ChatModel, ChatResponse, Extraction, OpenAIChatModel
from factmem.llm.base import Message, ToolDefinition
from factmem.testing.chat import ScriptedChatModel

T = TypeVar("T")


class Recorder:
    """A chat model wrapper that records answers and prompts."""

    def __init__(self, inner: ChatModel) -> None:
        self._inner = inner
        self.answers: list[object] = []
        self.prompts: list[list[Message]] = []

    async def respond(
        self, messages: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> ChatResponse:
        """Return the answer of the inner model."""
        return await self._inner.respond(messages, tools=tools)

    async def extract(self, messages: Sequence[Message], output_type: TypeForm[T]) -> Extraction[T]:
        """Return the answer of the inner model, and record the prompt and the answer."""
        self.prompts.append(list(messages))
        extraction = await self._inner.extract(messages, output_type)
        self.answers.append(json.loads(extraction.raw))
        return extraction


RECORDINGS = ("reader", "author")


def replay_model(dialogue: Dialogue, recording: str) -> ScriptedChatModel:
    """Return a chat model that replays the recorded answers of a dialogue."""
    path = HERE / "recordings" / recording / f"{dialogue.name}.json"
    text = path.read_text(encoding="utf-8")
    return ScriptedChatModel(
        *(json.dumps(answer, ensure_ascii=False) for answer in json.loads(text))
    )


async def run(options: argparse.Namespace) -> Score:
    """Run all dialogues, print a line for each and for the total, and return the total."""
    total = Score()
    print(f"{'dialogue':24} items right gold found  dated  leaks ungr stale refused flagged   F1")
    for dialogue in dialogues():
        inner: ChatModel = replay_model(dialogue, options.recording)
        if options.model:
            key = os.environ.get("OPENAI_API_KEY", "none")  # a local server accepts any
            inner = OpenAIChatModel(options.model, base_url=options.base_url, api_key=key)
        model = Recorder(inner)
        report, store = await detect(dialogue, model, Detection(verify=options.verify))
        if options.record:
            await _write(Path(options.record), dialogue, model.answers)
        if options.prompts:
            await _write(Path(options.prompts), dialogue, model.prompts)
        each = await score(dialogue, report, store)
        _print(dialogue.name, each)
        total += each
    _print("all", total)
    print(f"precision {total.precision:.3f}, recall {total.recall:.3f}, F1 {total.f1:.3f}")
    return total


async def _write(folder: Path, dialogue: Dialogue, content: object) -> None:
    await anyio.Path(folder).mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, ensure_ascii=False, indent=1)
    await anyio.Path(folder / f"{dialogue.name}.json").write_text(f"{text}\n", encoding="utf-8")


def _print(name: str, score: Score) -> None:
    print(
        f"{name:24} {score.items:5} {score.right:5} {score.gold:4} {score.found:5}"
        f" {score.dated:3}/{score.datable:<3} {score.leaks:4} {score.ungrounded:4} {score.stale:5}"
        f" {score.right_refused:7} {score.right_flagged:3}/{score.flagged:<3} {score.f1:5.2f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    anyio.run(run, parse_options(arguments))


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="the name of a model; recorded answers by default")
    parser.add_argument("--recording", default="reader", choices=RECORDINGS)
    parser.add_argument("--base-url", help="an OpenAI-compatible endpoint")
    parser.add_argument("--record", help="a folder for the answers")
    parser.add_argument("--prompts", help="a folder for the prompts")
    parser.add_argument("--verify", choices=["new"])
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
