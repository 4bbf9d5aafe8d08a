"""benchmarks.qa: each arm gives the reader what it says; answers are scored by rules."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.qa.__main__ import cost_of, measured, parser, report, sampled, scores_of, table
from benchmarks.qa.arms import arms_of
from benchmarks.qa.scoring import JUDGE, READER, UNKNOWN, judged, words_in_common
from benchmarks.recall.public_sets import SETS, Asked, Chat
from factmem.errors import ChatModelError
from factmem.llm.base import ChatResponse, Message, estimate_tokens
from factmem.testing.chat import ScriptedChatModel
from tests.doubles import FunctionModel
from tests.recall.test_public_sets import DATA
from tests.tables import table as cases


class Reader(FunctionModel):
    """Answers with the name of the dog if its context tells one; refuses long contexts."""

    def __init__(self, most: int = 10_000) -> None:
        super().__init__(self._read)
        self._most = most

    async def _read(self, messages: Sequence[Message], _: object) -> ChatResponse:
        system, asked = (str(each["content"]) for each in messages)
        assert system == READER
        if len(asked) > self._most:
            raise ChatModelError("The context is too long")
        found = re.search(r"called (\w+)", asked.partition("Question:")[0])
        return ChatResponse(found[1] if found else UNKNOWN)


def chats() -> list[Chat]:
    return list(SETS["locomo"].chats(DATA / "locomo10.json"))


def _detector() -> ScriptedChatModel:
    dog = {
        "message": 0,
        "quote": "I have a dog called Rex",
        "subject": "speaker-1",
        "keyword": "pet",
        "description": "What the pet of Ann is called",
        "value": "a dog called Rex",
    }
    return ScriptedChatModel({"facts": [dog]}, {"facts": []}, {"facts": []})


async def test_each_arm_gives_what_it_says() -> None:
    """Nothing, everything, the best messages, detected facts, and the text for an agent."""
    [chat] = chats()
    dog = chat.questions[0]
    text = {
        name: await (await arm(chat))(dog)
        for name, arm in arms_of(_detector(), None, 400).items()
        if name != "bm25"
    }

    assert text["nothing"] == ""
    assert text["full context"].count("\n") == len(chat.turns) - 1
    assert "[2023-05-08] Ann: I have a dog called Rex." in text["turns"]
    assert "a dog called Rex" in text["facts"]
    assert "Oslo" not in text["facts"]
    assert "called Rex" in text["text"]
    assert '"a dog called Rex"' in text["text"]
    assert "facts" not in arms_of(None, None, 400)


async def test_the_text_without_a_detector_has_quotes_of_both_speakers() -> None:
    """With their names and dates, within the budget."""
    [chat] = chats()
    context = await arms_of(None, None, 300)["text"](chat)

    text = await context(chat.questions[1])

    assert "Oslo" in text
    assert "Ben" in text
    assert estimate_tokens(text) <= 300


def test_a_sample_is_drawn_by_its_seed() -> None:
    """From the questions of all chats: the first ones of a set are often of one kind."""
    [chat] = chats()
    many = [replace(chat, name=str(n)) for n in range(20)]

    def drawn(seed: int) -> list[tuple[str, str]]:
        return [(c.name, q.text) for c in sampled(many, 10, seed) for q in c.questions]

    assert drawn(1) == drawn(1) != drawn(2)
    assert len(drawn(1)) == 10
    assert len({text for _, text in drawn(1)}) > 1
    assert sampled(many, None, 1) == many


def test_the_cost_is_said_beforehand() -> None:
    """Calls and tokens of each model."""
    found = chats()

    assert "Reader, and judge if any: 8 calls each" in cost_of(found, ["nothing", "text"], 100)
    assert "Detector: 3 calls or more" in cost_of(found, ["facts"], 100)


async def test_a_run_scores_each_arm() -> None:
    """With the tokens beside; a question without an answer is right if the reader does not know."""
    found = chats()
    arms = {
        name: arm for name, arm in arms_of(None, None, 1600).items() if name not in ("bm25", "text")
    }
    judge = ScriptedChatModel(
        *(
            {"verdict": verdict}
            for verdict in ("unknown", "unknown", "right", "right", "right", "wrong")
        )
    )

    found = [replace(chat, questions=chat.questions[:2]) for chat in found]
    answers = await measured(found, arms, Reader(), judge)
    results = report(answers)

    assert {name: arm["right"]["mean"] for name, arm in results.items()} == {
        "nothing": 0.0,
        "full context": 1.0,
        "turns": 0.5,
    }
    assert results["nothing"]["tokens"]["mean"] == 0
    assert results["nothing"]["says unknown"]["mean"] == 1.0
    assert results["full context"]["tokens"]["mean"] >= results["turns"]["tokens"]["mean"] > 0
    assert answers["turns"][0][0]["answer"] == "Rex"
    assert all(name in table(results) for name in arms)


async def test_a_context_that_is_too_long_is_a_wrong_answer() -> None:
    """And is counted; the other arms go on."""
    found = chats()
    arms = {name: arms_of(None, None, 1600)[name] for name in ("full context", "nothing")}

    results = report(await measured(found, arms, Reader(most=120), None))

    assert (results["full context"]["errors"], results["nothing"]["errors"]) == (4, 0)
    assert results["full context"]["right"]["mean"] == 0.0


@cases(
    ("row", "right", "f1"),
    [
        ({"right answer": "Rex", "answer": "Rex", "verdict": "right"}, 1.0, 1.0),
        ({"right answer": "Rex", "answer": "The Rex.", "verdict": "right"}, 1.0, 1.0),
        ({"right answer": "Rex", "answer": UNKNOWN, "verdict": "unknown"}, 0.0, 0.0),
        ({"right answer": None, "answer": f"{UNKNOWN}.", "verdict": "unknown"}, 1.0, 1.0),
        ({"right answer": None, "answer": "Rex", "verdict": "wrong"}, 0.0, 0.0),
        ({"right answer": "Rex", "error": "ChatModelError: down"}, 0.0, 0.0),
        ({"right answer": "Rex", "answer": "Rex"}, None, 1.0),
    ],
)
def test_scores_of_an_answer(row: dict[str, Any], right: float | None, f1: float) -> None:
    """Without a judge there is no `right`."""
    scores = scores_of({"tokens": 3, **row})

    assert (scores.get("right"), scores["F1"]) == (right, f1)


def test_words_in_common() -> None:
    """As SQuAD counts them."""
    assert words_in_common("7 May 2023", "on 7 May 2023") == 6 / 7
    assert words_in_common("Oslo", "Busan") == 0.0
    assert words_in_common("", "") == 1.0


async def test_the_judge_sees_question_answer_and_right_answer() -> None:
    """And the instructions that the command prints."""
    judge = ScriptedChatModel({"verdict": "wrong"})
    asked = Asked("What is the dog called?", "kind", answer="Rex")

    assert await judged(judge, asked, "a dog") == "wrong"

    system, user = (str(message["content"]) for message in judge.calls[0][:2])
    assert system == JUDGE
    assert all(part in user for part in ("What is the dog called?", "Rex", "a dog"))


def test_help_says_what_a_figure_is_worth() -> None:
    """Sources, licences, and that figures of different runs are not compared."""
    text = parser().format_help()

    assert all(each.source in text and each.licence in text for each in SETS.values())
    assert "compare arms of one run" in text
