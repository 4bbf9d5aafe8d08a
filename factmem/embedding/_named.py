"""Embedders by name."""

from collections.abc import Callable

from factmem.embedding.base import Embedder
from factmem.embedding.openai import OpenAIEmbedder
from factmem.embedding.sentence_transformer import SentenceTransformerEmbedder
from factmem.llm.openai import ollama_url

EMBEDDERS: dict[str, Callable[[str], Embedder]] = {
    "ollama": lambda model: OpenAIEmbedder(model, base_url=ollama_url(), api_key="ollama"),
    "openai": OpenAIEmbedder,
    "sentence-transformers": SentenceTransformerEmbedder,
}
"""The providers that can be named."""


def named_embedder(name: str) -> Embedder:
    """Return the embedder of a name such as `ollama:nomic-embed-text`."""
    provider, _, model = name.partition(":")
    make = EMBEDDERS.get(provider)
    if make is None or not model:
        raise ValueError(
            "The name of an embedder must have a provider and a model: ollama:nomic-embed-text, "
            "openai:text-embedding-3-small or sentence-transformers:all-MiniLM-L6-v2"
        )
    return make(model)
