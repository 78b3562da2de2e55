"""What holds for every test of the tree: its time limit."""

from time_limits import pytest_collection_modifyitems

__all__ = ["pytest_collection_modifyitems"]
