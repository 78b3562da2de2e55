"""Each suite fails a plugin with one broken method in a sentence that names the method, and ends in time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import attrs
import pytest
from broken_plugins import FAULTS, RESULTS
from suite_runs import run_suite

pytest_plugins = ["pytester"]

PEER = """
    @pytest.fixture
    def peer(self):
        from ottla_testkit.conformance import PlainPeer
        return PlainPeer
"""
BROKER = """at_once = 1.0

    @pytest.fixture
    def broker(self):
        import wrong_mechanisms
        return wrong_mechanisms.Broker
"""
JSON = "samples = (({'a': 1}, b'{\"a\": 1}'),)"
EVERY: Final = tuple(FAULTS)
NOT_A_RESULT: Final = tuple(fault for fault in FAULTS if fault not in RESULTS)
WITHOUT_ARGUMENTS: Final = tuple(fault for fault in NOT_A_RESULT if fault != "takes no argument")


@attrs.frozen
class Kind:
    """A kind's suite, the lines that its class needs, and the faults of each method."""

    suite: str
    subject: str
    methods: dict[str, tuple[str, ...]]
    more: str = ""
    tests: str = "test_"
    limit: float = 2.5
    """Seconds for all tests of a plugin that does not return."""


KINDS: Final = {
    "partitioner": Kind(
        "PartitionerConformance",
        "partitioner",
        {"partition": EVERY, "partition_column": EVERY, "appended": NOT_A_RESULT},
    ),
    "compressor": Kind("CompressorConformance", "compressor", {"compress": EVERY, "decompress": EVERY}),
    "serializer": Kind("SerializerConformance", "serializer", {"serialize": EVERY, "serialize_column": ()}, JSON),
    "interceptor": Kind(
        "InterceptorConformance",
        "interceptor",
        {"on_send": EVERY, "on_acknowledgement": NOT_A_RESULT, "close": WITHOUT_ARGUMENTS},
    ),
    "reporter": Kind("MetricsReporterConformance", "reporter", {"start": NOT_A_RESULT, "close": NOT_A_RESULT}),
    "authenticator": Kind(
        "AuthenticatorConformance",
        "mechanism",
        {"authenticator": EVERY, "start": EVERY, "challenge": EVERY},
        BROKER,
        limit=4.0,
    ),
    "encoder": Kind(
        "RecordEncoderConformance",
        "encoder",
        {"columns": EVERY, "encode": EVERY, "memory": NOT_A_RESULT, "keys": EVERY},
        limit=6.0,
    ),
    "transport": Kind(
        "TransportConformance",
        "transport",
        {"targets": EVERY[1:], "open": EVERY, "handshake": EVERY, "write": EVERY, "read_into": EVERY[1:]},
        PEER,
        tests="targets or contract or silent_peer or idle",
        limit=4.0,
    ),
    "config_provider": Kind(
        "ConfigProviderConformance", "provider", {"get": EVERY}, "path, keys = 'here', ('password',)"
    ),
}


def variants() -> Iterator[tuple[str, str, str]]:
    for name, kind in KINDS.items():
        for method, faults in kind.methods.items():
            for fault in faults:
                yield name, method, fault


@pytest.mark.parametrize(("name", "method", "fault"), list(variants()), ids=lambda each: str(each).replace(" ", "-"))
def test_a_broken_method_is_named_by_its_suite(pytester: pytest.Pytester, name: str, method: str, fault: str) -> None:
    kind = KINDS[name]
    made = f"broken_plugins.plugin({name!r}, {method!r}, {fault!r})"
    hangs = fault == "never returns"
    more = f"time_limit = {kind.limit if hangs else 30.0}\n    {kind.more}"
    arguments = ("-x", "-k", kind.tests)
    timeout = 1.0 if hangs else 30.0
    result = run_suite(pytester, kind.suite, kind.subject, made, *arguments, more=more, timeout=timeout)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert re.search(rf"^.*\b{method}\b.*$", first_failure(result), re.MULTILINE), result.stdout.str()


def first_failure(result: pytest.RunResult) -> str:
    """The message of the first failure, without the name of the test."""
    return "\n".join(line for line in result.stdout.lines if "test_it.py" not in line)
