"""Analysis of text: words, and the terms under which words are indexed, in any script.

- Width, compatibility forms and case are folded (NFKC and case folding). Accents on Latin letters
  are removed, so that "Umea" finds "Umeå".
- Words of scripts with spaces are stemmed, those in Latin letters as English. Scripts without
  spaces (Han, Kana, Thai, Lao, Khmer, Burmese), and Hangul, whose particles are attached to the
  noun, are split into overlapping pairs of characters. Each Chinese character is a word too, and a
  Korean syllable or a Japanese character before a particle or an ending is a term.
- Identifiers are split: `maxRetryCount`, `max-retry-count` and `max_retry_count` all have the terms
  "max", "retry" and "count". A camel-case word is also a term as a whole ("PostgreSQL"). Two or
  more letters are separated from an adjacent number: `IONIQ5` becomes `IONIQ 5`, but "v3" is not
  split.
- Numbers lose leading zeros and thousands separators. "4.35" and its parts are terms. A number and
  its counter in Korean, Japanese or Chinese ("5월", "5月") are one additional term, which is the
  same in all three languages for years, months and days.
- Groups of digits with nine digits or more in total, such as a telephone number, are also joined:
  "010-1234-5678" matches 01012345678. Groups separated by spaces are joined if they begin with 0.
- "C++" and "C#" differ from "C". An emoji is a word.

Any `str` is accepted, including lone surrogates. The time is linear in its length.

Function words of questions: pronouns, question words, articles, prepositions and auxiliaries.

A question has many of them and a fact, which is a short phrase, has few. So those that are in some
fact are rare in the index, and BM25 would rank that fact first: in Russian "Кем она работает?"
found the only fact with "она". Lists of search libraries remove nouns and verbs too ("home",
"work", "жизнь"), so these lists are short and have function words only. Hangul, Han and Kana need
none: see `analysis`.
"""

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from itertools import chain
from logging import getLogger
from typing import Protocol

from factmem.errors import MissingExtraError
from factmem.models._values import normalized

# ruff: noqa: RUF001 - Cyrillic letters that look like Latin ones

_LANGUAGES = {
    "english": """
        a about an and any are as at be been by can could did do does for from had has have he her
        him his how i if in is it its me my of on or our she should so than that the their them
        there these they this those to us was we were what when where which who whom whose why will
        with would you your
    """,
    "german": """
        aber als am an auf aus bei bin bis bist da das dass dein deine dem den der des die dir du
        ein eine einem einen einer er es für hat hast hatte habe haben ich ihm ihn ihr ihre ihrem
        ihren im in ist kann mein meine mich mir mit nach oder sein seine seinen sich sie sind so
        und uns unser vom von vor wann war waren warum was wem wen wer wessen wie wir wird wo wofür
        womit woher wohin wovor welche welchem welchen welcher welches zu zum zur
    """,
    "spanish": """
        a al algo como con cual cuales cuando cuanto cuanta cuantos cuantas de del donde e el ella
        ellas ellos en era eres es esta este esto fue ha han hay la las le les lo los me mi mis no
        nos o para pero por porque que quien quienes se ser si sido sin son su sus te tiene tu tus
        un una uno y ya yo
    """,
    "french": """
        a au aux avec ce ces cette comment d dans de des du elle elles en es est et eu il ils j je
        l la le les leur lui ma mes mon n ne nous on ou où par pas pour pourquoi qu quand que quel
        quelle quelles quels qui quoi s sa se ses son sont sur t ta te tes ton tu un une vous y
    """,
    "italian": """
        a ai al alla che chi ci come con cosa da dal dei del della di dove e è gli ha hai ho i il in
        io la le lei lo lui ma mi ne nel nella non o per perché quale quali quando quanto quanti si
        sono su sua sue suo suoi ti tu un una uno vi
    """,
    "portuguese": """
        a ao aos as com como da das de do dos e é ela ele eles em era eu foi há isso lhe mas me meu
        minha na não nas no nos o onde os ou para por porque qual quais quando quanto quantos que
        quem se seu sua suas são te tem um uma você
    """,
    "dutch": """
        aan als bij dat de der die dit door een en er haar had heb heeft hem hen het hij hoe hun ik
        in is je jij kan maar me met mij mijn naar niet nog of om onze op over te tot uit van voor
        waar waarom was wat we welk welke wie wij worden zij zijn
    """,
    "russian": """
        а без был была были было быть в вам вас во вот все вы где да для до его ее ей ему если есть
        же за зачем и из или им их к как какая какие каким какими каких какого какое какой какому
        какую ко когда кого кем ком кому который которая которые кто куда ли мне мой моя мы на над
        не него нее ней нет но ну о об он она они оно от откуда по под почему при с сколько со так
        там те тебе ты у уже чего чей чем чему чья чье чьи чью что чтобы эта эти это этот я
    """,
    "arabic": """
        أن أنا أنت أو أي أية أين إلى إن التي الذي ثم على عن عند عندما عندها عنده في كان كانت كم كل
        كيف لا لقد لم لماذا له لها ليس لمن ما ماذا متى مم مع من منذ هذا هذه هل هم هو هي و يا
    """,
}


def _without_accents(word: str) -> str:
    """Remove the accents of a word if the rest is ASCII."""
    bare = "".join(c for c in normalized("NFD", word) if not unicodedata.combining(c))
    return bare if bare.isascii() else word


_BY_LANGUAGE = [frozenset(map(_without_accents, words.split())) for words in _LANGUAGES.values()]

FUNCTION_WORDS: frozenset[str] = frozenset().union(*_BY_LANGUAGE)
"""The words of all languages."""


def function_words(asked: Iterable[str]) -> frozenset[str]:
    """Return the function words of the language that a question is probably in.

    It is the language with the most of them: "son" is Spanish for "are" and "die" a German article,
    and both are nouns or verbs in an English question. Without any, it is English.
    """
    found = FUNCTION_WORDS.intersection(asked)
    return max(_BY_LANGUAGE, key=lambda known: len(known & found)) if found else found


_logger = getLogger(__name__)

Stem = Callable[[str], str]
"""Returns the common stem of a lower-case word's forms."""

Word = tuple[str, ...]
"""The terms under which a word is indexed: the overlapping pairs of a Korean word, the forms of an
inflected Japanese word, a group of digits and the whole number it is part of; one term in all other
cases. A document matches a word of a question if it has any of its terms."""

_LONGEST_WORD = 64
"""Longer words are truncated, such as pasted keys and base64 data."""

_CHUNK = 256
"""The number of characters that are normalised at once. Python versions from before the middle of
2026 take n² steps to sort n consecutive combining marks
(https://github.com/python/cpython/issues/149079)."""

_HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\uac00-\ud7ff"
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_GROUP = r"[0-9]{2,12}+"
_GROUPS_END = r"(?!-?[A-Za-z0-9]|[.,:][0-9])"
_COUNTERS: dict[str, str] = {"年": "년", "月": "월", "日": "일"}

_nfkc = partial(normalized, "NFKC")
_chunks = re.compile(rf"(?s:.{{1,{_CHUNK}}})(?=\s|\Z)|(?s:.{{1,{_CHUNK}}})")
_pieces = re.compile(
    rf"(?P<hangul>[{_HANGUL}]+)|(?P<unspaced>[{_UNSPACED}]+)|(?P<spaced>[^{_HANGUL}{_UNSPACED}]+)"
)
_number = re.compile(r"[0-9]+(?:[.,:][0-9]+)*")
_letters_and_digits = re.compile(r"(?:[^\W\d_]{2,}+|[0-9]++){2,}+")
_letters_or_digits = re.compile(r"[0-9]+|[^0-9]+")
_thousands = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")
_contraction = re.compile(r"['\u2019](?:s|m|d|ll|re|ve)\Z", re.IGNORECASE)
_humps = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_invisible = re.compile("[\u00ad\u200c\u200d\u2060\ufeff]")

_CHINESE = "的是叫了吗嗎呢吧什么麼谁誰哪怎她他你我您们們"
_FUNCTION = f"\u3041-\u309f{_CHINESE}"
_segments = re.compile(rf"(?P<head>[^{_FUNCTION}]*)(?P<tail>[{_FUNCTION}]*)")
_function = re.compile(rf"[{_FUNCTION}]")

_says_nothing = re.compile(rf"[\u3041-\u309f]|[{_CHINESE}]+")
"""A single hiragana is a particle or a prefix; a longer run may be a noun, such as "そば"."""

_MOST = 8
# The white space before a line break is not matched here, as each sentence is stripped: `\s*\n`
# would take quadratic time for a run of spaces.
_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。\uff01\uff1f])\s*|\n\s*")


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802


_STEMMED = re.compile(
    "(?P<english>[a-z])|(?P<russian>[\u0400-\u04ff])|(?P<arabic>[\u0600-\u06ff])"
    "|(?P<greek>[\u0370-\u03ff])|(?P<hindi>[\u0900-\u097f])"
)
"""The language whose endings are removed from the words of a script."""


class _Stemmers(threading.local):
    """One Snowball stemmer per thread and language, because a stemmer has mutable state."""

    def __init__(self) -> None:
        try:
            from snowballstemmer import stemmer  # type: ignore[import-untyped]
        except ImportError as exc:
            raise MissingExtraError(
                "Snowball stems need the package snowballstemmer: pip install 'factmem[recall]'"
            ) from exc
        self.of: Callable[[str], _Stemmer] = cache(stemmer)


@cache
def _stemmers() -> _Stemmers:
    return _Stemmers()


def snowball_stem(word: str) -> str:
    """Stem by the Snowball algorithm: "swimming" and "swims" become "swim".

    Latin letters are stemmed as English, and Cyrillic, Arabic, Greek and Devanagari as the language
    with the most readers. Needs the package `snowballstemmer`, which the extra `recall` installs.
    Thread-safe.
    """
    script = _STEMMED.match(word)
    return word if script is None else _stemmers().of(str(script.lastgroup)).stemWord(word)


def unstemmed(word: str) -> str:
    """Return a word as it is: its other forms are found by their letters."""
    return word


@cache
def default_stem() -> Stem:
    """Return `snowball_stem`, or `unstemmed` without its package; a broken one is logged."""
    try:
        snowball_stem("words")
    except Exception as exc:  # noqa: BLE001 - a broken package can raise any exception
        if not isinstance(exc.__cause__, ModuleNotFoundError):
            _logger.warning(
                "snowballstemmer is installed and cannot be used (%s): words are not stemmed",
                type(exc.__cause__ or exc).__name__,
            )
        return unstemmed
    return snowball_stem


def words(text: str, *, stem: Stem | None = None) -> list[Word]:
    """Split a text into words, in order, including repetitions."""
    stem = stem or default_stem()
    if not text.isascii():
        if len(text) > _CHUNK or not unicodedata.is_normalized("NFKC", text):
            text = "".join(map(_nfkc, _chunks.findall(text)))
        text = _invisible.sub("", text)
    found: list[Word] = []
    for token in _tokens(ascii_only=text.isascii()).findall(text):
        found += _known_words(token, stem) if len(token) <= _LONGEST_WORD else _words(token, stem)
    return found


@cache
def _tokens(*, ascii_only: bool) -> re.Pattern[str]:
    """Build the pattern of a token. That of all scripts is slow to build, so it is built lazily."""
    word = r"[^\W_]+"
    if not ascii_only:
        word += rf"(?:[{_marks()}]+[^\W_]*)*"
    return re.compile(
        r"[A-Za-z](?:\+\+|#)(?![^\W_])"  # C++, C#
        r"|[\u2600-\u27bf\U0001f000-\U0001faff]"  # emoji
        rf"|(?=(?:-?[0-9]){{9}}){_GROUP}(?:-{_GROUP}){{1,4}}+{_GROUPS_END}"  # 010-1234-5678
        rf"|(?=0(?:\ ?[0-9]){{8}}){_GROUP}(?:\ {_GROUP}){{1,4}}+{_GROUPS_END}"  # 010 1234 5678
        r"|[0-9]++(?:[.,:][0-9]+)+"  # 4.35, 10:15, 300,000
        rf"|{word}(?:['\u2019]{word})*"
    )


def _marks() -> str:
    """Return a character class of the combining marks, which `re` does not treat as word parts."""
    ranges: list[list[int]] = []
    categories = map(unicodedata.category, map(chr, range(0x300, 0x1F000)))
    for code, category in enumerate(categories, 0x300):
        if category in {"Mn", "Mc"} and not 0xFE00 <= code <= 0xFE0F:
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def _words(token: str, stem: Stem) -> tuple[Word, ...]:
    """Split a token at the boundaries of scripts, and analyse each piece."""
    if token.isascii():
        if " " in token or "-" in token:
            return _groups(token)
        return tuple((term,) for term in _spaced(token, stem))
    found: list[Word] = []
    number = ""
    for script in _pieces.finditer(token):
        piece = script[0]
        if script.lastgroup == "spaced":
            found += ((term,) for term in _spaced(piece, stem))
            number = found[-1][0] if piece.isdecimal() else ""
            continue
        cut = [_korean(piece)] if script.lastgroup == "hangul" else unspaced_words(piece)
        if number:
            counted = f"{number}{_COUNTERS.get(piece[0], piece[0])}"
            cut[0] = (counted, *(term for term in cut[0] if len(term) > 1))
        found += cut
        number = ""
    return tuple(found)


_known_words = lru_cache(maxsize=2**15)(_words)


def _groups(token: str) -> tuple[Word, ...]:
    """Return each group of digits as a word, with the joined number as an additional term."""
    groups = re.split("[- ]", token)
    [whole] = _numbers("".join(groups))
    return tuple((_numbers(group)[0], whole) for group in groups)


def _spaced(piece: str, stem: Stem) -> list[str]:
    """Analyse a word of a script with spaces, a number, an emoji, or C++ or C#."""
    word = piece[:_LONGEST_WORD]
    if word[-1] in "+#":
        return [word.casefold(), word[0].casefold()]
    if _number.fullmatch(word):
        return _numbers(word)
    word = _contraction.sub("", word).replace("'", "").replace("\u2019", "")
    if _letters_and_digits.fullmatch(word) and not word.isalpha():
        return [form for part in _letters_or_digits.findall(word) for form in _spaced(part, stem)]
    parts = [part for part in _humps.split(word) if len(part) > 1]
    forms = [word, *parts] if len(parts) > 1 else [word]
    return [_stemmed(_folded(form), stem) for form in forms if form]


def _numbers(word: str) -> list[str]:
    if _thousands.fullmatch(word):
        word = word.replace(",", "")
    parts = [part.lstrip("0") or "0" for part in re.split("[.,:]", word)]
    return parts if len(parts) == 1 else [word, *parts]


def _folded(word: str) -> str:
    """Fold case, and remove accents if the rest is ASCII: "Straße" becomes "strasse"."""
    word = word.casefold()
    return word if word.isascii() else _without_accents(word).replace("\u0451", "\u0435")


def _stemmed(word: str, stem: Stem) -> str:
    return word if word in FUNCTION_WORDS or not word.isalpha() else stem(word)


def pairs(run: str) -> list[str]:
    """Split a run of characters into overlapping pairs; a single character is unchanged."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


_han = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]")

_PARTICLES = frozenset("은는이가을를에의도로만와과요야서고면지다며게나까랑니")
"""The last syllables of Korean words that are often a particle or an ending."""

_FIRST, _FINALS = 0xAC00, 28
_ENDINGS = frozenset({4, 8, 16, 17, 20})
"""The final consonants of verb endings: ㄴ, ㄹ, ㅁ, ㅂ and ㅆ, as in 자란 and 자랐다."""


def _korean(word: str) -> Word:
    """Return the pairs of a Korean word, and the forms that it has in common with its inflections.

    A noun or a stem of one syllable before a particle is a term too: "딸은" and "딸이" have "딸".
    Pairs are also terms without the final consonant of an ending: "자랐어" and "자란" have "자라".
    """
    found = dict.fromkeys(pairs(word))
    if len(word) == 2 and word[1] in _PARTICLES:
        found[word[0]] = None
    for pair in list(found):
        final = (ord(pair[-1]) - _FIRST) % _FINALS
        if len(pair) == 2 and ord(pair[-1]) >= _FIRST and final in _ENDINGS:
            found[pair[0] + chr(ord(pair[-1]) - final)] = None
    return tuple(found)


def unspaced_words(run: str) -> list[tuple[str, ...]]:
    """Split a run into words: each pair of characters, with an inflectional ending if it has one.

    Each Chinese character is a word as well: "订婚" and "订了婚" have no common pair.

    The hiragana after a noun belong to its last pair. A single character before an ending
    ("食べて", "猫的") is a term in addition to the pairs that it begins, so that "食べた" finds it.
    """
    words: list[tuple[str, ...]] = []
    for segment in _segments.finditer(run):
        head, tail = segment["head"], segment["tail"]
        if len(head) > 1:
            *before, last = pairs(head)
            words += [(pair,) for pair in before]
            words.append((last, *(pairs(head[-1] + tail) if tail else ())))
            words += [(letter,) for letter in _han.findall(head)]
        elif head:
            words.append((head, *(pairs(head + tail) if tail else ())))
        elif tail:
            words.append(tuple(pairs(tail)))
    return words


def content_terms(word: tuple[str, ...]) -> tuple[str, ...]:
    """Remove the terms of a question's word that have only a grammatical function.

    The result may be empty. If a term has no such characters, the terms that have some are removed.
    """
    if all(term.isascii() for term in word):
        return word
    plain = tuple(term for term in word if not _function.search(term))
    return plain or (() if all(map(_says_nothing.fullmatch, word)) else word)


def content_words(asked: Sequence[Word]) -> list[Word]:
    """Return the words of a question without those that have only a grammatical function."""
    empty = function_words(chain.from_iterable(asked))
    found = (content_terms(word) for word in dict.fromkeys(asked) if not empty.issuperset(word))
    return list(dict.fromkeys(filter(None, found)))


def sentences(text: str) -> list[str]:
    """Return the last eight sentences of a text with content words, or else the text itself.

    In "Hello! I was away for a week. Now the router is down.", the question is about the router. If
    it were one query, most of its words would be about something else, and a fact about the router
    would cover too little of it.
    """
    parts = [part.strip() for part in _END.split(text)]
    found = [part for part in parts if content_words(words(part))]
    return list(dict.fromkeys(found))[-_MOST:] or [text]
