"""FailedTexts: texts whose extraction failed, stored for a retry."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from pydantic import JsonValue

from factmem._arguments import expect
from factmem.detection.report import DetectionReport
from factmem.errors import ChatModelError, MemoryAccessError
from factmem.events import MemoryEvents
from factmem.memory._selection import PlaceSelection
from factmem.models.boundary import Boundary
from factmem.models.clock import TimeProvider
from factmem.models.facts import AnyFact, Concept, SingleFact
from factmem.models.places import Identity, MemoryScope, MemorySubject, Place
from factmem.models.sources import FactSource, SourceKind
from factmem.providers._guarded import guarded
from factmem.providers.base import AgentMemoryProvider, FactStore, fact_store
from factmem.providers.results import Moment

__all__ = ["FailedText", "FailedTexts", "RetryReport"]


FAILED_TEXTS = MemoryScope.Feature("factmem-failed-texts")
"""The scope of stored texts. It is in no profile: no prompt, recall or tool contains them."""

_ABOUT = "A text that could not be read"


@dataclass(frozen=True, slots=True)
class NewText:
    """The arguments of one call of `remember` that a retry needs."""

    texts: Sequence[str]
    places: Sequence[Place]
    said_at: datetime
    source: FactSource | None


@dataclass(frozen=True, slots=True)
class FailedText:
    """The texts of one call whose extraction failed."""

    id: str
    texts: tuple[str, ...] = field(repr=False)
    subject: MemorySubject
    """The subject that it is stored and erased with."""
    said_at: datetime
    failed_at: datetime
    """When it last failed."""
    error: str
    """The class of the last error."""
    attempts: int
    source: FactSource | None = field(repr=False)
    identities: frozenset[Identity] = field(repr=False)
    """The places where its facts may be saved."""


@dataclass(frozen=True, slots=True)
class RetryReport:
    """The result of `retry`."""

    reports: list[DetectionReport]
    """One for each successful text, which is no longer stored."""
    failures: list[Exception]
    """One for each text that failed again."""
    left: int
    """The number of texts that are still stored."""


class KeptTexts:
    """The failed texts of a memory or view, each stored in a place of its subject.

    Args:
        provider: The provider, without restrictions.
        selection: The places of the memory. Only texts of its subjects are accessible.
        events: Reports each read and write.
        clock: Returns the time.
    """

    def __init__(
        self,
        provider: AgentMemoryProvider,
        selection: PlaceSelection,
        events: MemoryEvents,
        clock: TimeProvider,
    ) -> None:
        self._unguarded = provider
        self._selection = selection
        self._events = events
        self._clock = clock

    async def moment(self, places: Sequence[Place]) -> Moment | None:
        """Return the current moment of the place where a text would be stored."""
        place = _place_of(places)
        return await self._store([place]).moment(place.subject, place.scope)

    async def moments(self) -> dict[MemorySubject, Moment | None]:
        """Return the current moments of all places of failed texts."""
        return {place.subject: await self.moment([place]) for place in self._places()}

    @asynccontextmanager
    async def keeping(self, text: NewText, since: Moment | None) -> AsyncGenerator[None]:
        """Store a text if the block fails. The error gets a note and is raised."""
        try:
            yield
        except Exception as exc:
            await self._keep(text, since, exc)
            raise

    async def all(self) -> list[FailedText]:
        """Return the failed texts, oldest first."""
        found: list[FailedText] = []
        for place in self._places():
            store = self._store([place])
            for fact in await store.load_all(place.subject, place.scope):
                found.append(_read(fact, place))  # noqa: PERF401
        return sorted(found, key=lambda each: each.said_at)

    async def holds(self, text: FailedText) -> bool:
        """Return whether a text is still kept."""
        place = Place(FAILED_TEXTS, text.subject)
        store = self._store([place])
        return bool(await store.load(_concept(text.id), place.subject, place.scope))

    async def again(self, text: FailedText, error: Exception, since: Moment | None) -> None:
        """Record another failure, unless the user was erased in the meantime."""
        await self._write(replace(text, attempts=text.attempts + 1), error, since)

    async def discard(self, ids: Iterable[str], *, purge: bool) -> int:
        """Delete failed texts and return their number."""
        wanted = list(ids)
        count = 0
        for place in self._places() if wanted else []:
            store = self._store([place])
            for keyword in wanted:
                count += await store.forget(
                    place.subject, place.scope, concept=_concept(keyword), purge=purge
                )
        return count

    async def _keep(self, new: NewText, since: Moment | None, error: Exception) -> None:
        now = self._clock()
        text = FailedText(
            id=uuid4().hex,
            texts=tuple(new.texts),
            subject=_place_of(new.places).subject,
            said_at=new.said_at,
            failed_at=now,
            error="",
            attempts=1,
            source=new.source,
            identities=frozenset(each.identity for each in new.places),
        )
        try:
            is_kept = await self._write(text, error, since)
        except Exception as exc:  # noqa: BLE001 - the first error gets a note of it
            error.add_note(f"The text could not be kept: {type(exc).__name__}")
            return
        error.add_note(
            f"The text is kept as {text.id!r}: see memory.failed_texts"
            if is_kept
            else "The text was not kept, because data was erased from the store since the call"
        )

    async def _write(self, text: FailedText, error: Exception, since: Moment | None) -> bool:
        place = Place(FAILED_TEXTS, text.subject)
        fact = SingleFact(_concept(text.id), _value(text, error), timestamp=self._clock())
        learned = await self._store([place]).learn([fact], place.subject, place.scope, since=since)
        return not learned.is_erased

    def _places(self) -> list[Place]:
        subjects = {place.subject: None for place in self._selection.places()}
        return [Place(FAILED_TEXTS, subject) for subject in subjects]

    def _store(self, places: Sequence[Place]) -> FactStore:
        boundary = Boundary(
            places=frozenset(place.identity for place in places),
            is_read_only=self._selection.boundary.is_read_only,
        )
        return fact_store(guarded(self._unguarded, boundary, self._events))


class FailedTexts:
    """The texts whose extraction failed; see `remember(..., keep_failed=True)`.

        report = await memory.of("alice").failed_texts.retry()

    They are stored with their user: in the scope `feature/factmem-failed-texts` of their subject,
    encrypted like facts, listed by `contents.places()`, and erased by a view of the user. The
    methods use the memory's own subjects.

    Args:
        kept: The stored texts.
        read: Detects the facts of a stored text.
    """

    def __init__(
        self, kept: KeptTexts, read: Callable[[FailedText], Awaitable[DetectionReport]]
    ) -> None:
        self._kept = kept
        self._read = read

    async def infos(self) -> list[FailedText]:
        """Return the failed texts, oldest first. No call to a model."""
        return await self._kept.all()

    async def retry(self, *ids: str) -> RetryReport:
        """Detect the facts of failed texts again, oldest first, and save them.

        One call to the model for each text, as in `remember`. A successful text is deleted after
        its facts are saved: an interruption loses nothing. After an error of the endpoint, no
        further text is tried.

        Args:
            ids: The texts to retry; all by default.
        """
        for each in ids:
            expect(each, str, "ids", "failed_texts.retry(text.id)")
        reports: list[DetectionReport] = []
        failures: list[Exception] = []
        # The moments are read first: a text that is erased later must not be stored again.
        moments = await self._kept.moments()
        for text in await self.infos():
            if ids and text.id not in ids:
                continue
            try:
                reports.append(await self._read(text))
            except MemoryAccessError:
                raise
            except Exception as exc:  # noqa: BLE001 - returned; the text stays
                failures.append(exc)
                await self._kept.again(text, exc, moments.get(text.subject))
                if isinstance(exc, ChatModelError):
                    break
            else:
                await self._kept.discard([text.id], purge=False)
        return RetryReport(reports, failures, len(await self.infos()))

    async def discard(self, *ids: str, purge: bool = False) -> int:
        """Delete failed texts and return their number.

        Args:
            ids: The texts.
            purge: Whether to remove them from history as well.
        """
        for each in ids:
            expect(each, str, "ids", "failed_texts.discard(text.id)")
        return await self._kept.discard(ids, purge=purge)


def _place_of(places: Sequence[Place]) -> Place:
    """Return the place to store a text in: the user's, if it may be about several subjects."""
    subjects = [place.subject for place in places]
    owner = next((each for each in subjects if each.entity is not None), subjects[0])
    return Place(FAILED_TEXTS, owner)


def _concept(keyword: str) -> Concept[Any, SingleFact[Any]]:
    return Concept(keyword, _ABOUT, value_type=JsonValue)


def _value(text: FailedText, error: Exception) -> dict[str, JsonValue]:
    source = text.source
    return {
        "texts": list(text.texts),
        "places": [list(each) for each in sorted(text.identities, key=str)],
        "said_at": text.said_at.isoformat(),
        "kind": None if source is None else source.kind.value,
        "conversation": None if source is None else source.conversation,
        "error": type(error).__name__,
        "attempts": text.attempts,
    }


def _read(fact: AnyFact, place: Place) -> FailedText:
    value: Mapping[str, Any] = fact.values[0]
    kind = value["kind"]
    return FailedText(
        id=fact.concept.keyword,
        texts=tuple(value["texts"]),
        subject=place.subject,
        said_at=datetime.fromisoformat(value["said_at"]),
        failed_at=fact.timestamp,
        error=value["error"],
        attempts=value["attempts"],
        source=None if kind is None else FactSource(SourceKind(kind), value["conversation"]),
        identities=frozenset((each[0], each[1], each[2], each[3]) for each in value["places"]),
    )
