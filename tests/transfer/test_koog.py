"""Koog's files: each fact is imported once, unreadable facts are reported, no file changes."""

import base64
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from factmem.encryption.key import Key
from factmem.errors import UnboundSubjectError
from factmem.ledger.history import HistoryAction
from factmem.models.facts import (
    Concept,
    FactSource,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.models.places import LOWEST_PRIORITY, MemoryScope, MemorySubject
from factmem.providers.in_memory import InMemoryProvider
from factmem.transfer.koog import import_koog
from factmem.transfer.reports import ImportReport
from tests.tables import table

SAMPLES = Path(__file__).parent.parent / "data" / "koog"
KEY = bytes(range(32))
KEY_TEXT = base64.b64encode(KEY).decode()
MODEL = "ai.koog.agents.memory.model."
SECRET = "PIN 1234"

THEME = Concept("ide-theme", "User's preferred IDE theme")
LANGUAGES = Concept("programming-languages", "Languages the user knows", FactType.MULTIPLE)
USER = MemorySubject("user", "The user", 1)
AGENT = MemoryScope.Agent("support")


def at(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def concept(keyword: str = "ide-theme", kind: str = "SINGLE") -> dict[str, str]:
    return {"keyword": keyword, "description": "What it is about", "factType": kind}


def single(value: Any, ms: Any = 1748000000000, **other: Any) -> dict[str, Any]:
    fact = {"type": MODEL + "SingleFact", "concept": concept(), "timestamp": ms, "value": value}
    return {**fact, **other}


def many(values: Any, ms: Any = 1748000000000, **other: Any) -> dict[str, Any]:
    fact = {"type": MODEL + "MultipleFacts", "concept": concept(kind="MULTIPLE"), "timestamp": ms}
    return {**fact, "values": values, **other}


def koog_text(content: object, key: bytes | None = None) -> bytes:
    """Return a file's bytes as Koog writes them: indented JSON, or its sealed base64."""
    text = json.dumps(content, indent=4, ensure_ascii=False).encode()
    if key is None:
        return text
    nonce = os.urandom(12)
    return base64.b64encode(nonce + AESGCM(key).encrypt(nonce, text, None))


def koog_file(
    root: Path, content: object, where: str = "agent/support/subject/user", key: bytes | None = None
) -> Path:
    path = root / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else koog_text(content, key))
    return path


async def theme(store: InMemoryProvider, subject: MemorySubject = USER) -> list[str]:
    return [fact.value for fact in await store.load(THEME, subject, AGENT)]


def reasons(report: ImportReport) -> list[str]:
    return [problem.reason for problem in report.problems]


@pytest.fixture
def store() -> InMemoryProvider:
    return InMemoryProvider()


class TestSamples:
    """Folders in exactly Koog's format, checked in."""

    @pytest.mark.parametrize(
        ("folder", "key"),
        [("plain", None), ("encrypted", KEY_TEXT), ("encrypted", KEY), ("encrypted", Key(KEY))],
        ids=["plain", "text", "bytes", "key"],
    )
    @pytest.mark.parametrize("inside", ["", "memory-storage"])
    async def test_all_facts_are_imported(
        self, store: InMemoryProvider, folder: str, key: Any, inside: str
    ) -> None:
        """Four scopes, three Koog versions, Korean and emoji; one placeholder is reported."""
        report = await import_koog(SAMPLES / folder / inside, store, subjects=[USER], key=key)

        assert [str(place) for place in report.places] == [
            "agent/support-strategy user",
            "feature/env-analyzer machine",
            "product/my-ide project",
            "product/my-ide user",
            "organization/default everything",
        ]
        assert (report.new, report.known) == (11, 0)
        [problem] = report.problems
        file = SAMPLES / folder / "memory-storage/product/my-ide/subject/user"
        assert problem.item == str(file)
        assert problem.reason.startswith("fact 1 of 'preferred-language' records that the model")

    async def test_values_and_times_are_koogs(self, store: InMemoryProvider) -> None:
        """The last of a list is current, and each fact keeps its own time."""
        await import_koog(SAMPLES / "plain", store, subjects=[USER])
        agent = MemoryScope.Agent("support-strategy")

        [dark] = await store.load(THEME, USER, agent)
        first, second = await store.load(LANGUAGES, USER, agent)

        assert (dark.value, dark.timestamp) == ("Dark Theme", at(1748000100123))
        assert dark.confirmed_at == at(1748000200000)
        assert (first.values, first.timestamp) == (("Kotlin", "Java"), at(1748000050000))
        assert (second.values, second.timestamp) == (("Python 🐍",), at(1748000300000))

    async def test_every_place_can_be_loaded(self, store: InMemoryProvider) -> None:
        """The current values of each file of the sample."""
        await import_koog(SAMPLES / "encrypted", store, key=KEY_TEXT)

        now = {
            str(info.place): sorted(
                fact.values for fact in await store.load_all(info.subject, info.scope)
            )
            for info in await store.places()
        }

        assert now == {
            "agent/support-strategy user": [
                ("Dark Theme",), ("Kotlin", "Java"), ("Python 🐍",)],
            "feature/env-analyzer machine": [("Ubuntu 24.04",)],
            "organization/default everything": [('Tabs are "four" spaces\n(no exceptions)',)],
            "product/my-ide project": [
                ("org.jetbrains.exposed:exposed-core:0.60.0",),
                ("org.jetbrains.kotlin:kotlin-stdlib:1.8.0", "io.ktor:ktor-client:3.1.2"),
            ],
            "product/my-ide user": [("코틀린 ❤️",)],
        }  # fmt: skip

    @pytest.mark.parametrize("folder", ["plain", "encrypted"])
    async def test_koogs_files_do_not_change(self, store: InMemoryProvider, folder: str) -> None:
        """They are only read, so Koog can continue to use them."""
        paths = sorted((SAMPLES / folder).rglob("*"))

        def state() -> list[tuple[int, int, bytes]]:
            return [
                (each.stat().st_mtime_ns, each.stat().st_mode,
                 each.read_bytes() if each.is_file() else b"")
                for each in paths
            ]  # fmt: skip

        before = state()
        await import_koog(SAMPLES / folder, store, key=KEY if folder == "encrypted" else None)

        assert state() == before
        assert sorted((SAMPLES / folder).rglob("*")) == paths

    async def test_a_second_import_changes_nothing(self, store: InMemoryProvider) -> None:
        """An import can be repeated, plain or encrypted, because facts are known by their ids."""
        first = await import_koog(SAMPLES / "plain", store, subjects=[USER])
        held = [await store.entries(p.subject, p.scope) for p in first.places]

        again = await import_koog(SAMPLES / "encrypted", store, subjects=[USER], key=KEY)

        assert (again.new, again.known) == (0, 11)
        assert again.places == first.places
        assert [await store.entries(p.subject, p.scope) for p in first.places] == held


class TestOrder:
    async def test_the_last_fact_is_current(self, store: InMemoryProvider, tmp_path: Path) -> None:
        """By its time, and of equal times the one that Koog appended later."""
        saves = [single("dark", 5000), single("light", 9000), single("solarized", 9000)]
        koog_file(tmp_path, {"ide-theme": [*saves, single("grey", 7000)]})

        await import_koog(tmp_path, store)

        assert await theme(store) == ["solarized"]
        [fact] = await store.load(THEME, USER, AGENT)
        assert fact.timestamp == at(9000)

    async def test_the_same_value_again_is_a_confirmation(
        self, store: InMemoryProvider, tmp_path: Path
    ) -> None:
        """Koog stored it twice; it is one value with a confirmation."""
        koog_file(tmp_path, {"ide-theme": [single("dark", 5000), single("dark", 9000)]})

        await import_koog(tmp_path, store)

        [fact] = await store.load(THEME, USER, AGENT)
        assert (fact.timestamp, fact.confirmed_at) == (at(5000), at(9000))
        history = await store.history(THEME, USER, AGENT)
        assert [each.action for each in history] == [HistoryAction.SAVED, HistoryAction.CONFIRMED]

    async def test_a_timestamp_in_the_future_is_recorded_now(
        self, store: InMemoryProvider, tmp_path: Path
    ) -> None:
        """So tomorrow's save is newer."""
        future = int((datetime.now(UTC) + timedelta(days=5000)).timestamp() * 1000)
        koog_file(tmp_path, {"ide-theme": [single("dark", future)]})

        await import_koog(tmp_path, store)

        [entry] = await store.history(THEME, USER, AGENT)
        assert entry.fact is not None
        assert entry.fact.timestamp == at(future)
        assert entry.recorded_at <= datetime.now(UTC)

    async def test_facts_that_koog_saved_since_are_imported_too(
        self, store: InMemoryProvider, tmp_path: Path
    ) -> None:
        """While both are in use, only new facts are added, and they are the newest."""
        koog_file(tmp_path, {"ide-theme": [single("dark", 1000)], "a": [single("x", 2000)]})
        await import_koog(tmp_path, store)
        await store.save(SingleFact(Concept("a", "..."), "said to the application"), USER, AGENT)
        koog_file(
            tmp_path,
            {"ide-theme": [single("dark", 1000), single("light", 3000)], "a": [single("x", 2000)]},
        )

        report = await import_koog(tmp_path, store)

        assert (report.new, report.known) == (1, 2)
        assert await theme(store) == ["light"]
        [fact] = await store.load(Concept("a", "..."), USER, AGENT)
        assert fact.value == "said to the application"

    async def test_each_version_of_koog(self, store: InMemoryProvider, tmp_path: Path) -> None:
        """The package of a type's name moved three times; fields that factmem lacks are ignored."""
        names = [
            "",
            "ai.koog.agents.core.dsl.extension.",
            "ai.grazie.code.agents.local.memory.model.",
        ]
        saves = [
            single(f"v{number}", number, type=name + "SingleFact", summary=SECRET, keywords=["x"])
            for number, name in enumerate(names)
        ]
        koog_file(tmp_path, {"ide-theme": saves})

        report = await import_koog(tmp_path, store)

        assert report.problems == ()
        assert report.new == 3


@table(
    ("save", "kind", "values"),
    [
        (single("a", concept=concept(kind="MULTIPLE")), MultipleFacts, ("a",)),
        (many(["a", "b"], concept=concept()), MultipleFacts, ("a", "b")),
        (many(["a"], concept=concept()), SingleFact, ("a",)),
        *(
            (single(text), SingleFact, (text,))
            for text in ["", "a\nb\t\u2028", "\x00", '"{}\\', "한국어 🇰🇷", "x" * 100_000]
        ),
    ],
)
async def test_a_fact_of_any_kind(
    tmp_path: Path, save: Any, kind: type, values: tuple[str, ...]
) -> None:
    """Koog allowed one value of a MULTIPLE concept and many of a SINGLE one: none is lost."""
    store = InMemoryProvider()
    koog_file(tmp_path, {"ide-theme": [save]})

    assert reasons(await import_koog(tmp_path, store)) == []

    [fact] = await store.load_all(USER, AGENT)
    assert (type(fact), fact.values) == (kind, values)
    assert fact.concept.description == "What it is about"


class TestPlaces:
    async def test_subjects_by_name(self, store: InMemoryProvider, tmp_path: Path) -> None:
        """A file of Koog's is about one user; the application names that user."""
        koog_file(tmp_path, {"ide-theme": [single("dark")]})
        alice = MemorySubject("user", "The user", 1, per_entity=True).of("alice")

        report = await import_koog(tmp_path, store, subjects=[alice])

        assert report.places[0].subject == alice
        assert await theme(store, alice) == ["dark"]
        assert await theme(store) == []

    async def test_a_name_in_another_normal_form(
        self, store: InMemoryProvider, tmp_path: Path
    ) -> None:
        """Some disks store Koog's names in the other normal form."""
        koog_file(tmp_path, {"ide-theme": [single("dark")]}, "agent/support/subject/cafe\u0301")
        cafe = MemorySubject("caf\u00e9", "The café", 1)

        await import_koog(tmp_path, store, subjects=[cafe])

        assert await theme(store, cafe) == ["dark"]

    async def test_unknown_subjects(self, store: InMemoryProvider, tmp_path: Path) -> None:
        """They are imported under their own names, and rank after all known ones."""
        koog_file(tmp_path, {"ide-theme": [single("dark")]}, "agent/support/subject/pet")
        koog_file(tmp_path, {"ide-theme": [single("dark")]}, "agent/support/subject/everything")

        report = await import_koog(tmp_path, store, subjects=[USER])

        everything, pet = (place.subject for place in report.places)
        assert everything == MemorySubject.EVERYTHING
        assert pet == MemorySubject("pet", "", LOWEST_PRIORITY)

    async def test_wrong_subjects(self, store: InMemoryProvider, tmp_path: Path) -> None:
        """The error comes before anything is read."""
        koog_file(tmp_path, {"ide-theme": [single("dark")]})
        user = MemorySubject("user", "The user", 1, per_entity=True)

        with pytest.raises(UnboundSubjectError, match="bind it with"):
            await import_koog(tmp_path, store, subjects=[user])
        with pytest.raises(ValueError, match="two subjects for Koog's 'user'"):
            await import_koog(tmp_path, store, subjects=[user.of("alice"), user.of("bob")])
        assert await store.places() == []

    async def test_names_with_slashes(self, store: InMemoryProvider, tmp_path: Path) -> None:
        """Koog used names as paths without change."""
        koog_file(tmp_path, {"a": [single("1")]}, "product/acme/ide/subject/user/alice")
        koog_file(tmp_path, {"a": [single("2")]}, "organization/subject/team/subject/x")
        koog_file(tmp_path, {"a": [single("3")]}, "agent/subject/subject/subject")

        report = await import_koog(tmp_path, store)

        assert report.problems == ()
        assert [str(place) for place in report.places] == [
            "agent/subject subject",
            "product/acme/ide user/alice",
            "organization/default team/subject/x",
        ]

    @pytest.mark.parametrize(
        ("where", "reason"),
        [
            ("agent/a/subject/b/subject/c", "names no place"),
            ("agent/a/user", "names no place"),
            ("agent/a/subject", "names no place"),
            ("agent/subject/user", "names no place"),
            ("organization/user", "names no place"),
            ("organization/subject", "names no place"),
            ("agent/stray", "names no place"),
            ("agent", "names no place"),
            ("organization", "names no place"),
            ("agent/a\x07b/subject/user", "control characters"),
            ("agent/a/subject/b\x07", "control characters"),
            (f"agent/{'x' * 201}/subject/user", "201 characters"),
            ("agent/ /subject/user", "empty"),
            ("agent/\udcff/subject/user", "lone surrogate"),
        ],
    )
    async def test_paths_that_are_not_places(
        self, store: InMemoryProvider, tmp_path: Path, where: str, reason: str
    ) -> None:
        """They are reported, and the others are imported."""
        koog_file(tmp_path, {"ide-theme": [single("light")]}, where)
        koog_file(tmp_path, {"ide-theme": [single("dark")]}, "product/my-ide/subject/user")

        report = await import_koog(tmp_path, store)

        [problem] = report.problems
        assert reason in problem.reason
        assert problem.item == str(tmp_path / where)
        assert report.new == 1

    async def test_wrong_roots(self, store: InMemoryProvider, tmp_path: Path) -> None:
        """A wrong folder is an error, not an empty import."""
        (tmp_path / "empty").mkdir()
        file = koog_file(tmp_path / "one", {"ide-theme": [single("dark")]})
        koog_file(tmp_path / "two", {"ide-theme": [single("dark")]})

        with pytest.raises(ValueError, match="contains no store of Koog"):
            await import_koog(tmp_path / "empty", store)
        with pytest.raises(ValueError, match="is not a folder"):
            await import_koog(file, store)
        with pytest.raises(ValueError, match="is not a folder"):
            await import_koog(tmp_path / "none", store)
        with pytest.raises(ValueError, match="several stores of Koog: pass the folder"):
            await import_koog(tmp_path, store)
        assert (await import_koog(str(tmp_path / "one"), store)).new == 1


class TestFlaws:
    @pytest.mark.parametrize(
        ("save", "reason"),
        [
            (SECRET, "not a valid fact"),
            (None, "not a valid fact"),
            ({}, "not a valid fact"),
            (single(SECRET, type=MODEL + "GraphFact"), "not a valid fact"),
            (single(SECRET, type=3), "not a valid fact"),
            (single(None), "not a valid fact"),
            (single(["a", SECRET]), "not a valid fact"),
            (many(SECRET), "not a valid fact"),
            (many([SECRET, 3]), "not a valid fact"),
            (many([]), "found nothing"),
            (single("No facts extracted"), "found nothing"),
            (single(SECRET, concept=None), "not a valid fact"),
            (single(SECRET, concept={"keyword": "k"}), "not a valid fact"),
            (single(SECRET, concept={**concept(), "factType": "SOME"}), "not a valid fact"),
            (single(SECRET, concept={**concept(), "description": 1}), "not a valid fact"),
            (single(SECRET, "2025-05-23"), "not a valid fact"),
            (single(SECRET, 1.5), "not a valid fact"),
            (single(SECRET, True), "not a valid fact"),
            (single(SECRET, None), "not a valid fact"),
            (single(SECRET, 10**17), "not a valid fact"),
            (single(SECRET, -(10**17)), "not a valid fact"),
            (single(SECRET, 2**70), "not a valid fact"),
        ],
    )
    async def test_malformed_facts_are_reported(
        self, store: InMemoryProvider, tmp_path: Path, save: Any, reason: str
    ) -> None:
        """The report has file, keyword and number, no content; the facts around it are imported."""
        path = koog_file(tmp_path, {"ide-theme": [single("dark"), save, single("light")]})

        report = await import_koog(tmp_path, store)

        [problem] = report.problems
        assert problem.item == str(path)
        assert problem.reason.startswith("fact 1 of 'ide-theme' ")
        assert reason in problem.reason
        assert SECRET not in f"{problem} {report!r}"
        assert report.new == 2
        assert await theme(store) == ["light"]

    @pytest.mark.parametrize("keyword", ["", "a\nb", "x" * 201])
    async def test_malformed_keywords(
        self, store: InMemoryProvider, tmp_path: Path, keyword: str
    ) -> None:
        """Koog accepted any keyword."""
        koog_file(tmp_path, {keyword: [single(SECRET)], "ide-theme": [single("dark")]})

        report = await import_koog(tmp_path, store)

        [problem] = report.problems
        assert problem.reason == f"fact 0 of {keyword!r} is not a valid fact of Koog's memory"
        assert await theme(store) == ["dark"]

    @pytest.mark.parametrize(
        ("content", "reason", "key"),
        [
            (b"", "is empty", None),
            (b" \n", "is empty", None),
            (b'{"ide-theme": [{"value": "PIN 1234"', "not JSON", None),
            (b"PIN 1234", "not JSON", None),
            (b"\xff\xfe{}", "not JSON", None),
            (b'{"a": "\\ud800"}', "not JSON", None),
            (b"[" * 100_000, "not JSON", None),
            (b"[]", "does not map keywords to lists", None),
            (b'"PIN 1234"', "does not map keywords to lists", None),
            (b'{"ide-theme": {"value": "PIN 1234"}}', "does not map keywords to lists", None),
            (koog_text({"ide-theme": []}, KEY), "encrypted: pass its key", None),
            (
                koog_text({"ide-theme": [single(SECRET)]}, b"x" * 32),
                "cannot be decrypted with this key",
                KEY,
            ),
            (koog_text({"ide-theme": [single(SECRET)]}), "is not encrypted", KEY),
        ],
        ids=[
            *("nothing", "blank", "cut", "text", "not UTF-8", "lone surrogate", "deep"),
            *("a list", "a string", "no list of facts", "encrypted", "another key", "plain"),
        ],
    )
    async def test_files_that_cannot_be_read(
        self,
        store: InMemoryProvider,
        tmp_path: Path,
        content: bytes,
        reason: str,
        key: bytes | None,
    ) -> None:
        """Koog treated most as empty and overwrote them; plain text may be that of an attacker."""
        path = koog_file(tmp_path, content, "agent/a/subject/user")
        koog_file(tmp_path, {"ide-theme": [single("dark")]}, key=key)

        report = await import_koog(tmp_path, store, key=key)

        [problem] = report.problems
        assert problem.item == str(path)
        assert reason in problem.reason
        assert SECRET not in f"{problem} {report!r}"
        assert await theme(store) == ["dark"]
        assert path.read_bytes() == content

    async def test_an_empty_map_is_not_reported(
        self, store: InMemoryProvider, tmp_path: Path
    ) -> None:
        """It contains nothing, and nothing is wrong with it."""
        koog_file(tmp_path, {})

        report = await import_koog(tmp_path, store)

        assert report == ImportReport(places=(), entries=0, new=0)
        assert await store.places() == []


class TestKeys:
    async def test_cut_at_every_byte(
        self, store: InMemoryProvider, tmp_path: Path, stride: int
    ) -> None:
        """Koog crashed while it wrote: a part of a file never counts as the whole file."""
        whole = koog_text({"ide-theme": [single("dark")]}, KEY)

        for size in range(1, len(whole), stride):
            koog_file(tmp_path, whole[:size])
            report = await import_koog(tmp_path, store, key=KEY)
            assert len(report.problems) == 1
            assert report.new == 0
        assert await store.places() == []

    async def test_white_space_around_a_sealed_file(
        self, store: InMemoryProvider, tmp_path: Path
    ) -> None:
        """An editor added line breaks."""
        koog_file(tmp_path, koog_text({"ide-theme": [single("dark")]}, KEY) + b"\n")

        await import_koog(tmp_path, store, key=KEY)

        assert await theme(store) == ["dark"]

    @pytest.mark.parametrize(
        "key", ["", "short", "!" * 44, base64.b64encode(b"x" * 31).decode(), b"x" * 31,
                KEY_TEXT.encode(),
                Key.from_passphrase("correct horse")],
    )  # fmt: skip
    async def test_wrong_keys(self, store: InMemoryProvider, key: Any) -> None:
        """The error comes at once, and the message does not show the key."""
        with pytest.raises(ValueError, match="key") as caught:
            await import_koog(SAMPLES / "encrypted", store, key=key)

        assert not isinstance(key, str) or not key or key not in str(caught.value)


class TestDisk:
    async def test_links_are_not_followed(self, store: InMemoryProvider, tmp_path: Path) -> None:
        """No link to a file or a folder is followed, wherever it leads."""
        outside = koog_file(tmp_path / "outside", {"ide-theme": [single(SECRET)]})
        root = tmp_path / "root"
        koog_file(root, {"ide-theme": [single("dark")]})
        (root / "agent/support/subject/link").symlink_to(outside)
        (root / "agent/other").symlink_to(tmp_path / "outside/agent/support")
        (root / "agent/loop").symlink_to(root)
        (root / "product").symlink_to(tmp_path / "outside/agent")

        report = await import_koog(root, store)

        assert report.new == 1
        assert {problem.item.removeprefix(f"{root}/") for problem in report.problems} == {
            "agent/support/subject/link", "agent/other", "agent/loop", "product",
        }  # fmt: skip
        assert set(reasons(report)) == {"is a symbolic link, which is not followed"}

    async def test_the_root_itself_may_be_a_link(
        self, store: InMemoryProvider, tmp_path: Path
    ) -> None:
        """The caller named that path."""
        koog_file(tmp_path / "real", {"ide-theme": [single("dark")]})
        (tmp_path / "link").symlink_to(tmp_path / "real")

        assert (await import_koog(tmp_path / "link", store)).new == 1

    async def test_what_is_not_a_regular_file(
        self, store: InMemoryProvider, tmp_path: Path
    ) -> None:
        """Reading a pipe would never end."""
        koog_file(tmp_path, {"ide-theme": [single("dark")]})
        os.mkfifo(tmp_path / "agent/support/subject/pipe")

        report = await import_koog(tmp_path, store)

        assert reasons(report) == ["is not a regular file"]
        assert report.new == 1

    async def test_files_without_permission(self, store: InMemoryProvider, tmp_path: Path) -> None:
        """A file and a folder belong to another owner."""
        file = koog_file(tmp_path, {"ide-theme": [single("light")]}, "agent/a/subject/user")
        koog_file(tmp_path, {"ide-theme": [single("dark")]})
        file.chmod(0)
        if os.access(file, os.R_OK):
            pytest.skip("this user may read everything")
        (tmp_path / "product").mkdir(mode=0)

        report = await import_koog(tmp_path, store)

        (tmp_path / "product").chmod(0o700)
        assert reasons(report) == ["cannot be read: Permission denied"] * 2
        assert report.new == 1

    async def test_deep_folders(self, store: InMemoryProvider, tmp_path: Path) -> None:
        """The paths are as deep as the system allows."""
        koog_file(tmp_path, {"ide-theme": [single("dark")]})
        folders = [tmp_path / "agent"]
        for _ in range(1500):
            folders.append(folders[-1] / "a")
            folders[-1].mkdir()

        report = await import_koog(tmp_path, store)

        for folder in reversed(folders[1:]):  # removing temporary folders is recursive
            folder.rmdir()
        assert (report.new, report.problems) == (1, ())


async def test_an_import_can_be_undone(store: InMemoryProvider, tmp_path: Path) -> None:
    """By its source, everything that was imported can be forgotten."""
    koog_file(tmp_path, {"ide-theme": [single("dark")], "a": [many(["x", "y"])]})
    await import_koog(tmp_path, store)

    forgotten = await store.forget(USER, AGENT, source=FactSource(SourceKind.DOCUMENT, "koog"))

    assert forgotten == 3
    assert await store.load_all(USER, AGENT) == []
