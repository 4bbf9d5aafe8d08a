"""The options of MemoryRuns as typed dictionaries, for adapters."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from typing_extensions import TypedDict

from factmem._arguments import expect_within
from factmem.detection.report import DetectionReport
from factmem.detection.request import DoubtfulItems, Verification
from factmem.memory.users import Who
from factmem.models.facts import Concept

__all__ = ["DetectionOptions", "RunOptions", "checked_recall"]

C = TypeVar("C")


class DetectionOptions(TypedDict):
    """Options of `AgentMemory.auto_detect_facts` that apply to all runs."""

    only: list[Concept[Any, Any]] | None
    context: int | None
    doubtful: DoubtfulItems
    verify: Verification


class RunOptions(TypedDict, Generic[C], total=False):
    """The options of `MemoryRuns` for adapters; see there."""

    user: "Who | Callable[[C], Who]"
    auto_load: bool
    recall: int | None
    auto_detect: bool
    detect: Iterable[Concept[Any, Any]] | None
    context: int | None
    doubtful: DoubtfulItems
    verify: Verification
    speaker: "str | Callable[[C], str | None] | None"
    tools: bool
    save: bool
    prefix: str
    on_report: Callable[[DetectionReport], None] | None
    on_failure: Callable[[Exception], None] | None


def checked_recall(recall: int | None, *, auto_load: bool) -> int | None:
    """Return the maximum of facts to show; None for all.

    Raises:
        TypeError: `recall` is not a number.
        ValueError: `recall` is less than 1, or `auto_load` is off.
    """
    if recall is None:
        return None
    expect_within(recall, int, "recall", "recall=10", least=1)
    if not auto_load:
        raise ValueError("recall needs auto_load: omit recall or auto_load=False")
    return recall
