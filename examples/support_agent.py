"""A support agent that remembers a user, a device and an organisation, in an encrypted store.

python examples/support_agent.py

Facts are loaded at the start of a session and saved at its end. Monday and Friday are two processes
that share only a folder and a key. If OPENAI_API_KEY or OPENAI_BASE_URL is set, that endpoint
answers (OPENAI_MODEL is the model); otherwise a script does.
"""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from factmem import (
    Aes256GCMEncryptor,
    Agent,
    AgentMemory,
    ChatModel,
    Concept,
    EncryptedStorage,
    FactType,
    Key,
    LocalFileMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    OpenAIChatModel,
    SingleFact,
)
from factmem.agent import ToolError
from factmem.detection import DetectionReport
from factmem.llm import ChatResponse
from factmem.llm.base import Message, ToolCall
from factmem.prompt import LoadReport, MessageForm
from factmem.testing.chat import ScriptedChatModel

# If facts contradict each other, the subject with the lowest number has priority.
USER = MemorySubject("user", "The person who asks for help", 1, per_entity=True)
DEVICE = MemorySubject("device", "The device that is in trouble", 2, per_entity=True)
ORGANISATION = MemorySubject(
    "organisation", "The company that the user works for", 3, per_entity=True
)
SUBJECTS = [USER.of("alice"), DEVICE.of("router-7741"), ORGANISATION.of("acme")]

CHANNEL = Concept("contact-channel", "The preferred contact channel")
HOURS = Concept("office-hours", "Office hours of the contact")
SYMPTOMS = Concept("symptoms", "What is wrong with the device", FactType.MULTIPLE)
PRODUCT = MemoryScope.Product("acme-support")

PROMPT = "You are a support agent. Be short. Use what you remember, and do not ask for it again."
DAYS = {
    "monday": (
        "My router drops the connection every evening. Please phone me, I hardly read mail.",
        "The red light blinks then. And call before five: the office closes at 17:00.",
    ),
    "friday": (
        "It is me again, about the router.",
        "The new firmware is on it, and it no longer drops the connection.",
    ),
}


def device_status(serial_number: str) -> dict[str, str]:
    """Look up a device.

    Args:
        serial_number: The number on the device, such as "router-7741".
    """
    if serial_number != "router-7741":
        raise ToolError("There is no such device: ask the user for the number on its label")
    return {"model": "X200", "firmware": "1.9.2", "newest_firmware": "2.0.1"}


def item(
    message: int, quote: str, subject: str, concept: Concept[Any, Any], value: str, **more: str
) -> object:
    """Return an item as a model would write it."""
    return {
        "message": message,
        "quote": quote,
        "action": "assert",
        "subject": subject,
        "scope": "product",
        "keyword": concept.keyword,
        "description": concept.description,
        "fact_type": concept.fact_type,
        "value": value,
        "importance": 0.5,
        **more,
    }


LOOK_UP = ChatResponse(
    tool_calls=(ToolCall("1", "device_status", '{"serial_number": "router-7741"}'),)
)
SCRIPTS: dict[str, list[object]] = {
    "monday": [
        LOOK_UP,
        "Its firmware is old: 1.9.2, and 2.0.1 mends dropped connections. Is there a light?",
        "That is the fault that 2.0.1 mends. We install it and call you before 17:00.",
        {
            "facts": [
                item(1, "Please phone me", "user", CHANNEL, "phone"),
                item(1, "drops the connection", "device", SYMPTOMS, "drops the connection"),
                item(5, "red light blinks", "device", SYMPTOMS, "red light blinks"),
                item(5, "office closes at 17:00", "organisation", HOURS, "until 17:00"),
                item(3, "newest_firmware", "device", SYMPTOMS, "old firmware"),
            ]
        },
    ],
    "friday": [
        "Hello again. Does the X200 still drop the connection? I would call you before 17:00.",
        "Good to hear. I close the case; if anything is left, we call you.",
        {
            "facts": [
                item(
                    3,
                    "no longer drops the connection",
                    "device",
                    SYMPTOMS,
                    "drops the connection",
                    action="retract",
                )
            ]
        },
    ],
}


@asynccontextmanager
async def chosen_model(day: str) -> AsyncGenerator[ChatModel, None]:
    """Yield a model for the endpoint in the environment, or the script without one."""
    endpoint = os.environ.get("OPENAI_BASE_URL")
    key = os.environ.get("OPENAI_API_KEY")
    if endpoint or key:
        name = os.environ.get("OPENAI_MODEL", "gpt-4o-mini")
        print(f"  answered by {name} at {endpoint or 'OpenAI'}", flush=True)
        async with OpenAIChatModel(name, api_key=key or "none") as model:
            yield model
    else:
        print("  answered by a script: set OPENAI_API_KEY or OPENAI_BASE_URL for a real model")
        yield ScriptedChatModel(*SCRIPTS[day])


def open_store(folder: Path) -> LocalFileMemoryProvider:
    """Return the store; its key comes from the environment."""
    encryptor = Aes256GCMEncryptor(Key.from_env("FACTMEM_KEY"))
    return LocalFileMemoryProvider(folder, storage=EncryptedStorage(encryptor))


async def session(folder: Path, day: str) -> None:
    """Talk to Alice. Facts are loaded at the start and detected at the end."""
    async with open_store(folder) as store, chosen_model(day) as model:
        if day == "monday":  # the application can also save facts itself
            await store.save(SingleFact(CHANNEL, "mail"), ORGANISATION.of("acme"), PRODUCT)
        agent = Agent(model, system_prompt=PROMPT, tools=[device_status])
        memory = agent.install(
            AgentMemory,
            provider=store,
            scopes=MemoryScopesProfile(product="acme-support"),
            subjects=[USER, DEVICE, ORGANISATION],
            concepts=[CHANNEL, HOURS, SYMPTOMS],
            message_form=MessageForm(max_tokens=500),
        )

        messages: Sequence[Message] = []
        for text in DAYS[day]:
            result = await agent.run(text, subjects=SUBJECTS, messages=messages)
            if not messages:
                known = [fact for report in result.reports_of(LoadReport) for fact in report.facts]
                print_lines(
                    f"known: {fact.concept.keyword} = {', '.join(fact.values)}" for fact in known
                )
            print_lines([f"Alice: {text}", f"Agent: {result.text}"])
            messages = result.messages

        report = await memory.view(subjects=SUBJECTS).auto_detect_facts(messages, conversation=day)
        show(report)
        for channel in await memory.view(subjects=SUBJECTS).current(CHANNEL):
            origin = await memory.view(subjects=SUBJECTS).why(channel)
            said = f"she said {origin.quote!r}" if origin and origin.quote else "no source"
            print_lines([f"contact by {channel.value}: {said}"])


def show(report: DetectionReport) -> None:
    """Print the changes that a session made to the memory."""
    for placed in report.saved:
        values = ", ".join(map(str, placed.fact.values))
        print_lines(
            [f"saved: {placed.fact.concept.keyword} = {values} ({placed.place.subject.name})"]
        )
    for gone in report.retracted:
        print_lines(
            [f"forgotten: {gone.concept.keyword} = {gone.value} ({gone.place.subject.name})"]
        )
    for rejected in report.rejected:
        print_lines([f"rejected: {rejected.reason}, {rejected.detail}"])


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, indented."""
    for line in lines:
        print(f"  {line}")


def main() -> None:
    """Run each day in its own process, and check the files on disk."""
    with TemporaryDirectory() as folder:
        os.environ["FACTMEM_KEY"] = Key.generate().to_base64()
        for day in DAYS:
            again = [sys.executable, __file__, folder, day]
            subprocess.run(again, check=True)  # noqa: S603 - it starts itself
        files = [file for file in Path(folder).rglob("*") if file.is_file()]
        everything = b"".join(file.name.encode() + file.read_bytes() for file in files)
        for secret in (b"17:00", b"alice", b"contact-channel", b"phone"):
            assert secret not in everything
        print(f"On disk: {len(files)} files, {len(everything)} bytes, none of them readable")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        print(f"{sys.argv[2].title()}, process {os.getpid()}", flush=True)
        anyio.run(session, Path(sys.argv[1]), sys.argv[2])
