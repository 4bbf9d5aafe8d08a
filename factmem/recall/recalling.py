"""The part of a memory that is asked."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from factmem.events import MemoryEvents, MemoryOperation
from factmem.models import Concept, MemorySubject, Place
from factmem.recall.match import RecallResult
from factmem.recall.query import Depth, RecallQuery, check_depth
from factmem.recall.search import FactSearch
from factmem.recall.settings import RecallSettings, RecallWeights
from factmem.scopes import ScopeChoice

__all__ = ["RecallsFacts"]


class RecallsFacts(ABC):
    """Finds the facts that a question is about, by words and, with an embedder, by meaning."""

    _events: MemoryEvents
    _search: FactSearch
    _recall_settings: RecallSettings

    @abstractmethod
    def _places(
        self, subjects: Iterable[MemorySubject] | None, scopes: Iterable[ScopeChoice] | None
    ) -> list[Place]:
        """Return the places that a call may touch."""

    @abstractmethod
    async def _caught_up(self) -> None:
        """Wait until what is being written in the background is written."""

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        min_score: float | None = None,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
        concepts: Iterable[Concept[Any, Any] | str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        depth: Depth = "shallow",
        weights: RecallWeights | None = None,
        half_life: timedelta | None = None,
    ) -> RecallResult:
        """Return the facts that a question may be about, the best first.

        Only what holds is found: nothing retracted, expired or superseded, and of a concept that
        holds one value what the most specific place says. Of several entities of one subject, as
        in `subjects=[USER.of("alice"), USER.of("bob")]`, each is looked at for itself. Texts that
        `remember` has queued are waited for.

        Without an embedder no model is asked and nothing is sent anywhere. With one, the question
        is embedded, and so is each fact that has no vector yet: one call for the question, and one
        for every 512 of these. When the embedder fails, words alone are compared. With
        `depth="deep"` the chat model is asked once to take the question apart; when that fails,
        the question is searched as it is. The result's `failures` tell either.

        The first recall over some places reads all their facts, later ones only those of places
        that have changed. Work that takes time is done in worker threads.

        Args:
            query: A question, or a few words.
            limit: How many matches to return at most.
            min_score: What a match's `relevance` must reach, from 0 to 1; that of the memory's
                `recall_settings` by default.
            subjects: Whom to look for; those of the memory by default.
            scopes: Where to look; all scopes of the profile by default.
            concepts: The concepts to look at, or their keywords; all by default.
            since: Only what was said from then on.
            until: Only what was said before.
            depth: "deep" asks the chat model to make up to three short questions of a long one,
                with the subjects and the days that they are about. "auto" does so for questions
                over a length, if there is a chat model.
            weights: How the parts of a score are weighed.
            half_life: After what time since its last confirmation a fact's recency is one half.

        Raises:
            ValueError: The query is empty, an option is out of its range, a datetime is naive, or
                `depth` is "deep" and there is no chat model.
            UnboundSubjectError: A subject is per entity and names none.
            MissingExtraError: The embedder needs a package that is not installed.
            StorageError: A place could not be read.
        """
        check_depth(depth)
        asked = RecallQuery.checked(
            query,
            self._recall_settings,
            limit=limit,
            min_score=min_score,
            concepts=concepts,
            since=since,
            until=until,
            weights=weights,
            half_life=half_life,
        )
        places = self._places(subjects, scopes)
        async with self._events.operation(MemoryOperation.RECALL, places) as seen:
            seen.text = query
            await self._caught_up()
            result = await self._search.recall(places, asked, depth)
            seen.found(match.fact for match in result)
            seen.llm_calls = result.usage.calls
            seen.input_tokens = result.usage.input_tokens
            seen.output_tokens = result.usage.output_tokens
            seen.embedding_calls = result.embedding_calls
            return result
