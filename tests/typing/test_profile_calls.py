"""mypy and pyright refuse each wrong use of a profile, with a message that names the mistake."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.types

ROOT = Path(__file__).parents[2]
RIGHT = ROOT / "tests" / "typing" / "profile_calls.py"
FIELD = 'Cannot assign to attribute "{}" for class "Traveller"'

WRONG: list[tuple[str, str, str]] = [
    (
        "me.city",
        '"Traveller" has no attribute "city"',
        'Cannot access attribute "city" for class "Traveller"',
    ),
    (
        'me.age = "36"',
        'Incompatible types in assignment (expression has type "str", variable has type "int | None")',
        FIELD.format("age"),
    ),
    (
        "me.home_city = 3",
        'Incompatible types in assignment (expression has type "int", variable has type "str | None")',
        FIELD.format("home_city"),
    ),
    (
        'me.pets = ["Rex"]',
        'List item 0 has incompatible type "str"; expected "Pet"',
        FIELD.format("pets"),
    ),
    (
        'me.pets.append("Rex")',
        'Argument 1 to "append" of "list" has incompatible type "str"; expected "Pet"',
        (
            'Argument of type "Literal[\'Rex\']" cannot be assigned to parameter "object" of type "Pet" in '
            'function "append"'
        ),
    ),
    (
        "me.languages.add(3)",
        'Argument 1 to "add" of "set" has incompatible type "int"; expected "str"',
        (
            'Argument of type "Literal[3]" cannot be assigned to parameter "element" of type "str" in '
            'function "add"'
        ),
    ),
    (
        "me.units = None",
        'Incompatible types in assignment (expression has type "None", variable has type "str")',
        FIELD.format("units"),
    ),
    (
        "print(me.age + 1)",
        'Unsupported operand types for + ("None" and "int")',
        'Operator "+" not supported for "None"',
    ),
    (
        "me.home_city.title()",
        'Item "None" of "str | None" has no attribute "title"',
        '"title" is not a known attribute of "None"',
    ),
    (
        "Traveller(home_city=3)",
        'Argument "home_city" to "Traveller" has incompatible type "int"; expected "str | None"',
        (
            'Argument of type "Literal[3]" cannot be assigned to parameter "home_city" of type "str | None" '
            'in function "__init__"'
        ),
    ),
    (
        'Traveller(city="Busan")',
        'Unexpected keyword argument "city" for "Traveller"',
        'No parameter named "city"',
    ),
    (
        "await memory.current(Pet)",
        'Value of type variable "P" of "current" of "AgentMemory" cannot be "Pet"',
        'No overloads for "current" match the provided arguments',
    ),
    (
        'await memory.current("home-city")',
        'No overload variant of "current" of "AgentMemory" matches argument type "str"',
        'No overloads for "current" match the provided arguments',
    ),
    (
        "await memory.save(Traveller)",
        'No overload variant of "save" of "AgentMemory" matches argument type "type[Traveller]"',
        (
            'Argument of type "type[Traveller]" cannot be assigned to parameter "concept" of type "Profile" '
            'in function "save"'
        ),
    ),
    (
        'await memory.save(Pet(name="Rex"))',
        'No overload variant of "save" of "AgentMemory" matches argument type "Pet"',
        (
            'Argument of type "Pet" cannot be assigned to parameter "concept" of type "Profile" in function '
            '"save"'
        ),
    ),
    (
        "await memory.save(CITY, 3)",
        'Cannot infer value of type parameter "V" of "save" of "AgentMemory"',
        'No overloads for "save" match the provided arguments',
    ),
    (
        "memory.edit(me)",
        (
            'Argument 1 to "edit" of "AgentMemory" has incompatible type "Traveller"; expected '
            '"type[Never]"'
        ),
        'Argument of type "Traveller" cannot be assigned to parameter "profile" of type "type[P@edit]"',
    ),
    ("me.nights = 2", '"Traveller" has no attribute "nights"', FIELD.format("nights")),
    (
        "me.profile_facts(3)",
        'Argument 1 to "profile_facts" of "Profile" has incompatible type "int"; expected "str"',
        (
            'Argument of type "Literal[3]" cannot be assigned to parameter "field" of type "str" in function '
            '"profile_facts"'
        ),
    ),
    (
        "AgentMemory(memory.provider, concepts=[me])",
        'List item 0 has incompatible type "Traveller"; expected "Concept[Any, Any] | type[Profile]"',
        (
            'Argument of type "list[Traveller]" cannot be assigned to parameter "concepts" of type '
            '"Concepts" in function "__init__"'
        ),
    ),
    (
        "Detection(only=[Pet])",
        'List item 0 has incompatible type "type[Pet]"; expected "Concept[Any, Any] | type[Profile]"',
        (
            'Argument of type "list[type[Pet]]" cannot be assigned to parameter "only" of type "Concepts | '
            'None" in function "__init__"'
        ),
    ),
    (
        "remembered(description=3)",
        'Argument "description" to "remembered" has incompatible type "int"; expected "str"',
        (
            'Argument of type "Literal[3]" cannot be assigned to parameter "description" of type "str" in '
            'function "remembered"'
        ),
    ),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, int]]:
    """Return a program with the right and the wrong uses, and the wrong ones by their lines."""
    lines = [*RIGHT.read_text().splitlines(), "", "", "async def wrong("]
    lines += ["    memory: AgentMemory, me: Traveller", ") -> None:"]
    numbers: dict[int, int] = {}
    for number, (statement, _, _) in enumerate(WRONG):
        lines.append(f"    {statement}")
        numbers[len(lines)] = number
    path = tmp_path_factory.mktemp("typing") / "program.py"
    path.write_text("\n".join(lines) + "\n")
    return path, numbers


def test_mypy(program: tuple[Path, dict[int, int]]) -> None:
    """With no configuration but strict: an application need not have pydantic's plugin."""
    pytest.importorskip("mypy")
    path, numbers = program
    settings = path.with_name("mypy.ini")
    # Reading the thousands of modules of openai, of which no message speaks, took most of the time.
    settings.write_text("[mypy]\nstrict = true\n[mypy-numpy.*,openai.*]\nfollow_imports = skip\n")
    command = [
        sys.executable,
        "-m",
        "mypy",
        f"--config-file={settings}",
        "--follow-imports=silent",
        "--cache-dir=/dev/null",  # other options than the project's would empty its cache
    ]

    done = subprocess.run([*command, path], cwd=ROOT, capture_output=True, text=True, check=False)

    found: dict[int, str] = {}
    for number, message in re.findall(r"program\.py:(\d+): error: (.*)  \[", done.stdout):
        found.setdefault(numbers.get(int(number), -int(number)), message)
    assert found == {number: message for number, (_, message, _) in enumerate(WRONG)}, done.stdout


def test_pyright(program: tuple[Path, dict[int, int]]) -> None:
    """In strict mode."""
    pytest.importorskip("pyright")
    path, numbers = program
    settings = {"include": ["."], "extraPaths": [str(ROOT)], "typeCheckingMode": "strict"}
    (path.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]

    done = subprocess.run(
        [*command, "-p", path.parent], cwd=path.parent, capture_output=True, text=True, check=False
    )

    found: dict[int, str] = {}
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        number = int(each["range"]["start"]["line"]) + 1
        is_noise = each["rule"] in {"reportUnusedExpression", "reportUnknownMemberType"}
        if not is_noise:
            found.setdefault(numbers.get(number, -number), each["message"].splitlines()[0])
    assert found == {number: message for number, (_, _, message) in enumerate(WRONG)}
    assert len(WRONG) >= 20
