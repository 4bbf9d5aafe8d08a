"""Tests of conversations, of following them, and of the queue of those that are to be learnt."""

from datetime import timedelta
from random import Random

import anyio
import pytest

from factmem import FactSource, FactStore, MemoryScope, Place, SourceKind
from factmem.models.places import UNBOUNDED, Boundary
from factmem.providers.conversations import LearningTask, Turn, new_turn
from factmem.testing._facts import AGENT, PERSON, THEME, theme
from factmem.testing.clock import SettableClock
from tests.contracts.instances import SecondInstances

ALICE, BOB = PERSON.of("alice"), PERSON.of("bob")
REST = timedelta(seconds=30)


def at(*places: Place) -> Boundary:
    return UNBOUNDED.narrowed(places=places)


LEASE = timedelta(minutes=5)


async def said(
    store: FactStore, *texts: str, chat: str = "chat", **options: timedelta
) -> list[Turn]:
    """Append messages of Alice."""
    turns = [new_turn({"role": "user", "content": text}) for text in texts]
    return await store.conversations.append(turns, chat, Place(AGENT, ALICE), **options)


async def texts(store: FactStore, chat: str = "chat", **part: int) -> list[str]:
    """Return the texts of messages of Alice."""
    return [
        turn.text for turn in await store.conversations.turns(chat, Place(AGENT, ALICE), **part)
    ]


class Turns(SecondInstances):
    """A conversation is a list of messages that only grows, until messages are removed."""

    @pytest.mark.parametrize("seed", range(3))
    async def test_it_is_a_list(self, provider: FactStore, second: FactStore, seed: int) -> None:
        """Random appends, reads and removals of two instances agree with a list for each chat."""
        random = Random(seed)
        chats = dict[str, list[tuple[int, str]]]()
        ends = dict[str, int]()
        for step in range(60):
            store, chat = random.choice([provider, second]), random.choice("ab/")
            kept = chats.setdefault(chat, [])
            if random.random() < 0.5:
                new = [f"{step}.{n} ünï" for n in range(random.randint(1, 4))]
                turns = await said(store, *new, chat=chat)
                first = ends.get(chat, 0)
                ends[chat] = first + len(new)
                kept += enumerate(new, first)
                assert [(turn.number, turn.text) for turn in turns] == kept[-len(new) :]
            elif random.random() < 0.2 and kept:
                number, text = random.choice(kept)
                (turn,) = await store.conversations.turns(
                    chat, Place(AGENT, ALICE), last=1, before=number + 1
                )
                removed = await store.conversations.remove(chat, Place(AGENT, ALICE), ids=[turn.id])
                assert (turn.text, removed) == (text, 1)
                kept.remove((number, text))
                if not kept:
                    ends[chat] = 0  # it begins again
            last = random.choice([None, 1, 3, 100])
            before = random.choice([None, random.randint(0, 40)])
            found = await store.conversations.turns(
                chat, Place(AGENT, ALICE), last=last, before=before
            )
            wanted = [each for each in kept if before is None or each[0] < before]
            wanted = wanted if last is None else wanted[-last:]
            assert [(turn.number, turn.text) for turn in found] == wanted

    async def test_messages_come_back_whole(
        self, provider: FactStore, second: FactStore, clock: SettableClock
    ) -> None:
        """With all fields, the time they were said, and their ids."""
        message = {
            "role": "assistant",
            "content": [{"type": "text", "text": "한국어"}, {"type": "image_url", "url": "x"}],
            "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}],
            "name": None,
        }
        at = clock.now - timedelta(days=3)
        turn = new_turn(message, said_at=at, given_id="m-1")
        await provider.conversations.append([turn], "chat", Place(AGENT, ALICE))

        (found,) = await second.conversations.turns("chat", Place(AGENT, ALICE))

        assert (found.message, found.said_at, found.id) == (message, at, "m-1")
        assert (found.role, found.name, found.text, found.number) == (
            "assistant",
            None,
            "한국어",
            0,
        )

    async def test_a_known_id_is_not_appended_again(
        self, provider: FactStore, second: FactStore
    ) -> None:
        """An import that is repeated adds nothing."""
        turns = [new_turn({"role": "user", "content": str(n)}, None, f"id-{n}") for n in range(5)]
        await provider.conversations.append(turns[:3], "chat", Place(AGENT, ALICE))

        added = await second.conversations.append(turns, "chat", Place(AGENT, ALICE))

        assert [turn.id for turn in added] == ["id-3", "id-4"]
        assert await provider.conversations.append(turns, "chat", Place(AGENT, ALICE)) == []
        assert await texts(provider) == ["0", "1", "2", "3", "4"]

    async def test_concurrent_appends(self, provider: FactStore, second: FactStore) -> None:
        """Each message is stored once, under a number of its own."""
        async with anyio.create_task_group() as group:
            for n in range(16):
                group.start_soon(said, (provider, second)[n % 2], f"message {n}")

        turns = await provider.conversations.turns("chat", Place(AGENT, ALICE))

        assert [turn.number for turn in turns] == list(range(16))
        assert {turn.text for turn in turns} == {f"message {n}" for n in range(16)}

    async def test_their_places_are_listed(self, provider: FactStore) -> None:
        """A user with a conversation and no fact is in every list of places, once."""
        for chat in "abc":
            await said(provider, "I like tea", chat=chat)
        alice, bob = Place(AGENT, ALICE).identity, Place(AGENT, BOB).identity

        (info,) = await provider.places()
        assert (info.place.identity, info.count, info.conversations) == (alice, 0, 3)
        assert info.bytes > 0
        await provider.save(theme("dark"), ALICE, AGENT)
        await provider.save(theme("dark"), BOB, AGENT)
        found = {each.place.identity: each.conversations for each in await provider.places()}
        assert found == {alice: 3, bob: 0}
        for scopes, subjects in ((None, None), ([AGENT], None), (None, [ALICE, BOB])):
            listed = await provider.list_places(scopes=scopes, subjects=subjects, limit=1)
            listed += await provider.list_places(
                scopes=scopes, subjects=subjects, limit=5, after=listed[0]
            )
            assert sorted(each.identity for each in listed) == [alice, bob]
        assert await provider.conversations.conversations(Place(AGENT, BOB)) == []

    async def test_they_are_listed(self, provider: FactStore, clock: SettableClock) -> None:
        """With title, number of messages and times, the newest first."""
        begun = clock.now
        hello = new_turn({"role": "system", "content": "Be brief"})
        await provider.conversations.append([hello], "old", Place(AGENT, ALICE))
        await said(provider, "y" * 100, "second", chat="old")
        clock.advance(timedelta(hours=1))
        await said(provider, "Good morning", chat="new/../1")
        await provider.conversations.append([hello], "old", Place(AGENT, BOB))

        new, old = await provider.conversations.conversations(Place(AGENT, ALICE))

        assert (new.id, new.title, new.count) == ("new/../1", "Good morning", 1)
        assert (old.id, old.title, old.count) == ("old", "y" * 79 + "…", 3)
        assert (old.first_at, new.last_at) == (begun, clock.now)
        assert new.place.identity == Place(AGENT, ALICE).identity

    async def test_places_are_apart(self, provider: FactStore) -> None:
        """One id is another conversation for each user and in each scope."""
        await said(provider, "secret")
        product = MemoryScope.Product("painter")

        assert await provider.conversations.turns("chat", Place(AGENT, BOB)) == []
        assert await provider.conversations.turns("chat", Place(product, ALICE)) == []
        assert await provider.conversations.remove("chat", Place(AGENT, BOB)) == 0
        assert await texts(provider) == ["secret"]

    async def test_erasing_a_place(self, provider: FactStore, second: FactStore) -> None:
        """It erases the conversations, with one receipt, and no other user's."""
        await said(provider, "secret", chat="one", learn_after=REST)
        await said(provider, "secret", chat="two")
        await provider.save(theme("dark"), ALICE, AGENT)
        await provider.conversations.append(
            [new_turn({"role": "user", "content": "bob"})], "one", Place(AGENT, BOB)
        )

        receipt = await second.erase(ALICE, AGENT)

        assert (receipt.conversations, receipt.count) == (2, 1)
        assert receipt.bytes > 0
        assert await texts(provider, "one") == await texts(second, "two") == []
        assert await provider.conversations.conversations(Place(AGENT, ALICE)) == []
        assert (await provider.conversations.state()).pending == 0
        assert len(await provider.conversations.turns("one", Place(AGENT, BOB))) == 1

    async def test_only_empty_places_are_erased(self, provider: FactStore) -> None:
        """A place with a conversation is not empty."""
        await said(provider, "hello")
        await provider.erase(ALICE, AGENT, only_empty=True)
        assert await texts(provider) == ["hello"]

    async def test_a_purge_reaches_messages(self, provider: FactStore, second: FactStore) -> None:
        """A purged value is removed from the words of all conversations of the place."""
        source = FactSource(SourceKind.USER, "chat", 0, "I love solarized dark")
        await said(provider, "I love Solarized dark", "Thanks", learn_after=REST)
        await said(provider, "Is solarized-dark good?", chat="other")
        await provider.save(theme("solarized dark", source=source), ALICE, AGENT)

        await second.forget(ALICE, AGENT, concept=THEME, purge=True)

        assert await texts(provider) == ["I love […]", "Thanks"]
        assert await texts(provider, "other") == ["Is […] good?"]
        assert await said(provider, "More") != []
        assert await texts(second, last=2) == ["Thanks", "More"]

    async def test_removing_old_messages(self, provider: FactStore, clock: SettableClock) -> None:
        """Those appended before a time, and with the last one the conversation itself."""
        await said(provider, "old")
        clock.advance(timedelta(days=2))
        await said(provider, "new")
        before = clock.now - timedelta(days=1)

        assert await provider.conversations.remove("chat", Place(AGENT, ALICE), before=before) == 1
        assert await texts(provider) == ["new"]
        assert await provider.conversations.remove("chat", Place(AGENT, ALICE)) == 1
        assert await provider.conversations.conversations(Place(AGENT, ALICE)) == []

    async def test_wrong_arguments(self, provider: FactStore) -> None:
        """They raise before anything is written."""
        store = provider.conversations
        turn = [new_turn({"role": "user", "content": "x"})]
        with pytest.raises(ValueError, match="conversation is empty"):
            await store.append(turn, " ", Place(AGENT, ALICE))
        with pytest.raises(ValueError, match="learn_after must be positive"):
            await store.append(turn, "chat", Place(AGENT, ALICE), learn_after=timedelta(0))
        with pytest.raises(ValueError, match="last must be an int of at least 1"):
            await store.turns("chat", Place(AGENT, ALICE), last=0)
        assert await store.conversations(Place(AGENT, ALICE)) == []


class Queue(SecondInstances):
    """What is to be learnt is queued with its message, and taken by one worker at a time."""

    async def test_it_rests_first(
        self, provider: FactStore, second: FactStore, clock: SettableClock
    ) -> None:
        """A conversation is due when it has rested, or after ten times as long."""
        first = clock.now
        await said(provider, "one", learn_after=REST)
        assert await second.conversations.take(LEASE) is None
        task = None
        while task is None and clock.now - first < 20 * REST:
            await said(provider, "more", learn_after=REST)
            clock.advance(REST - timedelta(seconds=1))
            task = await second.conversations.take(LEASE)

        assert task is not None
        assert (task.conversation, task.since) == ("chat", 0)
        assert task.place.identity == Place(AGENT, ALICE).identity
        assert 10 * REST <= clock.now - first <= 11 * REST
        assert (await provider.conversations.state()).oldest == first

    async def test_one_worker_at_a_time(
        self, provider: FactStore, second: FactStore, clock: SettableClock
    ) -> None:
        """A lease excludes others until it ends; then the first holder cannot settle it."""
        lost = await self._taken(provider, clock)
        assert await second.conversations.take(LEASE) is None
        clock.advance(LEASE)

        held = await second.conversations.take(LEASE)

        assert held is not None
        assert not await provider.conversations.learnt(lost, 1)
        assert await second.conversations.learnt(held, 1)
        assert not await second.conversations.learnt(held, 1)
        assert (await provider.conversations.state()).pending == 0

    async def test_many_workers(
        self, provider: FactStore, second: FactStore, clock: SettableClock
    ) -> None:
        """Each conversation is taken once, whoever asks."""
        for n in range(12):
            await said(provider, "hello", chat=str(n), learn_after=REST)
        clock.advance(REST)
        taken: list[LearningTask] = []

        async def work(store: FactStore) -> None:
            while (task := await store.conversations.take(LEASE)) is not None:
                taken.append(task)

        async with anyio.create_task_group() as group:
            for store in (provider, second, provider, second):
                group.start_soon(work, store)

        assert sorted(int(task.conversation) for task in taken) == list(range(12))
        assert (await provider.conversations.state()).pending == 12

    async def test_only_what_is_new(self, provider: FactStore, clock: SettableClock) -> None:
        """The watermark is the store's. Messages that came meanwhile are queued again."""
        task = await self._taken(provider, clock)
        await said(provider, "two", learn_after=REST)
        assert await provider.conversations.learnt(task, 1)
        assert (await provider.conversations.state()).pending == 1
        clock.advance(REST)

        task = await provider.conversations.take(LEASE) or pytest.fail("nothing is due")

        assert task.since == 1
        assert await provider.conversations.learnt(task, 2)
        assert (await provider.conversations.state()).oldest is None

    async def test_failures(
        self, provider: FactStore, second: FactStore, clock: SettableClock
    ) -> None:
        """A failure is repeated after its pause, given up visibly, and queued again on request."""
        task = await self._taken(provider, clock)
        assert await provider.conversations.failed(task, timedelta(minutes=1))
        assert await provider.conversations.take(LEASE) is None
        clock.advance(timedelta(minutes=1))
        task = await second.conversations.take(LEASE) or pytest.fail("nothing is due")
        assert (task.attempts, task.since) == (2, 0)
        assert await second.conversations.failed(task, None)
        clock.advance(timedelta(days=1))

        assert await provider.conversations.take(LEASE) is None
        state = await provider.conversations.state()
        assert (state.pending, state.failed) == (0, 1)
        assert await second.conversations.retry(at(Place(AGENT, BOB))) == 0
        assert await second.conversations.retry() == 1
        again = await provider.conversations.take(LEASE) or pytest.fail("nothing is due")
        assert (again.attempts, again.since) == (2, 0)

    async def test_named_places(self, provider: FactStore, clock: SettableClock) -> None:
        """A worker may serve some places only."""
        await said(provider, "hello", learn_after=REST)
        clock.advance(REST)
        alice, bob = Place(AGENT, ALICE), Place(AGENT, BOB)

        product = UNBOUNDED.narrowed(scopes=[MemoryScope.Product("painter")])
        scope = UNBOUNDED.narrowed(scopes=[AGENT])
        for elsewhere in (at(bob), at(), product, at(alice).within(product)):
            assert await provider.conversations.take(LEASE, elsewhere) is None
            assert (await provider.conversations.state(elsewhere)).pending == 0
        for here in (at(alice), scope):
            assert (await provider.conversations.state(here)).pending == 1
        anybody = UNBOUNDED.narrowed(subjects=[ALICE])
        with pytest.raises(ValueError, match="does not name its places"):
            await provider.conversations.take(LEASE, anybody)
        assert await provider.conversations.take(LEASE, at(bob, alice).within(scope))

    async def test_a_removed_conversation(self, provider: FactStore, clock: SettableClock) -> None:
        """It is not learnt any more."""
        task = await self._taken(provider, clock)
        await provider.conversations.remove("chat", Place(AGENT, ALICE))

        assert not await provider.conversations.learnt(task, 1)
        assert (await provider.conversations.state()).pending == 0

    async def _taken(self, store: FactStore, clock: SettableClock) -> LearningTask:
        await said(store, "one", learn_after=REST)
        clock.advance(REST)
        return await store.conversations.take(LEASE) or pytest.fail("nothing is due")


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
