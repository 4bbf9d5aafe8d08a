"""Form: what a visitor sent, and the way back to the page of the form."""

from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from factmem._cli.exits import CommandError

_MOST_BODY = 65_536


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form. Its text is never longer than 64 KiB."""

    fields: dict[str, list[str]]

    def __getitem__(self, name: str) -> str:
        return self.fields.get(name, [""])[0]


async def form_of(request: Request) -> Form:
    body = b""
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > _MOST_BODY:
                raise CommandError("The form is too long: a value may have 64 KiB")
    text = body.decode(errors="replace")
    return Form(parse_qs(text, keep_blank_values=True))


_NOTICE = ("done", "change", "of", "by")


def back_from(form: Form, done: str, change: str, signed: str) -> Response:
    """Return to the page of a form, which says what was done."""
    parts = urlsplit(form["back"])
    path = parts.path if parts.path.startswith("/") and not parts.path.startswith("//") else "/"
    query = {k: v for k, v in parse_qs(parts.query).items() if k not in _NOTICE}
    notice = dict(zip(_NOTICE, (done, change, form["place"], signed), strict=True))
    given = {**query, **notice}
    end = f"#{form['next']}" if form["next"].isalnum() else ""
    return RedirectResponse(f"{path}?{urlencode(given, doseq=True)}{end}", 303)
