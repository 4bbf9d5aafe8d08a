"""Tool arguments in the forms that frameworks and models pass."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from factmem.memory.agent_memory import AgentMemory
from factmem.providers.in_memory import InMemoryProvider
from tests.memory.test_memory_tools import call, tool
from tests.tables import table
from tests.world import AGENT, ALICE, BOB, COMPANY, LANGUAGES, languages, memory_of, note, theme


@pytest.fixture
async def memory() -> AgentMemory:
    """Save Alice's theme and languages."""
    store = InMemoryProvider()
    await store.save(theme("dark"), ALICE, AGENT)
    await store.save(languages("en", "ko"), ALICE, AGENT)
    return memory_of(store)


async def test_a_mapping_is_checked_as_a_string_is(memory: AgentMemory) -> None:
    """Unknown parameters and values without JSON are refused here too."""
    forget = tool(memory, "forget")

    for wrong in (
        {"value": "ko"}, {"entity": "bob"}, {"values": ["ko"], "older_than": "2020"},
        {"values": {1}},
    ):  # fmt: skip
        told = await forget.call({"concept": "languages", **wrong})
        assert told.startswith("Error: nothing was done.")
    assert json.loads(await forget.call({"concept": "languages", "values": ("ko",)})) == {
        "forgotten": 1
    }


async def test_none_means_no_arguments(memory: AgentMemory) -> None:
    """A tool without required parameters runs; another reports what it needs."""
    assert json.loads(await tool(memory, "list_concepts").call(None))["found"] == 2
    assert json.loads(await tool(memory, "list_concepts").call())["found"] == 2
    assert "query" in await tool(memory, "recall").call(None)
    wrong: Any = 7
    assert (await tool(memory, "recall").call(wrong)).startswith("Error:")


@table(
    "arguments",
    [
        {"query": "theme"},
        MappingProxyType({"query": "theme", "concepts": None}),
        '```json\n{"query": "theme"}\n```',
        '```\n{"query": "theme"}\n```',
        ' ```JSON {"query": "theme"}```\n',
        "{'query': 'theme'}",
        '{"query": "theme",}',
        '{"query": "theme", // what to look for\n"limit": 3}',
        "```\n{'query': 'theme'}",
        '"{\\"query\\": \\"theme\\"}"',
        '"theme"',
        "theme",
        '{"query": "theme", "limit": "3", "concepts": "ide-theme"}',
        '{"query": "theme", "limit": null, "concepts": null}',
        '{"query": "theme", "limit": -2, "concepts": ["IDE-theme"]}',
    ],
)
async def test_arguments_are_parsed(
    memory: AgentMemory, arguments: str | Mapping[str, object]
) -> None:
    """Most frameworks have parsed the JSON; a string has any form that an answer may have."""
    told = json.loads(await tool(memory, "recall").call(arguments))

    assert (told["found"], told["facts"][0]["values"]) == (1, ["dark"])


@pytest.mark.parametrize(
    "arguments",
    [
        '{"query": "theme"} and nothing about work', '{"query": "theme"', '["theme"',
        '```json\n{"query": "theme"', '```json\n{"query": "theme"\n```',
        '"{\\"query\\": \\"theme\\""', "[1]", "{}", "7", "", '{"query": {}}', '{"query": " "}',
        '{"query": "a", "limit": NaN}',
    ],
)  # fmt: skip
async def test_malformed_json_is_an_error(memory: AgentMemory, arguments: str) -> None:
    """Used as search words it would find nothing, and the model would believe that."""
    assert (await tool(memory, "recall").call(arguments)).startswith("Error: nothing was done.")


@pytest.mark.parametrize("values", [[], "", None])
async def test_an_empty_list_does_not_mean_all_values(memory: AgentMemory, values: object) -> None:
    """An empty list of a model does not mean everything; the error says how to express that."""
    told = await tool(memory, "forget").call({"concept": "languages", "values": values})

    assert told.startswith("Error: nothing was done.")
    assert "leave it out" in told
    assert len(await memory.current(LANGUAGES)) == 1
    assert await call(memory, "forget", concept="languages") == {"forgotten": 2}


@pytest.mark.parametrize("prefix", ["my tool ", "m.", "münze_", "notes/", "x" * 52, "a\n"])
async def test_a_prefix_gives_names_that_endpoints_accept(memory: AgentMemory, prefix: str) -> None:
    """The error comes here, and not from an endpoint during a run."""
    with pytest.raises(ValueError, match="a-z and A-Z, 0-9, '_' and '-', at most 64"):
        memory.tools(prefix)


async def test_a_prefix_may_have_51_characters(memory: AgentMemory) -> None:
    """The longest name then has the maximum length; an empty prefix is allowed."""
    assert max(len(each.name) for each in memory.tools("x" * 51)) == 64
    assert memory.tools("")[0].name == "recall"


async def test_a_row_names_its_entity_if_that_is_ambiguous(memory: AgentMemory) -> None:
    """It is needed for two users, and not for one user or a subject without entities."""
    await memory.store.save(theme("light"), BOB, AGENT)
    await memory.store.save(note("theme-of-signs", "grey"), COMPANY, AGENT)
    both = memory.view(subjects=[ALICE, BOB, COMPANY])

    def whose(told: Any) -> set[tuple[str, str, str | None]]:
        return {(row["values"][0], row["about"], row.get("entity")) for row in told["facts"]}

    assert whose(await call(both, "recall", query="theme")) == {
        ("dark", "user", "alice"),
        ("light", "user", "bob"),
        ("grey", "company", None),
    }
    one = both.view(subjects=[BOB, COMPANY])
    assert ("light", "user", None) in whose(await call(one, "recall", query="theme"))
