"""Tests each adapter against its framework, newest and lowest version, in environments of its own.

    python -m tests.integrations.environments [NAME ...]

Environments are created under `.frameworks/` and reused. The tests run with warnings as
errors off: a framework's own warnings are not factmem's. In an environment of this script a
missing framework fails its tests.
"""

import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENTS = ROOT / ".frameworks"
UV = (sys.executable, "-m", "uv")  # links the packages that environments share
NEEDED = ("pytest>=9", "trio>=0.31", "hypothesis>=6.100", "mypy>=2.4", "pyright>=1.1.414")


@dataclass(frozen=True)
class Framework:
    """A framework and the tests to run with it; its adapter and its test have its name."""

    name: str
    newest: tuple[str, ...]
    """The packages to install, with their lowest versions."""
    examples: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    """Packages that the lowest version needs besides."""
    alone: tuple[str, ...] = ()
    """Packages to install without their dependencies."""
    npm: tuple[str, ...] = ()
    """Packages of npm, installed where Node.js is; its tests are skipped elsewhere."""

    @property
    def lowest(self) -> tuple[str, ...]:
        """The same packages in their lowest versions."""
        return (*(each.replace(">=", "==") for each in self.newest), *self.beside)

    @property
    def module(self) -> str:
        """The name of the adapter in `factmem.integrations`."""
        return self.name.replace("-", "_")


PREBUILT = ("langgraph-prebuilt==1.0.6",)
FRAMEWORKS = (
    Framework("agent-framework", ("agent-framework-core>=1.0",)),
    Framework("anthropic", ("anthropic>=0.84",), ("anthropic_memory_tool",)),
    Framework(
        "mcp",
        ("mcp>=2.0", "uvicorn", "typer", "rich"),
        ("mcp_server",),
        npm=("@modelcontextprotocol/sdk@1", "@modelcontextprotocol/inspector"),
    ),
    Framework("pydantic-ai", ("pydantic-ai-slim>=2.0",), ("pydantic_ai_agent",)),
    Framework("openai-agents", ("openai-agents>=0.21",), ("openai_agents",)),
    Framework("langchain", ("langchain>=1.1",), ("langchain_agent",), PREBUILT),
    Framework(
        "langgraph",
        ("langgraph-checkpoint>=4", "langchain>=1.1", "numpy"),
        ("langgraph_store",),
        PREBUILT,
    ),
    Framework("smolagents", ("smolagents[openai]>=1.24",), ("smolagents_monitor",)),
    Framework(
        "deepagents",
        ("deepagents>=0.5",),
        ("deepagents_files",),
        alone=("deepagents-cli==0.0.12",),  # the last version with the original middleware
    ),
    Framework("google-adk", ("google-adk>=1.30",)),
    Framework("llama-index", ("llama-index-core>=0.13",)),
    Framework("hermes", ("hermes-agent>=0.19",)),
    Framework("strands", ("strands-agents>=1.45",)),
    Framework("crewai", ("crewai>=1.15",), ("crewai_crew",)),
)


def main(names: list[str]) -> None:
    """Run the named frameworks, or all, and exit with 1 if anything failed."""
    known = [framework.name for framework in FRAMEWORKS]
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"No framework is called {', '.join(unknown)}: name some of {', '.join(known)}")
    failed: list[str] = []
    for framework in FRAMEWORKS:
        if names and framework.name not in names:
            continue
        if framework.npm and shutil.which("npm"):
            _run(["npm", "install", "--silent", "--prefix", f"{ENVIRONMENTS}/npm", *framework.npm])
        for label, requirements in (("newest", framework.newest), ("lowest", framework.lowest)):
            name = f"{framework.name}-{label}"
            python = _environment(name, requirements, framework.alone)
            if not _is_passed(framework, label, python):
                failed.append(f"{framework.name} ({label})")
    print("failed: " + ", ".join(failed) if failed else "all passed")
    sys.exit(bool(failed))


def _environment(name: str, requirements: tuple[str, ...], alone: tuple[str, ...]) -> Path:
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    made_of = folder / "requirements.txt"
    wanted = "\n".join((*requirements, *NEEDED, *alone))
    if not made_of.exists() or made_of.read_text() != wanted:
        _run([*UV, "venv", "-q", "--clear", "--python", sys.executable, str(folder)])
        install = [*UV, "pip", "install", "-q", "--python", str(python)]
        _run([*install, "-e", str(ROOT), *requirements, *NEEDED])
        if alone:
            _run([*install, "--no-deps", *alone])
        made_of.write_text(wanted)
    return python


def _is_passed(framework: Framework, label: str, python: Path) -> bool:
    versions = _versions(python, framework)
    print(f"== {framework.name} ({label}): {versions}", flush=True)
    # Programs of npm and workers that are killed are marked as storms, which the default leaves
    # out.
    run = [str(python), "-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider", "-m", ""]
    commands = [[*run, f"tests/integrations/test_{framework.module}.py"]]
    commands += [[str(python), f"examples/{each}.py"] for each in framework.examples]
    if label == "newest":
        module = f"factmem/integrations/{framework.module}.py"
        cache = (
            f"--cache-dir={python.parents[1] / 'mypy'}"  # each has other versions of its packages
        )
        commands.append([str(python), "-m", "mypy", "--strict", cache, module])
        commands.append(
            [str(python), "-m", "pyright", "-p", str(_checked_by_pyright(module, python))]
        )
    codes = [_run(command, is_checked=False) for command in commands]  # run all, even if one fails
    return not any(codes)


def _checked_by_pyright(module: str, python: Path) -> Path:
    """Return a configuration for one module: an `exclude` of the project's own would hide it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pyright"]
    # Without `venv`, pyright uses the packages of the first python on the path.
    own = {"include": [f"../../{module}"], "exclude": []}
    environment = python.parents[1]
    where = {"venvPath": str(environment.parent), "venv": environment.name}
    file = environment / "pyright.json"
    file.write_text(json.dumps({**project, **own, **where}), "utf-8")
    return file


def _versions(python: Path, framework: Framework) -> str:
    packages = [each.partition("=")[0].partition(">")[0] for each in framework.newest]
    show = "import importlib.metadata as m, sys; print([(p, m.version(p)) for p in sys.argv[1:]])"
    done = subprocess.run(
        [str(python), "-c", show, *(each.partition("[")[0] for each in packages)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def _run(command: list[str], *, is_checked: bool = True) -> int:
    return subprocess.run(command, cwd=ROOT, check=is_checked).returncode


if __name__ == "__main__":
    main(sys.argv[1:])
