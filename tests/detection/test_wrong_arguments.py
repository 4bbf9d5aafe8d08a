"""Wrong arguments of the compression of a history."""

from factmem.detection.compression import RetrieveFactsFromHistory
from factmem.testing._facts import THEME
from factmem.testing.chat import ScriptedChatModel
from tests.wrong_calls import MESSAGES, SECRET, Wrong, each_is_refused

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


test_wrong_arguments = each_is_refused(WRONG)
