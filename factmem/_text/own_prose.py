"""A writer's own prose: whether a message says something in the writer's own name.

Pasted text has endless forms, so this module lists what is accepted: sentences about the writer,
greetings, and requests to the assistant. Whatever else a message contains could introduce or
comment on a pasted text, and then no instruction of the message is the writer's own for certain.
"""

import re

from factmem._text.spelling import stems

_OPENERS = """
hi hello hey there thanks thank you very much lot good great nice fine morning evening ok okay yes
no yeah nope sure sorry right well oh actually also and but so then plus too again really just
always never only please kindly pls important remember note keep in mind that to from now on onwards
future forever later btw by the way today first second finally lastly one more another thing things
requests wishes preferences two three few some can could would will should do don't not make be want
need like us me general at all instead anyway though ever was perfect awesome helpful preference
wish is i i'd prefer rather when answering talking with for my our every each answer time reminder
it it's if possible forget about hallo moin guten tag morgen abend danke dir ihnen sehr ja nein gut
und aber außerdem noch bitte ab jetzt sofort künftig zukünftig zukunft der immer nie niemals nur
merk merke mir uns wichtig übrigens denk daran dass sollst solltest kannst könntest würdest du sie
antworte antworten eins etwas mal doch gern gerne auch jedes hola buenos buenas días tardes gracias
sí vale y pero además también por favor desde ahora de adelante en siempre nunca solo importante
recuerda que puedes podrías quiero partir bonjour salut merci oui non et mais aussi s'il te vous
plaît stp svp désormais à maintenant toujours jamais rappelle-toi tu peux pourrais veuillez 안녕
안녕하세요 네 아니요 고마워 고마워요 감사합니다 그리고 참 그런데 앞으로 앞으로는 이제 이제부터
이제부터는 지금부터 항상 언제나 늘 절대 꼭 좀 제발 부탁 부탁해 부탁해요 부탁드려요 부탁드립니다
기억해 기억해줘 줘 줘요 주세요 주십시오 주시면 좋겠어요 알았지 알겠지 나한테 저한테 저에게 나에게
"""
"""Words that only open or close a request."""
_UNSPACED = re.compile(
    r"(?:你好|您好|谢谢|好的?|请你?|麻烦你?|以后|从现在开始|从今以后|今后|记住|一直|总是|永远|都|别|不要|一定|要|吧|吗|好吗|哦"
    r"|こんにちは|ありがとう(?:ございます)?|はい|いいえ|これから(?:は)?|今後(?:は)?|いつも|必ず|常に|どうか|ください|下さい|お願い(?:します|いたします)?"
    r"|ね|よ|で|[\s,、，])*"  # noqa: RUF001 - full width
)
"""The same in scripts without spaces."""
_REQUEST = re.compile(
    r"(?:please |also |and |always |never |only |don't |do not |bitte |immer |nie )*"
    r"(?:answer|reply|respond|use|keep|write|speak|talk|call|address|be|avoid|format|give|show"
    r"|include|prefer|stop|no|short|shorter|leave|skip|antworte|lass|schreib\w*|nutze|verwende"
    r"|benutze|sprich|rede|nenn\w*|gib|sei|duze|sieze|kein\w*|vermeide|responde|contesta|usa"
    r"|escribe|habla|llámame|evita|sé|réponds|répondez|utilise\w*|écris|parle\w*|appelle\w*"
    r"|évite\w*)\b",
    re.IGNORECASE,
)
"""The beginning of a request about how the assistant should write."""
_ENDING = re.compile(
    r"(?:줘요?|주세요|마세요|하세요|말아 ?줘|지 ?마|ください|ないで|お願いします)$|^(?:请|不要|别)"
)
"""The form of such a request in Korean, Japanese and Chinese."""
_TEXT = re.compile(
    r"\b(?:e?-?mails?|messages?|letter|page|(?:web)?sites?|web|article|texts?|post(?:s|ed)?|sms"
    r"|flyers?|signs?|poster|invoice|polic\w+|quot\w+|documents?|pdf|files?|comments?|prompts?"
    r"|draft|lyrics|poem|novel|story|manual|label|screenshot|photo|picture|transcript|voicemail"
    r"|source|chat|tweet|threads?|blog|wiki|newsletter|spam|scam|notice|terms|bots?|content|link"
    r"|paragraph|this|these|following|below|above|here|found|got|received|gets?|copied|past(?:e|ed)"
    r"|sent|saw|seen|came|stumbled|translat\w+|summar\w+|explain\w*|means?|reads?|reading"
    r"|instructions?|system|nachricht\w*|briefe[ns]?"
    r"|(?:\w*ein\w*|d[eai][rmns]|dies\w*|per) brief\w*|seite\w*|artikel\w*|zettel|schild|hier"
    r"|dies\w*|folgend\w*|bekommen|bekam|erhalten|gefunden|gelesen|geschickt|steht|stand"
    r"|übersetz\w*|heißt|correo|mensaje|carta|página|texto|artículo|esto|este|esta|aquí|recib\w+"
    r"|encontr\w+|leí|traduc\w+|courriel|lettre|texte|ceci|cet?te|ce|ici|reçu|trouvé|lu|tradui\w+"
    r"|письм\w*|текст\w*|это|получил\w*|наш[её]л|переведи)\b|메일|문자|편지|메시지|글|기사|페이지"
    r"|사이트|쪽지|이거|이것|여기|다음|아래|위|받았|받은|봤|읽었|번역|요약|적혀|써 ?있|邮件|短信|信"
    r"|文章|网页|页面|收到|看到|翻译|这|メール|手紙|文章|記事|ページ|届い|もらっ|見つけ|読ん|訳"
    r"|これ|この",
    re.IGNORECASE,
)
"""Words that speak about a text."""
_OWN_WORDS = re.compile(
    r"\b(?:I|we|ich|wir|yo|je)\s+(?:\w+\s+)?(?:say|said|tell|told|write|wrote|ask|asked|mentioned"
    r"|mean|sage|sagte|schreibe)\b(?: you\b)?",
    re.IGNORECASE,
)
"""The writer's own speech, as in "when I write in English"."""
_SHORT_TITLE = re.compile(
    r"[\"“”„«「『][\w.'-]{1,30}(?: [\w.'-]{1,30}){0,4}[\"“”»」』]"
    r"|(?<!\w)'[\w.-]{1,30}(?: [\w.-]{1,30}){0,4}'(?!\w)"
)
"""A name or a title in quotation marks."""
_CONDITION = re.compile(
    r"\s*(?:if|when|whenever|unless|as(?= i\b)|wenn|falls|cuando|si|quand"
    r"|for (?=[\w ]+ (?:questions|topics|answers|tasks)))\b",
    re.IGNORECASE,
)
_CONTINUED = re.compile(
    r"(?:[,;(]\s*)?(?:and|or|but|even|when|whenever|if|because|unless|except|in|on|at|for|to|with"
    r"|without|since|so|not|only|until|while|please|than|und|oder|aber|auch|wenn|weil|außer|mit"
    r"|ohne|auf|für|bis|als|y|o|pero|cuando|porque|con|sin|en|et|ou|mais|quand|parce|avec|sans)\b",
    re.IGNORECASE,
)
"""Words that continue a request."""
_STATE = re.compile(
    r"\s*(?:(?:hi|hello|hey|ok|thanks|no|yes|well|also|and|but|because|as|since|so|denn|weil"
    r"|und)\b[,!]?\s+)*(?:"
    r"(?:i(?:'ve| have)? (?:\w+ly |just |still |always |do |don't |do not |can't |cannot )?"
    r"(?:have|like|love|hate|dislike|prefer|want|need|live|speak|work|use|learn|study|forget"
    r"|have got|got used)"
    r"|i(?:'m| am)(?= (?:not |\w+ly |an? |from |in |learning |living |working |studying )?"
    r"(?!\w+ing\b)[\w-]+(?: (?!(?:at|on|to|for)\b)\w+)*[.!]*\s*$)"
    r"|my (?:name|language|english|level|diet) is"
    r"|ich (?:bin|mag|habe|lerne|liebe|hasse|wohne|lebe|spreche|arbeite|bevorzuge|möchte|brauche"
    r"|heiße)|(?:yo )?(?:soy|estoy aprendiendo|me gustan?|vivo|hablo|prefiero|tengo|me llamo"
    r"|aprendo|trabajo|odio|necesito)|(?:je |j')(?:suis|aime|préfère|habite|vis|parle|apprends"
    r"|déteste|ai|m'appelle|travaille))\b|(?:저는|나는|전|난|제 이름은) "
    r"|我(?:是|叫|住|(?:不|很)?喜欢|在学|不?会)|私は)",
    re.IGNORECASE,
)
"""The beginning of a plain statement about the writer."""
_STATE_WORDS, _STATE_LETTERS = 10, 100
"""A longer statement may introduce something."""
_RELATED = re.compile(
    r"\b(?:you|your|how|what|who|which|that|about|else|other|example|regards|such|is an?|was|were"
    r"|would|dein\w*|ihr\w*|wie|was|wer|dass)\b",
    re.IGNORECASE,
)
"""Words by which a statement may speak of what stands beside it."""
_QUESTION = re.compile(
    r"\s*(?:what|who|where|when|which|how (?:many|much|far|old|long|tall|high)) (?!.*\b(?:it|they"
    r"|them|he|she|so|i|my|me|you|your|one)\b)(?-i:.*[ ](?:[A-Z]|\d)).*\?",
    re.IGNORECASE,
)
"""A question with a name or number, and without a word for something beside it."""
_SENTENCE = re.compile(r"(?<=[.!?。！？])(?:\s+|(?<=[。！？])|$)|;\s|\n+")  # noqa: RUF001 - full width
_FOREIGN_MARKS = re.compile(
    r"[<>{}|`\\=\[\]#@~^\"“”„«»「」『』《》【】〝〟\u2039\u203a_*/&$%©]|--|\t|[:：]\s*\S"  # noqa: RUF001
)
_ODD_MARKS = re.compile(
    r"[<>{}|`\\=\[\]#@~^\"“”„«»「」『』《》【】〝〟\u2039\u203a_*/&$%©;()…]|\.\."
    r"|-(?!\w)|(?<!\w)'|^\W*\w{1,2}:"
)
"""Marks that do not belong to a greeting."""
_TAG = re.compile(r"[\s,!.]*(?:ok|okay|please|alright|ja|vale|bitte)?\s?\?+\s*", re.IGNORECASE)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_ENDS = ".!?。！？\n"  # noqa: RUF001 - full width
_MOST_LINES = 6
_LONGEST_PART = 400
"""A message of more lines, or with a longer paragraph, reads as pasted."""

_RELATIVES = (
    r"(?:step|grand|half-|ex-)?(?:brother|sister|mother|father|mum|mom|dad|parent|son|daughter"
    r"|child|uncle|aunt|cousin|nephew|niece|ma|pa)(?:s|ren)?(?:-in-law)?|kids?|wife|husband|spouse"
    r"|partner|fianc\w+|(?:girl|boy)?friends?|neighbou?rs?|colleagues?|co-?workers?|boss|manager"
    r"|roommate|flatmate|ex|guy|lady|bloke|someone|teacher|doctor|buddy|mate|twin|family|landlord"
    r"|client|customer|mitbewohner(?:in)?|bruder|schwester|mutter|vater|mama|papa|eltern|sohn"
    r"|tochter|kinder|onkel|tante|cousine|neffe|nichte|oma|opa|frau|mann|freund(?:in)?"
    r"|nachbar(?:in)?|kolleg(?:e|in)|chef(?:in)?|arzt|lehrer(?:in)?|herman[oa]|madre|padre|mamá"
    r"|papá|hij[oa]|espos[oa]|marido|novi[oa]|amig[oa]|vecin[oa]|jef[ea]|ti[oa]|abuel[oa]"
    r"|compañer[oa]|frère|sœur|soeur|mère|père|fils|fille|femme|mari|amie?|voisine?|collègue|patron"
    r"|oncle|fratello|sorella|figli[oa]|moglie|marito|amic[oa]|irmã[o]?|mãe|pai|брат|сестра|мама"
    r"|папа|муж|жена|друг|подруга"
)
_KIN = (
    "형|누나|언니|오빠|동생|엄마|아빠|어머니|아버지|부모님|친구|남편|아내|와이프|아들|딸|동료|상사"
    "|팀장님?|사장님?|이웃|옆집|할머니|할아버지|이모|삼촌|고모|사촌|조카|선배|후배|룸메이트?|선생님"
    "|의사(?: ?선생님)?|걔|그녀|그(?=[는가])"
)
_CJK_KIN = (
    "哥哥?|弟弟?|姐姐?|妹妹?|妈妈?|爸爸?|朋友|同事|老婆|老公|妻子|丈夫|儿子|女儿|老板|邻居|室友|爷爷|奶奶|他们?|她们?"
    "|兄|弟|姉|妹|母|父|友達|友人|彼女?|妻|夫|息子|娘|同僚|上司|隣人|祖母|祖父"
)
_PERSON = re.compile(
    rf"\b(?:{_RELATIVES}|he|she|his|her|their|relatives?|people|contacts?)\b|{_KIN}|{_CJK_KIN}|가족",
    re.IGNORECASE,
)
"""Words by which a keyword or a value names another person."""
_REPORT = re.compile(
    r"\b(?:say|says|said|told|tells|claims?|claimed|thinks|thought|wrote|writes|texted|mentioned"
    r"|insists|swears|according to|goes(?=:)|(?:was|were|been) told|asks?(?: (?:if|whether))"
    r"|asked (?:if|whether)|assumes?|(?:they|people|some|everybody) (?:\w+ )?call|apparently"
    r"|supposedly|heard|read|rumou?rs?|meinte?n?|sagte?n?|behauptet\w*|laut|angeblich|schrieb"
    r"|erzählte?|dice|dijo|dicen|según|dit|disent|selon|paraît|dice che|secondo|disse|сказал\w*"
    r"|говорит)\b|[다라자냐]고\s?(?:했|해|하|그|말|들|적|써)|(?:는|한|간|된|온|산|있|었|았|했|겠|싫"
    r"|좋)대요?(?=[\s.,!?]|$)|(?:이|으)래요?(?=[\s.,!?]|$)|에 따르면"
    r"|[他她们友妈爸事板生姐哥弟妹](?:跟我|常|总)?说|有人说|听说|据说|告诉我|によると|と言|って言"
    r"|らしい|そうです|だって",
    re.IGNORECASE,
)
"""Words that report what another person said."""


class Prose:
    """A message, of which all that is not surely the writer's own counts as pasted."""

    def __init__(self, plain: str) -> None:
        self._plain = _SHORT_TITLE.sub(lambda title: " " * len(title.group()), plain)
        self._titles = stems(plain) - stems(self._plain)
        lines = plain.strip().split("\n")
        self._is_long = len(lines) > _MOST_LINES or max(map(len, lines)) > _LONGEST_PART
        sentences = [each for each in _SENTENCE.split(self._plain) if each.strip()]
        # What nothing stands beside was not pasted beside the writer's own words.
        self._is_one_sentence = len(sentences) == 1 and _is_short(sentences[0])

    def holds(self, start: int, end: int, value: str) -> bool:
        """Whether the writer says a quote and the words of its value in the own name."""
        if self._is_long or stems(value) & self._titles:
            return False
        if self._is_one_sentence:
            return True
        introduced = max(self._plain.rfind(mark, start, end - 1) for mark in ':\n"“”„«»')
        *others, before = _SENTENCE.split(self._plain[: max(start, introduced + 1)])
        behind = self._plain[end:]
        after, *later = _SENTENCE.split(behind.lstrip(_ENDS))
        if behind[:1] in _ENDS:
            after, later = "", [after, *later]
        return (
            _is_opening(_BULLET.sub("", before, count=1))
            and _is_ending(after)
            and all(map(_is_own, (*others, *later)))
        )


def _is_opening(text: str) -> bool:
    """Whether the words before a request are the writer's own."""
    if _is_formula(text):
        return True
    clause = re.sub(r"(?:\s*[,;:，、]|\s(?:so|and|also|und)\b)+\s*$", "", text)  # noqa: RUF001
    is_condition = _CONDITION.match(clause) is not None and not _PERSON.search(clause)
    return clause != text and (_is_state(clause) or (is_condition and _is_clean(clause)))


def _is_ending(text: str) -> bool:
    """Whether the words behind a request are the writer's own."""
    if _is_formula(text) or _is_state(text.strip(",;()-. ")):
        return True
    return _CONTINUED.match(text.strip()) is not None and _is_plain(text)


def _is_own(sentence: str) -> bool:
    """Whether a sentence is a greeting, a request, a question or about its writer."""
    text = _BULLET.sub("", f" {sentence}", count=1).strip()
    if _is_formula(text) or _is_state(text):
        return True
    asks = _REQUEST.match(text) or _ENDING.search(text.rstrip(".!~")) or _QUESTION.fullmatch(text)
    return asks is not None and _is_clean(text)


def _is_formula(text: str) -> bool:
    """Whether words only open or close a request."""
    openers = _OPENERS.split()
    if _ODD_MARKS.search(text) or ("?" in text and not _TAG.fullmatch(text)):
        return False
    words = re.findall(r"[^\W_][\w'-]*", text.replace("\u2019", "'").casefold())
    return all(word in openers or _UNSPACED.fullmatch(word) for word in words)


def _is_state(text: str) -> bool:
    return _STATE.match(text) is not None and _is_plain(text)


def _is_plain(text: str) -> bool:
    """Whether a statement is short, and refers to no text beside it and no other person."""
    return "?" not in text and _is_short(text) and not _RELATED.search(text)


def _is_short(text: str) -> bool:
    """Whether a sentence is short, and refers to no text and no other person."""
    is_short = len(text.split()) <= _STATE_WORDS and len(text) <= _STATE_LETTERS
    return is_short and _is_clean(text) and not _PERSON.search(text)


def _is_clean(text: str) -> bool:
    """Whether nothing in a sentence speaks of a text or of what others say."""
    return not (speaks_of_text(text) or _FOREIGN_MARKS.search(_OWN_WORDS.sub(" ", text)))


def speaks_of_text(words: str) -> bool:
    """Whether words speak of a text, or of what others say: "Translate into German", "He wrote"."""
    rest = _OWN_WORDS.sub(" ", words)
    return bool(_TEXT.search(rest) or _REPORT.search(rest))
