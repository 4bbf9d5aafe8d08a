"""SearchedFileProvider: a local store for a process that asks one question and ends."""

from collections.abc import Sequence
from os import PathLike

from typing_extensions import override

from factmem.models.clock import TimeProvider, system_clock
from factmem.models.places import Place
from factmem.providers._sql.places import FACT_BYTES
from factmem.providers._sqlite.word_search import WordSearch
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.searched import Describe, SearchAnswer, SearchQuestion
from factmem.providers.storages import Storage

_LARGE = 2_000 * FACT_BYTES
"""The bytes of places whose indexes are worth a write: reading them takes 0.1 s."""


class SearchedFileProvider(LocalFileMemoryProvider):
    """A local store that is searched by words with the help of stored indexes.

    The first recall reads the places and stores the indexes; a later one, in another process, does
    not read them as long as they are unchanged. It compares no vectors. A process that recalls more
    than once is faster with `LocalFileMemoryProvider`.

    Args:
        root: The folder.
        storage: How it is stored.
        stems: What the terms of documents depend on beside the facts.
        large: The bytes of places from which on they are searched here.
        clock: Returns the time.
    """

    def __init__(
        self,
        root: str | PathLike[str],
        *,
        storage: Storage | None = None,
        stems: str,
        large: int = _LARGE,
        clock: TimeProvider = system_clock,
    ) -> None:
        super().__init__(root, storage=storage, clock=clock)
        self._words = WordSearch(self._places, stems)
        self._large = large

    @override
    async def is_searched(self, places: Sequence[Place]) -> bool:
        self._check_open()
        identities = [place.identity for place in places]
        return await self._database.work(lambda: self._words.size(identities)) >= self._large

    @override
    async def candidates(
        self, places: Sequence[Place], question: SearchQuestion, describe: Describe
    ) -> SearchAnswer:
        self._check_open()
        search = self._words.candidates
        return await self._database.work(lambda: search(places, question, describe, keep=True))
