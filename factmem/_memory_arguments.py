"""What a memory is made of, checked when it is made: what cannot be meant is told at once.

Parts are known by what they can do and not by their class, so that those of one's own, wrappers
and test doubles are taken. Nothing of a part is called or read beyond the names that it must have.
"""

import os
from collections.abc import Iterable

from factmem._given import checked_function, has_name, kind_of, methods_lacking
from factmem.embedding.base import Embedder
from factmem.events import EventListener
from factmem.llm.base import ChatModel
from factmem.provider import AgentMemoryProvider
from factmem.recall.settings import RecallSettings
from factmem.scopes import MemoryScopesProfile

__all__ = [
    "checked_chat_model",
    "checked_embedder",
    "checked_listeners",
    "checked_profile",
    "checked_provider",
    "checked_settings",
]


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
