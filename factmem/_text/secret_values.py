"""Secrets in values and quotes: passwords, keys and card numbers, recognised by patterns."""

import re
from collections.abc import Iterable, Iterator
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
    r"(?:pass ?words?|pass ?codes?|pass ?phrases?|passwd|pwd|pw|(?:pass|tokens?)(?=\s*[:=])|p[iy]n(?:[ -]?codes?|-?kode| numbers?)?|cvv|cvc"
    r"|(?:api|secret|private|access|licen[cs]e|encryption|recovery|seed)[ -]?"
    r"(?:keys?|tokens?|codes?|phrases?)|(?:backup|2fa|one-time) ?codes?"
    r"|(?:door|gate|entry|alarm|unlock|security|wi-?fi|router)[ -]?(?:keys?|codes?)"
    r"|(?:wlan|wi-?fi)-?schlüssel|(?:tür|zugangs|entsperr|toegangs)-?codes?|digicodes?|пин(?:-?код\w{0,2})?|codes? (?:d'(?:accès|entrée)|(?:de la porte|du wifi),?)"
    r"|(?:mi|la|tu) clave(?= es |:| de )|claves? del? (?:wi-?fi|router|banco|correo)|código de (?:acceso|seguridad)"
    r"|(?:credit |debit |bank )?card ?numbers?|passw(?:ort|örter)|kennw(?:ort|örter)|geheimzahl"
    r"|contraseñas?|mots? de passe|codes? secrets?|senhas?|palavras?-passe|парол[ьяюем]|wachtwoord(?:en)?"
    r"|hasł[oa]|şifre\w{0,4}|parol[ae] d'ordine|parola mea|mật khẩu|kata sandi|lösenord|passord|adgangskode|salasana"
    r"|hesl[oa]|jelsz\w{1,3}|κωδικ\w{2,3}|كلمة (?:السر|المرور)|סיסמ\w{1,2}|पासवर्ड)(?![^\W_]|[-/&+])"
)
_KOREAN = r"(?:비밀번호|비번|암호|카드 ?번호)(?:을|를|은|는|이|가)?(?![^\W\d_]|[/&+])"
_UNSPACED = r"パスワード|暗証番号|密[码碼](?!学|學)|비밀번호|รหัสผ่าน"
_NAMES = rf"{_WORDS}|{_KOREAN}|{_UNSPACED}"
"""What people call a secret when they state one. The name is a whole word: pineapples,
Pinterest, passwordless logins and password-managers are none."""
_STATED = re.compile(
    rf"(?:(?<![^\W_])(?:{_NAMES})|{_UNSPACED})\s*+"
    r"(?:(?:for|to|of|von|vom|für|del?|du)\s+(?:\S+\s+){1,4}?(?=is |was |:|ist |lautet |es |est |é |è ))?"
    r"(?:are )?(is |was |ist |lautet |es |(?:c')?est |é |è |to |→|=|:|は|是|คือ)?\s*+[\"']?(\S{3,200})([^\n]{0,9})",
    re.IGNORECASE,
)
_NAMED = re.compile(rf"(?:(?<![^\W_])(?:{_NAMES})|{_UNSPACED})([^\n]{{0,100}})", re.IGNORECASE)
"""The name of a secret, and what follows it: a word there is one only if it looks like a code."""
_CODE = re.compile(
    r"(?<![^\W_])(?:codes?|c[oó]digos?|codic[ei]|claves?|[ck]ombina(?:tion|ci[oó]n|ção|zione)|kod(?:u|e|ed|en)?|код\w{0,2}|unlock"
    r"|cvv|cvc|mã|รหัส)(?![^\W_])|번호|[门門]禁码|コード|番号|รหัส|(?<=[门門柜箱])码",
    re.IGNORECASE,
)
_LOCKED = re.compile(
    r"(?<![^\W_])(?:doors?|gate|safe|al(?:l)?arm\w?|lock(?:er)?|padlock|phone|garage|building|card|office|luggage|suitcase|koffer|büro|tor|tresor|handy"
    r"|[^\W_]{0,20}(?:türe?|schloss|karte|deur)|puerta|portal|caja fuerte|candado|tarjeta|porte|portail|immeuble|coffre|cadenas|valise|bureau|carte|maleta|mala|oficina"
    r"|porta|portone|cancello|cassaforte|bancomat|valigia|ufficio|carta|portão|cofre|cartão|poort|kluis|slot|домофон\w?|сейф\w?|зам(?:ок|к\w)|чемодан\w?|офис\w?|двер\w{1,2}"
    r"|подъезд\w?|карт\w|domofon\w?|bram[ay]|drzwi|sejf\w?|kap\u0131|kasa|cửa|két)(?![^\W_])"
    r"|현관|도어락|금고|사물함|玄関|ドア|金庫|ロッカー|スーツケース|[门門]|保险箱|储物柜|ประตู|ตู้เซฟ",
    re.IGNORECASE,
)
"""A number is a secret beside words of both kinds: a postal code opens nothing."""
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
_PRODUCT = re.compile(r"pass|key|pin\d", re.IGNORECASE)
"""What products for secrets are called: "1Password"."""
_KEYWORD = re.compile(rf"(?:^|.*[ -])(?:{_NAMES})", re.IGNORECASE)
_STRONG_MARK = re.compile(r"[^\W_][!#$%^&*_+~?](?=\w)")
"""A mark of passwords within a word."""
_MARKS = frozenset("!@#$%^&*_=+~?")
"""Marks of passwords. Others join ordinary words: "password/PIN", "passwords (old)"."""


def is_secret(keyword: str, value: str, quote: str) -> bool:
    """Whether a value, which a quote states, looks like a password, a key or a card number."""
    if _KEYS.search(value) or any(_is_card(each.group()) for each in _CARD.finditer(value)):
        return True
    if _KEYWORD.fullmatch(keyword.replace("-", " ")) and _is_code(value):
        return True
    parts = value.split()
    return any(_is_same(word, part) for word in _stated(quote) for part in parts) or any(
        map(_is_code, _stated(value))
    )


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
    for each in _NAMED.finditer(text):
        clause = re.split(r"[.,;!?](?:\s|$)|。", each.group(1).lstrip(" ,?"))[0]
        found += [
            word for word in _words(clause) if _is_strong_code(word) and not _PRODUCT.search(word)
        ]
        rest = re.split(r"[.;!?](?:\s|$)|。", each.group(1))[0].split()
        found += [word.strip(_AROUND) for word in rest if _STRONG_MARK.search(word)]
    for sentence in re.split(r"[.;!?](?:\s|$)|[。\n]", text):
        if _CODE.search(sentence) and _LOCKED.search(sentence):
            found += filter(_opens, _words(sentence))
    before = (each.group(1).strip(_AROUND) for each in _BEFORE.finditer(text))
    found += filter(_is_strong_code, before)
    for each in _PHRASE.finditer(text):
        found += each.group(1).split()
    return found


def _words(text: str) -> Iterator[str]:
    return (word.strip(_AROUND) for word in re.split(r"[\s:=是は]+", text))


def _opens(word: str) -> bool:
    """Whether a word of three or more letters and digits has a digit, and is no year."""
    bare = "".join(filter(str.isalnum, word))
    is_year = bare.isdecimal() and len(bare) == 4 and 1900 <= int(bare) <= 2040
    return len(bare) > 2 and any(map(str.isdecimal, bare)) and not is_year


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
