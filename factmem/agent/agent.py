"""Agent: a model, tools, a strategy and installed features.

MemoryFeature: loads facts before the model is called and detects facts after the answer.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, ParamSpec, overload

from typing_extensions import TypeVar, Unpack

from factmem._arguments import expect, expect_methods, expect_within, guided, kind_of
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
from factmem.embedding.base import Embedder
from factmem.errors import InputTypeError, UnboundSubjectError
from factmem.events import EventListener
from factmem.llm.base import OWN_MESSAGES, ChatModel, Message, checked_messages, is_instruction
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import LoadAndLearnOptions, MemoryRuns
from factmem.models._values import checked_text
from factmem.models.places import (
    MemoryScopesProfile,
    MemorySubject,
    ScopeChoice,
    checked_choices,
    checked_subjects,
)
from factmem.models.profile import Concepts
from factmem.models.when import TimeProvider
from factmem.prompt.memory_message import MessageForm
from factmem.providers.no_memory import NoMemory
from factmem.providers.provider import AgentMemoryProvider, as_store, is_complete
from factmem.recall.match import RecallSettings

__all__ = ["Agent"]


M = TypeVar("M", bound=AgentMemory)
F = TypeVar("F", bound=AgentFeature)

_OF_MEMORY = frozenset({"detection"})
"""The options of `MemoryRuns` that the memory gets instead, also for strategies and tools."""


class MemoryOptions(LoadAndLearnOptions, total=False):
    """The options of `agent.install(AgentMemory, ...)`.

    Storage:

    - `provider`: the store; the application closes it. `NoMemory()` by default.
    - `scopes`: the scopes to load from and save in, as a `MemoryScopesProfile`; required with a
      provider.

    Subjects and concepts:

    - `subjects`: the subjects of runs without `subjects`; `MemorySubject.EVERYTHING` by default.
    - `concepts`: the concepts whose value types the application declares.
    - `instructions`, `message_form`: see `AgentMemory`.

    Loading and detection:

    All facts are put into the prompt before the model is called, unless the agent has a strategy,
    which then loads what it needs.

    - `recall`: as in `MemoryRuns`, also with a strategy; see `AgentMemory.recall_facts_to_agent`.
    - `conversations`: as in `MemoryRuns`, under the run's `conversation`, which the model continues
      unless the run has `messages`.
    - `detection`: how facts are detected, also by strategies and the tool `remember`.
    - `tools`: whether the model gets `AgentMemory.tools`, for the subjects of each run.
      False by default.
    - `auto_detect`, `learn`, `history_tokens`, `save`, `prefix`, `on_report`, `on_failure`: see
      `MemoryRuns`.

    Models and limits:

    - `chat_model`: the model that detects facts; the agent's by default.
    - `embedder`: creates vectors, with which recalls compare meanings as well as words.
    - `recall_settings`, `listeners`, `clock`: see `AgentMemory`.
    """

    provider: AgentMemoryProvider
    scopes: MemoryScopesProfile
    subjects: Iterable[MemorySubject]
    concepts: Concepts
    instructions: Concepts
    message_form: MessageForm
    chat_model: ChatModel | None
    embedder: Embedder | None
    recall_settings: RecallSettings
    listeners: Iterable[EventListener]
    clock: TimeProvider


class MemoryFeature(Generic[M]):
    """An `AgentMemory` that is installed in an agent; `MemoryRuns` for an `AgentContext`.

    A run uses its own subjects, or else those of the installation. Its nodes and tools get a view
    of the memory with these subjects only. The facts replace the memory message of the
    conversation. New facts are detected in the user's words of this run; earlier messages are
    context.

    A failure of the store does not end a run: the model reads that the memory cannot be reached.
    Errors of the caller are raised before the model is called. Detection saves place by place, each
    with all of its facts or none.

    Args:
        memory_class: `AgentMemory`, or a subclass with the same parameters.
        agent_model: The agent's chat model.
        has_strategy: Whether a strategy was passed to the agent.
        **options: See `MemoryOptions`.

    Raises:
        TypeError: An option is unknown or has the wrong type, or `tools` is used with a provider
            that is not a `FactStore`.
        ValueError: There is no scope or no subject, or `recall` is less than 1.
    """

    memory: M
    """The memory; each run has a view of it."""

    def __init__(
        self,
        memory_class: type[M],
        agent_model: ChatModel,
        *,
        has_strategy: bool = False,
        **options: Unpack[MemoryOptions],
    ) -> None:
        _check(options)
        self._subjects = checked_subjects(options.get("subjects", (MemorySubject.EVERYTHING,)))
        if not self._subjects:
            raise ValueError("subjects is empty: pass at least one, or omit the option")
        given: dict[str, Any] = {"scopes": _NOWHERE, **options, "subjects": self._subjects}
        if given.get("chat_model") is None:
            given["chat_model"] = agent_model
        provider = given.pop("provider") if "provider" in given else NoMemory()
        shared = given.keys() & LoadAndLearnOptions.__annotations__.keys() - _OF_MEMORY
        of_runs: dict[str, Any] = {"tools": False, **{name: given.pop(name) for name in shared}}
        self.memory = memory_class(provider, **given)
        self._is_detecting = options.get("auto_detect", False)
        self._is_loading = not has_strategy or options.get("recall") is not None
        self._runs = _Runs(self.memory, user=lambda context: context.subjects, **of_runs)

    async def before_model(self, context: AgentContext) -> None:
        """See `AgentFeature.before_model`. No call to a chat model.

        Without `messages` of the run, the stored ones of its conversation come first.

        With `recall` and an embedder, the user's text and facts without a vector are embedded. If
        the store fails, the memory message reports that and the run continues.

        Raises:
            UnboundSubjectError: A per-entity subject has no entity.
            ValueError: A tool of the agent has the name of a memory tool, or messages are to be
                stored and the run has no conversation.
        """
        name = self._runs.named(context.conversation)
        context.subjects = context.subjects or self._subjects
        _check_subjects(context.subjects, is_detecting=self._is_detecting)
        context.memory = self.memory.view(subjects=context.subjects, scopes=context.scopes)
        _offer(self._runs.tools(), context)
        if name and not context.is_continued:
            context.messages += await self._runs.history(context, name)
        if self._is_loading:
            report = await self._runs.load(context, context.messages, context.text)
            if report is not None:
                context.reports.append(report)

    async def after_answer(self, context: AgentContext) -> None:
        """See `AgentFeature.after_answer`. One call to a model with `auto_detect`, else none."""
        report = await self._runs.learn(
            context, context.messages, since=context.since, conversation=context.conversation
        )
        if report is not None:
            context.usage += report.usage
            context.reports.append(report)


class _Runs(MemoryRuns[AgentContext]):
    def view(self, context: AgentContext) -> AgentMemory:
        return context.memory  # it has the scopes of the run as well


_SCOPES = "scopes=MemoryScopesProfile(agent='my-agent')"
_NOWHERE = MemoryScopesProfile(agent="nowhere")
"""The scope of a feature without a provider, which stores nothing."""


def _check(options: MemoryOptions) -> None:
    unknown = sorted(options.keys() - MemoryOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(MemoryOptions.__annotations__)
        raise TypeError(f"AgentMemory has no option {unknown[0]!r}; it has {known}")
    if "provider" in options and "scopes" not in options:
        raise ValueError(f"Facts need a scope: {_SCOPES}")
    if "provider" not in options:
        for name in ("auto_detect", "conversations", "tools"):
            if options.get(name):
                raise ValueError(
                    f"{name}=True has no effect without a store: "
                    f"agent.install(AgentMemory, provider=store, {_SCOPES})"
                )
    expect(options.get("scopes", _NOWHERE), MemoryScopesProfile, "scopes", _SCOPES)
    provider = options.get("provider")
    if options.get("tools") and provider is not None and not is_complete(as_store(provider)):
        raise TypeError("tools need a provider that is a FactStore: omit tools=True")


def _offer(tools: Iterable[AgentTool], context: AgentContext) -> None:
    for tool in tools:
        if context.tools.setdefault(tool.name, tool) is not tool:
            raise ValueError(
                f"The agent and the memory both have a tool {tool.name!r}: install the memory with "
                f"prefix='facts_'"
            )


def _check_subjects(subjects: Sequence[MemorySubject], *, is_detecting: bool) -> None:
    for subject in subjects:
        try:
            subject.check_bound()
        except UnboundSubjectError as exc:
            raise UnboundSubjectError(
                f"{exc}: agent.run(text, subjects=[{subject.name.upper()}.of('alice')])"
            ) from None
    names = [subject.name for subject in subjects]
    twice = next((name for name in names if names.count(name) > 1), None)
    if is_detecting and twice is not None:
        raise ValueError(
            f"The run has two subjects {twice!r}, which a model cannot distinguish when it detects "
            "facts: pass only one of them"
        )


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
