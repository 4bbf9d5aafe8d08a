"""Situations of valid time: what was said when, and what held when.

The model in `tests/ledger/test_validity.py` has no states, expiry, zones, and no days that begin at
noon.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from factmem.models.facts import Concept, FactType
from factmem.models.when import When

SITUATIONS: dict[str, str] = {
    "moved to earlier": """
        2026-01 say Naver | say Kakao since=2026-05
        2026-02 say Kakao since=2026-03
        2026-03 ask Kakao | ask Naver valid=2026-02 | ask Naver valid=2026-03 as_of=2026-01-15
        2026-06 ask Kakao since=2026-03
    """,
    "said late": """
        2026-01 say Kakao
        2026-02 say Naver said=2025-06
        2026-03 ask Kakao | ask Naver valid=2025-09 | ask - valid=2025-09 as_of=2026-01-15
    """,
    "the same place long ago": """
        2026-01 say Seoul since=2020
        2026-02 say Seoul since=2001 until=2009
        2026-03 ask Seoul since=2020 | ask Seoul valid=2005 | ask - valid=2015
    """,
    "a month at its border": """
        2026-01 say Busan since=2026-02 until=2026-05
        2026-01-31T23:59:59.999999Z ask -
        2026-02 ask Busan | ask - valid=2026-01 | ask Busan valid=2026-05-31
        2026-06 ask - | ask Busan valid=2026-05-31T23:59:59.999999Z
        2026-06 ask - valid=2026-06-01T00:00:00Z
    """,
    "a year that has begun": """
        2026-03 say Busan since=2026
        2026-03 ask Busan | ask Busan valid=2026-01-01 | ask - valid=2025-12-31
    """,
    "a time zone": """
        2026-01 say Seoul | say Busan since=2026-03-01[Asia/Seoul]
        2026-02-28T14:59:59Z ask Seoul
        2026-02-28T15:00:00Z ask Busan | ask Seoul valid=2026-02-28T14:00:00Z
        2026-03-02 ask Busan valid=2026-03-01[Asia/Seoul] | ask Seoul valid=2026-02-28[Asia/Seoul]
    """,
    "a day in which it changed": """
        2026-01 say Seoul | say Busan since=2026-03-15T12:00:00Z
        2026-04 ask Busan valid=2026-03-15 | ask Seoul valid=2026-03-15T11:00:00Z
        2026-04 ask Busan valid=2026 | ask Seoul valid=2026-02
    """,
    "many values with times": """
        2026-01 say Netflix,Wavve many since=2024 | say Tving many until=2026-03
        2026-02 say Wavve many until=2026-02
        2026-02-15 ask Netflix,Wavve,Tving
        2026-05 ask Netflix | ask Netflix,Tving valid=2026-03 | ask Netflix,Wavve valid=2025
    """,
    "one more of many, planned": """
        2026-01 say Netflix many | say Tving,Wavve many since=2026-03
        2026-02 ask Netflix | ask Netflix,Tving,Wavve valid=2026-03
        2026-03 ask Netflix,Tving,Wavve | ask Netflix valid=2026-02
    """,
    "one of the planned values forgotten": """
        2026-01 say Netflix many | say Tving,Wavve many since=2026-03
        2026-02 forget Tving many
        2026-03 ask Netflix,Wavve | ask Netflix,Tving,Wavve valid=2026-03 as_of=2026-01-15
    """,
    "kept longer than it holds": """
        2026-01 say Busan until=2026-03 expires=2026-08
        2026-04 ask - | ask Busan valid=2026-02
        2026-08 ask - valid=2026-02 | ask Busan valid=2026-02 as_of=2026-05
    """,
    "kept shorter than it holds": """
        2026-01 say Busan until=2026-08 expires=2026-03
        2026-02 ask Busan | ask Busan valid=2026-05
        2026-04 ask - | ask - valid=2026-02
    """,
    "expired before it began": """
        2026-01 say Seoul | say Busan since=2026-05 expires=2026-03
        2026-06 ask Seoul | ask Busan valid=2026-05 as_of=2026-02
    """,
    "as known now and as known then": """
        2026-01 say Seoul since=2025
        2026-03 say Busan since=2025-06 | say Jeju since=2026-05
        2026-04 ask Busan valid=2025-08 | ask Seoul valid=2025-08 as_of=2026-02
        2026-04 ask Jeju valid=2026-06 | ask Seoul valid=2026-06 as_of=2026-02
    """,
    "no longer true": """
        2026-01 say Seoul
        2026-03 retract Seoul
        2026-04 ask - | ask Seoul valid=2026-02 | ask - valid=2026-03-02
    """,
    "a plan that was given up": """
        2026-01 say Naver | say Kakao since=2026-03
        2026-02 retract Kakao
        2026-04 ask Naver | ask Naver valid=2026-03
    """,
    "a proposed plan": """
        2026-01 say Naver | say Kakao since=2026-03 state=proposed
        2026-03 ask Naver | ask Naver valid=2026-03
        2026-04 say Kakao since=2026-03 state=confirmed | ask Kakao | ask Naver valid=2026-02
    """,
    "a confirmed plan": """
        2026-01 say Naver | say Kakao since=2026-03 state=confirmed
        2026-02 say Line | ask Line
        2026-03 ask Kakao confirmed
    """,
    "purged": """
        2026-01 say Naver | say Kakao since=2026-03
        2026-04 say Line since=2026-04 | purge Line | ask - | ask Kakao valid=2026-03
    """,
}
"""Each line is a time and what is done then. `ask` names the values, `-` for none."""


class Step(NamedTuple):
    """What is done or asked in a situation."""

    at: When
    name: str
    does: str
    values: tuple[str, ...]
    options: dict[str, str]

    @property
    def concept(self) -> Concept[str, Any]:
        """The concept of its situation."""
        is_many = "Netflix" in SITUATIONS[self.name]
        kind = FactType.MULTIPLE if is_many else FactType.SINGLE
        return Concept(self.name.replace(" ", "-").replace(",", ""), "About her", kind)


def steps() -> list[Step]:
    """Return the steps of all situations, by their times."""
    return sorted(_parsed(), key=lambda step: step.at.begin)


def _parsed() -> Iterator[Step]:
    for name, lines in SITUATIONS.items():
        for line in lines.strip().splitlines():
            at, _, rest = line.strip().partition(" ")
            for said in rest.split(" | "):
                does, *words = said.split(" ")
                options = dict(word.split("=") for word in words if "=" in word)
                named = next((word for word in words if "=" not in word), "-")
                values = () if named == "-" else tuple(named.split(","))
                if words[-1:] == ["confirmed"]:
                    options["state"] = "confirmed"
                yield Step(When(at), name, does, values, options)
