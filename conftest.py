"""The time limit of every test of the tree; Hypothesis has no limit of its own, which a busy machine would exceed."""

import contextlib

from time_limits import pytest_collection_modifyitems

__all__ = ["pytest_collection_modifyitems"]

with contextlib.suppress(ImportError):  # the tests of the installation do without
    import hypothesis

    hypothesis.settings.register_profile("ottla", deadline=None)
    hypothesis.settings.load_profile("ottla")
