"""A LangChain chat model for the OpenAI API, instead of the large langchain-openai."""

from typing import Any

import openai
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool

__all__ = ["ChatOpenAI"]


class ChatOpenAI(BaseChatModel):
    """Sends chat completions to `url`."""

    url: str

    @property
    def _llm_type(self) -> str:
        return "test"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        sent: Any = convert_to_openai_messages(messages)
        with openai.OpenAI(base_url=self.url, api_key="x") as client:
            tools: Any = {"tools": options["tools"]} if options.get("tools") else {}
            answer = client.chat.completions.create(model="test", messages=sent, **tools)
        said: Any = answer.choices[0].message
        calls = [
            {"id": call.id, "name": call.function.name, "args": _json(call.function.arguments)}
            for call in said.tool_calls or ()
        ]
        message = AIMessage(content=said.content or "", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


def _json(text: str) -> Any:
    import json

    return json.loads(text)
