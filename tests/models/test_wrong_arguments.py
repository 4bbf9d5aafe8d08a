"""Wrong arguments of facts, concepts, sources and places."""

from datetime import datetime, timedelta, timezone

from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.models.places import MemoryScope, Place
from factmem.models.recall_filter import RecallFilter
from factmem.models.sources import FactSource
from factmem.testing._facts import AGENT, THEME, theme
from tests.tables import table
from tests.wrong_calls import SECRET, Call, Wrong, check_wrong_call

MANY = Concept("pet", "The user's pets", FactType.MULTIPLE)
CONCEPT = r'Concept\("theme", "The IDE theme"\)'

BEYOND = "between the years 1 and 9999 in UTC"
FIRST = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
LAST = datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12)))

WRONG: list[Wrong] = [
    (lambda it: SingleFact(THEME, "x", timestamp=it), FIRST, ValueError, f"timestamp .*{BEYOND}"),
    (lambda it: SingleFact(THEME, "x", timestamp=it), LAST, ValueError, BEYOND),
    (lambda it: SingleFact(THEME, "x", expires_at=it), LAST, ValueError, BEYOND),
    (lambda it: SingleFact(THEME, "x", since=it), FIRST, ValueError, "A time must be"),
    (lambda it: RecallFilter(since=it), FIRST, ValueError, BEYOND),
    (lambda it: SingleFact(it, "dark"), SECRET, TypeError, rf"not str: SingleFact\({CONCEPT}"),
    (lambda it: SingleFact(it, "dark"), Concept, TypeError, "not the class Concept"),
    (lambda it: SingleFact(it, "dark"), theme("dark"), TypeError, "not SingleFact: SingleFact"),
    (
        lambda it: MultipleFacts(it, ["x"]),
        None,
        TypeError,
        rf"not NoneType: MultipleFacts\({CONCEPT}",
    ),
    (lambda it: MultipleFacts(MANY, it), SECRET, TypeError, "must be a list, not"),
    (lambda it: MultipleFacts(MANY, it), b"x", TypeError, "must be a list, not"),
    (lambda it: MultipleFacts(MANY, it), 5, TypeError, "must be a list, not int"),
    (lambda it: Concept("age", "Years", it), int, TypeError, "class int. .*value_type=int"),
    (FactSource, None, TypeError, r"one of SourceKind\.USER, .*, not NoneType"),
    (lambda it: MemoryScope(it, "x"), 5, TypeError, r"one of MemoryScopeType\.AGENT, .*, not int"),
    (MemoryScope.parse, AGENT, TypeError, r'not MemoryScope: MemoryScope\.parse\("product/my-app"'),
    (Place.of_identity, SECRET, TypeError, r"must be a tuple of four, not str"),
    (Place.of_identity, None, TypeError, r"must be a tuple of four, not NoneType"),
    (
        lambda it: Concept("k", "d", it),
        SECRET,
        ValueError,
        r"one of FactType\.SINGLE, FactType\.MULTIPLE",
    ),
    (FactSource, SECRET, ValueError, r"one of SourceKind\.USER"),
    (lambda it: MemoryScope(it, "x"), SECRET, ValueError, r"one of MemoryScopeType\.AGENT"),
    (lambda it: SingleFact(it, "x"), MANY, ValueError, "'pet' has many values: use MultipleFacts"),
    (lambda it: MultipleFacts(it, ["x"]), THEME, ValueError, "has one value: use SingleFact"),
]


@table(("call", "given", "error", "message"), WRONG)
async def test_wrong_arguments(
    call: Call, given: object, error: type[Exception], message: str
) -> None:
    """Each error names the type and shows a correct call."""
    await check_wrong_call(call, given, error, message)
