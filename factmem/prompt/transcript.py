"""A chat history as a source of facts: who said what, and whether a quote is theirs."""

from collections.abc import Iterable, Mapping, Sequence
from unicodedata import category

from factmem._arguments import (
    checked_member,
    kind_of,
    listed,
)
from factmem.llm.messages import (
    OWN_MESSAGES,
    checked_messages,
    content_text,
)
from factmem.models.sources import SourceKind
from factmem.models.text import case_folded, normalized
from factmem.prompt.escaping import value_text

__all__ = ["Transcript", "folded"]


_KINDS = {
    "user": SourceKind.USER,
    "assistant": SourceKind.ASSISTANT,
    "tool": SourceKind.TOOL,
    "function": SourceKind.TOOL,
}
_BESIDE = "\"'.,!?\u3002"
_PLAIN_MARKS = str.maketrans(
    "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2010\u2011\u2012\u2013\u2014\u2015",
    "''''\"\"\"\"------",
)


def folded(text: str) -> str:
    """Return a string in the form in which quotes are compared.

    Compatibility forms (NFKC), case, white space, invisible characters and the shapes of quotation
    marks and dashes make no difference: models change them when they copy, and Korean or Chinese
    words are joined and wrapped at will. The time is linear in the length of the string.
    """
    plain = normalized("NFKC", case_folded(text).translate(_PLAIN_MARKS))
    return "".join(c for c in plain if not c.isspace() and category(c) != "Cf")


class Transcript:
    """What of a history a model is shown, and what it may cite.

    Instructions, what factmem wrote itself, and the results of tools that are not trusted are not
    shown at all. Messages that may not be cited are shown without a number.

    Messages are numbered from 0, those that factmem wrote left out, so that a message has the same
    number whether facts were loaded into the chat or not.

    Args:
        messages: The history; not changed, and not looked at again later.
        trust: Who besides the user is believed.
        since: The index in `messages` of the first one that may be cited; earlier ones are
            context.
        written_by: Who wrote the messages that may be cited, where that is not whom their role
            says: a document that somebody handed in.

    Raises:
        TypeError: A message is no dict, or an argument is of the wrong kind.
        ValueError: `trust` holds something else than who writes messages.
    """

    def __init__(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        trust: Iterable[SourceKind] = (),
        since: int = 0,
        written_by: SourceKind | None = None,
    ) -> None:
        if type(since) is not int:
            raise TypeError(
                f"since is the index of a message, a whole number, not {kind_of(since)}: since=0"
            )
        checked_messages(messages)
        believed = listed(trust, "trust is a list of SourceKind", "trust=[SourceKind.ASSISTANT]")
        trusted = {SourceKind.USER}
        trusted |= {checked_member(SourceKind, each, "Who is trusted") for each in believed}
        if beyond := trusted - set(_KINDS.values()):
            raise ValueError(f"No message is written by {sorted(beyond)}: trust assistant or tool")
        self._count = 0
        self._kinds: dict[int, SourceKind] = {}
        self._texts: dict[int, str] = {}
        self._shown: list[tuple[int, str, str]] = []
        self._folded: dict[int, str] = {}
        self._earlier: set[int] = set()
        for index, message in enumerate(messages):
            text = content_text(message)
            if message.get("name") in OWN_MESSAGES:
                continue
            number, self._count = self._count, self._count + 1
            if index < since:
                self._earlier.add(number)
            kind = _kind(message)
            is_trusted = kind in trusted
            if kind is None or not text.strip():
                continue
            if is_trusted and index >= since:
                self._kinds[number] = written_by or kind
                self._texts[number] = text
            if is_trusted or kind is SourceKind.ASSISTANT:
                self._shown.append((number, kind.value, text))

    def __len__(self) -> int:
        """How many messages may be cited."""
        return len(self._kinds)

    def kind(self, number: int) -> SourceKind | None:
        """Return who wrote a message that may be cited; None for any other."""
        return self._kinds.get(number)

    def why_not(self, number: int) -> str | None:
        """Say why a message may not be cited; None for one that does not exist."""
        if not 0 <= number < self._count:
            return None
        return "it is an earlier one" if number in self._earlier else "its writer is not trusted"

    def holds(self, number: int, quote: str) -> bool:
        """Whether a message that may be cited has these words.

        A quote of one character or two letters is in too many messages to say anything: it counts
        when it is the whole message.
        """
        wanted = folded(quote).strip("\"'")
        if number not in self._folded:
            self._folded[number] = folded(self._texts[number])
        text = self._folded[number]
        if len(wanted) < 2 or len(wanted.encode()) < 3:
            return wanted != "" and wanted.strip(_BESIDE) == text.strip(_BESIDE)
        return wanted in text

    def lines(self) -> str:
        """Return the messages as a model is shown them: one line of JSON each."""
        return "\n".join(
            f'{{"message": {number}, "role": "{role}", "text": {value_text(text)}}}'
            if number in self._kinds
            else f'{{"role": "{role}", "text": {value_text(text)}}}'
            for number, role, text in self._shown
        )


def _kind(message: Mapping[str, object]) -> SourceKind | None:
    """Return who wrote a message; None for the application's instructions."""
    role = message.get("role")
    return _KINDS.get(role) if isinstance(role, str) else None
