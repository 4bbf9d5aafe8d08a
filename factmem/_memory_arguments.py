"""What a memory is made of, checked when it is made: what cannot be meant is told at once.

Parts are known by what they can do and not by their class, so that those of one's own, wrappers
and test doubles are taken. Nothing of a part is called or read beyond the names that it must have.
"""

import os
from collections.abc import Callable, Iterable
from inspect import getattr_static
from typing import Any, TypeVar

from factmem.embedding.base import Embedder
from factmem.events import EventListener
from factmem.llm.base import ChatModel
from factmem.provider import AgentMemoryProvider, TimeProvider
from factmem.recall.settings import RecallSettings
from factmem.scopes import MemoryScopesProfile
from factmem.tokens import TokenCounter

__all__ = [
    "check_max_tokens",
    "checked_chat_model",
    "checked_clock",
    "checked_embedder",
    "checked_listeners",
    "checked_profile",
    "checked_provider",
    "checked_settings",
    "checked_token_counter",
]

F = TypeVar("F", bound=Callable[..., Any])


def checked_provider(provider: AgentMemoryProvider) -> AgentMemoryProvider:
    """Return `provider` if it has the four methods of one.

    Raises:
        TypeError: It is something else: a path, a class, nothing.
    """
    lacking = _lacking(provider, "save", "load", "load_all", "load_by_description")
    if not lacking:
        return provider
    what = "A provider is what keeps facts"
    if isinstance(provider, type):
        raise TypeError(f"{what}, not {_kind(provider)}: make one of it, {provider.__name__}(...)")
    if isinstance(provider, str | os.PathLike):
        raise TypeError(
            f"{what}, not {_kind(provider)}: LocalFileMemoryProvider(path) keeps them in a folder"
        )
    raise TypeError(
        f"{what}, and {_kind(provider)} cannot, as it lacks {', '.join(lacking)}: "
        f"LocalFileMemoryProvider(path) keeps them in a folder, InMemoryProvider() in memory"
    )


def checked_chat_model(chat_model: ChatModel | None) -> ChatModel | None:
    """Return `chat_model` if it can be asked, or None.

    Raises:
        TypeError: It is something else: a model's name, a class, a client.
    """
    if chat_model is None or not _lacking(chat_model, "extract"):
        return chat_model
    raise TypeError(
        f"chat_model is a ChatModel, not {_kind(chat_model)}: OpenAIChatModel(name), or "
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
    lacking = _lacking(embedder, "embed")
    if not lacking:
        lacking = [name for name in ("model", "dimensions") if not _has(embedder, name)]
    if not lacking:
        return embedder
    if callable(embedder) and not isinstance(embedder, type):
        raise TypeError(
            f"embedder is an Embedder, not {_kind(embedder)}, and a function becomes one by "
            f"CallableEmbedder(function, model='my-model-v1')"
        )
    raise TypeError(
        f"embedder is an Embedder, and {_kind(embedder)} is none, as it lacks "
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
            f"The scopes of a memory are a MemoryScopesProfile, not {_kind(scopes)}: "
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
            f"recall_settings are RecallSettings, not {_kind(settings)}: "
            f"recall_settings=RecallSettings(min_score=0.3)"
        )
    return settings


def checked_clock(clock: TimeProvider) -> TimeProvider:
    """Return `clock` if it can be asked for the time.

    Raises:
        TypeError: It is something else, such as a time.
    """
    return _function(
        clock, "A clock is a function that tells the time", "clock=lambda: datetime.now(UTC)"
    )


def checked_token_counter(token_counter: TokenCounter) -> TokenCounter:
    """Return `token_counter` if it can be called.

    Raises:
        TypeError: It is something else, such as a number.
    """
    return _function(
        token_counter,
        "token_counter is a function that counts the tokens of a text",
        "token_counter=tiktoken_counter()",
    )


def check_max_tokens(max_tokens: int | None) -> None:
    """Make sure that a budget is a number.

    Raises:
        TypeError: It is something else.
    """
    if max_tokens is not None and not isinstance(max_tokens, int):
        raise TypeError(
            f"max_tokens is a whole number, not {_kind(max_tokens)}: max_tokens=500, or None for "
            f"no limit"
        )


def checked_listeners(listeners: Iterable[EventListener]) -> tuple[EventListener, ...]:
    """Return the functions that are told of events.

    Raises:
        TypeError: They are no list, or one of them cannot be called or is a class.
    """
    listed: object = listeners
    if callable(listed) or isinstance(listed, str) or not isinstance(listed, Iterable):
        raise TypeError(
            f"listeners are a list of functions, not {_kind(listeners)}: listeners=[listener]"
        )
    given = tuple(listeners)
    for listener in given:
        _function(listener, "A listener is a function of an event", "listeners=[print]")
    return given


def _function(given: F, what: str, example: str) -> F:
    if isinstance(given, type) or not callable(given):
        raise TypeError(f"{what}, not {_kind(given)}: {example}")
    return given


def _lacking(given: object, *methods: str) -> list[str]:
    """Return the methods that something lacks; of a class none are there, as it must be made."""
    if isinstance(given, type):
        return list(methods)
    return [name for name in methods if not callable(getattr(given, name, None))]


def _has(given: object, name: str) -> bool:
    """Whether there is an attribute; a property is not asked, as it may load a model."""
    try:
        getattr_static(given, name)
    except AttributeError:
        return hasattr(given, name)
    return True


def _kind(given: object) -> str:
    """Name what was given by its type alone: it may be a key, or what somebody wrote."""
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
