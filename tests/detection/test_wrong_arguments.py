"""Wrong arguments of the compression of a history."""

from factmem.detection.compression import RetrieveFactsFromHistory
from factmem.testing._facts import THEME
from factmem.testing.chat import ScriptedChatModel
from tests.tables import table
from tests.wrong_calls import MESSAGES, SECRET, Call, Wrong, check_wrong_call

WRONG: list[Wrong] = [
    (RetrieveFactsFromHistory, [THEME], TypeError, "a list of Concept, not of list"),
    (
        lambda it: RetrieveFactsFromHistory(THEME).compress(it, ScriptedChatModel()),
        (),
        TypeError,
        rf"{MESSAGES}, because they are changed in place, not tuple",
    ),
    (
        lambda it: RetrieveFactsFromHistory(THEME).compress([], it),
        SECRET,
        TypeError,
        r"str has no extract: OpenAIChatModel\(name\)",
    ),
]


@table(("call", "given", "error", "message"), WRONG)
async def test_wrong_arguments(
    call: Call, given: object, error: type[Exception], message: str
) -> None:
    """Each error names the type and shows a correct call."""
    await check_wrong_call(call, given, error, message)
