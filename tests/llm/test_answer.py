"""Values that can be read from a model's answer, and answers that must be refused."""

import json
from collections.abc import Callable
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from factmem.llm.extraction import AnswerType, Problem, Reading
from tests.tables import table


class Item(BaseModel):
    keyword: str
    value: str
    weight: int = 1


class Items(BaseModel):
    items: list[Item]


class Tags(BaseModel):
    name: str
    tags: list[str] = []


class Settings(BaseModel):
    theme: str | None = None
    language: str | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Pets(BaseModel):
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]]


THEME = '{"keyword": "theme", "value": "dark"}'
EDITOR = '{"keyword": "editor", "value": "vim"}'
ITEMS = f'{{"items": [{THEME}]}}'
DARK = Items(items=[Item(keyword="theme", value="dark")])
BOTH = Items(items=[*DARK.items, Item(keyword="editor", value="vim")])


def read(output_type: Any, text: str) -> Any:
    """Return the value of an answer; a `Problem` if it has none."""
    reading = AnswerType[Any](output_type).read(text)
    return reading.value if isinstance(reading, Reading) else reading


READABLE: list[tuple[str, Any, str, Any]] = [
    ("plain", Items, ITEMS, DARK),
    ("white space around", Items, f"\n\n  {ITEMS}\t\n", DARK),
    ("byte order mark", Items, f"\ufeff{ITEMS}", DARK),
    ("fence", Items, f"```json\n{ITEMS}\n```", DARK),
    ("fence without a language", Items, f"```\n{ITEMS}\n```", DARK),
    ("fence on one line", Items, f"```{ITEMS}```", DARK),
    ("fence that is not closed", Items, f"```json\n{ITEMS}", DARK),
    ("prose before", Items, f"Sure! Here is what I found:\n{ITEMS}", DARK),
    ("prose after", Items, f"{ITEMS}\nLet me know if you need more {{details}}.", DARK),
    ("prose and fence", Items, f"Here:\n```json\n{ITEMS}\n```\nDone [1].", DARK),
    ("HTML around", Items, f"<html><body><pre>{ITEMS}</pre></body></html>", DARK),
    ("trailing comma in object", Items, f'{{"items": [{THEME}],}}', DARK),
    ("trailing comma in list", Items, f'{{"items": [{THEME},]}}', DARK),
    ("comment", Items, f'{{"items": [ // what he said\n{THEME}]}}', DARK),
    ("single quotes", Items, "{'items': [{'keyword': 'theme', 'value': 'dark'}]}", DARK),
    ("list for its object", Items, f"[{THEME}]", DARK),
    ("single item for the object", Items, THEME, DARK),
    ("single item for the list", Items, f'{{"items": {THEME}}}', DARK),
    ("list under another name", Items, f'{{"facts": [{THEME}]}}', DARK),
    ("object in an object", Items, f'{{"response": {ITEMS}}}', DARK),
    ("items one after the other", Items, f"{THEME}\n{EDITOR}", BOTH),
    ("items in prose", Items, f"First {THEME}, and then {EDITOR}.", BOTH),
    ("list as a string", Items, json.dumps({"items": f"[{THEME}]"}), DARK),
    ("items as strings", Items, json.dumps({"items": [THEME, EDITOR]}), BOTH),
    ("answer as a string", Items, json.dumps(ITEMS), DARK),
    ("thoughts", Items, f'<think>Maybe {{"items": []}}? No.</think>\n{ITEMS}', DARK),
    ("keys without quotes", Items, '{items: [{keyword: "theme", value: "dark"}]}', DARK),
    ("thoughts in capitals", Items, f'[THINK]Or {{"items": []}}?[/THINK]{ITEMS}', DARK),
    ("thoughts of MedGemma", Items, f'<unused94>thought\nOr {{"items": []}}?<unused95>{ITEMS}',
     DARK),
    ("thoughts of Seed", Items, f'<seed:think>Or {{"items": []}}?</seed:think>{ITEMS}', DARK),
    ("thoughts of Kimi", Items, f'◁think▷Or {{"items": []}}?◁/think▷{ITEMS}', DARK),
    ("thoughts of an analyst", Items, f'<analysis>Or {{"items": []}}?</analysis>\n{ITEMS}', DARK),
    ("channels", Items,
     f'<|channel|>a<|message|>{{"items": []}}?<|end|><|channel|>final<|message|>{ITEMS}', DARK),
    ("the answer in a tag", Items, f"<think>Well.</think>\n<answer>{ITEMS}</answer>", DARK),
    ("a token of a template in a string", dict[str, str], '{"a": "<|end|> b",}',
     {"a": "<|end|> b"}),
    ("thoughts, two of them", Items, f"<think>a</think>\n<think>[</think>{ITEMS}", DARK),
    ("thoughts without a beginning", Items, f'So "items": [..] or {{"a": </think>{ITEMS}', DARK),
    ("footnote before", Items, f"As said in [1] and [2, 3]: {ITEMS}", DARK),
    ("date in brackets before", Items, f"[2024-05-01] {ITEMS}", DARK),
    ("example before", Items, f'Instead of {{"a": 1}} I give {ITEMS}', DARK),
    ("same answer twice", Items, f"{ITEMS}\n{ITEMS}", DARK),
    ("duplicate items", Items, f'{{"items": [{THEME}, {THEME}]}}', Items(items=DARK.items * 2)),
    ("unknown keys beside", Items, f'{{"items": [{THEME}], "confidence": 0.9}}', DARK),
    ("nothing found", Items, '{"items": []}', Items(items=[])),
    ("empty list for its object", Items, "[]", Items(items=[])),
    ("number as a string", Item, f'{THEME[:-1]}, "weight": "3"}}',
     Item(keyword="theme", value="dark", weight=3)),
    ("list around a single object", Item, f"[{THEME}]", DARK.items[0]),
    ("key of the class around", Item, f'{{"Item": {THEME}}}', DARK.items[0]),
    ("Python's words", dict[str, bool | None], "{'a': True, 'b': False, 'c': None}",
     {"a": True, "b": False, "c": None}),
    ("apostrophe in quotes", dict[str, str], "{'a': 'it\\'s \"here\"'}", {"a": 'it\'s "here"'}),
    ("apostrophe escaped for nothing", dict[str, str], '{"a": "it\\\'s"}', {"a": "it's"}),
    ("line break in a string", dict[str, str], 'x {"a": "two\nlines\tand a tab"}',
     {"a": "two\nlines\tand a tab"}),
    ("brackets in a string", dict[str, str], 'x {"a": "]}```[{"}', {"a": "]}```[{"}),
    ("closing thought in a string", dict[str, str], '```\n{"a": "</think>[]"}\n```',
     {"a": "</think>[]"}),
    ("closing thought in a string, prose around", dict[str, str], 'So: {"a": "</think>{}"}.',
     {"a": "</think>{}"}),
    ("footnote before a bare list", Items, f"As in [1]: [{THEME}]", DARK),
    ("two slashes in a string", dict[str, str], 'x {"a": "http://b"}', {"a": "http://b"}),
    ("emoji and Korean", dict[str, str], 'x {"언어": "코틀린 🎉"}', {"언어": "코틀린 🎉"}),
    ("escaped emoji", dict[str, str], 'x {"a": "\\ud83c\\udf89"}', {"a": "🎉"}),
    ("integer of 100 digits", dict[str, int], 'x {"a": 1%s}' % ("0" * 99), {"a": 10**99}),
    ("scalar in its envelope", int, '{"answer": 42}', 42),
    ("scalar alone", int, "42", 42),
    ("scalar in a fence", str, '```json\n"Kotlin"\n```', "Kotlin"),
    ("text that looks like JSON", str, '{"answer": "[1, 2]"}', "[1, 2]"),
    ("date", date, '{"answer": "2024-05-01"}', date(2024, 5, 1)),
    ("literal", Literal["free", "pro"], '"pro"', "pro"),
    ("null where it may be", int | None, "null", None),
    ("list in its envelope", list[int], '{"answer": [1, 2]}', [1, 2]),
    ("list alone", list[int], "[1, 2]", [1, 2]),
    ("one for a list", list[str], '{"answer": "Kotlin"}', ["Kotlin"]),
    ("list as a string in its envelope", list[int], '{"answer": "[1, 2]"}', [1, 2]),
    ("tuple", tuple[int, str], '[1, "a"]', (1, "a")),
    ("set", set[int], "[1, 1, 2]", {1, 2}),
    ("object with a list of its own", Tags, '{"name": "a", "tags": "b"}',
     Tags(name="a", tags=["b"])),
    ("members of a union", Pets, '[{"kind": "cat", "lives": 9}]',
     Pets(pets=[Cat(kind="cat", lives=9)])),
    ("one member of a union", Pets, '{"kind": "dog", "tricks": "sit"}',
     Pets(pets=[Dog(kind="dog", tricks=["sit"])])),
    ("union at the root", Cat | Dog, '{"kind": "cat", "lives": 9}', Cat(kind="cat", lives=9)),
    ("no key at all", Settings, "{}", Settings()),
    ("optional keys in an object", Settings, '{"settings": {"theme": "dark"}}',
     Settings(theme="dark")),
]  # fmt: skip


@table(
    ("output_type", "text", "expected"),
    [row[1:] for row in READABLE],
    ids=[row[0] for row in READABLE],
)
def test_unambiguous_answers_are_parsed(output_type: Any, text: str, expected: Any) -> None:
    """With anything around the data, or with damage to its outermost shape."""
    value = read(output_type, text)

    assert value == expected
    assert type(value) is type(expected)


UNREADABLE: list[tuple[str, Any, str, str]] = [
    ("empty", Items, "", "it is empty"),
    ("white space", Items, " \n\ufeff ", "it is empty"),
    ("prose", Items, "I could not find any facts.", "it contains no JSON"),
    ("prose with brackets", Items, "Nothing [sic] was {really} said (see [1, p. 3]).", "no JSON"),
    ("refusal for a text", str, "I cannot help with that.", "it contains no JSON"),
    ("HTML", Items, "<html><style>p {margin: 0}</style><h1>502</h1></html>", "it contains no JSON"),
    ("cut off in an item", Items, f'{{"items": [{THEME}, {{"keyword": "ed', "ends before"),
    ("cut off between items", Items, f'{{"items": [{THEME},', "ends before"),
    ("cut off before the end", Items, f'```json\n{{"items": [{THEME}]', "ends before"),
    ("cut off list", Items, f"[{THEME}, {EDITOR}", "ends before"),
    ("cut off in single quotes", Items, "{'items': [{'keyword': 'the", "ends before"),
    ("cut off thoughts", Items, f"<think>Perhaps {ITEMS}", "thoughts"),
    ("missing comma", Items, f'{{"items": [{THEME} {EDITOR}]}}', "malformed"),
    ("missing colon", Items, '{"items" []}', "malformed"),
    ("missing bracket", Items, f'{{"items": [{THEME}}}', "malformed"),
    ("dots for the rest", Items, f'{{"items": [{THEME}, ...]}}', "malformed"),
    ("not a number", dict[str, float], '{"a": NaN}', "malformed"),
    ("infinity", dict[str, float], '{"a": -Infinity}', "malformed"),
    ("too large for a float", dict[str, float], '{"a": 1e999}', "float_type"),
    ("half a surrogate pair", dict[str, str], '{"a": "\ud83c"}', "surrogate"),
    ("half an escaped pair", dict[str, str], '{"a": "\\ud83c"}', "malformed"),
    ("nested too deeply", Items, "[" * 300 + "]" * 300, "too deeply"),
    ("nested without end", Items, "[" * 100_000, "too deeply"),
    ("wrong type", Item, '{"keyword": "theme", "value": 3}', "string_type"),
    ("missing key", Item, '{"keyword": "theme"}', "missing"),
    ("strange keys", Settings, '{"colour": "dark"}', "none of the expected keys"),
    ("strange keys in items", Items, '{"items": [{"word": "theme"}]}', "missing"),
    ("single item that does not fit", Items, '{"keyword": "theme"}', "missing"),
    ("bad item among good ones", Items, f'{{"items": [{THEME}, {{"keyword": 1}}]}}', "missing"),
    ("bad item after a good one", Items, f'{THEME}\n{{"keyword": "editor"}}', "missing"),
    ("null for a list", Items, '{"items": null}', "list_type"),
    ("number for an object", Items, "42", "none of the expected keys"),
    ("scalar for a list of objects", Items, '{"items": "dark"}', "model_type"),
    ("two answers", Items, f'{ITEMS}\nor rather\n{{"items": [{EDITOR}]}}', "several"),
    ("two objects for one", Item, f"{THEME}\n{EDITOR}", "several"),
    ("many objects for one", Item, f"[{THEME}, {EDITOR}]", "none of the expected keys"),
    ("two lists", list[int], "[1] and [2]", "several"),
    ("unknown choice", Literal["free", "pro"], '"gold"', "literal_error"),
    ("unknown member of a union", Pets, '[{"kind": "cow"}]', "union_tag_invalid"),
    ("no date", date, '{"answer": "last week"}', "date_from_datetime_parsing"),
    ("date that does not exist", date, '"2024-02-30"', "date_from_datetime_parsing"),
    ("too few for a tuple", tuple[int, str], "[1]", "missing"),
    ("expression", int, '{"answer": __import__("os").getpid()}', "malformed"),
    ("more values than anybody means", Items, "[]" * 10_001, "more than 10,000"),
    ("longer than anybody writes", Items, "x" * 1_000_001, "longer than 1,000,000"),
]


@table(
    ("output_type", "text", "reason"),
    [row[1:] for row in UNREADABLE],
    ids=[row[0] for row in UNREADABLE],
)
def test_invalid_answers_are_rejected(output_type: Any, text: str, reason: str) -> None:
    """A damaged, ambiguous or wrong answer gives nothing rather than a part of it."""
    problem = read(output_type, text)

    assert isinstance(problem, Problem)
    assert reason in problem.summary
    assert problem.details.startswith("- ")


@pytest.mark.parametrize(
    ("text", "has_json"),
    [("no facts", False), ("", False), ("[1]", True), ('{"items": [', True), (THEME[:-1], True)],
)
def test_an_answer_without_json_differs_from_a_bad_one(text: str, has_json: bool) -> None:
    """It shows that the endpoint ignored the request for JSON."""
    problem = read(Items, text)

    assert isinstance(problem, Problem)
    assert problem.has_json is has_json


def test_the_summary_quotes_nothing() -> None:
    """It is part of error messages and logs; only the model gets the details."""
    problem = read(dict[str, Item], '{"PIN 1234": {"keyword": "PIN 5678", "value": 9}}')

    assert isinstance(problem, Problem)
    assert "PIN" not in problem.summary
    assert "PIN 1234.value: Input should be a valid string" in problem.details


def test_details_are_bounded() -> None:
    """Ten thousand bad items must not make a prompt of ten thousand lines."""
    problem = read(Items, json.dumps({"items": [{"keyword": "x"}] * 10_000}))

    assert isinstance(problem, Problem)
    assert problem.details.count("\n") == 20
    assert problem.details.endswith("- and 9980 more")


def test_ten_thousand_items_are_parsed() -> None:
    """They come as one list, and one after the other."""
    wanted = AnswerType(Items)

    listed = wanted.read(json.dumps({"items": [json.loads(THEME)] * 10_000}))
    in_lines = wanted.read("\n".join([THEME] * 10_000))

    assert listed == in_lines == Reading(Items(items=DARK.items * 10_000))


@pytest.mark.parametrize(
    "output_type", [Callable[[], int], object.__new__], ids=["function type", "function"]
)
def test_a_type_without_a_schema_raises(output_type: Any) -> None:
    """The error comes before any request."""
    with pytest.raises(TypeError, match="schema"):
        AnswerType[Any](output_type)


def test_the_instruction_contains_the_schema() -> None:
    """It is verbatim, so that a model without JSON mode can follow it, and it mentions JSON."""
    wanted = AnswerType(Items)

    assert json.loads(wanted.instruction().partition("\n")[2]) == wanted.schema
    assert "JSON" in wanted.instruction()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip
OBJECTS = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"])), JSON_VALUES, min_size=1, max_size=4
)
PROSE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="[{<'\""))


@given(OBJECTS, PROSE, PROSE)
def test_prose_around_json_changes_nothing(value: Any, before: str, after: str) -> None:
    """Any object is found again, whatever text is around it."""
    text = f"{before}{json.dumps(value, ensure_ascii=False)}{after}"

    assert read(dict[str, Any], text) == value


@given(OBJECTS)
def test_python_literals_are_parsed(value: Any) -> None:
    """Models trained on Python confuse the quotes, names and escapes of `repr` with JSON."""
    written = repr(json.loads(json.dumps(value)))

    result = read(dict[str, Any], f"answer = {written}")

    assert result == value or "\\x" in written or "\\U" in written


@given(OBJECTS, st.data())
def test_a_truncated_answer_is_never_parsed(value: Any, data: st.DataObject) -> None:
    """No prefix of an answer passes for a shorter answer."""
    whole = json.dumps({"items": [value], "rest": "x"})
    cut = data.draw(st.integers(0, len(whole) - 1))

    assert isinstance(read(dict[str, Any], whole[:cut]), Problem)


@given(st.text(alphabet="[]{}:,\"'\\ \n/<>think1.-eTrufalsnoN`\ufeff한\ud800", max_size=200))
def test_no_answer_crashes_the_parser(text: str) -> None:
    """It returns a value or a problem; it never raises."""
    assert isinstance(AnswerType(dict[str, Any]).read(text), Reading | Problem)


@pytest.mark.parametrize(
    "piece",
    ["[", "{", "[{", '{"a":', '["', "['", '"', "\\", "[1,", "x[", "[]", "[//", "<think>",
     "</think>[", "```\n", "{'a", "[-", "\ufeff[", '"\\u', '[""', "[1e"],
)  # fmt: skip
@pytest.mark.parametrize("size", [10_000, pytest.param(200_000, marks=pytest.mark.storm)])
def test_hostile_repetition_takes_linear_time(piece: str, size: int) -> None:
    """Two megabytes take a second; in quadratic time they would take hours."""
    wanted = AnswerType(dict[str, Any])

    assert isinstance(wanted.read("x" + piece * (size // len(piece))), Problem)
    assert isinstance(wanted.read(piece * (size // len(piece))), Problem)
    assert isinstance(wanted.read(piece * (10 * size // len(piece))), Problem)
