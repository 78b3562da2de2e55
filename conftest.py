"""The time limit of every test of the tree."""

from time_limits import pytest_collection_modifyitems

__all__ = ["pytest_collection_modifyitems"]
