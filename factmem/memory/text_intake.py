"""TextIntake: free text into facts, at once or queued for the background."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from anyio.lowlevel import checkpoint

from factmem._arguments import expect, kind_of
from factmem.detection.report import DetectionReport
from factmem.detection.request import DetectionRequest
from factmem.events import MemoryEvents, MemoryOperation
from factmem.memory.chat_detection import ChatDetection
from factmem.memory.pending_texts import PendingTexts
from factmem.memory.selection import PlaceSelection
from factmem.models.clock import TimeProvider
from factmem.models.facts import Concept
from factmem.models.places import MemorySubject
from factmem.models.scopes import ScopeChoice
from factmem.models.sources import FactSource, SourceKind
from factmem.prompt.transcript import Transcript

__all__ = ["TextIntake"]

Source = FactSource | str | None


class TextIntake:
    """Treats texts as messages of the user and detects facts in them.

    Args:
        detection: Runs the requests.
        selection: The places where facts may be saved.
        pending: The queue of an open memory.
        events: Reports each run.
        concepts: The declared concepts by keyword.
        clock: Returns the time of texts that come without one.
    """

    def __init__(
        self,
        detection: ChatDetection,
        selection: PlaceSelection,
        pending: PendingTexts,
        events: MemoryEvents,
        *,
        concepts: Mapping[str, Concept[Any, Any]],
        clock: TimeProvider,
    ) -> None:
        self._detection = detection
        self._selection = selection
        self._pending = pending
        self._events = events
        self._concepts = concepts
        self._clock = clock

    async def run(
        self,
        texts: Iterable[str],
        subject: MemorySubject | None,
        scope: ScopeChoice | None,
        source: Source,
        said_at: datetime | None,
    ) -> DetectionReport:
        """Detect and save the facts of texts. One call to the model."""
        async with self._events.operation(MemoryOperation.REMEMBER) as operation:
            checked, origin = _checked_texts(texts), _checked_source(source)
            request = self._request(checked, subject, scope, origin, said_at)
            return await self._detection.run(request, operation)

    async def queue(
        self,
        texts: Iterable[str],
        subject: MemorySubject | None,
        scope: ScopeChoice | None,
        source: Source,
        said_at: datetime | None,
    ) -> None:
        """Queue texts; wrong arguments raise now, and what fails later is kept for `flush`."""
        async with self._events.operation(MemoryOperation.REMEMBER) as operation:
            checked, origin = _checked_texts(texts), _checked_source(source)
            request = self._request(checked, subject, scope, origin, said_at)
            operation.places = request.places
            moments = await self._detection.moments(request.places)
            request = replace(request, moments=moments)

            async def run_later() -> None:
                remember = MemoryOperation.REMEMBER
                async with self._events.operation(remember, request.places) as later:
                    await self._detection.run(request, later)

            self._pending.add(
                request.places,
                run_later,
                count=len(checked),
                source=origin.conversation if origin else None,
                waiting=lambda: self._events.before(MemoryOperation.REMEMBER, request.places),
            )
            operation.is_handed_over = True
        await checkpoint()

    def _request(
        self,
        texts: list[str],
        subject: MemorySubject | None,
        scope: ScopeChoice | None,
        source: FactSource | None,
        said_at: datetime | None,
    ) -> DetectionRequest:
        if subject is not None:
            expect(subject, MemorySubject, "subject", "subject=USER.of('alice')")
        self._detection.require_model()
        return DetectionRequest(
            transcript=Transcript(
                [{"role": "user", "content": text} for text in texts],
                written_by=source.kind if source else None,
                said_at=self._clock() if said_at is None else said_at,
            ),
            places=self._selection.detection_places(
                None if subject is None else [subject], None if scope is None else [scope]
            ),
            declared=list(self._concepts.values()),
            conversation=source.conversation if source else None,
        )


def _checked_texts(texts: Iterable[str]) -> list[str]:
    # A string is an iterable of strings: each letter would become a text.
    if isinstance(texts, str):
        raise TypeError("texts must be a list of str, not str: memory.remember(text) takes one")
    if not isinstance(texts, Iterable):
        raise TypeError(
            f"texts must be a list of str, not {kind_of(texts)}: memory.remember_many(['I like tea'])"
        )
    checked = list(texts)
    for text in checked:
        expect(text, str, "text", "memory.remember('I like tea')")
    return checked


def _checked_source(source: Source) -> FactSource | None:
    if isinstance(source, str):
        return FactSource(SourceKind.USER, source)
    if source is not None and not isinstance(source, FactSource):
        raise TypeError(
            f"source must be a str or a FactSource, not {kind_of(source)}: source='ticket-7'"
        )
    return source
