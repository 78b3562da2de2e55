"""A conformance suite run on a plugin of the tests' own, as its author would run it."""

from __future__ import annotations

import pathlib
import re
from typing import Final

import pytest

_SOURCE: Final = """
import pytest
import {module}
from ottla_testkit.conformance import {suite}

class TestIt({suite}):
    patience = {patience}
    {more}

    @pytest.fixture
    def {subject}(self):
        return {module}.{made}
"""


QUICKLY: Final = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-q")
"""Hypothesis imports itself for every run's summary, which takes longer than most of the runs."""


def run_suite(
    pytester: pytest.Pytester,
    suite: str,
    subject: str,
    plugin: str,
    *arguments: str,
    more: str = "",
    patience: float = 30.0,
) -> pytest.RunResult:
    """Run *suite* on *plugin*, `module.expression`; *more* is a line of the class."""
    module, _, made = plugin.partition(".")
    pytester.syspathinsert(pathlib.Path(__file__).parent)
    source = _SOURCE.format(module=module, suite=suite, subject=subject, made=made, more=more, patience=patience)
    pytester.makepyfile(test_it=source)
    return pytester.runpytest_inprocess(*QUICKLY, *arguments)


def patience_for(said: str) -> float:
    """Little, where that is what makes the suite speak; else enough for a machine with other things to do."""
    return 1.0 if "not back" in said or "left threads" in said else 30.0


def assert_caught(result: pytest.RunResult, said: str) -> None:
    """Assert that the suite has failed, and said what is wrong."""
    told = result.stdout.str()

    assert result.ret == pytest.ExitCode.TESTS_FAILED, told
    assert re.search(said, told), told


def assert_passed(result: pytest.RunResult) -> None:
    """Assert that there was nothing to say."""
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
