"""A mutant: a rule of the protocol, broken for the time of a test.

It replaces pieces of functions' source. If a piece no longer exists, the mutant fails:
whoever moves a rule moves its mutant too.
"""

import inspect
import sys
import textwrap
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal, NamedTuple

import pytest

from tests.storage.stores import PLAIN, SEALED, Kind

__all__ = ["Catcher", "Change", "Mutant", "never", "without"]

Catcher = Literal[
    "power", "errors", "alone", "interleaving", "no locks", "damage", "forgery", "again"
]
"""The checks that must fail; `test_protocol_mutants.py` has each of them."""


class Change(NamedTuple):
    """A piece of a function's source, and its replacement."""

    owner: Any
    """The class or module of the function."""
    function: str
    old: str
    new: str

    def make(self, patch: pytest.MonkeyPatch) -> None:
        function = vars(self.owner)[self.function]
        body = inspect.unwrap(function)
        assert isinstance(body, FunctionType)
        source = textwrap.dedent(inspect.getsource(body))
        assert source.count(self.old) == 1, f"the rule is no longer in {self.function}"
        scope = dict(vars(sys.modules[body.__module__]))
        code = compile(source.replace(self.old, self.new), f"broken {self.function}", "exec")
        exec(code, scope)
        patch.setattr(self.owner, self.function, scope[self.function])


@dataclass(frozen=True)
class Mutant:
    """A rule, and how it is broken."""

    rule: str
    catcher: Catcher
    changes: tuple[Change, ...]
    kinds: tuple[Kind, ...] = (PLAIN, SEALED)

    def break_rule(self, patch: pytest.MonkeyPatch) -> None:
        """Change the code for the time of a test."""
        for change in self.changes:
            change.make(patch)


def without(owner: Any, function: str, piece: str) -> Change:
    """Remove a statement."""
    return Change(owner, function, piece, "pass")


def never(owner: Any, function: str, condition: str) -> Change:
    """Make a condition false."""
    return Change(owner, function, f"if {condition}:", "if False:")
