"""The recorded answers of the detection benchmark: what the code makes of right answers."""

from benchmarks.detection.__main__ import recorded
from benchmarks.detection.dialogue import detect, dialogues
from benchmarks.detection.score import Score, score


async def test_replayed_answers_arrive_whole() -> None:
    total = Score()
    found = dialogues()
    for dialogue in found:
        report, store = await detect(dialogue, recorded(dialogue, "author"))
        total += await score(dialogue, report, store)

    assert len(found) >= 12
    assert (total.leaks, total.ungrounded, total.stale, total.right_refused) == (0, 0, 0, 0)
    assert total.dated >= 0.9 * total.datable
    assert total.flagged <= 0.1 * total.items
    assert total.f1 >= 0.95
