"""`factmem review` by its answers: pages, changes, roles, and attacks on every route."""

import re
import sqlite3
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from starlette.routing import Route
from typer.testing import CliRunner

from factmem import (
    AgentMemory,
    Concept,
    FactSource,
    FactType,
    LocalFileMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
    SingleFact,
    SourceKind,
    acting,
)
from factmem._cli.application import app as command
from factmem._cli.desk import Desk
from factmem._cli.options import Options
from factmem._cli.port_guard import Role, Tokens, Visitor
from factmem._cli.review.pages import HEADERS, Pages, guarded_page
from factmem.models import FactState

USER = MemorySubject("user", "", 1, per_entity=True)
APP = MemoryScope.Product("desk")
PLAN = Concept("plan", "The tariff of the customer")
PETS = Concept("pets", "The user's pets", FactType.MULTIPLE)
ALICE, BOB = "product/desk/user/alice", "product/desk/user/bob"
SECRET = "s" * 40
TOKENS = Tokens(SECRET, 8765)
HOST = "http://127.0.0.1:8765"
TURNS = "\u202e\u202c\U000e0041\u2066"
EVIL = f""""><script>alert(1)</script><img src=x onerror=alert(2)>\
' onmouseover='alert(3) javascript:{TURNS}x"""


@dataclass
class Site:
    """The page over a store, and its visitors."""

    store: LocalFileMemoryProvider
    desk: Desk
    app: Any

    @asynccontextmanager
    async def visit(
        self, role: Role = Role.ADMINISTRATOR, *, name: str = "jane", place: str | None = None
    ) -> AsyncGenerator[httpx.AsyncClient]:
        """Open the link of a visitor in a browser."""
        visitor = Visitor(name, role, time.time() + 3600, place)
        async with self.client() as client:
            answer = await client.get(TOKENS.link(visitor))
            assert answer.status_code == 303
            yield client

    def client(self, **given: Any) -> httpx.AsyncClient:
        """Return a browser without a cookie."""
        transport = httpx.ASGITransport(self.app)
        return httpx.AsyncClient(transport=transport, base_url=HOST, **given)

    async def values(self, name: str = "alice") -> dict[str, list[Any]]:
        """Return the current values of a user."""
        await self.desk.recent.refresh()
        facts = await self.store.load_all(USER.of(name), APP)
        found: dict[str, list[Any]] = {}
        for fact in facts:
            found.setdefault(fact.concept.keyword, []).extend(fact.values)
        return found


@asynccontextmanager
async def _site(folder: Path) -> AsyncGenerator[Site]:
    async with LocalFileMemoryProvider(folder) as store:
        desk = Desk(store, Options(str(folder)))
        yield Site(store, desk, guarded_page(desk, TOKENS))


def _said(quote: str, conversation: str = "chat-1", message: int = 1) -> FactSource:
    return FactSource(SourceKind.USER, conversation, message, quote, model="m")


async def _fill(site: Site) -> None:
    memory = AgentMemory(site.store, scopes=MemoryScopesProfile(product="desk"), subjects=[USER])
    chat = memory.of("alice").conversation("chat-1", learn=False)
    await chat.append(
        {"role": "assistant", "content": "Which plan do you have?"},
        {"role": "user", "content": "They sold me the Gold plan, I think"},
        {"role": "assistant", "content": "I look it up"},
    )
    await site.store.save(SingleFact(PLAN, "Silver"), USER.of("alice"), APP)
    gold = SingleFact(PLAN, "Gold", source=_said("the Gold plan"))
    await site.store.save(gold, USER.of("alice"), APP)
    pets = MultipleFacts(PETS, ["Miso", "Rex"], source=_said("Miso and Rex", "chat-9", 4))
    await site.store.save(pets, USER.of("bob"), APP)
    await site.desk.recent.refresh()


@pytest.fixture
async def empty(tmp_path: Path) -> AsyncGenerator[Site]:
    async with _site(tmp_path) as made:
        yield made


@pytest.fixture
async def site(empty: Site) -> Site:
    await _fill(empty)
    return empty


class _Forms(HTMLParser):
    """The forms of a page, with the fields that a browser would send."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: list[tuple[str, str, dict[str, str]]] = []
        self._area: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append((given.get("method", "get"), given.get("action", ""), {}))
        elif tag == "input" and "name" in given:
            self.forms[-1][2][given["name"]] = given.get("value", "")
        elif tag == "textarea":
            self._area = given["name"]
            self.forms[-1][2][self._area] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._area = None

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self.forms[-1][2][self._area] += data

    def of(self, action: str, **fields: str) -> dict[str, str]:
        """Return the fields of the first form of an action with these fields."""
        return next(
            form
            for _, path, form in self.forms
            if path == action and fields.items() <= form.items()
        )


async def _send(
    client: httpx.AsyncClient, page: str, action: str, fields: dict[str, str], **typed: str
) -> httpx.Response:
    """Open a page, fill in its form, and send it as a browser does."""
    form = _Forms((await client.get(page)).text).of(action, **fields)
    return await client.post(action, data={**form, **typed}, headers={"origin": HOST})


async def test_the_inbox_shows_values_with_the_chat_around_them(site: Site) -> None:
    """The quote is marked in its message, and the messages around it are shown."""
    async with site.visit(Role.READER) as client:
        page = (await client.get("/")).text

    assert '<div class="value" dir="auto">Gold</div>' in page
    assert "They sold me <mark>the Gold plan</mark>, I think" in page
    assert "Which plan do you have?" in page
    assert "I look it up" in page
    assert "<mark>Miso and Rex</mark>" in page  # of a chat that is not stored
    assert "Silver" not in page
    assert 'action="/accept"' not in page  # a reader cannot change anything


async def _addresses(site: Site) -> list[tuple[str, str]]:
    """Return the method and an address of every route."""
    [fact] = await site.store.load(PLAN, USER.of("alice"), APP)
    pages = Pages(site.desk, TOKENS)
    found: list[tuple[str, str]] = []
    for route in pages.app.routes:
        assert isinstance(route, Route)
        path = route.path.replace("{place:path}", ALICE).replace("{id}", fact.id)
        path = path.replace("{position:int}", "0")
        path += f"?place={ALICE}&q=plan" if path in {"/compare", "/search"} else ""
        found += [(method, path) for method in route.methods or () if method != "HEAD"]
    assert len(found) == 19
    return found


async def test_every_route_is_guarded(site: Site) -> None:
    """Without a token, with a wrong or expired one, or from another site nothing is served."""
    before = await site.values()
    good = TOKENS.issued(Visitor.for_hours(1, "jane", Role.ADMINISTRATOR))
    old = TOKENS.issued(Visitor("jane", Role.ADMINISTRATOR, time.time() - 1))
    foreign = Tokens("x" * 40, 8765).issued(Visitor.for_hours(1, "jane", Role.ADMINISTRATOR))
    raised = TOKENS.issued(Visitor.for_hours(1, "jane", Role.READER)).split(".")[1]
    cookie = "factmem-review-8765={}".format
    attacks: list[tuple[dict[str, str], int]] = [
        ({}, 401),
        ({"cookie": cookie("")}, 401),
        ({"cookie": cookie(good[:-1])}, 401),
        ({"cookie": cookie(old)}, 401),
        ({"cookie": cookie(foreign)}, 401),
        ({"cookie": cookie(f"{good.split('.')[0]}.{raised}")}, 401),
        ({"cookie": f"{cookie(good)}; {cookie(good)}"}, 401),
        ({"cookie": f"factmem-review-8766={good}"}, 401),
        ({"authorization": f"Basic {good}"}, 401),
        ({"cookie": cookie(good), "host": "evil.example:8765"}, 421),
        ({"cookie": cookie(good), "origin": "https://evil.example"}, 403),
        ({"cookie": cookie(good), "origin": "null"}, 403),
    ]
    async with site.client() as client:
        for method, path in await _addresses(site):
            for headers, expected in attacks:
                answer = await client.request(method, path, headers=headers)
                assert answer.status_code == expected, (method, path, headers)
            token = {"cookie": cookie(good)}
            if method == "POST":  # no origin; no token of the form; that of another visitor
                other = TOKENS.form_token(old)
                refused = 401 if path == "/enter" else 403  # that takes no cookie
                assert (await client.post(path, headers=token)).status_code == refused
                token["origin"] = HOST
                assert (await client.post(path, headers=token)).status_code == refused
                sent = await client.post(path, headers=token, data={"form": other})
                assert sent.status_code == refused, path
    assert await site.values() == before


async def test_roles(site: Site) -> None:
    """A reader changes nothing, and only an administrator issues links."""
    before = await site.values()
    addresses = await _addresses(site)
    for role in (Role.READER, Role.REVIEWER):
        async with site.visit(role) as client:
            form = _Forms((await client.get("/")).text).of("/leave")
            for path in (path for method, path in addresses if method == "POST"):
                if path not in {"/leave", "/enter"}:
                    answer = await client.post(path, data=form, headers={"origin": HOST})
                    may = role is Role.REVIEWER and path != "/links"
                    assert (answer.status_code == 403) is not may, (role, path)
            assert (await client.get("/links")).status_code == 403
            assert "/links" not in (await client.get("/")).text
    assert await site.values() == before


async def test_a_link_for_one_user_shows_no_other(site: Site) -> None:
    """Neither pages nor lists nor changes reach another place."""
    [pets] = await site.store.load(PETS, USER.of("bob"), APP)
    async with site.visit(Role.REVIEWER, place=ALICE) as client:
        for path in ("/", "/users", "/users?find=bob", "/timeline", "/search?q=Miso"):
            page = (await client.get(path)).text
            assert "Miso" not in re.sub(r'value="Miso"|<title>.*</title>', "", page), path
            assert "user/bob" not in page, path
        paths = [f"/user/{BOB}", f"/fact/{pets.id}/0/{BOB}"]
        paths += [f"/{name}?place={BOB}&q=Miso" for name in ("compare", "timeline", "search")]
        for path in paths:
            assert (await client.get(path)).status_code == 404, path
        form = _Forms((await client.get("/")).text).of("/reject")
        stolen = {**form, "place": BOB, "id": pets.id}
        answer = await client.post("/reject", data=stolen, headers={"origin": HOST})
        assert answer.status_code == 404
        assert (await client.get(f"/user/{ALICE}")).status_code == 200
    assert (await site.values("bob"))["pets"] == ["Miso", "Rex"]


async def test_an_administrator_issues_links(site: Site) -> None:
    """A link has a name, a role and perhaps one user."""
    async with site.visit() as client:
        fields = {"name": "tom", "role": "reader", "hours": "2", "place": ALICE}
        page = await _send(client, "/links", "/links", {}, **fields)
        [link] = re.findall(r'value="(http://127.0.0.1:8765/enter[^"]+)"', page.text)
        for wrong in ({"hours": "721"}, {"hours": "x"}, {"name": " "}, {"role": "king"}):
            answer = await _send(client, "/links", "/links", {}, **{**fields, **wrong})
            assert answer.status_code == 400
        wrong_place = await _send(client, "/links", "/links", {}, **{**fields, "place": "bob"})
        assert wrong_place.status_code == 400
    async with site.client() as client:
        await client.get(link)
        page = await client.get("/")
        assert "tom" in page.text
        assert "reader" in page.text
        assert "Miso" not in page.text
        left = await _send(client, "/", "/leave", {})
        assert left.status_code == 200
        assert (await client.get("/")).status_code == 401


async def test_who_sees_one_user_lets_nobody_see_another(empty: Site) -> None:
    """A link of an administrator of one user is for that user, too."""
    async with empty.visit(place=ALICE) as client:
        fields = {"name": "tom", "role": "administrator", "hours": "2"}
        other = await _send(client, "/links", "/links", {}, **fields, place=BOB)
        assert other.status_code == 404
        page = await _send(client, "/links", "/links", {}, **fields, place="")
        [link] = re.findall(r'value="(http://127.0.0.1:8765/enter[^"]+)"', page.text)
        visitor = TOKENS.visitor(link.partition("token=")[2])
        assert visitor is not None
        assert visitor.place == ALICE


async def test_accept_correct_reject_restore_and_undo(site: Site) -> None:
    """Each is a confirmed change in the name of the visitor, with a reason, and can be undone."""
    async with site.visit(Role.REVIEWER) as client:
        done = await _send(client, "/", "/accept", {"place": ALICE})
        assert done.status_code == 303
        page = (await client.get(done.headers["location"])).text
        assert "The tariff of the customer of alice is Gold now." in page
        assert page.count("<article") == 2  # of bob; hers is decided

        correction = {"value": "Platin", "reason": "she called"}
        [gold] = await site.store.load(PLAN, USER.of("alice"), APP)
        assert (gold.value, gold.state, gold.actor) == ("Gold", FactState.CONFIRMED, "jane")
        address = f"/fact/{gold.id}/0/{ALICE}"
        assert (await _send(client, address, "/correct", {}, **correction)).status_code == 303
        assert await site.values() == {"plan": ["Platin"]}
        timeline = (await client.get(f"/timeline?actor=jane&place={ALICE}")).text
        assert '<q dir="auto">she called</q>' in timeline
        assert "Silver" not in timeline  # not by jane

        forgotten = await _send(client, "/", "/reject", {"place": BOB, "position": "0"})
        assert (await site.values("bob"))["pets"] == ["Rex"]
        back = forgotten.headers["location"]
        assert "pets of bob is not Miso; history keeps it." in (await client.get(back)).text
        forged = back.replace("done=reject", "done=accept")
        assert "pets of bob is Miso now" not in (await client.get(forged)).text
        assert (await _send(client, back, "/undo", {"place": BOB})).status_code == 303
        assert sorted((await site.values("bob"))["pets"]) == ["Miso", "Rex"]

        [plan] = await site.store.load(PLAN, USER.of("alice"), APP)
        address = f"/fact/{plan.id}/0/{ALICE}"
        restored = await _send(client, address, "/restore", {"keyword": "plan"})
        assert restored.status_code == 303
        assert await site.values() == {"plan": ["Gold"]}


async def test_a_link_replaces_no_session_without_a_click(site: Site) -> None:
    """A page of another site opened the attacker's link: later decisions had his name."""
    mallory = TOKENS.issued(Visitor.for_hours(1, "mallory", Role.REVIEWER))
    again = TOKENS.issued(Visitor.for_hours(2, "jane", Role.ADMINISTRATOR))
    cross = {"sec-fetch-site": "cross-site"}

    async def name(client: httpx.AsyncClient) -> str:
        [found] = re.findall(r"<bdi>(\w+)</bdi> <small>", (await client.get("/")).text)
        return str(found)

    async with site.visit(name="jane") as client:
        for headers in ({}, cross):
            page = await client.get(f"/enter?token={mallory}", headers=headers)
            assert (page.status_code, "Enter as mallory" in page.text) == (200, True)
            assert await name(client) == "jane"
        assert (await client.get(f"/enter?token={again}")).status_code == 303  # her own
        path = f"/enter?token={mallory}"
        form = _Forms((await client.get(path)).text).of(path)
        other = {"origin": "https://evil.example"}
        assert (await client.post(path, data=form, headers=other)).status_code == 403
        entered = await client.post(path, data=form, headers={"origin": HOST})
        assert entered.status_code == 303
        assert await name(client) == "mallory"
    async with site.client() as client:  # nobody is there yet
        assert (await client.get(f"/enter?token={mallory}", headers=cross)).status_code == 200
        assert (await client.get("/")).status_code == 401


async def test_equal_contradictions_are_one_card(empty: Site) -> None:
    """Each chat wrote it in another way; one decision is about all of them."""
    alice = USER.of("alice")
    await empty.store.save(SingleFact(PLAN, "Silver", state=FactState.CONFIRMED), alice, APP)
    for number, value in enumerate(("Gold", "gold", "GOLD")):
        fact = SingleFact(PLAN, value, source=_said(value, f"chat-{number}"))
        await empty.store.learn([fact], alice, APP)
    await empty.desk.recent.refresh()
    async with empty.visit() as client:
        page = (await client.get("/")).text
        assert page.count('class="card contradiction"') == 1
        assert (await _send(client, "/", "/reject", {"place": ALICE})).status_code == 303
        assert 'class="card contradiction"' not in (await client.get("/")).text
    assert await empty.values() == {"plan": ["Silver"]}


async def test_a_proposal_is_shown_with_the_value_that_it_contradicts(site: Site) -> None:
    """It waits at the top until a person accepts or rejects it."""
    alice = USER.of("alice")
    with acting("tom", reason="billing says so"):
        await site.store.save(SingleFact(PLAN, "Bronze", state=FactState.CONFIRMED), alice, APP)
    proposal = SingleFact(PLAN, "Gold", source=_said("the Gold plan"), state=FactState.PROPOSED)
    await site.store.save(proposal, alice, APP)
    await site.desk.recent.refresh()
    async with site.visit() as client:
        page = (await client.get("/?show=contradiction")).text
        assert "Now: <b><bdi>Bronze</bdi></b>" in page
        assert "billing says so" in page
        assert "Miso" not in page
        user = (await client.get(f"/user/{ALICE}")).text
        assert user.index("Gold") < user.index("Bronze")
        rejected = await _send(client, "/", "/reject", {"place": ALICE}, reason="no")
        assert rejected.status_code == 303
        assert await site.values() == {"plan": ["Bronze"]}
        assert "Gold" not in (await client.get("/")).text
        assert "Rejected" in (await client.get("/timeline")).text


async def test_a_value_that_changed_meanwhile_is_not_touched(site: Site) -> None:
    """The form is of a value that another process has replaced."""
    async with site.visit() as client:
        form = _Forms((await client.get("/")).text).of("/correct", place=ALICE)
        await site.store.save(SingleFact(PLAN, "Bronze"), USER.of("alice"), APP)
        sent = {**form, "value": "Platin"}
        answer = await client.post("/correct", data=sent, headers={"origin": HOST})
        assert answer.status_code == 400
        assert "in the meantime" in answer.text
        wrong = await client.post("/undo", data={**form, "change": "0"}, headers={"origin": HOST})
        assert wrong.status_code == 400
    assert await site.values() == {"plan": ["Bronze"]}


async def test_an_erased_user_is_gone(site: Site) -> None:
    """From the inbox, the users and the timeline, after the store was read again."""
    async with site.visit() as client:
        await site.store.erase(USER.of("bob"), APP)
        assert (await client.get(f"/user/{BOB}")).status_code == 404
        for path in ("/", "/users", "/timeline"):
            assert (await client.get(path)).status_code == 200, path
        await site.desk.recent.refresh()
        for path in ("/", "/users", "/timeline"):
            answer = await client.get(path)
            assert answer.status_code == 200
            assert "bob" not in answer.text


async def test_damage_of_one_user_hides_no_other(tmp_path: Path) -> None:
    """Pages say how many users cannot be read, and the page of the user reports the error."""
    async with _site(tmp_path) as site:
        await _fill(site)
    with closing(sqlite3.connect(tmp_path / "facts.db")) as database, database:
        damage = "UPDATE entries SET line = X'00' WHERE CAST(line AS TEXT) LIKE '%Miso%'"
        assert database.execute(damage).rowcount == 1
    async with _site(tmp_path) as site:
        await site.desk.recent.refresh()
        async with site.visit() as client:
            inbox = await client.get("/")
            assert "Gold" in inbox.text
            assert "The facts of 1 user cannot be read" in inbox.text
            assert (await client.get(f"/user/{BOB}")).status_code == 500


async def test_only_pages_of_this_site_are_returned_to(site: Site) -> None:
    """A form cannot send its visitor elsewhere."""
    async with site.visit() as client:
        for back in (
            "https://evil.example/",
            "//evil.example",
            "/\\\\evil.example",
            "javascript:x",
            "",
        ):
            kept = await _send(client, "/", "/accept", {}, back=back)
            target = kept.headers.get("location", "/")
            assert target.startswith("/"), back
            assert not target.startswith(("//", "/\\")), back


async def test_a_page_of_the_inbox_has_twenty_cards(empty: Site) -> None:
    """A value of a later page is corrected there."""
    for number in range(25):
        fact = SingleFact(PLAN, "Gold", source=_said("the Gold plan"))
        await empty.store.save(fact, USER.of(f"user-{number}"), APP)
    await empty.desk.recent.refresh()
    async with empty.visit(Role.REVIEWER) as client:
        assert (await client.get("/")).text.count("<article") == 20
        assert (await client.get("/?page=2")).text.count("<article") == 5
        done = await _send(client, "/?page=2", "/correct", {}, value="Silver")
        assert done.status_code == 303
    values = [await empty.values(f"user-{number}") for number in range(25)]
    assert values.count({"plan": ["Silver"]}) == 1


class _Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


async def test_facts_and_names_are_never_markup(empty: Site) -> None:
    """Whatever a user says, it stays text on every page, and turns or hides none of it."""
    user = USER.of(EVIL)
    concept = Concept(EVIL.replace('"', ""), EVIL)
    source = FactSource(SourceKind.USER, EVIL, 0, EVIL, model=EVIL, before=EVIL)
    await empty.store.save(SingleFact(concept, f"old {EVIL}", source=source), user, APP)
    fact = SingleFact(concept, EVIL, source=source, metadata={"a": EVIL})
    await empty.store.save(fact, user, APP)
    await empty.desk.recent.refresh()
    async with empty.visit(name=EVIL) as client:
        inbox = (await client.get("/")).text
        links = re.findall(r'href="(/(?:user|fact)/[^"]+)"', inbox)
        assert len(links) == 2
        name = links[1].removeprefix("/user/")
        more = ["/", "/users", f"/users?find={EVIL}", "/timeline", "/links", "/search?q=script"]
        more += [f"/search?q={EVIL}", f"/compare?place={name}", f"/?show={EVIL}&done={EVIL}"]
        more += [
            f"/user/{EVIL}",
            f"/compare?place={name}&then={EVIL}",
            f"/?done=kept&change={EVIL}",
        ]
        for path in (*links, *more):
            answer = await client.get(path)
            assert answer.headers.items() >= HEADERS.items(), path
            seen = re.sub(r'value="[^"]*"', "", answer.text)  # a form sends it back
            assert not {*seen} & {*TURNS}, path
            for tag, given in _Tags(answer.text).found:
                assert tag != "img", path
                assert tag != "script" or given == {"src": "/page.js", "defer": None}, path
                assert not [each for each in given if each.startswith("on")], path
                target = str(given.get("href", given.get("action", "/")))
                assert target.startswith(("/", "#", "data:,")), path


def test_pages_load_nothing_from_elsewhere() -> None:
    """No script in a page, no style in a page, no other origin."""
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    here = Path(__file__).parents[2] / "factmem" / "_cli" / "review"
    for file in here.rglob("*.*"):
        if file.suffix in {".html", ".css", ".js"}:
            text = file.read_text()
            assert "http" not in text.replace("http-equiv", ""), file.name
            assert "style=" not in text, file.name
            assert "| safe" not in text, file.name


async def test_wrong_addresses(site: Site) -> None:
    """A page says what is missing."""
    async with site.visit() as client:
        for path, status in [
            ("/nothing", 404),
            ("/user/product/desk/user/carol", 404),
            ("/user/alice", 400),
            (f"/fact/none/0/{ALICE}", 404),
            (f"/fact/none/{'9' * 5000}/{ALICE}", 404),
            ("/compare", 404),
            (f"/compare?place={ALICE}&then=soon", 400),
            ("/?page=99999999999", 200),
            ("/?page=7", 200),
            ("/?page=x", 200),
            ("/page.css", 200),
        ]:
            assert (await client.get(path)).status_code == status, path
        long = await client.post("/accept", content=b"x" * 70_000, headers={"origin": HOST})
        assert long.status_code == 400


async def test_two_times_side_by_side(site: Site) -> None:
    """What was changed, added and removed between them."""
    between = datetime.now(UTC) + timedelta(milliseconds=1)
    while datetime.now(UTC) <= between:
        await anyio.lowlevel.checkpoint()
    await site.store.save(SingleFact(PLAN, "Bronze"), USER.of("alice"), APP)
    await site.store.save(SingleFact(Concept("city", ""), "Busan"), USER.of("alice"), APP)
    async with site.visit() as client:
        params = {"place": ALICE, "then": between.isoformat()}
        page = (await client.get("/compare", params=params)).text
    assert "<del>Gold</del>" in page
    assert "<ins>Bronze</ins>" in page
    assert "<ins>Busan</ins>" in page
    assert "Silver" not in page


async def test_search_and_lists(site: Site) -> None:
    """The recall of the agents answers, for one user or for those with most of the words."""
    async with site.visit() as client:
        assert "Miso" in (await client.get("/search?q=which+pets")).text
        within = await client.get("/search", params={"q": "which pets", "place": ALICE})
        assert "Miso" not in within.text
        assert "user/bob" in (await client.get("/users?find=bo")).text
        assert "user/alice" not in (await client.get("/users?find=bo")).text
        timeline = (await client.get("/timeline")).text
        assert timeline.index("Miso") < timeline.index("Gold") < timeline.index("Silver")


async def test_a_search_among_many_users(empty: Site) -> None:
    """Of many users those are searched who have the rare words of the question."""
    for number in range(60):
        said = "has a parrot in Lima" if number == 13 else f"has a dog and lives at number {number}"
        await empty.store.save(MultipleFacts(PETS, [said]), USER.of(f"user-{number}"), APP)
    await empty.desk.recent.refresh()
    async with empty.visit() as client:
        page = (await client.get("/search?q=Who+has+a+parrot?")).text
        assert page.index("parrot in Lima") < page.find("dog") or "dog" not in page
        assert "Nothing was found" in (await client.get("/search?q=submarine")).text


def test_the_command_prints_links(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A support tool issues links without the page; a link is never written to a log."""
    run = CliRunner().invoke
    monkeypatch.setenv("SECRET", SECRET)
    options = ["review", "--token-env", "SECRET", "--name", "tom", "--link", "reader"]
    done = run(command, [*options, "--address", "https://review.example.com/"])
    link = done.output.strip()
    assert link.startswith("https://review.example.com/enter?token=")
    token = link.partition("=")[2]
    visitor = Tokens(SECRET, 8765, "https://review.example.com").visitor(token)
    assert TOKENS.visitor(token) is None  # another server's
    assert visitor is not None
    assert (visitor.name, visitor.role, visitor.place) == ("tom", Role.READER, None)
    for wrong in ("http://review.example.com", "https://example.com/review", "review.example.com"):
        assert run(command, [*options, "--address", wrong]).exit_code == 2
    refused = run(command, ["--store", str(tmp_path), "review", "--name", "tom"])
    assert refused.exit_code == 6
    assert "--token-env" in refused.output


async def test_a_proxy_with_tls(tmp_path: Path) -> None:
    """Its address is a host and an origin, and the cookie is only for it."""
    async with LocalFileMemoryProvider(tmp_path) as store:
        tokens = Tokens(SECRET, 8765, "https://review.example.com")
        app = guarded_page(Desk(store, Options(str(tmp_path))), tokens)
        link = tokens.link(Visitor.for_hours(1, "jane", Role.READER))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=tokens.address) as client:
            entered = await client.get(link)
            assert entered.status_code == 303
            assert "Secure" in entered.headers["set-cookie"]
            assert (await client.get("/")).status_code == 200
