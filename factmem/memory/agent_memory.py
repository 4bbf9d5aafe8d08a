"""The memory of an agent: facts into its prompt, facts out of its chats."""

import os
from collections.abc import Iterable
from copy import copy
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from factmem._arguments import (
    check_max_tokens,
    checked_clock,
    checked_function,
    checked_token_counter,
    has_name,
    kind_of,
    methods_lacking,
)
from factmem.detection.detector import FactDetector
from factmem.embedding.base import Embedder
from factmem.events import EventListener, MemoryEvents
from factmem.llm.base import ChatModel
from factmem.memory._consolidating import ConsolidatesFacts
from factmem.memory._core import by_keyword, store_of
from factmem.memory._loading import PresentsFacts
from factmem.memory._recalling import RecallsFacts
from factmem.memory._remembering import RemembersText
from factmem.memory._saving import FactSaver
from factmem.memory.contents import MemoryContents
from factmem.memory.pending_texts import PendingTexts
from factmem.memory.selection import Reach
from factmem.memory.tools import MemoryTool, memory_tools
from factmem.models.clock import TimeProvider
from factmem.models.facts import (
    Concept,
    MultipleFacts,
    SingleFact,
)
from factmem.models.places import MemorySubject, Place
from factmem.models.scopes import MemoryScopesProfile, ScopeChoice
from factmem.prompt.memory_message import MemoryMessage
from factmem.prompt.tokens import TokenCounter, estimate_tokens
from factmem.providers.base import AgentMemoryProvider
from factmem.providers.guarded import viewed
from factmem.providers.observed import observed
from factmem.providers.reader import FactReader
from factmem.recall.index_cache import WarmIndexes
from factmem.recall.query import RecallSettings
from factmem.recall.search import FactSearch

__all__ = [
    "AgentMemory",
    "checked_chat_model",
    "checked_embedder",
    "checked_listeners",
    "checked_profile",
    "checked_provider",
    "checked_settings",
]


L = TypeVar("L", bound="SingleFact[Any] | MultipleFacts[Any]")
_NO_NAMES = MemoryScopesProfile()

_USUAL = RecallSettings()


def _now() -> datetime:
    return datetime.now(UTC)


class AgentMemory(PresentsFacts, RemembersText, RecallsFacts, ConsolidatesFacts):
    """Puts what is known into chats, and saves what chats state.

        memory = AgentMemory(store, scopes=MemoryScopesProfile(agent="desk"), subjects=[USER])
        alice = memory.view(subjects=[USER.of("alice")])
        await alice.load_all_facts_to_agent(messages)
        matches = await alice.recall("Which theme does she like?")

    A chat is a `list` of OpenAI chat-completions message dicts. It is changed in place, and only
    by one message, which factmem recognises by its name: `factmem_memory`.

    An instance holds no state of any chat, user or event loop: one serves any number of tasks
    at once. Which facts a call may touch is up to its `subjects` and `scopes`.

    Args:
        provider: Where facts are. The four methods of `AgentMemoryProvider` are enough; without
            `forget` nothing can be retracted, and without `history` `why` tells no history.
        chat_model: Who finds facts in chats and texts, tells which values mean the same, and takes
            the question of a deep recall apart. Loading never asks it.
        embedder: Makes vectors for `recall`, which compares words alone without one. Nothing else
            asks it. It stays its maker's to close.
        scopes: The scope that each type of scope means. One has a name, or every call names scopes
            of its own: a call that has nowhere to look or to save raises `ValueError`.
        subjects: Whom facts concern, where a call does not say. A per-entity subject among them
            must be bound in each call: `subjects=[USER.of("alice")]`.
        concepts: The concepts whose value types the application knows.
        clock: Tells the time that detected facts carry, and that recency is reckoned from.
        recall_settings: How `recall` weighs matches, where a call does not say.
        max_tokens: The most that the memory message may take; None sets no limit.
        token_counter: Counts the tokens of a text; an estimate by default, which needs no package
            and rather counts too many.
        listeners: Who is told of every operation, those on `provider` included; see
            `factmem.events`.
        include_values: Whether events hold facts and queries.

    Raises:
        TypeError: An argument is of the wrong kind, such as a path in the place of a provider.
        ValueError: Two of `concepts` have one keyword, or `max_tokens` has no room for a fact.
    """

    def __init__(
        self,
        provider: AgentMemoryProvider,
        *,
        chat_model: ChatModel | None = None,
        embedder: Embedder | None = None,
        scopes: MemoryScopesProfile = _NO_NAMES,
        subjects: Iterable[MemorySubject] = (MemorySubject.EVERYTHING,),
        concepts: Iterable[Concept[Any, Any]] = (),
        clock: TimeProvider = _now,
        recall_settings: RecallSettings = _USUAL,
        max_tokens: int | None = None,
        token_counter: TokenCounter = estimate_tokens,
        listeners: Iterable[EventListener] = (),
        include_values: bool = False,
    ) -> None:
        check_max_tokens(max_tokens)
        self._chat_model = checked_chat_model(chat_model)
        self._embedder = checked_embedder(embedder)
        self._recall_settings = checked_settings(recall_settings)
        self._warm = WarmIndexes()
        self._concepts = by_keyword(concepts)
        self._clock = checked_clock(clock)
        self._events = MemoryEvents(checked_listeners(listeners), include_values=include_values)
        self._pending = PendingTexts()
        self._reach = Reach(subjects, checked_profile(scopes))
        counter = checked_token_counter(token_counter)
        self._message = MemoryMessage(self._reach.subjects, max_tokens, counter)
        self._connect(checked_provider(provider))

    def _connect(self, provider: AgentMemoryProvider) -> None:
        """Make everything that reads or writes facts: nothing else here may hold a provider.

        A view is a copy that is connected to a provider of which less is there.
        """
        self._unobserved = provider
        self._provider = provider = observed(provider, self._events)
        self._reader = FactReader(provider, self._concepts.values())
        self._detector = FactDetector(provider, self._reader, self._clock)
        self._search = FactSearch(
            self._unobserved,
            self._reader,
            self._warm,
            self._events,
            embedder=self._embedder,
            chat_model=self._chat_model,
            settings=self._recall_settings,
            clock=self._clock,
        )

    @property
    def contents(self) -> MemoryContents:
        """What is in it: a tree of places, concepts, records; forgetting and clearing."""
        return MemoryContents(self._provider, self._reader, self._reach, self._events)

    def view(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
        places: Iterable[Place] | None = None,
        read_only: bool = False,
    ) -> Self:
        """Return this memory restricted to some of its places. No call to a model, no I/O.

        A place is in the view when its subject is among `subjects`, its scope among `scopes`, and
        itself among `places`, as far as they are given; an empty list lets nothing in. Places are
        the same by their identity, never by a description. What is given is also what calls
        concern that do not say; a view of a view has what both have.

        Everything that a memory can do goes through the same guarded provider: asking for what is
        outside gives nothing, as if it had never been written, and writing there, or at all when
        the view is read-only, raises `MemoryAccessError` before anything is asked or written. A
        view made of what a request may see is what is handed to the code, and to the tools of a
        model, that serves this request.

        Args:
            subjects: Whom facts may concern.
            scopes: Where they may be; a type of scope means the one that the memory has for it.
            places: These very places; several that have nothing in common are one view.
            read_only: Whether writing raises.

        Raises:
            TypeError: An argument is no list, or not of what it should be.
            UnboundSubjectError: A subject is per entity and names none.
        """
        made = copy(self)
        made._reach = self._reach.narrowed(
            subjects=subjects, scopes=scopes, places=places, read_only=read_only
        )
        made._connect(viewed(self._unobserved, made._reach.boundary))
        return made

    async def aclose(self) -> None:
        """Do what `flush` does, and leave in the store the vectors that are not there yet.

        The store stays its maker's to close, after this; one that is closed already, or refuses,
        gets no vectors, which is no error. The memory can be used further.

        Raises:
            ExceptionGroup: What failed in the background since the last time.
        """
        try:
            await super().aclose()
        finally:
            await self._search.keep_vectors(self.boundary.allows)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """See `RemembersText.__aexit__`; vectors are left in the store as by `aclose`."""
        try:
            await super().__aexit__(exc_type, exc, traceback)
        finally:
            await self._search.keep_vectors(self.boundary.allows)

    def tools(
        self, prefix: str = "memory_", *, writable: bool = True, save: bool = False
    ) -> list[MemoryTool]:
        """Return tools by which a model uses this memory; for `Agent(tools=...)` and others.

        They are `recall`, which finds what the method of that name finds, by words and with an
        embedder by meaning, `list_concepts`, `remember` (one call to the chat model; not offered
        without one) and `forget`, bound to the places that the memory concerns by default: no
        argument of a model names a place. All wait for texts that `remember` has queued. Answers
        are JSON with exact counts, and at most 8,000 characters long.

        Args:
            prefix: What their names begin with.
            writable: Whether to offer `remember`, `save` and `forget`; a read-only view never does.
            save: Whether to offer `save`, by which the model itself states a fact, without a call to
                the chat model. No quote proves such a fact: a page or a tool's result can talk a
                model into saving it. Its source is `SourceKind.ASSISTANT`.

        Raises:
            TypeError: The provider is no `FactStore`.
            UnboundSubjectError: A subject is per entity and names none: make a view first.
            ValueError: `prefix` makes names that endpoints refuse: they have up to 64 letters,
                digits, `_` and `-`.
        """
        store_of(self._provider)
        places = self._reach.places()
        bound = self.view(places=places)
        saver = FactSaver(bound.provider, bound.contents, self._concepts, places)
        return memory_tools(
            bound.recall,
            bound.contents,
            None if self._chat_model is None else bound.remember,
            bound._caught_up,
            prefix=prefix,
            writable=writable and not self.boundary.is_read_only,
            save=saver.save if save and places else None,
            subjects=[place.subject for place in places],
        )


def checked_provider(provider: AgentMemoryProvider) -> AgentMemoryProvider:
    """Return `provider` if it has the four methods of one.

    Raises:
        TypeError: It is something else: a path, a class, nothing.
    """
    lacking = methods_lacking(provider, "save", "load", "load_all", "load_by_description")
    if not lacking:
        return provider
    what = "A provider is what keeps facts"
    if isinstance(provider, type):
        raise TypeError(
            f"{what}, not {kind_of(provider)}: make one of it, {provider.__name__}(...)"
        )
    if isinstance(provider, str | os.PathLike):
        raise TypeError(
            f"{what}, not {kind_of(provider)}: LocalFileMemoryProvider(path) keeps them in a folder"
        )
    raise TypeError(
        f"{what}, and {kind_of(provider)} cannot, as it lacks {', '.join(lacking)}: "
        f"LocalFileMemoryProvider(path) keeps them in a folder, InMemoryProvider() in memory"
    )


def checked_chat_model(chat_model: ChatModel | None) -> ChatModel | None:
    """Return `chat_model` if it can be asked, or None.

    Raises:
        TypeError: It is something else: a model's name, a class, a client.
    """
    if chat_model is None or not methods_lacking(chat_model, "extract"):
        return chat_model
    raise TypeError(
        f"chat_model is a ChatModel, not {kind_of(chat_model)}: OpenAIChatModel(name), or "
        f"OpenAIChatModel(name, client=client), asks any endpoint for chat completions; another "
        f"one needs the method extract"
    )


def checked_embedder(embedder: Embedder | None) -> Embedder | None:
    """Return `embedder` if it makes vectors under the name of a model, or None.

    Raises:
        TypeError: It is something else: a function, a model's name, a class, a client.
    """
    if embedder is None:
        return None
    lacking = methods_lacking(embedder, "embed")
    if not lacking:
        lacking = [name for name in ("model", "dimensions") if not has_name(embedder, name)]
    if not lacking:
        return embedder
    if callable(embedder) and not isinstance(embedder, type):
        raise TypeError(
            f"embedder is an Embedder, not {kind_of(embedder)}, and a function becomes one by "
            f"CallableEmbedder(function, model='my-model-v1')"
        )
    raise TypeError(
        f"embedder is an Embedder, and {kind_of(embedder)} is none, as it lacks "
        f"{', '.join(lacking)}: OpenAIEmbedder(name) asks an endpoint, CallableEmbedder(function, "
        f"model='my-model-v1') any function"
    )


def checked_profile(scopes: MemoryScopesProfile) -> MemoryScopesProfile:
    """Return `scopes` if they say which scope each type of scope means.

    Raises:
        TypeError: They are something else: a scope, or a list of some.
    """
    if not isinstance(scopes, MemoryScopesProfile):
        raise TypeError(
            f"The scopes of a memory are a MemoryScopesProfile, not {kind_of(scopes)}: "
            f"scopes=MemoryScopesProfile(agent='my-agent'); a view is restricted to some of them, "
            f"as in memory.view(scopes=[MemoryScope.Agent('my-agent')])"
        )
    return scopes


def checked_settings(settings: RecallSettings) -> RecallSettings:
    """Return `settings` if they are those of a recall.

    Raises:
        TypeError: They are something else, such as a dict of them.
    """
    if not isinstance(settings, RecallSettings):
        raise TypeError(
            f"recall_settings are RecallSettings, not {kind_of(settings)}: "
            f"recall_settings=RecallSettings(min_score=0.3)"
        )
    return settings


def checked_listeners(listeners: Iterable[EventListener]) -> tuple[EventListener, ...]:
    """Return the functions that are told of events.

    Raises:
        TypeError: They are no list, or one of them cannot be called or is a class.
    """
    listed: object = listeners
    if callable(listed) or isinstance(listed, str) or not isinstance(listed, Iterable):
        raise TypeError(
            f"listeners are a list of functions, not {kind_of(listeners)}: listeners=[listener]"
        )
    given = tuple(listeners)
    for listener in given:
        checked_function(listener, "A listener is a function of an event", "listeners=[print]")
    return given
