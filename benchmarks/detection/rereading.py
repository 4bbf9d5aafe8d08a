"""Chats that are read twice in other words: how many statements are saved again.

    python -m benchmarks.detection.rereading              # counts
    python -m benchmarks.detection.rereading --misses     # and each statement that is saved again

`chat/twice.txt` has twenty chats, `first.txt` and `second.txt` two readings of them: the number of
the chat, the message, its quote, the keyword and the value.
"""

import sys
from collections import Counter
from itertools import permutations
from typing import Any

import anyio

from benchmarks.detection.dialogue import HERE, SCOPE, USER
from factmem import AgentMemory, InMemoryProvider, MemoryScopesProfile
from factmem.testing.chat import ScriptedChatModel


def chats() -> dict[str, list[dict[str, str]]]:
    """Return the chats by number."""
    found: dict[str, list[dict[str, str]]] = {}
    for part in (HERE / "chat" / "twice.txt").read_text("utf-8").split("= ")[1:]:
        number, *said = part.strip().splitlines()
        found[number] = [{"role": "user", "content": text} for text in said]
    return found


def reading(name: str) -> dict[str, list[dict[str, Any]]]:
    """Return the items of a reading by the number of their chat."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in (HERE / "chat" / f"{name}.txt").read_text("utf-8").splitlines():
        place, quote, keyword, value = line.split(" | ")
        number, message = place.split()
        item = {"message": int(message), "quote": quote, "keyword": keyword, "value": value}
        item |= {"said_as": "stated", "fact_type": "MULTIPLE"}
        found.setdefault(number, []).append(item)
    return found


async def _readings(
    number: str, first: list[dict[str, Any]], second: list[dict[str, Any]]
) -> tuple[Counter[str], list[str]]:
    """Return the counts of two readings of a chat, and the values that the second one adds."""
    memory = AgentMemory(
        InMemoryProvider(),
        chat_model=ScriptedChatModel({"facts": first}, {"facts": second}),
        scopes=MemoryScopesProfile(agent=SCOPE.name),
        subjects=[USER.of("alice")],
    )
    chat = chats()[number]
    saved = (await memory.auto_detect_facts(chat, conversation=number)).saved
    report = await memory.auto_detect_facts(chat, conversation=number)
    again, proposed = report.saved, report.proposed
    total = {"first": len(first), "saved": len(saved), "second": len(second), "again": len(again)}
    total["proposed"] = len(proposed)
    added = [f"{number}: {each.fact.concept.keyword} = {each.fact.values[0]}" for each in again]
    return Counter(total), added


async def saved_again() -> tuple[Counter[str], list[str]]:
    """Return the counts of both readings of all chats, and the values that the second one adds."""
    first, second = reading("first"), reading("second")
    total, added = Counter[str](), list[str]()
    for number in chats():
        counted, more = await _readings(number, first[number], second[number])
        total += counted
        added += more
    return total, added


async def others_kept() -> tuple[int, list[str]]:
    """Return how many pairs of different statements of a message there are, and how many merge."""
    total, merged = 0, list[str]()
    for name in ("first", "second"):
        for number, items in reading(name).items():
            for one, other in permutations(items, 2):
                if one["message"] != other["message"]:
                    continue
                total += 1
                counted, _ = await _readings(number, [one], [other])
                if not counted["again"] and not counted["proposed"]:
                    merged.append(f"{number}: {one['value']} / {other['value']}")
    return total, merged


def main() -> None:
    """Print the counts."""
    total, added = anyio.run(saved_again)
    print(f"first reading: {total['saved']} of {total['first']} items saved")
    print(f"second reading: {total['again']} of {total['second']} items saved again")
    pairs, merged = anyio.run(others_kept)
    print(f"different statements of one message: {len(merged)} of {pairs} are taken for one")
    if "--misses" in sys.argv:
        print("\n".join([*added, "", *merged]))


if __name__ == "__main__":
    main()
