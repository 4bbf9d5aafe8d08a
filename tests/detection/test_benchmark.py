"""The detection benchmark: replayed recordings, its runner, and its list of wrong answers."""

import json
from pathlib import Path

import anyio
import pytest

from benchmarks.detection.__main__ import parse_options, replay_model, run
from benchmarks.detection.dialogue import HERE, detect, dialogues
from benchmarks.detection.score import Score, score
from factmem.prompt._transcript import has_negation
from tests.chat_server import ChatServer, says
from tests.detection import test_wrong_answers
from tests.detection.judging import judge, outcome


async def replay(recording: str) -> Score:
    total = Score()
    for dialogue in dialogues():
        report, store = await detect(dialogue, replay_model(dialogue, recording))
        total += await score(dialogue, report, store)
    return total


@pytest.mark.parametrize(("recording", "least"), [("reader", 0.95), ("author", 1)])
async def test_replayed_answers_are_complete(recording: str, least: float) -> None:
    total = await replay(recording)

    assert len(dialogues()) >= 12
    assert (total.leaks, total.ungrounded, total.stale, total.right_refused) == (0, 0, 0, 0)
    assert total.dated >= 0.9 * total.datable
    assert total.flagged <= 0.1 * total.items
    assert total.f1 >= least


@pytest.mark.parametrize("name", ["kinds-1", "kinds-2", "kinds-3"])
def test_right_answers_about_hard_sentences_are_stored(name: str) -> None:
    """As a model answers that fills in the checklist."""
    given = json.loads((HERE / f"{name}.json").read_text("utf-8"))
    for each in given["right"]:
        each["said_as"] = "negative" if has_negation(each["quote"]) else "stated"
    outcomes = {
        label: [outcome(judge(each.pop("said"), each)) for each in given[label] if each.pop("kind")]
        for label in ("wrong", "right")
    }

    assert min(len(found) for found in outcomes.values()) >= 30
    assert sum(each != "stored" for each in outcomes["right"]) <= len(outcomes["right"]) * 0.04


@pytest.mark.storm
async def test_the_runner_calls_an_endpoint_and_records_its_answers(tmp_path: Path) -> None:
    """Over HTTP the same answers give the same score and recording."""
    pytest.importorskip("openai")
    answers = [
        json.loads((HERE / "recordings" / "reader" / f"{each.name}.json").read_text("utf-8"))
        for each in dialogues()
    ]
    with ChatServer() as server:
        server.answer(*(says(each) for listed in answers for each in listed))
        options = ["--model", "m", "--base-url", server.url, "--record", str(tmp_path)]
        total = await run(parse_options(options))

    assert server.troubles == []
    assert {each.response_format for each in server.requests} == {"json_schema"}
    assert total == await replay("reader")
    for each, given in zip(dialogues(), answers, strict=True):
        text = await anyio.Path(tmp_path / f"{each.name}.json").read_text("utf-8")
        assert json.loads(text) == given


def test_each_wrong_answer_is_listed_with_its_outcome() -> None:
    """`python -m tests.detection.test_benchmark` writes the list."""
    listed = (HERE / "wrong-answers.md").read_text(encoding="utf-8")

    assert listed == wrong_answers()


def wrong_answers() -> str:
    lines = [
        "# Wrong answers, and what becomes of each",
        "",
        (
            "Plausible wrong answers of a model, tried one by one in "
            "`tests/detection/test_wrong_answers.py`. A flagged"
        ),
        (
            "one is in `report.doubtful`: a near quote is stored and marked, all others are "
            "proposals. Those marked **stored**"
        ),
        'are for `Detection(verify="new")`; the others are refused.',
        "",
        "| wrong answer | said | quote | value | outcome |",
        "|---|---|---|---|---|",
    ]
    for name, said, quote, keyword, value, expected, _ in test_wrong_answers.CASES:
        shown = said if isinstance(said, str) else " / ".join(said)
        cells = [name, _cell(shown), _cell(quote), f"{keyword}: {_cell(value)}"]
        bold = "**stored**" if expected == "stored" else expected
        lines.append(f"| {' | '.join(cells)} | {bold} |")
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    text = ", ".join(value) if isinstance(value, list) else str(value)
    text = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return text if len(text) <= 80 else f"{text[:77]}..."


if __name__ == "__main__":
    (HERE / "wrong-answers.md").write_text(wrong_answers(), encoding="utf-8")
