"""A memory provider for Hermes: facts before each turn, tools, and detection after it.

Write `$HERMES_HOME/plugins/factmem/__init__.py`, and set `memory.provider: factmem` in
`config.yaml`:

    memory = AgentMemory(provider, scopes=scopes, subjects=[USER], chat_model=model)

    def register(context):
        context.register_memory_provider(HermesMemory(memory, auto_detect=True))

It needs `hermes-agent`, which brings it. Hermes is synchronous: the memory runs in a portal.
"""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from agent.memory_provider import MemoryProvider  # pyright: ignore[reportMissingTypeStubs]
from typing_extensions import Unpack

from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import MemoryRuns, RunOptions, Who
from factmem.sync.portal import SHARED_PORTAL

__all__ = ["HermesMemory"]

Session: TypeAlias = Mapping[str, Any]
"""What Hermes tells of a session: `session_id`, `platform`, `user_id`, `agent_identity`."""

_PRIMARY = "primary"
"""The context of the agent that a person talks to, not of a subagent or a scheduled job."""


def user_of(session: Session) -> Who:
    """Return the user of a session: "me" at the command line, else platform and user."""
    user = session.get("user_id")
    return f"{session.get('platform', 'hermes')}:{user}" if user else "me"


class HermesMemory(MemoryProvider):
    """The memory of Hermes' user, in each session of its agent.

    The facts are loaded before each turn, for the turn only: no session stores them. Facts are
    detected in the user's words after the turn, on Hermes' own worker, and not in the turns of
    subagents and scheduled jobs. A platform's user is an entity of its own, such as
    `telegram:4711`.

    Args:
        **options: See `MemoryRuns`. `user` gets what Hermes tells of the session.
    """

    def __init__(self, memory: AgentMemory, **options: Unpack[RunOptions[Session]]) -> None:
        options.setdefault("user", user_of)
        self.runs: MemoryRuns[Session] = MemoryRuns(memory, **options)
        self._session: Session = {}

    @property
    def name(self) -> str:
        """The name in Hermes' configuration."""
        return "factmem"

    def is_available(self) -> bool:
        """Return True: there is nothing to configure."""
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Begin a session."""
        self._session = {**kwargs, "session_id": session_id}

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        """Go on in another session of the same user."""
        self._session = {**self._session, "session_id": new_session_id}

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """Return the facts for a turn."""
        return SHARED_PORTAL.call(self.runs.prompt, self._session, query)

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: list[dict[str, Any]] | None = None,
    ) -> None:
        """Detect facts in a turn."""
        session = self._session
        if session.get("agent_context", _PRIMARY) != _PRIMARY:
            return
        turn = [
            {"role": "user", "content": user_content},
            {"role": "assistant", "content": assistant_content},
        ]
        conversation = session_id or session.get("session_id")
        SHARED_PORTAL.call(lambda: self.runs.learn(session, turn, conversation=conversation))

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Return the memory's tools."""
        return [
            {"name": each.name, "description": each.description, "parameters": each.schema}
            for each in self.runs.tools()
        ]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Run a tool, and return its answer as JSON."""
        (tool,) = (each for each in self.runs.tools() if each.name == tool_name)
        answer = SHARED_PORTAL.call(tool.call, args, self._session)
        return json.dumps({"error": answer}) if answer.startswith("Error:") else answer
