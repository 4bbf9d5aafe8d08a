"""Validation of entries that come from outside: bundles and other stores.

A separate module, because the parts of pydantic for its schema take longer to import than the rest
of the ledger, and no save or load needs them.
"""

from functools import lru_cache

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from factmem.errors import InputValueError
from factmem.ledger.entries import Entry


def check_entry(entry: object) -> None:
    """Validate an entry, given as plain JSON; `ValueError` names a field and never a value.

    Unknown fields of later versions are allowed; known fields must be valid. What passes can be
    written and loaded: no number is infinite, and no value is nested too deeply.
    """
    try:
        _adapter().validate_python([entry])
        to_json(entry)  # unknown fields are written too
    except PydanticSerializationError:
        raise InputValueError("the entry is nested too deeply") from None
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"][1:]) or "the entry"
        raise InputValueError(f"{field} is not as a store holds it ({first['type']})") from None


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[list[Entry]]:
    """Built at the first use, so that importing factmem builds no schema."""
    # Of a list, because pydantic takes the configuration of a single one from its class.
    return TypeAdapter(list[Entry], config=ConfigDict(strict=True, extra="allow"))
