"""Comparison of definitions of concepts: which ones a store takes over, and how others differ.

A definition is taken over if the newer one can read all values of the older. A schema that was
taken over before never comes back: of two versions of a program that run at the same time, the
older one changes nothing, and gets a report that it differs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError

from factmem.models._values import Canonical, canonical
from factmem.models.facts import Concept, ConceptDefinition, FactType

Schema: TypeAlias = Mapping[str, Any]

_WORDS = frozenset(["title", "description", "default", "examples", "deprecated"])
"""Keywords of schemas that refuse no value."""
_NAMED = frozenset(["properties", "$defs"])
"""Keywords whose values have names of the application as keys."""
_STRUCTURE = frozenset(
    (
        "$ref", "$defs", "type", "properties", "required", "items", "additionalProperties",
        "discriminator",
    )
)  # fmt: skip
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def definition_of(concept: Concept[Any, Any]) -> ConceptDefinition:
    """Return the definition of a concept. A type without a JSON schema accepts any value."""
    try:
        schema = bare_schema(concept.codec.json_schema())
    except (PydanticInvalidForJsonSchema, PydanticUserError):
        schema = {}
    return ConceptDefinition(concept.keyword, concept.fact_type, schema, was=concept.was)


def taken_over(
    known: Mapping[str, ConceptDefinition], concepts: Iterable[Concept[Any, Any]]
) -> dict[str, ConceptDefinition]:
    """Return the definitions that are new, or change, when a program declares its concepts."""
    changed: dict[str, ConceptDefinition] = {}
    for concept in concepts:
        old = next((known[each] for each in concept.keywords if each in known), None)
        new = definition_of(concept)
        if old is not None:
            new = _merged(old, new, has_reader=concept.read is not None)
        if new != known.get(concept.keyword):
            changed[concept.keyword] = new
    return changed


def _merged(
    old: ConceptDefinition, new: ConceptDefinition, *, has_reader: bool
) -> ConceptDefinition:
    schema, past = old.json_schema, old.past
    is_equal = accepts(schema, new.json_schema)
    can_read = has_reader or accepts(new.json_schema, schema)
    if can_read and not is_equal and new.digest not in past:
        schema, past = new.json_schema, (*past, old.digest)
    is_many = FactType.MULTIPLE in (old.fact_type, new.fact_type)
    merged = replace(
        old,
        keyword=new.keyword,
        fact_type=FactType.MULTIPLE if is_many else FactType.SINGLE,
        json_schema=schema,
        was=tuple(dict.fromkeys([*(w for w in old.was if w != new.keyword), *new.was])),
        past=past,
    )
    return merged if merged == old else replace(merged, version=old.version + 1)


def compared(
    known: Mapping[str, ConceptDefinition], declared: Mapping[str, Concept[Any, Any]]
) -> list[ConceptDefinition]:
    """Return all definitions ordered by keyword, each with how the declared concept differs."""
    renamed = {old: each.keyword for each in known.values() for old in each.was}
    return [
        replace(known[keyword], differs=_difference(known[keyword], declared.get(keyword), renamed))
        for keyword in sorted(known)
    ]


def _difference(
    known: ConceptDefinition, concept: Concept[Any, Any] | None, renamed: Mapping[str, str]
) -> str | None:
    if concept is None:
        return None
    if known.keyword in renamed:
        return f"It is a former keyword of {renamed[known.keyword]!r}"
    if known.fact_type is FactType.MULTIPLE and concept.fact_type is FactType.SINGLE:
        return "It has many values: the program reads the last one, and its saves replace none"
    if not accepts(definition_of(concept).json_schema, known.json_schema):
        return "It has values of another type, which the program may not be able to read"
    return None


def bare_schema(schema: Schema) -> dict[str, Any]:

    def bare(part: Any, *, is_named: bool = False) -> Any:
        if isinstance(part, list):
            return [bare(each) for each in part]
        if not isinstance(part, dict):
            return part
        given: dict[str, Any] = part
        return {
            key: bare(each, is_named=not is_named and key in _NAMED)
            for key, each in given.items()
            if is_named or key not in _WORDS
        }

    found: dict[str, Any] = bare(dict(schema))
    return found


def accepts(new: Schema, old: Schema) -> bool:
    """Return whether all values of an old schema fit a new one; False also if that is unclear."""
    return _Fit(new, old).fits(new, old)


class _Fit:
    def __init__(self, new: Schema, old: Schema) -> None:
        self._ours: Schema = new.get("$defs", {})
        self._theirs: Schema = old.get("$defs", {})
        self._known: dict[tuple[Canonical, Canonical], bool] = {}
        """The answers for pairs with a reference; that of a recursive pair is assumed meanwhile."""

    def fits(self, new: Schema, old: Schema) -> bool:
        if "$ref" in new or "$ref" in old:
            pair = canonical(dict(new)), canonical(dict(old))
            if pair not in self._known:
                self._known[pair] = True
                ours, theirs = _resolved(new, self._ours), _resolved(old, self._theirs)
                self._known[pair] = self.fits(ours, theirs)
            return self._known[pair]
        if "anyOf" in old:
            return all(self.fits(new, each) for each in old["anyOf"])
        if "anyOf" in new:
            return any(self.fits(each, old) for each in new["anyOf"])
        listed = _values(old)
        if "enum" in new or "const" in new:
            return bool(listed) and set(map(canonical, listed)) <= set(map(canonical, _values(new)))
        return not new.keys() - {"$defs"} or (
            self._fits_values(new, listed) if listed else self._fits_type(new, old)
        )

    def _fits_values(self, new: Schema, values: Iterable[Any]) -> bool:
        return set(new) == {"type"} and all(
            _is_type(new["type"], _TYPES.get(type(each))) for each in values
        )

    def _fits_type(self, new: Schema, old: Schema) -> bool:
        return (
            _is_type(new.get("type"), old.get("type"))
            and all(new[key] == old.get(key) for key in new.keys() - _STRUCTURE)
            and ("items" not in new or ("items" in old and self.fits(new["items"], old["items"])))
            and self._fits_object(new, old)
        )

    def _fits_object(self, new: Schema, old: Schema) -> bool:
        ours, theirs = new.get("properties", {}), old.get("properties", {})
        if not set(new.get("required", ())) <= theirs.keys():
            return False
        others, their_others = new.get("additionalProperties"), old.get("additionalProperties")
        if others is False and not theirs.keys() <= ours.keys():
            return False
        if isinstance(others, dict) and not (
            isinstance(their_others, dict) and self.fits(others, their_others)
        ):
            return False
        return all(self.fits(ours[name], theirs[name]) for name in ours.keys() & theirs.keys())


def _resolved(schema: Schema, definitions: Schema) -> Schema:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Schema = definitions.get(name, schema)
    return found


def _values(schema: Schema) -> list[Any]:
    listed: list[Any] = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return listed


def _is_type(new: Any, old: Any) -> bool:
    return new == old or (new, old) == ("number", "integer")
