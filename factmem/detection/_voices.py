"""Voices: which words of a message are its writer's own, are about the writer, and are sure of it.

`Sentence` reads the sentence around a quote: conditions, questions, hedges, other persons and reported
speech. `quoted_spans` finds the parts of a message that others wrote. Every word list flags wrong answers of `benchmarks/detection`; a rule that flagged none is not here.
"""

import re

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
_OPENING = re.compile(
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
_FEW_WORDS = 3
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
        if further and len(further[0].split()) < _FEW_WORDS:
            after += further[0]
        if (opening := _OPENING.search(self.before)) is not None:
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
            is_own = bool(writers) and len(before[writers[-1] :].split()) <= _FEW_WORDS
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
    return len(inside.split()) > _FEW_WORDS or (not inside.isascii() and len(inside) > _FEW_LETTERS)
