"""Each suite fails a plugin with one broken method in a sentence that names the method, and ends in time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import attrs
import pytest
from broken_plugins import FAULTS, RESULTS
from long_forms import LONG, share
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
IN_SHORT: Final = 2
"""Faults of each method in the short form, at least."""

EVERY: Final = tuple(FAULTS)
NOT_A_RESULT: Final = tuple(fault for fault in FAULTS if fault not in RESULTS)
WITHOUT_ARGUMENTS: Final = tuple(fault for fault in NOT_A_RESULT if fault != "takes no argument")
CLOSE: Final = tuple(fault for fault in WITHOUT_ARGUMENTS if fault != "never returns")
"""Faults of `close`. One that never returns is tested with one kind: the suites of most kinds share that test."""


@attrs.frozen
class Kind:
    """A kind's suite, the lines that its class needs, and the faults of each method."""

    suite: str
    subject: str
    methods: dict[str, tuple[str, ...]]
    more: str = ""
    tests: str = "test_"


KINDS: Final = {
    "partitioner": Kind(
        "PartitionerConformance",
        "partitioner",
        {"partition": EVERY, "partition_column": EVERY, "appended": NOT_A_RESULT, "close": CLOSE},
    ),
    "compressor": Kind("CompressorConformance", "compressor", {"compress": EVERY, "decompress": EVERY, "close": CLOSE}),
    "serializer": Kind("SerializerConformance", "serializer", {"serialize": EVERY, "close": CLOSE}, JSON),
    "interceptor": Kind(
        "InterceptorConformance",
        "interceptor",
        {
            "on_send": EVERY,
            "on_acknowledgement": NOT_A_RESULT,
            "on_send_table": EVERY,
            "on_table_acknowledgement": NOT_A_RESULT,
            "close": WITHOUT_ARGUMENTS,
        },
    ),
    "reporter": Kind("MetricsReporterConformance", "reporter", {"start": NOT_A_RESULT, "close": WITHOUT_ARGUMENTS}),
    "authenticator": Kind(
        "AuthenticatorConformance",
        "mechanism",
        {"authenticator": EVERY, "start": EVERY, "challenge": EVERY, "close": CLOSE},
        BROKER,
    ),
    "encoder": Kind(
        "RecordEncoderConformance",
        "encoder",
        {"columns": EVERY, "encode": EVERY, "memory": NOT_A_RESULT, "keys": EVERY, "close": CLOSE},
    ),
    "transport": Kind(
        "TransportConformance",
        "transport",
        {
            "targets": EVERY[1:],
            "open": EVERY,
            "handshake": EVERY,
            "write": EVERY,
            "read_into": EVERY[1:],
            "close": CLOSE,
        },
        PEER,
        tests="targets or contract or silent_peer or idle",
    ),
    "config_provider": Kind(
        "ConfigProviderConformance", "provider", {"get": EVERY, "close": CLOSE}, "path, keys = 'here', ('password',)"
    ),
}

FIRST_CALLS: Final = {
    **{(kind, "close"): "test_close_ends_background_work" for kind in KINDS},
    ("partitioner", "partition"): "test_every_partition_is_in_range_for_any_topic",
    ("partitioner", "partition_column"): "test_many_keys_at_once_have_the_partitions_of_single_keys",
    ("partitioner", "appended"): "test_a_topic_that_grows_or_shrinks_is_seen_in_its_current_state",
    ("compressor", "compress"): "test_compressed_data_is_decompressed",
    ("compressor", "decompress"): "test_compressed_data_is_decompressed",
    ("serializer", "serialize"): "test_null_remains_null",
    ("interceptor", "on_send"): "test_every_record_can_be_sent",
    ("interceptor", "on_acknowledgement"): "test_every_call_returns_at_once",
    ("interceptor", "on_send_table"): "test_rows_of_every_kind_can_be_sent",
    ("interceptor", "on_table_acknowledgement"): "test_every_outcome_of_a_table_is_accepted",
    ("reporter", "start"): "test_it_starts_and_closes_at_once_without_an_error",
    ("reporter", "close"): "test_it_starts_and_closes_at_once_without_an_error",
    ("authenticator", "authenticator"): "test_every_connection_has_its_own_exchange",
    ("authenticator", "start"): "test_any_broker_name_is_accepted_or_refused_with_a_message",
    ("authenticator", "challenge"): "test_an_honest_broker_accepts_the_login",
    ("encoder", "columns"): "test_it_has_all_attributes_of_the_contract",
    ("encoder", "encode"): "test_every_call_makes_its_own_columns",
    ("encoder", "memory"): "test_further_records_are_taken_while_they_fit",
    ("encoder", "keys"): "test_keys_are_those_that_were_appended",
    ("transport", "targets"): "test_targets_are_none_or_a_sequence_of_targets",
    ("transport", "open"): "test_a_silent_peer_gives_none_and_not_the_end",
    ("transport", "handshake"): "test_a_silent_peer_gives_none_and_not_the_end",
    ("transport", "write"): "test_a_silent_peer_gives_none_and_not_the_end",
    ("transport", "read_into"): "test_a_silent_peer_gives_none_and_not_the_end",
    ("config_provider", "get"): "test_it_returns_strings_for_existing_keys",
}
"""The first test of a suite that calls a method. It alone is run for late methods, and for one that never returns.

The tests before it would take time of the suite's limit, more on a busy machine, and the limit could end one of them.
"""


def variants() -> Iterator[tuple[str, str, str]]:
    """Each method with each fault; in the short form each method with some faults, and each fault with each kind."""
    for name, kind in KINDS.items():
        methods = {method: [*faults] for method, faults in kind.methods.items()}
        unseen = set() if LONG else {fault for faults in methods.values() for fault in faults}
        for method, faults in methods.items():
            for number, fault in enumerate(sorted(faults, key=lambda fault: fault not in unseen)):
                if LONG or number < IN_SHORT or (fault in unseen and method == _last_with(methods, fault)):
                    unseen.discard(fault)
                    yield name, method, fault


def _last_with(methods: dict[str, list[str]], fault: str) -> str:
    return next(method for method in reversed(methods) if fault in methods[method])


VARIANTS: Final = share(
    (pytest.param(*each) for each in variants()), gate=40, why="the gate has other faults of the same methods"
)


@pytest.mark.parametrize(("name", "method", "fault"), VARIANTS, ids=lambda each: str(each).replace(" ", "-"))
def test_a_broken_method_is_named_by_its_suite(pytester: pytest.Pytester, name: str, method: str, fault: str) -> None:
    kind = KINDS[name]
    made = f"broken_plugins.plugin({name!r}, {method!r}, {fault!r})"
    hangs = fault == "never returns"
    more = f"time_limit = {1.5 if hangs else 30.0}\n    {kind.more}"
    alone = hangs or method in ("close", "keys")
    arguments = ("-x", "-k", FIRST_CALLS[name, method] if alone else kind.tests)
    timeout = 1.0 if hangs else 30.0
    result = run_suite(pytester, kind.suite, kind.subject, made, *arguments, more=more, timeout=timeout)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert re.search(rf"^.*\b{method}\b.*$", first_failure(result), re.MULTILINE), result.stdout.str()


def first_failure(result: pytest.RunResult) -> str:
    """The message of the first failure, without the name of the test."""
    return "\n".join(line for line in result.stdout.lines if "test_it.py" not in line)
