"""Agent: a model, tools, a strategy and installed features."""

from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, overload

from typing_extensions import TypeVar, Unpack

from factmem._arguments import expect, expect_methods, expect_within, kind_of
from factmem._guidance import guided
from factmem.agent._memory_feature import MemoryFeature, MemoryOptions
from factmem.agent.context import (
    MAX_STEPS,
    AgentContext,
    AgentFeature,
    AgentResult,
    AgentTool,
    FeatureError,
)
from factmem.agent.nodes import Strategy, node_llm_request
from factmem.agent.tools import ToolFunction, tools_by_name
from factmem.errors import InputTypeError
from factmem.llm.base import ChatModel, Message
from factmem.llm.messages import OWN_MESSAGES, checked_messages, is_instruction
from factmem.memory.agent_memory import AgentMemory
from factmem.models._values import checked_text
from factmem.models.places import MemorySubject, ScopeChoice, checked_choices, checked_subjects

__all__ = ["Agent"]

M = TypeVar("M", bound=AgentMemory)
F = TypeVar("F", bound=AgentFeature)
P = ParamSpec("P")


@guided(
    {
        "invoke chat ask call stream": "await agent.run(text, subjects=[USER.of('alice')])",
        "add_tool tool": "Agent(model, tools=[function])",
    },
    arguments={
        "memory": "agent.install(AgentMemory, provider=store, scopes=profile, subjects=[USER])",
        "user user_id subject": "subjects=[USER.of('alice')]",
        "session session_id thread_id": "conversation='chat-7'",
        "model llm": "Agent(OpenAIChatModel(name))",
    },
    calls=("__init__", "run"),
)
class Agent:
    """An agent that answers with a model, runs tools, and runs installed features.

        agent = Agent(OpenAIChatModel("gpt-4o-mini"), tools=[look_up])
        profile = MemoryScopesProfile(product="my-app")
        memory = agent.install(AgentMemory, provider=store, scopes=profile)
        result = await agent.run("Which theme do I like?", subjects=[USER.of("alice")])

    An agent stores no state of a run: any number of users, tasks and event loops can share it.

    Args:
        chat_model: The model that answers.
        system_prompt: The first message of a conversation that has no instructions itself.
        tools: Python functions, or objects with the methods of `AgentTool`.
        strategy: The steps of a run; by default one request to the model.
        max_steps: The maximum of calls to the model for one answer: one, and one more for each
            round of tool calls.

    Raises:
        TypeError: A tool has parameters without a JSON schema, or an argument has the wrong type,
            such as a model's name instead of a model.
        ValueError: Two tools have the same name, or `max_steps` is less than 1.
    """

    def __init__(
        self,
        chat_model: ChatModel,
        *,
        system_prompt: str = "",
        tools: Iterable[ToolFunction | AgentTool] = (),
        strategy: Strategy | None = None,
        max_steps: int = MAX_STEPS,
    ) -> None:
        example = "Agent(OpenAIChatModel(name)), or OpenAIChatModel(name, client=client)"
        self._chat_model = expect_methods(chat_model, ["respond"], "chat_model", example)
        self._system_prompt = checked_text(system_prompt, "system_prompt")
        self._tools = tools_by_name(tools)
        self._has_strategy = strategy is not None
        self._strategy = strategy or Strategy("answer", [node_llm_request()])
        self._max_steps = expect_within(max_steps, int, "max_steps", "max_steps=20", least=1)
        self._features: list[AgentFeature] = []

    @overload
    def install(self, feature: type[M], **options: Unpack[MemoryOptions]) -> M: ...
    @overload
    def install(self, feature: Callable[P, F], *args: P.args, **options: P.kwargs) -> F: ...
    def install(self, feature: Callable[..., Any], *args: Any, **options: Any) -> object:
        """Create a feature, add it and return it: `agent.install(AgentMemory, provider=store)`.

        Features run in the order of installation, before the model and after the answer. Runs in
        progress do not use a new feature.

        Args:
            feature: `AgentMemory`, or the class of an `AgentFeature`.
            *args: Arguments of the class.
            **options: Arguments of the class; for `AgentMemory` see `MemoryOptions`.

        Raises:
            TypeError: An option is unknown, or `feature` is an instance: pass the class, as in
                `agent.install(AgentMemory, provider=store, scopes=profile)`.
            ValueError: The agent already has a memory, or options contradict each other.
        """
        if isinstance(feature, type) and issubclass(feature, AgentMemory):
            if args:
                raise InputTypeError(
                    "The options of AgentMemory are keywords: agent.install(AgentMemory, "
                    "provider=store, scopes=profile, subjects=[USER])"
                )
            if any(isinstance(each, MemoryFeature) for each in self._features):
                raise ValueError("The agent already has a memory: install only one")
            installed = MemoryFeature(
                feature, self._chat_model, *args, has_strategy=self._has_strategy, **options
            )
            self._features.append(installed)
            return installed.memory
        example = "agent.install(AgentMemory, provider=store, scopes=profile)"
        if not callable(feature):
            raise TypeError(
                f"feature must be AgentMemory or the class of an AgentFeature, not an instance of "
                f"{kind_of(feature)}: {example}"
            )
        made: Any = feature(*args, **options)
        hooks = ("before_model", "after_answer")
        self._features.append(expect_methods(made, hooks, "An AgentFeature", example))
        return made

    async def run(
        self,
        text: str,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
        messages: Iterable[Message] | None = None,
        conversation: str | None = None,
    ) -> AgentResult:
        """Answer a message of the user.

        Makes one call to the model, one more for each round of tool calls, and the calls of
        features and strategy: one for `auto_detect` of a memory.

        After an error or a cancellation only the effects of tools and strategy remain; `messages`
        is unchanged.

        Args:
            text: The user's message.
            subjects: The subjects of the run; by default those of the installation. The memory
                loads and saves facts of these subjects only, which lets one agent serve many users:
                `subjects=[USER.of("alice")]`.
            scopes: The scopes of the run; by default all those of the installation.
            messages: The conversation so far, such as the `messages` of an earlier result; not
                changed. By default the stored one, with `conversations=True` of the memory.
            conversation: The application's name for the conversation. It is recorded in the source
                of facts; with `conversations=True` the run continues it and stores its messages.

        Raises:
            UnboundSubjectError: A per-entity subject has no entity. No model was called.
            ChatModelError: The model's endpoint failed.
            StepLimitError: The model called tools `max_steps` times.
            FeatureError: A feature failed after the answer, which is in `result`.
            TypeError: An argument has the wrong type. No model was called.
            Exception: Raised by a tool or a node.
        """
        context = self._context(text, subjects, scopes, messages, conversation)
        features = tuple(self._features)
        for feature in features:
            await feature.before_model(context)
        context.answer = await self._strategy.run(context, text)
        for feature in features:
            try:
                await feature.after_answer(context)
            except Exception as exc:
                name = type(feature).__name__
                message = f"{name} failed after the model had answered: `result` has the answer"
                raise FeatureError(message, result=context.result()) from exc
        return context.result()

    def __repr__(self) -> str:
        features = [getattr(each, "memory", each) for each in self._features]
        tools = f"{len(self._tools)} tool{'' if len(self._tools) == 1 else 's'}"
        return f"<Agent {type(self._chat_model).__name__}, {tools}, features {features}>"

    def _context(
        self,
        text: str,
        subjects: Iterable[MemorySubject] | None,
        scopes: Iterable[ScopeChoice] | None,
        messages: Iterable[Message] | None,
        conversation: str | None,
    ) -> AgentContext:
        expect(text, str, "text", "agent.run('Which theme do I like?')")
        concerned = () if subjects is None else checked_subjects(subjects)
        if subjects is not None and not concerned:
            raise ValueError("subjects is empty: pass at least one, or omit the argument")
        for subject in concerned:
            subject.check_bound()
        chosen = None if scopes is None else checked_choices(scopes)
        if chosen == ():
            raise ValueError("scopes is empty: pass at least one, or omit the argument")
        history = [] if messages is None else list(checked_messages(messages))
        if conversation is not None:
            checked_text(conversation, "conversation")
        are_instructions = [*map(is_instruction, history)]  # raises for values that are no messages
        is_own = bool(history) and history[0].get("name") not in OWN_MESSAGES
        has_instructions = is_own and are_instructions[0]
        hooks: list[Any] = [getattr(each, "after_step", None) for each in self._features]
        if self._system_prompt and not has_instructions:
            history.insert(0, {"role": "system", "content": self._system_prompt})
        return AgentContext(
            text,
            history,
            chat_model=self._chat_model,
            tools=self._tools,
            max_steps=self._max_steps,
            subjects=concerned,
            scopes=chosen,
            conversation=conversation,
            is_continued=messages is not None,
            after_step=[each for each in hooks if each is not None],
        )
