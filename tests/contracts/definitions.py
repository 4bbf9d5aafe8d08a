"""Tests of the definitions of concepts that a store was told."""

from typing import Literal

from factmem.models.facts import Concept, ConceptDefinition, FactType
from factmem.providers.store import FactStore
from factmem.testing._facts import AGENT, LANGUAGES, THEME, USER, theme
from tests.contracts.instances import SecondInstances

THEMES = Concept(THEME.keyword, "Themes", FactType.MULTIPLE, was=["look"])
SHADE = Literal["dark", "light"]
SHADES = Concept(THEME.keyword, "A theme", value_type=SHADE)
HUES = Concept(THEME.keyword, "A theme", value_type=int, read=len)


async def told(store: FactStore, keyword: str = THEME.keyword) -> ConceptDefinition:
    """Return the definition of a keyword."""
    (found,) = [each for each in await store.concepts() if each.keyword == keyword]
    return found


class Definitions(SecondInstances):
    """A store keeps what it was told about each concept."""

    async def test_it_keeps_definitions(self, provider: FactStore, second: FactStore) -> None:
        """Each has a keyword, a cardinality and a schema, for every instance."""
        assert await provider.concepts() == []

        await provider.define([THEME, LANGUAGES])

        found = [(each.keyword, each.fact_type, each.version) for each in await second.concepts()]
        assert found == [
            (THEME.keyword, FactType.SINGLE, 1),
            (LANGUAGES.keyword, FactType.MULTIPLE, 1),
        ]
        assert (await told(second)).json_schema == {"type": "string"}

    async def test_definitions_are_no_facts(self, provider: FactStore) -> None:
        """They are in no listing, and erasing places leaves them."""
        await provider.define([THEME])
        assert (await provider.places(), await provider.list_places()) == ([], [])

        await provider.save(theme("dark"), USER, AGENT)
        await provider.erase(USER, AGENT)

        assert (await provider.places(), await provider.list_places(limit=1)) == ([], [])
        assert (await told(provider)).version == 1

    async def test_a_wider_definition_is_taken_over(
        self, provider: FactStore, second: FactStore
    ) -> None:
        """In whichever order two programs tell theirs, the wider one stays."""
        await provider.define([SHADES])
        await second.define([THEMES])
        wide = await told(provider)
        for each in (SHADES, THEMES, SHADES):
            await provider.define([each])

        assert await told(second) == wide
        assert (wide.fact_type, wide.json_schema) == (FactType.MULTIPLE, {"type": "string"})
        assert (wide.version, wide.was) == (2, ("look",))

    async def test_another_type_is_taken_over_with_a_reader(self, provider: FactStore) -> None:
        """Without one it changes nothing, and a former type does not come back."""
        await provider.define([THEME])
        await provider.define([Concept(THEME.keyword, "A number", value_type=int)])
        assert (await told(provider)).json_schema == {"type": "string"}

        for each in (HUES, THEME, HUES):
            await provider.define([each])

        found = await told(provider)
        assert (found.json_schema, found.version) == ({"type": "integer"}, 2)
