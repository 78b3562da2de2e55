"""The suite of each kind catches a plugin whose end leaves something behind, fails or waits."""

from __future__ import annotations

from typing import Final

import pytest
from suite_runs import Suite, timeout_for
from wrong_ends import RIGHT

pytest_plugins = ["pytester"]

SUITES: Final = {
    "transport": Suite(
        name="TransportConformance", subject="transport", module="wrong_ends", more=lambda _timeout: PEER
    ),
    "authenticator": Suite(name="AuthenticatorConformance", subject="mechanism", module="wrong_ends"),
    "partitioner": Suite(name="PartitionerConformance", subject="partitioner", module="wrong_ends"),
    "compressor": Suite(name="CompressorConformance", subject="compressor", module="wrong_ends"),
    "serializer": Suite(name="SerializerConformance", subject="serializer", module="wrong_ends"),
    "encoder": Suite(name="RecordEncoderConformance", subject="encoder", module="wrong_ends"),
    "interceptor": Suite(name="InterceptorConformance", subject="interceptor", module="wrong_ends"),
    "config_provider": Suite(name="ConfigProviderConformance", subject="provider", module="wrong_ends"),
}
PEER: Final = """over_layers = False

    @pytest.fixture
    def peer(self):
        from ottla_testkit.conformance import PlainPeer
        return PlainPeer"""
EVERY: Final = [
    ("LeavesItsThread", "background_work", r"close\(\) left threads behind: background"),
    ("RaisesAtItsEnd", "background_work", r"close\(\) raised OSError\('no such file'\); it only ends what"),
    (
        "JoinsWhatItNeverStarted",
        "without_any_use",
        r"close\(\) before any use raised RuntimeError\('cannot join thread.*a producer that cannot be made closes",
    ),
]
ONE: Final = [
    ("CannotBeClosed", "background_work", r"it has no close\(\), and left threads behind: background"),
    ("KeepsTheProgram", "background_work", "it began 'background', which is not a daemon thread"),
    ("WaitsAtItsEnd", "background_work", r"close\(\) did not return within 1 s; the producer's end waits for it"),
    ("WaitsAtItsEnd", "without_any_use", r"close\(\) before any use did not return within 1 s"),
    ("LeavesItsThread", "without_any_use", r"close\(\) left threads behind: background"),
]


def test_every_kind_whose_close_needs_no_start_is_tested_here() -> None:
    assert set(SUITES) == set(RIGHT)


@pytest.mark.parametrize(("end", "test", "said"), EVERY, ids=[end for end, _test, _said in EVERY])
@pytest.mark.parametrize("kind", SUITES)
def test_a_wrong_end_of_any_kind_is_named(pytester: pytest.Pytester, kind: str, end: str, test: str, said: str) -> None:
    SUITES[kind].assert_catches(pytester, f"plugin({kind!r}, {end!r})", test, said)


# The suites of most kinds share the code that closes plugins.
@pytest.mark.parametrize(("end", "test", "said"), ONE, ids=[f"{end}-{test}" for end, test, _said in ONE])
def test_a_wrong_end_is_named(pytester: pytest.Pytester, end: str, test: str, said: str) -> None:
    SUITES["config_provider"].assert_catches(pytester, f"plugin('config_provider', {end!r})", test, said)


@pytest.mark.parametrize("end", ["WithAThread", "WithAPool"])
def test_an_end_that_keeps_all_promises_passes(pytester: pytest.Pytester, end: str) -> None:
    result = SUITES["config_provider"].run(
        pytester, f"plugin('config_provider', {end!r})", "-k", "close", timeout=timeout_for("")
    )

    result.assert_outcomes(passed=2)
