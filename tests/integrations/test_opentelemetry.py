"""Events become spans that tools for the GenAI conventions can read."""

import sys
from datetime import UTC, datetime, timedelta
from importlib import reload
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from factmem.embedding.base import CallableEmbedder
from factmem.errors import ChatModelError, MissingExtraError
from factmem.events import MemoryEvents, MemoryOperation
from factmem.integrations.opentelemetry import MemoryMetrics, MemorySpans
from factmem.providers.conversations import LearningState
from factmem.testing.chat import ScriptedChatModel
from tests.world import AGENT, ALICE, item, languages, memory_of, theme

STORE = "agent/support-bot user(alice)"
CONVENTIONS = {
    *("search_memory", "create_memory", "update_memory", "upsert_memory", "delete_memory"),
    *("create_memory_store", "delete_memory_store", "embeddings", "chat"),
}
"""The values of `gen_ai.operation.name` in the conventions for memory, embeddings and models."""
EMBEDDER = CallableEmbedder(lambda texts: [[1.0, 0.5] for _ in texts], model="test")


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    """Return the exporter that receives the spans."""
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made


async def test_a_save_is_a_span(exporter: InMemorySpanExporter, provider: TracerProvider) -> None:
    """Its name and attributes follow the conventions, without any value."""
    memory = memory_of(listeners=[MemorySpans(provider, entities=True)])

    await memory.provider.save(languages("en", "ko"), ALICE, AGENT)

    (span,) = exporter.get_finished_spans()
    attributes = dict(span.attributes or {})
    assert attributes.pop("factmem.correlation_id")
    assert (span.name, span.kind, span.status.status_code) == (
        "upsert_memory",
        SpanKind.INTERNAL,
        StatusCode.UNSET,
    )
    assert attributes == {
        "gen_ai.operation.name": "upsert_memory",
        "gen_ai.memory.store.id": STORE,
        "gen_ai.memory.record.count": 2,
        "factmem.operation": "save",
    }
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.end_time >= span.start_time


async def test_spans_are_children_of_the_request(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    """A trace of a request shows the operations of its memory and their duration."""
    memory = memory_of(
        model=ScriptedChatModel({"facts": [item()]}), listeners=[MemorySpans(provider)]
    )

    with provider.get_tracer("app").start_as_current_span("request") as request:
        await memory.remember("I prefer the dark theme.")

    *spans, outer = exporter.get_finished_spans()
    assert outer.name == "request"
    assert {span.parent.span_id for span in spans if span.parent} == {
        request.get_span_context().span_id
    }
    last = dict(spans[-1].attributes or {})
    assert (last["factmem.operation"], last["factmem.llm_calls"], last["factmem.places"]) == (
        "remember",
        1,
        2,
    )
    assert last["gen_ai.usage.output_tokens"]


async def test_a_failure_has_its_error_type(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    """The status is error; the exception's message is not repeated."""
    model = ScriptedChatModel(ChatModelError("the secret words"))
    memory = memory_of(model=model, listeners=[MemorySpans(provider)])

    with pytest.raises(ChatModelError):
        await memory.remember("I prefer the dark theme.")

    span = exporter.get_finished_spans()[-1]
    attributes = dict(span.attributes or {})
    assert span.status.status_code is StatusCode.ERROR
    assert attributes["error.type"] == "ChatModelError"
    assert "gen_ai.memory.record.count" not in attributes
    assert "secret" not in span.to_json()


@pytest.mark.parametrize("operation", MemoryOperation)
async def test_every_operation_has_a_name(
    operation: MemoryOperation, exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    """A new operation without a name fails here."""
    async with MemoryEvents([MemorySpans(provider)]).operation(operation) as seen:
        seen.embedding_calls = 1

    (span,) = exporter.get_finished_spans()
    assert span.name in CONVENTIONS
    assert dict(span.attributes or {})["factmem.embedding_calls"] == 1


async def test_an_embedding_is_not_a_record(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    """Its strings are counted apart from the memory's values, as are listed places."""
    memory = memory_of(listeners=[MemorySpans(provider)], embedder=EMBEDDER)
    await memory.provider.save(theme("dark"), ALICE, AGENT)
    await memory.contents.places()
    await memory.recall("theme")

    spans = {
        str(attributes["factmem.operation"]): attributes
        for span in exporter.get_finished_spans()
        if (attributes := dict(span.attributes or {}))
    }
    assert spans["embed"]["gen_ai.operation.name"] == "embeddings"
    assert spans["embed"]["factmem.embedded_texts"] == 1
    assert spans["list"]["factmem.listed_places"] == 1
    assert spans["recall"]["gen_ai.memory.record.count"] == 1
    assert not [s for s in ("embed", "list") if "gen_ai.memory.record.count" in spans[s]]
    assert spans["embed"]["factmem.correlation_id"] == spans["recall"]["factmem.correlation_id"]


def test_a_missing_package_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    with pytest.raises(MissingExtraError, match=r"factmem\[opentelemetry\]"):
        reload(sys.modules[MemorySpans.__module__])


async def test_entities_are_hashed(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    """An id of a user is in no trace, and spans of one user still belong together."""
    memory = memory_of(listeners=[MemorySpans(provider)])
    for _ in range(2):
        await memory.provider.save(theme("dark"), ALICE, AGENT)

    stores = {
        dict(span.attributes or {})["gen_ai.memory.store.id"]
        for span in exporter.get_finished_spans()
    }
    (store,) = stores
    assert str(store).startswith("agent/support-bot user(")
    assert "alice" not in str(store)


async def test_metrics_count_and_time_operations() -> None:
    """The SDK reads them, and they contain no value, key or entity."""
    reader = InMemoryMetricReader()
    metrics = MemoryMetrics(MeterProvider([reader]))
    model = ScriptedChatModel({"facts": [item()]}, ChatModelError("down"))
    memory = memory_of(model=model, listeners=[metrics])
    await memory.remember("I prefer the dark theme.")
    with pytest.raises(ChatModelError):
        await memory.remember("I prefer the light theme.")
    metrics.queue(LearningState(3, 1, datetime.now(UTC) - timedelta(seconds=90)))

    found = _points(reader)
    counts = {
        (
            dict(point.attributes)["factmem.operation"],
            dict(point.attributes).get("error.type"),
        ): point.count
        for point in found["factmem.operation.duration"]
    }
    assert counts["remember", None] == counts["remember", "ChatModelError"] == 1
    assert counts["chat", None] == counts["chat", "ChatModelError"] == counts["save", None] == 1
    [saved] = [
        p for p in found["factmem.values"] if dict(p.attributes)["factmem.operation"] == "save"
    ]
    assert saved.value == 1
    tokens = {
        dict(p.attributes)["gen_ai.token.type"]: p.value for p in found["gen_ai.client.token.usage"]
    }
    assert tokens["input"] == model.usage.input_tokens > 0
    assert [found[f"factmem.learning.{name}"][0].value for name in ("pending", "failed")] == [3, 1]
    assert 90 <= found["factmem.learning.age"][0].value < 900
    text = str(found)
    assert not any(word in text for word in ("dark", "alice", "theme", "support-bot"))


def _points(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    data = reader.get_metrics_data()
    assert data is not None
    return {
        metric.name: list(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
