"""Tests of following the conversations of a place."""

from factmem import FactStore, Place
from factmem.testing._facts import AGENT, THEME, theme
from tests.contracts.conversations import ALICE, BOB, said
from tests.contracts.instances import SecondInstances


class TurnChanges(SecondInstances):
    """Who follows the conversations of a place reads only what is new."""

    async def test_changes_are_followed(self, provider: FactStore, second: FactStore) -> None:
        """Who follows a place has its messages, whatever is appended, removed, purged or erased."""
        version: object = None
        place, empty = Place(AGENT, ALICE), Place(AGENT, BOB)
        held = dict[str, list[tuple[int, str]]]()
        wholes = 0

        async def follow() -> None:
            nonlocal version, wholes
            found = await provider.conversations.changes({place: version, empty: None})
            assert not found.pop(empty).conversations
            changes = found.pop(place, None)
            assert not found
            if changes is not None:
                version = changes.version
                for name, turns, is_whole in changes.conversations:
                    wholes += is_whole
                    kept = held.get(name, [])
                    first = turns[0].number if turns else 0
                    kept = [] if is_whole else [each for each in kept if each[0] < first]
                    held[name] = [*kept, *((turn.number, turn.text) for turn in turns)]
            infos = await second.conversations.conversations(Place(AGENT, ALICE))
            assert {name for name, turns in held.items() if turns} == {info.id for info in infos}
            for info in infos:
                stored = await second.conversations.turns(info.id, Place(AGENT, ALICE))
                assert held[info.id] == [(turn.number, turn.text) for turn in stored]
            assert await provider.conversations.changes({place: version}) == {}

        await follow()
        await said(provider, "I love dark", "Thanks")
        await follow()
        await said(second, "one", "two", chat="other")
        await said(provider, "More")
        await provider.save(theme("dark"), ALICE, AGENT)
        await follow()
        assert wholes == 2
        (turn, *_) = await said(second, "gone", "stays")
        await follow()
        assert wholes == 2
        await second.conversations.remove("chat", Place(AGENT, ALICE), ids=[turn.id])
        await follow()
        await second.conversations.remove("other", Place(AGENT, ALICE))
        await follow()
        await said(provider, "again", chat="other")
        await second.forget(ALICE, AGENT, concept=THEME, purge=True)
        await follow()
        assert held["chat"][0] == (0, "I love […]")
        await second.erase(ALICE, AGENT)
        await follow()
        await said(provider, "anew")
        await follow()
        assert not (await provider.conversations.changes({empty: None}))[empty].conversations
