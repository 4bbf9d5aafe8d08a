"""Wrong arguments of transcripts."""

from factmem.prompt._transcript import Transcript
from tests.tables import table
from tests.wrong_calls import CHAT, SECRET, Call, Wrong, check_wrong_call

WRONG: list[Wrong] = [
    (Transcript, SECRET, TypeError, r"memory\.remember\(text\)"),
    (Transcript, CHAT[0], TypeError, "messages must be a list of dicts, not dict"),
    (lambda it: Transcript(CHAT, since=it), "1", TypeError, "not str: since=0"),
    (lambda it: Transcript(CHAT, trust=it), "tool", TypeError, r"trust=\[SourceKind\.ASSISTANT\]"),
    (lambda it: Transcript(CHAT, trust=[it]), SECRET, ValueError, r"one of SourceKind\.USER"),
]


@table(("call", "given", "error", "message"), WRONG)
async def test_wrong_arguments(
    call: Call, given: object, error: type[Exception], message: str
) -> None:
    """Each error names the type and shows a correct call."""
    await check_wrong_call(call, given, error, message)
