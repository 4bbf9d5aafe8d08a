"""Conditional writes: of several writers who have read the same state, one wins; on every store."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from factmem.errors import ChangedError, InputError
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.review import MemoryReview
from factmem.models.facts import Concept, MultipleFacts, SingleFact
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.store import FactStore
from factmem.testing.clock import SettableClock
from tests.world import AGE, ALICE, LANGUAGES, PRODUCT, THEME, USER, languages, memory_of, theme

SETTING = Concept("editor", "The editor and its options", value_type=dict[str, int])


async def race(*writes: Callable[[], Awaitable[object]]) -> tuple[int, list[ChangedError]]:
    """Call all at once; return how many wrote, and the errors of the others."""
    won, errors = 0, list[ChangedError]()

    async def one(write: Callable[[], Awaitable[object]]) -> None:
        nonlocal won
        try:
            await write()
        except ChangedError as exc:
            errors.append(exc)
        else:
            won += 1

    async with anyio.create_task_group() as tasks:
        for write in writes:
            tasks.start_soon(one, write)
    return won, errors


async def test_one_of_two_updates_wins(store: FactStore, memory: AgentMemory) -> None:
    """Two windows of a preference dialog: the second one sees what the first one wrote."""
    fact = theme("dark")
    await store.save(fact, ALICE, PRODUCT)
    contents = memory.contents
    for number in range(20):
        placed = await contents.get(fact.id)
        assert placed is not None
        given: Any = (placed, placed.fact, placed.version)[number % 3]

        won, (error,) = await race(
            partial(contents.update, fact.id, value=f"a{number}", if_unchanged=given),
            partial(contents.update, fact.id, value=f"b{number}", if_unchanged=given),
        )

        assert won == 1
        assert error.present == await contents.get(fact.id)
        assert error.present.fact.value not in str(error) + repr(error)


async def test_a_value_of_more_than_64_bits_has_a_version(memory: AgentMemory) -> None:
    """Fast JSON writers refuse such an integer, which a model may write."""
    number = Concept("number", "A number", value_type=int)
    fact = await memory.save(number, 10**30)

    await memory.save(number, 10**31, if_unchanged=fact)

    assert await memory.value(number) == 10**31
    with pytest.raises(ChangedError):
        await memory.save(number, 5, if_unchanged=fact)


async def test_a_change_against_a_delete_has_one_winner(
    store: FactStore, memory: AgentMemory
) -> None:
    """Whatever the two do, and after the fact is gone too."""
    fact = await memory.save(THEME, "theme")
    for number in range(10):
        fact = await memory.save(THEME, f"theme {number}")
        won, (error,) = await race(
            partial(memory.contents.delete, fact.id, if_unchanged=fact),
            partial(memory.contents.update, fact.id, value="x", if_unchanged=fact),
        )
        assert won == 1
        left = await memory.current(THEME)
        assert ([] if error.present is None else [error.present.fact]) == left
        await memory.contents.forget(concept=THEME)
    with pytest.raises(ChangedError) as gone:
        await memory.contents.delete(fact.id, if_unchanged=fact)
    assert gone.value.present is None


async def test_one_of_two_saves_wins(memory: AgentMemory) -> None:
    """Of the first value too: `if_unchanged=None` expects that there is none."""
    before: SingleFact[str] | None = None
    for number in range(10):
        won, (error,) = await race(
            partial(memory.save, THEME, f"a{number}", if_unchanged=before),
            partial(memory.save, THEME, f"b{number}", if_unchanged=before),
        )
        assert won == 1
        (before,) = await memory.current(THEME)
        assert error.present.fact == before
    saved = await memory.save(THEME, "last", if_unchanged=before)
    assert await memory.current(THEME) == [saved]
    await memory.save(THEME, "again", if_unchanged=saved)


async def test_a_save_of_many_values_names_one_of_their_facts(memory: AgentMemory) -> None:
    """Values that others add do not count, as nothing replaces them."""
    first = await memory.save(LANGUAGES, ["ko"], if_unchanged=None)
    await memory.save(LANGUAGES, ["en"], if_unchanged=first)
    await memory.save(LANGUAGES, ["fr"], if_unchanged=first)
    with pytest.raises(ChangedError):
        await memory.save(LANGUAGES, ["de"], if_unchanged=None)
    await memory.contents.forget(concept=LANGUAGES, value="ko")
    with pytest.raises(ChangedError):
        await memory.save(LANGUAGES, ["de"], if_unchanged=first)


async def test_what_replaced_a_fact_is_in_the_error(memory: AgentMemory) -> None:
    """A save makes a fact with another id; the caller needs its value to decide again."""
    old = await memory.save(THEME, "dark")
    new = await memory.save(THEME, "light")
    for write in (
        partial(memory.contents.update, old.id, value="red", if_unchanged=old),
        partial(memory.contents.delete, old.id, if_unchanged=old),
    ):
        with pytest.raises(ChangedError) as error:
            await write()
        assert error.value.present.fact.id == new.id


async def test_each_write_changes_the_version(
    store: FactStore, memory: AgentMemory, clock: SettableClock
) -> None:
    """Saying the same again and another field too: what a client shows has changed."""
    fact = theme("dark")
    await store.save(fact, ALICE, PRODUCT)
    placed = await memory.contents.get(fact.id)
    assert placed is not None
    clock.advance()
    await store.save(theme("dark"), ALICE, PRODUCT)
    again = await memory.contents.get(fact.id)
    assert again is not None
    assert again.version != placed.version
    edited = await memory.contents.update(fact.id, metadata={"by": "x"}, if_unchanged=again)
    assert edited is not None
    assert edited.version != again.version
    for old in (placed, again, again.version, fact):
        with pytest.raises(ChangedError):
            await memory.contents.update(fact.id, value="light", if_unchanged=old)


async def test_a_conditional_delete_can_purge(store: FactStore, memory: AgentMemory) -> None:
    """Only the winner purges; the history is empty afterwards."""
    fact = languages("en", "ko")
    await store.save(fact, ALICE, PRODUCT)
    done = await memory.contents.delete(fact.id, purge=True, if_unchanged=fact)
    assert done == 2
    assert "ko" not in str(await store.entries(ALICE, PRODUCT))
    with pytest.raises(InputError):
        await memory.contents.delete("a", "b", if_unchanged=fact)


async def test_typed_values_have_one_version(store: FactStore) -> None:
    """Whether the memory declares the concept or not."""
    fact = SETTING
    typed, plain = memory_of(store, concepts=[SETTING]), memory_of(store)
    await typed.save(fact, {"tab": 4, "a": 1})
    (one,), (other,) = await typed.contents.records(), await plain.contents.records()
    assert one.version == other.version
    (mine,) = await typed.current(SETTING)
    await plain.contents.update(one.fact.id, value={"tab": 2}, if_unchanged=mine)


async def test_one_of_two_reviewers_decides(store: FactStore, memory: AgentMemory) -> None:
    """Of a current value, and of a proposal against a confirmed one."""
    review: MemoryReview = memory.review
    await memory.save(THEME, "dark", confirmed=True)
    await store.learn([theme("light")], ALICE, PRODUCT)
    for decide in ("accept", "correct", "reject"):
        items = await review.inbox(since=None)
        item = items[0] if items else (await memory.contents.records())[0]
        more = ["blue"] if decide == "correct" else []
        won, errors = await race(
            partial(getattr(review, decide), item, *more, if_unchanged=item),
            partial(review.correct, item, f"not {decide}", if_unchanged=item.version),
        )
        assert (won, len(errors)) == (1, 1)
    await memory.save(THEME, "again")
    # In another scope a value is left if the last `correct` was faster than `reject`.
    (shown,) = [each for each in await memory.contents.records() if each.fact.values == ("again",)]
    await review.reject(shown)
    with pytest.raises(ChangedError, match="since it was read"):
        await review.accept(shown)


async def test_two_processes_of_one_folder_have_one_winner(tmp_path: Any) -> None:
    """Two instances of the provider, as two processes have them."""
    async with LocalFileMemoryProvider(tmp_path) as one, LocalFileMemoryProvider(tmp_path) as two:
        first, second = memory_of(one), memory_of(two)
        for number in range(10):
            fact = next(iter(await first.current(THEME)), None)
            won, errors = await race(
                partial(first.save, THEME, f"a{number}", if_unchanged=fact),
                partial(second.save, THEME, f"b{number}", if_unchanged=fact),
            )
            assert (won, len(errors)) == (1, 1)


WRONG: dict[str, Callable[[AgentMemory], Awaitable[object]]] = {
    "a value of another type": lambda m: m.save(AGE, "old"),  # type: ignore[misc]
    "no list of values": lambda m: m.save(LANGUAGES, "ko"),
    "no values": lambda m: m.save(LANGUAGES, []),
    "an empty entity": lambda m: m.of("").current(),
    "a limit below 0": lambda m: m.contents.records(-1),
    "a limit of another type": lambda m: m.contents.records("5"),  # type: ignore[arg-type]
    "no field": lambda m: m.contents.update("id"),
    "no fact": lambda m: m.review.accept(7),  # type: ignore[arg-type]
    "a state of another type": lambda m: m.contents.delete("id", if_unchanged=7),  # type: ignore[arg-type]
    "a change that nobody has made": lambda m: m.review.undo("nothing"),
    "a question of another type": lambda m: m.recall(7),  # type: ignore[arg-type]
    "a message without a role": lambda m: m.conversation("c").append({"content": "x"}),
    "no name of a conversation": lambda m: m.conversation("").messages(),
    "a condition on nothing": lambda m: m.contents.forget(),
}


@pytest.mark.parametrize("case", WRONG)
async def test_bad_input_has_one_type_of_error(store: FactStore, case: str) -> None:
    """A service answers 400 to it, without a table of its own and without catching its own bugs."""
    memory = memory_of(store, subjects=[USER])
    await memory.of("alice").save(THEME, "dark")
    given = memory if case == "an empty entity" else memory.of("alice")
    with pytest.raises(InputError):
        await WRONG[case](given)


NAMES: dict[str, Callable[[], object]] = {
    "empty": lambda: Concept("", "x"),
    "long": lambda: Concept("x" * 300, "x"),
    "no type": lambda: Concept("x", "x", "some"),  # type: ignore[call-overload]
    "no values": lambda: MultipleFacts(LANGUAGES, []),
    "former": lambda: Concept("x", "x", was=["x"]),
}


@pytest.mark.parametrize("case", NAMES)
def test_bad_names_have_it_too(case: str) -> None:
    """Keywords come from clients as well."""
    with pytest.raises(InputError):
        NAMES[case]()
