"""Right answers in unusual form, which must not be lost."""
# ruff: noqa: RUF001 - odd characters are among what is tested

from collections.abc import Sequence
from typing import Any

from factmem.models.facts import Concept
from tests.detection.judging import judge, outcome
from tests.tables import table

Case = tuple[str, str | list[str], dict[str, Any], dict[str, Any]]


def right(name: str, said: str | list[str], item: dict[str, Any], **more: Any) -> Case:
    return name, said, {"keyword": "fact", **item}, more


def quoting(quote: str, value: object, **more: Any) -> dict[str, Any]:
    return {"quote": quote, "value": value, **more}


AGE = Concept("age", "Age in years", value_type=int)
CITY = Concept("city", "Where the user lives")
TWO = ["I have a parrot called Rico.", "> Lovely!", "I also play the cello on Sundays."]

CASES: Sequence[Case] = [
    # Quotes
    right("other case", "I live in Bonn", quoting("i LIVE in bonn", "Bonn")),
    right("without its comma", "In Bonn, near the river",
          quoting("In Bonn near the river", "Bonn")),
    right("with a full stop", "I live in Bonn and like it", quoting("I live in Bonn.", "Bonn")),
    right("in quotation marks", "I live in Bonn", quoting('"I live in Bonn"', "Bonn")),
    right("a backtick for an apostrophe", "I'm Ann's brother",
          quoting("I`m Ann`s brother", "brother of Ann")),
    right("an acute for an apostrophe", "I'm Ann's brother",
          quoting("I´m Ann´s brother", "brother of Ann")),
    right("without its apostrophe", "I don't eat meat", quoting("I dont eat meat", "no meat")),
    right("three dots for a gap", "I live, since I met Eva, in Bonn",
          quoting("I live ... in Bonn", "Bonn")),
    right("an ellipsis for a gap", "I live, since I met Eva, in Bonn",
          quoting("I live … in Bonn", "Bonn")),
    right("an ellipsis at the end", "I live in Bonn with Eva",
          quoting("I live in Bonn...", "Bonn")),
    right("brackets around the gap", "I live, so to say, in Bonn",
          quoting("I live [...] in Bonn", "Bonn")),
    right("the role before it", "I live in Bonn", quoting("user: I live in Bonn", "Bonn")),
    right("without markdown", "I live in **Bonn**", quoting("I live in Bonn", "Bonn")),
    right("without an emoji", "I love 🍕 pizza", quoting("I love pizza", "pizza")),
    right("behind half an emoji", "I love pizza \ud83c", quoting("I love pizza", "pizza")),
    right("another dash", "Bonn–Beuel is home", quoting("Bonn-Beuel is home", "Bonn-Beuel")),
    right("without a line break", "I live\nin Bonn", quoting("I live in Bonn", "Bonn")),
    right("escaped line break", "I live\nin Bonn", quoting("I live \n in Bonn", "Bonn")),
    right("full width", "Ｉ ｌｉｖｅ ｉｎ Ｂｏｎｎ", quoting("I live in Bonn", "Bonn")),
    right("Korean without spaces", "저는 서울에 살고 있어요",
          quoting("저는서울에살고있어요", "서울")),
    right("Korean with other spaces", "저는 서울에 살고있어요",
          quoting("서울에 살고 있어요", "서울")),
    right("Chinese without punctuation", "我住在上海，喜欢跑步。",
          quoting("我住在上海喜欢跑步", "上海")),
    right("one word that is the value", "I live in Bonn", quoting("Bonn", "Bonn")),
    right("one word that is the message", ["> Tea or juice?", "Tea"],
          quoting("Tea", "tea", message=1)),
    right("one short word of the value", "36, why?", quoting("36", "36 years old")),
    right("two Korean syllables", "서울 좋아요", quoting("서울", "서울")),
    right("capitals in field names", "I live in Bonn",
          {"Quote": "I live in Bonn", "VALUE": "Bonn"}),
    right("a value in an object", "I live in Bonn", quoting("I live in Bonn", {"value": "Bonn"})),
    right("a list of values", "I live in Bonn", {"quote": "I live in Bonn", "values": ["Bonn"]}),
    right("the name of a triple", "I live in Bonn", {"quote": "I live in Bonn", "object": "Bonn"}),
    right("an action of a database", "I live in Bonn",
          quoting("I live in Bonn", "Bonn", action="upsert")),
    # Messages
    right("the wrong number", TWO, quoting("I also play the cello", "cello")),
    right("the assistant's number", TWO, quoting("play the cello on Sundays", "cello on Sundays",
                                                 message=1)),
    right("a number that is not there", TWO, quoting("a parrot called Rico", "parrot Rico",
                                                     message=17)),
    right("no number", TWO, {"quote": "a parrot called Rico", "value": "parrot Rico",
                             "message": None}),
    right("a number as a string", TWO, quoting("play the cello", "cello", message="2")),
    right("a number as a float", TWO, quoting("play the cello", "cello", message=2.0)),
    # Subjects and scopes
    right("another subject where one is offered", "I live in Bonn",
          quoting("I live in Bonn", "Bonn", subject="Alice")),
    right("another scope where one is offered", "I live in Bonn",
          quoting("I live in Bonn", "Bonn", scope="global")),
    right("a subject of null", "I live in Bonn", quoting("I live in Bonn", "Bonn", subject=None)),
    # Numbers and dates that follow
    right("a number in words", "I'm thirty-six", quoting("I'm thirty-six", 36, keyword="age"),
          declared=[AGE]),
    right("a number in German words", "Ich bin sechsunddreißig",
          quoting("Ich bin sechsunddreißig", "36 Jahre, sechsunddreißig")),
    right("a number in Korean words", "저는 서른여섯 살이에요",
          quoting("서른여섯 살이에요", "36살 서른여섯")),
    right("a number in Chinese words", "我三十六岁了", quoting("我三十六岁了", "36岁, 三十六")),
    right("another script's digits", "عمري ٣٦ سنة", quoting("عمري ٣٦ سنة", "36 سنة")),
    right("an age from the year of birth", "I was born in 1988",
          quoting("I was born in 1988", "born, age 36")),
    right("a year from an age", "I turned 36 this spring",
          quoting("I turned 36", "turned 36, born in 1988")),
    right("yesterday as a date", "I ran 10 km yesterday",
          quoting("I ran 10 km yesterday", "ran 10 km on 2024-05-11")),
    right("last week as a date", "I moved last week",
          quoting("I moved last week", "moved in the week of 2024-05-06")),
    right("years ago as a year", "I quit smoking five years ago",
          quoting("I quit smoking five years ago", "quit smoking in 2019")),
    right("a weekday as a date", "We meet on Friday",
          quoting("We meet on Friday", "meet on 2024-05-17")),
    right("the day of the month", "She comes on the 16th",
          quoting("She comes on the 16th", "she comes on 2024-05-16")),
    right("a month with the year", "I start in August",
          quoting("I start in August", "start in August 2024")),
    right("a Korean date", "어제 병원에 갔어요", quoting("어제 병원에 갔어요",
                                                 "2024년 5월 11일 병원에 갔음")),
    right("thousands with another mark", "My budget is 1,500 euros",
          quoting("My budget is 1,500", "budget 1500 euros")),
    right("k for thousand", "I earn 50k", quoting("I earn 50k", "earn 50,000")),
    right("7 pm as 19:00", "Dinner is at 7 pm", quoting("Dinner is at 7 pm", "dinner at 19:00")),
    # Negations and conditions that are part of the value
    right("a negation that the value keeps", "I don't eat meat",
          quoting("don't eat meat", "does not eat meat")),
    right("a dislike", "I don't like olives",
          quoting("don't like olives", "olives", keyword="dislikes", said_as="negative")),
    right("not only", "I speak not only Korean but German",
          quoting("Korean but German", "Korean, German")),
    right("a condition that the value keeps", "If I win, I may buy a boat",
          quoting("I may buy a boat", "may buy a boat if the user wins")),
    right("a name in quotation marks", 'My cat is called "Miso"',
          quoting("Miso", "Miso", keyword="pets")),
    right("a question with a fact in it", "My dog Rex ate chocolate, what should I do?",
          quoting("My dog Rex", "dog Rex")),
    right("thanks, if that helps", "I live in Bonn, if that helps",
          quoting("I live in Bonn", "Bonn")),
    # Keywords and retractions
    right("a keyword in words", "I live in Bonn", quoting("I live in Bonn", "Bonn", keyword="City"),
          declared=[CITY]),
    right("a keyword with a filler", "I live in Bonn",
          quoting("I live in Bonn", "Bonn", keyword="home-city"), declared=[CITY]),
    right("a plural keyword", "I like chess", quoting("I like chess", "chess", keyword="hobby"),
          known=[("hobbies", "golf")]),
    right("a retraction in other case", "No more Java",
          quoting("No more Java", "JAVA", keyword="tools", action="retract"),
          known=[("tools", "Java")]),
    right("a retraction by part of the value", "Pip died",
          quoting("Pip died", "Pip", keyword="pets", action="retract"),
          known=[("pets", "a hamster called Pip"), ("pets", "Rex")]),
    right("a retraction with punctuation", "We sold the VW Golf",
          quoting("sold the VW Golf", "VW-Golf", keyword="cars", action="retract"),
          known=[("cars", "VW Golf")]),
    right("a retraction under a near keyword", "I gave up golf",
          quoting("gave up golf", "golf", keyword="hobby", action="retract"),
          known=[("hobbies", "golf")]),
    right("a secret that is asked for", "The password is Blue!Horse9",
          quoting("The password is Blue!Horse9", "Blue!Horse9", keyword="wifi"),
          declared=[Concept("wifi", "The password of the guests' network")]),
    right("a password manager", "I use 1Password for work",
          quoting("I use 1Password", "1Password", keyword="password-manager")),
]  # fmt: skip


@table("case", CASES, ids=[case[0] for case in CASES])
def test_no_right_answer_is_lost_or_flagged(case: Case) -> None:
    _, said, item, more = case

    verdict = judge(said, item, **more)

    assert outcome(verdict) == "stored"
