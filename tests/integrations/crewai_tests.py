"""CrewAI's own memory tests, with `FactmemMemory` instead of CrewAI's `Memory`.

    python -m tests.integrations.crewai_tests FOLDER [ARGUMENT OF PYTEST ...]

FOLDER holds copies of `test_unified_memory.py` and `test_memory_root_scope.py` of
`lib/crewai/tests/memory` from CrewAI's repository, or of `tests/memory` in its source
distribution. The chat models of the tests are mocks, so the memory has none.
"""

import os
import sys
from typing import Any

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
os.environ |= {"CREWAI_TRACING_ENABLED": "false", "OPENAI_API_KEY": "x"}

import crewai.memory.unified_memory as replaced
import pytest

from factmem import AgentMemory, LocalFileMemoryProvider, MemoryScopesProfile
from factmem.integrations.crewai import FactmemMemory
from tests.world import USER

REPLACED = {
    "It asks CrewAI's model, which this memory does not use": [
        "test_memory_extract_memories_returns_list_from_llm",
        "test_parallel_analyze_runs_concurrent_calls",
        "test_memory_root_scope_with_llm_inferred_scope",  # the path of a fact is that of the call
        "test_encoding_flow_llm_path_with_root_scope",
    ],
    "It counts calls of CrewAI's embedder, or writes vectors into its storage": [
        "test_batch_embed_single_call",
        "test_batch_consolidation_deduplicates_against_storage",
        "test_parallel_find_similar_runs_all_searches",
        "test_composite_score_reranks_results",
        "test_private_record_without_source_does_not_leak",
        "test_private_record_still_visible_to_its_source_and_when_included",
    ],
    "A recall writes nothing, so it moves no time of access": [
        "test_recall_does_not_refresh_access_time_when_read_only"
    ],
    "CrewAI's default memory of a flow is not the class that this script replaces": [
        "test_flow_auto_memory_sets_root_scope",
        "test_flow_with_name_uses_name_for_root_scope",
        "test_flow_has_default_memory",
    ],
}
"""Why tests fail that are expected to."""


class Replacement(FactmemMemory):
    """A memory of one user in a folder, with the signature of CrewAI's `Memory`."""

    def __init__(self, **fields: Any) -> None:
        super(FactmemMemory, self).__init__(**fields)  # its own refuses: `of` makes one
        if isinstance(fields.get("storage"), str):
            store = LocalFileMemoryProvider(fields["storage"])
            scopes = MemoryScopesProfile(agent="crew")
            made = FactmemMemory.of(
                AgentMemory(store, subjects=[USER], scopes=scopes), user="alice"
            )
            object.__setattr__(self, "__pydantic_private__", made.__pydantic_private__)


def main(folder: str, *options: str) -> int:
    """Run the tests of a folder and return pytest's exit code."""
    module: Any = replaced
    module.Memory = Replacement
    expected = [name for names in REPLACED.values() for name in names]
    print("expected to fail:", *expected, sep="\n  ")
    usual = ["-q", "-W", "default", "-p", "no:cacheprovider", "-c", "/dev/null"]
    return pytest.main([*usual, "--rootdir", folder, folder, *options])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
