"""Ctrl-C at any step of `ottla send`: the counts have each record that was sent, once."""

from __future__ import annotations

import signal
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from broker_on_a_socket import SocketBroker
from interrupted_anywhere import Interruption
from long_forms import LONG

from ottla import DeliveryError, Producer
from ottla.cli.interruption import StoppedError
from ottla.cli.send import inputs
from ottla.cli.send.columns import Parts
from ottla.cli.send.counts import Counts
from ottla.cli.send.inputs import Input
from ottla.cli.send.plain import send_all
from ottla_testkit.simulation import SimulatedCluster

pytestmark = [
    pytest.mark.unmeasured,  # each step of coverage's would be one more at which to interrupt
    # Python ignores an interrupt in a function that it calls when it frees an object.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

WAIT = 20.0
STRIDE = 1 if LONG else 71
LINES = 30


def raise_ctrl_c(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupt_at_any_step_leaves_no_record_out_of_the_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "BLOCK_BYTES", 80)
    file = tmp_path / "lines"
    file.write_bytes(b"a line\n" * LINES)
    given = [Input.of(str(file), None, Parts(), None)]
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1, 1)
    broker = SocketBroker(cluster.brokers[1])
    number, counted, where = 0, set(), "the start"
    with broker.serving() as servers:
        while where:
            counts = Counts()
            with Producer(bootstrap_servers=servers) as producer:
                producer.partitions_for("t")
                interruption = Interruption(number, raise_ctrl_c)
                with suppress(KeyboardInterrupt):  # at the last steps, after everything was counted
                    interruption.during(partial(send_all, producer, "t", given, counts, flush_timeout=WAIT))
            with broker.lock:
                arrived = sum(map(len, cluster.topics["t"].log.values()))
                for log in cluster.topics["t"].logs.values():
                    log.records.clear()

            assert (counts.acknowledged, counts.in_flight) == (arrived, 0), (interruption.where, number, counts)
            where = interruption.where
            counted.add(arrived)
            number += STRIDE

    assert {0, LINES} < counted


def test_an_error_that_many_records_share_is_named_once() -> None:
    """Also: the signal that interrupted them has its name."""
    error = DeliveryError(
        f"2 rows for topic 't' were not queued: interrupted by {StoppedError(signal.SIGTERM)!r}",
        topic="t",
        partition=-1,
        attempts=0,
        possibly_persisted=False,
    )
    own = DeliveryError("too large", topic="t", partition=-1, attempts=0, possibly_persisted=False)
    failed: Any = SimpleNamespace(
        rows=3,
        done=lambda: True,
        exception=lambda: SimpleNamespace(result=SimpleNamespace(acknowledged=0, failed=3)),
        failed_rows=lambda: {0: error, 1: own, 2: error},
    )
    counts = Counts()
    block: Any = SimpleNamespace(first=7, count=3, size=30)
    counts.add(failed, "-", block)
    counts.wait()

    assert counts.failed == 3
    assert counts.failures == (
        "record 8 of -: too large",
        "record 7 of -: 2 rows for topic 't' were not queued: interrupted by SIGTERM",
    )


def test_rows_that_one_signal_has_stopped_are_named_once(tmp_path: Path) -> None:
    """They wait for room in the buffer, because the broker is gone."""

    def stop(number: int, _frame: object) -> None:
        raise StoppedError(number)

    file = tmp_path / "lines"
    file.write_bytes(b"a longer line than others\n" * 20_000)
    given = [Input.of(str(file), None, Parts(), None)]
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1, 1)
    broker, counts = SocketBroker(cluster.brokers[1]), Counts()
    with broker.serving() as servers:
        producer = Producer(bootstrap_servers=servers, buffer_memory=40_000, batch_size=10_000)
        producer.partitions_for("t")
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        ending = send_all(producer, "t", given, counts, flush_timeout=0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        producer.close(timeout=0)

    assert ending.interrupted
    stopped = [text for text in counts.failures if "interrupted by" in text]
    assert len(stopped) == 1
    assert stopped[0].endswith("rows for topic 't' were not queued: interrupted by SIGALRM")
    assert counts.failed > len(counts.failures)
