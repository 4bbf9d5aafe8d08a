"""Evidence proves the value, not only the message: what it does not prove is a proposal."""

from typing import Any

from benchmarks.detection.forms import inexact
from factmem.models.facts import Concept
from factmem.testing.chat import ScriptedChatModel
from tests.detection.judging import judge, outcome
from tests.tables import table
from tests.world import answer, assistant, item, memory_of, user

UNPROVED = [
    ("I suggest Lisbon, or Porto.", "Tell me more about the weather there.", "move to Lisbon"),
    ("You could use the recursive solution.", "What does it cost in memory?", "recursive"),
    ("Do you live in Busan?", "No.", "Busan"),
    ("Are you a vegetarian?", "No, I am not.", "vegetarian"),
    ("¿Vives en Sevilla?", "No, para nada.", "Sevilla"),
    ("부산에 사세요?", "아니요.", "부산"),
    ("Hi", "Can you help me with my taxes?", "not available"),
    ("Hi", "Can you help me with my taxes?", "string"),
    ("Hi", "I have 3 cats and a dog.", "5"),
    ("Hi", "Is Oslo a good place to raise kids?", "Oslo"),
    ("Hi", "I am not vegan.", "vegan"),
    ("Hi", 'My landlord wrote: "I moved to Prague last year and I love it"', "Prague"),
]


def quoted(text: str, value: str) -> str:
    """Return what a sloppy model quotes: the value where it is there, or else all of it."""
    return value if value in text and " " not in value and len(value) > 1 else text


@table(("asked", "said", "value"), UNPROVED)
async def test_a_value_without_evidence_is_a_proposal(asked: str, said: str, value: str) -> None:
    given = item(message=1, quote=quoted(said, value), keyword="note", value=value)
    memory = memory_of(model=ScriptedChatModel(answer(given)))

    report = await memory.auto_detect_facts([assistant(asked), user(said)])

    assert await memory.current() == []
    assert (report.saved, report.rejected) == ([], [])
    [waiting] = await memory.review.inbox()
    assert (waiting.kind, waiting.fact.values) == ("proposed", (value,))
    assert waiting.fact.source is not None
    assert waiting.fact.source.doubts


PROVED: list[tuple[str, str, Any]] = [
    ("Do you live in Busan?", "Yes.", "Busan"),
    ("부산에 사세요?", "네, 맞아요.", "부산"),
    ("Hi", "I wake up at half past six", "06:30"),
    ("Hi", "I have a dozen chickens", "12 chickens"),
    ("Hi", "You can reach me at 555 123 4567.", "555 123 4567"),
    ("Hi", "I'm 36 years old", "born in 1990"),
    ("Hi", "I moved here 12 years ago", "moved in 2014"),
    ("Hi", "My doctor says I have high blood pressure.", "high blood pressure"),
    ("Hi", "I don't know if you remember, but I have two cats.", "two cats"),
    ("Hi", "ฉันชอบกาแฟ", "กาแฟ"),
    ("Hi", "Ich wohne in einem Hausboot", "Haus auf dem Wasser"),
    ("Hi", "담배를 끊었어요", "끊음"),
    ("Hi", "I'm vegan, what can I eat in Rome?", "vegan"),
    ("Hi", "Mieszkam w Łodzi od 2019 roku", "Łódź"),
    ("Hi", "I haven't had a car since 2019", "no car"),
]


@table(("asked", "said", "value"), PROVED)
async def test_a_value_in_other_words_is_stored(asked: str, said: str, value: str) -> None:
    quote = said if said[:3] in ("Ja,", "네, ") or "but" in said else said.partition(",")[0]
    given = item(message=1, quote=quote, keyword="note", value=value)
    memory = memory_of(model=ScriptedChatModel(answer(given)))

    report = await memory.auto_detect_facts([assistant(asked), user(said)])

    assert [each.fact.values for each in report.saved] == [(value,)], report.doubtful


@table(
    "value",
    ["-", "?", "...", "N.A.", "n/a", "[unknown]", "<unknown>", "Unknown.", "\u2013", "(null)"],
)
def test_a_placeholder_is_no_value(value: str) -> None:
    said = "Can you help me with my taxes?"
    assert (
        outcome(judge(said, {"quote": said, "keyword": "home", "value": value})) == "invalid value"
    )


async def test_the_examples_of_a_declared_concept_are_evidence() -> None:
    """The application says which words it means."""
    diet = Concept("diet", "What the user eats: omnivore, vegetarian or vegan")
    given = item(quote="I eat no animal products", keyword="diet", value="vegan")
    memory = memory_of(model=ScriptedChatModel(answer(given)), concepts=[diet])

    await memory.auto_detect_facts([user("I eat no animal products")])

    assert [each.values for each in await memory.current()] == [("vegan",)]


def test_the_model_may_say_that_its_item_is_not_stated() -> None:
    """The checklist of the prompt: what a model itself calls asked or denied is a proposal."""
    said = "My dog is allergic to chicken."
    given = {"quote": "allergic to chicken", "keyword": "allergies", "value": "chicken"}

    assert judge(said, {**given, "said_as": "stated"}).saved
    assert judge(said, given).saved
    for said_as in ("of another", "asked", "denied", "supposed", "quoted", "to work on"):
        assert judge(said, {**given, "said_as": said_as}).proposed
    assert judge(said, {**given, "subject": "dog"}).proposed


@table(
    ("who", "keyword", "value", "is_stored"),
    [
        ("writer", "allergies", "chicken", True),
        ("user", "allergies", "chicken", True),
        ("Alice", "allergies", "chicken", True),
        ("the writer and her dog", "allergies", "chicken", True),
        (None, "allergies", "chicken", True),
        ("dog (my dog)", "allergies", "chicken", False),
        ("the user's dog", "allergies", "chicken", False),
        ("dog of the writer", "allergies", "chicken", False),
        ("my dog", "dog-allergy", "chicken", True),
        ("my dog", "pets", "dog, allergic to chicken", True),
        ("Hund (mein Hund)", "pets", "dog, allergic to chicken", False),
        ("dog (mein Hund)", "pets", "dog, allergic to chicken", True),
        ("강아지", "allergies", "chicken", False),
    ],
)
def test_what_is_true_of_another_names_them(
    who: str | None, keyword: str, value: str, is_stored: bool
) -> None:
    item = {"quote": "allergic to chicken", "keyword": keyword, "value": value, "who": who}
    report = judge("My dog is allergic to chicken.", {**item, "said_as": "stated"})

    assert (bool(report.saved), bool(report.proposed)) == (is_stored, not is_stored)


@table(
    ("said", "who", "value", "expected"),
    [
        ("우리 형은 소방관이고", "older brother (우리 형)", "형은 소방관", "stored"),
        ("제 형은 소방관이고", "older brother (제 형)", "소방관", "flagged: model"),
        ("倒是我家猫对鸡肉过敏", "cat (我家猫)", "猫馒头对鸡肉过敏", "stored"),
        ("倒是我家猫对鸡肉过敏", "cat (我家猫)", "我对鸡肉过敏", "flagged: model"),
    ],
)
def test_another_may_have_a_name_of_one_letter(
    said: str, who: str, value: str, expected: str
) -> None:
    """In Korean and Chinese."""
    item = {"quote": said, "keyword": "facts", "value": value, "who": who, "said_as": "stated"}
    assert outcome(judge(said, item)) == expected


@table(
    ("said", "is_role"),
    [
        ("I've published 40 papers and I speak five languages", True),
        ('My student wrote "I\'ve published 40 papers". I speak five languages', False),
    ],
)
def test_what_is_beside_a_role_is_doubted(said: str, is_role: bool) -> None:
    """A model calls one part of it a role, and takes the rest for true."""
    papers = {"quote": "I've published 40 papers", "keyword": "work", "value": "40 papers"}
    spoken = {"quote": "I speak five languages", "keyword": "languages", "value": "five languages"}

    report = judge(said, papers | {"said_as": "to work on"}, spoken | {"said_as": "stated"})

    assert (len(report.saved), len(report.proposed)) == ((0, 2) if is_role else (1, 1))


@table(
    ("said", "keyword", "value", "outcomes"),
    [
        ("I don't like olives", "dislikes", "olives", ("flagged: negation", "stored")),
        ("Ich bin kein Lehrer", "job", "Lehrer", ("flagged: negation", "stored")),
        ("I own no car", "car", "no car", ("stored", "stored")),
        ("I like olives", "likes", "olives", ("stored", "stored")),
    ],
)
def test_a_negation_is_kept_only_if_the_model_says_so(
    said: str, keyword: str, value: str, outcomes: tuple[str, str]
) -> None:
    """A hasty model calls everything stated, also "home-city: Lyon" of who left Lyon."""
    item = {"quote": said, "keyword": keyword, "value": value, "who": "writer"}

    assert outcome(judge(said, {**item, "said_as": "stated"})) == outcomes[0]
    assert outcome(judge(said, {**item, "said_as": "negative"})) == outcomes[1]


CUT = [
    ("My dog is allergic to chicken.", "allergic to chicken", "chicken"),
    ("My roommate Leo can't stand cilantro", "can't stand cilantro", "cilantro"),
    ("Our neighbours just got a Tesla", "got a Tesla", "Tesla"),
    ("Translate into German: I live in Madrid.", "I live in Madrid", "Madrid"),
    ("Perhaps we'll sell the flat", "we'll sell the flat", "will sell the flat"),
    ("I wish I spoke Japanese", "I spoke Japanese", "Japanese"),
    ("The form says I am single", "I am single", "single"),
    ("Mein Bruder ist Pilot", "ist Pilot", "Pilot"),
    ("Mi hermana vive en Lima", "vive en Lima", "Lima"),
    ("Мой брат живёт в Минске", "живёт в Минске", "Минск"),
    ("우리 엄마는 간호사예요", "간호사예요", "간호사"),
    ("来年は京都に引っ越すかもしれない", "京都に引っ越す", "引っ越す"),
    ("我妹妹喜欢猫", "喜欢猫", "猫"),
]
WHOLE = [
    ("I moved to Porto last month", "moved to Porto", "Porto"),
    ("Ich esse kein Fleisch", "esse kein Fleisch", "kein Fleisch"),
    ("Vivo en Lima con mi hermana", "Vivo en Lima", "Lima"),
    ("저는 간호사예요", "간호사예요", "간호사"),
    ("私は看護師です", "看護師です", "看護師"),
    ("Sorry, I have the flu", "I have the flu", "flu"),
    ("My sister lives in Lima. I live in Cusco", "I live in Cusco", "Cusco"),
]


@table(("said", "quote", "value"), CUT)
def test_a_quote_without_the_beginning_of_its_clause_is_not_enough(
    said: str, quote: str, value: str
) -> None:
    """If it is also inexact: it leaves out who, whether or when."""
    for form in ("User said: {}.", "...{}", "&quot;{}&quot;"):
        near = {"quote": form.format(quote), "keyword": "note", "value": value}
        assert "cut quote" in outcome(judge(said, {**near, "said_as": "stated"}))
    exact = {"quote": quote, "keyword": "note", "value": value}
    assert "cut quote" not in outcome(judge(said, exact))


@table(
    ("said", "quote"),
    [
        ("My dog is allergic to nuts", "I am allergic to nuts"),
        ("My son has lived in Bonn since 2019", "I have lived in Bonn since 2019"),
        ("Eva works at Bosch and I work at Lidl", "I work at Bosch"),
    ],
)
def test_a_quote_that_puts_the_user_in_the_place_of_another_is_not_enough(
    said: str, quote: str
) -> None:
    near = {
        "quote": quote,
        "keyword": "note",
        "value": quote.rsplit(maxsplit=1)[-1],
        "said_as": "stated",
    }
    assert "cut quote" in outcome(judge(said, near))


@table(
    ("said", "quote", "value", "expected"),
    [
        ("Moro no Porto e trabalho como arquiteta.", "Moro no Porto", "Porto", "stored"),
        (
            "Moro no Porto e trabalho como arquiteta.",
            "trabalho como arquiteta",
            "arquiteta",
            "stored",
        ),
        ("Não moro no Porto", "moro no Porto", "Porto", "flagged: negation"),
        ("Moro no 118, portão verde", "Moro no 118", "118", "stored"),
        ("मेरा जूता 42 नंबर का है", "जूता 42 नंबर", "42", "stored"),
        ("मेरा जूता 42 न है", "जूता 42", "42", "flagged: negation"),
        ("ไม่ค่ะ ตอนนี้งานเยอะแล้ว วันพุธไม่ว่าง", "ตอนนี้งานเยอะแล้ว", "งานเยอะแล้ว", "stored"),
        ("ไม่ชอบแมว", "ชอบแมว", "แมว", "flagged: negation"),
        ("아니 난 삼겹살 없으면 안 돼", "아니 난 삼겹살 없으면 안 돼", "삼겹살", "stored"),
        (
            "Kim can't come, she moved to Lyon",
            "Kim can't come, she moved to Lyon",
            "Kim moved to Lyon",
            "stored",
        ),
        (
            "Kim can't come, she moved to Lyon",
            "Kim can't come, she moved to Lyon",
            "Kim comes",
            "flagged: negation",
        ),
        ("I have no Porsche", "I have no Porsche", "Porsche", "flagged: negation"),
        ("I have no Porsche", "Porsche", "Porsche", "flagged: negation"),
        ("No vivo en Madrid", "No vivo en Madrid", "Madrid", "flagged: negation"),
        ("Je n'habite plus à Lyon", "Je n'habite plus à Lyon", "Lyon", "flagged: negation"),
        ("I don't eat meat", "I don't eat meat", "no meat", "stored"),
        ("Ich esse kein Fleisch", "Ich esse kein Fleisch", "Fleisch", "flagged: negation"),
        ("I have no car, I love my bike", "I have no car, I love my bike", "bike", "stored"),
    ],
)
def test_a_value_without_the_negation_of_its_clause_is_a_proposal(
    said: str, quote: str, value: str, expected: str
) -> None:
    """Unless the model says that it is stated: "olives" as a dislike."""
    given = {"quote": quote, "keyword": "note", "value": value}
    assert outcome(judge(said, given)) == expected


@table("quote", ["Soy celiaca desde 2015", "soy celíaca, desde 2015", "Soy celíaca desde 2015."])
def test_a_quote_without_an_accent_or_a_comma_may_begin_anywhere(quote: str) -> None:
    said = "Busco recetas sin gluten, porque soy celíaca desde 2015"
    given = {"quote": quote, "keyword": "health", "value": "celíaca"}
    assert "cut quote" not in outcome(judge(said, given))


@table(("said", "quote", "value"), WHOLE)
def test_a_pronoun_before_the_quote_may_be_left_out(said: str, quote: str, value: str) -> None:
    near = {"quote": f"User said: {quote}", "keyword": "note", "value": value}
    assert outcome(judge(said, near)) == "flagged: near quote"


def test_inexact_quotes_of_right_items_are_stored() -> None:
    """Twelve forms of them, and the wrong ones of these forms; see `benchmarks.detection.forms`."""
    right, wrong = (list(inexact(label))[::7] for label in ("right", "wrong"))
    stored = sum(bool(judge(said, given).saved) for _, said, given in right)
    unmarked = sum(outcome(judge(said, given)) == "stored" for _, said, given in wrong)

    assert (len(right) > 400, len(wrong) > 140) == (True, True)
    assert stored >= 0.9 * len(right)
    assert unmarked <= 0.08 * len(wrong)


def test_inexact_quotes_are_marked_and_stored_as_the_message_has_them() -> None:
    report = judge(
        "I'm allergic to nuts and shrimps.",
        {"quote": "she is allergic to nuts", "keyword": "allergies", "value": "nuts"},
    )

    [saved] = report.saved
    assert saved.fact.source is not None
    assert (saved.fact.source.quote, saved.fact.source.doubts) == (
        "I'm allergic to nuts",
        ("near quote",),
    )


@table(
    ("said", "quote"),
    [
        ("I have 2 cats at home", "I have 3 cats at home"),
        ("I do not like loud jazz", "I like loud jazz"),
        ("I like tea", "I like green tea"),
        ("I moved to Quito", "I moved to Oslo"),
        ("The weather is nice", "I live in Rome"),
    ],
)
def test_a_quote_of_other_numbers_or_words_is_none(said: str, quote: str) -> None:
    value = quote.rsplit(maxsplit=1)[-1] if "green" not in quote else "green tea"
    given = {"quote": quote, "keyword": "note", "value": value}
    assert outcome(judge(said, given)) == "quote not found"


@table(
    ("asked", "answer", "keyword", "value", "is_stored"),
    [
        ("Do you smoke?", "No, never did.", "smoking", "smokes", False),
        ("Do you smoke?", "Yes, a lot", "smoking", "smokes", True),
        ("Do you smoke?", "No", "smoking", "does not smoke", True),
        ("Is your name Tom?", "It's Tim.", "name", "Tom", False),
        ("Is your name Tom?", "It's Tim.", "name", "Tim", True),
        ("Do you live in Ulm or Bonn?", "Bonn", "home-city", "Ulm", False),
        ("Do you live in Ulm or Bonn?", "Bonn", "home-city", "Bonn", True),
        ("Wohnst du in Ulm?", "Ja, seit März", "home-city", "Ulm", True),
        ("Do you do yoga?", "Yep, since March.", "hobbies", "yoga", True),
        ("개를 키우세요?", "네", "pets", "개", True),
        ("개를 키우세요?", "아뇨", "pets", "개", False),
    ],
)
def test_a_short_answer_confirms_only_what_it_means(
    asked: str, answer: str, keyword: str, value: str, is_stored: bool
) -> None:
    item = {"message": 1, "quote": answer, "keyword": keyword, "value": value}

    assert bool(judge([f">{asked}", answer], item).saved) == is_stored


LISTED = ">I noted: you live in Leeds, you are vegetarian, and your brother Tom is a cook."


@table(
    ("said", "quote", "keyword", "value", "said_as", "expected"),
    [
        ("Right.", "Right", "diet", "vegetarian", "confirmed", "stored"),
        ("Right.", "Right", "diet", "vegetarian", "stated", "flagged: value"),
        ("Not Leeds. The rest is right.", "The rest is right", "diet", "vegetarian", "confirmed",
         "stored"),
        ("Not Leeds. The rest is right.", "The rest is right", "home", "Leeds", "confirmed",
         "flagged: value"),
        ("Not Leeds. The rest is right.", "The rest is right", "home", "Leeds", "stated",
         "flagged: value"),
        ("The rest is right.", "The rest is right", "pet", "parrot", "confirmed", "flagged: value"),
        ("The rest is right.", "The rest is right", "diet", "vegetarian", "denied",
         "flagged: value, model"),
    ],
)  # fmt: skip
def test_agreement_is_evidence_for_what_was_said_before(
    said: str, quote: str, keyword: str, value: str, said_as: str, expected: str
) -> None:
    """If the model says that the writer agrees; but not for what another clause is about."""
    given = {"message": 1, "quote": quote, "keyword": keyword, "value": value}

    report = judge([LISTED, said], given | {"who": "writer", "said_as": said_as})

    assert outcome(report) == expected


def test_whom_an_item_is_true_of_may_be_named_apart() -> None:
    """The brother is no news: what was said of him before is confirmed with the rest."""
    given = {"message": 1, "quote": "The rest is right", "keyword": "family"}
    given |= {"value": "brother Tom: cook", "who": "brother (Tom)", "said_as": "confirmed"}

    assert outcome(judge([LISTED, "Not Leeds, that is Tom. The rest is right."], given)) == "stored"


def test_a_name_in_the_script_of_hindi_is_one() -> None:
    given = {"quote": "मीरा को एलर्जी है", "keyword": "allergy", "said_as": "stated"}  # fmt: skip
    given |= {"value": "मीरा को एलर्जी", "who": "daughter (मीरा)"}  # fmt: skip

    assert outcome(judge(given["quote"], given)) == "stored"


def test_the_writer_goes_on_behind_a_quotation() -> None:
    """What stands behind the marks is not introduced by the colon."""
    given = {"quote": "I look for a gift", "keyword": "plan", "value": "a gift for Lola"}
    said = 'Lola wrote me a letter: "I hate the cold". I look for a gift for her.'

    assert outcome(judge(said, given)) == "stored"
