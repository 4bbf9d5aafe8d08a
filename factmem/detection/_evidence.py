"""Evidence: whether a quote can prove its item, and doubts about items that it proves.

Words are compared in a reduced form, so that inflected forms of one word are equal.

Numbers and dates in text, in digits and words, and whether one follows from a message.

Voices: which words of a message are its writer's own, are about the writer, and are sure of it.

`Sentence` reads the sentence around a quote: conditions, questions, hedges, other persons and reported
speech. `quoted_spans` finds the parts of a message that others wrote. Every word list flags wrong answers of `benchmarks/detection`; a rule that flagged none is not here.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple

from factmem._text.spelling import has_unspaced_script, stems, word_count
from factmem._text.spoken_time import SpokenTime, WrittenDate, dates_in, shifted, spoken_times
from factmem.detection.report import Doubt
from factmem.models._values import normalized
from factmem.models.when import When
from factmem.prompt._transcript import FoldedText, SaidMessage, Transcript, has_negation

_DIGITS = re.compile(r"\d+(?:[,\u066b.']\d+)*")
_UNITS, _TENS, _GERMAN, _GERMAN_TENS = map(str.split, (
    ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"),
    "twenty thirty forty fifty sixty seventy eighty ninety",
    ("null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn "
    "sechzehn siebzehn achtzehn neunzehn"),
    "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
))  # fmt: skip
_KOREAN = ["한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉"]
_KOREAN_TENS = ["열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔"]

_SPELT: dict[str, float] = {
    **{word: number for number, word in enumerate(_UNITS)},
    **{word: 10 * number for number, word in enumerate(_TENS, 2)},
    **{
        f"{tens}{unit}": 10 * ten + one
        for ten, tens in enumerate(_TENS, 2)
        for one, unit in enumerate(_UNITS[1:10], 1)
    },
    **{word: number for number, word in enumerate(_GERMAN)},
    **{word: 10 * number for number, word in enumerate(_GERMAN_TENS, 2)},
    **{
        f"{unit}und{tens}": 10 * ten + one
        for ten, tens in enumerate(_GERMAN_TENS, 2)
        for one, unit in enumerate(_GERMAN[1:10], 1)
    },
}
_WORDS = {word.casefold(): number for word, number in _SPELT.items()}
_SPLIT_TENS = re.compile(rf"\b({'|'.join(_TENS)})[ -]({'|'.join(_UNITS[1:10])})\b")
_KOREAN_NUMBER = re.compile(
    rf"({'|'.join(_KOREAN_TENS)})?(하나|둘|셋|넷|{'|'.join(_KOREAN)}|스무)?"
)
_KOREAN_VALUES = {word: number for number, word in enumerate(_KOREAN, 1)} | {
    "하나": 1, "둘": 2, "셋": 3, "넷": 4, "스무": 20,
}  # fmt: skip
_SINO = "일이삼사오육칠팔구"
_HAN = "一二三四五六七八九"
_SINO_NUMBER = re.compile(rf"[{_SINO}{_HAN}两십백천만十百千万]+")
_SINO_POWERS = {"십": 10, "백": 100, "천": 1000, "十": 10, "百": 100, "千": 1000}


def years_in(text: str) -> set[int]:
    """Return the years in a string."""
    return {each.year for each in dates_in(text)[0] if each.year is not None}


def numbers_in(text: str) -> set[float]:
    """Return the numbers in a string, in the digits of any script or in words.

    Words are read in English, German, Korean and Chinese.
    """
    plain = normalized("NFKC", text).casefold()
    found: set[float] = set()
    for match in _DIGITS.finditer(plain):
        found |= _readings(match.group()[:40])
    for match in _SPLIT_TENS.finditer(plain):
        found.add(_WORDS[match.group(1)] + _WORDS[match.group(2)])
    for word in re.findall(r"[^\W\d_]+", plain):
        if word in _WORDS:
            found.add(_WORDS[word])
    for match in _KOREAN_NUMBER.finditer(plain):
        if match.group():
            tens = _KOREAN_TENS.index(match.group(1)) + 1 if match.group(1) else 0
            found.add(10 * tens + _KOREAN_VALUES.get(match.group(2) or "", 0))
    found |= {_sino(match.group()[:20]) for match in _SINO_NUMBER.finditer(plain)}
    return found


def written_numbers(text: str) -> list[set[float]]:
    """Return the possible readings of each number in digits: "1.500" is 1500 or 1.5.

    The minutes of a full hour are left out.
    """
    plain = re.sub(r"(\d{1,2})[:h]00(?!\d)", r"\1", normalized("NFKC", text))
    found: list[set[float]] = []
    for match in _DIGITS.finditer(plain):
        parts = re.split(r"\D", match.group()[:40])
        readings = {float("".join(parts))}
        if len(parts) == 2:
            readings.add(float(f"{parts[0]}.{parts[1]}"))
        found.append(readings)
    return found


def follows(number: float, numbers: Iterable[float], said: date) -> bool:
    """Whether a number is among those of a message, or can be counted from one of them.

    An age and a year of birth follow from each other, a year from "12 years ago", and "19" from
    "7 pm".
    """
    if number == 1:
        return True
    for each in numbers:
        if number == each:
            return True
        is_age = 1900 <= each <= 2100 and said.year - each - 1 <= number <= said.year - each
        is_year = 0 < each <= 120 and abs(said.year - each - number) <= 1
        if is_age or is_year or (1 <= each <= 11 and number == each + 12):
            return True
    return False


_VAGUE = [
    (re.compile(pattern), first, last)
    for pattern, first, last in (
        (r"\b(?:recently|lately|just|the other day)\b|최근|얼마 전|neulich|kürzlich", -62, 0),
        (r"\b(?:soon|later)\b|곧|bald", 0, 400),
        (r"\b(?:few|some|several|einigen) (?:of )?(?:day|week|month|tag|woche|monat)|며칠|몇 ?(?:주|달)", -200, 200),
        (r"week-?end|주말|wochenende|周末", -9, 9),
        (r"\b(?:christmas|easter)\b|추석|설날|weihnachten|ostern|봄|여름|가을|겨울", -400, 400),
    )
]  # fmt: skip
"""Words about time that name no day, and the first and last day that they can mean, counted from
that of the message."""
_SLACK = {"year": 366, "month": 31, "week": 7}
"""The days by which a time can miss what is meant: only a date outside of it raises a doubt."""


def counted_days(text: str, said: date) -> list[tuple[date, date]]:
    """Return the spans of days that the words about time in a message can mean.

    "yesterday" is one day, "last week" the two weeks before, "on Friday" the Fridays around.
    """
    spans: list[tuple[date, date]] = []
    for each in spoken_times(text, said):
        slack = _SLACK.get(each.unit, 0 if each.first == each.last else 7)
        spans.append((shifted(each.first, -slack), shifted(each.last, slack)))
    plain = normalized("NFKC", text[:20_000]).casefold()
    for pattern, first, last in _VAGUE:
        if pattern.search(plain):
            spans.append((shifted(said, first), shifted(said, last)))
    return spans


def _readings(digits: str) -> set[float]:
    """Return what digits with marks between them can be: "1.500" is 1500 or 1.5, and 1 and 500."""
    parts = re.split(r"\D", digits)
    found = {float(part) for part in parts}
    found.add(float("".join(parts)))
    if len(parts) == 2:
        found.add(float(f"{parts[0]}.{parts[1]}"))
    return found


def _sino(digits: str) -> float:
    """Return a number in Korean or Chinese numerals, such as "삼십육"."""
    total, section, digit = 0, 0, 0
    for char in digits:
        if char in "만万":
            total, section, digit = total + (section + digit or 1) * 10_000, 0, 0
        elif char in _SINO_POWERS:
            section, digit = section + (digit or 1) * _SINO_POWERS[char], 0
        else:
            one = 2 if char == "两" else (_SINO.find(char) + 1 or _HAN.find(char) + 1)
            digit = digit * 10 + one
    return float(total + section + digit)


_SENTENCE_END = re.compile(r"[.!?\n。！？]+(?=\s|$|[^\x00-\x7f])|[;\n]")  # noqa: RUF001
_IF = re.compile(
    r"\b(?:if|unless|suppos(?:e|ing)|imagine|assuming|provided that|wenn|falls|angenommen)\b"
    r"|만약|만일|\w(?:다면|으면)(?=[\s,.])|이라면|如果|要是|もし",
    re.IGNORECASE,
)
"""Words that begin a condition."""
_UNSURE = re.compile(
    r"\b(?:if|once|former\w*|used to|nearly|almost|may|might|could|maybe|perhaps|possibl\w*|probabl\w*|would|unless|when|depend\w*"
    r"|consider\w*|think\w*|hop(?:e|es|ing)|wish\w*|want\w*|dream\w*|unsure|uncertain|suspect\w*"
    r"|wenn|falls|vielleicht|eventuell|könnte|überleg\w*|hofft|möchte|quiz\w*|tal vez|peut-être|quiere"
    r"|forse|talvez|misschien|belki)\b|면|수도|아마|만약|싶|고민|생각|고려|可能|如果|想|考虑|かも|たい|может|хочет",
    re.IGNORECASE,
)
"""Words by which a value itself says that it is uncertain, or a wish."""
_HEDGE = re.compile(
    r"\b(?:maybe|perhaps|probably|possibly|presumably|might|may(?=\s+(?:be|have|not|\w+\s))|not (?:\w+ )?sure"
    r"|unsure|no idea|i (?:guess|suppose|wonder|suspect|wish|doubt)|i think (?:i|we|it)(?:'\w+)?"
    r"|(?:thinking|thought|dream\w*) (?:about|of)|considering|toying with|could (?:be|imagine|see)"
    r"|(?:'d|would|might) (?:love|like|prefer) to|some ?day|one day|tempted|flirting with|seems?|my (?:dream|wish|hope)|nearly|almost|used to"
    r"|could (?:get|buy|try|have|do|go|become)|would be|was (?:going|about) to|had i|if only|(?:in|of) my dreams|back in|formerly"
    r"|(?:a|the) chance|until last|far from|supposed to|role-?play|me encantaría|j'aurais|pretend\w*|for example|e\.g|let's say|hypothetically|früher|damals|(?:wäre|hätte) (?:so )?gern|zum beispiel|stell dir vor|antes|antiguamente"
    r"|por ejemplo|imagina|sería|autrefois|avant,|par exemple|imagine|serais|aurais|un tempo|prima ero|ad esempio|vroeger|раньше"
    r"|vielleicht|wahrscheinlich|eventuell|möglicherweise|vermutlich|überleg\w*|könnte|wohl|glaube?"
    r"|würde (?:so )?gerne?|quiz[aá]s?|tal vez|a lo mejor|puede que|probablemente|creo que|me gustar[ií]a"
    r"|pensando en|peut-être|je crois|je pense|probablement|j'aimerais|j'hésite|je songe|forse|magari"
    r"|penso di|vorrei|talvez|acho que|misschien|waarschijnlijk|belki|galiba|chyba|наверное|возможно)\b"
    r"|может быть|예전에|옛날에|예를 들|한때|以前|从前|曾经|比如|例えば|昔は|아마|것 ?같|지도 ?(?:몰|모르)|까 (?:생각|고민|해|하)|고민|생각 ?중|수도 있|싶|듯|글쎄"
    r"|かも|たぶん|多分|おそらく|と思|かな|たい(?:です|な|と)|可能|也许|或许|大概|说不定|考虑|好像|恐怕",
    re.IGNORECASE,
)
"""Words of somebody who is not sure, or only wishes, or speaks of what is over or did not come."""
_OPENING_voices = re.compile(
    r"(?:\w+\s+)?\b(?:glaube|guess|think|suppose|creo|crois)\b,?\s*(?:that\s+|dass\s+)?$",
    re.IGNORECASE,
)
"""A hedge directly before the quote, with or without a comma."""
_ASKED = re.compile(
    r"\s*(?:and |so |but |or )?(?:am|was|should|could|can|do|did|will|would|may|might|shall|have|has"
    r"|is|are|bin|soll|kann|habe)\s+(?:i|my|we|our|ich|mein\w*|wir)\b",
    re.IGNORECASE,
)
"""The beginning of a question about the writer ("Am I ...")."""

_RELATIVES = (
    r"(?:step|grand|half-|ex-)?(?:brother|sister|mother|father|mum|mom|dad|parent|son|daughter|child"
    r"|uncle|aunt|cousin|nephew|niece|ma|pa)(?:s|ren)?(?:-in-law)?|kids?|wife|husband|spouse|partner|fianc\w+"
    r"|(?:girl|boy)?friends?|neighbou?rs?|colleagues?|co-?workers?|boss|manager|roommate|flatmate"
    r"|ex|guy|lady|bloke|someone|teacher|doctor|buddy|mate|twin|family|landlord|client|customer"
    r"|mitbewohner(?:in)?|bruder|schwester|mutter|vater|mama|papa|eltern|sohn|tochter|kinder|onkel|tante|cousine|neffe|nichte"
    r"|oma|opa|frau|mann|freund(?:in)?|nachbar(?:in)?|kolleg(?:e|in)|chef(?:in)?|arzt|lehrer(?:in)?"
    r"|herman[oa]|madre|padre|mamá|papá|hij[oa]|espos[oa]|marido|novi[oa]|amig[oa]|vecin[oa]|jef[ea]|ti[oa]"
    r"|abuel[oa]|compañer[oa]|frère|sœur|soeur|mère|père|fils|fille|femme|mari|amie?|voisine?|collègue"
    r"|patron|oncle|fratello|sorella|figli[oa]|moglie|marito|amic[oa]|irmã[o]?|mãe|pai|брат|сестра|мама"
    r"|папа|муж|жена|друг|подруга"
)
_KIN = (
    "형|누나|언니|오빠|동생|엄마|아빠|어머니|아버지|부모님|친구|남편|아내|와이프|아들|딸|동료|상사|팀장님?|사장님?"
    "|이웃|옆집|할머니|할아버지|이모|삼촌|고모|사촌|조카|선배|후배|룸메이트?|선생님|의사(?: ?선생님)?|걔|그녀|그(?=[는가])"
)
_CJK_KIN = (
    "哥哥?|弟弟?|姐姐?|妹妹?|妈妈?|爸爸?|朋友|同事|老婆|老公|妻子|丈夫|儿子|女儿|老板|邻居|室友|爷爷|奶奶|他们?|她们?"
    "|兄|弟|姉|妹|母|父|友達|友人|彼女?|妻|夫|息子|娘|同僚|上司|隣人|祖母|祖父"
)
PERSON = re.compile(
    rf"\b(?:{_RELATIVES}|he|she|his|her|their|relatives?|people|contacts?)\b|{_KIN}|{_CJK_KIN}|가족",
    re.IGNORECASE,
)
"""Words by which a keyword or a value names another person."""
_NAMED = r"(?:\s+[^\W\d_a-z][^\W\d_]+)?"
_OTHER = re.compile(
    rf"(?:^|(?<=[,;:(]))\s*(?:(?:and|but|so|also|because|und|aber|y|pero|et|mais)\s+)?"
    rf"(?i:(?:\w+['\u2019]s|my|our|the|an?|one of my|some|mein\w*|unser\w*|mis?|nuestr\w+|m[oae]n?|mes|notre|mi[oa]|minha?"
    rf"|meu|мо[йя])\s+(?:\w+\s+)?(?:{_RELATIVES}))\b"
    rf"|\b(?i:(?:{_RELATIVES})){_NAMED}\s+(?:is|was|has|had|does|did|can|will|just|never|always|also|[a-z]+s"
    r"|ist|war|hat|kann|[a-zäöü]+t)\b"
    r"|\b(?i:he|she|they|he's|she's|elle|ella|lui|lei|он|она)\b(?!\s+and i\b)|\b(?:[Ee]r|[Ee]lle|[ÉEé]l)\b(?=\s)"
    r"|(?:^|(?<=[,;:]))\s*(?!(?:This|That|It|There|What|Nothing|Everything|Life|Work|Yes|One|We|You|Ich|Wir|Today|Who)\b)"
    r"[A-Z][a-zà-ÿ]+\s+(?:lives|works|speaks|likes|loves|hates|plays|studies|moved|wants|drives|eats|wohnt"
    r"|arbeitet|lernt|vive|trabaja|habite|travaille|(?:is|was|ist) (?:allergic|married|vegan|vegetarian|from|moving|learning|working|studying|an?|ein\w*))\b"
    r"|\b[Yy]our?\b(?=[ ]\w+[ ])|\b(?i:his|her|their|ihre?|seine?)\s+\w+\s+(?:is|are|was|ist|sind|war)\b"
    rf"|(?:{_KIN})\s?(?:은|는|이|가|도|께서(?:는)?|네는?|[이가]랑)(?=\s)|(?:{_CJK_KIN})[はがも]|(?:我(?:的|们)?)?(?:{_CJK_KIN})(?=\w)"
)  # fmt: skip
"""The beginning of a statement about another person."""
WRITER = re.compile(
    r"\b(?:I|i|we|We|I'm|ich|Ich|wir|Wir|yo|Yo|nosotros|je|Je|j'|nous|io|eu|я|Я)\b|저는|나는|전 |난 |제가|내가|저도|나도"
    r"|저희(?:는|도|가)|우리(?:는|도|가)|[我私僕](?!的|们的|の|哥|弟|姐|妹|妈|爸|朋|同|老|妻|丈|儿|女)"
)
"""The writer as the subject of a clause."""
_OBJECT = re.compile(r"\b(?:me|us|mich|mir|uns)\b")
"""The writer as an object: what another person gives or calls the writer is about both."""
REPORT = re.compile(
    r"\b(?:say|says|said|told|tells|claims?|claimed|thinks|thought|wrote|writes|texted|mentioned|insists|swears"
    r"|according to|goes(?=:)|(?:was|were|been) told|asks?(?: (?:if|whether))|asked (?:if|whether)|assumes?|(?:they|people|some|everybody) (?:\w+ )?call|apparently|supposedly|heard|read|rumou?rs?|meinte?n?|sagte?n?|behauptet\w*|laut|angeblich"
    r"|schrieb|erzählte?|dice|dijo|dicen|según|dit|disent|selon|paraît|dice che|secondo|disse|сказал\w*|говорит)\b"
    r"|[다라자냐]고\s?(?:했|해|하|그|말|들|적|써)|(?:는|한|간|된|온|산|있|었|았|했|겠|싫|좋)대요?(?=[\s.,!?]|$)|(?:이|으)래요?(?=[\s.,!?]|$)|에 따르면"
    r"|[他她们友妈爸事板生姐哥弟妹](?:跟我|常|总)?说|有人说|听说|据说|告诉我|によると|と言|って言|らしい|そうです|だって",
    re.IGNORECASE,
)
"""Words that report what somebody else said."""

_MARKED = re.compile(
    r"\"[^\"\n]{1,2000}\"|«[^»\n]{1,2000}»|「[^」\n]{1,2000}」|『[^』\n]{1,2000}』"
    r"|(?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w)){1,500}'(?!\w)"
    r"|```.{1,5000}?```|`[^`\n]{1,500}`|(?m:^[ \t]{0,8}>[^\n]*)",
    re.DOTALL,
)
"""Quoted passages: quotation marks, code and quoted lines of a reply."""
_HEADER = (
    r"(?:from|to|cc|subject|date|sent|von|an|betreff|gesendet|datum|de|para|asunto|fecha|objet|à"
    r"|보낸 ?사람|받는 ?사람|제목|날짜|发件人|收件人|主题|差出人|宛先|件名)[ \t]*:[^\n]*"
)
_MAIL = re.compile(
    rf"^[ \t]*{_HEADER}\n[ \t]*{_HEADER}|^[^\n]{{0,120}}\b(?:wrote|schrieb[^\n:]{{0,60}}|escribió|a écrit)\s?:[ \t]*$"
    r"|^-{2,}[ \t]*(?:original|forwarded|ursprüngliche|weitergeleitete|원본|전달)|^begin forwarded message",
    re.IGNORECASE | re.MULTILINE,
)
"""The beginning of a quoted mail, which takes the rest of the message."""
_FEW_WORDS_voices = 3
"""Quotation marks around so few words enclose a name or a title."""
_FEW_LETTERS = 12
"""The same in characters, for scripts without spaces."""


class Sentence:
    """The sentence around a quote."""

    def __init__(self, plain: str, start: int, end: int) -> None:
        ends = [found.end() for found in _SENTENCE_END.finditer(plain, max(start - 400, 0), start)]
        self.before = plain[ends[-1] if ends else max(start - 400, 0) : start]
        self.quote = plain[start:end]
        closing = _SENTENCE_END.search(plain, max(end - 1, start), end + 400)
        self.after = plain[end : closing.end()] if closing else plain[end : end + 400]
        self.closing = closing.group() if closing else ""

    def has_condition(self) -> bool:
        """Whether an "if" stands before, in or directly after the quote."""
        after = self.after.partition(",")[0]
        return any(_IF.search(part) for part in (self.before, self.quote, after))

    def is_question(self) -> bool:
        """Whether the quote is part of a question about the writer."""
        if "?" not in self.closing and "?" not in self.quote[-1:]:
            return False
        said = f"{self.before}{self.quote}"
        last = re.split(r"[,.!;\n]", said)[-1] if "," not in self.quote else said
        return _ASKED.match(said) is not None or _ASKED.match(last) is not None

    def is_hedged(self) -> bool:
        """Whether the clauses of the quote say that the writer is not sure."""
        before = re.split(r"[,;:]|\bbut\b|\baber\b", self.before)[-1]
        after, *further = re.split(r"[,;:]|\b(?:and|so|but|und|aber)\b", self.after)
        if further and len(further[0].split()) < _FEW_WORDS_voices:
            after += further[0]
        if (opening := _OPENING_voices.search(self.before)) is not None:
            before = opening.group()
        if not self.before.isascii() or not self.after.isascii():
            before = self.before  # a Korean or Japanese hedge may stand at either end
        return _HEDGE.search(f"{before}{self.quote}{after}") is not None

    def is_about_another(self, about: str) -> bool:
        """Whether the subject of the quote is another person, whom the item does not name.

        Args:
            about: Keyword, description and value of the item.
        """
        said = f"{self.before}{self.quote}"
        found = [each for each in _OTHER.finditer(said) if each.group().strip()]
        if not found or PERSON.search(about) or _OBJECT.search(self.quote):
            return False
        writers = [each.start() for each in WRITER.finditer(said)]
        if writers and writers[-1] >= found[-1].start():
            return False
        names = re.findall(r"[A-Z][\w'-]+", found[-1].group())
        return not any(name in about for name in names)

    def is_reported(self, about: str) -> bool:
        """Whether the quote stands in the report of another person's words."""
        said = f"{self.before}{self.quote}"
        # English and German report before the quote or after a comma, Korean and Japanese behind it.
        after = "" if self.after.isascii() and not self.after.startswith(",") else self.after
        for found in REPORT.finditer(f"{said}{after}"):
            between = said[found.end() : len(self.before)]
            before = said[: found.start()]
            writers = [each.end() for each in WRITER.finditer(before)]
            is_own = bool(writers) and len(before[writers[-1] :].split()) <= _FEW_WORDS_voices
            is_over = re.search(r"\w.*[,;:]|\b(?:so|but|and) I\b", between) is not None
            if is_own or (is_over and not between.startswith(":")):
                continue
            return between.startswith(":") or PERSON.search(about) is None
        return False


def is_sure(value: str) -> bool:
    """Whether a value has no word for an uncertainty or a wish."""
    return _UNSURE.search(value) is None


def quoted_spans(plain: str) -> list[tuple[int, int]]:
    """Return the parts of a message in quotation marks, code blocks, replies and mails."""
    spans = [found.span() for found in _MARKED.finditer(plain)]
    mail = _MAIL.search(plain)
    return spans if mail is None else [*spans, (mail.start(), len(plain))]


def is_quoted(spans: list[tuple[int, int]], plain: str, start: int, end: int) -> bool:
    """Whether a quote is inside a quoted part that is longer than a name or a title."""
    return any(
        first <= start and end <= last and _is_long(plain[first:last]) for first, last in spans
    )


def _is_long(quoted: str) -> bool:
    """Whether quotation marks enclose a statement, not a name or title."""
    inside = quoted.strip("\"'«»「」『』`> \n")
    return len(inside.split()) > _FEW_WORDS_voices or (
        not inside.isascii() and len(inside) > _FEW_LETTERS
    )


_SHORT = 8
"""A single word of fewer letters is in too many messages to prove anything."""
_SHORT_UNSPACED = 2
"""The same for Chinese, Japanese and Korean."""

_CLAUSE_END = re.compile(r"[.!?;,:\n()。！？，；、]|\s-\s")  # noqa: RUF001 - full width, on purpose
"""Where a clause ends: a negation beyond it belongs to something else."""
_CLAUSE = re.compile(r"[,;]|\b(?:but|and now|aber|und jetzt)\b")
"""Where a clause ends: a time beyond it belongs to something else."""
_FEW_WORDS = 4
"""A clause of so few words with a time is nothing but a time."""
_NOT_ONLY = re.compile(
    r"not (?:only|just)|no (?:doubt|problem)|nicht nur|뿐(?:만)? 아니라", re.IGNORECASE
)
"""Phrases that contain a negation and deny nothing."""
_NEGATIVE = re.compile(
    r"\b(?:no|not|non|never|none|without|avoid\w*|dislik\w*|hat(?:e|es|ed)|allerg\w*|intoleran\w*"
    r"|restrict\w*|limit\w*|avers\w*|fear\w*|former\w*|ex|free|cannot|can't|unable|lack\w*|lost"
    r"|quit\w*|stop\w*|end\w*|missing|problem\w*|worr\w*|reject\w*|decline\w*|refus\w*|diet\w*"
    r"|abneig\w*|ohne|kein\w*|nicht)\b|싫|못|안 |않|없|아니|제한|기피|알레르|알러지|过敏|不|没",
    re.IGNORECASE,
)
"""Words of a concept or a value that agree with a negation in the quote, as in "dislikes"."""
_JOKE = re.compile(
    r"\b(?:just |only )?(?:kidding|joking)\b|\bj/?k\b|(?<!\w)/s\b|\b(?:nur|kleiner) (?:ein )?scherz"
    r"|\bspaß beiseite|\bwar nur spaß|농담|개그였|장난이|ㅋㅋ+\s*농|开玩笑|冗談",
    re.IGNORECASE,
)
"""Words that take a message back as a joke."""
_OPENING = 40
"""The characters of the next message of the writer in which a joke may be taken back."""


def is_telling(quote: str, text: FoldedText, value: str) -> bool:
    """Whether a quote can prove a value: several words, the whole message, or the value itself."""
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


def ends(sentence: str, about: Iterable[str]) -> bool:
    """Whether a sentence can prove a retraction: it has a negation, or names what it retracts.

    Args:
        sentence: The quoted words and those around them.
        about: The keyword and description of the concept, and the old value.
    """
    said = stems(sentence)
    return has_negation(sentence) or any(said & stems(each.replace("-", " ")) for each in about)


def stated_period(
    item: Mapping[str, object],
    plain: str,
    span: tuple[int, int],
    said_at: datetime,
    *,
    is_event: bool = False,
) -> tuple[When | None, When | None]:
    """Return from when and until when a value holds, as far as its message says so.

    The words decide, and a model only says which of them it means: the precision is theirs, and a
    time that they do not name is left out.

    Args:
        item: The item, with `since` and `until` as a model wrote them.
        plain: The text of the message.
        span: The start and the end of the quote in it.
        said_at: When the message was written.
        is_event: Whether the value may be an event. Then "yesterday" says when it began, and not
            that it is over.
    """
    dates = [_first_date(item.get(role)) for role in ("since", "until")]
    if dates == [None, None]:
        return None, None
    sentence = Sentence(plain, *span)
    *earlier, before = _CLAUSE.split(sentence.before)
    after, *later = _CLAUSE.split(sentence.after)
    times = spoken_times(f"{before}{sentence.quote}{after}", said_at.date())
    if not times:  # "In March 2021, I started ..."
        short = [each for each in (*earlier, *later) if len(each.split()) <= _FEW_WORDS]
        times = [time for each in short for time in spoken_times(each, said_at.date())]
    since, until = (
        _supporting(written, role, times)
        for written, role in zip(dates, ("since", "until"), strict=True)
    )
    if is_event and since is not None and until is not None and since.start == until.start:
        until = None
    key = getattr(said_at.tzinfo, "key", "UTC")
    zone = "" if key == "UTC" else f"[{key}]"
    begin = None if since is None else When(since.text("since") + zone)
    finish = None if until is None else When(until.text("until") + zone)
    if begin is not None and finish is not None and finish.end <= begin.begin:
        return None, None
    return begin, finish


def _first_date(given: object) -> WrittenDate | None:
    dates = dates_in(given[:40])[0] if isinstance(given, str) else []
    return dates[0] if dates else None


def _supporting(
    written: WrittenDate | None, role: str, times: Sequence[SpokenTime]
) -> SpokenTime | None:
    """Return the time that a model means by a date; one with its role before one without."""
    span = None if written is None or written.year is None else written.span(written.year)
    if span is None:
        return None
    meant = [
        each
        for each in times
        if each.role in (role, "")
        and (
            (each.first <= span[0] and span[1] <= each.last)
            or (span[0] <= each.first and each.last <= span[1])
        )
    ]
    return max(meant, key=lambda each: each.role == role, default=None)


class Statement(NamedTuple):
    """The statement of an item, and its evidence."""

    keyword: str
    description: str
    text: str
    """The words of the value."""
    is_text: bool
    """Whether the value consists of the writer's words, unlike a number or a literal of a type."""
    number: int
    """The number of the cited message."""
    start: int
    """The start of the quote in the message's plain text."""
    end: int


class DoubtFinder:
    """Finds doubts about the items of one answer."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._shown: set[float] | None = None
        self._near: dict[int, _Near] = {}
        self._quoted: dict[int, list[tuple[int, int]]] = {}

    def doubts(self, statement: Statement) -> tuple[Doubt, ...]:
        """Return the doubts about a statement, in the order of `Doubt`."""
        plain = self._transcript.text(statement.number).plain
        near = self._near_of(statement.number)
        quote = plain[statement.start : statement.end]
        found: set[Doubt] = set()
        self._add_number_doubts(statement, near, quote, found)
        if statement.is_text and _is_foreign(statement.text, near):
            found.add(Doubt.WORDS)
        if _is_negated(statement, plain, quote):
            found.add(Doubt.NEGATION)
        found |= self._voice_doubts(statement, plain)
        if _JOKE.search(plain, statement.start) or _JOKE.search(near.next_words):
            found.add(Doubt.JOKE)
        return tuple(each for each in Doubt if each in found)

    def _add_number_doubts(
        self, statement: Statement, near: "_Near", quote: str, found: set[Doubt]
    ) -> None:
        if not any(char.isdigit() for char in statement.text):
            return
        dates, rest = dates_in(statement.text)
        quoted_years = years_in(quote)
        value_years = {each.year for each in dates if each.year is not None}
        if quoted_years and value_years and not quoted_years & value_years:
            found.add(Doubt.YEAR)
        if any(not self._date_follows(each, near) for each in dates):
            found.add(Doubt.NUMBER)
        for readings in written_numbers(rest):
            is_near = any(follows(each, near.numbers, near.said) for each in readings)
            if not is_near and not readings & self._all_numbers():
                found.add(Doubt.NUMBER)

    def _date_follows(self, written: WrittenDate, near: "_Near") -> bool:
        if written in near.dates:
            return True
        span = written.span(near.said.year)
        if span is None:
            return False
        first, last = span
        if first <= near.said <= last or any(
            first <= end and start <= last for start, end in near.counted
        ):
            return True
        if first == last and first.day in near.numbers and abs((first - near.said).days) <= 45:
            return True  # "on the 16th"
        numbers = self._all_numbers()
        parts = [part for part in (written.year, written.month, written.day) if part is not None]
        if written.month is None and written.year is not None:
            return follows(written.year, near.numbers | numbers, near.said)
        return all(part in numbers for part in parts)

    def _all_numbers(self) -> set[float]:
        if self._shown is None:
            self._shown = set()
            for each in self._transcript.messages:
                self._shown |= numbers_in(each.text)
        return self._shown

    def _near_of(self, number: int) -> "_Near":
        if number not in self._near:
            around = self._transcript.around(number)
            cited = next(each for each in around if each.number == number)
            self._near[number] = _Near(around, cited)
        return self._near[number]

    def _voice_doubts(self, statement: Statement, plain: str) -> set[Doubt]:
        """Return the doubts about who says it, about whom, and how surely."""
        sentence = Sentence(plain, statement.start, statement.end)
        about = f"{statement.keyword.replace('-', ' ')} {statement.description} {statement.text}"
        found: set[Doubt] = set()
        if is_sure(f"{statement.keyword} {statement.text}"):
            if sentence.has_condition():
                found.add(Doubt.CONDITION)
            if sentence.is_hedged():
                found.add(Doubt.HEDGE)
        if sentence.is_question():
            found.add(Doubt.QUESTION)
        if sentence.is_about_another(about):
            found.add(Doubt.PERSON)
        if statement.number not in self._quoted:
            self._quoted[statement.number] = quoted_spans(plain)
        spans = self._quoted[statement.number]
        if is_quoted(spans, plain, statement.start, statement.end) or sentence.is_reported(about):
            found.add(Doubt.QUOTATION)
        return found


class _Near:
    """The words, numbers and dates of a cited message and its neighbours."""

    def __init__(self, around: Sequence[SaidMessage], cited: SaidMessage) -> None:
        text = "\n".join(each.text[:20_000] for each in around)
        later = [each for each in around if each.number > cited.number and each.role == cited.role]
        self.next_words = later[0].text[:_OPENING] if later else ""
        """The first words of the writer's next message, which may retract the cited one."""
        self.said: date = cited.said_at.date()
        self.stems = stems(text)
        self.numbers = numbers_in(text)
        self.dates = dates_in(text)[0]
        self.counted = counted_days(text, self.said)


def _is_foreign(text: str, near: _Near) -> bool:
    """Whether no word and no number of a value is in the messages."""
    words = stems(text)
    has_number = any(readings & near.numbers for readings in written_numbers(text))
    return bool(words) and not words & near.stems and not has_number


def _is_negated(statement: Statement, plain: str, quote: str) -> bool:
    if has_negation(statement.text):
        return False
    about = f"{statement.keyword.replace('-', ' ')} {statement.description} {statement.text}"
    if has_negation(_NOT_ONLY.sub(" ", quote)):
        # "I don't like olives" for the value "olives": right for dislikes, wrong for favourites.
        value = normalized("NFKC", statement.text).casefold()
        place = quote.casefold().find(value)
        clause = _CLAUSE_END.split(quote.casefold()[: max(place, 0)])[-1]
        return place > 0 and has_negation(clause) and not _NEGATIVE.search(about)
    before = _CLAUSE_END.split(
        _NOT_ONLY.sub(",", plain[max(statement.start - 60, 0) : statement.start])
    )
    if has_negation(" ".join(before[-1].split()[-3:])) and not _NEGATIVE.search(about):
        return True
    after = _CLAUSE_END.split(plain[statement.end : statement.end + 60])[0]
    return has_negation(" ".join(after.split()[:1])) and not _NEGATIVE.search(about)
