"""The part of a memory that is asked."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from anyio.lowlevel import checkpoint

from factmem.events import MemoryOperation, OperationInProgress
from factmem.ledger.resolution import PlacedFact, Resolution
from factmem.llm.messages import (
    History,
    checked_history,
    last_said,
)
from factmem.memory._core import MemoryCore
from factmem.models.facts import Concept
from factmem.models.places import MemorySubject
from factmem.models.scopes import ScopeChoice
from factmem.recall.lexical.analysis import sentences
from factmem.recall.match import RecallReport, RecallResult
from factmem.recall.query import (
    Depth,
    RecallQuery,
    RecallSettings,
    RecallWeights,
    check_depth,
    checked_question,
)
from factmem.recall.search import FactSearch


class RecallsFacts(MemoryCore):
    """Finds the facts that a question is about, by words and, with an embedder, by meaning."""

    _search: FactSearch
    _recall_settings: RecallSettings

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
        for every 512 of these in a place. When the embedder fails, or takes longer than the
        memory's `recall_settings` allow, words alone are compared; what came back is kept. With
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
        async with self._events.operation(MemoryOperation.RECALL) as seen:
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
            seen.places = self._places(subjects, scopes)
            return await self._recalled(seen, asked, depth)

    async def _recalled(
        self,
        seen: OperationInProgress,
        asked: RecallQuery,
        depth: Depth,
        parts: Sequence[RecallQuery] = (),
    ) -> RecallResult:
        seen.text = asked.text
        await self._caught_up()
        result = await self._search.recall(seen.places, asked, depth, parts, seen)
        seen.found(match.fact for match in result)
        return result

    async def recall_facts_to_agent(
        self,
        messages: list[History],
        query: str | None = None,
        *,
        limit: int = 20,
        min_score: float | None = None,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
        concepts: Iterable[Concept[Any, Any] | str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        depth: Depth = "shallow",
    ) -> RecallReport:
        """Put the facts that a question is about into a chat, in place of all that is known.

        It is for agents that know more than a prompt should hold. What `recall` finds is put where
        `load_all_facts_to_agent` puts everything, in the same form, and the whole memory message
        is replaced: what an earlier question was about goes. Concepts that are to be there whatever
        is asked are loaded after it, by `load_facts_to_agent`. When nothing is found nothing is
        said. Within the memory's `max_tokens` the best matches are kept; those that are kept stand
        in the order of their concepts, so that the same facts give the same bytes.

        A text of several sentences is searched for sentence by sentence, the last eight of those
        that say anything, and a fact that several of them are about counts where it matches best.
        What it costs is what `recall` costs. On an error or a cancellation `messages` is as it was.

        Args:
            messages: The chat; changed in place.
            query: What to look for; the words of the user's last message by default. Without a
                word nothing is looked for, and nothing is found.
            limit: How many facts to put there at most.
            min_score: What a match's `relevance` must reach, from 0 to 1; `prompt_min_score` of the
                memory's `recall_settings` by default.
            subjects: Whom to look for; those of the memory by default.
            scopes: Where to look; all scopes of the profile by default.
            concepts: The concepts to look at, or their keywords; all by default.
            since: Only what was said from then on.
            until: Only what was said before.
            depth: Whether the chat model takes the text apart; see `recall`.

        Raises:
            ValueError: An option is out of its range, as `recall` says.
            TypeError: `messages` cannot be changed in place, or an argument is of the wrong kind.
            UnboundSubjectError: A subject is per entity and names none.
            MissingExtraError: The embedder needs a package that is not installed.
            StorageError: A place could not be read.
        """
        async with self._events.operation(MemoryOperation.RECALL) as seen:
            seen.places = places = self._places(subjects, scopes)
            checked_history(messages)
            text = last_said(messages) if query is None else checked_question(query)
            if not text.strip():
                seen.is_handed_over = True  # to nobody: without a word nothing is asked
                await checkpoint()
                found = RecallResult()
            else:
                check_depth(depth)
                usual = self._recall_settings
                asked = RecallQuery.checked(
                    text,
                    usual,
                    limit=limit,
                    min_score=usual.prompt_min_score if min_score is None else min_score,
                    concepts=concepts,
                    since=since,
                    until=until,
                )
                parts = [replace(asked, text=part) for part in sentences(text)]
                found = await self._recalled(seen, asked, depth, parts)
        placed = [PlacedFact(match.place, match.fact) for match in found]
        resolution = Resolution(placed, found.unreadable)
        report = self._message.put(messages, resolution, places, None, best_first=True)
        return RecallReport(report.facts, report.left_out, report.unreadable, found)
