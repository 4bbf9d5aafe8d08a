"""The targets of keywords in a store: their concepts, and the kinds of their values."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store
from factmem._cli.options import Options
from factmem._cli.readings import Row
from factmem._cli.value_kinds import Kind, Target, kinds_of
from factmem.models._display import shown
from factmem.models._stored_facts import stored_concept
from factmem.models.facts import AnyFact, Concept, FactType
from factmem.models.places import Place
from factmem.models.when import When


async def facts_of(
    store: Store,
    place: Place,
    keyword: str | None = None,
    as_of: datetime | None = None,
    *,
    valid_at: When | None = None,
) -> list[AnyFact]:
    """Return the facts of a place, of one keyword or of all, with plain JSON values."""
    facts = await store.load_all(place.subject, place.scope, as_of=as_of, valid_at=valid_at)
    return [fact for fact in facts if keyword in (None, fact.concept.keyword)]


async def held_in(store: Store, place: Place) -> dict[str, list[AnyFact]]:
    """Return the current facts of a place by keyword."""
    found: dict[str, list[AnyFact]] = {}
    for fact in await facts_of(store, place):
        found.setdefault(fact.concept.keyword, []).append(fact)
    return found


async def held_anywhere(store: Store) -> dict[str, list[AnyFact]]:
    """Return the current facts of each keyword, from the first place that has the keyword."""
    found: dict[str, list[AnyFact]] = {}
    for info in await store.places():
        found = {**await held_in(store, info.place), **found}
    return found


async def known_facts(store: Store, place: Place, keyword: str) -> list[AnyFact]:
    """Return the current facts of a keyword in a place, or in the first one that has the keyword."""
    if held := await facts_of(store, place, keyword):
        return held
    for info in await store.places():
        if found := await facts_of(store, info.place, keyword):
            return found
    return []


async def stored_target(store: Store, keywords: Sequence[str]) -> Concept[Any, Any]:
    """Return a concept for the first keyword, described as the first of them that has facts.

    Raises:
        CommandError: None of them has facts.
    """
    held = await held_anywhere(store)
    for keyword in keywords:
        if facts := held.get(keyword):
            known = facts[-1].concept
            return _concept(keywords[0], known.description, known.fact_type)
    raise CommandError(f"There are no facts of {', '.join(keywords)}", ExitCode.NOTHING)


def target_of(
    options: Options,
    keyword: str,
    facts: Sequence[AnyFact],
    *,
    kind: Kind | None = None,
    description: str | None = None,
    multiple: bool = False,
) -> Target:
    """Return the target for a keyword: the application's concept, that of `facts`, or a new one.

    Args:
        options: The options before the command.
        keyword: The keyword.
        facts: Its current facts; empty for a new keyword.
        kind: The kind of a new keyword, or one of the kinds that its values have.
        description: The description; by default that of the last fact, or the keyword.
        multiple: Whether a new keyword has many values.

    Raises:
        CommandError: `kind` contradicts the stored values, or is missing for a new keyword.
    """
    if (own := options.concept(keyword)) is not None:
        return Target(own, frozenset(), is_own=True)
    if not facts:
        if kind is None:
            raise CommandError(
                f"The keyword {keyword!r} is new: pass --type "
                f"{'|'.join(each for each in Kind if each is not Kind.NULL)}"
            )
        fact_type = FactType.MULTIPLE if multiple else FactType.SINGLE
        return Target(_concept(keyword, description or keyword, fact_type), frozenset({kind}))
    kinds = kinds_of(value for fact in facts for value in fact.values)
    if kind is not None and kind not in kinds:
        raise CommandError(f"{keyword!r} has {' or '.join(sorted(kinds))} values, not {kind}")
    last = facts[-1].concept
    if multiple and last.fact_type is FactType.SINGLE:
        raise CommandError(f"{keyword!r} has one value: omit --multiple")
    concept = _concept(keyword, description or last.description, last.fact_type)
    return Target(concept, frozenset(kinds if kind is None else {kind}))


def _concept(keyword: str, description: str, fact_type: FactType) -> Concept[Any, Any]:
    Concept(keyword, description, fact_type)  # checks the names
    return stored_concept(keyword, description, fact_type, JsonValue)


def editable(value: object) -> str:
    """Return a value for an editor: JSON, or a string unchanged.

    A string with control characters is shown as JSON, because they would control the terminal.
    """
    if isinstance(value, str) and shown(value.replace("\n", "")) == value.replace("\n", ""):
        return value
    if isinstance(value, str):
        return shown(json.dumps(value))
    return json.dumps(value, ensure_ascii=False, indent=2)


def typed_value(options: Options, row: Row, text: str) -> Any:
    """Parse a value that a person typed over that of a row.

    Raises:
        CommandError: It does not have the kind of the keyword's values.
    """
    keyword = row.fact.concept.keyword
    is_escaped = isinstance(row.value, str) and editable(row.value) != row.value
    if is_escaped and text.startswith('"'):
        try:
            text = json.loads(text)
        except ValueError:
            raise CommandError("The value must be a JSON string") from None
    target = target_of(options, keyword, [row.fact])
    value = target.value(text)
    return target.concept.codec.dump(value, keyword) if target.is_own else value
