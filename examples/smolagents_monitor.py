"""A smolagents agent with a memory, and its steps in a file. Needs `factmem[smolagents]`."""

from importlib.util import find_spec

if find_spec("smolagents") is None:
    raise SystemExit("This example needs more: pip install 'factmem[smolagents]'")


import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Hugging Face's packages warn when they are imported
    from smolagents import ChatMessage, MessageRole, Model, ToolCallingAgent
    from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction
    from smolagents.monitoring import LogLevel

from factmem import (
    AgentMemory,
    Concept,
    InMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    SingleFact,
)
from factmem.integrations.smolagents import (
    count_errors,
    install_memory,
    load_steps,
    save_steps,
    stepwise,
)
from factmem.sync import StoreSync

USER = MemorySubject("user", "The person the agent talks to", 1, per_entity=True)
THRESHOLD = Concept("alert-threshold", "The number of failures from which the user wants a report")


class StandIn(Model):
    """A fake model that answers from its prompt; in production: OpenAIModel("gpt-4o-mini")."""

    def generate(self, *args: Any, **options: Any) -> ChatMessage:
        """Return the final answer at once."""
        answer = "after 3 failures" if '"3"' in str(args) else "I do not know"
        call = ChatMessageToolCallFunction(name="final_answer", arguments={"answer": answer})
        return ChatMessage(
            role=MessageRole.ASSISTANT,
            content=None,
            tool_calls=[ChatMessageToolCall(function=call, id="1", type="function")],
        )


def agent_of(memory: AgentMemory) -> ToolCallingAgent:
    """Return an agent with Alice's memory."""
    agent = ToolCallingAgent(tools=[], model=StandIn(), verbosity_level=LogLevel.OFF)
    install_memory(agent, memory, user="alice")
    return agent


def main(folder: Path) -> None:
    """Ask, save the steps, and continue in another agent, one step at a time."""
    store = InMemoryProvider()
    StoreSync(store).save(SingleFact(THRESHOLD, "3"), USER.of("alice"), MemoryScope.Agent("desk"))
    memory = AgentMemory(store, scopes=MemoryScopesProfile(agent="desk"), subjects=[USER])

    agent = agent_of(memory)
    print(agent.run("When do I want an alert?"))
    save_steps(agent, folder / "monitor.json")

    again = agent_of(memory)
    load_steps(again, folder / "monitor.json")
    for step in stepwise(again, "Go on.", reset=False):
        print(type(step).__name__)
    print(len(again.memory.steps), "steps,", len(count_errors(again.memory.steps)), "errors")


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        main(Path(made))
