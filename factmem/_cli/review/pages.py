"""Pages: the HTML pages of `factmem review`, rendered on the server.

Each page works without JavaScript. Facts and names are data: templates escape them, and the policy
of the browser forbids scripts and styles of other origins and inside the page.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from factmem._cli.desk import Desk, editable
from factmem._cli.options import parse_time
from factmem._cli.output import CommandError, ExitCode, ago, counted, message_of, time_words
from factmem._cli.port_guard import PortGuard, Role, Tokens, Visitor
from factmem._cli.readings import Row, value_words
from factmem._cli.targets import parse_place, place_name
from factmem.errors import FactmemError
from factmem.ledger.history import FactChange
from factmem.models._display import shown
from factmem.models._values import canonical
from factmem.models.places import Place, acting

HERE: Path = Path(__file__).parent
"""The folder of the page's files."""


def templates() -> Environment:
    """Return the templates."""
    filters: dict[str, Callable[..., str]] = {
        "ago": ago,
        "counted": counted,
        "digest": digest,
        "editable": editable,
        "name": place_name,
        "person": _person,
        "raw": escape,  # only characters of HTML: a form sends it back
        "time": time_words,
        "values": value_words,
        "words": _words,
    }
    loader = FileSystemLoader(HERE / "templates")
    found = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    found.finalize = _finalized
    found.trim_blocks = found.lstrip_blocks = True
    found.filters.update(filters)
    return found


def _person(place: Place) -> str:
    """Return the name of a place's entity, or of its subject."""
    return " / ".join(place.subject.levels) or place.subject.name


def _finalized(given: object) -> object:
    """Escape in texts what would turn or hide others: directions, tags, controls.

    Not line feeds.
    """
    if isinstance(given, str) and not isinstance(given, Markup):
        return "\n".join(map(shown, given.split("\n")))
    return given


def _words(params: Mapping[str, object]) -> str:
    """Return the parameters of an address, without empty ones."""
    return urlencode({name: value for name, value in params.items() if value})


def digest(value: Any) -> str:
    """Return a short digest of a value, by which a form notices that another one replaced it."""
    return sha256(repr(canonical(value)).encode()).hexdigest()[:16]


def compared(before: Sequence[Row], after: Sequence[Row]) -> Iterator[tuple[str, str, str, str]]:
    """Yield for each difference the keyword, the sign, the old and the new value."""
    then, now = _by_keyword(before), _by_keyword(after)
    for keyword in sorted(then.keys() | now.keys()):
        gone = [each for each in then.get(keyword, ()) if each not in now.get(keyword, ())]
        new = [each for each in now.get(keyword, ()) if each not in then.get(keyword, ())]
        for old, fresh in zip_longest(gone, new, fillvalue=""):
            sign = "changed" if old and fresh else "added" if fresh else "removed"
            yield keyword, sign, old, fresh


def _by_keyword(rows: Sequence[Row]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row.fact.concept.keyword, []).append(value_words([row.value]))
    return found


_MOST_BODY = 65_536

Form: TypeAlias = Mapping[str, str]
"""What a visitor sent; absent fields are empty."""


async def form_of(request: Request) -> Form:
    """Return the form of a request, of at most 64 KiB."""
    body = b""
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > _MOST_BODY:
                raise CommandError("The form is too long: a value may have 64 KiB")
    fields = parse_qs(body.decode(errors="replace"), keep_blank_values=True)
    return defaultdict(str, {name: values[0] for name, values in fields.items()})


_NOTICE = ("done", "change", "of", "by")

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}
"""The headers of every answer. A referrer policy without referrer would hide the origin of
forms."""

_ON_A_PAGE = 20
_USERS = 100
_CHANGES = 20
_FOUND = 50
_AT_ONCE = 1
"""The pages that are made at the same time: more would need more memory, and no page came
sooner."""

T = TypeVar("T")
_Page: TypeAlias = Callable[[Request], Awaitable[Response]]


class Pages:
    """The application of `factmem review`, without the guard of its port."""

    def __init__(self, desk: Desk, tokens: Tokens) -> None:
        self._desk, self._tokens = desk, tokens
        self.cookie: str = f"factmem-review-{tokens.port}"
        """The name of the cookie with the token."""
        self._turns = anyio.Semaphore(_AT_ONCE)
        self._templates = templates()
        self.app = Starlette(
            routes=self._routes(),
            lifespan=self._lifespan,
            exception_handlers={
                CommandError: self._failed,
                FactmemError: self._failed,
                ValueError: self._failed,
                404: self._missing,
            },
        )
        """The ASGI application."""

    def _routes(self) -> list[BaseRoute]:
        read, act = partial(self._route, Role.READER), partial(self._route, Role.REVIEWER)
        return [
            read("/", self._inbox),
            read("/enter", self._enter),
            read("/enter", self._enter, "POST"),
            read("/leave", self._leave, "POST"),
            read("/users", self._users),
            read("/user/{place:path}", self._user),
            read("/fact/{id}/{position}/{place:path}", self._fact),
            read("/search", self._search),
            read("/compare", self._compare),
            read("/timeline", self._timeline),
            *(act(f"/{what}", partial(self._decide, what), "POST") for what in _DECISIONS),
            act("/undo", self._undo, "POST"),
            self._route(Role.ADMINISTRATOR, "/links", self._links),
            self._route(Role.ADMINISTRATOR, "/links", self._issue, "POST"),
            read("/page.css", self._file),
            read("/page.js", self._file),
        ]

    def _route(self, role: Role, path: str, page: _Page, method: str = "GET") -> Route:
        """Return a route for visitors with a role; every change needs the token of its form."""

        async def answer(request: Request) -> Response:
            token = request.state.token
            visitor = self._tokens.visitor(token)
            assert visitor is not None  # noqa: S101 - the guard admits no other token
            request.state.visitor = visitor
            if not visitor.may(role):
                return self._page(request, "problem", 403, words="Your link does not allow this.")
            if method == "POST":
                request.state.form = form = await form_of(request)
                given = form["form"].encode()
                if not compare_digest(given, self._tokens.form_token(token).encode()):
                    words = "This form is too old. Go back, reload the page and try again."
                    return self._page(request, "problem", 403, words=words)
            # A search by meaning may wait for an answer from elsewhere.
            is_remote = path == "/search" and self._desk.embedder is not None
            async with nullcontext() if is_remote else self._turns:
                request.state.notice = await self._notice(request)
                response = await page(request)
            response.headers.update(HEADERS)
            return response

        return Route(path, answer, methods=[method])

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(self._desk.recent.follow)
            yield
            group.cancel_scope.cancel()

    def _page(self, request: Request, name: str, status: int = 200, **given: Any) -> HTMLResponse:
        visitor: Visitor = request.state.visitor
        text = self._templates.get_template(f"{name}.html").render(
            page=name,
            visitor=visitor,
            may_change=visitor.may(Role.REVIEWER),
            may_issue=visitor.may(Role.ADMINISTRATOR),
            form=self._tokens.form_token(request.state.token),
            waiting=self._desk.recent.count(_only(visitor)),
            is_complete=self._desk.recent.is_complete,
            unreadable=self._desk.recent.unreadable,
            here=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            done=getattr(request.state, "notice", None),
            change=request.query_params.get("change", ""),
            changed=request.query_params.get("of", ""),
            **given,
        )
        return HTMLResponse(text, status, headers=HEADERS)

    async def _failed(self, request: Request, exc: Exception) -> Response:
        is_nothing = isinstance(exc, CommandError) and exc.code is ExitCode.NOTHING
        is_wrong = isinstance(exc, CommandError | ValueError)
        status = 404 if is_nothing else 400 if is_wrong else 500
        return self._page(request, "problem", status, words=message_of(exc))

    async def _missing(self, request: Request, _: Exception) -> Response:
        return HTMLResponse("There is no such page", 404, headers=HEADERS)

    # Who comes and goes.

    async def _enter(self, request: Request) -> Response:
        """Begin the session of a link. Another site, or another's session, needs a click."""
        visitor: Visitor = request.state.visitor
        present = self._tokens.visitor(request.cookies.get(self.cookie, ""))
        is_other = present is not None and (present.name, present.role, present.place) != (
            *(visitor.name, visitor.role, visitor.place),
        )
        is_sent = request.headers.get("sec-fetch-site") == "cross-site"
        if request.method == "GET" and (is_other or is_sent):
            return self._page(request, "enter", token=request.state.token, present=present)
        response = RedirectResponse("/", 303)
        response.set_cookie(
            self.cookie,
            request.state.token,
            expires=datetime.fromtimestamp(visitor.expires).astimezone(),
            secure=self._tokens.address.startswith("https:"),
            httponly=True,
            samesite="lax",  # a link in a mail has to work
        )
        return response

    async def _leave(self, request: Request) -> Response:
        response = HTMLResponse("You have left. Open your link to come back.")
        response.delete_cookie(self.cookie)
        return response

    async def _links(self, request: Request) -> Response:
        return self._page(request, "links", link=None)

    async def _issue(self, request: Request) -> Response:
        form: Form = request.state.form
        hours, name = form["hours"], form["name"].strip()
        if not name or not hours.isdecimal() or not 1 <= int(hours) <= 720:
            raise CommandError("A link needs a name, and 1 to 720 hours")
        place = form["place"].strip()
        only = place_name(self._place(request, place)) if place else request.state.visitor.place
        guest = Visitor.for_hours(int(hours), name, Role(form["role"]), only)
        until = time_words(datetime.fromtimestamp(guest.expires, UTC))
        return self._page(request, "links", link=self._tokens.link(guest), to=name, until=until)

    async def _file(self, request: Request) -> Response:
        return FileResponse(HERE / request.url.path.removeprefix("/"))

    # Reading.

    async def _inbox(self, request: Request) -> Response:
        only, kind = _only(request.state.visitor), request.query_params.get("show", "")
        waiting = self._desk.recent.waiting(only, kind or None)
        _, paged = _paged(request, waiting, _ON_A_PAGE)
        skip = (paged["number"] - 1) * _ON_A_PAGE
        rows = await self._desk.inbox(only, kind or None, skip=skip, most=_ON_A_PAGE)
        unique: dict[object, Row] = {}
        for row in rows:
            unique.setdefault(row.subject if row.is_proposed else id(row), row)
        cards = [(row, await self._desk.lines(row)) for row in unique.values()]
        return self._page(request, "inbox", cards=cards, show=kind, **paged)

    async def _users(self, request: Request) -> Response:
        wanted = request.query_params.get("find", "")
        only, found = _only(request.state.visitor), self._desk.recent.places(wanted)
        if only is not None:
            found = [each for each in found if each[0].identity == only.identity]
        listed, paged = _paged(request, found, _USERS)
        return self._page(request, "users", found=listed, find=wanted, **paged)

    async def _user(self, request: Request) -> Response:
        place = self._place(request, request.path_params["place"])
        found = (await self._desk.reading(place)).with_proposals()
        rows, paged = _paged(request, found, _USERS)
        return self._page(request, "user", place=place, rows=rows, total=len(found), **paged)

    async def _fact(self, request: Request) -> Response:
        place = self._place(request, request.path_params["place"])
        reading = await self._desk.reading(place)
        fact_id, position = request.path_params["id"], _count(request.path_params["position"])
        row, is_current = reading.row(fact_id, position), True
        if row is None:
            changed = reversed(reading.changes)
            saved = [f for c in changed for f in c.facts if f.id == fact_id and f.values]
            if not saved or position < 0:
                raise CommandError("There is no such fact, or it was purged", ExitCode.NOTHING)
            row, is_current = Row(place, saved[0], min(position, len(saved[0].values) - 1)), False
        keyword = row.fact.concept.keyword
        return self._page(
            request,
            "fact",
            row=row,
            is_current=is_current,
            around=await self._desk.lines(row),
            former=reading.former(keyword),
            changes=[*reversed([c for c in reading.changes if keyword in _keywords(c)])],
        )

    async def _search(self, request: Request) -> Response:
        place = self._chosen(request)
        asked = request.query_params.get("q", "").strip()
        found = await self._desk.search(asked, place, most=_FOUND) if asked else []
        return self._page(request, "search", q=asked, place=place, found=found)

    async def _compare(self, request: Request) -> Response:
        place = self._chosen(request)
        if place is None:
            raise CommandError("Choose a user first", ExitCode.NOTHING)
        then, now = (request.query_params.get(name, "") for name in ("then", "now"))
        reading = await self._desk.reading(place)
        first = parse_time(then or "7d", is_end=True)
        second = parse_time(now or "0s", is_end=True)
        assert first is not None  # noqa: S101 - it is None only for None
        assert second is not None  # noqa: S101
        before, after = reading.rows_at(first), reading.rows_at(second)
        return self._page(
            request,
            "compare",
            place=place,
            then=then,
            now=now,
            times=(first, second),
            lines=[*compared(before, after)],
        )

    async def _timeline(self, request: Request) -> Response:
        place, number = self._chosen(request), _number(request)
        first = (number - 1) * _CHANGES
        actor = request.query_params.get("actor") or None
        found = await self._desk.changes(place, actor, skip=first, most=_CHANGES + 1)
        return self._page(
            request,
            "timeline",
            place=place,
            actor=actor,
            changes=found[:_CHANGES],
            number=number,
            is_more=len(found) > _CHANGES,
        )

    # Changes.

    async def _decide(self, what: str, request: Request) -> Response:
        """Decide about a value in the name of the visitor, and go back with the change's id."""
        form: Form = request.state.form
        reading = await self._desk.reading(self._place(request, form["place"]))
        position = _count(form["position"])
        former = reading.former(form["keyword"]) if what == "restore" else ()
        for row in former if what == "restore" else [reading.row(form["id"], position)]:
            if row is not None and digest(row.value) == form["was"]:
                with acting(request.state.visitor.name, reason=form["reason"] or None):
                    made = await self._desk.decide(what, row, form["value"])
                return self._back(request, what, made)
        raise CommandError("The value was changed, forgotten or purged in the meantime")

    async def _undo(self, request: Request) -> Response:
        form: Form = request.state.form
        place = self._place(request, form["place"])
        with acting(request.state.visitor.name):
            made = await self._desk.undo(place, form["change"])
        return self._back(request, "undo", made)

    def _back(self, request: Request, done: str, change: str) -> Response:
        """Return to the page of a form, with a signed notice of what was done."""
        form: Form = request.state.form
        signed = self._tokens.form_token(f"{request.state.token} {done} {change} {form['place']}")
        parts = urlsplit(form["back"])
        path = parts.path if parts.path.startswith("/") and not parts.path.startswith("//") else "/"
        query = {k: v for k, v in parse_qs(parts.query).items() if k not in _NOTICE}
        notice = dict(zip(_NOTICE, (done, change, form["place"], signed), strict=True))
        end = f"#{form['next']}" if form["next"].isalnum() else ""
        return RedirectResponse(f"{path}?{urlencode({**query, **notice}, doseq=True)}{end}", 303)

    async def _notice(self, request: Request) -> str | None:
        """Return what the last form has done, in words; None if this session did not do it.

        The address does not contain the value: browsers keep addresses.
        """
        given = request.query_params
        done, change, place = (given.get(name, "") for name in ("done", "change", "of"))
        signed = self._tokens.form_token(f"{request.state.token} {done} {change} {place}")
        if done not in _NOTICES or not compare_digest(
            given.get("by", "").encode(), signed.encode()
        ):
            return None
        reading = await self._desk.reading(self._place(request, place))
        found = [each for each in reading.changes if each.id == change]
        facts = found[0].facts if found else ()
        if not facts:
            return f"{_NOTICES['undo']}."
        concept, value = facts[0].concept, value_words(facts[0].values)
        words = _NOTICES[done].format(
            what=concept.description or concept.keyword,
            who=_person(reading.place),
            value=value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…",
        )
        return shown(f"{words}.")

    # Arguments.

    def _place(self, request: Request, name: str) -> Place:
        """Return a place by its whole name, if the visitor may see it."""
        place, only = parse_place(name), _only(request.state.visitor)
        if only is not None and only.identity != place.identity:
            raise CommandError("There is no such user, or all facts were erased", ExitCode.NOTHING)
        return place

    def _chosen(self, request: Request) -> Place | None:
        """Return the place that a page is restricted to; None for all that the visitor may see."""
        name = request.query_params.get("place", "")
        return self._place(request, name) if name else _only(request.state.visitor)


_DECISIONS = ("accept", "correct", "reject", "restore")
_NOTICES = {
    "accept": "{what} of {who} is {value} now",
    "correct": "{what} of {who} is {value} now",
    "reject": "{what} of {who} is not {value}; history keeps it",
    "restore": "{what} of {who} is {value} again",
    "undo": "Undone",
}
_LONGEST = 80
"""The characters of a value in a notice."""


def _only(visitor: Visitor) -> Place | None:
    return None if visitor.place is None else parse_place(visitor.place)


def _paged(request: Request, items: Sequence[T], size: int) -> tuple[Sequence[T], dict[str, int]]:
    """Return the items of the page that is asked for, its number, and the number of pages."""
    number = _number(request)
    part = items[(number - 1) * size : number * size]
    return part, {"number": number, "pages": -(-len(items) // size)}


def _number(request: Request) -> int:
    return max(_count(request.query_params.get("page", "1")), 1)


def _count(digits: str) -> int:
    """Return a number; -1 for any other text, and for a number that nothing has."""
    return int(digits) if digits.isdecimal() and len(digits) < 10 else -1


def _keywords(change: FactChange) -> set[str]:
    return {fact.concept.keyword for fact in change.facts}


def guarded_page(desk: Desk, tokens: Tokens) -> PortGuard:
    """Return the page with the guard of its port."""
    pages = Pages(desk, tokens)
    return PortGuard(
        pages.app,
        port=tokens.port,
        admits=lambda token: tokens.visitor(token) is not None,
        address=tokens.proxy,
        cookie=pages.cookie,
        entrance="/enter",
    )
