"""Whose words: in a chat of several people, only the user's own become the user's facts."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from factmem.detection.report import Detection, DetectionReport
from factmem.testing.chat import ScriptedChatModel
from tests.tables import table
from tests.world import USER, Chat, item, memory_of, user

HOMES = ["Oslo", "Rome", "Quito", "Busan", "Lyon", "Perth"]
NAMES = ["Alex", "Sam Lee", "민수", "Zoë", "ids_77", "kim@example.org"]


def named(*speakers: str) -> Chat:
    """Return a chat in which each speaker says where they live."""
    return [
        {**user(f"I live in {home}"), "name": name}
        for name, home in zip(speakers, HOMES, strict=False)
    ]


def written(*speakers: str, form: str = "{}: {}") -> Chat:
    """Return the same chat of a bot that writes the speakers into the text."""
    return [
        user(form.format(name, f"I live in {home}"))
        for name, home in zip(speakers, HOMES, strict=False)
    ]


async def learnt(chat: Chat, entity: str, **options: Any) -> tuple[DetectionReport, list[str]]:
    """Return the report, and the values that a model of all speakers' words leaves current."""
    items = [
        item(
            message=number,
            quote=f"I live in {home}",
            keyword="home",
            value=home,
            fact_type="MULTIPLE",
        )
        for number, message in enumerate(chat)
        for home in HOMES
        if home in message["content"]
    ]
    model = ScriptedChatModel({"facts": items})
    memory = memory_of(model=model, subjects=[USER.of(entity)])
    report = await memory.auto_detect_facts(chat, detection=Detection(**options))
    return report, [value for fact in await memory.current() for value in fact.values]


GROUPS = [
    (NAMES[start : start + count], form)
    for count, start, form in product(
        (2, 3, 4, 5, 6), (0, 1), ("name", "{}: {}", "[{}]: {}", "**{}**: {}", "{} \U0001f680: {}")
    )
    if start + count <= len(NAMES)
]


@table(("speakers", "form"), GROUPS)
async def test_only_the_users_own_words_count(speakers: Sequence[str], form: str) -> None:
    """By the name of the message or in its text; an opaque entity is nobody in the chat."""
    chat = named(*speakers) if form == "name" else written(*speakers, form=form)

    _, own = await learnt(chat, speakers[0])
    assert own in ([HOMES[:1], []] if "\U0001f680" in form else [HOMES[:1]])
    report, strangers = await learnt(chat, "u1")
    assert strangers == []
    if form != "name":
        small = written(*map(str.casefold, speakers), form=form)
        assert (await learnt(small, "u1"))[1] == []
    assert form != "name" or report.others == tuple(sorted(speakers))


@table("speaker", [{"Sam Lee": "u1"}, {"SAM LEE ": "u1", "Alex": "u2"}, "Sam Lee"])
async def test_names_are_mapped_to_entities(speaker: Any) -> None:
    report, values = await learnt(named("Alex", "Sam Lee", "Zoë"), "u1", speaker=speaker)

    assert values == ["Rome"]
    assert report.others == ("Alex", "Zoë")


LINES = [
    ("[Sam]: I live in Rome", []),
    ("<Sam> I live in Rome", []),
    ("Sam: I live in Rome", []),
    ("10:21 - Sam: I live in Rome", []),
    ("Alex: I live in Oslo\nSam: I live in Rome", ["Oslo"]),
    ("Alex: I live in Oslo\nSam: Hi Alex, good day\nI live in Rome", ["Oslo"]),
    ("I live in Oslo\n[Sam] I live in Rome", ["Oslo"]),
    ("Alex: I live in Oslo", ["Oslo"]),
    ("User: I live in Oslo", ["Oslo"]),
    ("Home: Oslo\nI live in Oslo", ["Oslo"]),
    ("A few facts: I live in Oslo", ["Oslo"]),
    ("Also: well, I live in Oslo.\nThanks!", ["Oslo"]),
]


@table(("text", "expected"), LINES)
async def test_a_name_in_the_text_is_its_speaker(text: str, expected: list[str]) -> None:
    """And a heading, an entry of a form or the user's own name is none of another."""
    assert (await learnt([user(text)], "Alex"))[1] == expected


LOGS = [
    "sam: {}\nalex: {}",
    "<sam> {}\n<alex> {}",
    "Sam  10:21 AM\n{}\nAlex  10:22 PM\n{}",
    "**Sam** (10:21)\n{}\n\n**Alex** (10:22)\n{}",
    "Sam - {}\nAlex - {}",
    "Sam:\n{}\n\nAlex:\n{}",
    "[10:21] sam: {}\n[10:22] alex: {}",
    "- sam: {}\n- alex: {}",
    "Sam Lee, 10:21\n{}\nAlex, 10:25\n{}",
]
NOTES = ["First - {}\nThen - {}", "Breakfast: oats\n{}\n{}", "About me:\n{}\n\nWork:\n{}"]


@table(("form", "is_log"), [*((form, True) for form in LOGS), *((form, False) for form in NOTES)])
async def test_a_line_that_begins_like_the_users_own_is_of_another(form: str, is_log: bool) -> None:
    """Logs of chats have many forms, which a name of the user shows; notes have headings."""
    chat = [user(form.format("I live in Rome", "I live in Oslo"))]

    assert (await learnt(chat, "Alex"))[1] == (["Oslo"] if is_log else ["Oslo", "Rome"])


OTHERS_LOGS = [
    *(
        form
        for form in LOGS
        if " - " not in form[:8] and "\u2014" not in form and ":\n" not in form
    ),
    "Sam: {}\nAlex: {}",
    "[Sam]: {}\n[Alex]: {}",
    "1. Sam: {}\n2. Alex: {}",
    "Sam (he/him): {}\nAlex (she/her): {}",
    "Sam [Tuesday 10:21]: {}\nAlex [Tuesday 10:22]: {}",
    "Sam @ 10:21: {}\nAlex @ 10:22: {}",
    "Sam: {}\nAlex: ok\nSam: you?\nAlex: {}",
    "Sam:\n{}\n\nAlex:\n{}\n\nSam:\nNice!",
    "here is our chat\nSam: {}\nAlex: {}",
    "Sam: {}\nAlex: cool",
    "민수: {}\n지현: {}",
    "小明：{}\n小红：{}",  # noqa: RUF001 - full width
    "Sam | {}\nAlex | {}",
    *(
        form.format(mark=mark, first="{}", last="{}")
        for mark in ("-", "|", "\u2014", "->", "~")
        for form in (
            "Sam {mark} {first}\nAlex {mark} nice\nSam {mark} {last}",
            "Priya Rao {mark} sure\nSam {mark} {first}\nPriya Rao {mark} {last}\n\nWhat now?",
        )
    ),
    "10:21 Sam - {}\n10:22 Alex - {}\n10:23 Sam - bye",
    "민수 - {}\n지현 - 그래\n민수 - {}",
    "Sam\n{}\nAlex\ncool, me too\nSam\n{}",
    "Sam\nhello there\nAlex\n{}\nok?\nSam\n{}\nAlex\nbye",
]


@table("form", OTHERS_LOGS)
async def test_a_log_without_the_user_teaches_nothing(form: str) -> None:
    """The report says so: its lines are refused as another person's, or proposed."""
    report, values = await learnt([user(form.format("I live in Rome", "I live in Oslo"))], "u1")

    assert values == []
    assert len(report.rejected) + len(report.proposed) == form.count("{}")


MINE = [
    "Sam - hi\nAlex - nice\nSam - you?\nI live in Rome",
    "Sam | hi\nAlex | nice one\nSam | you?\n\nThat was our chat. I live in Rome",
    "Breakfast - oats\nLunch - soup\nI live in Rome",
    "Work\nI am a nurse\nHome\nI live in Rome\nKids\ntwo",
    "Rome - I live in Rome since May\nParis - a week\nRome - back again",
    "Milk\nEggs\nMilk\nI live in Rome",
    "店は9:30に開く、朝は。\nI live in Rome",
]


@table("text", MINE)
async def test_what_stands_beside_a_log_or_in_a_list_is_the_users(text: str) -> None:
    assert (await learnt([user(text)], "u1"))[1] == ["Rome"]


HEADED = [
    ("Home: I live in Rome\nWork: I work at Bosch", "home"),
    ("home: I live in Rome\nwork: I work at Bosch", "home"),
    ("- Family: I have two kids\n- Home: I live in Rome", "home-city"),
    ("Rome: I live in Rome since May\nBonn: I was born there", "home-city"),
    ("Diet: vegan\nCity: Rome", "city"),
    ("HOME: I live in Rome with Ann\nJOB: I work at Bosch", "home"),
    ("Q: where do you live?\nA: I live in Rome", "home"),
    ("Home is: I live in Rome", "home"),
]


@table(("text", "keyword"), HEADED)
async def test_a_heading_of_its_own_topic_is_no_speaker(text: str, keyword: str) -> None:
    line = next(each for each in text.split("\n") if "Rome" in each)
    given = item(quote=line.partition(": ")[2], keyword=keyword, value="Rome")
    memory = memory_of(model=ScriptedChatModel({"facts": [given]}), subjects=[USER.of("u1")])
    await memory.auto_detect_facts([user(text)])

    assert [fact.values for fact in await memory.current()] == [("Rome",)]


SINGLE = [
    ("Alex", "u1", True),
    ("Alice Kim", "alice", True),
    ("alice", "Alice ", True),
    ("Alice Kim", "alice.kim@example.org", True),
    ("Alice", "8f3a-11", True),
    ("김민수", "민수", True),
    ("user_7", "7", True),
    ("user", "alice", True),
    ("bob", "alice", False),
    ("Bob", "alice@example.org", False),
    ("Bob Lee", "alice", False),
    ("u2", "u1", False),
    ("user_42", "alice", False),
]


@table(("name", "entity", "is_user"), SINGLE)
async def test_a_single_name_is_the_users_if_it_can_be(
    name: str, entity: str, is_user: bool
) -> None:
    """Many hosts name the user of a chat of two; another user's chat teaches nothing."""
    report, values = await learnt(named(name), entity)

    assert values == (["Oslo"] if is_user else [])
    assert report.others == (() if is_user else (name,))


@table("chat", [named("bob"), [*named("bob"), *named("bob")]])
async def test_a_single_name_is_mapped(chat: Chat) -> None:
    report, values = await learnt(chat, "alice", speaker={"Bob": "alice"})

    assert (set(values), report.others) == ({"Oslo"}, ())


@table(("role", "is_known"), [("x", False), ("User", False), ("human", False), ("system", True)])
async def test_unknown_roles_are_reported(role: str, is_known: bool) -> None:
    """A misspelt role must not look like a chat without facts."""
    strange = {"role": role, "content": "I live in Rome"}
    report, values = await learnt([strange], "alice")
    mixed, learnt_values = await learnt([user("I live in Oslo"), strange], "alice")

    assert (values, learnt_values) == ([], ["Oslo"])
    assert report.unknown_roles == mixed.unknown_roles == (() if is_known else (role,))


async def test_messages_without_a_name_are_the_users_beside_a_guest() -> None:
    chat = [user("I live in Oslo"), {**user("I live in Rome"), "name": "Sam"}]

    report, values = await learnt(chat, "u1")

    assert (values, report.others) == (["Oslo"], ("Sam",))
