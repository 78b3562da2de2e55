"""Where pyarrow is not installed, the suites skip the tests of tables, one by one, and run the others."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

SERIALIZER = """
import pytest

from ottla.plugins.registry import Registry
from ottla_testkit.conformance import SerializerConformance


class TestJson(SerializerConformance):
    samples = (({"a": 1}, b'{"a":1}'),)
    refused = (object(),)

    def columns(self):
        import pyarrow as pa

        return (pa.array([1, None]),)

    @pytest.fixture
    def serializer(self):
        return Registry().plugin("serializer", "json").create({}, is_key=False)
"""
INTERCEPTOR = """
import attrs
import pytest

from ottla_testkit.conformance import InterceptorConformance


class Marking:
    def on_send(self, record):
        return attrs.evolve(record, headers=(*record.headers, ("seen", b"1")))

    def on_acknowledgement(self, metadata, error, context): ...

    def on_send_table(self, rows):
        return attrs.evolve(rows, added_headers=(*rows.added_headers, ("seen", b"1")))


class TestMarking(InterceptorConformance):
    records = ((b"key", b"value"),)

    @pytest.fixture
    def interceptor(self):
        return Marking()
"""
ENCODER = """
import pytest

from ottla.plugins.registry import Registry
from ottla_testkit.conformance import RecordEncoderConformance


class TestPython(RecordEncoderConformance):
    @pytest.fixture
    def encoder(self):
        return Registry().plugin("encoder", "python").create({})
"""


@pytest.mark.parametrize("source", [SERIALIZER, INTERCEPTOR, ENCODER], ids=["serializer", "interceptor", "encoder"])
def test_tests_of_tables_are_skipped_without_pyarrow(pytester: pytest.Pytester, source: str) -> None:
    pytester.makeconftest("import sys\nsys.modules['pyarrow'] = None")
    pytester.makepyfile(source)

    result = pytester.runpytest_subprocess("-rs", "-p", "no:randomly")

    outcomes = result.parseoutcomes()
    assert result.ret == pytest.ExitCode.OK
    assert outcomes["passed"] >= 8
    assert outcomes["skipped"] >= 5
    assert "tables need pyarrow, which is not installed" in result.stdout.str()
