"""Wrong arguments of providers: errors at the call that show a correct one, and no key."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.models.facts import Concept, SingleFact
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.no_memory import NoMemory
from factmem.providers.storages import EncryptedStorage, SimpleStorage
from factmem.providers.store import FactStore
from factmem.testing._facts import AGENT, THEME, USER, theme

KEY = Aes256GCMEncryptor.generate_key()
ENCRYPTED = r"EncryptedStorage\(Aes256GCMEncryptor\(key\)\)"
DAYS = r"timedelta\(days=90\)"

STORES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "an encryption": ({"storage": Aes256GCMEncryptor(KEY)}, TypeError, ENCRYPTED),
    "a key": ({"storage": Key.generate()}, TypeError, ENCRYPTED),
    "a text": ({"storage": KEY}, TypeError, ENCRYPTED),
    "an empty text": ({"storage": ""}, TypeError, ENCRYPTED),
    "a number": ({"storage": 0}, TypeError, ENCRYPTED),
    "a class": ({"storage": EncryptedStorage}, TypeError, ENCRYPTED),
    "days": ({"keep_history": 90}, TypeError, DAYS),
    "a negative span": (
        {"keep_history": timedelta(days=-1)},
        ValueError,
        "must be a timedelta of at least 0",
    ),
    "a moment": ({"clock": datetime.now(UTC)}, TypeError, r"lambda: datetime.now\(UTC\)"),
    "no root": ({"root": ""}, ValueError, "'.' for the current one"),
    "None": ({"root": None}, TypeError, r"LocalFileMemoryProvider\('memory'\)"),
    "bytes": ({"root": b"memory"}, TypeError, r"LocalFileMemoryProvider\('memory'\)"),
    "a descriptor": ({"root": 3}, TypeError, r"LocalFileMemoryProvider\('memory'\)"),
    "NUL": ({"root": "memory\0"}, ValueError, "such as NUL"),
    "a surrogate": ({"root": "memory\ud800"}, ValueError, "no path can have"),
}


@pytest.mark.parametrize("what", STORES)
def test_wrong_arguments_of_a_store(tmp_path: Path, what: str) -> None:
    """The constructor raises, before anything is saved without encryption; no key is shown."""
    options, error, advice = STORES[what]

    with pytest.raises(error, match=advice) as caught:
        LocalFileMemoryProvider(**{"root": tmp_path / "store", **options})

    assert KEY not in str(caught.value)
    assert not (tmp_path / "store").exists()


ENCRYPTIONS: list[Any] = [KEY, Key.generate(), KEY.encode(), None, Aes256GCMEncryptor]


@pytest.mark.parametrize("given", ENCRYPTIONS, ids=["text", "key", "bytes", "None", "class"])
def test_a_key_instead_of_an_encryption(given: Any) -> None:
    with pytest.raises(TypeError, match=ENCRYPTED) as caught:
        EncryptedStorage(given)

    assert KEY not in str(caught.value)


TIMEOUTS: list[Any] = ["5", timedelta(seconds=5), None, True]


@pytest.mark.parametrize("timeout", TIMEOUTS)
def test_a_timeout_that_is_not_a_number(timeout: Any) -> None:
    """The storage's constructor raises, plain and encrypted."""
    with pytest.raises(TypeError, match="busy_timeout=5"):
        SimpleStorage(busy_timeout=timeout)
    with pytest.raises(TypeError, match="busy_timeout=5"):
        EncryptedStorage(Aes256GCMEncryptor(KEY), busy_timeout=timeout)


@pytest.mark.parametrize("timeout", [-1, -0.1, float("nan"), float("inf")])
def test_impossible_timeouts(timeout: float) -> None:
    with pytest.raises(ValueError, match="from 0 on"):
        SimpleStorage(busy_timeout=timeout)
    with pytest.raises(ValueError, match="from 0 on"):
        EncryptedStorage(Aes256GCMEncryptor(KEY), busy_timeout=timeout)


WRONG_KEYS: list[Any] = [3, None, Key, ["a", "b"]]


@pytest.mark.parametrize("given", WRONG_KEYS)
async def test_wrong_keys(tmp_path: Path, given: Any) -> None:
    """An encryptor refuses them, and so do add, remove and rotate."""
    for made in (Aes256GCMEncryptor, Key.from_base64):
        with pytest.raises(TypeError, match="text must be a str"):
            made(given)
    with pytest.raises(TypeError, match="passphrase must be a str"):
        Key.from_passphrase(given)
    async with LocalFileMemoryProvider(
        tmp_path / "store", storage=EncryptedStorage(Aes256GCMEncryptor(KEY))
    ) as store:
        for change in (store.keys.add, store.keys.remove, store.keys.rotate):
            with pytest.raises(TypeError, match=r"Aes256GCMEncryptor\(key\)"):
                await change(given)


def test_a_string_that_is_not_a_key_may_be_a_passphrase() -> None:
    """It is not shown, and the message says what to do."""
    with pytest.raises(ValueError, match="A passphrase is given by from_passphrase") as caught:
        Aes256GCMEncryptor("correct horse battery staple")

    assert "horse" not in str(caught.value)


PLACE = r"in this order, not {} and {}: .*MemoryScope.parse\("
CONCEPT = r"Concept\(keyword, description\)"
ANYTHING: Concept[Any] = Concept("any", "Anything", value_type=Any)
NOON = datetime(2024, 1, 1, 12)  # noqa: DTZ001
FACT = r"SingleFact\(concept, value\)"
CALLS: dict[str, tuple[Callable[[Any], Awaitable[object]], type[Exception], str]] = {
    "a text as subject": (
        lambda store: store.save(theme("dark"), "user", AGENT),
        TypeError,
        PLACE.format("str", "MemoryScope"),
    ),
    "a text as scope": (
        lambda store: store.save(theme("dark"), USER, "agent/painter"),
        TypeError,
        PLACE.format("MemorySubject", "str"),
    ),
    "subject and scope in each other's place": (
        lambda store: store.load(THEME, AGENT, USER),
        TypeError,
        PLACE.format("MemoryScope", "MemorySubject"),
    ),
    "a place of texts": (lambda s: s.erase("user", "agent"), TypeError, PLACE.format("str", "str")),
    "no fact": (lambda s: s.save("dark", USER, AGENT), TypeError, FACT),
    "no fact among others": (
        lambda s: s.save_many([theme("dark"), "dark"], USER, AGENT), TypeError, FACT,
    ),
    "one fact": (
        lambda s: s.save_many(theme("dark"), USER, AGENT),
        TypeError, "must be a list, not one fact",
    ),
    "no facts": (lambda s: s.save_many(None, USER, AGENT), TypeError, "facts must be a list"),
    "a value without JSON": (
        lambda s: s.save(SingleFact(ANYTHING, {1}), USER, AGENT),
        ValueError, "'any' cannot be stored",
    ),
    "a keyword": (lambda s: s.load("ide-theme", USER, AGENT), TypeError, CONCEPT),
    "a keyword among concepts": (
        lambda s: s.load_all(USER, AGENT, concepts=["dark"]),
        TypeError, "list of Concept, not of str",
    ),
    "one concept": (
        lambda s: s.load_all(USER, AGENT, concepts=THEME), TypeError, r"concepts=\[concept\]",
    ),
    "a history by keyword": (lambda s: s.history("ide-theme", USER, AGENT), TypeError, CONCEPT),
    "a number of days": (lambda s: s.forget(USER, AGENT, older_than=90), TypeError, DAYS),
    "no words": (lambda s: s.load_by_description(" ", USER, AGENT), ValueError, "load_all"),
    "a naive time": (lambda s: s.load(THEME, USER, AGENT, as_of=NOON), ValueError, "time zone"),
    "a naive time of all": (lambda s: s.load_all(USER, AGENT, as_of=NOON), ValueError, "time zone"),
    "a date as text": (
        lambda s: s.load(THEME, USER, AGENT, as_of="2026-01-01"), TypeError, "datetime, not str",
    ),
    "places of one subject": (lambda s: s.places(subjects=USER), TypeError, r"subjects=\[USER\.of"),
    "places of subjects as scopes": (
        lambda s: s.places(scopes=[USER]), TypeError, "not of MemorySubject",
    ),
    "entries of no list": (lambda s: s.replay(5, USER, AGENT), TypeError, "must be a list, not"),
    "no entry": (lambda s: s.replay([{}], USER, AGENT), ValueError, "Entry 0 cannot be recorded"),
    "a change that is no function": (
        lambda s: s.amend([], USER, AGENT), TypeError, "must be a function",
    ),
    "a change of current facts that is no function": (
        lambda s: s.amend_current([], USER, AGENT), TypeError, "must be a function",
    ),
}  # fmt: skip


@pytest.fixture(params=["local", "memory", "none"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FactStore:
    stores: dict[str, Callable[[], FactStore]] = {
        "local": lambda: LocalFileMemoryProvider(tmp_path / "store"),
        "memory": InMemoryProvider,
        "none": NoMemory,
    }
    return stores[request.param]()


@pytest.mark.parametrize("what", CALLS)
async def test_wrong_arguments_of_a_call(store: FactStore, what: str) -> None:
    """Every store raises the same."""
    call, error, advice = CALLS[what]

    with pytest.raises(error, match=advice):
        await call(store)


async def test_wrong_arguments_of_the_calls_of_local_files(tmp_path: Path) -> None:
    store: Any = LocalFileMemoryProvider(tmp_path / "store")

    with pytest.raises(TypeError, match=DAYS):
        await store.compact(USER, AGENT, keep_history=90)
    with pytest.raises(ValueError, match="must be a timedelta of at least 0"):
        await store.compact(USER, AGENT, keep_history=-timedelta(days=1))
    with pytest.raises(ValueError, match=r"the string that anchor\(\) returned"):
        await store.verify(3)
