"""A LangChain agent with a memory, sync and async. Needs `factmem[langchain]` and no API key."""

from importlib.util import find_spec

if find_spec("langchain") is None:
    raise SystemExit("This example needs more: pip install 'factmem[langchain]'")


from dataclasses import dataclass
from typing import Any

import anyio
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from factmem import (
    AgentMemory,
    Concept,
    InMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    SingleFact,
)
from factmem.integrations.langchain import FactmemMiddleware

USER = MemorySubject("user", "The person the agent talks to", 1, per_entity=True)
EDITOR = Concept("editor", "The editor that the user prefers")


@dataclass
class Context:
    """The context of a run."""

    user: str


class StandIn(BaseChatModel):
    """A fake model that answers from its system prompt; in production: "openai:gpt-4o-mini"."""

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Ignore the tools, because this model calls none."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        is_known = '"vim"' in str(messages[0].content)
        message = AIMessage("You use vim." if is_known else "I do not know.")
        return ChatResult(generations=[ChatGeneration(message=message)])


async def main() -> None:
    """Ask the same question as two users, one of them without `await`."""
    store = InMemoryProvider()
    await store.save(SingleFact(EDITOR, "vim"), USER.of("alice"), MemoryScope.Agent("desk"))
    memory = AgentMemory(store, scopes=MemoryScopesProfile(agent="desk"), subjects=[USER])

    middleware = FactmemMiddleware(memory, user=lambda runtime: runtime.context.user)
    agent: Any = create_agent(
        StandIn(),
        system_prompt="You help with programming.",
        middleware=[middleware],
        context_schema=Context,
    )
    asked = {"messages": [("user", "Which editor do I use?")]}
    answer = await agent.ainvoke(asked, context=Context("alice"))
    print("alice ->", answer["messages"][-1].content)
    answer = agent.invoke(asked, context=Context("bob"))
    print("bob ->", answer["messages"][-1].content)


if __name__ == "__main__":
    anyio.run(main)
