"""Settings of all tests: folders, limits, records of times, examples of Hypothesis, and the garbage collector."""

import contextlib
import gc
import os
from collections.abc import Iterator

import pytest
from long_forms import LONG

from time_limits import pytest_collection_modifyitems, pytest_timeout_cancel_timer, pytest_timeout_set_timer

__all__ = ["pytest_collection_modifyitems", "pytest_timeout_cancel_timer", "pytest_timeout_set_timer"]

collect_ignore = [
    "packages/testkit/tests/third_party_packages"
]  # packages with tests of their own: test_third_party_packages.py


pytest_plugins = ["marker_folders", "marked_modules", "shared_spark"]
pytest_plugins += [
    plugin
    for variable, plugin in (("OTTLA_TEST_TIMES", "module_times"), ("OTTLA_MISSING", "missing_libraries"))
    if os.environ.get(variable)
]

with contextlib.suppress(ImportError):  # the tests of the installation do without
    import hypothesis

    # A busy machine would exceed the deadline that each example has by default.
    hypothesis.settings.register_profile("ottla", deadline=None, max_examples=500 if LONG else 40)
    hypothesis.settings.load_profile("ottla")


def pytest_collection_finish() -> None:
    """Have the garbage collector leave out the collected tests: each collection would visit all of them."""
    if hasattr(gc, "freeze"):  # PyPy's collector has no such call
        gc.collect()
        gc.freeze()


def pytest_runtest_setup() -> None:
    """Remove the collector's callbacks. Hypothesis has one, in which a KeyboardInterrupt of a signal would be lost."""
    if hasattr(gc, "callbacks"):  # PyPy's collector has no such list
        gc.callbacks.clear()


@pytest.fixture(autouse=True)
def secrets_of_this_test_alone() -> Iterator[None]:
    """Forget the secrets that a test has held, also those in cycles which the garbage collector has yet to find.

    Hypothesis makes passwords such as "pan", which would be starred in the texts of later tests.
    """
    from ottla.errors import quoting

    before = set(quoting._held)
    yield
    for number in quoting._held.keys() - before:
        quoting._held.pop(number, None)


@pytest.fixture(autouse=True)
def faults_of_this_test_alone() -> None:
    """Forget which callbacks have raised, so that a test which runs again finds the line of its callback, too."""
    from ottla.accumulator.raising_callbacks import raising_callbacks

    raising_callbacks.forget()
