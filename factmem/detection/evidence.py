"""Evidence: tests whether a quote can prove its item."""

import re
from collections.abc import Iterable

from factmem.detection.words import has_unspaced_script, stems, word_count
from factmem.prompt.quotes import FoldedText, has_negation

__all__ = ["MOST_UNQUOTED", "corrects", "ends", "is_telling"]


MOST_UNQUOTED = 3
"""The most values beyond the number of its words that one quote can prove."""

_SHORT = 8
"""A single word of fewer letters is in too many messages to prove anything."""
_SHORT_UNSPACED = 2

_ENDING = re.compile(
    r"\b(?:any ?more|stop(?:ped|s)?|quit|gave up|give up|given up|sold|lost|left|former(?:ly)?|used to"
    r"|over|ended|finished|done with|moved|broke|broken|cancel\w*|dropped|retired|died|dead|passed away"
    r"|divorced|forget|scrap|wrong|mistake|instead|switched|changed|correction|actually|rather"
    r"|out|off|got rid|threw|resolved|fixed|deleted|removed|gone"
    r"|aufgehört|verkauft|gekündigt|vorbei|mehr|statt|stattdessen|sondern|falsch|gestorben|getrennt"
    r"|beendet|abgesagt|früher|ehemals|gewechselt)\b"
    r"|그만|끊|팔았|취소|이제|더\s?이상|헤어|이혼|떠났|바꿨|바뀌|옮겼|이사|퇴사|끝났|틀렸|정정|죽었|돌아가"
    r"|不再|已经不|戒|取消|やめ|辞め|もう",
    re.IGNORECASE,
)
"""Words that end something, besides negations."""

_CORRECTING = re.compile(
    r"\b(?:no longer|not any ?more|any ?more|actually|instead|rather than|i mean|i meant|correction"
    r"|changed|switched|moved|used to|now|from now on|these days|nowadays|turned|replaced|not .{1,40} but"
    r"|wrong|jetzt|nicht mehr|stattdessen|sondern|eigentlich|gewechselt|umgezogen|inzwischen"
    r"|mittlerweile|korrektur|seit kurzem)\b"
    r"|이제|더\s?이상|아니라|말고|바꿨|바꾸|바뀌|옮겼|이사\s?(?:했|왔|갔)|사실은|정정|지금은|요즘은|현재는"
    r"|现在|不再|换|搬|改|今は|実は",
    re.IGNORECASE,
)
"""Words by which a statement replaces an earlier one."""


def is_telling(quote: str, text: FoldedText, value: str) -> bool:
    """Whether a quote is more than one short word, its whole message, or contains the value."""
    words = FoldedText(quote).bare
    if word_count(quote) > 1 or words == text.bare:
        return True
    least = _SHORT_UNSPACED if has_unspaced_script(words) else _SHORT
    wanted = FoldedText(value).bare
    return (
        len(words) >= least
        or (bool(wanted) and wanted in words)
        or (words.isdecimal() and words in wanted)
        or bool(stems(value) & stems(quote))
    )


def ends(quote: str, about: Iterable[str]) -> bool:
    """Whether a quote can end what it retracts.

    Args:
        quote: The quoted words.
        about: The keyword and description of the concept, and the old value.
    """
    if has_negation(quote) or _ENDING.search(quote):
        return True
    said = stems(quote)
    return any(said & stems(each.replace("-", " ")) for each in about)


def corrects(sentence: str) -> bool:
    """Whether a statement says that it replaces an earlier one."""
    return _CORRECTING.search(sentence) is not None
