"""Bundles: an import restores what was exported; damage is reported and changes nothing."""

import io
import os
import re
import signal
import stat
import traceback
import tracemalloc
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.errors import InputError, StorageError
from factmem.ledger.entries import Entry
from factmem.models.facts import (
    Concept,
    FactSource,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.models.when import stamp
from factmem.providers.conversations import new_turn
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage
from factmem.providers.store import FactStore
from factmem.transfer import _outputs
from factmem.transfer import bundle as _bundle_files
from factmem.transfer.bundle import export_facts, import_facts
from tests.tables import table

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRET = "PIN 1234"

THEME = Concept("ide-theme", "User's preferred IDE theme")
AGE = Concept("age", "The user's age in seconds", value_type=int)
LANGUAGES = Concept("언어", "Languages that the user knows", FactType.MULTIPLE)
SETTINGS = Concept("settings", "Anything", value_type=dict[str, Any])

USER = MemorySubject("user", "The user", 1, per_entity=True)
ALICE, BOB = USER.of("alice"), USER.of("밥 🍚")
MACHINE = MemorySubject("machine", "The computer", 2)
PRODUCT = MemoryScope.Product("my-app")
AGENT = MemoryScope.Agent("a/b")


class Ticking:
    """A clock that advances by one second per call."""

    def __init__(self) -> None:
        self._calls = count()

    def __call__(self) -> datetime:
        return START + timedelta(seconds=next(self._calls))


def noon() -> datetime:
    return START


async def full_store() -> InMemoryProvider:
    """A store with facts of every kind in four places, and a conversation in one of them."""
    store = InMemoryProvider(clock=Ticking())
    source = FactSource(SourceKind.USER, "chat-1", 3, f"my {SECRET}", "a-model")
    await store.save(
        SingleFact(THEME, "light", timestamp=START - timedelta(days=3)), ALICE, PRODUCT
    )
    await store.save(SingleFact(THEME, SECRET, importance=0.9, source=source), ALICE, PRODUCT)
    await store.save(SingleFact(THEME, SECRET, importance=0.2), ALICE, PRODUCT)
    languages = MultipleFacts(LANGUAGES, ("코틀린", "Python 🐍", "C"))
    await store.save_many([languages, SingleFact(AGE, 2**70)], ALICE, PRODUCT)
    await store.forget(ALICE, PRODUCT, concept=LANGUAGES, value="C")
    await store.save(SingleFact(AGE, -5), BOB, PRODUCT)
    gone = SingleFact(THEME, "brief", expires_at=START + timedelta(seconds=1))
    await store.save(gone, MACHINE, AGENT)
    deep = {"b": [1.5, None, {"ü": True}], "a": {}}
    await store.save(SingleFact(SETTINGS, deep), MACHINE, MemoryScope.CrossProduct("acme"))
    said = ["Hello 👋", f"My {SECRET}", "Thanks", "Bye"]
    turns = [
        new_turn({"role": "user", "content": text}, START - timedelta(hours=4 - n), f"m{n}")
        for n, text in enumerate(said)
    ]
    await store.conversations.append(turns, "chat/../1", Place(PRODUCT, ALICE))
    await store.conversations.remove("chat/../1", Place(PRODUCT, ALICE), ids=["m0", "m2"])
    return store


PLACES = [
    Place(AGENT, MACHINE),
    Place(MemoryScope.CrossProduct("acme"), MACHINE),
    Place(PRODUCT, ALICE),
    Place(PRODUCT, BOB),
]


async def bundle_of(store: FactStore, **options: Any) -> bytes:
    buffer = io.BytesIO()
    await export_facts(store, buffer, clock=noon, **options)
    return buffer.getvalue()


async def restored(bundle: bytes) -> InMemoryProvider:
    store = InMemoryProvider(clock=Ticking())
    await import_facts(io.BytesIO(bundle), store)
    return store


def identities(places: Sequence[Place]) -> list[tuple[str, str, str, str | None]]:
    return [place.identity for place in places]


async def test_a_bundle_restores_an_equal_store(tmp_path: Path) -> None:
    """A restore loses, doubles and changes nothing."""
    store, other = await full_store(), InMemoryProvider(clock=Ticking())
    path = tmp_path / "backup.jsonl"

    exported = await export_facts(store, path, clock=noon)
    imported = await import_facts(path, other)

    assert path.read_bytes() == await bundle_of(other)
    assert identities(exported.places) == identities(imported.places) == identities(PLACES)
    assert exported.entries == imported.entries == imported.new == 8
    assert exported.turns == imported.turns == 2
    assert exported.bytes == path.stat().st_size


async def test_from_any_store_into_any_other(tmp_path: Path) -> None:
    """The bundle stays the same from memory to disk, to an encrypted disk and back to memory."""
    stores: list[FactStore] = [
        await full_store(),
        LocalFileMemoryProvider(tmp_path / "plain"),
        LocalFileMemoryProvider(
            tmp_path / "sealed", storage=EncryptedStorage(Aes256GCMEncryptor(Key.generate()))
        ),
        InMemoryProvider(),
    ]
    bundles = [await bundle_of(stores[0])]

    for store in stores[1:]:
        report = await import_facts(io.BytesIO(bundles[-1]), store)
        assert report.new == 8
        again = await import_facts(io.BytesIO(bundles[-1]), store)
        assert again.new == 0
        bundles.append(await bundle_of(store))
        await store.aclose()

    assert set(bundles) == {bundles[0]}


async def test_conversations_keep_the_numbers_that_facts_cite() -> None:
    """Also where messages were removed; what is there already is not doubled."""
    bundle, other = await bundle_of(await full_store()), await full_store()
    await other.erase(BOB, PRODUCT)
    new = await restored(bundle)

    for store in (new, other):
        turns = await store.conversations.turns("chat/../1", Place(PRODUCT, ALICE))
        assert [(turn.number, turn.id) for turn in turns] == [(1, "m1"), (3, "m3")]
        assert turns[1].said_at == START - timedelta(hours=1)
        assert (await import_facts(io.BytesIO(bundle), store)).turns == 2
        assert await store.conversations.turns("chat/../1", Place(PRODUCT, ALICE)) == turns
    assert (await new.conversations.state()).pending == 0


async def test_messages_of_an_erased_user_stay_erased(tmp_path: Path) -> None:
    """Also those of a user without a fact."""
    store = LocalFileMemoryProvider(tmp_path)
    turn = new_turn({"role": "user", "content": "hello"}, START)
    await store.conversations.append([turn], "chat", Place(PRODUCT, ALICE))
    bundle = await bundle_of(store)

    await store.erase(ALICE, PRODUCT)
    report = await import_facts(io.BytesIO(bundle), store)

    assert report.turns == 0
    assert await store.conversations.conversations(Place(PRODUCT, ALICE)) == []
    new = await restored(bundle)
    assert len(await new.conversations.turns("chat", Place(PRODUCT, ALICE))) == 1


_VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner,
                                                                max_size=3),
    max_leaves=5,
)  # fmt: skip
_TEXT = Concept("k", "...", FactType.MULTIPLE, value_type=JsonValue)
_STEPS = st.tuples(
    st.sampled_from(PLACES), st.lists(_VALUES, min_size=1, max_size=3), st.booleans(), st.booleans()
)


@given(steps=st.lists(_STEPS, max_size=8))
@example(steps=[])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_bundle_restores_an_equal_store(
    steps: list[tuple[Place, list[JsonValue], bool, bool]],
) -> None:
    """With any JSON values, and anything forgotten in between."""
    store = InMemoryProvider(clock=Ticking())
    for place, values, is_single, forgets in steps:
        if is_single:
            concept: Concept[Any, Any] = Concept("s", "...", value_type=JsonValue)
            await store.save(SingleFact(concept, values[0]), place.subject, place.scope)
        else:
            await store.save(MultipleFacts(_TEXT, tuple(values)), place.subject, place.scope)
        if forgets:
            await store.forget(place.subject, place.scope, concept=_TEXT, value=values[0])
    bundle = await bundle_of(store)

    other = await restored(bundle)

    assert await bundle_of(other) == bundle
    assert (await import_facts(io.BytesIO(bundle), other)).new == 0
    assert await bundle_of(other) == bundle


class TestPlaces:
    async def test_only_named_places_are_exported(self) -> None:
        """A user can get the data of that user alone; an empty place is not an error."""
        store = await full_store()
        empty = Place(PRODUCT, USER.of("nobody"))

        bundle = await bundle_of(store, places=[PLACES[2], empty, PLACES[2]])

        assert identities((await import_facts(io.BytesIO(bundle), store)).places) == [
            PLACES[2].identity
        ]
        assert b"my-app" in bundle
        assert b"acme" not in bundle

    async def test_only_named_places_are_imported(self) -> None:
        """One place can be restored from a backup of all."""
        bundle = await bundle_of(await full_store())
        store = InMemoryProvider()

        report = await import_facts(io.BytesIO(bundle), store, places=[PLACES[3]])

        assert identities(report.places) == [PLACES[3].identity]
        assert (report.entries, report.new) == (1, 1)
        assert [info.place.identity for info in await store.places()] == [PLACES[3].identity]


class TestWithoutHistory:
    async def test_only_current_facts_are_exported(self) -> None:
        """Replaced, forgotten and expired values are not exported."""
        store = await full_store()
        bundle = await bundle_of(store, history=False)
        whole = await bundle_of(store)

        other = await restored(bundle)

        for place in PLACES:
            where = place.subject, place.scope
            assert await other.load_all(*where) == await store.load_all(*where)
        assert b'"light"' in whole
        assert b'"C"' in whole
        assert b'"light"' not in bundle
        assert b'"C"' not in bundle


class TestFiles:
    async def test_only_the_owner_can_read_the_file(self, tmp_path: Path) -> None:
        """A bundle is not encrypted."""
        path = tmp_path / "backup.jsonl"
        path.write_text("old")
        path.chmod(0o644)

        await export_facts(await full_store(), str(path))

        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert os.listdir(tmp_path) == ["backup.jsonl"]

    @pytest.mark.parametrize("is_cancelled", [True, False])
    async def test_an_export_that_ends_early_keeps_the_old_file(
        self, tmp_path: Path, *, is_cancelled: bool
    ) -> None:
        """After some places were written: today's failure must not destroy yesterday's backup."""
        path = tmp_path / "backup.jsonl"
        path.write_text("yesterday")

        class Ending(InMemoryProvider):
            async def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]:
                if subject.entity == "bob" and is_cancelled:
                    cancelling.cancel()
                elif subject.entity == "bob":
                    raise StorageError("The disk refused")
                return await super().entries(subject, scope)

        store = Ending()
        for entity in ("alice", "bob"):
            await store.save(SingleFact(THEME, "dark"), USER.of(entity), PRODUCT)
        errors = nullcontext() if is_cancelled else pytest.raises(StorageError, match="refused")
        with anyio.CancelScope() as cancelling, errors:
            await export_facts(store, path)

        assert cancelling.cancelled_caught == is_cancelled
        assert path.read_text() == "yesterday"
        assert os.listdir(tmp_path) == ["backup.jsonl"]

    async def test_a_file_object_is_used_from_its_position(self, tmp_path: Path) -> None:
        """A caller may write a bundle after other data; the file stays open."""
        with (tmp_path / "both").open("w+b") as file:
            file.write(b"before")
            report = await export_facts(await full_store(), file)
            file.seek(len(b"before"))
            imported = await import_facts(file, InMemoryProvider())
            assert not file.closed

        assert imported.entries == 8
        assert (tmp_path / "both").stat().st_size == report.bytes + len(b"before")

    async def test_a_file_that_writes_a_little_at_a_time(self) -> None:
        """Raw files may write less than they are given."""

        class Small(io.BytesIO):
            def write(self, data: Any) -> int:
                return super().write(bytes(data)[:7])

        small = Small()

        await export_facts(await full_store(), small, clock=noon)

        assert small.getvalue() == await bundle_of(await restored(small.getvalue()))

    async def test_wrong_kinds_of_files(self, tmp_path: Path) -> None:
        """Each mistake has its own error message."""
        store = InMemoryProvider()

        with pytest.raises(IsADirectoryError, match="must be a file"):
            await export_facts(store, tmp_path)
        with pytest.raises(FileNotFoundError):
            await import_facts(tmp_path / "none", store)
        with pytest.raises(FileNotFoundError):
            await export_facts(store, tmp_path / "none" / "bundle")
        assert os.listdir(tmp_path) == []


def lines_of(bundle: bytes) -> list[bytes]:
    return bundle.splitlines(keepends=True)


def sealed(lines: Sequence[bytes], *, places: int = 1, entries: int = 1) -> bytes:
    """Return a bundle of these lines with the right end mark."""
    body = b"".join(lines)
    digest = sha256(body).hexdigest()
    end = {"places": places, "entries": entries, "sha256": digest}
    return body + orjson.dumps({"end": end}) + b"\n"


HEADER = b'{"format":"factmem-bundle","version":1}\n'
PLACE = b'{"place":["product","my-app","user","alice"],"entries":1}\n'
FACT: dict[str, Any] = {
    "id": "f1", "keyword": "k", "description": "", "type": "SINGLE",
    "timestamp": "2026-03-01T12:00:00.000000Z", "value": SECRET,
}  # fmt: skip
ENTRY: dict[str, Any] = {"at": "2026-03-01T12:00:00.000000Z", "facts": [FACT]}


async def refused(bundle: bytes) -> str:
    """Import a bundle that must be refused; check that nothing changed; return the message."""
    store = InMemoryProvider()
    with pytest.raises(ValueError, match=r"[Bb]undle") as caught:
        await import_facts(io.BytesIO(bundle), store)
    assert await store.places() == []
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


class TestForgery:
    """A digest detects damage. Who edits a bundle can make it anew, so its content is checked."""

    @pytest.mark.parametrize(
        "entity", ["//", "//alice", "///", "//acme/", "///acme", "//acme//x", "//a%zz", "//a%2f/b"]
    )
    async def test_a_name_that_of_cannot_make(self, entity: str) -> None:
        """It would be shown and matched as another user, and stay when that one is erased."""
        place = orjson.dumps({"place": ["product", "app", "user", entity], "entries": 1}) + b"\n"

        message = await refused(sealed([HEADER, place, orjson.dumps(ENTRY) + b"\n"]))

        assert "valid place" in message

    async def test_a_user_of_a_tenant(self) -> None:
        entity = MemorySubject("user", "", 1, per_entity=True).of("ac/me", "100%").entity
        place = orjson.dumps({"place": ["product", "app", "user", entity], "entries": 1}) + b"\n"
        bundle = sealed([HEADER, place, orjson.dumps(ENTRY) + b"\n"])

        assert (await import_facts(io.BytesIO(bundle), InMemoryProvider())).new == 1

    @pytest.mark.parametrize("minutes", [11, 60 * 24 * 365, None])
    async def test_nothing_is_recorded_after_now(self, minutes: int | None) -> None:
        """All later saves of the place would be recorded then, and none of them would count."""
        at = "9999-12-31T23:59:59.999999Z"
        if minutes is not None:
            at = stamp(datetime.now(UTC) + timedelta(minutes=minutes))
        lines = [HEADER, PLACE, orjson.dumps({**ENTRY, "at": at}) + b"\n"]
        store = InMemoryProvider()

        with pytest.raises(ValueError, match="has not reached"):
            await import_facts(io.BytesIO(sealed(lines)), store)
        with pytest.raises(ValueError, match="has not reached"):
            await store.replay([{**ENTRY, "at": at}], USER.of("alice"), AGENT)  # type: ignore[typeddict-item]

        assert await store.places() == []

    async def test_an_ending_does_not_end_what_is_said_later(self) -> None:
        """A retraction names the time of the ended value; one of the future would end all saves."""
        floor = ["9999-12-31T23:59:59.999999Z", "z"]
        ended = {"keyword": "ide-theme", "timestamp": ENTRY["at"], "floor": floor}
        lines = [HEADER, PLACE, orjson.dumps({"at": ENTRY["at"], "retract": [ended]}) + b"\n"]
        store = InMemoryProvider()
        await store.save(SingleFact(THEME, "light", timestamp=START), ALICE, PRODUCT)
        await import_facts(io.BytesIO(sealed(lines)), store)

        await store.save(SingleFact(THEME, "dim"), ALICE, PRODUCT)

        assert [fact.value for fact in await store.load(THEME, ALICE, PRODUCT)] == ["dim"]

    async def test_the_clock_of_another_computer_may_be_a_little_fast(self) -> None:
        at = stamp(datetime.now(UTC) + timedelta(minutes=8))
        lines = [HEADER, PLACE, orjson.dumps({**ENTRY, "at": at}) + b"\n"]

        assert (await import_facts(io.BytesIO(sealed(lines)), InMemoryProvider())).new == 1

    async def test_no_message_was_said_after_now(self) -> None:
        talk = b'{"place":["product","my-app","user","alice"],"conversation":"c","entries":1}\n'
        turn = {"id": "t", "message": {"role": "user", "content": "hi"}}
        said = {"number": 0, "said": "9999-01-01T00:00:00+00:00", "turn": turn}

        lines = [HEADER, talk, orjson.dumps(said) + b"\n"]

        with pytest.raises(ValueError, match="has not reached"):
            await import_facts(io.BytesIO(sealed(lines)), InMemoryProvider())


class TestDamage:
    async def test_any_damage_is_noticed(self, stride: int) -> None:
        """Of a full disk, a cut copy, an editor or a merge: the whole bundle is refused."""
        bundle = sealed([HEADER, PLACE, orjson.dumps(ENTRY) + b"\n"])
        assert (await import_facts(io.BytesIO(bundle), InMemoryProvider())).new == 1
        for at in range(0, len(bundle), stride):
            assert "truncated" in await refused(bundle[:at])
            await refused(bundle[:at] + bytes([bundle[at] ^ 1]) + bundle[at + 1 :])

        lines = lines_of(await bundle_of(await full_store()))
        for at in range(len(lines)):
            cut, rest = lines[:at], lines[at + 1 :]
            assert f"line {at + 1}, before its end mark" in await refused(b"".join(cut))
            await refused(b"".join(cut + rest))
            await refused(b"".join([*cut, lines[at], lines[at], *rest]))
            if rest:
                await refused(b"".join([*cut, rest[0], lines[at], *rest[1:]]))

    @table(
        ("changed", "message"),
        [
            ({"at": "yesterday"}, "at is not"),
            ({"at": 5}, "at is not"),
            ({"facts": [{**FACT, "timestamp": "2026-03-01"}]}, "facts.0.timestamp"),
            ({"facts": [{**FACT, "timestamp": "2026-02-30T12:00:00.000000Z"}]}, "timestamp"),
            ({"facts": [{**FACT, "keyword": ""}]}, "keyword"),
            ({"facts": [{**FACT, "keyword": "a\x07"}]}, "keyword"),
            ({"facts": [{**FACT, "keyword": "e\u0301"}]}, "keyword"),
            ({"facts": [{**FACT, "id": None}]}, "id"),
            ({"facts": [{**FACT, "type": "BOTH"}]}, "type"),
            ({"facts": [{**FACT, "type": "MULTIPLE"}]}, "facts.0 is not"),
            ({"facts": [{**FACT, "values": [SECRET]}]}, "facts.0 is not"),
            ({"facts": [{**FACT, "purged": False}]}, "facts.0.purged"),
            ({"facts": [{**FACT, "importance": 2}]}, "importance"),
            ({"facts": [{**FACT, "importance": True}]}, "importance"),
            ({"facts": [{**FACT, "expires_at": SECRET}]}, "expires_at"),
            ({"facts": [{**FACT, "source": {"kind": SECRET}}]}, "source.kind"),
            ({"facts": [{**FACT, "source": {"kind": "user", "message": -1}}]}, "source.message"),
            ({"facts": SECRET}, "facts"),
            ({"forget": [["k", SECRET]]}, "forget"),
            ({"forget": [["k", "f1", "0"]]}, "forget.0.2"),
        ],
    )
    async def test_entries_that_no_store_wrote(self, changed: Any, message: str) -> None:
        """The digest is right, but another program wrote the entries."""
        lines = [HEADER, PLACE, orjson.dumps({**ENTRY, **changed}) + b"\n"]

        error = await refused(sealed(lines))

        assert message in error
        assert "Line 3" in error

    @table(
        "line",
        [
            b"SECRET\n", b"[]\n", b'"x"\n', b"{}\n", b'{"entries":1}\n', b"\xff\n", b"\n",
            b'{"place":["product","a","user",null],"entries":-1}\n',
            b'{"place":["product","a","user",null],"entries":true}\n',
            b'{"place":["planet","a","user",null],"entries":0}\n',
            b'{"place":["product","","user",null],"entries":0}\n',
            b'{"place":["product","e\xcc\x81","user",null],"entries":0}\n',
            b'{"place":["product","a","user"],"entries":0}\n',
            b'{"place":["product","a","user",3],"entries":0}\n',
            b'{"place":"product/a","entries":0}\n',
            b'{"end":3}\n', b'{"end":{"places":0,"entries":0,"sha256":null}}\n',
        ],
    )  # fmt: skip
    async def test_second_lines_that_are_not_places(self, line: bytes) -> None:
        """The second line of the bundle is nonsense."""
        assert "Line 2" in await refused(sealed([HEADER, line], entries=0))

    async def test_malformed_numbers(self) -> None:
        """Numbers that exact readers of wide integers would accept."""
        for value in (b"NaN", b"-Infinity", b'"\\ud800"', b"[" * 50_000 + b"1" + b"]" * 50_000):
            fact = orjson.dumps(FACT).replace(orjson.dumps(SECRET), value)
            for wide in (b"", b',"wide":9999999999999999999999'):
                line = b'{"at":"2026-03-01T12:00:00.000000Z","facts":[%b]%b}\n' % (fact, wide)
                assert "Line 3 of the bundle is not JSON" in await refused(
                    sealed([HEADER, PLACE, line])
                )

    @table("value", [b"[" * 205 + b"]" * 205, b'{"a":' * 300 + b"1" + b"}" * 300])
    async def test_values_that_no_store_can_load(self, value: bytes) -> None:
        """They were imported after the places before them, and could not be read afterwards."""
        line = orjson.dumps(ENTRY) + b"\n"
        deep = line.replace(orjson.dumps(SECRET), value)
        later = line.replace(b"}\n", b',"later":' + b"[" * 300 + b"]" * 300 + b"}\n")
        bob = PLACE.replace(b"alice", b"bob")
        for bad in (deep, later):
            lines = [HEADER, PLACE, line, bob, bad]
            assert "Line 5" in await refused(sealed(lines, places=2, entries=2))

    @table(
        ("name", "fields"),
        [
            ("c" * 201, {}), ("", {}), ("c\x00", {}), (5, {}),
            ("c", {"number": 10**9}), ("c", {"number": -1}), ("c", {"number": True}),
            ("c", {"said": "0001-01-01T00:00:00+14:00"}), ("c", {"said": "2026-01-01T00:00:00"}),
            ("c", {"turn": {"id": "factmem-gap-0", "message": {"role": "user", "content": "x"}}}),
            ("c", {"turn": {"id": "m" * 201, "message": {"role": "user", "content": "x"}}}),
            ("c", {"turn": {"id": "m", "message": {"content": "x"}}}),
        ],
    )  # fmt: skip
    async def test_conversations_that_no_store_can_keep(
        self, name: object, fields: dict[str, object]
    ) -> None:
        """Names were noticed after the places before them; a number filled the memory."""
        turn = {"id": "m", "message": {"role": "user", "content": "x"}}
        line = {"number": 0, "said": "2026-01-01T00:00:00+00:00", "turn": turn, **fields}
        identity = orjson.loads(PLACE)["place"]
        part = {"place": identity, "conversation": name, "entries": 1}
        lines = [
            HEADER,
            PLACE,
            orjson.dumps(ENTRY) + b"\n",
            *(orjson.dumps(x) + b"\n" for x in (part, line)),
        ]

        assert re.match(
            r"Line [45] of the bundle", await refused(sealed(lines, places=2, entries=2))
        )

    async def test_a_line_within_the_budget_is_split_by_the_export(self) -> None:
        """Many facts of one save are several lines of the store, and come back whole."""
        store = InMemoryProvider(clock=Ticking())
        many = [SingleFact(Concept(f"k{number}", ""), "x" * 80) for number in range(600)]
        await store.save_many(many, USER.of("alice"), PRODUCT)

        other = await restored(await bundle_of(store))

        assert len(await other.entries(USER.of("alice"), PRODUCT)) >= 3
        assert await other.load_all(USER.of("alice"), PRODUCT) == await store.load_all(
            USER.of("alice"), PRODUCT
        )

    @pytest.mark.parametrize("value", [[0] * 500_001, ["x" * 17_000_000]])
    async def test_what_no_import_would_accept_is_not_saved(self, value: list[Any]) -> None:
        """Otherwise one value would stop each export and sync of the store."""
        store = InMemoryProvider()
        concept: Concept[Any, Any] = Concept("grid", "", value_type=list[Any])
        with pytest.raises(InputError, match="A save of 'grid' has more than"):
            await store.save(SingleFact(concept, value), USER.of("alice"), PRODUCT)
        turn = new_turn({"role": "user", "content": "x" * 17_000_000})
        with pytest.raises(InputError, match="A message has more than"):
            await store.conversations.append([turn], "chat", Place(PRODUCT, USER.of("alice")))

        assert len((await bundle_of(store)).splitlines()) == 2

    async def test_wrong_counts(self) -> None:
        """The lines are unchanged, but the end mark is of another bundle."""
        lines = [HEADER, PLACE, orjson.dumps(ENTRY) + b"\n"]

        assert "counts that do not match" in await refused(sealed(lines, entries=2))
        assert "counts that do not match" in await refused(sealed(lines, places=0))

    async def test_data_after_the_end(self) -> None:
        """Two bundles in one file are not a bundle."""
        bundle = sealed([HEADER, PLACE, orjson.dumps(ENTRY) + b"\n"])

        assert "Line 5 of the bundle comes after the end mark" in await refused(bundle + bundle)

    @pytest.mark.parametrize(
        "header", [b"{}", b'{"format":"other","version":1}', b'{"format":"factmem-bundle"}',
                   b'{"format":"factmem-bundle","version":"1"}',
                   b'{"format":"factmem-bundle","version":0}'],
    )  # fmt: skip
    async def test_other_files(self, header: bytes) -> None:
        """Other JSON Lines files are refused."""
        assert "not the header of a factmem bundle" in await refused(sealed([header + b"\n"]))

    async def test_a_later_version(self) -> None:
        """This is not damage; the error says that the reader is too old."""
        error = await refused(sealed([b'{"format":"factmem-bundle","version":2,"x":[]}\n']))

        assert "version 2" in error
        assert "update factmem" in error

    @pytest.mark.parametrize("most", [1, 1_000_000], ids=["large", "small"])
    async def test_an_import_uses_the_bytes_that_were_verified(
        self, most: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Even if the file is edited meanwhile, and is too large for the memory."""
        monkeypatch.setattr(_bundle_files, "_MOST_IN_MEMORY", most)
        line = orjson.dumps(ENTRY) + b"\n"
        bundle = sealed([HEADER, PLACE, line], places=1, entries=1)
        edited = io.BytesIO(bundle)

        class Watched(InMemoryProvider):
            async def replay(self, *args: Any) -> int:
                edited.getbuffer()[:] = bundle.replace(b"alice", b"mally")
                return await super().replay(*args)

        store = Watched()
        await import_facts(edited, store)

        assert [info.subject.entity for info in await store.places()] == ["alice"]


def _killed_export(target: Path) -> None:
    """Start an export in another process, and kill it."""
    child = os.fork()
    if not child:  # pragma: no cover - it is killed
        draft = _outputs.Output(str(target))
        draft.file.write(b"secret")
        draft.file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


async def test_a_bundle_is_read_from_a_pipe() -> None:
    """It is read once, from where it is."""

    class Pipe(io.BytesIO):
        def seek(self, *args: int) -> int:
            raise io.UnsupportedOperation

    pipe = Pipe(b"before" + await bundle_of(await full_store()))
    pipe.read(len(b"before"))
    store = InMemoryProvider()

    await import_facts(pipe, store)

    assert await bundle_of(store) == pipe.getvalue().removeprefix(b"before")


class TestKilledExports:
    """A killed export leaves nothing beside the old bundle."""

    @pytest.mark.parametrize("has_unnamed_files", [True, False])
    async def test_the_plaintext_is_removed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_unnamed_files: bool
    ) -> None:
        """Linux removes it at once; elsewhere the next export to the folder does."""
        if not has_unnamed_files:
            monkeypatch.setattr(_outputs, "_open_unnamed", lambda folder: None)
        target = tmp_path / "facts.jsonl"
        _killed_export(target)

        assert len(os.listdir(tmp_path)) == (0 if has_unnamed_files else 1)
        await export_facts(await full_store(), target)
        assert os.listdir(tmp_path) == [target.name]
        assert target.stat().st_mode & 0o777 == 0o600

    def test_a_folder_that_refuses_a_file_is_named(self) -> None:
        """Nobody knows the name of the hidden file that is written first."""
        with pytest.raises(OSError, match=r"'/proc'$") as caught:
            _outputs.Output("/proc/facts.jsonl")
        assert caught.value.filename == "/proc"

    async def test_a_running_export_is_left_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its draft is locked."""
        monkeypatch.setattr(_outputs, "_open_unnamed", lambda folder: None)
        one = _outputs.Output(str(tmp_path / "one.jsonl"))
        one.file.write(b"one")

        await export_facts(await full_store(), tmp_path / "two.jsonl")
        one.publish()
        one.discard()

        assert (tmp_path / "one.jsonl").read_bytes() == b"one"
        assert len(os.listdir(tmp_path)) == 2


class TestStores:
    async def test_a_store_that_fails_half_way(self) -> None:
        """The places before it are complete, and the next import adds the rest."""
        bundle = await bundle_of(await full_store())

        class Full(InMemoryProvider):
            room = 2

            async def replay(
                self, entries: Sequence[Entry], subject: MemorySubject, scope: MemoryScope
            ) -> int:
                self.room -= 1
                if self.room < 0:
                    raise StorageError("The disk is full")
                return await super().replay(entries, subject, scope)

        store = Full(clock=Ticking())
        with pytest.raises(StorageError, match="full"):
            await import_facts(io.BytesIO(bundle), store)
        assert len(await store.places()) == 2
        store.room = 4

        report = await import_facts(io.BytesIO(bundle), store)

        assert report.new == 6
        assert await bundle_of(store) == bundle

    async def test_fields_of_later_versions_are_accepted(self) -> None:
        """An entry may have more fields than this version knows."""
        later = {**ENTRY, "kind": "note", "facts": [{**FACT, "mood": "fine"}]}
        bundle = sealed([HEADER, PLACE, orjson.dumps(later) + b"\n"])
        store = InMemoryProvider()

        assert (await import_facts(io.BytesIO(bundle), store)).new == 1
        assert (await store.load(Concept("k", ""), ALICE, PRODUCT))[0].value == SECRET

    async def test_verifying_reads_one_line_at_a_time(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A bundle larger than memory can be verified, and one place can be restored from it."""
        monkeypatch.setattr(_bundle_files, "_MOST_IN_MEMORY", 1)
        store = InMemoryProvider()
        for number in range(2000):
            await store.save(SingleFact(THEME, f"{number} " + "x" * 1000), ALICE, PRODUCT)
        bundle = io.BytesIO(await bundle_of(store))
        size = len(bundle.getvalue())
        await import_facts(bundle, InMemoryProvider(), places=[])
        bundle.seek(0)

        tracemalloc.start()
        await import_facts(bundle, InMemoryProvider(), places=[])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert size > 2_000_000
        assert peak < size / 10


async def test_progress_is_reported_after_each_place(tmp_path: Path) -> None:
    """An import reports how many places were requested; a failing callback stops it."""
    reported: list[tuple[int, int]] = []

    def tell(*counts: int) -> None:
        reported.append((counts[0], counts[1]))

    source, target = InMemoryProvider(), InMemoryProvider()
    people = [USER.of(f"p{number}") for number in range(3)]
    for person in people:
        for value in ("dark", "light"):
            await source.save(SingleFact(Concept("theme", "A theme"), value), person, AGENT)

    await export_facts(source, tmp_path / "all.jsonl", progress=tell)
    assert reported == [(1, 3), (2, 3), (3, 3)]

    reported.clear()
    places = [Place(AGENT, people[1]), Place(AGENT, people[2])]
    await import_facts(tmp_path / "all.jsonl", target, places=places, progress=tell)
    assert reported == [(1, 2), (2, 2)]

    with pytest.raises(ValueError, match="x not in list"):
        await export_facts(
            source, tmp_path / "none.jsonl", progress=lambda *_: reported.remove((9, 9))
        )
    assert not (tmp_path / "none.jsonl").exists()
    with pytest.raises(TypeError, match="progress=lambda"):
        await import_facts(tmp_path / "all.jsonl", target, progress=5)  # type: ignore[arg-type]
