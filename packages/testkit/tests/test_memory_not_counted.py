"""Where Python does not count memory, as PyPy, the suites skip the tests that measure it, and run the others."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

SUITE = """
import pytest

from ottla.plugins.registry import Registry
from ottla_testkit.conformance import RecordEncoderConformance


class TestPython(RecordEncoderConformance):
    @pytest.fixture
    def encoder(self):
        return Registry().plugin("encoder", "python").create({})
"""


def test_an_encoder_is_tested_without_a_count_of_memory(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import sys\nsys.modules['tracemalloc'] = None")
    pytester.makepyfile(SUITE)

    result = pytester.runpytest_subprocess("-rs", "-p", "no:randomly", "-k", "occupy or released or upper_bounds")

    result.assert_outcomes(passed=1, skipped=3, deselected=result.parseoutcomes()["deselected"])
    assert "this Python does not count memory" in result.stdout.str()
