"""The transport suite catches refusals that are not reported, and secrets that are shown."""

from __future__ import annotations

import pytest
from suite_runs import Suite, assert_passed, each_of

pytest_plugins = ["pytester"]

ENDS = """over_layers = False
    secrets = ("my-token-of-the-gateway",)

    @pytest.fixture
    def peer(self):
        return lambda sock: wrong_transports.Answering(sock, b"+")

    @pytest.fixture
    def refusing_peer(self):
        return lambda sock: wrong_transports.Answering(sock, b"-")
"""
SUITE = Suite(
    name="TransportConformance",
    subject="transport",
    module="wrong_transports",
    more=lambda _timeout: ENDS,
)
WRONG = [
    ("IgnoresRefusals", "refusal", "the peer has refused, and the handshake is complete: its answer is not read"),
    ("WaitsAfterRefusals", "refusal", r"the peer has refused, and handshake\(\) does not report it"),
    ("WaitsAfterRefusals", "refusal", "the layer still waits for bytes, although the peer has sent all that it has"),
    ("RaisesOsErrors", "refusal", r"is a NetworkError of ottla.errors, .* and not OSError\('refused'\)"),
    ("QuotesEverything", "refusal", "the error for a refusal has 10000 characters"),
    ("ShowsItsTokenInErrors", "secrets", r"secrets\[0\] is seen in a ConnectionFailedError that it raised"),
    ("ShowsItsTokenInDetails", "secrets", r"secrets\[0\] is seen in details\(\)"),
    ("ShowsItsTokenInItsRepr", "secrets", r"secrets\[0\] is seen in a layer"),
    ("LogsItsToken", "secrets", r"secrets\[0\] is seen in the log"),
]


@each_of(WRONG)
def test_a_broken_promise_for_refusals_is_named(pytester: pytest.Pytester, plugin: str, test: str, said: str) -> None:
    limit = 1.0 if plugin == "WaitsAfterRefusals" else 30.0
    transport = f"WrongTransport(wrong_transports.{plugin})"

    result = SUITE.run(pytester, transport, "-x", "-k", test, timeout=limit)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.re_match_lines([f".*{said}"])


def test_a_transport_that_reports_refusals_passes(pytester: pytest.Pytester) -> None:
    result = SUITE.run(pytester, "WrongTransport(wrong_transports.Refused)", "-k", "refusal or secrets")

    assert_passed(result)
    result.assert_outcomes(passed=2)
