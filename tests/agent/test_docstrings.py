"""The parts of a docstring that become the description of a tool."""

from typing import Any

from factmem.agent.tools import Tool
from tests.tables import table


def parsed(docstring: str | None) -> tuple[str, dict[str, str]]:
    """The description of a tool with this docstring, and those of its parameters."""

    def tool(city: str, day: int) -> None: ...

    tool.__doc__ = docstring
    definition: Any = Tool(tool).definition
    function = definition["function"]
    properties = function["parameters"]["properties"]
    described = {name: schema.get("description", "") for name, schema in properties.items()}
    return function.get("description", ""), {k: text for k, text in described.items() if text}


@table(
    ("docstring", "description", "parameters"),
    [
        (None, "", {}),
        ("", "", {}),
        ("Tell the weather.", "Tell the weather.", {}),
        ("Tell\n    the weather.\n\n    More.", "Tell the weather.", {}),
        (
            "Tell.\n\n    Args:\n        city: The city.\n        day: The day.\n",
            "Tell.",
            {"city": "The city.", "day": "The day."},
        ),
        (
            "Tell.\n\n    Args:\n        city (str): The city.\n        day (int, optional): Day.",
            "Tell.",
            {"city": "The city.", "day": "Day."},
        ),
        (
            """Tell.

            Args:
                city: Either
                    a: big one,
                    or not.

                day: The day.

            Returns:
                day: No parameter.
            """,
            "Tell.",
            {"city": "Either a: big one, or not.", "day": "The day."},
        ),
        (
            "\n    Args:\n        city:\n            On the next line.\n    ",
            "",
            {"city": "On the next line."},
        ),
        ("Tell.\n\n    Arguments:\n      day: 며칠인지.\n", "Tell.", {"day": "며칠인지."}),
        ("Tell.\n\n    Args:\n        other: Not there.\n", "Tell.", {}),
        ("Tell.\n\n    Args:\n    city: Not indented.\n", "Tell.", {}),
    ],
)
def test_summary_and_parameters(
    docstring: str | None, description: str, parameters: dict[str, str]
) -> None:
    """As people write them in Google's style; what is not understood is left out."""
    assert parsed(docstring) == (description, parameters)
