"""A small agent with features, such as memory. Imports memory."""

from factmem.agent.agent import Agent
from factmem.agent.context import (
    AgentContext,
    AgentFeature,
    AgentResult,
    AgentStep,
    AgentTool,
    FeatureError,
)
from factmem.agent.nodes import (
    Strategy,
    node_llm_compress_history,
    node_llm_request,
    node_load_all_facts_from_memory,
    node_load_from_memory,
    node_recall_from_memory,
    node_save_to_memory,
    node_save_to_memory_auto_detect_facts,
)
from factmem.agent.tools import StepLimitError, Tool, ToolError

__all__ = [
    "Agent", "AgentContext", "AgentFeature", "AgentResult", "AgentStep", "AgentTool",
    "FeatureError", "StepLimitError", "Strategy", "Tool", "ToolError", "node_llm_compress_history",
    "node_llm_request", "node_load_all_facts_from_memory", "node_load_from_memory",
    "node_recall_from_memory", "node_save_to_memory", "node_save_to_memory_auto_detect_facts",
]  # fmt: skip
