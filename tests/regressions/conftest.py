"""The stores of the recall tests."""

from tests.recall.conftest import clock, store

__all__ = ["clock", "store"]
