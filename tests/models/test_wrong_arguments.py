"""Wrong arguments of facts, concepts, sources and places."""

from datetime import datetime, timedelta, timezone

from factmem.models.facts import (
    Concept,
    FactSource,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.models.recall_filter import RecallFilter
from factmem.testing._facts import AGENT, PERSON, THEME
from tests.wrong_calls import SECRET, Call, Wrong, each_is_refused

MANY = Concept("pet", "The user's pets", FactType.MULTIPLE)
AGE = Concept("age", "The user's age", value_type=int)
CONCEPT = r'Concept\("theme", "The IDE theme"\)'

BEYOND = "between the years 1 and 9999 in UTC"
FIRST = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
LAST = datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12)))

NAIVE = datetime(2024, 1, 1)  # noqa: DTZ001 - is refused
ALICE = PERSON.of("alice")
NO_NAMES = ("", "a\nb", "x" * 201)

TABLES: list[tuple[Call, tuple[object, ...], type[Exception], str]] = [
    (
        lambda it: Concept("k", "d", value_type=it),
        ("int", "list[int]", [int], 3, {"a": int}, (int, str), b"x"), TypeError,
        r"The value_type of 'k' .*value_type=list\[int\]",
    ),
    (lambda it: Concept(it, "d"), NO_NAMES, ValueError, "keyword"),
    (
        lambda it: SingleFact(THEME, "x", importance=it),
        (-0.1, 1.1, float("nan"), True, "0.5", None), ValueError, "number from 0 to 1",
    ),
    (
        lambda it: SingleFact(THEME, "x", source=it),
        ("ticket-7", SourceKind.USER, {"kind": "user"}), TypeError,
        r"must be a FactSource, not .*FactSource\(SourceKind",
    ),
    (lambda it: SingleFact(THEME, "x", id=it), NO_NAMES, ValueError, "id"),
    (
        lambda it: FactSource(SourceKind.USER, "chat", it), (-1, True, 1.0, "1"), Exception,
        "message must be an int of at least 0",
    ),
    (PERSON.of, (*NO_NAMES, " "), ValueError, "entity"),
    (
        lambda it: MemorySubject("user", "d", it), (1.5, True, "1", None), TypeError,
        "priority_level must be an int",
    ),
    (
        MemoryScope.parse, ("", "product", "planet/earth", "Product/x", "/x"), ValueError,
        "agent, feature, product, organization",
    ),
    (MemoryScope.Product, NO_NAMES, ValueError, "scope name"),
    (lambda it: MemoryScope.parse(f"product/{it}"), NO_NAMES, ValueError, "scope name"),
]  # fmt: skip
"""Calls that refuse several arguments with one error."""

WRONG: list[Wrong] = [
    *((call, it, error, message) for call, wrong, error, message in TABLES for it in wrong),
    (
        lambda it: SingleFact(THEME, "x", timestamp=it), NAIVE, ValueError,
        "timestamp is naive: .*UTC",
    ),
    (lambda it: SingleFact(THEME, "x", expires_at=it), NAIVE, ValueError, "expires_at is naive"),
    (
        lambda it: SingleFact(THEME, "x", timestamp=it), 1_700_000_000, TypeError,
        "a datetime, not int",
    ),
    (lambda it: SingleFact(AGE, it), SECRET, ValueError, r"'age' is not a valid int \(int_type\)"),
    (lambda it: MultipleFacts(MANY, it), (), ValueError, "'pet' needs at least one value"),
    (
        lambda it: FactSource(SourceKind.USER, quote=it), "\ud800", ValueError,
        "A quote contains a lone surr",
    ),
    (
        lambda it: FactSource(SourceKind.USER, before=it), "a" * 501, ValueError,
        "501 characters: at most 500",
    ),
    (MemorySubject("user", "d", 1).of, "alice", ValueError, "per_entity=True"),
    (lambda it: Place(*it), (ALICE, AGENT), TypeError, "has the scope first"),
    (
        lambda it: Place(it, ALICE), "agent/a", TypeError,
        r"Place\(scope, subject\) has the scope fi",
    ),
    (lambda it: SingleFact(THEME, "x", timestamp=it), FIRST, ValueError, f"timestamp .*{BEYOND}"),
    (lambda it: SingleFact(THEME, "x", timestamp=it), LAST, ValueError, BEYOND),
    (lambda it: SingleFact(THEME, "x", since=it), FIRST, ValueError, "A time must be"),
    (lambda it: RecallFilter(since=it), FIRST, ValueError, BEYOND),
    (lambda it: SingleFact(it, "dark"), SECRET, TypeError, rf"not str: SingleFact\({CONCEPT}"),
    (lambda it: SingleFact(it, "dark"), Concept, TypeError, "not the class Concept"),
    (
        lambda it: MultipleFacts(it, ["x"]), None, TypeError,
        rf"not NoneType: MultipleFacts\({CONCEPT}",
    ),
    (lambda it: MultipleFacts(MANY, it), SECRET, TypeError, "must be a list, not"),
    (lambda it: Concept("age", "Years", it), int, TypeError, "class int. .*value_type=int"),
    (FactSource, None, TypeError, r"one of SourceKind\.USER, .*, not NoneType"),
    (lambda it: MemoryScope(it, "x"), 5, TypeError, r"one of MemoryScopeType\.AGENT, .*, not int"),
    (MemoryScope.parse, AGENT, TypeError, r'not MemoryScope: MemoryScope\.parse\("product/my-app"'),
    (Place.of_identity, SECRET, TypeError, r"must be a tuple of four, not str"),
    (
        lambda it: Concept("k", "d", it), SECRET, ValueError,
        r"one of FactType\.SINGLE, FactType\.MULTIPLE",
    ),
    (FactSource, SECRET, ValueError, r"one of SourceKind\.USER"),
    (lambda it: MemoryScope(it, "x"), SECRET, ValueError, r"one of MemoryScopeType\.AGENT"),
    (lambda it: SingleFact(it, "x"), MANY, ValueError, "'pet' has many values: use MultipleFacts"),
    (lambda it: MultipleFacts(it, ["x"]), THEME, ValueError, "has one value: use SingleFact"),
]  # fmt: skip


test_wrong_arguments = each_is_refused(WRONG)
