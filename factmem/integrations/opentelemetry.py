"""Events of a memory as OpenTelemetry spans, with the GenAI conventions for memory operations.

    memory = AgentMemory(store, listeners=[MemorySpans()])

It needs the extra `opentelemetry`, and an OpenTelemetry SDK that the application configures.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from factmem.errors import MissingExtraError
from factmem.events import MemoryEvent, MemoryOperation

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["MemorySpans"]


_NAMES: Mapping[MemoryOperation, str] = {
    MemoryOperation.SAVE: "upsert_memory",
    MemoryOperation.DETECT: "upsert_memory",
    MemoryOperation.REMEMBER: "upsert_memory",
    MemoryOperation.CONSOLIDATE: "upsert_memory",
    MemoryOperation.RESTORE: "upsert_memory",
    MemoryOperation.FORGET: "delete_memory",
    MemoryOperation.ERASE: "delete_memory_store",
    MemoryOperation.LOAD: "search_memory",
    MemoryOperation.HISTORY: "search_memory",
    MemoryOperation.LIST: "search_memory",
    MemoryOperation.RECALL: "search_memory",
    MemoryOperation.EMBED: "embeddings",
}
"""The operation names of the conventions, which call a place a memory store."""

_COUNTS: Mapping[MemoryOperation, str] = {
    MemoryOperation.LIST: "factmem.listed_places",
    MemoryOperation.EMBED: "factmem.embedded_texts",
}
"""The attributes of counts that do not count memory records."""


class MemorySpans:
    """A listener that records a span for every event.

    The span is a child of the caller's current span, has the start and end of the operation, and
    its name is the `gen_ai.operation.name`. `gen_ai.memory.store.id` is the place, if there is
    exactly one; `gen_ai.memory.record.count` is the number of values. Attributes that the
    conventions do not define begin with `factmem.`: the operation's own name, the correlation id,
    the numbers of model and embedding calls, of listed places and of embedded texts. A failed
    operation has the status error and its `error.type`.

    Spans contain no facts and no queries.

    Args:
        tracer_provider: The provider that gets the spans; by default the global one.

    Raises:
        MissingExtraError: The package `opentelemetry-api` is not installed.
    """

    def __init__(self, tracer_provider: "TracerProvider | None" = None) -> None:
        try:
            from opentelemetry import trace
        except ImportError as exc:
            raise MissingExtraError(
                "Spans need OpenTelemetry: pip install 'factmem[opentelemetry]'"
            ) from exc
        self._trace = trace
        self._tracer = trace.get_tracer("factmem", tracer_provider=tracer_provider)

    def __call__(self, event: MemoryEvent) -> None:
        """Record a span for an event."""
        ended_at = event.started_at + timedelta(milliseconds=event.milliseconds)
        attributes = _attributes(event)
        span = self._tracer.start_span(
            _NAMES[event.operation],
            kind=self._trace.SpanKind.INTERNAL,
            attributes=attributes,
            start_time=round(event.started_at.timestamp() * 1e9),
        )
        if event.error_type is not None:
            span.set_status(self._trace.StatusCode.ERROR)
        span.end(end_time=round(ended_at.timestamp() * 1e9))


def _attributes(event: MemoryEvent) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "gen_ai.operation.name": _NAMES[event.operation],
        "factmem.operation": event.operation.value,
        "factmem.correlation_id": event.correlation_id,
    }
    if len(event.places) == 1:
        attributes["gen_ai.memory.store.id"] = str(event.places[0])
    elif event.places:
        attributes["factmem.places"] = len(event.places)
    if event.error_type is None:
        counted = _COUNTS.get(event.operation, "gen_ai.memory.record.count")
        attributes[counted] = event.count
    else:
        attributes["error.type"] = event.error_type
    if event.llm_calls:
        attributes["factmem.llm_calls"] = event.llm_calls
        attributes["gen_ai.usage.input_tokens"] = event.input_tokens
        attributes["gen_ai.usage.output_tokens"] = event.output_tokens
    if event.embedding_calls:
        attributes["factmem.embedding_calls"] = event.embedding_calls
    return attributes
