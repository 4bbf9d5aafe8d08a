"""Wrong arguments of transcripts."""

from factmem.prompt._transcript import Transcript
from tests.wrong_calls import CHAT, SECRET, Wrong, each_is_refused

WRONG: list[Wrong] = [
    (Transcript, SECRET, TypeError, r"memory\.remember\(text\)"),
    (Transcript, CHAT[0], TypeError, "messages must be a list of dicts, not dict"),
    (lambda it: Transcript(CHAT, since=it), "1", TypeError, "not str: since=0"),
    (lambda it: Transcript(CHAT, trust=it), "tool", TypeError, r"trust=\[SourceKind\.ASSISTANT\]"),
    (lambda it: Transcript(CHAT, trust=[it]), SECRET, ValueError, r"one of SourceKind\.USER"),
]


test_wrong_arguments = each_is_refused(WRONG)
