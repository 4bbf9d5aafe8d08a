"""MemoryFeature: loads facts before the model is called and detects facts after the answer."""

from collections.abc import Iterable, Sequence
from typing import Any, Generic

from typing_extensions import TypeVar, Unpack

from factmem._arguments import expect
from factmem.agent.context import AgentContext, AgentTool
from factmem.embedding.base import Embedder
from factmem.errors import UnboundSubjectError
from factmem.events import EventListener
from factmem.llm.base import ChatModel
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import LoadAndLearnOptions, MemoryRuns
from factmem.models.places import MemoryScopesProfile, MemorySubject, checked_subjects
from factmem.models.profile import Concepts
from factmem.models.when import TimeProvider
from factmem.prompt.memory_message import MessageForm
from factmem.providers._four_methods import as_store
from factmem.providers.no_memory import NoMemory
from factmem.providers.provider import AgentMemoryProvider
from factmem.providers.store import is_complete
from factmem.recall.match import RecallSettings

M = TypeVar("M", bound=AgentMemory)

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
    - `tools`: whether the model gets the tools of `AgentMemory.tools`, for the subjects of each run.
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
