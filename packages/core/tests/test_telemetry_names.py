"""The names of metrics in telemetry, which subscriptions are about."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.errors import ErrorCode, ProtocolError
from ottla.metrics.catalogue import METRICS
from ottla.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from ottla.sender.telemetry.error_actions import TelemetryErrorAction, telemetry_error_action
from ottla.sender.telemetry.metric_names import telemetry_attributes, telemetry_name
from ottla.sender.telemetry.states import NEXT_STATES, TelemetryState
from ottla.sender.telemetry.subscription import Subscription, read_subscription, uuid_text
from telemetry_kit import REQUIRED

ASSIGNED = bytes(range(16))


def subscription_to(*metrics: str, **others: object) -> Subscription:
    """The subscription in a response of a broker."""
    return read_subscription(
        GetTelemetrySubscriptionsResponse(
            client_instance_id=ASSIGNED,
            requested_metrics=list(metrics),
            **others,  # type: ignore[arg-type]
        )
    )


def test_the_metrics_that_kip_714_requires_are_there_under_its_names() -> None:
    assert {telemetry_name(metric.group, metric.name) for metric in METRICS} >= REQUIRED


@pytest.mark.parametrize(
    ("group", "name", "expected"),
    [
        ("producer-metrics", "record-send-total", "org.apache.kafka.producer.record.send.total"),
        ("producer-topic-metrics", "byte-rate", "org.apache.kafka.producer.topic.byte.rate"),
        ("producer-node-metrics", "request-latency-avg", "org.apache.kafka.producer.node.request.latency.avg"),
        ("app-info", "start-time-ms", "org.apache.kafka.app.info.start.time.ms"),
        ("application", "Cache-Hits", "org.apache.kafka.application.cache.hits"),
    ],
)
def test_a_name_is_made_of_group_and_name_as_in_java(group: str, name: str, expected: str) -> None:
    assert telemetry_name(group, name) == expected


def test_attributes_have_underscores_and_no_client_id() -> None:
    tags = (("client-id", "me"), ("node-id", "node-1"), ("Own-Tag", "A-b"))

    assert telemetry_attributes(tags) == (("node_id", "node-1"), ("own_tag", "A-b"))


@pytest.mark.parametrize(
    ("prefixes", "wanted"),
    [
        ([], []),
        (["*"], ["org.a.b", "org.c"]),
        ([""], ["org.a.b", "org.c"]),
        (["org.a"], ["org.a.b"]),
        (["org.c", "org.a.b"], ["org.a.b", "org.c"]),
        (["org.x"], []),
        (["*", "org.c"], ["org.c"]),
        (["ORG.C"], []),
    ],
)
def test_a_subscription_is_a_list_of_prefixes(prefixes: Sequence[str], wanted: list[str]) -> None:
    subscription = subscription_to(*prefixes)

    assert [name for name in ("org.a.b", "org.c") if subscription.wants(name)] == wanted
    assert subscription.empty == (not prefixes)


@pytest.mark.parametrize(
    ("interval_ms", "seconds"),
    [(99, 0.1), (1, 0.1), (60_000, 60.0), (2**31 - 1, 3600.0), (0, 300.0), (-1, 300.0)],
)
def test_an_interval_is_within_the_bounds_that_kafka_has(interval_ms: int, seconds: float) -> None:
    assert subscription_to("*", push_interval_ms=interval_ms).push_interval == seconds


def test_a_subscription_without_a_client_instance_id_is_refused() -> None:
    with pytest.raises(ProtocolError, match="assigned no client instance id"):
        read_subscription(GetTelemetrySubscriptionsResponse())


def test_a_uuid_is_written_as_kafka_writes_it() -> None:
    assert uuid_text(ASSIGNED) == "AAECAwQFBgcICQoLDA0ODw"


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, TelemetryErrorAction.ASK_NOW),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, TelemetryErrorAction.ASK_NOW),
        (ErrorCode.TELEMETRY_TOO_LARGE, TelemetryErrorAction.ASK_LATER),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, TelemetryErrorAction.ASK_LATER),
        (ErrorCode.INVALID_REQUEST, TelemetryErrorAction.STOP),
        (ErrorCode.INVALID_RECORD, TelemetryErrorAction.STOP),
        (ErrorCode.UNSUPPORTED_VERSION, TelemetryErrorAction.STOP),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, TelemetryErrorAction.STOP),
        (ErrorCode.UNKNOWN_SERVER_ERROR, TelemetryErrorAction.STOP),
    ],
)
def test_the_reaction_to_each_error_is_that_of_java(code: ErrorCode, action: TelemetryErrorAction) -> None:
    assert telemetry_error_action(code) is action


def test_every_state_has_successors_and_the_end_has_none() -> None:
    assert NEXT_STATES.keys() == set(TelemetryState)
    assert not NEXT_STATES[TelemetryState.TERMINATED]
    for state in set(TelemetryState) - {TelemetryState.TERMINATED}:
        assert TelemetryState.TERMINATED in NEXT_STATES[state]
