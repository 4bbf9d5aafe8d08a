"""The types of chat models, for type checkers. Checked, never run."""

from typing import Annotated, Any, Literal, assert_type

from openai.types.chat import ChatCompletionMessageParam
from pydantic import BaseModel, Field

from factmem.llm.base import ChatModel, ChatResponse, Extraction
from factmem.llm.openai import OpenAIChatModel
from factmem.testing.chat import ScriptedChatModel


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


real: ChatModel = OpenAIChatModel("gpt-test")
scripted: ChatModel = ScriptedChatModel("Hello")


async def values(model: ChatModel, messages: list[dict[str, Any]]) -> None:
    assert_type(await model.extract(messages, Cat), Extraction[Cat])
    assert_type((await model.extract(messages, int)).value, int)
    assert_type((await model.extract(messages, list[Cat])).value, list[Cat])
    assert_type((await model.extract(messages, Cat | None)).value, Cat | None)
    pet = Annotated[Cat | Dog, Field(discriminator="kind")]
    assert_type((await model.extract(messages, pet)).value, Cat | Dog)
    tier: Literal["free", "pro"] = (await model.extract(messages, Literal["free", "pro"])).value
    wide: Extraction[Cat | Dog] = await model.extract(messages, Cat)
    assert_type((tier, wide.raw), tuple[Literal["free", "pro"], str])


async def histories(model: ChatModel, typed: list[ChatCompletionMessageParam]) -> None:
    plain: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
    assert_type(await model.respond(typed), ChatResponse)
    response = await model.respond(plain, tools=[{"type": "function"}])
    plain.append(response.message)
