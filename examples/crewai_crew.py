"""A crew with a memory, and lessons from human feedback. Needs `factmem[crewai]`."""

from importlib.util import find_spec

if find_spec("crewai") is None:
    raise SystemExit("This example needs more: pip install 'factmem[crewai]'")


import os
import warnings
from typing import Any

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # CrewAI's packages warn when they are imported
    from crewai import Agent, BaseLLM, Crew, Task
    from crewai.flow.flow import Flow, start
    from crewai.flow.human_feedback import human_feedback

from factmem import (
    AgentMemory,
    Concept,
    InMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    SingleFact,
)
from factmem.integrations.crewai import FactmemMemory, lesson_concept
from factmem.sync import StoreSync

USER = MemorySubject("user", "The person the crew works for", 1, per_entity=True)
EDITOR = Concept("editor", "The editor that the user prefers")


class StandIn(BaseLLM):
    """A fake model that answers from its prompt; in production: LLM("openai/gpt-4o-mini")."""

    def call(self, messages: Any, *args: Any, **options: Any) -> Any:
        """Answer, improve a draft, or distill a lesson."""
        shown = str(messages)
        if "Human feedback:" in shown:
            return "- Cite the source of each claim."
        if "Cite the source" in shown:
            return "Tea comes from China [1]."
        return f"Final Answer: {'vim' if 'vim' in shown else 'I do not know'}"


class Reviewer:
    """The human; in production CrewAI asks on the console."""

    def request_feedback(self, context: Any, flow: Any) -> str:
        """Print the draft and return feedback."""
        print("draft:", context.method_output)
        return "Please cite your sources."


class Writer(Flow[dict[str, Any]]):
    """Writes a draft that a human reviews."""

    @start()
    @human_feedback(
        "Review the draft:", llm=StandIn(model="stand-in"), learn=True, provider=Reviewer()
    )
    def draft(self) -> str:
        """Return the draft."""
        return "Tea comes from China."


def main() -> None:
    """Ask a crew about a stored fact, then let a flow learn from a review."""
    store = InMemoryProvider()
    StoreSync(store).save(SingleFact(EDITOR, "vim"), USER.of("alice"), MemoryScope.Agent("desk"))
    memory = AgentMemory(
        store,
        scopes=MemoryScopesProfile(agent="desk"),
        subjects=[USER],
        concepts=[lesson_concept()],
    )
    mine = FactmemMemory.of(memory, user="alice")

    agent = Agent(role="Desk", goal="help", backstory="You help.", llm=StandIn(model="stand-in"))
    task = Task(description="Which editor do I use?", expected_output="a name", agent=agent)
    print(Crew(agents=[agent], tasks=[task], memory=mine).kickoff().raw)

    Writer(memory=mine, suppress_flow_events=True).kickoff()
    Writer(memory=mine, suppress_flow_events=True).kickoff()  # the lesson improves the draft
    for lesson in mine.recall("draft", source="hitl"):
        print(lesson.record.content)


if __name__ == "__main__":
    main()
