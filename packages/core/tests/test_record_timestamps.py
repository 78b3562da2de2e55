"""Timestamps of records: milliseconds since 1970, or datetimes with a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from ottla import InvalidRecordError
from ottla.interfaces import ProducerRecord
from ottla_testkit.mock_producer import MockProducer
from simulated_producer import simulated

NOON = 1_769_860_800_000  # 2026-01-31T12:00:00Z


@pytest.mark.parametrize(
    ("given", "milliseconds"),
    [
        (datetime(2026, 1, 31, 12, tzinfo=UTC), NOON),
        (datetime(2026, 1, 31, 13, tzinfo=timezone(timedelta(hours=1))), NOON),
        (datetime(2026, 1, 31, 12, 0, 0, 999, tzinfo=UTC), NOON),
        (datetime(2026, 1, 31, 12, 0, 0, 1999, tzinfo=UTC), NOON + 1),
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 253_402_300_799_999),
    ],
)
@pytest.mark.parametrize("encoder", ["python", "native"])
def test_a_datetime_becomes_milliseconds(given: datetime, milliseconds: int, encoder: str) -> None:
    if encoder == "native":
        pytest.importorskip("ottla_accel", exc_type=ImportError)
    with MockProducer(record_encoder=encoder, timestamp_after_max_ms=None) as producer:
        producer.send("orders", b"v", timestamp_ms=given)
        producer.send("orders", b"v", timestamp_ms=given, partition=0)

        assert [sent.timestamp_ms for sent in producer.history] == [milliseconds] * 2


def test_a_datetime_of_pandas_becomes_milliseconds() -> None:
    pandas: Any = pytest.importorskip("pandas")
    with MockProducer() as producer:
        producer.send("orders", b"v", timestamp_ms=pandas.Timestamp("2026-01-31T12:00:00.001999999Z"))

        assert producer.history[0].timestamp_ms == NOON + 1


def test_a_datetime_without_a_time_zone_is_refused_with_what_helps() -> None:
    with (
        MockProducer() as producer,
        pytest.raises(InvalidRecordError, match=r"has no time zone: pass datetime.now\(UTC\), or astimezone\(\)"),
    ):
        producer.send("orders", b"v", timestamp_ms=datetime.now())


def test_the_missing_time_of_pandas_is_refused() -> None:
    pandas: Any = pytest.importorskip("pandas")
    with MockProducer() as producer, pytest.raises(InvalidRecordError, match="timestamp_ms=NaT is no time"):
        producer.send("orders", b"v", timestamp_ms=pandas.NaT)


def test_a_datetime_before_1970_is_refused() -> None:
    with MockProducer() as producer, pytest.raises(InvalidRecordError, match="must be an int from 0 to"):
        producer.send("orders", b"v", timestamp_ms=datetime(1969, 12, 31, tzinfo=UTC))


def test_interceptors_get_milliseconds() -> None:
    seen: list[object] = []

    class Noting:
        ottla_spec = 2

        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            seen.append(record.timestamp_ms)
            return record

    with simulated(1, plugins={"interceptors": {"noting": Noting()}}) as simulation:
        simulation.producer.send("t", b"v", timestamp_ms=datetime(2026, 1, 31, 12, tzinfo=UTC))

    assert seen == [NOON]
