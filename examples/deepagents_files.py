"""Memory files that a deep agent edits. Needs `factmem[langchain]` and `deepagents`."""

from importlib.util import find_spec

if find_spec("deepagents") is None:
    raise SystemExit("This example needs more: pip install 'factmem[langchain]' 'deepagents'")


from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deepagents import create_deep_agent
from deepagents.backends import FilesystemBackend
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from factmem.integrations.deepagents import AgentFiles, AgentFilesMiddleware


class StandIn(BaseChatModel):
    """A fake model that edits its memory once; in production: ChatOpenAI(model="gpt-4o-mini")."""

    path: str

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Accept the tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        shown = messages[0].text
        is_known = "Be brief." in shown
        edit = {"file_path": self.path, "old_string": "polite", "new_string": "brief"}
        call: Any = {"name": "edit_file", "args": edit, "id": "1", "type": "tool_call"}
        answer = AIMessage("Noted.") if is_known else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])


def main(home: Path) -> None:
    """Tell the agent how to answer; it saves this and sees it in its next model call."""
    path = home / ".deepagents" / "coder" / "agent.md"
    path.parent.mkdir(parents=True)
    path.write_text("Be polite.")
    files = AgentFiles.found("coder", start=home, home=home)
    agent: Any = create_deep_agent(
        StandIn(path=str(path)),
        middleware=[AgentFilesMiddleware(files)],
        backend=FilesystemBackend(root_dir="/", virtual_mode=False),
    )
    out = agent.invoke({"messages": [("user", "Be brief, always.")]})
    print(out["messages"][-1].text)
    print(path.read_text())


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        main(Path(made))
