"""The facts that a model states itself, with a tool, and their ends."""

import sys
from typing import Any

from pydantic import JsonValue
from pydantic_core import to_json

from factmem.detection._spelling import given_values, tidy_keyword
from factmem.memory._parts import MemoryParts
from factmem.memory._tool_arguments import LARGEST, SaveArguments, meant_by, period_in
from factmem.memory.contents import MemoryContents
from factmem.models._names import checked_name
from factmem.models.actors import FactState, acting_unless_named
from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.models.places import Place
from factmem.models.sources import FactSource, SourceKind
from factmem.prompt._escaping import harmless
from factmem.providers.results import RetractedFact
from factmem.recall._documents import plain_values

BY_MODEL = FactSource(SourceKind.ASSISTANT)
"""The source of what a model passes to a tool: the model's words, not the user's."""

_MAX_ABOUT = 300
_MAX_SCHEMA = 1000

_PLAIN: tuple[object, ...] = (str, JsonValue)
"""Types whose schema is not shown to the model."""


async def save_fact(parts: MemoryParts, asked: SaveArguments) -> str:
    """Save a fact that a model states; return the answer for the model.

    It is saved in the first place of the view: the first subject in the narrowest scope.
    """
    try:
        concept = await _concept(parts, asked)
        fact = _fact(parts, asked, concept)
    except ValueError as exc:
        return f"Error: nothing was saved. {exc}."
    place = parts.selection.places()[0]
    with acting_unless_named("memory tools"):
        learned = await parts.provider.learn([fact], place.subject, place.scope)
    saved = {"saved": len(fact.values), "concept": concept.keyword}
    if learned.proposed:
        saved = {"proposed": len(fact.values), "concept": concept.keyword}
    return harmless(to_json(saved).decode())


async def propose_end(
    parts: MemoryParts, place: Place, concept: Concept[Any, Any], value: object
) -> None:
    """Propose that a value is no longer true: a person who confirmed it decides."""
    ended = RetractedFact(concept, value, parts.clock(), BY_MODEL)
    with acting_unless_named("memory tools"):
        await parts.provider.learn([], place.subject, place.scope, retracted=[ended])


async def _concept(parts: MemoryParts, asked: SaveArguments) -> Concept[Any, Any]:
    """Return the known concept that matches the model's keyword, or a new one.

    Raises:
        ValueError: Only the application writes the concept, or several known concepts match.
    """
    known = await _known_concepts(parts)
    meant = meant_by(asked.concept, known.values())
    if len(meant) > 1:
        raise ValueError("Several concepts look like this: write the keyword as it is listed")
    if not meant:
        return _new_concept(asked)
    (concept,) = meant
    if not concept.detect:
        raise ValueError("Only the application writes this concept")
    if asked.add and concept.fact_type is FactType.SINGLE:
        raise ValueError("The concept holds one value: leave out `add` to replace it")
    return concept


async def _known_concepts(parts: MemoryParts) -> dict[str, Concept[Any, Any]]:
    """Return the declared and the stored concepts; the declared ones have their value types."""
    declared = parts.settings.concepts
    known: dict[str, Concept[Any, Any]] = dict(declared)
    texts: dict[str, bool] = {}
    stored = await MemoryContents(parts).records(sys.maxsize)
    for placed in stored:
        keyword = placed.fact.concept.keyword
        are_texts = all(isinstance(value, str) for value in plain_values(placed.fact))
        texts[keyword] = texts.get(keyword, True) and are_texts
    for placed in reversed(stored):  # the newest description and type win
        concept = placed.fact.concept
        if concept.keyword not in declared:
            value_type: object = str if texts[concept.keyword] else JsonValue
            known[concept.keyword] = Concept(
                concept.keyword,
                concept.description,
                concept.fact_type,
                value_type=value_type,
            )
    return known


def _new_concept(asked: SaveArguments) -> Concept[Any, Any]:
    try:
        keyword = checked_name(tidy_keyword(asked.concept), "keyword")
    except ValueError as exc:
        raise ValueError(f"The concept {exc}: use a short keyword such as ide-theme") from None
    about = " ".join(asked.about.split())[:_MAX_ABOUT] or keyword.replace("-", " ")
    is_many = asked.add or isinstance(asked.value, list)
    return Concept(
        keyword,
        about,
        FactType.MULTIPLE if is_many else FactType.SINGLE,
        value_type=str if _is_text(asked.value) else JsonValue,
    )


def _is_text(value: JsonValue) -> bool:
    return all(isinstance(each, str) for each in (value if isinstance(value, list) else [value]))


def _fact(parts: MemoryParts, asked: SaveArguments, concept: Concept[Any, Any]) -> Any:
    """Return the fact to save.

    Raises:
        ValueError: The value does not fit the concept, or the period is empty. The message does not
            quote the value.
    """
    if asked.value is None:
        raise ValueError("`value` is missing")
    try:
        values = list(given_values(asked.value, concept, longest=LARGEST).values())
    except ValueError as exc:
        raise ValueError(f"The value {exc}{_wanted(concept)}") from None
    fields: dict[str, Any] = {
        "timestamp": parts.clock(),
        "source": BY_MODEL,
        "state": FactState.PROPOSED if concept.review else FactState.STATED,
        "since": period_in(asked.since, parts.settings.zone),
        "until": period_in(asked.until, parts.settings.zone),
    }
    if concept.fact_type is FactType.SINGLE:
        return SingleFact(concept, values[0], **fields)
    return MultipleFacts(concept, values, **fields)


def _wanted(concept: Concept[Any, Any]) -> str:
    """Return the schema of a declared type for the error message, to help the model correct it."""
    if concept.value_type in _PLAIN:
        return ""
    return f", whose JSON schema is {to_json(concept.codec.json_schema()).decode()[:_MAX_SCHEMA]}"
