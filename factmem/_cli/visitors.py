"""Tokens of a port: who a token lets in, with which role, to which place, and until when.

A token is a signed text. No list of tokens is stored: whoever has the secret can issue them, and a
new secret ends all of them.
"""

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import astuple, dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a visitor may do; each role may also do what the ones before it may."""

    READER = "reader"
    """Read."""
    REVIEWER = "reviewer"
    """Keep, correct, forget and undo."""
    ADMINISTRATOR = "administrator"
    """Issue links for others."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who sends a request."""

    name: str
    """The actor of the visitor's changes."""
    role: Role
    expires: float
    """The Unix time at which the token expires."""
    place: str | None = None
    """The name of the only place that the visitor sees; None for all."""

    def may(self, role: Role) -> bool:
        """Return whether the visitor has a role, or one that includes it."""
        return [*Role].index(self.role) >= [*Role].index(role)


class Tokens:
    """Issues and checks tokens.

    Args:
        secret: The key of the signatures.
    """

    def __init__(self, secret: str) -> None:
        self._key = secret.encode()

    def issued(self, visitor: Visitor) -> str:
        """Return a token for a visitor."""
        body = urlsafe_b64encode(json.dumps(astuple(visitor)).encode()).decode().rstrip("=")
        return f"{body}.{self._signature('token', body)}"

    def visitor(self, token: str) -> Visitor | None:
        """Return who a token is for; None if it was not issued with this secret or has expired."""
        body, _, signature = token.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature("token", body).encode()):
            return None
        name, role, expires, place = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return Visitor(name, Role(role), expires, place) if time.time() < expires else None

    def form_token(self, token: str) -> str:
        """Return what each form of the holder of a token must contain: other pages cannot know it."""
        return self._signature("form", token)

    def _signature(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose} {text}".encode(), hashlib.sha256).hexdigest()
