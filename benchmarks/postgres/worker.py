"""A process that works on one store for some time and prints its rate and failures.

python -m benchmarks.postgres.worker CONTENDER WORK DSN TASKS START SECONDS SEED
"""

import random
import sys
import time

import anyio
import orjson

from benchmarks.postgres.contenders import FACTS, USERS, create_contender

QUESTIONS = [f"What is known of {number}?" for number in range(50)]


async def work(
    name: str, what: str, dsn: str, tasks: int, start: float, seconds: float, seed: int
) -> dict[str, float]:
    """Do one kind of work in several tasks, from a start time common to all processes."""
    done = failed = 0
    async with create_contender(name, dsn) as store:
        for number in range(USERS):
            await store.get(f"user-{number}", 0)
            if what == f"recall {FACTS}":
                await store.recall(f"user-{number}", QUESTIONS[0])
        await anyio.sleep(max(0.0, start - time.time()))
        begun = time.perf_counter()

        async def one(task: int) -> None:
            nonlocal done, failed
            rng = random.Random(seed * 1000 + task)
            while time.perf_counter() < begun + seconds:
                user = "user-0" if what == "save one user" else f"user-{rng.randrange(USERS)}"
                number = rng.randrange(FACTS)
                try:
                    if what.startswith("save"):
                        await store.put(user, number, f"value {rng.random()}")
                    elif what == "load one":
                        await store.get(user, number)
                    elif what == f"recall {FACTS}":
                        await store.recall(user, rng.choice(QUESTIONS))
                    else:
                        await store.all(user)
                except Exception:
                    failed += 1
                else:
                    done += 1

        async with anyio.create_task_group() as group:
            for task in range(tasks):
                group.start_soon(one, task)
        took = time.perf_counter() - begun
    return {"rate": done / took, "failed": failed}


if __name__ == "__main__":
    _name, _what, _dsn, _tasks, _start, _seconds, _seed = sys.argv[1:]
    _found = anyio.run(
        work, _name, _what, _dsn, int(_tasks), float(_start), float(_seconds), int(_seed)
    )
    print(orjson.dumps(_found).decode())
