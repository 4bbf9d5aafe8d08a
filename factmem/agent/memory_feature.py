"""The memory as a feature of an agent: facts before the model, and facts after the answer."""

from collections.abc import Iterable, Sequence
from typing import Any, Generic

from typing_extensions import TypedDict, TypeVar, Unpack

from factmem._arguments import expect
from factmem.agent.context import AgentContext, AgentTool
from factmem.detection.report import DetectionReport
from factmem.detection.request import DoubtfulItems, Verification, check_options
from factmem.detection.synonyms import SIMILARITY
from factmem.embedding.base import Embedder
from factmem.events import EventListener
from factmem.llm.base import ChatModel
from factmem.memory.agent_memory import AgentMemory
from factmem.models.checked import checked_concepts, checked_subjects
from factmem.models.clock import TimeProvider, system_clock
from factmem.models.facts import Concept
from factmem.models.places import MemorySubject
from factmem.models.scopes import MemoryScopesProfile
from factmem.prompt.memory_message import FORM, LoadReport
from factmem.prompt.message_form import MessageForm
from factmem.prompt.tokens import TokenCounter, estimate_tokens
from factmem.prompt.transcript import CONTEXT
from factmem.providers.base import AgentMemoryProvider, FactStore
from factmem.providers.no_memory import NoMemory
from factmem.recall.query import RecallSettings

__all__ = ["MemoryFeature", "MemoryOptions"]


M = TypeVar("M", bound=AgentMemory)

_USUAL = RecallSettings()


class MemoryOptions(TypedDict, total=False):
    """What `agent.install(AgentMemory, ...)` takes; all of it by keyword.

    Where facts are:

    - `provider`: the store. It stays its maker's to close. `NoMemory()` by default.
    - `agent_name`, `feature_name`, `product_name`, `organization_name`: the scopes to load from
      and save in; at least one with a provider. Or `scopes`: all of them as a
      `MemoryScopesProfile`.

    What they are about:

    - `subjects`: whom facts concern where a run does not say; `MemorySubject.EVERYTHING` by
      default.
    - `concepts`: the concepts whose value types the application knows.
    - `instructions`, `message_form`: see `AgentMemory`.

    When:

    - `auto_load`: whether all that is known is put into the prompt before the model is asked. By
      default it is, unless the agent has a strategy: that says itself what is loaded and when.
    - `recall`: how many facts at most are put there instead: those that the user's text is about,
      by `AgentMemory.recall_facts_to_agent`. For agents that know more than a prompt should hold.
    - `auto_detect`: whether facts are found in what was said, after the answer. One more call to a
      model for each run. False by default.
    - `detect`: the concepts to look for, and no others; all by default. With `auto_detect`.
    - `context`, `doubtful`, `verify`: see `AgentMemory.auto_detect_facts`.
    - `background`: whether that goes on after the run has returned. It takes `async with agent`.

    - `tools`: whether the model may use the memory by itself, with the tools of
      `AgentMemory.tools`, bound to the subjects of each run. False by default.

    How:

    - `chat_model`: who finds facts; the agent's by default.
    - `embedder`: makes vectors, so that recalls compare meanings as well as words.
    - `recall_settings`, `keyword_similarity`: see `AgentMemory`.
    - `max_tokens`, `token_counter`, `listeners`, `include_values`, `clock`: see `AgentMemory`.
    """

    provider: AgentMemoryProvider
    agent_name: str | None
    feature_name: str | None
    product_name: str | None
    organization_name: str | None
    scopes: MemoryScopesProfile
    subjects: Iterable[MemorySubject]
    concepts: Iterable[Concept[Any, Any]]
    instructions: Iterable[Concept[Any, Any]]
    message_form: MessageForm
    auto_load: bool | None
    recall: int | None
    auto_detect: bool
    detect: Iterable[Concept[Any, Any]]
    background: bool
    context: int | None
    doubtful: DoubtfulItems
    verify: Verification
    tools: bool
    chat_model: ChatModel | None
    embedder: Embedder | None
    recall_settings: RecallSettings
    keyword_similarity: float | None
    max_tokens: int | None
    token_counter: TokenCounter
    listeners: Iterable[EventListener]
    include_values: bool
    clock: TimeProvider


class MemoryFeature(Generic[M]):
    """An `AgentMemory` that is installed in an agent.

    A run concerns the subjects that it names, else those of the installation; a run with one that
    is per entity and names none fails before a model is asked. The run, its tools and its nodes
    have a view of the memory that holds facts about these subjects and about no others. What is
    loaded replaces the memory message of the conversation. Facts are taken from what the user said
    in this run; earlier messages help to understand it.

    Detection saves one place after the other, each with all of its facts or none; a run that is
    cancelled before it has begun saves nothing.

    Args:
        memory_class: `AgentMemory`, or a subclass with the same parameters.
        agent_model: The agent's chat model.
        has_strategy: Whether the agent has a strategy of its own.
        **options: See `MemoryOptions`.

    Raises:
        TypeError: There is no such option, one is of the wrong kind, or `tools` comes with a
            provider that is no `FactStore`.
        ValueError: There is no scope, no subject, `background` without `auto_detect`, or `recall`
            without loading or of less than one fact.
    """

    memory: M
    """The whole memory; each run has a view of it."""

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
            raise ValueError("subjects is empty: name at least one, or leave it out")
        own_model = options.get("chat_model")
        self.memory = memory_class(
            options.get("provider", NoMemory()),
            chat_model=agent_model if own_model is None else own_model,
            embedder=options.get("embedder"),
            scopes=_profile(options),
            subjects=self._subjects,
            concepts=options.get("concepts", ()),
            instructions=options.get("instructions", ()),
            message_form=options.get("message_form", FORM),
            max_tokens=options.get("max_tokens"),
            token_counter=options.get("token_counter", estimate_tokens),
            listeners=options.get("listeners", ()),
            include_values=options.get("include_values", False),
            clock=options.get("clock", system_clock),
            recall_settings=options.get("recall_settings", _USUAL),
            keyword_similarity=options.get("keyword_similarity", SIMILARITY),
        )
        auto_load, self._most_recalled = options.get("auto_load"), options.get("recall")
        is_usual = not has_strategy or self._most_recalled is not None
        self._is_loading = is_usual if auto_load is None else auto_load
        self._is_detecting = options.get("auto_detect", False)
        only = options.get("detect")
        self._only = None if only is None else checked_concepts(only, "detect=[THEME]")
        self._is_in_background = options.get("background", False)
        self._context = options.get("context", CONTEXT)
        self._doubtful: DoubtfulItems = options.get("doubtful", "keep")
        self._verify: Verification = options.get("verify", "off")
        check_options(self._doubtful, self._verify)
        self._clock = options.get("clock", system_clock)
        self._has_tools = options.get("tools", False)

    async def before_model(self, context: AgentContext) -> None:
        """See `AgentFeature.before_model`. No call to a chat model.

        With `recall` and an embedder the user's text is embedded, and facts that have no vector yet.

        Raises:
            UnboundSubjectError: A subject is per entity and names none.
            RuntimeError: `background` is set and the agent is not open.
            StorageError: A place could not be read.
            ValueError: A tool of the agent has the name of a tool of the memory.
        """
        if self._is_in_background:
            context.check_background()
        context.subjects = context.subjects or self._subjects
        _check_subjects(context.subjects, is_detecting=self._is_detecting)
        context.memory = self.memory.view(subjects=context.subjects, scopes=context.scopes)
        if self._has_tools:
            _offer(context.memory.tools(), context)
        if self._is_loading:
            context.reports.append(await self._load(context))

    async def _load(self, context: AgentContext) -> LoadReport:
        if self._most_recalled is None:
            return await context.memory.load_all_facts_to_agent(context.messages)
        return await context.memory.recall_facts_to_agent(
            context.messages, context.text, limit=self._most_recalled
        )

    async def after_answer(self, context: AgentContext) -> None:
        """See `AgentFeature.after_answer`. One call to a model with `auto_detect`, else none."""
        if not self._is_detecting:
            return
        messages, since = list(context.messages), context.since  # the caller may go on with his

        said_at = self._clock()  # in the background the model may answer on another day
        # An erasure between now and a turn in the background keeps this chat out.
        read_at = await context.memory.moment()

        async def detect() -> DetectionReport:
            return await context.memory.auto_detect_facts(
                messages,
                since=since,
                conversation=context.conversation,
                only=self._only,
                context=self._context,
                doubtful=self._doubtful,
                verify=self._verify,
                said_at=said_at,
                read_at=read_at,
            )

        if self._is_in_background:
            context.start_in_background(detect, name="the detection of facts")
        else:
            report = await detect()
            context.usage += report.usage
            context.reports.append(report)

    async def aclose(self) -> None:
        """See `AgentFeature.aclose`. There is nothing to close: the store is its maker's."""


_NOWHERE = MemoryScopesProfile(agent="nowhere")
"""The scope of a feature that names none, as it may without a provider: nothing is kept there."""


def _profile(options: MemoryOptions) -> MemoryScopesProfile:
    names = (
        options.get("agent_name"),
        options.get("feature_name"),
        options.get("product_name"),
        options.get("organization_name"),
    )
    if "scopes" not in options:
        return _NOWHERE if names == (None,) * 4 else MemoryScopesProfile(*names)
    if names != (None,) * 4:
        raise ValueError("scopes replaces agent_name and the other names: omit one or the other")
    example = "scopes=MemoryScopesProfile(agent='my-agent')"
    return expect(options["scopes"], MemoryScopesProfile, "scopes", example)


def _check(options: MemoryOptions) -> None:
    unknown = sorted(options.keys() - MemoryOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(MemoryOptions.__annotations__)
        raise TypeError(f"AgentMemory has no option {unknown[0]!r}; it has {known}")
    if "provider" in options and _profile(options) is _NOWHERE:
        raise ValueError(
            "Facts need a scope to be in: give AgentMemory at least one of agent_name, "
            "feature_name, product_name, organization_name, or scopes"
        )
    if options.get("tools") and not isinstance(options.get("provider", NoMemory()), FactStore):
        raise TypeError(
            "Tools need a FactStore, and the provider is none: give it the methods of FactStore, "
            "or leave tools out"
        )
    recall = options.get("recall")
    if recall is not None and (type(recall) is not int or recall < 1):
        raise ValueError("recall is how many facts to put into the prompt: a number from 1 on")
    if recall is not None and options.get("auto_load") is False:
        raise ValueError("recall says what is loaded: leave auto_load out, or recall")
    if options.get("detect") is not None and not options.get("auto_detect"):
        raise ValueError("detect names the concepts to detect: set auto_detect as well")
    if options.get("background") and not options.get("auto_detect"):
        raise ValueError("background says where facts are detected: set auto_detect as well")


def _offer(tools: Iterable[AgentTool], context: AgentContext) -> None:
    for tool in tools:
        if context.tools.setdefault(tool.name, tool) is not tool:
            raise ValueError(
                f"A tool of the agent has the name {tool.name!r}, as one of the memory's has: "
                f"rename it, or install the memory without tools"
            )


def _check_subjects(subjects: Sequence[MemorySubject], *, is_detecting: bool) -> None:
    for subject in subjects:
        subject.check_bound()
    names = [subject.name for subject in subjects]
    twice = next((name for name in names if names.count(name) > 1), None)
    if is_detecting and twice is not None:
        raise ValueError(
            f"The run concerns two of {twice!r}, and a model could not tell them apart when it "
            f"finds facts: name one of them"
        )
