"""An OpenAI Agents SDK agent with a memory. Needs `factmem[openai-agents]` and no API key."""

from importlib.util import find_spec

if find_spec("agents") is None:
    raise SystemExit("This example needs more: pip install 'factmem[openai-agents]'")


from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import anyio
from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from factmem import (
    AgentMemory,
    Concept,
    InMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    SingleFact,
)
from factmem.integrations.openai_agents import with_memory

USER = MemorySubject("user", "The person the agent talks to", 1, per_entity=True)
EDITOR = Concept("editor", "The editor that the user prefers")


@dataclass
class Context:
    """The context of a run."""

    user: str


class StandIn(Model):
    """A fake model that answers from its instructions; in production: model="gpt-4o-mini"."""

    async def get_response(
        self, system_instructions: str | None, *args: Any, **options: Any
    ) -> ModelResponse:
        """Answer from the instructions."""
        is_known = '"vim"' in (system_instructions or "")
        text = ResponseOutputText(
            text="You use vim." if is_known else "I do not know.",
            type="output_text",
            annotations=[],
            logprobs=[],
        )
        message = ResponseOutputMessage(
            id="1", content=[text], role="assistant", status="completed", type="message"
        )
        return ModelResponse([message], Usage(), None)

    def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """Raise, because this example does not stream."""
        raise RuntimeError("This model does not stream")


async def main() -> None:
    """Ask the same question as two users."""
    set_tracing_disabled(disabled=True)
    store = InMemoryProvider()
    await store.save(SingleFact(EDITOR, "vim"), USER.of("alice"), MemoryScope.Agent("desk"))
    memory = AgentMemory(store, scopes=MemoryScopesProfile(agent="desk"), subjects=[USER])

    plain = Agent[Context]("Desk", instructions="You help with programming.", model=StandIn())
    agent = with_memory(plain, memory, user=lambda context: context.context.user)
    for user in ("alice", "bob"):
        result = await Runner.run(agent, "Which editor do I use?", context=Context(user))
        print(user, "->", result.final_output)


if __name__ == "__main__":
    anyio.run(main)
