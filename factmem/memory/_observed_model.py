"""ObservedChatModel: reports each extraction of a memory's chat model as an event."""

from collections.abc import Sequence

from typing_extensions import TypeForm, TypeVar

from factmem.events import MemoryEvents, MemoryOperation
from factmem.llm.base import ChatModel, ChatResponse, Extraction, Message, ToolDefinition

T = TypeVar("T")


class ObservedChatModel:
    """A chat model whose extractions are events."""

    def __init__(self, model: ChatModel, events: MemoryEvents) -> None:
        self._model = model
        self._events = events
        self.model: object = getattr(model, "model", None)
        """The name of the model, which facts record."""

    async def respond(
        self, messages: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> ChatResponse:
        """See `ChatModel.respond`."""
        return await self._model.respond(messages, tools=tools)

    async def extract(self, messages: Sequence[Message], output_type: TypeForm[T]) -> Extraction[T]:
        """See `ChatModel.extract`."""
        async with self._events.operation(MemoryOperation.CHAT) as operation:
            extraction = await self._model.extract(messages, output_type)
            operation.spent(extraction.usage)
            operation.count = 1
            return extraction


def observed(model: ChatModel | None, events: MemoryEvents) -> ChatModel | None:
    """Return a model whose extractions are reported, if anybody listens."""
    return model if model is None or not events else ObservedChatModel(model, events)
