"""The templates of the page, and their filters. Everything that they insert is escaped."""

from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from factmem._cli.output import counted
from factmem._cli.place_names import place_name
from factmem._cli.records import value_words
from factmem._cli.review.desk import digest
from factmem._cli.targets import editable
from factmem._cli.times import ago, time_words
from factmem.models._display import shown
from factmem.models.places import Place

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
        "raw": _raw,
        "time": time_words,
        "url": _url,
        "value": _value,
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


def _url(place: Place) -> str:
    return quote(place_name(place))


def _value(value: object) -> str:
    return value_words([value])


def _finalized(given: object) -> object:
    """Escape in texts what would turn or hide others: directions, tags, controls; not line feeds."""
    if isinstance(given, str) and not isinstance(given, Markup):
        return "\n".join(map(shown, given.split("\n")))
    return given


def _raw(given: object) -> Markup:
    """Return what a form sends back: only characters of HTML are escaped."""
    return escape(given)


def _words(params: Mapping[str, object]) -> str:
    """Return the parameters of an address, without empty ones."""
    return urlencode({name: value for name, value in params.items() if value})
