"""Embedders: the protocol and adapters for functions, endpoints and local models.

Imports llm.
"""

from factmem.embedding.base import Embedder, QueryEmbedder
from factmem.embedding.callable import CallableEmbedder
from factmem.embedding.litellm import LiteLLMEmbedder
from factmem.embedding.openai import OpenAIEmbedder
from factmem.embedding.sentence_transformer import SentenceTransformerEmbedder

__all__ = [
    "CallableEmbedder",
    "Embedder",
    "LiteLLMEmbedder",
    "OpenAIEmbedder",
    "QueryEmbedder",
    "SentenceTransformerEmbedder",
]
