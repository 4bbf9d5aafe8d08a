"""The command that learns facts from stored conversations: learn."""

from datetime import timedelta
from typing import Annotated

import anyio
import typer

from factmem._cli.commands import command
from factmem._cli.opening import load_memory
from factmem._cli.output import Answer, counted
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

    Any number of these commands and of the application's own workers can run at the same time.
    """
    found = load_memory(memory)
    span = None if every is None else timedelta(seconds=every)

    async def work() -> tuple[LearningRun, LearningState]:
        async with found.store, found:
            if retry:
                await found.conversations.retry_failed()
            done = await found.conversations.learn(
                workers=workers, per_minute=per_minute, every=span
            )
            return done, await found.conversations.pending()

    done, state = anyio.run(work)
    record = {
        "learnt": done.learnt,
        "postponed": done.postponed,
        "given_up": done.given_up,
        "pending": state.pending,
        "failed": state.failed,
        "oldest": None if state.oldest is None else state.oldest.isoformat(),
    }
    pending = f"Pending: {state.pending}, given up: {state.failed}"
    return Answer(record, f"Learnt {counted(done.learnt, 'conversation')}", pending)
