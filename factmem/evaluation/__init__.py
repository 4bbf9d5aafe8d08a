"""Evaluation of a memory on its users' own cases: questions, expected facts, reports, drafts.

Imports memory and everything below it.
"""

from factmem.evaluation._checks import EvalCase, assert_cases
from factmem.evaluation._report import EvalReport

__all__ = ["EvalCase", "EvalReport", "assert_cases"]
