"""A conformance suite run on a plugin of the tests' own, as its author would run it."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs
import pytest

import ottla_testkit.conformance  # noqa: F401 - pytester removes what a run imports: each would import it again

_SOURCE: Final = """
import pytest
import {module}
from ottla_testkit.conformance import {suite}

class TestIt({suite}):
    timeout = {timeout}
    seed = {seed}
    {more}

    @pytest.fixture
    def {subject}(self):
        return {module}.{made}
"""


SEED: Final = 20261130
"""Some broken plugins keep their promise for a few inputs in a million: a run must not fail for these."""

QUICKLY: Final = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-q")
"""Hypothesis imports itself for every run's summary, which takes longer than most of the runs."""

PLUGINS: Final = (
    "-p",
    "ottla_testkit.pytest_plugin",
    *(word for name in ("doctest", "junitxml", "pastebin", "stepwise", "unittest") for word in ("-p", f"no:{name}")),
)
"""Of pytest's own plugins the suites use few, and of others one. To find and prepare all takes half of most runs."""

LIBRARIES: Final[Mapping[str, str]] = {
    "tables need pyarrow, which is not installed": "pyarrow",
    "this Python does not count memory": "_tracemalloc",
}
"""Why a suite skips a test, and the library that is missing then."""


def run_suite(
    pytester: pytest.Pytester,
    suite: str,
    subject: str,
    plugin: str,
    *arguments: str,
    more: str = "",
    timeout: float = 30.0,
) -> pytest.RunResult:
    """Run *suite* on *plugin*, `module.expression`; *more* is a line of the class."""
    module, _, made = plugin.partition(".")
    pytester.syspathinsert(pathlib.Path(__file__).parent)
    source = _SOURCE.format(
        module=module, suite=suite, subject=subject, made=made, more=more, timeout=timeout, seed=SEED
    )
    pytester.makepyfile(test_it=source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        return pytester.runpytest_inprocess(*QUICKLY, *PLUGINS, "-rs", *arguments)


@attrs.frozen(kw_only=True)
class Suite:
    """A suite, and where the tests have plugins that break it. *more* are lines of the class, given the timeout."""

    name: str
    subject: str
    module: str
    more: Callable[[float], str] = lambda _timeout: ""

    def run(
        self, pytester: pytest.Pytester, plugin: str, *arguments: str, more: str | None = None, timeout: float = 30.0
    ) -> pytest.RunResult:
        """As an author would run it on *plugin*, an expression of the module."""
        given = self.more(timeout) if more is None else more
        made = f"{self.module}.{plugin}"
        return run_suite(pytester, self.name, self.subject, made, *arguments, more=given, timeout=timeout)

    def assert_catches(self, pytester: pytest.Pytester, plugin: str, test: str, said: str) -> None:
        """Assert that this test finds what is wrong, and says so."""
        assert_caught(self.run(pytester, plugin, "-x", "-k", test, timeout=timeout_for(said)), said)

    def assert_passes(self, pytester: pytest.Pytester, plugin: str, *, more: str | None = None) -> None:
        """Assert that there is nothing to say of it."""
        assert_passed(self.run(pytester, plugin, more=more))


def each_of(wrong: Sequence[tuple[str, str, str]]) -> pytest.MarkDecorator:
    """A test for each plugin that breaks a promise: its name, the test that finds it, and the error."""
    return pytest.mark.parametrize(("plugin", "test", "said"), wrong, ids=[f"{one}-{test}" for one, test, _ in wrong])


def timeout_for(said: str) -> float:
    """Little, where that is what makes the suite speak; else enough for a machine with other things to do."""
    return 1.0 if "not return within" in said or "left threads" in said else 30.0


def assert_caught(result: pytest.RunResult, said: str) -> None:
    """Assert that the suite has failed, and said what is wrong."""
    reported = result.stdout.str()
    if result.ret == pytest.ExitCode.OK:
        raise_if_missing(result)

    assert result.ret == pytest.ExitCode.TESTS_FAILED, reported
    assert re.search(said, reported), reported


def raise_if_missing(result: pytest.RunResult) -> None:
    """Raise ModuleNotFoundError for a library without which the suite has skipped a test."""
    reported = result.stdout.str()
    for reason, library in LIBRARIES.items():
        if reason in reported:
            raise ModuleNotFoundError(f"the suite says: {reason}", name=library)


def assert_passed(result: pytest.RunResult) -> None:
    """Assert that there was nothing to say."""
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
