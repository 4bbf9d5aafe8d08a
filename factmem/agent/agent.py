"""The smallest agent with features: a model, tools, and what is installed in it."""

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, ParamSpec, Self, overload

from typing_extensions import TypeVar, Unpack

from factmem._arguments import kind_of, methods_lacking
from factmem.agent.context import (
    MAX_STEPS,
    AgentContext,
    AgentFeature,
    AgentResult,
    AgentTool,
)
from factmem.agent.memory_feature import MemoryFeature, MemoryOptions
from factmem.agent.nodes import Strategy, node_llm_request
from factmem.agent.tools import ToolFunction, tools_by_name
from factmem.concurrency.background import BackgroundWork
from factmem.llm.base import ChatModel, Message
from factmem.llm.messages import (
    OWN_MESSAGES,
    checked_messages,
    is_instruction,
)
from factmem.memory.agent_memory import AgentMemory
from factmem.models.checked import checked_subjects
from factmem.models.names import checked_text
from factmem.models.places import MemorySubject

__all__ = [
    "Agent",
    "check_callback",
    "check_feature_class",
    "checked_agent_model",
    "checked_max_steps",
    "checked_strategy",
]


M = TypeVar("M", bound=AgentMemory)
F = TypeVar("F", bound=AgentFeature)
P = ParamSpec("P")


class Agent:
    """Answers with a model, runs the tools that it calls, and has features.

        agent = Agent(OpenAIChatModel("gpt-4o-mini"), tools=[look_up])
        memory = agent.install(AgentMemory, provider=store, product_name="my-app")
        result = await agent.run("Which theme do I like?", subjects=[USER.of("alice")])

    It keeps nothing of a run: one agent serves any number of users and tasks at once. Open it with
    `async with` where work is to go on after a run, or where a feature is to be closed; otherwise
    there is no need to. An open agent belongs to its event loop.

    Args:
        chat_model: Who answers.
        system_prompt: Stands before a conversation that does not begin with instructions of its
            own.
        tools: Python functions, or anything that is an `AgentTool`.
        strategy: What a run does; without one, the model is asked once the features are ready.
        max_steps: How many times the model may be asked for one answer: once, and after each round
            of tool calls.
        on_background_failure: Called with everything that fails in the background, mostly a
            `FeatureError`, on the event loop and as soon as it happens. Without it failures are
            raised by `drain` and at the end of `async with`.

    Raises:
        TypeError: A tool has parameters that a model cannot be told of, or an argument is of the
            wrong kind, such as a model's name in the place of a model.
        ValueError: Two tools have one name, or `max_steps` is less than 1.
    """

    def __init__(
        self,
        chat_model: ChatModel,
        *,
        system_prompt: str = "",
        tools: Iterable[ToolFunction | AgentTool] = (),
        strategy: Strategy | None = None,
        max_steps: int = MAX_STEPS,
        on_background_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self._chat_model = checked_agent_model(chat_model)
        self._system_prompt = checked_text(system_prompt, "system_prompt")
        self._tools = tools_by_name(tools)
        self._has_strategy = strategy is not None
        self._strategy = checked_strategy(strategy) or Strategy("answer", [node_llm_request()])
        self._max_steps = checked_max_steps(max_steps)
        check_callback(on_background_failure)
        self._background = BackgroundWork(on_background_failure)
        self._features: list[AgentFeature] = []

    @overload
    def install(self, feature: type[M], **options: Unpack[MemoryOptions]) -> M: ...
    @overload
    def install(self, feature: Callable[P, F], *args: P.args, **options: P.kwargs) -> F: ...
    def install(self, feature: Callable[..., Any], *args: Any, **options: Any) -> object:
        """Add a feature, and return it: `memory = agent.install(AgentMemory, provider=store)`.

        Features are prepared, and do their work after an answer, in the order of installation. Runs
        that are under way do not get it.

        Args:
            feature: `AgentMemory`, or the class of an `AgentFeature`.
            *args: What the class takes.
            **options: What the class takes; for `AgentMemory` see `MemoryOptions`.

        Raises:
            TypeError: There is no such option, what was made is no feature, or `feature` is one
                that was made already: the class is installed, as in
                `agent.install(AgentMemory, provider=store, agent_name="my-agent")`.
            ValueError: There is a memory already, or an option makes no sense.
        """
        if isinstance(feature, type) and issubclass(feature, AgentMemory):
            if any(isinstance(each, MemoryFeature) for each in self._features):
                raise ValueError("The agent has a memory already: one is all that it can have")
            installed = MemoryFeature(
                feature, self._chat_model, *args, has_strategy=self._has_strategy, **options
            )
            self._features.append(installed)
            return installed.memory
        check_feature_class(feature)
        made: Any = feature(*args, **options)
        if lacking := methods_lacking(made, "before_model", "after_answer", "aclose"):
            raise TypeError(f"{kind_of(made)} is no AgentFeature: it lacks {', '.join(lacking)}")
        self._features.append(made)
        return made

    async def run(
        self,
        text: str,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        messages: Iterable[Message] | None = None,
        conversation: str | None = None,
    ) -> AgentResult:
        """Answer what a user says.

        One call to the model, one more for each round of tool calls, and what the features and the
        strategy announce: with `auto_detect` of a memory, one more.

        On an error and on a cancellation nothing of the run is left but what its tools have done
        and what the strategy had saved; `messages` is as it was.

        Args:
            text: What the user says.
            subjects: Whom the run concerns, in place of the subjects of the installation: a memory
                loads facts about these, and saves facts about no others. This is how one agent
                serves many users: `subjects=[USER.of("alice")]`.
            messages: The conversation so far, such as the `messages` of an earlier result. Not
                changed.
            conversation: The application's name for the conversation, for the source of the facts
                that are found in it.

        Raises:
            UnboundSubjectError: A subject is per entity and names none. No model was asked.
            ChatModelError: The model's endpoint failed.
            StepLimitError: The model did not stop calling tools.
            FeatureError: The model has answered, and then a feature failed; the answer is in
                `result`.
            RuntimeError: A feature works in the background, and the agent is not open.
            TypeError: An argument is of the wrong kind. No model was asked.
            Exception: What a tool or a node raised.
        """
        context = self._context(text, subjects, messages, conversation)
        features = tuple(self._features)
        for feature in features:
            await feature.before_model(context)
        context.answer = await self._strategy.run(context, text)
        for feature in features:
            try:
                await feature.after_answer(context)
            except Exception as exc:
                raise context.failure(type(feature).__name__) from exc
        return context.result()

    async def drain(self) -> None:
        """Wait for all work in the background that was started before.

        Raises:
            ExceptionGroup: What failed there since the last time, and was not reported to
                `on_background_failure`.
        """
        await self._background.drain()

    async def __aenter__(self) -> Self:
        """Open the agent, so that work can go on after a run.

        Raises:
            RuntimeError: It is open already.
        """
        await self._background.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait for the work in the background, then close the features, the last one first.

        When an exception ends the block, the work is finished nevertheless; a cancellation cancels
        it, and what was not saved then is not saved.

        Raises:
            ExceptionGroup: What failed in the background and was not reported to
                `on_background_failure`.
        """
        try:
            await self._background.__aexit__(exc_type, exc, traceback)
        finally:
            await _close(self._features)

    def _context(
        self,
        text: str,
        subjects: Iterable[MemorySubject] | None,
        messages: Iterable[Message] | None,
        conversation: str | None,
    ) -> AgentContext:
        if not isinstance(text, str):
            raise TypeError(f"What the user says is a text, not {type(text).__name__}")
        concerned = () if subjects is None else checked_subjects(subjects)
        if subjects is not None and not concerned:
            raise ValueError("subjects is empty: name at least one, or leave it out")
        for subject in concerned:
            subject.check_bound()
        history = [] if messages is None else list(checked_messages(messages))
        if conversation is not None:
            checked_text(conversation, "conversation")
        has_instructions = any(map(_is_own_instruction, history[:1]))
        for message in history:
            is_instruction(message)  # raises for what is no message
        if self._system_prompt and not has_instructions:
            history.insert(0, {"role": "system", "content": self._system_prompt})
        return AgentContext(
            text,
            history,
            chat_model=self._chat_model,
            tools=self._tools,
            max_steps=self._max_steps,
            subjects=concerned,
            conversation=conversation,
            background=self._background,
        )


def _is_own_instruction(message: Message) -> bool:
    """Whether it is the application's own, and not what factmem put there."""
    return is_instruction(message) and message.get("name") not in OWN_MESSAGES


async def _close(features: Sequence[AgentFeature]) -> None:
    """Close all, the last one first, whatever one of them raises."""
    if features:
        *before, last = features
        try:
            await last.aclose()
        finally:
            await _close(before)


def checked_agent_model(chat_model: ChatModel) -> ChatModel:
    """Return `chat_model` if it can answer.

    Raises:
        TypeError: It is something else: a model's name, a class, a client.
    """
    if methods_lacking(chat_model, "respond"):
        raise TypeError(
            f"An agent answers with a ChatModel, not {kind_of(chat_model)}: "
            f"Agent(OpenAIChatModel(name)), or OpenAIChatModel(name, client=client), asks any "
            f"endpoint for chat completions; another one needs the methods respond and extract"
        )
    return chat_model


def checked_strategy(strategy: Strategy | None) -> Strategy | None:
    """Return `strategy` if it can be run, or None.

    Raises:
        TypeError: It is something else, such as the nodes of one.
    """
    if strategy is not None and methods_lacking(strategy, "run"):
        raise TypeError(
            f"strategy is a Strategy, not {kind_of(strategy)}: "
            f"strategy=Strategy('answer', [node_llm_request()])"
        )
    return strategy


def checked_max_steps(max_steps: int) -> int:
    """Return how many times a model may be asked.

    Raises:
        TypeError: It is no whole number.
        ValueError: It is less than 1.
    """
    if isinstance(max_steps, bool) or not isinstance(max_steps, int):
        raise TypeError(f"max_steps is a whole number, not {kind_of(max_steps)}: max_steps=20")
    if max_steps < 1:
        raise ValueError("max_steps is less than 1: the model must be asked at least once")
    return max_steps


def check_callback(on_background_failure: Callable[[Exception], None] | None) -> None:
    """Make sure that there is a function to tell failures to, or none.

    Raises:
        TypeError: It cannot be called.
    """
    if on_background_failure is not None and not callable(on_background_failure):
        raise TypeError(
            f"on_background_failure is a function of an exception, not "
            f"{kind_of(on_background_failure)}: on_background_failure=failures.append"
        )


def check_feature_class(feature: object) -> None:
    """Make sure that something makes a feature.

    Raises:
        TypeError: It is a feature, or a memory, that was made already, or makes nothing.
    """
    if callable(feature):
        return
    if isinstance(feature, AgentMemory):
        raise TypeError(
            f"install takes the class, and makes the memory: "
            f"memory = agent.install({kind_of(feature)}, provider=store, agent_name='my-agent')"
        )
    if not methods_lacking(feature, "before_model", "after_answer", "aclose"):
        raise TypeError(
            f"install takes the class, and makes the feature: agent.install({kind_of(feature)}, ...)"
        )
    raise TypeError(
        f"install takes AgentMemory or the class of an AgentFeature, not {kind_of(feature)}: "
        f"agent.install(AgentMemory, provider=store, agent_name='my-agent')"
    )
