"""Events of a memory as OpenTelemetry spans and metrics, with the GenAI conventions.

    memory = AgentMemory(store, listeners=[MemorySpans(), MemoryMetrics()])

It needs the extra `opentelemetry`, and an OpenTelemetry SDK that the application configures.

An event arrives when its operation has ended, so its span starts and ends at once, with the times
of the operation.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

from factmem.errors import MissingExtraError
from factmem.events import MemoryEvent, MemoryOperation
from factmem.providers.conversations import LearningState

try:
    from opentelemetry import metrics, trace
except ImportError as _exc:
    raise MissingExtraError(
        "Spans and metrics need OpenTelemetry: pip install 'factmem[opentelemetry]'"
    ) from _exc

__all__ = ["MemoryMetrics", "MemorySpans"]

_NAMES: Mapping[MemoryOperation, str] = {
    MemoryOperation.SAVE: "upsert_memory",
    MemoryOperation.DETECT: "upsert_memory",
    MemoryOperation.REMEMBER: "upsert_memory",
    MemoryOperation.CONSOLIDATE: "upsert_memory",
    MemoryOperation.FORGET: "delete_memory",
    MemoryOperation.ERASE: "delete_memory_store",
    MemoryOperation.EMBED: "embeddings",
    MemoryOperation.CHAT: "chat",
}
_READ = "search_memory"
"""The operation names of the conventions, which call a place a memory store."""

_COUNTS: Mapping[MemoryOperation, str] = {
    MemoryOperation.LIST: "factmem.listed_places",
    MemoryOperation.DEFINE: "factmem.defined_concepts",
    MemoryOperation.EMBED: "factmem.embedded_texts",
    MemoryOperation.CHAT: "factmem.extractions",
}
"""The attributes of counts that do not count memory records."""


class MemorySpans:
    """A listener that records a span for every event.

    The span is a child of the caller's current span, has the start and end of the operation, and
    its name is the `gen_ai.operation.name`. `gen_ai.memory.store.id` is the place, if there is
    exactly one, with a hash in the place of the entity; `gen_ai.memory.record.count` is the number
    of values. Attributes that the conventions do not define begin with `factmem.`: the operation's
    own name, the correlation id, the numbers of model and embedding calls, of listed places and of
    embedded texts. A failed operation has the status error and its `error.type`.

    Spans contain no facts and no queries.

    Args:
        tracer_provider: The provider that gets the spans; by default the global one.
        entities: Whether spans name the entity of a place, such as a user's id, and not a hash of
            it. The hash shows which spans belong together; who knows the ids can find out which it
            is.
    """

    def __init__(
        self, tracer_provider: trace.TracerProvider | None = None, *, entities: bool = False
    ) -> None:
        self._entities = entities
        self._tracer = trace.get_tracer("factmem", tracer_provider=tracer_provider)

    def __call__(self, event: MemoryEvent) -> None:
        """Record a span for an event."""
        ended_at = event.started_at + timedelta(milliseconds=event.milliseconds)
        attributes = _attributes(event, entities=self._entities)
        span = self._tracer.start_span(
            _NAMES.get(event.operation, _READ),
            kind=trace.SpanKind.INTERNAL,
            attributes=attributes,
            start_time=round(event.started_at.timestamp() * 1e9),
        )
        if event.error_type is not None:
            span.set_status(trace.StatusCode.ERROR)
        span.end(end_time=round(ended_at.timestamp() * 1e9))


class MemoryMetrics:
    """A listener that counts and times every event.

    | metric | kind, unit | attributes |
    |---|---|---|
    | `factmem.operation.duration` | histogram, s | `factmem.operation`, `error.type` of a failure |
    | `factmem.values` | counter | `factmem.operation` |
    | `gen_ai.client.token.usage` | counter, tokens | `gen_ai.token.type` |
    | `factmem.learning.pending`, `.failed` | gauge, conversations | |
    | `factmem.learning.age` | gauge, s | |

    Metrics contain no facts, queries, places, keys or entities.

    Args:
        meter_provider: The provider that gets the metrics; by default the global one.
    """

    def __init__(self, meter_provider: metrics.MeterProvider | None = None) -> None:
        meter = metrics.get_meter("factmem", meter_provider=meter_provider)
        self._seconds = meter.create_histogram("factmem.operation.duration", "s")
        self._values = meter.create_counter("factmem.values", "{value}")
        self._tokens = meter.create_counter("gen_ai.client.token.usage", "{token}")
        self._pending = meter.create_gauge("factmem.learning.pending", "{conversation}")
        self._failed = meter.create_gauge("factmem.learning.failed", "{conversation}")
        self._age = meter.create_gauge("factmem.learning.age", "s")

    def __call__(self, event: MemoryEvent) -> None:
        """Count an event."""
        operation = {"factmem.operation": event.operation.value}
        error = {} if event.error_type is None else {"error.type": event.error_type}
        self._seconds.record(event.milliseconds / 1000, operation | error)
        if event.count:
            self._values.add(event.count, operation)
        if event.operation is MemoryOperation.CHAT:
            self._tokens.add(event.input_tokens, {"gen_ai.token.type": "input"})
            self._tokens.add(event.output_tokens, {"gen_ai.token.type": "output"})

    def queue(self, state: LearningState) -> None:
        """Record the state of the queue of learning: `await memory.conversations.pending()`."""
        self._pending.set(state.pending)
        self._failed.set(state.failed)
        oldest = state.oldest
        self._age.set(0 if oldest is None else (datetime.now(UTC) - oldest).total_seconds())


def _attributes(event: MemoryEvent, *, entities: bool) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "gen_ai.operation.name": _NAMES.get(event.operation, _READ),
        "factmem.operation": event.operation.value,
        "factmem.correlation_id": event.correlation_id,
    }
    if len(event.places) == 1:
        (place,) = event.places
        digest = blake2b("\0".join(place.subject.levels).encode(), digest_size=6).hexdigest()
        is_plain = entities or place.subject.entity is None
        name = str(place) if is_plain else f"{place.scope} {place.subject.name}({digest})"
        attributes["gen_ai.memory.store.id"] = name
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
