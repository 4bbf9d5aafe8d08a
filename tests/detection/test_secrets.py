"""Secrets: what is refused and masked, and 10,000 ordinary values that are not."""

import re
from itertools import product

from benchmarks.detection.dialogue import HERE
from factmem._text.secret_values import is_secret, masked
from factmem.models.facts import Concept
from factmem.testing.chat import ScriptedChatModel
from tests.detection.judging import judge, outcome
from tests.tables import table
from tests.world import answer, item, memory_of, user

# Words that resemble the name of a secret, or stand beside one, in ordinary sentences.
THINGS = """
pineapple pink pinball pinewood pinto Pinterest Pinocchio pins pinhole piñata pint pinstripe
passport passage passionfruit passengers password-manager passwordless passkeys passable
keychain keyboard keystone keynote monkey turkey whiskey hockey jockey donkey token-ring tokenizer
cards cardigan cardamom cardio cardinal cardboard discard postcard flashcards codec codecov barcode
codeine secretary secretion secrets accessory accession privateer apiary apical recovery seedlings
seeds licenser cvvc pwdless 1Password KeePassXC Bitwarden LastPass YubiKey-5C GPG-3 TOTP/HOTP
C++ C# F#/.NET node.js@20 TypeScript/React iPhone-15 Wi-Fi-6E USB-C H2O GmbH&Co. AT&T B&B R2-D2
AC/DC Passwörter-Manager Passau Passagier Pinsel Pinguin Pinnwand Kennwortschutz Geheimtipp
contrasentido passeport senhora пароход парольный 핀란드 비밀스러운 암호화폐 카드지갑 핀셋 パス
密切 密度 密码学 密碼學
"""
TEMPLATES = """
{a}/{b}|{a} & {b}|{a}, {b} (2019)|{a}-{b}: 3 pieces|allergic to {a}/{b}|likes {a} + {b}|{a}+{b}!
{a} #7 and {b}|wears {a}/{b} shoes|reads {a}@{b}|{a}: {b} 2.0|mag {a}/{b}|le gusta {a}/{b}
{a}와 {b}!
{a}・{b}|喜欢{a}/{b}
""".replace("\n", "|").strip("|").split("|")  # fmt: skip
NUMBERS = """
4006381333931 4012345678901 9783161484100 DE89 3704 0044 0532 0130 00
FR76 3000 6000 0112 3456 7890 189
+49 170 12345678|+82-10-1234-5678|2024-05-12 18:30|192.168.178.24|3.14159265358979|2,300,000,000
order 300123456789012|GB29 NWBK 6016 1331 9268 19|51.5074, -0.1278|1Z999AA10123456784
00340434161094015902
""".replace("\n", "|").strip("|").split("|")  # fmt: skip
SENTENCES = """
My password manager is 1Password|I think passwords are dead|I reset my password/PIN last week
My pin collection has 300+ pins
My password is too long to type|The PIN is easy to remember|I use passwordless/SSO logins
I lost my credit card, number unknown|My private key/public key setup is boring
Ich habe mein Passwort vergessen
비밀번호를 잊어버렸어요|我忘了密码|パスワードを忘れました|Mi contraseña es demasiado larga
I got the seed phrase/backup question wrong
""".replace("\n", "|").strip("|").split("|")  # fmt: skip


def ordinary_values() -> list[str]:
    pairs = [(a, b) for a, b in product(THINGS.split(), repeat=2) if a < b]
    made = [
        TEMPLATES[number % len(TEMPLATES)].format(a=a, b=b)
        for number, (a, b) in enumerate([*pairs, *((b, a) for a, b in pairs)])
    ]
    return [*NUMBERS, *SENTENCES, *made][:10_000]


def test_no_ordinary_value_is_a_secret(stride: int) -> None:
    values = ordinary_values()
    assert len(set(values)) == 10_000
    values = values[::stride]

    refused = [
        each for each in values if is_secret("likes", each, [f"I said {each} to you"], about="")
    ]
    changed = [each for each in values if masked(each) != each]

    assert refused == []
    assert changed == []


SECRETS = [
    ("login", "Blue!Horse9", "My password is Blue!Horse9"),
    ("login", "swordfish", "my password is swordfish"),
    ("login", "swordfish", "my password is swordfish, remember it"),
    ("wifi", "tulip77", "the wifi password: tulip77"),
    ("password", "hunter2", "it is hunter2"),
    ("door-pin", "4417", "it is 4417 now"),
    ("pin", "44 17", "it is 44 17"),
    ("note", "4417", "The PIN for the door is 4417"),
    ("비밀번호", "hana1234", "비밀번호는 hana1234예요"),
    ("note", "rosa2020", "Mein Passwort lautet rosa2020"),
    ("note", "gato55", "mi contraseña es gato55"),
    ("note", "abc123", "密码是abc123"),
    ("wifi", "geheim99", "das Passwort vom WLAN ist geheim99"),
    ("note", "qwerty55", "la mia password è qwerty55"),
    ("note", "haslo123", "moje hasło to haslo123"),
    ("note", "sifre123", "şifrem sifre123"),
    ("note", "geheim12", "mijn wachtwoord is geheim12"),
    ("note", "q1w2e3", "パスワードはq1w2e3です"),
    ("note", "1q2w3e", "비번 1q2w3e야"),
    ("note", "S3cr3t!", "pw is S3cr3t!"),
    ("door", "1290#", "The door code is 1290#"),
    ("porte", "48B2", "Le code de la porte, c'est 48B2"),
    ("wlan", "Sonne123", "Mein WLAN-Schlüssel lautet Sonne123"),
    ("wifi", "perro99", "La clave del wifi es perro99"),
    ("note", "somtam9", "รหัสผ่านคือ somtam9"),
    ("payment", "5500 0000 0000 0004", "my card"),
    ("payment", "4111-1111-1111-1111", "my card"),
    ("payment", "378282246310005", "my card"),
    ("setup", "sk-live-abcdefghijklmnop1234", "the key"),
    ("setup", "sk-aaaabbbbccccddddeeeeffff", "the key"),
    ("setup", "ghp_abcdefghijklmnopqrst12", "the token"),
    ("db", "postgres://ann:s3cret@db/app", "the address"),
    ("key", "-----BEGIN RSA PRIVATE KEY-----", "the key"),
]


@table(("keyword", "value", "quote"), SECRETS)
def test_secrets_are_refused(keyword: str, value: str, quote: str) -> None:
    assert is_secret(keyword, value, [quote])


@table(
    ("text", "expected"),
    [
        ("My password is Blue!Horse9, ok?", "My password is [secret], ok?"),
        ("card 5500 0000 0000 0004 please", "card [secret] please"),
        ("allergic to pineapple/mango", "allergic to pineapple/mango"),
        ("key sk-aaaabbbbccccddddeeeeffff", "key [secret]"),
        ("the door code is 4417.", "the door code is [secret]."),
        ("My seed phrase is apple river stone moon", "My seed phrase is [secret]"),
    ],
)
def test_quotes_are_masked(text: str, expected: str) -> None:
    assert masked(text) == expected


CHAT = HERE / "chat"


def lines(name: str) -> list[str]:
    return (CHAT / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def judged(line: str, **more: str) -> str:
    """Return the outcome of a line: chat, quote from its last message, keyword and value."""
    said, quote, keyword, value = line.split(" | ")
    texts = [re.sub("^> ", ">", text) for text in said.split(" // ")]
    item = {"message": len(texts) - 1, "quote": quote, "keyword": keyword, "value": value}
    return outcome(judge(texts, item | more))


@table("line", lines("secrets"))
def test_a_stated_secret_is_refused_whatever_its_quote_leaves_out(line: str) -> None:
    """In twelve languages; the quotes have the value alone."""
    assert judged(line) == "secret"


SETS = {"secrets-2": 72, "secrets-3": 31, "secrets-4": 32, "secrets-5": 32, "secrets-6": 36}
"""How many of each set, the fifth in 26 other languages, are seen by their letters alone."""


@table(("name", "least"), list(SETS.items()))
def test_most_secrets_are_refused_by_their_shape(name: str, least: int) -> None:
    """Also if neither the sentence nor the keyword has a word like "password"."""
    assert [judged(line) for line in lines(name)].count("secret") >= least


@table("line", [line for name in SETS for line in lines(name)])
def test_what_a_model_calls_a_credential_is_refused(line: str) -> None:
    """Whatever it looks like: the answer to a security question is an ordinary word."""
    assert judged(line, said_as="credential") == "secret"


def test_a_description_says_that_a_value_opens_something() -> None:
    """Models word it in English, also for other languages."""
    line = "Bei uns ist es die 5193 | 5193 | eltern | 5193"
    assert judged(line, description="The user's mother") == "stored"
    assert judged(line, description="The code of the parents' front door") == "secret"
    answered = "Er hie\u00df Bello | hie\u00df Bello | dog | Bello"
    assert judged(answered, description="The user's first dog") == "stored"
    assert judged(answered, description="The answer to a security question") == "secret"


async def test_a_declared_concept_may_have_a_code() -> None:
    """The application knows what its concept is; one that asks for a secret gets it."""
    for concept in (
        Concept("pin", "The PIN of the door"),
        Concept("safe", "The model of the safe"),
    ):
        given = item(quote="ours is 8260", keyword=concept.keyword, value="8260")
        memory = memory_of(model=ScriptedChatModel(answer(given)), concepts=[concept])
        report = await memory.auto_detect_facts([user("ours is 8260")])
        assert len(report.saved) == 1, concept.keyword


@table("line", lines("ordinary") + lines("ordinary-5"))
def test_a_number_that_opens_nothing_is_stored(line: str) -> None:
    assert judged(line) == "stored"


def test_ordinary_values_are_stored() -> None:
    """Numbers and names near doors, cards, phones, safes and what one does with codes."""
    refused = [
        each
        for name in ("ordinary-2", "ordinary-3")
        for line in lines(name)
        for said, keyword, values in [line.split(" | ")]
        for each in values.split("; ")
        if judged(f"{said.format(each)} | {said.format(each)} | {keyword} | {each}") != "stored"
    ]
    assert refused == ["118"]  # of 732: so many kilometres, in Chinese
