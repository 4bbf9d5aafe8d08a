"""The items of an inbox, and which facts are in it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from factmem.ledger.proposals import Proposal
from factmem.models._display import Displayed
from factmem.models.actors import FactState
from factmem.models.facts import AnyFact
from factmem.models.places import Place
from factmem.models.sources import FactSource, SourceKind

__all__ = ["InboxItem"]


@dataclass(frozen=True, slots=True)
class InboxItem(Displayed):
    """Something that a person may want to decide."""

    kind: Literal["contradiction", "proposed", "doubtful", "new"]
    """A proposal against a current value, another proposal, a current value that may not follow
    from its quote, or a current value that was learnt lately."""
    place: Place
    fact: AnyFact
    """The proposed fact, or the current one."""
    at: datetime | None
    """When it was recorded last."""
    actor: str | None
    """Who recorded it."""
    source: FactSource | None
    """Where it was said."""
    current: AnyFact | None = None
    """The current fact that a proposal contradicts."""
    is_ending: bool = False
    """Whether a model found that `current` is no longer true: `keep` it, or `forget` it."""

    @property
    def quote(self) -> str | None:
        """The words that state it."""
        return None if self.source is None else self.source.quote


def proposed_item(place: Place, given: Proposal) -> InboxItem:
    """Return the item of a proposal."""
    is_against = given.is_ending or given.current is not None
    return InboxItem(
        "contradiction" if is_against else "proposed",
        place,
        given.fact,
        given.proposed_at,
        given.actor,
        given.source,
        given.current,
        given.is_ending,
    )


def kind_of(fact: AnyFact, begin: datetime | None) -> Literal["doubtful", "new"] | None:
    """Return the kind of a current fact that nobody has confirmed; None if it needs no review."""
    source = fact.source
    is_by_model = source is not None and source.kind is SourceKind.ASSISTANT
    is_learnt = is_by_model or (source is not None and source.quote is not None)
    if source is None or fact.state is FactState.CONFIRMED or not is_learnt:
        return None
    if is_by_model or source.doubts:
        return "doubtful"
    at = fact.confirmed_at
    return "new" if begin is None or at is None or at >= begin else None
