"""A personal assistant that speaks Korean and detects facts while the user reads its answer.

python examples/personal_assistant_ko.py

The model is a script, so the example runs without an API key. To use a real model, replace it by
OpenAIChatModel("..."); nothing else changes.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from factmem import (
    Agent,
    AgentMemory,
    Concept,
    FactType,
    LocalFileMemoryProvider,
    MemoryScopesProfile,
    MemorySubject,
)
from factmem.detection import DetectionReport
from factmem.testing.chat import ScriptedChatModel

USER = MemorySubject("사용자", "비서와 이야기하는 사람", 1, per_entity=True)
MINJI = USER.of("민지")

DRINK = Concept("좋아하는-음료", "사용자가 좋아하는 음료")
ALLERGIES = Concept("알레르기", "사용자가 먹으면 안 되는 음식", FactType.MULTIPLE)
RISES_AT = Concept("기상-시각", "사용자가 평일에 일어나는 시각", value_type=int)

PROMPT = "당신은 개인 비서입니다. 존댓말로 짧게 대답하세요."
MONDAY = "저는 따뜻한 유자차를 좋아해요. 땅콩 알레르기가 있고, 평일에는 6시에 일어나요."
FRIDAY = "간식 좀 추천해 줘요. 아, 이제는 커피가 더 좋아요."


def item(quote: str, concept: Concept[Any, Any], value: object, importance: float = 0.5) -> object:
    """Return an item as a model would write it, with an exact quote in the user's language."""
    return {
        "message": 1,
        "quote": quote,
        "action": "assert",
        "subject": "사용자",
        "scope": "agent",
        "keyword": concept.keyword,
        "description": concept.description,
        "fact_type": concept.fact_type,
        "value": value,
        "importance": importance,
    }


SCRIPTS: dict[str, list[object]] = {
    MONDAY: [
        "네, 기억해 둘게요. 땅콩은 꼭 피하겠습니다.",
        {
            "facts": [
                item("따뜻한 유자차를 좋아", DRINK, "따뜻한 유자차"),
                item("땅콩 알레르기가 있", ALLERGIES, "땅콩", 1.0),
                item("6시에 일어나", RISES_AT, 6),
            ]
        },
    ],
    FRIDAY: [
        "땅콩이 없는 약과는 어떠세요? 커피와도 잘 어울려요.",
        {"facts": [item("이제는 커피가 더 좋아", DRINK, "커피")]},
    ],
}


async def talk(folder: Path, text: str, conversation: str) -> None:
    """Send one message, print the answer, and print the detected facts."""
    model = ScriptedChatModel(*SCRIPTS[text])
    async with LocalFileMemoryProvider(folder) as store:
        agent = Agent(model, system_prompt=PROMPT)
        memory = agent.install(
            AgentMemory,
            provider=store,
            scopes=MemoryScopesProfile(agent="비서"),
            subjects=[MINJI],
            concepts=[DRINK, ALLERGIES, RISES_AT],
            auto_detect=True,
        )
        result = await agent.run(text, conversation=conversation)
        shown = next((m["content"] for m in model.calls[0] if m.get("name")), "없음")
        print(f"[{conversation}] 기억: {shown}")
        print(f"민지: {text}")
        print(f"비서: {result.text}")

        for report in result.reports_of(DetectionReport):
            for placed in report.saved:
                print(f"  저장: {placed.fact.concept.keyword} = {placed.fact.values[0]}")
        for drink in await memory.current(DRINK):
            origin = await memory.why(drink)
            assert origin is not None
            print(f"  음료: {drink.value}, {conversation}에 이렇게 말했어요: {origin.quote!r}")


async def main() -> None:
    """Talk on two days that share only the folder."""
    with TemporaryDirectory() as name:
        await talk(Path(name), MONDAY, "월요일")
        await talk(Path(name), FRIDAY, "금요일")


anyio.run(main)
