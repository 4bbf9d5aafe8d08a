"""A Pydantic AI agent with a memory. Needs `factmem[pydantic-ai]` and no API key."""

from importlib.util import find_spec

if find_spec("pydantic_ai") is None:
    raise SystemExit("This example needs more: pip install 'factmem[pydantic-ai]'")


from dataclasses import dataclass

import anyio
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from factmem import AgentMemory, InMemoryProvider, MemoryScopesProfile, MemorySubject
from factmem.integrations.pydantic_ai import MemoryCapability

USER = MemorySubject("user", "The person the agent talks to", 1, per_entity=True)


@dataclass
class Deps:
    """The dependencies of a run."""

    user: str


def stand_in(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Save the editor, then answer from the instructions; in production: "openai:gpt-4o-mini"."""
    if '"vim"' in (info.instructions or ""):
        return ModelResponse([TextPart("You use vim.")])
    if len(messages) == 1 and "I use vim" in str(messages[0]):
        return ModelResponse([ToolCallPart("memory_save", {"concept": "editor", "value": "vim"})])
    return ModelResponse([TextPart("I do not know.")])


async def main() -> None:
    """Tell the agent something as Alice, then ask as Alice and as Bob."""
    profile = MemoryScopesProfile(agent="desk")
    memory = AgentMemory(InMemoryProvider(), scopes=profile, subjects=[USER])
    capability = MemoryCapability[Deps](memory, user=lambda ctx: ctx.deps.user, save=True)
    agent = Agent(FunctionModel(stand_in), deps_type=Deps, capabilities=[capability])
    for user, text in (
        ("alice", "I use vim."),
        ("alice", "Which editor do I use?"),
        ("bob", "Which editor do I use?"),
    ):
        result = await agent.run(text, deps=Deps(user))
        print(f"{user}: {text} -> {result.output}")


if __name__ == "__main__":
    anyio.run(main)
