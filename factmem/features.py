"""What can be installed in an agent."""

from typing import Protocol

from factmem.context import AgentContext

__all__ = ["AgentFeature"]


class AgentFeature(Protocol):
    """Something that an agent has besides a model and tools: a memory, a log, a moderator.

    Implement the three methods; inherit from nothing. `agent.install(MyFeature, option=...)` makes
    one and returns it.

    One instance serves all runs of the agent, which may be under way at once: what belongs to a
    run is in its context.
    """

    async def before_model(self, context: AgentContext) -> None:
        """Prepare a run, before anything is asked of a model. What it raises ends the run."""
        ...

    async def after_answer(self, context: AgentContext) -> None:
        """Do what follows from an answer, before the run returns it.

        What it raises reaches the caller of the run as a `FeatureError`, which holds the answer.
        It can put work off: `context.start_in_background`.
        """
        ...

    async def aclose(self) -> None:
        """Let go of what the feature opened itself; called at the end of `async with agent`."""
        ...
