"""What an agent is made of, checked when it is made: what cannot be meant is told at once."""

from collections.abc import Callable

from factmem._given import kind_of, methods_lacking
from factmem.llm.base import ChatModel
from factmem.memory import AgentMemory
from factmem.nodes import Strategy

__all__ = [
    "check_callback",
    "check_feature_class",
    "checked_agent_model",
    "checked_max_steps",
    "checked_strategy",
]


def checked_agent_model(chat_model: ChatModel) -> ChatModel:
    """Return `chat_model` if it can answer.

    Raises:
        TypeError: It is something else: a model's name, a class, a client.
    """
    if methods_lacking(chat_model, "respond"):
        raise TypeError(
            f"An agent answers with a ChatModel, not {kind_of(chat_model)}: "
            f"Agent(OpenAIChatModel(name)), or OpenAIChatModel(name, client=client), asks any "
            f"endpoint for chat completions; another one needs the methods respond and extract"
        )
    return chat_model


def checked_strategy(strategy: Strategy | None) -> Strategy | None:
    """Return `strategy` if it can be run, or None.

    Raises:
        TypeError: It is something else, such as the nodes of one.
    """
    if strategy is not None and methods_lacking(strategy, "run"):
        raise TypeError(
            f"strategy is a Strategy, not {kind_of(strategy)}: "
            f"strategy=Strategy('answer', [node_llm_request()])"
        )
    return strategy


def checked_max_steps(max_steps: int) -> int:
    """Return how many times a model may be asked.

    Raises:
        TypeError: It is no whole number.
        ValueError: It is less than 1.
    """
    if isinstance(max_steps, bool) or not isinstance(max_steps, int):
        raise TypeError(f"max_steps is a whole number, not {kind_of(max_steps)}: max_steps=20")
    if max_steps < 1:
        raise ValueError("max_steps is less than 1: the model must be asked at least once")
    return max_steps


def check_callback(on_background_failure: Callable[[Exception], None] | None) -> None:
    """Make sure that there is a function to tell failures to, or none.

    Raises:
        TypeError: It cannot be called.
    """
    if on_background_failure is not None and not callable(on_background_failure):
        raise TypeError(
            f"on_background_failure is a function of an exception, not "
            f"{kind_of(on_background_failure)}: on_background_failure=failures.append"
        )


def check_feature_class(feature: object) -> None:
    """Make sure that something makes a feature.

    Raises:
        TypeError: It is a feature, or a memory, that was made already, or makes nothing.
    """
    if callable(feature):
        return
    if isinstance(feature, AgentMemory):
        raise TypeError(
            f"install takes the class, and makes the memory: "
            f"memory = agent.install({kind_of(feature)}, provider=store, agent_name='my-agent')"
        )
    if not methods_lacking(feature, "before_model", "after_answer", "aclose"):
        raise TypeError(
            f"install takes the class, and makes the feature: agent.install({kind_of(feature)}, ...)"
        )
    raise TypeError(
        f"install takes AgentMemory or the class of an AgentFeature, not {kind_of(feature)}: "
        f"agent.install(AgentMemory, provider=store, agent_name='my-agent')"
    )
