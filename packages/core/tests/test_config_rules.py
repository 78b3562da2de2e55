"""Rules between several keys."""

from __future__ import annotations

import logging

import pytest

from ottla.config import ConfigDraft, ProducerConfig
from ottla.errors import ConfigError


def config(**keywords: object) -> ProducerConfig:
    return ConfigDraft.read({"bootstrap.servers": "kafka:9092"}, keywords).finish()


def problems(**keywords: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        config(**keywords)
    return caught.value.problems


def test_a_delivery_timeout_too_short_for_one_attempt_is_refused() -> None:
    [problem] = problems(delivery_timeout_ms=1000, request_timeout_ms=1000, linger_ms=1)

    assert "delivery.timeout.ms=1000 is below linger.ms=1 + request.timeout.ms=1000" in problem


def test_a_delivery_timeout_of_exactly_one_attempt_is_accepted() -> None:
    assert config(delivery_timeout_ms=1001, request_timeout_ms=1000, linger_ms=1).delivery.delivery_timeout == 1.001


def test_a_default_delivery_timeout_is_raised_with_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="ottla.config"):
        read = config(request_timeout_ms=200_000)

    [line] = caplog.messages
    assert read.delivery.delivery_timeout == 200.005
    assert line.startswith("delivery.timeout.ms is 200005 instead of 120000, because")


def test_both_timeouts_may_be_infinite() -> None:
    forever = 2**31 - 1

    assert forever / 1000 == (config(delivery_timeout_ms=forever, request_timeout_ms=forever).delivery.delivery_timeout)


PAIRS = [
    ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
    ("retry_backoff_ms", "retry_backoff_max_ms"),
    ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
    ("batch_size", "buffer_memory"),
    ("max_request_size", "buffer_memory"),
]


@pytest.mark.parametrize(("low", "high"), PAIRS)
def test_two_contradicting_values_are_refused_and_both_named(low: str, high: str) -> None:
    settings = {"batch_size": 1, "max_request_size": 1, low: 101, high: 100}
    [problem] = problems(**settings)

    assert f"{low.replace('_', '.')}=101 is above {high.replace('_', '.')}=100" in problem


@pytest.mark.parametrize(("low", "high"), PAIRS)
def test_equal_values_do_not_contradict_each_other(low: str, high: str) -> None:
    config(**{"batch_size": 1, "max_request_size": 1, low: 100, high: 100})


def test_a_default_maximum_is_raised_to_a_larger_minimum() -> None:
    assert config(reconnect_backoff_ms=5000).connection.reconnect_backoff_max == 5.0


def test_a_default_minimum_is_lowered_to_a_smaller_maximum() -> None:
    assert config(retry_backoff_max_ms=20).delivery.retry_backoff == 0.02


def test_default_sizes_are_lowered_to_a_smaller_memory() -> None:
    batching = config(buffer_memory=1000).batching

    assert (batching.batch_size, batching.max_request_size) == (1000, 1000)


def test_memory_is_never_raised_automatically() -> None:
    [problem] = problems(max_request_size=50_000_000)

    assert "max.request.size=50000000 is above buffer.memory=33554432" in problem


def test_an_invalid_value_starts_no_contradiction() -> None:
    [problem] = problems(request_timeout_ms="x", delivery_timeout_ms=10)

    assert problem.startswith("request.timeout.ms: 'x'")


def test_no_line_is_logged_for_a_refused_configuration(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="ottla.config"):
        problems(request_timeout_ms=200_000, acks=9)

    assert caplog.messages == []


@pytest.mark.parametrize("rack", [{}, {"client_rack": ""}, {"client_rack": "  "}])
def test_a_rack_aware_partitioner_needs_the_rack_of_the_client(rack: dict[str, str]) -> None:
    [problem] = problems(partitioner_rack_aware=True, **rack)

    assert problem.startswith("partitioner.rack.aware=true needs a client.rack")


def test_a_client_rack_alone_changes_nothing() -> None:
    assert not config(client_rack="zone-a").partitioning.rack_aware
    assert config(client_rack="zone-a", partitioner_rack_aware=True).partitioning.rack == "zone-a"
