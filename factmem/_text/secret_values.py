"""Secrets in values and quotes: passwords, keys and card numbers, recognised by patterns."""

import re
from collections.abc import Iterable, Iterator
from operator import ne
from typing import Any

from factmem.models.facts import Concept

_MASK = "[secret]"
_AROUND = "\"'.,;!?)"

_KEYS = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-(?=[\w-]*\d|[\w-]*[A-Za-z]{16})[A-Za-z0-9_-]{16,}"
    r"|sk_(?:live|test)_[A-Za-z0-9]{10,}|rk_live_[A-Za-z0-9]{10,}"
    r"|AKIA[A-Z0-9]{16}|ASIA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}"
    r"|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|xox[abeprs]-[A-Za-z0-9-]{10,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}"
    r"|pypi-[A-Za-z0-9_-]{30,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"
    r"|Bearer\s+[\w.~+/-]{16,}|(?=[A-Z0-9-]*[A-Z]\d)(?:[A-Z0-9]{4,6}-){3,}[A-Z0-9]{4,6}(?![-\w])"
    r")"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"
    r"|(?<=://)[^\s/:@]{1,100}:[^\s/@]{1,100}(?=@)"
)
"""Keys with a prefix of their vendor, tokens, private keys, and passwords in addresses."""

_CARD = re.compile(r"(?<![\d.-])[2-6]\d{3}(?:[ -]?\d){9,15}(?![\d.-])")
"""Digits that may be a card number; the issuer's lengths and a checksum decide."""
_ISSUED = re.compile(
    r"4\d{15}(?:\d{3})?|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|3[068]\d{12}|35\d{14}"
    r"|6(?:011|4[4-9]\d|5\d\d)\d{12}|62\d{14,17}|(?:50|5[6-9]|6[0-9])\d{12,17}"
)
"""First digits and lengths of the issuers. Without them one article number of ten, which has 13
digits, would be a card."""

_WORDS = (
    r"(?:pass ?words?|pass ?codes?|pass ?phrases?|passwd|pwd|pw|(?:pass|tokens?)(?=\s*[:=])"
    r"|p[iy]n(?:[ -]?codes?|-?kode| numbers?)?|cvv|cvc"
    r"|(?:api|secret|private|access|licen[cs]e|encryption|recovery|seed)[ -]?"
    r"(?:keys?|tokens?|codes?|phrases?)|(?:backup|2fa|one-time) ?codes?"
    r"|(?:door|gate|entry|alarm|unlock|security|wi-?fi|router)[ -]?(?:keys?|codes?)"
    r"|(?:wlan|wi-?fi)-?schlüssel|(?:tür|zugangs|entsperr|toegangs)-?codes?|digicodes?"
    r"|пин(?:-?код\w{0,2})?|codes? (?:d'(?:accès|entrée)|(?:de la porte|du wifi),?)"
    r"|(?:mi|la|tu) clave(?= es |:| de )|claves? del? (?:wi-?fi|router|banco|correo)"
    r"|código de (?:acceso|seguridad)|(?:credit |debit |bank )?card ?numbers?|passw(?:ort|örter)"
    r"|kennw(?:ort|örter)|geheimzahl|contraseñas?|mots? de passe|codes? secrets?|senhas?"
    r"|palavras?-passe|парол[ьяюем]|wachtwoord(?:en)?|hasł[oa]|şifre\w{0,4}|parol[ae] d'ordine"
    r"|parola mea|mật khẩu|kata sandi|lösenord|passord|adgangskode|salasana|hesl[oa]|jelsz\w{1,3}"
    r"|κωδικ\w{2,3}|كلمة (?:السر|المرور)|סיסמ\w{1,2}|पासवर्ड)(?![^\W_]|[-/&+])"
)
_KOREAN = r"(?:비밀번호|비번|암호|카드 ?번호)(?:을|를|은|는|이|가)?(?![^\W\d_]|[/&+])"
_UNSPACED = r"パスワード|暗証番号|密[码碼](?!学|學)|비밀번호|รหัสผ่าน"
_NAMES = rf"{_WORDS}|{_KOREAN}|{_UNSPACED}"
"""What people call a secret when they state one. The name is a whole word: pineapples,
Pinterest, passwordless logins and password-managers are none."""
_STATED = re.compile(
    rf"(?:(?<![^\W_])(?:{_NAMES})|{_UNSPACED})\s*+"
    r"(?:(?:for|to|of|von|vom|für|del?|du)\s+(?:\S+\s+){1,4}?"
    r"(?=is |was |:|ist |lautet |es |est |é |è ))?"
    r"(?:are )?(is |was |ist |lautet |es |(?:c')?est |é |è |to |→|=|:|は|是|คือ)?\s*+"
    r"[\"']?(\S{3,200})([^\n]{0,9})",
    re.IGNORECASE,
)
_NAMED = re.compile(rf"(?:(?<![^\W_])(?:{_NAMES})|{_UNSPACED})([^\n]{{0,100}})", re.IGNORECASE)
"""The name of a secret, and what follows it: a word there is one only if it looks like a code."""
_CODE = re.compile(
    r"(?<![^\W_])(?:codes?|c[oó]digos?|codic[ei]|claves?|[ck]ombina(?:tion|ci[oó]n|ção|zione)"
    r"|kod(?:u|e|ed|en)?|код\w{0,2}|cvv|cvc|mã|รหัส)(?![^\W_])|번호|[门門]禁码|コード|番号|รหัส"
    r"|(?<=[门門柜箱])码",
    re.IGNORECASE,
)
_ENTERED = re.compile(
    r"(?<![^\W_])(?:unlock\w*|opens?|enter|press|punch|tap|disarm|(?:log|sign|get)s? in(?:to)?"
    r"|öffne\w*|aufgeht|entsperr\w*|tipps?t?e?|gib|drück\w*|abgeschlossen|abr[eoi]\w*|marc[oa]r?"
    r"|tecle\w+|puls[oa]r?|pong?o|desblo\w+|ouvr\w+|tap(?:e[rsz]?|ez)|compose[rsz]*|apr(?:e|o|ire)"
    r"|digit(?:a|i|o|ar|are|e)|s?blocc\w+|toets\w*|typ|отк\u0440\w+|наб[ие]\u0440\w+|введи\w*"
    r"|захожу|otwier\w+|wpis\w+|odblok\w+|aç\u0131l\w+|aç(?:\u0131yor|mak)\w*|gir(?:iyor|mek)\w*"
    r"|tuşl\w+|yaz[\u0131i]\w+|bấm|nhập|mở|gõ|auke\w+|avat?a\w*|näppäil\w+|paina\w*|knappa\w*"
    r"|öppna\w*|slår|[يتأ]فتح|أ?[كد]تب|أ?دخل)(?![^\W_])|누르|눌러|입력|열[리려]|풀[어려리]|치[면고]"
    r"|들어[가갈와]|押|入力|開|入[るれ]|[按输開开]|กด|เปิด|ใส่|खुल|खोल|डाल|दबा",
    re.IGNORECASE,
)
"""What one does with a code, in a sentence or in the description of a keyword."""
_THINGS = (
    r"(?:(?:\w+-?)?door|gate|safe|vault|al(?:l)?arm\w*|(?:pad|door|bike)? ?lock(?:er|box)?|key ?pad"
    r"|garage|shed|cabinet|\w*card|luggage|suitcase|koffer|(?:garten|hof)?tor|tresor"
    r"|[^\W_]{0,20}(?:türe?|schloss|fach|karte|deur|slot|automat)|eingang|zugang|puerta|portal"
    r"|caja fuerte|candado|taquilla|cajero|tarjeta|maleta|porte|portail|coffre|cadenas|valise|carte"
    r"|immeuble|parking|porta|portone|cancello|cassaforte|bancomat|lucchetto|valigia|carta|portão"
    r"|cofre|cartão|cadeado|mala|poort|kluis|larm|ovi|luk(?:ko|on)|domofon\w?|bankoma\w+|bram[ay]"
    r"|drzwi|sejf\w?|karta|kłódk\w|kap\u0131\w*|kasa|kart|kili[dt]\w*|cửa|két|thẻ|khóa|домофон\w?"
    r"|сейф\w?|зам(?:ок|к\w)"
    r"|чемодан\w?|двер\w{1,2}|подъезд\w?|карт\w|باب|بطاقة|قفل|ताल[ाे]|तिजोरी|दरवाज़\w+)"
)
_UNSPACED_THINGS = (
    r"현관|도어락|금고|사물함|카드|자물쇠|玄関|ドア|金庫|ロッカー|カード|スーツケース|鍵|[门門锁卡]"
    r"|保险箱|储物柜|行李箱|ประตู|ตู้เซฟ|ล็อกเกอร์|บัตร|กุญแจ"
)
_LOCKED = re.compile(rf"(?<![^\W_]){_THINGS}(?![^\W_])|{_UNSPACED_THINGS}", re.IGNORECASE)
"""Things that a code opens. A number without a unit beside one is a code; a postal code is not."""
_DEVICE = re.compile(
    r".*(?:phone|mobile|[ti]pad|tablet|laptop|computer|rechner|handy|t[eé]l[eé]f|móvil|폰|スマホ"
    r"|手机|มือถือ)",
    re.IGNORECASE,
)
"""Names of models look like passwords: the code of a device has digits alone, or many changes."""
_ENTRY = re.compile(
    rf"(?:.* )?(?:{_THINGS}|wi ?fi|w?lan|router|modem|network|hotspot|sim|voice ?mail|bank|pankki"
    r"|\w*banking|atm|log ?in|sign ?in|account|(?:e ?)?mail(?:box)?|posta|correo|почта|\w*unlock"
    r"|access|entry|entrance|intercom|verification|authenticat(?:ion|or)|2fa|otp|tan|recovery"
    rf"|wallet|activation)|.*(?:{_UNSPACED_THINGS}|인증|와이파이|ログイン|メール)",
    re.IGNORECASE,
)
"""Keywords of what is entered with a code: a bare code under one is no size, price or date."""
_EXPLAINED = re.compile(
    r".*(?<!acces)s|.*\b(?:number|size|price|cost|salary|income|rent|age|year|built|date|time|hour"
    r"|opening|score|room|flight|train|bus|address|(?:post|zip) ?(?:al )?code|postcode|zip"
    r"|extension|version|model|plate|id|order|weight|height|distance|user ?name|handle|code ?name"
    r"|speed|budget|balance|amount|count|rating|level)\b.*",
    re.IGNORECASE,
)
"""Keywords that say what a number counts or names, plurals among them."""
_BEFORE = re.compile(
    r"(\S{4,40})[\"',]* (?:is|'s|that's|ist|das ist|es|est|c'est|è) (?:[^\W_]{2,9} ){0,2}"
    rf"(?:{_NAMES})\s*(?:$|[.,;!]|(?:for|für|para|pour|per|von|de|di)\b)",
    re.IGNORECASE | re.MULTILINE,
)
"""A code that stands before its name: "tulip77, that's the password"."""
_PHRASE = re.compile(
    r"(?:seed|recovery|pass|secret) ?phrase (?:is|was|:)\s*((?:[a-z]{3,9}(?: |$|(?=[.,]))){4,24})",
    re.IGNORECASE,
)
"""A phrase of words that is called one; those of wallets are seen by their number."""
_WORDS_OF_A_WALLET = frozenset({12, 15, 18, 21, 24})
_WALLET_WORD = re.compile(r"[a-z]{3,8}")
_PRODUCT = re.compile(r"pass|key|pin\d", re.IGNORECASE)
"""What products for secrets are called: "1Password"."""
_KEYWORD = re.compile(rf"(?:^|.*[ -])(?:{_NAMES})", re.IGNORECASE)
_QUESTION = re.compile(r"(?:security|recovery|secret) (?:question|answer)", re.IGNORECASE)
_AMOUNT = re.compile(r"\d+(?:[.,:h]\d+[^\W\d_]{0,4}|[^\W\d_]{1,4})")
"""A time, a decimal, or a number with its unit: "8.30", "45kg"."""
_PASSWORD = re.compile(r"(?=.*\d)[^\W\d_][!$*](?=\w)")
_DIALLED = re.compile(r"(?<![\d-])(?<!\d )(?:\d(?:-\d){2,7}|\d{3} \d{3}(?<!000))(?![\d-]| \d)")
"""Digits as people say codes: one by one, or in two groups of three."""
_NO_DIGIT = re.compile(r"\D")
_STRONG_MARK = re.compile(r"[^\W_][!#$%^&*_+~?](?=\w)")
"""A mark of passwords within a word."""
_MARKS = frozenset("!@#$%^&*_=+~?")
"""Marks of passwords. Others join ordinary words: "password/PIN", "passwords (old)"."""


def is_secret(keyword: str, value: str, stated: Iterable[str], *, about: str | None = None) -> bool:
    """Whether a value, which quotes state, looks like a password, a key or a card number.

    Args:
        keyword: The keyword.
        value: The value.
        stated: The quote, and what stands around it.
        about: What speaks of a made-up keyword: the sentence and the description. None for a
            declared one.
    """
    if _KEYS.search(value) or any(_is_card(each.group()) for each in _CARD.finditer(value)):
        return True
    words = value.split()
    if len(words) in _WORDS_OF_A_WALLET and all(map(_WALLET_WORD.fullmatch, words)):
        return True
    # Under a keyword that names a secret, the value alone is enough evidence.
    if _KEYWORD.fullmatch(keyword.replace("-", " ")) and _is_code(value):
        return True
    said = {each for text in stated for each in _stated(text)}
    is_said = any(_is_same(each, word) for each in said for word in words)
    is_code = about is not None and _opens_thing(keyword, value, about)
    return is_said or is_code or any(map(_is_code, _stated(value)))


def _opens_thing(keyword: str, value: str, said: str) -> bool:
    """Whether a value is the code of what a made-up keyword names: "safe: 8260"."""
    head, bare = keyword.replace("-", " "), value.strip(_AROUND + "#* ")
    words = re.findall(r"[^\s/,]+", bare)
    if _QUESTION.search(f"{head}\n{said}") or any(map(_PASSWORD.search, words)):
        return True
    if _EXPLAINED.fullmatch(head) or not words:
        return False
    if any(_dialled(value)):
        return True
    is_entered, is_device = _ENTERED.search(said) is not None, _DEVICE.fullmatch(head) is not None
    is_entry = is_device or _ENTRY.fullmatch(head) is not None
    if re.fullmatch(r"\d[\d -]*", bare):
        digits = _NO_DIGIT.sub("", bare)
        # PINs of devices have 4 or 6 digits. Three digits need a verb like "enter" beside them.
        sizes = {4, 6} if is_device else range(3 if is_entered else 4, 9)
        is_near = is_entered or _LOCKED.search(said) is not None
        # A lower-case word after the digits is what they count: "8260 steps".
        is_counted = re.search(rf"\b{bare} [^\W\d_A-Z]{{4,}}", said) is not None
        is_code = (
            len(digits) in sizes and _opens(bare) and (is_entry or (is_near and not is_counted))
        )
        return is_code or len(digits) >= 20 or digits in _dialled(said)
    # Names of devices have digits too ("iPhone15"), so their codes need more changes.
    changes = max(map(_changes, words))
    is_code = changes >= (4 if is_device else 1) and all(map(_opens, words))
    is_random = changes >= 6 and len(bare) >= 16
    return is_random or (is_code and (is_entry or is_entered or _is_locked(said)))


def _is_locked(sentence: str) -> bool:
    """Whether a sentence names a thing that is locked, and a code or what is done with it."""
    is_code = _CODE.search(sentence) or _ENTERED.search(sentence)
    return is_code is not None and _LOCKED.search(sentence) is not None


def _dialled(text: str) -> Iterator[str]:
    """Yield the digits of codes that are said one by one; a football formation has ten players."""
    for each in _DIALLED.finditer(text):
        digits = _NO_DIGIT.sub("", each.group())
        if sum(map(int, digits)) != 10:
            yield digits


def _changes(word: str) -> int:
    """Return how often a word of four or more changes between letters and digits."""
    kinds = [char.isdecimal() for char in word if char.isalnum()]
    return sum(map(ne, kinds, kinds[1:])) if len(kinds) > 3 else 0


def masked(text: str) -> str:
    """Return a quote without the secrets in it, so that no fact stores them as its evidence."""
    text = _CARD.sub(lambda card: _MASK if _is_card(card.group()) else card.group(), text)
    text = _KEYS.sub(_MASK, text)
    text = _PHRASE.sub(lambda each: each.group().replace(each.group(1), _MASK), text)
    for word in _stated(text):
        if _is_code(word):
            text = text.replace(word, _MASK)
    return text


def asks_for_secrets(concepts: Iterable[Concept[Any, Any]]) -> frozenset[str]:
    """Return the keywords of declared concepts that ask for a secret by keyword or description."""
    asked = re.compile(rf"(?<![^\W_])(?:{_NAMES})(?![^\W_])", re.IGNORECASE)
    return frozenset(
        concept.keyword
        for concept in concepts
        if asked.search(f"{concept.keyword.replace('-', ' ')} {concept.description}"[:2_000])
    )


def _stated(text: str) -> list[str]:
    """Return the words that a string states as a password, a key or a card number.

    A plain word is one if it ends its clause: "my password is swordfish", but not "my password is
    too long".
    """
    found, text = list[str](), text[:4_000]
    for each in _STATED.finditer(text):
        is_said, given, after = each.groups()
        word = given.strip(_AROUND)
        is_last = given != word or not after.strip() or not after[:1].isspace()
        if _is_code(word) or (is_said and is_last and len(word) > 2):
            found.append(word)
    # After the name of a secret, only words that look like codes are taken.
    for each in _NAMED.finditer(text):
        clause = re.split(r"[.,;!?](?:\s|$)|。", each.group(1).lstrip(" ,?"))[0]
        found += [
            word for word in _words(clause) if _is_strong_code(word) and not _PRODUCT.search(word)
        ]
        rest = re.split(r"[.;!?](?:\s|$)|。", each.group(1))[0].split()
        found += [word.strip(_AROUND) for word in rest if _STRONG_MARK.search(word)]
    for sentence in re.split(r"[.;!?](?:\s|$)|[。\n]", text):
        if _is_locked(sentence):
            found += filter(_opens, _words(sentence))
    before = (each.group(1).strip(_AROUND) for each in _BEFORE.finditer(text))
    found += filter(_is_strong_code, before)
    for each in _PHRASE.finditer(text):
        found += each.group(1).split()
    for each in _KEYS.finditer(text):
        found += filter(_is_strong_code, each.group().split())
    return found


def _words(text: str) -> Iterator[str]:
    return (word.strip(_AROUND) for word in re.split(r"[\s:=是は]+", text))


def _opens(word: str) -> bool:
    """Whether a word with a digit or mark may be a code: it is no year, time or amount."""
    # Four digits may be a time, which ends with 0 or 5 when people say it, or a year.
    bare = "".join(filter(str.isalnum, word))
    if bare.isdecimal() and len(bare) == 4:
        is_time = int(bare[:2]) < 24 and int(bare[2:]) < 60 and bare[3] in "05"
        return not is_time and not 1900 <= int(bare) <= 2040
    has_digit = any(map(str.isdecimal, bare)) and not _AMOUNT.fullmatch(word)
    return len(bare) > 2 and (has_digit or _STRONG_MARK.search(word) is not None)


def _is_strong_code(word: str) -> bool:
    """Whether a word mixes letters with digits or marks, or is a PIN; no year and no ordinal."""
    word = word.strip("#*").replace("-", "") if not any(map(str.isalpha, word)) else word
    if word.isdecimal():
        return 4 <= len(word) <= 8 and not 1900 <= int(word[:4]) <= 2040
    has_letter, has_digit = (any(map(kind, word)) for kind in (str.isalpha, str.isdigit))
    return len(word) > 5 and has_letter and (has_digit or bool(_MARKS & set(word.rstrip("!?"))))


def _is_same(word: str, part: str) -> bool:
    """Whether a stated word is a part of a value, perhaps with an ending: "hana1234예요"."""
    part = part.strip(_AROUND)
    if any(map(str.isdecimal, part)) and re.sub(r"\W", "", word) == re.sub(r"\W", "", part):
        return True
    return word == part or (
        _is_code(part) and word.startswith(part) and not word[len(part)].isascii()
    )


def _is_code(value: str) -> bool:
    """Whether one word, or digits, could be the secret itself and no word about it."""
    word = value.strip(_AROUND)
    if not word or len(word.split()) > 4 or word == _MASK:
        return False
    if len(word.split()) > 1:
        return any(map(str.isdigit, word)) and all(not part.isalpha() for part in word.split())
    has_digit = any(char.isdigit() for char in word)
    is_mixed = any(char.isupper() for char in word[1:]) and not word.isupper()
    return has_digit or bool(_MARKS & set(word)) or (is_mixed and word.isalpha())


def _is_card(text: str) -> bool:
    """Whether digits are a card number: issued, with the checksum of ISO/IEC 7812."""
    digits = [int(char) for char in text if char.isdecimal()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    is_issued = _ISSUED.fullmatch("".join(map(str, digits))) is not None
    return is_issued and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
