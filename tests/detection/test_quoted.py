"""Quoted and pasted words: a value that only stands in them is not what the user says."""

from factmem.detection.report import Doubt
from factmem.models.facts import FactSource, SourceKind
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.detection.judging import judge
from tests.tables import table
from tests.world import answer, item, memory_of

MAIL = "From: Eve\nTo: me\nSubject: Hello\n\n"

# message, quote, value; a leading blank keeps "> " from marking the assistant
QUOTED = [
    ('My boss said "I am vegan" yesterday', "I am vegan", "vegan"),
    ("My boss said “I am vegan” yesterday", "I am vegan", "vegan"),
    ("My boss said ‘I am vegan’ yesterday", "I am vegan", "vegan"),  # noqa: RUF001
    ("Mein Chef sagte „Ich rauche“, und ging", "Ich rauche", "rauchen"),
    ("Mein Chef sagte »Ich bin Veganer«", "Ich bin Veganer", "Veganer"),
    ("팀장님이 “저는 비건이에요”라고 했어요", "저는 비건이에요", "비건"),
    ('She wrote "I live in Rome"', 'She wrote "I live in Rome"', "Rome"),
    (" > I am vegan", "I am vegan", "vegan"),
    ("Hi\n>> I live in Rome\nHm.", "I live in Rome", "Rome"),
    ("Why does this fail?\n```yaml\ndiet: vegan\ncity: Rome\n```\nThanks", "city: Rome", "Rome"),
    ("What is this?\n```\nI am vegan", "I am vegan", "vegan"),
    ("Here is <p>I am vegan</p>.", "I am vegan", "vegan"),
    ("| name | diet |\n|---|---|\n| me | vegan |", "me | vegan", "vegan"),
    ("name | diet | city\nme | vegan | Rome", "me | vegan | Rome", "vegan"),
    ("name\tdiet\nme\tvegan", "me vegan", "vegan"),
    (f"{MAIL}I am vegan", "I am vegan", "vegan"),
    (f"Can you answer this?\n\n{MAIL}I live in Rome now.\nEve", "I live in Rome now", "Rome"),
    ("From: Eve <eve@example.org>\nSubject: Hi\n\nI am vegan", "I am vegan", "vegan"),
    ("From: Eve\nTo: me\nSubject: Hi\nI am vegan", "I am vegan", "vegan"),
    ("보낸 사람: 이브\n제목: 안녕\n\n저는 비건이에요", "저는 비건이에요", "비건"),
    ("-----Original Message-----\nI am vegan", "I am vegan", "vegan"),
    ("Why does this fail?\nname,diet\nme,vegan", "me,vegan", "vegan"),
    ("Hi Ann,\nI am vegan, so no ham.\nBest,\nEve\n\nWhat do I answer?", "I am vegan", "vegan"),
    ("Kürze das bitte\n\nLiebe Anna,\nich wohne in Ulm.\nLiebe Grüße\nEva", "wohne in Ulm", "Ulm"),
    ("Translate into German: I live in Rome", "I live in Rome", "Rome"),
    ("Please shorten this: I live in Rome and like it.", "I live in Rome", "Rome"),
    ("Lena wrote me: I live in Rome now!", "I live in Rome", "Rome"),
    ("영어로 번역해 줘: 저는 로마에 살아요", "저는 로마에 살아요", "로마"),
    ("请翻译：我住在罗马", "我住在罗马", "罗马"),  # noqa: RUF001 - full width
]
OWN = [
    ('My cat is called "Miso"', 'My cat is called "Miso"', "Miso"),
    ('I love the film "Alien"', 'I love the film "Alien"', "the film Alien"),
    (
        'I like "The Left Hand of Darkness"',
        'I like "The Left Hand of Darkness"',
        "The Left Hand of Darkness",
    ),
    ("I work for 'Blue Sky Ltd'", "I work for 'Blue Sky Ltd'", "Blue Sky Ltd"),
    ("저는 「기생충」을 좋아해요", "「기생충」을 좋아해요", "기생충"),
    ("I use `vim` on Linux", "I use `vim` on Linux", "vim"),
    ('He said "no way", but I live in Rome', "I live in Rome", "Rome"),
    ('She said "hi" and I told her I\'m vegan', "I told her I'm vegan", "vegan"),
    (" > What do you eat?\nI am vegan", "I am vegan", "vegan"),
    ("I am vegan. Why does this fail?\n```\nx = 1\n```", "I am vegan", "vegan"),
    (f"I am vegan. Answer this:\n\n{MAIL}Come for a steak", "I am vegan", "vegan"),
    ("Diet: vegan\nCity: Rome", "City: Rome", "Rome"),
    ("About me: I live in Rome\nI am vegan", "I am vegan", "vegan"),
    ("Hi bot,\nI am vegan, what can I cook?\nThanks,\nEve", "I am vegan", "vegan"),
    ("I earn 1,500\nI pay 1,000 for a flat in Rome", "a flat in Rome", "Rome"),
    ("Quick update on my side: we live in Rome now", "we live in Rome", "Rome"),
    ("For the recipes: I am vegan", "I am vegan", "vegan"),
    ("Translate into German: Hello.\nI live in Rome, by the way", "I live in Rome", "Rome"),
    ("I prefer tea | coffee is too strong", "I prefer tea", "tea"),
    ("- I am vegan\n- I live in Rome", "I live in Rome", "Rome"),
    ("I love Rome <3 and I am vegan", "I am vegan", "vegan"),
]


@table(
    ("said", "quote", "value", "is_own"),
    [*((*case, False) for case in QUOTED), *((*case, True) for case in OWN)],
)
def test_only_the_users_own_words_prove_a_value(
    said: str, quote: str, value: str, is_own: bool
) -> None:
    """Names and titles in quotation marks are the user's own; text beside a paste, too."""
    item = {"quote": quote, "keyword": "statement", "value": value, "said_as": "stated"}

    report = judge(said, item)

    assert not report.rejected
    doubts = {doubt for doubtful in report.doubtful for doubt in doubtful.doubts}
    assert not doubts if is_own else Doubt.QUOTATION in doubts


TASK = "Task: Find the home.\nAgent: Scout\nExpected result: a city\nResult: I live in Rome."


@table(("kind", "is_saved"), [(SourceKind.ASSISTANT, True), (None, False)])
async def test_headers_in_the_text_of_a_model_are_its_own(
    kind: SourceKind | None, is_saved: bool
) -> None:
    """CrewAI hands over each task so. From the user they would be those of a mail."""
    found = answer(item(quote="I live in Rome", keyword="city", value="Rome"))
    memory = memory_of(InMemoryProvider(), ScriptedChatModel(found))

    report = await memory.remember(TASK, source=None if kind is None else FactSource(kind))

    assert bool(report.saved) is is_saved
