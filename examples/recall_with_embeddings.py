"""Recall of facts by words and, with an embedder, by meaning.

python examples/recall_with_embeddings.py

If OPENAI_API_KEY or OPENAI_BASE_URL is set, that endpoint embeds each fact once, and each question
(OPENAI_EMBEDDING_MODEL is the model, text-embedding-3-small by default). Otherwise only words are
compared, and nothing leaves the machine.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from factmem import (
    AgentMemory,
    Concept,
    Embedder,
    FactType,
    LocalFileMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
    OpenAIEmbedder,
    SingleFact,
)
from factmem.models import AnyFact

USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)
DESK = MemoryScope.Agent("desk")
FACTS: list[AnyFact] = [
    SingleFact(Concept("pet", "Who lives with the user"), "a cat called Miso"),
    SingleFact(Concept("commute", "How the user gets to work"), "by bicycle, 20 minutes"),
    SingleFact(Concept("preferred-language", "The programming language the user likes"), "Kotlin"),
    MultipleFacts(Concept("allergies", "What the user must not eat", FactType.MULTIPLE), ["nuts"]),
    SingleFact(Concept("사는-곳", "사용자가 사는 도시"), "부산"),
]
QUESTIONS = [
    "Which programming language does she like?",
    "Does she have an animal at home?",
    "Can I serve her a walnut cake?",
    "어느 도시에 살아?",
]


@asynccontextmanager
async def chosen_embedder() -> AsyncGenerator[Embedder | None, None]:
    """Yield an embedder for the endpoint in the environment, or None without one."""
    endpoint, key = os.environ.get("OPENAI_BASE_URL"), os.environ.get("OPENAI_API_KEY")
    if not (endpoint or key):
        print("By words. Set OPENAI_API_KEY or OPENAI_BASE_URL to compare meanings too")
        yield None
        return
    model = os.environ.get("OPENAI_EMBEDDING_MODEL", "text-embedding-3-small")
    print(f"By words and by {model} at {endpoint or 'OpenAI'}")
    async with OpenAIEmbedder(model, api_key=key or "none") as embedder:
        yield embedder


async def main() -> None:
    """Save a few facts, ask about them, and print the scores and costs."""
    alice = USER.of("alice")
    async with LocalFileMemoryProvider("memory") as store, chosen_embedder() as embedder:
        await store.save_many(FACTS, alice, DESK)
        profile = MemoryScopesProfile(agent="desk")
        memory = AgentMemory(store, embedder=embedder, scopes=profile, subjects=[alice])

        for question in QUESTIONS:
            found = await memory.recall(question, limit=2)
            print(f"\n{question}  (texts embedded: {found.embedded_texts})")
            for match in found:
                parts = f"words {match.lexical:.2f}, meaning {match.semantic:.2f}"
                values = ", ".join(match.fact.values)
                print(f"  {match.score:.2f}  {values}  (relevance {match.relevance:.2f}; {parts})")
            for failure in found.failures:
                print(f"  only by words, because the embedder failed: {failure}")
            if not found:
                print("  nothing")


if __name__ == "__main__":
    anyio.run(main)
