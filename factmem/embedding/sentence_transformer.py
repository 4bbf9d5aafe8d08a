"""SentenceTransformerEmbedder: an embedder with a local model.

`pip install 'factmem[sentence-transformers]'` installs its package and PyTorch. The package is
imported on the first call.
"""

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from factmem._concurrency import Workers
from factmem.embedding.base import EmbeddingModel
from factmem.errors import EmbeddingError, MissingExtraError

__all__ = ["SentenceTransformerEmbedder"]


class SentenceTransformerEmbedder(EmbeddingModel):
    """A Sentence Transformers model that runs in a worker thread.

        embedder = SentenceTransformerEmbedder("all-MiniLM-L6-v2")

    The first call loads the model, and downloads it if it is not on this machine;
    `options={"local_files_only": True}` prevents the download. Any number of tasks, threads and
    event loops may use an instance; one call computes at a time. If a call is cancelled while it
    computes, it finishes in its thread and its result is discarded. For a model that your program
    has loaded, use a `CallableEmbedder`.

    Args:
        model: The model's name or folder.
        options: Further arguments of `SentenceTransformer`: `device`, `cache_folder`, `revision`
            and so on.

    Raises:
        ValueError: `model` is empty.
    """

    def __init__(self, model: str, *, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(model, None)
        self._options = dict(options or {})
        self._loaded: Any = None
        self._workers = Workers(abandon=True)
        self._lock = threading.Lock()

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `Embedder.embed`.

        Raises:
            EmbeddingError: The model could not be loaded, or failed.
            MissingExtraError: `sentence-transformers` is not installed.
        """
        return await self._embed(texts, "encode_document")

    async def embed_queries(self, queries: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `QueryEmbedder.embed_queries`."""
        return await self._embed(queries, "encode_query")

    async def _embed(self, texts: Sequence[str], method: str) -> Sequence[Sequence[float]]:
        if not texts:
            return []
        given_up = threading.Event()
        try:
            given = await self._workers.run(partial(self._encode, list(texts), method, given_up))
        except BaseException:
            given_up.set()
            raise
        return self._validated(given, len(texts))

    def _encode(self, texts: list[str], method: str, given_up: threading.Event) -> object:
        with self._lock:
            if given_up.is_set():  # cancelled while it waited for the lock
                return None
            try:
                if self._loaded is None:
                    self._loaded = self._load()
                # Before version 5 a model has one method for questions and documents.
                encode = getattr(self._loaded, method, self._loaded.encode)
                encoded: object = encode(texts, show_progress_bar=False)
            except MissingExtraError:
                raise
            except Exception as exc:
                raise EmbeddingError(
                    f"{self._model!r} could not be loaded or run ({type(exc).__name__}): check "
                    f"its name, its options and the downloaded files"
                ) from exc
        return encoded

    def _load(self) -> object:
        try:
            package: Any = import_module("sentence_transformers")
        except ImportError as exc:
            raise MissingExtraError(
                "Local embedding needs sentence-transformers: pip install "
                "'factmem[sentence-transformers]'"
            ) from exc
        model: object = package.SentenceTransformer(self._model, **self._options)
        return model
