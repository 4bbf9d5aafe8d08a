"""Concepts, subjects and fact builders of the suites. Tests of applications may use them too."""

from datetime import UTC, datetime
from typing import Any

from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.models.places import MemoryScope, MemorySubject

THEME = Concept("ide-theme", "The user's preferred IDE theme")
"""A SINGLE concept of strings."""

LANGUAGES = Concept("languages", "Programming languages the user knows", FactType.MULTIPLE)
"""A MULTIPLE concept of strings."""

USER = MemorySubject("user", "The user of the application", 1)
"""A subject without entities."""

PERSON = MemorySubject("person", "A person who talks to the agent", 2, per_entity=True)
"""A subject that must be bound: `PERSON.of("alice")`."""

AGENT = MemoryScope.Agent("painter")
"""The scope of one agent."""

SAID = datetime(1999, 12, 31, 23, 59, 59, 123456, tzinfo=UTC)
"""The default time of facts."""


def theme(value: str, *, timestamp: datetime = SAID, **fields: Any) -> SingleFact[str]:
    return SingleFact(THEME, value, timestamp=timestamp, **fields)


def languages(*values: str, timestamp: datetime = SAID, **fields: Any) -> MultipleFacts[str]:
    return MultipleFacts(LANGUAGES, values, timestamp=timestamp, **fields)
