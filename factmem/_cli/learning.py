"""The command that learns facts from stored conversations: learn."""

from typing import Annotated

import anyio
import typer

from factmem._cli.commands import command
from factmem._cli.exits import ExitCode
from factmem._cli.opening import load_memory
from factmem._cli.options import GIVEN
from factmem._cli.output import Answer, Problem, counted
from factmem.memory.conversations import LearningRun
from factmem.providers.conversations import LearningState


@command()
def learn(
    memory: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="The application's AgentMemory.")
    ],
    every: Annotated[
        float | None,
        typer.Option(min=0.1, metavar="SECONDS", help="Go on, and look for chats so often."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Chats learnt at the same time.")] = 1,
    per_minute: Annotated[
        int | None, typer.Option(min=1, help="The most chats begun in a minute.")
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Also the chats that were given up.")
    ] = False,
) -> Answer:
    """Learn facts from stored conversations, until none is due or, with --every, until stopped.

    Any number of these commands and of the application's own workers can run at the same time. With
    --every each round that learnt or failed prints a line. Exit code 1 means that a chat failed; it
    is tried again later.
    """
    found = load_memory(memory)
    pause = max(every or 0.0, 60 / per_minute if per_minute else 0.0)

    async def work() -> Answer:
        async with found.store, found:
            if retry:
                await found.conversations.retry_failed()
            while True:
                done = await found.conversations.learn(workers=workers, per_minute=per_minute)
                answer = _answer(done, await found.conversations.pending())
                if every is None:
                    return answer
                if done.learnt or done.failures:
                    answer.show(as_json=GIVEN.get().as_json, is_last=False)
                await anyio.sleep(pause)

    return anyio.run(work)


def _answer(done: LearningRun, state: LearningState) -> Answer:
    causes = {f"{type(each).__name__}: {each}" for each in done.failures}
    record = {
        "learnt": done.learnt,
        "postponed": done.postponed,
        "given_up": done.given_up,
        "pending": state.pending,
        "failed": state.failed,
        "oldest": None if state.oldest is None else state.oldest.isoformat(),
    }
    return Answer(
        {**record, "failures": sorted(causes)},
        f"Learnt {counted(done.learnt, 'conversation')}",
        f"Pending: {state.pending}, given up: {state.failed}",
        *(Problem(f"factmem: {each}") for each in sorted(causes)),
        code=ExitCode.FAILED if done.failures else ExitCode.OK,
    )
