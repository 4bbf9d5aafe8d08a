"""The arguments of memory tools, parsed leniently, and the stored values that they mean."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from math import isfinite
from typing import Annotated, ClassVar, Protocol, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError, from_json, to_json

from factmem._text.spelling import alike, near_key
from factmem.llm._answer import begins_as_json, unwrapped
from factmem.models._values import Canonical, canonical, normalized
from factmem.models.when import When
from factmem.prompt._transcript import folded

A = TypeVar("A", bound=BaseModel)

_FOR_MODEL = "for_model"
_NO_VALUES = (
    "`values` is empty: leave it out to forget all of the concept, or name the values to forget."
)

_NO_DAY = "`since` and `until` are days, such as 2026-05-17: leave out what is not known."
_NO_PERIOD = "`{name}` is a day, a month or a year, such as 2026-05-17: leave it out if not known."
_NO_TIME = "`since` must not be later than `until`."

LARGEST = 16 * 1024
"""The largest value that a model may save, in bytes of JSON."""

_TOO_LARGE = "`value` has more than 16 KB: save the main points, each on its own."

_KNOWN_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


class UnreadableArgumentsError(ValueError):
    """The arguments cannot be read; the message is for the model that wrote them."""


def _listed(given: object) -> object:
    """Convert a single value to a list, and None to an empty list."""
    if given is None or given == "":
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


def _named_values(given: object) -> object:
    """Convert a single value to a list; an empty list, which would mean all values, is an error."""
    listed = _listed(given)
    if listed == []:
        raise PydanticCustomError(_FOR_MODEL, _NO_VALUES)
    return listed


def _names(given: object) -> object:
    """Convert a single string to a list; the string may be a list in JSON."""
    if isinstance(given, str) and isinstance(read := unwrapped(given), list):
        given = read
    listed = _listed(given)
    return [_one(each) for each in listed] if isinstance(listed, list) else listed


def _one(given: object) -> object:
    """Convert a number to a string, and a list of one item to that item."""
    if isinstance(given, list) and len(given) == 1:
        (given,) = given
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    return str(given) if is_number else given


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text


def _one_day(given: object) -> object:
    """Convert a time to its day, and None to an empty string."""
    if given is None or given == "":
        return ""
    given = _one(given)
    if isinstance(given, str):
        with suppress(ValueError):
            return date.fromisoformat(given.strip()[:10]).isoformat()
    raise PydanticCustomError(_FOR_MODEL, _NO_DAY)


def _period(given: object, info: ValidationInfo) -> object:
    """Convert a time to its day, and None to an empty string; months and years are kept."""
    if given is None or given == "":
        return ""
    given = _one(given)
    if isinstance(given, str):
        with suppress(ValueError):
            return When(given.strip()[:10]).text
    raise PydanticCustomError(_FOR_MODEL, _NO_PERIOD, {"name": str(info.field_name)})


def _not_too_large(value: JsonValue) -> JsonValue:
    if len(to_json(value)) > LARGEST:
        raise PydanticCustomError(_FOR_MODEL, _TOO_LARGE)
    return value


def _else(default: object) -> BeforeValidator:
    """Return a validator that converts None, and an empty string, to a default."""
    return BeforeValidator(lambda given: default if given is None or given == "" else given)


_Text = Annotated[str, BeforeValidator(_one)]
_Period = Annotated[str, BeforeValidator(_period)]

# Not the schema of JsonValue: it is a reference to an empty schema, which Gemini takes for an
# object and OpenAI's strict mode refuses. Other JSON is accepted all the same.
_SCALARS: list[JsonValue] = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
_Scalar = Annotated[JsonValue, WithJsonSchema({"anyOf": _SCALARS})]
_LIST: JsonValue = {"type": "array", "items": {"type": "string"}}
_Value = Annotated[
    JsonValue, WithJsonSchema({"anyOf": [*_SCALARS, _LIST]}), AfterValidator(_not_too_large)
]


class _Arguments(BaseModel):
    # A misspelt argument that is ignored may make a call do more than the model wanted.
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


class RecallArguments(_Arguments):
    query: Annotated[_Text, AfterValidator(_not_blank)] = Field(
        description="What to look for, in a few words."
    )
    limit: Annotated[float, _else(5)] = Field(
        5, allow_inf_nan=False, description="How many at most."
    )
    concepts: Annotated[list[str], BeforeValidator(_names)] = Field(
        default_factory=list, description="Only these concepts, by keyword."
    )
    since: Annotated[str, BeforeValidator(_one_day)] = Field(
        "", description="The first day, as 2026-05-17."
    )
    until: Annotated[str, BeforeValidator(_one_day)] = Field("", description="The last day.")
    valid_at: _Period = Field("", description="What held on this day, not now.")

    @property
    def begin(self) -> datetime | None:
        """The begin of the first day, in the time zone where it begins first."""
        return _first_moment(date.fromisoformat(self.since)) if self.since else None

    @property
    def end(self) -> datetime | None:
        """The end of the last day, in the time zone where it ends last."""
        return _last_moment(date.fromisoformat(self.until)) if self.until else None

    @model_validator(mode="after")
    def _check_order(self) -> "RecallArguments":
        if self.since and self.until and self.since > self.until:
            raise PydanticCustomError(_FOR_MODEL, _NO_TIME)
        return self


class RememberArguments(_Arguments):
    text: _Text = Field(description="What is to be remembered, as whole sentences.")


class SaveArguments(_Arguments):
    concept: Annotated[_Text, AfterValidator(_not_blank)] = Field(
        description="A short keyword, such as ide-theme; a known one if it fits."
    )
    value: _Value = Field(description="The value, in a few words.")
    about: Annotated[_Text, _else("")] = Field(
        "", description="What the concept means, if it is new."
    )
    add: Annotated[bool, _else(False)] = Field(
        False, description="True to add one value to several; else the value replaces the old one."
    )
    since: _Period = Field("", description="From when it holds, if not now: 2027-03.")
    until: _Period = Field("", description="Until when it holds.")


class ForgetArguments(_Arguments):
    concept: _Text = Field(description="The concept's keyword.")
    # Empty only if omitted, which forgets all values of the concept.
    values: Annotated[list[_Scalar], BeforeValidator(_named_values)] = Field(
        default_factory=list, description="Only these values; leave it out for all of the concept."
    )


class NoArguments(_Arguments):
    pass


def arguments_given(given: str | Mapping[str, object] | None, arguments: type[A]) -> A:
    """Parse the arguments of a tool leniently; no error quotes them."""
    needed = ", ".join(arguments.model_fields)
    usual = f"The arguments must be a JSON object with: {needed}"
    try:
        read = _object(given, next(iter(arguments.model_fields), None))
        # Lone surrogates, NaN and deep nesting pass the models, and no store or endpoint takes
        # them.
        from_json(to_json(read), allow_inf_nan=False)
        return arguments.model_validate(read)
    except ValidationError as exc:
        problems = exc.errors(include_input=False, include_url=False)
        raise UnreadableArgumentsError(_explained(problems[0], usual)) from None
    except (ValueError, RecursionError):
        raise UnreadableArgumentsError(usual) from None


def _explained(problem: ErrorDetails, usual: str) -> str:
    name = str(problem["loc"][0]) if problem["loc"] else ""
    if problem["type"] == _FOR_MODEL:
        return problem["msg"]
    if not _KNOWN_NAME.fullmatch(name):
        return usual
    if problem["type"] == "missing":
        return f"`{name}` is missing. {usual}"
    if problem["type"] == "extra_forbidden":
        return f"There is no argument `{name}`. {usual}"
    reason = problem["msg"].removeprefix("Value error, ")
    return f"`{name}`: {reason[:1].lower()}{reason[1:]}. {usual}"


def _object(given: str | Mapping[str, object] | None, first: str | None) -> object:
    """Return the arguments as an object; a bare string is the first argument."""
    if first is None or given is None:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, str):
        raise ValueError("neither text nor object")  # noqa: TRY004 - like all others here
    read: object = unwrapped(given) if given.strip() else {}
    if isinstance(read, str):
        within = unwrapped(read)
        if isinstance(within, str) and begins_as_json(within):
            raise ValueError("broken JSON")
        read = within if isinstance(within, dict) else read
    return {first: read} if isinstance(read, str) else read


class _Named(Protocol):
    @property
    def keyword(self) -> str: ...


N = TypeVar("N", bound=_Named)


def meant_by(named: str, known: Iterable[N]) -> list[N]:
    """Return the concepts that match a keyword, which a model may spell differently.

    An exact keyword is alone; then come those that look alike, then those of the same words, as
    detection joins them: "plans" and "the plan" do not get round what is known of a plan.
    """
    written, known = normalized("NFC", named.strip()), list(known)
    exact = [each for each in known if each.keyword == written]
    similar = exact or [each for each in known if alike(each.keyword) == alike(written)]
    words = near_key(written)
    return similar or [each for each in known if words and near_key(each.keyword) == words]


_Values: TypeAlias = dict[Canonical, JsonValue]


def period_in(text: str, zone: tzinfo) -> When | None:
    """Return a period that a model wrote, in a time zone; None if it is empty."""
    name = getattr(zone, "key", "UTC")
    return None if not text else When(text if name == "UTC" else f"{text}[{name}]")


def match_values(given: Iterable[JsonValue], stored: Iterable[JsonValue]) -> list[JsonValue]:
    """Return the stored values that match the given values, without duplicates.

    An exact match excludes other matches. Otherwise differences that models introduce are ignored:
    case, width and white space, and a number as a string or the reverse. A string without a match
    is parsed as JSON: an object, or a list of values.
    """
    known = {canonical(value): value for value in stored}
    alike: dict[str, list[Canonical]] = {}
    for key, value in known.items():
        alike.setdefault(_form(value), []).append(key)
    found: _Values = {}
    for value in given:
        found |= _matching(value, known, alike)
    return list(found.values())


def _matching(
    value: JsonValue,
    known: Mapping[Canonical, JsonValue],
    alike: Mapping[str, list[Canonical]],
    *,
    is_read: bool = False,
) -> _Values:
    if isinstance(value, float) and not isfinite(value):
        return {}
    exact = canonical(value)
    keys = [exact] if exact in known else alike.get(_form(value), [])
    if keys or is_read or not isinstance(value, str):
        return {key: known[key] for key in keys}
    read = unwrapped(value)
    found = _matching(read, known, alike, is_read=True)
    if not found and isinstance(read, list):
        for each in read:
            found |= _matching(each, known, alike, is_read=True)
    return found


def _form(value: JsonValue) -> str:
    """Return a string that is equal for values that a model may confuse."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    plain = canonical(value)
    return folded(plain if isinstance(plain, str) else plain.decode())


def _first_moment(day: date) -> datetime:
    moment = datetime.combine(day, time(), UTC)
    return moment if day == date.min else moment - timedelta(hours=14)


def _last_moment(day: date) -> datetime:
    moment = datetime.combine(day, time(), UTC)
    return moment if day.year == date.max.year else moment + timedelta(hours=36)
