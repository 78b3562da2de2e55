"""The soak notices records without an outcome, and what a thread that ended early has sent."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ottla import BufferExhaustedError
from ottla_testkit.mock_producer import MockProducer

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


def soak_of(client: ModuleType) -> Any:
    return client.Soak(
        servers="", topic="t", partitions=2, threads=1, size=20, encoder="python", full_seconds=1, seconds=1, share=1.0
    )


def problems(*, sent: int, acknowledged: int, errors: dict[str, int]) -> list[str]:
    """The problems of a soak whose reader found nothing."""
    client, results = importlib.import_module("soak_client"), importlib.import_module("soak_result")
    checked = importlib.import_module("soak_reader").Checked(read=sent, lost=0, repeated=0, examples=[])
    total = client.Total(sent=[sent], acknowledged=acknowledged, failed=0, errors=errors, rate=1.0)
    result = results.Result(soak=soak_of(client), seconds=[], faults=[], total=total, checked=checked)
    return list(results.problems(result))


def test_a_callback_that_never_came_is_a_problem() -> None:
    assert problems(sent=10, acknowledged=10, errors={}) == []
    assert problems(sent=10, acknowledged=8, errors={}) == ["2 records without an outcome"]


def test_a_call_that_failed_is_a_problem() -> None:
    failed = "close: FlushTimeoutError: too late"

    assert problems(sent=10, acknowledged=10, errors={failed: 1}) == [failed]


def test_a_thread_whose_send_fails_has_sent_what_went_before() -> None:
    client = importlib.import_module("soak_client")
    with MockProducer(partitions=2) as producer:
        sent = 0

        def send(*arguments: Any, **options: Any) -> Any:
            nonlocal sent
            sent += 1
            if sent > 7:
                raise BufferExhaustedError("no memory")
            return MockProducer.send(producer, *arguments, **options)

        producer.send = send  # type: ignore[method-assign]
        load = client.Load(producer, soak_of(client))
        load.start()
        load.end()

    assert load.sent == [7]
    assert load.acknowledged == 7
    assert load.errors == {"send: BufferExhaustedError: no memory": 1}


def test_a_record_beyond_those_sent_hides_no_lost_one() -> None:
    reader = importlib.import_module("soak_reader").Reader(2)
    value = importlib.import_module("soak_client").value_of
    for offset, number in enumerate((0, 2, 4)):
        reader.take(0, offset, value(0, number, 20))

    assert reader.checked([2]).lost == 1  # number 1, of partition 1
