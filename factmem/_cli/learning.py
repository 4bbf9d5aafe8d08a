"""The command that learns facts from stored conversations: learn."""

from datetime import timedelta
from typing import Annotated

import anyio
import typer

from factmem._cli.named_objects import load_memory
from factmem._cli.options import Json
from factmem._cli.output import counted, print_json, print_line
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.learning import LearningRun
from factmem.providers.conversations import LearningState

__all__ = ["app"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""


@app.command()
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
    retry: Annotated[bool, typer.Option(help="Also the chats that were given up.")] = False,
    as_json: Json = False,
) -> None:
    """Learn facts from stored conversations, until none is due or, with --every, until stopped.

    Any number of these commands and of the application's own workers can run at the same time.
    """
    found = load_memory(memory)
    span = None if every is None else timedelta(seconds=every)
    done, state = anyio.run(_learn, found, span, workers, per_minute, retry)
    if as_json:
        print_json(
            {
                "learnt": done.learnt,
                "postponed": done.postponed,
                "given_up": done.given_up,
                "pending": state.pending,
                "failed": state.failed,
                "oldest": None if state.oldest is None else state.oldest.isoformat(),
            }
        )
        return
    print_line(f"Learnt {counted(done.learnt, 'conversation')}")
    print_line(f"Pending: {state.pending}, given up: {state.failed}")


async def _learn(
    memory: AgentMemory, every: timedelta | None, workers: int, per_minute: int | None, retry: bool
) -> tuple[LearningRun, LearningState]:
    async with memory.store, memory:
        if retry:
            await memory.conversations.retry_failed()
        done = await memory.conversations.learn(workers=workers, per_minute=per_minute, every=every)
        return done, await memory.conversations.pending()
