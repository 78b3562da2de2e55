"""The suite for transports catches what is wrong, and says what it is."""

from __future__ import annotations

import pytest
from suite_runs import Suite, assert_caught, each_of

pytest_plugins = ["pytester"]

FAR_END = """
    @pytest.fixture
    def peer(self):
        from ottla_testkit.conformance import PlainPeer
        return PlainPeer"""
SUITE = Suite(
    name="TransportConformance",
    subject="transport",
    module="wrong_transports",
    more=lambda _timeout: FAR_END,
)
WRONG = [
    ("IgnoresShortWrites", "arrive_in_order", "nothing goes on: .* bytes were taken by write"),
    ("IgnoresShortWrites", "flush_is_true", r"flush\(\) said that everything has left, and \d+ of \d+ bytes are still"),
    ("TakesMoreThanItSays", "arrive_in_order", "what the far end got is not what was written"),
    ("SaysMoreThanThereWas", "arrive_in_order", r"was offered \d+ bytes and returned \d+"),
    (
        "TakesWithoutEnd",
        "256_kb",
        r"bytes were taken that the peer does not read: write\(\) never says that it is full",
    ),
    ("TakesTooFarAhead", "256_kb", "bytes were taken ahead of the socket; about 262144 are the maximum"),
    ("EatsTheList", "arrive_in_order", r"write\(\) changed the list of chunks"),
    ("SwapsChunks", "arrive_in_order", "what the far end got is not what was written: .* different from byte"),
    ("LiesAboutFlush", "flush_is_true", r"flush\(\) said that everything has left, and \d+ of \d+ bytes are still"),
    ("FlushesNever", "complete_handshake", r"flush\(\) returns False although every byte has arrived"),
    ("FlushesNever", "a_flush_ends", r"flush\(\) never says that everything has left"),
    ("Blocks", "silent_peer_gives_none", r"read_into\(\) blocked: it did not return within 1 s"),
    ("Blocks", "256_kb", r"write\(\) blocked: it did not return within 1 s"),
    ("Sleeps", "idle_connection", r"handshake\(\) blocked: it did not return within 1 s"),
    ("ReadsAheadInSecret", "reads_of_any_size", r"when the layer holds some, may_read\(\) must say so"),
    ("LosesWhatHasNoRoom", "reads_of_any_size", "bytes have come that are not read|none may be lost"),
    ("ReadsTooMuch", "reads_of_any_size", r"read_into\(\) was given room for 1 bytes and returned \d+"),
    ("SaysClosedForNothing", "silent_peer_gives_none", "returned 0"),
    ("SaysNothingForClosed", "the_end_comes", r"the peer has ended its side in order, and read_into\(\) does not"),
    ("WantsToWriteAlways", "idle_connection", "nothing waits to be written, and .* would wake the I/O thread"),
    ("WaitsForNothing", "silent_peer_waits", r"interest\(\) is NONE: handshake\(\) will never be called again"),
    ("SpinsInTheHandshake", "silent_peer_waits", "is ready all the time: the I/O thread would spin"),
    ("RaisesInClose", "closing_is_possible", r"close\(\) raised ConnectionFailedError.*it must never raise"),
    ("LeavesTheSocketOpen", "closing_is_possible", r"close\(\) left the socket open"),
    ("LeavesTheSocketOpen", "peer_notices", "the peer did not see that the layer has closed"),
    ("HangsUpHard", "flushed_data", r"close\(\) threw away \d+ bytes that flush\(\) said had left"),
    ("RaisesWhatItLikes", "the_end_comes", r"read_into\(\) raised ValueError.*must be an OSError or an OttlaError"),
    ("NamesOnlyTheProtocol", "details_for_the_doctor", r"cipher\(\) returned 'TLSv1.3'; it must be a tuple"),
    ("HandshakesAgain", "a_complete_handshake", r"handshake\(\) returned False after it had returned True"),
    ("ShakesForEver", "closes_or_crashes", "the handshake is not done, and nothing goes on"),
    ("ShakesForEver", "garbage_instead", "and hung up, and the layer does not report it"),
]
WRONG_OVER = [
    ("SkipsTheLowerHandshake", "chunks_of_any", "of the lower layer was called before its handshake"),
    (
        "ForgetsTheLowerFlush",
        "flush_is_true",
        r"flush\(\) said that everything has left, and \d+ of \d+ bytes are still",
    ),
    ("IgnoresTheLowerInterest", "chunks_of_any", "the handshake is not done, and nothing goes on"),
    ("HidesLowerBytes", "reads_of_any_size", r"when the layer holds some, may_read\(\) must say so"),
    ("StopsBeforeTheLowerLayer", "reads_of_any_size", "bytes have come that are not read"),
    ("ReadsWhileTheLowerLayerMayRead", "may_always_read", r"read_into\(\) blocked: it did not return within 1 s"),
    ("LeavesTheLowerLayerOpen", "closing_is_possible", r"close\(\) left the socket open"),
]

FOUND_AT_THE_LIMIT = {
    "Blocks",
    "FlushesNever",
    "ForgetsTheLowerFlush",
    "HangsUpHard",
    "HidesLowerBytes",
    "IgnoresShortWrites",
    "IgnoresTheLowerInterest",
    "LeavesTheSocketOpen",
    "LiesAboutFlush",
    "LosesWhatHasNoRoom",
    "ReadsAheadInSecret",
    "ReadsWhileTheLowerLayerMayRead",
    "SaysNothingForClosed",
    "ShakesForEver",
    "Sleeps",
    "StopsBeforeTheLowerLayer",
    "TakesTooFarAhead",
}
"""Layers that make the suite wait for something until its `timeout` is over."""


def limit(plugin: str) -> float:
    """Return seconds: few where the suite waits so long, else enough for a busy machine."""
    return 1.0 if plugin in FOUND_AT_THE_LIMIT else 90.0


@each_of(WRONG)
def test_a_broken_promise_of_a_layer_is_named(pytester: pytest.Pytester, plugin: str, test: str, said: str) -> None:
    transport = f"WrongTransport(wrong_transports.{plugin})"
    for _ in range(5):
        result = SUITE.run(pytester, transport, "-x", "-k", test, timeout=limit(plugin))
        if result.ret != pytest.ExitCode.OK:  # else the system was as quick as a reset: nothing was lost this time
            break

    assert_caught(result, said)


@each_of(WRONG_OVER)
def test_a_broken_promise_of_a_layer_over_another_is_named(
    pytester: pytest.Pytester, plugin: str, test: str, said: str
) -> None:
    transport = f"WrongOverTransport(wrong_transports.{plugin})"
    result = SUITE.run(pytester, transport, "-x", "-k", f"layer and {test}", timeout=limit(plugin))

    assert_caught(result, said)


def test_shared_state_between_connections_is_caught(pytester: pytest.Pytester) -> None:
    result = SUITE.run(pytester, "Shared()", "-x", "-k", "two_connections", timeout=1.0)

    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_invalid_targets_are_caught(pytester: pytest.Pytester) -> None:
    SUITE.assert_catches(pytester, "WrongTargets()", "targets", "it must be None or a sequence of Target")


def test_targets_without_an_address_are_caught(pytester: pytest.Pytester) -> None:
    SUITE.assert_catches(pytester, "NoTargets()", "targets", "returned no address at all; None resolves")


# `may_read` is a hint: after a read that found nothing, the core asks the socket. A layer that may always read costs
# up to one read for each response, and none while the connection is idle.
@pytest.mark.parametrize("layer", ["Right", "MayAlwaysRead"])
def test_a_layer_that_keeps_all_promises_passes(pytester: pytest.Pytester, layer: str) -> None:
    SUITE.assert_passes(pytester, f"WrongTransport(wrong_transports.{layer})")


def test_a_layer_over_another_that_keeps_all_promises_passes(pytester: pytest.Pytester) -> None:
    SUITE.assert_passes(pytester, "WrongOverTransport(wrong_transports.RightOver)")


def test_a_transport_that_takes_sockets_only_has_no_skipped_case(pytester: pytest.Pytester) -> None:
    more = FAR_END + "\n    over_layers = False"
    result = SUITE.run(pytester, "WrongTransport(wrong_transports.Right)", "-k", "contract or idle", more=more)

    result.assert_outcomes(passed=2)


def test_an_untested_form_over_layers_is_caught(pytester: pytest.Pytester) -> None:
    more = FAR_END + "\n    over_layers = False"
    result = SUITE.run(pytester, "WrongOverTransport(wrong_transports.RightOver)", "-k", "contract", more=more)

    assert_caught(result, "over_layers is False, and the transport has `open_over`")
