"""Checks of the arguments that AgentMemory is made with."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from factmem._arguments import (
    expect,
    expect_all,
    expect_function,
    expect_methods,
    has_name,
    kind_of,
)
from factmem.detection.synonyms import KeywordSynonyms
from factmem.embedding.base import Embedder
from factmem.events import EventListener, MemoryEvents
from factmem.llm.base import ChatModel
from factmem.models.boundary import Boundary
from factmem.models.checked import checked_concept
from factmem.models.facts import Concept
from factmem.models.places import MemorySubject, Place
from factmem.models.scopes import MemoryScopesProfile
from factmem.prompt.memory_message import MemoryMessage
from factmem.prompt.message_form import MessageForm
from factmem.prompt.tokens import TokenCounter
from factmem.providers.base import AgentMemoryProvider, FactStore
from factmem.recall.query import RecallSettings

_EMBEDDER = "embedder=OpenAIEmbedder(name), or CallableEmbedder(function, model='my-model-v1')"


def check_provider(provider: AgentMemoryProvider) -> AgentMemoryProvider:
    """Return a provider that has the four methods of one; paths and classes have none."""
    return expect_methods(
        provider,
        ("save", "load", "load_all", "load_by_description"),
        "provider",
        "AgentMemory(LocalFileMemoryProvider(path)) or AgentMemory(InMemoryProvider())",
    )


def check_chat_model(chat_model: ChatModel | None) -> ChatModel | None:
    """Return a chat model that can extract, or None."""
    if chat_model is None:
        return None
    return expect_methods(
        chat_model,
        ("respond", "extract"),
        "chat_model",
        "chat_model=OpenAIChatModel(name), or OpenAIChatModel(name, client=client)",
    )


def check_embedder(embedder: Embedder | None) -> Embedder | None:
    """Return an embedder, or None. Its properties are not read: they may load a model."""
    if embedder is None:
        return None
    expect_methods(embedder, ("embed",), "embedder", _EMBEDDER)
    lacking = [name for name in ("model", "dimensions") if not has_name(embedder, name)]
    if lacking:
        raise TypeError(
            f"embedder must have embed, model and dimensions; {kind_of(embedder)} has no "
            f"{' and '.join(lacking)}: {_EMBEDDER}"
        )
    return embedder


def keyword_synonyms(
    embedder: Embedder | None, events: MemoryEvents, similarity: float | None
) -> KeywordSynonyms | None:
    """Return what finds synonyms of keywords; None without an embedder or a similarity."""
    example = "keyword_similarity=0.75, or None to join no synonyms"
    if similarity is not None:
        if isinstance(similarity, bool) or not isinstance(similarity, int | float):
            expect(similarity, float, "keyword_similarity", example)
        if not 0 < similarity <= 1:
            raise ValueError(f"keyword_similarity must be above 0 and at most 1: {example}")
    if embedder is None or similarity is None:
        return None
    return KeywordSynonyms(embedder, events, least=similarity)


def check_listeners(listeners: Iterable[EventListener]) -> tuple[EventListener, ...]:
    """Return the functions that receive events. Calling a class would silently build an object."""
    example = "listeners=[print]"
    functions: tuple[Any, ...] = expect_all(listeners, object, "listeners", example)
    for listener in functions:
        expect_function(listener, "Each of listeners", example)
    return functions


def check_profile(scopes: MemoryScopesProfile) -> MemoryScopesProfile:
    """Return a profile of scopes."""
    example = "scopes=MemoryScopesProfile(agent='my-agent')"
    return expect(scopes, MemoryScopesProfile, "scopes", example)


def check_recall_settings(settings: RecallSettings) -> RecallSettings:
    """Return settings of recall."""
    example = "recall_settings=RecallSettings(min_score=0.3)"
    return expect(settings, RecallSettings, "recall_settings", example)


def memory_message(
    subjects: Sequence[MemorySubject],
    max_tokens: int | None,
    token_counter: TokenCounter,
    form: MessageForm,
) -> MemoryMessage:
    """Return the writer of the memory message."""
    if max_tokens is not None:
        expect(max_tokens, int, "max_tokens", "max_tokens=500, or None for no limit")
    expect_function(token_counter, "token_counter", "token_counter=tiktoken_counter()")
    expect(form, MessageForm, "message_form", "message_form=MessageForm(header='Known')")
    return MemoryMessage(subjects, max_tokens, token_counter, form)


def application_concepts(
    concepts: Iterable[Concept[Any, Any]], instructions: Iterable[Concept[Any, Any]]
) -> tuple[dict[str, Concept[Any, Any]], dict[str, Concept[Any, Any]]]:
    """Return all concepts of an application by keyword, and those of them that are instructions."""
    followed = concepts_by_keyword(instructions, "instructions")
    declared = concepts_by_keyword(concepts)
    return concepts_by_keyword([*declared.values(), *followed.values()]), followed


def concepts_by_keyword(
    concepts: Iterable[Concept[Any, Any]], argument: str = "concepts"
) -> dict[str, Concept[Any, Any]]:
    """Index concepts by keyword; a keyword must not stand for two different concepts."""
    found: dict[str, Concept[Any, Any]] = {}
    for concept in expect_all(concepts, Concept, argument, f"{argument}=[AGE]"):
        if found.setdefault(concept.keyword, concept) != concept:
            raise ValueError(f"Two concepts have the keyword {concept.keyword!r}: keep one")
    return found


def declared_concepts(
    own: Mapping[str, Concept[Any, Any]],
    further: Iterable[Concept[Any, Any]],
    only: Iterable[Concept[Any, Any]] | None,
) -> list[Concept[Any, Any]]:
    """Return the concepts of a detection; the memory's `detect=False` cannot be lifted by a call."""
    if only is not None:
        wanted = list(concepts_by_keyword(only).values())
        for concept in wanted:
            check_detected(concept, own)
        return wanted
    owned = {keyword: concept for keyword, concept in own.items() if not concept.detect}
    return list({**own, **concepts_by_keyword(further), **owned}.values())


def check_detected(concept: Concept[Any, Any], own: Mapping[str, Concept[Any, Any]]) -> None:
    """Refuse a look-up that could write nothing, before it costs a call to the model."""
    checked_concept(concept)
    if not (concept.detect and own.get(concept.keyword, concept).detect):
        raise ValueError(
            f"{concept.keyword!r} has detect=False, so no model writes it: save it with "
            f"memory.store.save(fact, subject, scope)"
        )


def fact_store(provider: AgentMemoryProvider) -> FactStore:
    """Return a provider as a `FactStore`, or raise `TypeError` if it lacks the methods."""
    if isinstance(provider, FactStore):
        return provider
    raise TypeError(
        f"{type(provider).__name__} is not a FactStore: listing, forgetting, erasing, merging, "
        f"exporting and tools need a provider with the methods of FactStore, such as "
        f"LocalFileMemoryProvider(path)"
    )


async def places_inside(provider: AgentMemoryProvider, boundary: Boundary) -> list[Place]:
    """Return the places of a store that are inside a boundary."""
    store = fact_store(provider)
    found: list[Place] = []
    for subjects, scopes in boundary.listings():
        found += [info.place for info in await store.places(subjects=subjects, scopes=scopes)]
    return [place for place in found if boundary.allows(place.identity)]


def check_mergeable(keywords: Iterable[str], followed: Mapping[str, Concept[Any, Any]]) -> None:
    """Refuse to merge instructions: a page's wording would get the user's word as a source."""
    named = next((keyword for keyword in keywords if keyword in followed), None)
    if named is not None:
        raise ValueError(
            f"{named!r} is one of the memory's instructions, whose values no model merges: update "
            f"one with memory.contents.update and forget the others"
        )
