"""Chat models by name, and the address of Ollama."""

import os
from urllib.parse import urlsplit

from factmem.llm.base import ChatModel
from factmem.llm.openai import OpenAIChatModel

_PORT = 11434
_ANY = {"0.0.0.0", "::"}  # noqa: S104
"""Addresses that a server listens on, and that nobody can call."""


def named_chat_model(name: str) -> ChatModel:
    """Return the chat model of a name such as `openai:gpt-4o-mini` or `ollama:qwen3`.

    Raises:
        ValueError: There is no such provider, or no model is named.
    """
    provider, _, model = name.partition(":")
    if model and provider == "openai":
        return OpenAIChatModel(model)
    if model and provider == "ollama":
        return OpenAIChatModel(model, base_url=ollama_url(), api_key="ollama")
    raise ValueError(
        "The name of a chat model must have a provider and a model: openai:gpt-4o-mini or ollama:qwen3"
    )


def ollama_url() -> str:
    """Return the address of Ollama's OpenAI interface: that of `OLLAMA_HOST`, else this machine's."""
    host = os.environ.get("OLLAMA_HOST") or "localhost"
    parts = urlsplit(host if "://" in host else f"http://{host}")
    name = parts.hostname or "localhost"
    if name in _ANY:
        name = "localhost"
    port = parts.port or (None if "://" in host else _PORT)
    address = f"[{name}]" if ":" in name else name
    return f"{parts.scheme}://{address}{'' if port is None else f':{port}'}/v1"
