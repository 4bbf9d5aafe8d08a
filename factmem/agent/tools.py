"""Tool: a Python function that a model can call, with a schema from its type hints.

The tool loop: alternating requests to the model and tool calls.
"""

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NotRequired, TypeAlias, get_args, get_origin

import anyio
import anyio.to_thread
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python
from typing_extensions import TypedDict, get_type_hints

from factmem._arguments import expect_all, kind_of
from factmem.agent.context import AgentContext, AgentStep, AgentTool
from factmem.errors import FactmemError
from factmem.llm.base import ChatResponse, DefinedTool, ToolCall
from factmem.llm.extraction import problem_lines
from factmem.models._values import sendable
from factmem.models.when import system_clock

__all__ = ["StepLimitError", "Tool", "ToolError"]

ToolFunction: TypeAlias = Callable[..., object]
"""A function, sync or async, with a type hint for every parameter."""

Arguments: TypeAlias = dict[str, object]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolError(Exception):
    """An error of a tool for the model: it reads the message, and the run continues."""


class Tool(DefinedTool):
    """A Python function that a model can call.

    The model reads its name, the first paragraph of its docstring and the `Args:` section in
    Google's style; `Annotated[str, Field(description=...)]` has priority over the docstring.
    pydantic builds the schema from the type hints and validates the model's arguments: a parameter
    with the hint `date` or a `BaseModel` gets such an object. Invalid arguments are reported to the
    model, and the function is not called.

    A parameter of the type `AgentContext` gets the context of the run and is hidden from the model:
    the tool can use the subjects of the run (`context.subjects`) without trusting the model.

    An async function runs on the event loop, any other in a worker thread. Several calls may run at
    once. A cancelled run cancels an async function, and waits until any other function has ended.

    The model gets the result: a string unchanged, everything else as JSON. It also gets the text of
    a `ToolError`. Any other exception ends the run and is raised to its caller, because it is a bug
    and its text may be secret.

    Args:
        function: The function, or a method. A model cannot use `*args` and `**kwargs`.

    Raises:
        TypeError: A parameter has no type hint or one without a JSON schema, or an argument has the
            wrong type.
        ValueError: Endpoints reject the name: up to 64 letters, digits, `_` and `-` are allowed.
    """

    def __init__(self, function: ToolFunction) -> None:
        self._function = _checked_function(function)
        self._signature = inspect.signature(function)
        name = function.__name__
        hints = _hints(function)
        self._injected = [each for each in self._signature.parameters if _is_context(hints, each)]
        docstring = inspect.getdoc(function) or ""
        fields = self._fields(name, hints, described_parameters(docstring))
        self._arguments, schema = _arguments_type(fields, name)
        super().__init__(name, summary(docstring), schema)

    async def call(self, arguments: str, context: AgentContext) -> str:
        """See `AgentTool.call`.

        Raises:
            TypeError: The function returned an object that cannot be written as JSON.
            Exception: Raised by the function, except `ToolError`.
        """
        try:
            given = self._arguments.validate_json(arguments.strip() or "{}")
        except ValidationError as exc:
            return _problem_text(exc)
        given |= dict.fromkeys(self._injected, context)
        try:
            returned = await self._call_function(given)
        except ToolError as exc:
            return sendable(f"Error: {exc}")
        return self._result_text(returned)

    async def _call_function(self, given: Arguments) -> object:
        bound = self._signature.bind_partial()
        bound.arguments |= given
        bound.apply_defaults()
        call = functools.partial(self._function, *bound.args, **bound.kwargs)
        if inspect.iscoroutinefunction(self._function):
            returned = call()
        else:
            # In a tuple, because trio rejects a coroutine as the result of a thread.
            (returned,) = await anyio.to_thread.run_sync(lambda: (call(),))
        return await returned if inspect.isawaitable(returned) else returned

    def _result_text(self, returned: object) -> str:
        if isinstance(returned, str):
            return sendable(returned)
        try:
            return _json_of(returned)
        except (PydanticSerializationError, TypeError, ValueError):
            raise TypeError(
                f"The tool {self._name!r} returned a {type(returned).__name__}, which cannot be "
                "written as JSON: return a string or an object that pydantic can serialize"
            ) from None

    def _fields(
        self, tool: str, hints: Mapping[str, object], described: Mapping[str, str]
    ) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for name, parameter in self._signature.parameters.items():
            if name in self._injected:
                continue
            _check_parameter(parameter, hints, tool)
            extra: dict[str, Any] = {}
            if parameter.default is not parameter.empty:
                extra = _shown_default(parameter.default)
            field = Field(description=described.get(name), json_schema_extra=extra or None)
            hint = _annotated(hints[name], field)
            is_required = parameter.default is parameter.empty
            fields[name] = hint if is_required else NotRequired[hint]
        return fields


def tools_by_name(tools: Iterable[ToolFunction | AgentTool]) -> dict[str, AgentTool]:
    """Return tools by their names; each function is wrapped in a `Tool`."""
    by_name: dict[str, AgentTool] = {}
    for each in expect_all(tools, object, "tools", "tools=[look_up]"):
        tool = _tool(each)
        if by_name.setdefault(tool.name, tool) is not tool:
            raise ValueError(f"Two tools are named {tool.name!r}: rename one")
    return by_name


def _tool(given: object) -> AgentTool:
    if isinstance(given, AgentTool):
        return given
    function: Any = given
    return Tool(function)


class _Schema(GenerateJsonSchema):
    """Generates schemas without titles, which repeat the names and cost tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _arguments_type(
    fields: dict[str, Any], name: str
) -> tuple[TypeAdapter[Arguments], dict[str, Any]]:
    # A TypedDict, because a field of a BaseModel cannot have names such as `copy`.
    typed_dict: Any = TypedDict
    arguments = typed_dict("Arguments", fields)
    arguments.__pydantic_config__ = ConfigDict(extra="forbid")
    try:
        adapter: TypeAdapter[Arguments] = TypeAdapter(arguments)
        schema = adapter.json_schema(schema_generator=_Schema)
    except PydanticUserError as exc:
        message = f"The arguments of the tool {name!r} have no JSON schema: {exc.message}"
        raise TypeError(message) from None
    schema.pop("title", None)
    return adapter, schema


def _checked_function(function: ToolFunction) -> ToolFunction:
    # Since Python 3.14 a partial counts as a routine.
    if not inspect.isroutine(function) or not hasattr(function, "__name__"):
        raise TypeError(
            f"Each of tools must be a function, not {kind_of(function)}: tools=[look_up]"
        )
    if not _NAME.fullmatch(function.__name__):
        raise ValueError(
            f"{function.__name__!r} is not a valid name of a tool: use def, and up to 64 letters, "
            "digits and '_'"
        )
    return function


def _hints(function: ToolFunction) -> dict[str, object]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as exc:
        raise TypeError(
            f"A type hint of the tool {function.__name__!r} cannot be resolved ({exc}): use only "
            "names that are defined at the top level of its module"
        ) from None


def _is_context(hints: Mapping[str, object], name: str) -> bool:
    hint = hints.get(name)
    return isinstance(hint, type) and issubclass(hint, AgentContext)


def _check_parameter(parameter: inspect.Parameter, hints: Mapping[str, object], tool: str) -> None:
    which = f"The parameter {parameter.name!r} of the tool {tool!r}"
    if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
        raise TypeError(f"{which} must be a named one: a model cannot use *args and **kwargs")
    if parameter.name not in hints:
        raise TypeError(f"{which} has no type hint: a model needs the type of each parameter")
    if isinstance(parameter.default, FieldInfo):
        raise TypeError(f"{which} has a Field as its default: use Annotated[..., Field(...)]")


def _annotated(hint: Any, field: Any) -> Any:
    """Return the hint with a field before its own metadata, which therefore has priority."""
    if get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        return Annotated[(inner, field, *metadata)]
    return Annotated[hint, field]


def _shown_default(default: object) -> dict[str, Any]:
    try:
        return {"default": to_jsonable_python(default)}
    except PydanticSerializationError:
        return {}


def _problem_text(exc: ValidationError) -> str:
    problems = exc.errors(include_input=False, include_url=False)
    if problems[0]["type"] == "json_invalid" or not problems[0]["loc"]:
        return "Error: the tool was not called. Its arguments must be one JSON object."
    head = "Error: the tool was not called. These arguments do not fit:"
    lines = problem_lines(problems)
    return sendable(f"{head}\n{lines}\nCall it again with all arguments put right.")


def _json_of(returned: object) -> str:
    try:
        return to_json(returned).decode()
    except PydanticSerializationError:
        # Half a surrogate pair in a page or a file name must not end the run.
        return sendable(json.dumps(returned, ensure_ascii=False, default=to_jsonable_python))


_HEADING = re.compile(r"(Args|Arguments|Parameters|Params):\s*")
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


def summary(docstring: str) -> str:
    """Return the first paragraph in one line; empty if there is none."""
    paragraph, _, _ = docstring.partition("\n\n")
    if _HEADING.fullmatch(paragraph.partition("\n")[0]):
        return ""
    return " ".join(paragraph.split())


def described_parameters(docstring: str) -> dict[str, str]:
    """Return the descriptions in the section `Args:`, by the name of the parameter."""
    lines = iter(docstring.split("\n"))
    if not any(_HEADING.fullmatch(line) for line in lines):
        return {}
    found: dict[str, str] = {}
    name, depth = "", -1
    for line in _section(lines):
        indent = len(line) - len(line.lstrip())
        entry = _ENTRY.fullmatch(line.strip())
        if depth < 0:
            depth = indent
        if indent <= depth and entry:
            name = entry[1]
            found[name] = entry[2].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return {name: text for name, text in found.items() if text}


def _section(lines: Iterable[str]) -> Iterable[str]:
    """Yield the lines of the current section: all that are indented."""
    for line in lines:
        if line.strip():
            if not line.startswith(" "):
                return
            yield line


_MOST_AT_ONCE = 16
"""The number of tool calls of one response that run at once: each may open a connection."""

_MOST_CALLS = 64
"""The number of tool calls of one response that run. A model may request thousands, and each of a
memory may call a model."""

_UNFINISHED = "Error: this call did not finish."
_TOO_MANY = f"Error: nothing was done. At most {_MOST_CALLS} calls of one response are run."


class StepLimitError(FactmemError):
    """The model called tools for the maximum number of steps.

    `messages` is the conversation so far, with a result for every tool call. Pass it to `run` to
    let the model continue.
    """

    def __init__(self, message: str, *, messages: list[dict[str, object]]) -> None:
        super().__init__(message)
        self.messages = messages


async def run_tool_loop(context: AgentContext, text: str) -> str:
    """Append the user's message to the conversation and return the model's answer.

    Makes one call to the model, and one more for each round of tool calls; at most
    `context.max_steps`. The calls of one round run concurrently. They are appended with their
    results when all have ended: a call never lacks a result. After an error or a cancellation, the
    result of an unfinished call is an error message. So is that of a call beyond the 64th of a
    response, which is not run.

    Raises:
        ChatModelError: The model's endpoint failed.
        StepLimitError: There was no answer after `max_steps` calls to the model.
        Exception: Raised by a tool; `Tool` describes which exceptions the model reads instead.
    """
    context.add_question(text)
    definitions = [tool.definition for tool in context.tools.values()]
    for number in range(1, context.max_steps + 1):
        started_at = system_clock()
        response = await context.chat_model.respond(context.messages, tools=definitions)
        context.usage += response.usage
        context.finish_reason = response.finish_reason
        results: tuple[str, ...] = ()
        if response.tool_calls:
            results = await _run_calls(context, response)
        else:
            context.messages.append(dict(response.message))
            context.answer = response.text or response.refusal or ""
        await context.end_step(AgentStep(number, response, results, started_at, system_clock()))
        if not response.tool_calls:
            return context.answer
    raise StepLimitError(
        f"The model called tools {context.max_steps} times and did not answer: allow more with "
        f"Agent(..., max_steps={context.max_steps * 2}), or check the results of the tools",
        messages=context.messages,
    )


async def _run_calls(context: AgentContext, response: ChatResponse) -> tuple[str, ...]:
    results: dict[int, str] = {}
    failures: list[Exception] = []

    at_once = anyio.CapacityLimiter(_MOST_AT_ONCE)

    async def run(position: int, call: ToolCall) -> None:
        try:
            async with at_once:
                results[position] = await _result(context, call)
        except Exception as exc:  # noqa: BLE001 - raised below, outside the exception group
            failures.append(exc)
            tasks.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            for position, call in enumerate(response.tool_calls):
                if position < _MOST_CALLS:
                    tasks.start_soon(run, position, call)
                else:
                    results[position] = _TOO_MANY
    finally:
        context.messages.append(dict(response.message))
        for position, call in enumerate(response.tool_calls):
            content = results.get(position, _UNFINISHED)
            context.messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    if failures:
        for failure in failures[1:]:
            failures[0].add_note(f"Another tool failed as well: {type(failure).__name__}")
        raise failures[0]
    return tuple(results[position] for position in range(len(response.tool_calls)))


async def _result(context: AgentContext, call: ToolCall) -> str:
    tool = context.tools.get(call.name)
    if tool is None:
        offered = ", ".join(context.tools) or "none"
        return f"Error: there is no tool of that name. Tools: {offered}."
    return await tool.call(call.arguments, context)
