"""Events become spans that tools for the GenAI conventions can read."""

import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from factmem.embedding.callable import CallableEmbedder
from factmem.errors import ChatModelError, MissingExtraError
from factmem.events import MemoryEvents, MemoryOperation
from factmem.integrations.opentelemetry import MemorySpans
from factmem.testing.chat import ScriptedChatModel
from tests.world import AGENT, ALICE, item, languages, memory_of, theme

STORE = "agent/support-bot user(alice)"
CONVENTIONS = {
    *("search_memory", "create_memory", "update_memory", "upsert_memory", "delete_memory"),
    *("create_memory_store", "delete_memory_store", "embeddings"),
}
"""The values of `gen_ai.operation.name` in the conventions for memory and embeddings."""
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
    memory = memory_of(listeners=[MemorySpans(provider)])

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
        MemorySpans()
