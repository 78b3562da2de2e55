"""Settings of all tests: time limits, a record of the time of each module, and no deadline of Hypothesis."""

import contextlib
import os

from time_limits import pytest_collection_modifyitems

__all__ = ["pytest_collection_modifyitems"]

if os.environ.get("OTTLA_TEST_TIMES"):
    pytest_plugins = ["module_times"]

with contextlib.suppress(ImportError):  # the tests of the installation do without
    import hypothesis

    # A busy machine would exceed the deadline that each example has by default.
    hypothesis.settings.register_profile("ottla", deadline=None)
    hypothesis.settings.load_profile("ottla")
