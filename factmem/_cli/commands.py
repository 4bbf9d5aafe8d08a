"""The decorator of all commands: their shared options, the open store, and the output.

A command is a function that returns an `Answer`, or prints what it does and returns None. A
parameter `store` is the open store, and `key` the key of the options of `keys`. All others are its
own arguments.

The guide to the commands: their groups in the help, and two examples for each.
"""

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from inspect import Parameter, Signature, signature
from typing import Any, TypeAlias

import typer
from typer.core import TyperGroup

from factmem._cli.opening import check_revealed, key_from, run
from factmem._cli.options import GIVEN, REVEAL, Options
from factmem._cli.output import Answer, CommandError, ExitCode, code_of, message_of, print_error
from factmem.encryption.key import Key
from factmem.errors import FactmemError
from factmem.models.places import acting

GROUPS = {
    "Read": "show recall places stats browse",
    "Review": "inbox accept reject correct undo review log diff watch history why",
    "Change": "set forget erase",
    "Change concepts": "rename convert",
    "Measure": "eval",
    "Move": "import export sync mcp",
    "Maintain": "learn doctor verify anchor backup restore compact salvage keys",
}
"""The commands by what people want to do."""

EXAMPLES: dict[str, tuple[str, str]] = {
    "show": ("show alice", "show alice city --as-of 2026-03-01"),
    "recall": ('recall "Which pets has she?"', "recall pets --place alice --limit 1"),
    "places": ("places", "places --json"),
    "stats": ("stats", "stats --json"),
    "browse": ("browse", "--key-file store.key browse"),
    "review": (
        "review --name jane",
        "review --token-env REVIEW_SECRET --link reader --name tom --hours 2",
    ),
    "inbox": ("inbox", "inbox alice --since 1d"),
    "accept": ("accept alice plan", "accept alice pets --value Rex --name jane"),
    "reject": ("reject alice plan", 'reject alice pets --value Rex --reason "a joke"'),
    "correct": (
        'correct alice plan Silver --name jane --reason "she called"',
        "correct alice pets Rex --value Rax",
    ),
    "undo": ("undo 3fa2b1", 'undo 5c0e9d3fa2b1c4d7 --reason "the wrong user"'),
    "watch": ("watch alice", "watch --since 1h --json"),
    "log": ("log --since 1d", "log alice --limit 10"),
    "diff": ("diff alice 7d", "diff alice 2026-03-01 2026-04-01"),
    "history": ("history alice city", "history alice city --json"),
    "why": ("why alice city", "why product/my-app/user/alice city"),
    "set": ("set product/my-app/user/alice city Paris --type text", "set alice pets Rex"),
    "forget": ("forget alice pets --value Rex", "forget alice --older-than 365d --purge"),
    "erase": ("erase alice", "erase product/my-app/user/alice --yes"),
    "rename": ("rename home-city city --dry-run", "rename pet animals pets --if-both both"),
    "convert": (
        "--concepts app:CONCEPTS convert age app:to_int --operation ages --dry-run",
        "--concepts app:CONCEPTS convert age app:to_int --operation ages --yes",
    ),
    "import": ("import facts.jsonl", "import people.csv --place product/my-app/user/alice"),
    "export": ("export facts.jsonl", "export alice.jsonl --place alice --no-history"),
    "sync": ("sync /mnt/drive/memory --new", "sync /mnt/drive/memory --watch 30"),
    "mcp": ("mcp --user alice --read-only", "mcp --port 8000 --token-env MCP_TOKEN"),
    "learn": ("learn my_app:MEMORY --every 5", "learn my_app:MEMORY --retry --json"),
    "eval draft": (
        "eval draft chats.json --model ollama:qwen3",
        "eval draft chats.jsonl --model my_app:MODEL --out cases.jsonl",
    ),
    "eval accept": ("eval accept cases.jsonl", "eval accept cases.jsonl --yes"),
    "eval run": (
        "eval run cases.jsonl",
        "eval run cases.jsonl --memory my_app:MEMORY --out report.html",
    ),
    "eval compare": ("eval compare before.json after.json", "eval compare main.json branch.json"),
    "doctor": ("doctor", "--key-env FACTMEM_KEY doctor"),
    "verify": ("verify", "verify --anchor memory.anchor"),
    "anchor": ("anchor", "anchor --out memory.anchor"),
    "backup": ("backup memory-backup", "backup memory-backup --anchor safe.anchor"),
    "restore": ("restore memory-backup", "restore memory-backup --anchor safe.anchor"),
    "compact": ("compact --keep-history 90d", "compact alice"),
    "salvage": ("salvage memory-saved", "salvage memory-saved --json"),
    "keys list": ("keys list", "--key-file store.key keys list --json"),
    "keys add": ("keys add --key-file recovery.key", "keys add --passphrase"),
    "keys rotate": ("keys rotate --key-file new.key", "keys rotate --passphrase --no-rewrite"),
    "keys remove": ("keys remove --key-file old.key", "keys remove --key-env OLD_KEY --yes"),
    "keys generate": ("keys generate store.key", "keys generate store.key --json"),
}
"""Two examples for each command; the store comes from FACTMEM_STORE."""

Work: TypeAlias = Callable[..., Any]

_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""What typer raises for wrong arguments, wherever its version imports it from."""


class _Commands(TyperGroup):
    """Commands that report errors as one line on stderr and an exit code."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands in groups."""
        for title, names in GROUPS.items():
            with formatter.section(title):
                of_group = ((name, self.commands[name]) for name in names.split())
                rows = [(name, each.get_short_help_str(1_000)) for name, each in of_group]
                formatter.write_dl(rows)

    def invoke(self, ctx: Any) -> Any:
        """Run the selected command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # detects a closed pipe before the exit code is decided
        except (typer.Exit, typer.Abort):
            raise
        except _UsageError as exc:
            if type(exc).__name__ == "NoArgsIsHelpError":  # the help of a group
                raise
            at: Any = exc
            path = " ".join(["factmem", *(at.ctx.command_path.split()[1:] if at.ctx else ())])
            text = at.format_message().rstrip(".")
            option = getattr(at, "option_name", None)
            if any(option in each.opts for each in self.params):
                text, path = f"{option} comes before the command", "factmem"
            print_error(f"factmem: {text}: see `{path} --help`")
            raise typer.Exit(ExitCode.USAGE) from None
        except BrokenPipeError:
            # Python flushes stdout again at exit and would print a second error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(ExitCode.BROKEN_PIPE) from None
        except KeyboardInterrupt:
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except (CommandError, FactmemError, ValueError, OSError) as exc:
            print_error(f"factmem: {message_of(exc)}")
            raise typer.Exit(code_of(exc)) from None
        return result


# Tracebacks with local variables would print values and keys: no pretty exceptions.
app: typer.Typer = typer.Typer(
    cls=_Commands,
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
"""The whole command line."""
keys: typer.Typer = typer.Typer(no_args_is_help=True, help="The keys of an encrypted store.")
evaluation: typer.Typer = typer.Typer(
    no_args_is_help=True, help="Test a memory with questions of your own."
)
app.add_typer(keys, name="keys")
app.add_typer(evaluation, name="eval")
_PREFIXES = {id(keys): "keys ", id(evaluation): "eval "}


def option(name: str, kind: object, *flags: str, **more: Any) -> Parameter:
    """Return a parameter for an option, which is None or False if it is not passed."""
    default: Any = typer.Option(False if kind is bool else None, *flags, **more)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def with_options(*parameters: Parameter) -> Callable[[Work], Work]:
    """Give a function of a context and keyword arguments the signature that typer reads."""
    context = Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)
    whole = [context, *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters)]

    def decorated(work: Work) -> Work:
        shown: Any = work
        shown.__signature__ = Signature(whole)
        shown.__annotations__ = {each.name: each.annotation for each in whole}
        return work

    return decorated


TEXT = str | None
_JSON = (option("as_json", bool, "--json", help="Print JSON."),)
_YES = (option("yes", bool, "--yes", "-y", help="Do not ask for confirmation."),)
_REVEAL = (option("reveal", bool, "--reveal", help=REVEAL),)
_BY, _WHY = "Your name, kept with the change.", "The reason, kept with the change."
_SIGNED = (
    option("name", TEXT, "--name", envvar="FACTMEM_ACTOR", help=_BY),
    option("reason", TEXT, "--reason", envvar="FACTMEM_REASON", help=_WHY),
)
FILE = "The file with the key."
ENV, _ENTRY = "The environment variable with the key.", "The entry with the key, of the service"
ASK = "Ask for a passphrase on the terminal."
_KEY = (
    option("env", TEXT, "--key-env", metavar="NAME", help=ENV),
    option("file", TEXT, "--key-file", metavar="PATH", help=FILE),
    option("passphrase", bool, "--passphrase", help=ASK),
    option("entry", TEXT, "--keyring-entry", metavar="NAME", help=f"{_ENTRY} 'factmem'."),
)


def command(
    name: str | None = None,
    *,
    group: typer.Typer = app,
    json: bool = True,
    reveals: bool = False,
    asks: bool = False,
    signs: bool = False,
    new_key: bool | None = None,
    creates: bool = False,
) -> Callable[[Work], Work]:
    """Register a function as a command.

    Args:
        name: The name; by default that of the function.
        group: The group of commands.
        json: Whether it has `--json`.
        reveals: Whether it prints values: those of an encrypted store need `--reveal` in a pipe.
        asks: Whether it calls `confirm`, and has `--yes`.
        signs: Whether its changes have the name and the reason of `--name` and `--reason`.
        new_key: Whether its `key` is a new one; None if it has none.
        creates: Whether to create a store that does not exist.
    """

    def decorated(work: Work) -> Work:
        own = signature(work).parameters
        chosen = name or work.__name__.rstrip("_")
        added = (
            *(_JSON if json else ()),
            *(_REVEAL if reveals else ()),
            *(_YES if asks else ()),
            *(_SIGNED if signs else ()),
            *(_KEY if new_key is not None else ()),
        )

        def call(ctx: typer.Context, **given: Any) -> None:
            shared = {each.name: given.pop(each.name) for each in added}
            root: Options = ctx.find_root().obj
            as_json, yes = shared.get("as_json", False), shared.get("yes", False)
            GIVEN.set(replace(root, as_json=as_json, yes=yes))
            if reveals:
                check_revealed(root, shared["reveal"])
            if new_key is not None:
                given["key"] = _key_of(shared, is_new=new_key)
            by, reason = shared.get("name") or f"factmem {chosen}", shared.get("reason")
            with acting(by, reason=reason or None) if signs else nullcontext():
                bound = partial(work, **given)
                answer = run(bound, creates=creates) if "store" in own else bound()
            if isinstance(answer, Answer):
                answer.show(as_json=as_json)

        call.__doc__ = work.__doc__
        arguments = [each for each in own.values() if each.name not in {"store", "key"}]
        examples = EXAMPLES[_PREFIXES.get(id(group), "") + chosen]
        # \b keeps the lines of a paragraph.
        epilog = "\b\nExamples:\n" + "\n".join(f"  factmem {each}" for each in examples)
        group.command(chosen, epilog=epilog)(with_options(*arguments, *added)(call))
        return work

    return decorated


def _key_of(given: dict[str, Any], *, is_new: bool) -> Key:
    prompt = "New passphrase: " if is_new else "Passphrase of the key: "
    named = [given[each.name] for each in _KEY]
    key = key_from(*named, is_new=is_new, prompt=prompt)
    if key is None:
        raise CommandError("Pass a key: --key-env, --key-file, --passphrase or --keyring-entry")
    return key
