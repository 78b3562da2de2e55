"""Settings of a hostile broker, as the driver reads and shows them. No Spark, no broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla_spark.exactly_once.broker_limits import longest_timeout_ms
from ottla_spark.exactly_once.errors import LedgerMismatchError
from ottla_spark.exactly_once.ledger.topic import LedgerTopic

HOSTILE = "\x1b[2J\nforged line\u202e" + "A" * 30_000


class Asked:
    """Answers each question with these settings."""

    def __init__(self, **values: str | None) -> None:
        settings = [DescribeConfigsResourceResult(name=name, value=value) for name, value in values.items()]
        self._answer = DescribeConfigsResponse(results=[DescribeConfigsResult(configs=settings)])

    def ask(self, *_: object) -> DescribeConfigsResponse:
        """See BlockingClient."""
        return self._answer

    def until_answered(self, _what: str, ask: Callable[[], Any], code_of: Callable[[Any], ErrorCode]) -> Any:
        """See BlockingClient."""
        found = ask()
        assert code_of(found) is ErrorCode.NONE
        return found


def test_a_broker_setting_of_the_ledger_topic_is_quoted_within_bounds() -> None:
    client: Any = Asked(**{"cleanup.policy": HOSTILE})

    with pytest.raises(LedgerMismatchError) as caught:
        LedgerTopic(name="t", partitions=1, replication=1).check(client)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(("name", "value"), [("cleanup.policy", "delete"), ("compression.type", "lz4")])
def test_a_ledger_topic_that_would_lose_its_entries_is_refused(name: str, value: str) -> None:
    settings = {"cleanup.policy": "compact", "compression.type": "producer"}
    topic = LedgerTopic(name="t", partitions=1, replication=1)
    usual: Any = Asked(**settings)
    topic.check(usual)
    client: Any = Asked(**{**settings, name: value})

    with pytest.raises(LedgerMismatchError, match=f"'t' has {name}={value}: .*. Set it to {settings[name]}"):
        topic.check(client)


@pytest.mark.parametrize(
    ("said", "limit"),
    [("900000", 900_000), (HOSTILE, None), ("", None), ("-5", None), ("9" * 5_000, None), (None, None)],
)
def test_a_limit_that_is_not_a_number_counts_as_unknown(said: str | None, limit: int | None) -> None:
    client: Any = Asked(**{"transaction.max.timeout.ms": said})

    assert longest_timeout_ms(client, 1) == limit
