"""Plausible wrong answers: unfounded items that models write, and their outcomes."""

from collections.abc import Sequence
from typing import Any

from tests.detection.judging import judge, outcome
from tests.tables import table

Case = tuple[str, str | list[str], str, str, object, str, dict[str, Any]]


def wrong(
    name: str,
    said: str | list[str],
    quote: str,
    keyword: str,
    value: object,
    expected: str,
    **more: Any,
) -> Case:
    return name, said, quote, keyword, value, expected, more


RETRACT = {"action": "retract"}

CASES: Sequence[Case] = [
    # Quotes that do not prove the item
    wrong("one short word", "I work here and I like it", "work", "job", "surgeon", "weak quote"),
    wrong("a pronoun", "My son is six, he sings", "he", "age", "six", "weak quote"),
    wrong("a yes", ["> Are you vegan?", "Yes, of course!"], "Yes", "diet", "vegan", "weak quote",
          message=1),
    wrong("one Korean syllable", "네, 저는 서울에 가고 싶어요", "네", "home", "부산", "weak quote"),
    wrong("a Korean word of one syllable", "저는 집 근처에서 일해요", "집", "job", "의사",
          "weak quote"),
    wrong("two letters", "I am here", "am", "job", "surgeon", "weak quote"),
    wrong("two letters of another message", "I work here", "am", "job", "surgeon",
          "quote not found"),
    wrong("punctuation alone", "I like it ...", "...", "hobby", "chess", "quote not found"),
    wrong("an ellipsis sign alone", "I like it … a lot", "…", "hobby", "chess", "quote not found"),
    wrong("an emoji alone", "So happy 🎉", "🎉", "event", "a birthday", "quote not found"),
    wrong("invented words", "I like tea", "I like green tea", "drink", "green tea",
          "quote not found"),
    wrong("a gap over a negation", "I am not an admin here", "I am ... an admin", "role", "admin",
          "quote not found"),
    wrong("ten values from three words", "I love sports", "I love sports", "sports",
          [f"discipline {chr(97 + i)}" for i in range(10)], "flagged: value"),
    wrong("a long ordinary word", "Actually I am tired", "Actually", "job", "teacher",
          "flagged: value"),
    # Retractions without a statement
    wrong("a retraction by a greeting", "Good morning to you", "Good morning", "pets", "Miso",
          "weak quote", known=[("pets", "Miso")], item=RETRACT),
    wrong("a retraction by another topic", "I bought a blue bicycle", "bought a blue bicycle",
          "languages", "Korean", "weak quote", known=[("languages", "Korean")], item=RETRACT),
    wrong("a retraction in a condition", "If I moved to Berlin, no more football for me",
          "no more football for me", "hobbies", "football", "stored",
          known=[("hobbies", "football")], item=RETRACT),
    wrong("a retraction of what is not stored", "I no longer play chess", "no longer play chess",
          "hobbies", "golf", "not stored", known=[("hobbies", "chess")], item=RETRACT),
    # Negations
    wrong("a quote cut after a negation", "I do not like jazz", "like jazz", "music", "jazz",
          "flagged: negation"),
    wrong("a quote cut before a negation", "Ich mag Käse nicht", "Ich mag Käse", "food", "Käse",
          "flagged: negation"),
    wrong("cut after never", "I have never lived in Rome", "lived in Rome", "home", "Rome",
          "flagged: negation"),
    wrong("a Korean negation cut off", "저는 커피를 좋아하지 않아요", "저는 커피를 좋아하지",
          "drink", "커피", "flagged: negation"),
    wrong("a German negation cut off", "Ich habe keinen Hund und keine Katze", "Hund", "pets",
          "Hund", "flagged: negation"),
    wrong("a negation that the value drops", "I don't eat meat at all", "I don't eat meat at all",
          "favourite-food", "meat", "flagged: negation"),
    wrong("cut after a contraction", "I can't swim in the sea", "swim in the sea", "hobby",
          "swim in the sea", "flagged: negation"),
    # Conditions, questions, quotations, jokes
    wrong("a condition", "If I win, I will buy a horse", "I will buy a horse", "plans",
          "will buy a horse", "stored"),
    wrong("a condition behind", "I will move to Oslo if she says yes", "I will move to Oslo",
          "plans", "will move to Oslo", "stored"),
    wrong("a German condition", "Wenn ich reich wäre, kaufte ich ein Schloss",
          "kaufte ich ein Schloss", "home", "Schloss", "stored"),
    wrong("a Korean condition", "만약 돈이 많으면 요트를 살 거예요", "요트를 살 거예요", "plans",
          "요트를 살 예정", "stored"),
    wrong("a question", "Am I a vegetarian?", "a vegetarian", "diet", "vegetarian",
          "flagged: question"),
    wrong("a question of advice", "Should I learn Rust?", "I learn Rust", "learning", "Rust",
          "flagged: question"),
    wrong("the words of another", 'She wrote: "I moved to Prague last year and I love it"',
          "I moved to Prague last year", "home", "moved to Prague in 2023", "flagged: quotation"),
    wrong("a quoted block", "Look what he sent:\n> I am allergic to nuts\nFunny, isn't it?",
          "I am allergic to nuts", "allergy", "nuts", "flagged: quotation"),
    wrong("a quotation in Korean marks",
          "「저는 매일 아침에 수영을 하고 학교에 갑니다」라고 적혀 있어요",
          "매일 아침에 수영을 하고", "hobby", "매일 아침 수영", "flagged: quotation"),
    wrong("a joke", "I own the moon. Just kidding.", "I own the moon", "assets", "the moon",
          "stored"),
    wrong("a joke that is taken back later", ["I am the king of Spain", "> Oh!",
                                              "Kidding, of course"],
          "I am the king of Spain", "title", "king of Spain", "stored"),
    # Numbers and dates
    wrong("an invented age", "My daughter started school", "My daughter started school", "family",
          "daughter, 7 years old", "stored"),
    wrong("another number", "I pay 40 euros for it", "I pay 40 euros", "budget", "45 euros",
          "flagged: number"),
    wrong("an invented day", "I visited Rome once", "I visited Rome", "travel",
          "visited Rome on 2023-08-02", "stored"),
    wrong("yesterday, counted wrong", "I ran a marathon yesterday", "I ran a marathon yesterday",
          "sport", "ran a marathon on 2024-05-10", "stored"),
    wrong("another year than the quote's", "I graduated in June 2019", "I graduated in June 2019",
          "education", "graduated in 2018-06", "flagged: number"),
    wrong("a year of birth from nowhere", "I am a bit older than you", "I am a bit older",
          "birth-year", "1976", "stored"),
    wrong("an amount from nowhere", "Rent is too high", "Rent is too high", "rent", "2,300 a month",
          "flagged: value"),
    # Values that are not in the message
    wrong("another city", "I love the old town there", "I love the old town", "home-town", "Lisbon",
          "flagged: value"),
    wrong("a guess", "I take my insulin at noon", "I take my insulin", "employer", "Siemens",
          "flagged: value"),
    wrong("a name from nowhere", "My wife is a nurse", "My wife is a nurse", "wife", "Julia",
          "flagged: value"),
    wrong("a Chinese guess", "我昨天去了图书馆看书", "去了图书馆看书", "city", "上海",
          "flagged: value"),
    # Secrets
    wrong("a password", "My password is Blue!Horse9", "My password is Blue!Horse9", "login",
          "Blue!Horse9", "secret"),
    wrong("a card number", "Use card 5500 0000 0000 0004 for it", "Use card 5500 0000 0000 0004",
          "payment", "5500 0000 0000 0004", "secret"),
    wrong("an API key", "key: sk-live-abcdefghijklmnop1234", "key: sk-live-abcdefghijklmnop1234",
          "setup", "sk-live-abcdefghijklmnop1234", "secret"),
    wrong("a Korean password", "비밀번호는 hana1234예요", "비밀번호는 hana1234예요", "비밀번호",
          "hana1234", "secret"),
    wrong("a PIN", "The PIN is 4417", "The PIN is 4417", "pin", "4417", "secret"),
    # Messages that must not be cited
    wrong("the assistant's words", ["Hello there", "> You are a premium member"],
          "You are a premium member", "plan", "premium", "untrusted message", message=1),
    # Errors that code cannot detect
    wrong("another person's fact as the user's", "My brother Tom is a pilot", "is a pilot", "job",
          "pilot", "stored"),
    wrong("irony", "Great, I love waiting in line", "I love waiting in line", "likes",
          "waiting in line", "stored"),
    wrong("the wrong keyword", "I was born in Kyoto and live in Osaka", "live in Osaka",
          "birthplace", "Osaka", "stored"),
]  # fmt: skip


@table("case", CASES, ids=[case[0] for case in CASES])
def test_the_outcome_of_each_wrong_answer(case: Case) -> None:
    _, said, quote, keyword, value, expected, more = case
    given = {"quote": quote, "keyword": keyword, "value": value, **more.get("item", {})}
    given["message"] = more.get("message", 0)

    verdict = judge(said, given, known=more.get("known", ()))

    assert outcome(verdict) == expected
