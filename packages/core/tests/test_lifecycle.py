"""A producer ends once, whatever is in the way: locks that others hold, threads that cannot start, its neighbours."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Iterator

import pytest
from broker_on_a_socket import SocketBroker

from machine import wait_until
from ottla import Producer, ProducerClosedError, UndeliveredError
from ottla.accumulator.raising_callbacks import raising_callbacks
from ottla.producer import lifecycle
from ottla_testkit.simulation import SimulatedCluster

HANG_GUARD = 60.0


@pytest.fixture
def producer() -> Iterator[Producer]:
    """A producer whose brokers cannot be reached."""
    with Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=0) as producer:
        yield producer


def test_a_dropped_producer_waits_for_no_lock(producer: Producer) -> None:
    """The collector may find it on the I/O thread itself, which holds one just then."""
    engine = producer._engine
    dropped = threading.Thread(target=producer._lifecycle.abandon)

    with producer._accumulator._lock, engine.metadata._changed:
        dropped.start()
        dropped.join(HANG_GUARD)
        assert not dropped.is_alive()

    assert engine.io_thread.join(HANG_GUARD)


def test_a_dropped_producer_counts_the_callbacks_that_no_line_has(
    producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        try:
            raise KeyError("fault")
        except KeyError:
            raising_callbacks.line(failed=False)

    producer._lifecycle.abandon()

    assert producer._engine.io_thread.join(HANG_GUARD)
    [line] = [each for each in caplog.messages if "no line has counted yet" in each]
    assert "; 2 more callbacks: 2 at " in line


def test_a_close_that_ends_in_time_reports_no_problem(producer: Producer, caplog: pytest.LogCaptureFixture) -> None:
    producer.close(HANG_GUARD)

    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_producer_whose_thread_cannot_start_is_not_closed_at_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    before = set(lifecycle._open)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            Producer(bootstrap_servers="127.0.0.1:1")

    assert lifecycle._open == before


def test_a_producer_that_cannot_be_closed_at_exit_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Producer(bootstrap_servers="127.0.0.1:1") as broken, Producer(bootstrap_servers="127.0.0.1:1") as other:
        with monkeypatch.context() as patch, caplog.at_level(logging.DEBUG, logger="ottla.producer.lifecycle"):
            patch.setattr(lifecycle, "_open", {broken._lifecycle, other._lifecycle})
            patch.setattr(broken._lifecycle, "_report", lambda: 1 / 0)
            lifecycle.close_all(lifecycle.AT_EXIT_SECONDS)

        reported = [record.getMessage() for record in caplog.records]
        ended = "the program ended without closing its producer: 0 acknowledged, 0 failed, 0 pending"
        assert "a producer could not be closed at the program's end" in reported
        assert any(line.endswith(ended) for line in reported)
        assert all(producer._engine.io_thread.join(0) for producer in (broken, other))


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C does not end the wait for a lock there")
def test_ctrl_c_in_the_wait_of_a_close_leaves_the_rest_to_the_exit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A program that catches it, or ends with it, still has its producer closed at its end, and its losses logged."""
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    broker = SocketBroker(cluster.brokers[1])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    main = threading.get_ident()

    def interrupt() -> None:
        wait_until(lambda: closing._lifecycle.refusal is not None, timeout=HANG_GUARD)
        signal.pthread_kill(main, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    try:
        with broker.serving() as servers:
            closing = Producer(bootstrap_servers=servers)
            monkeypatch.setattr(lifecycle, "_open", {closing._lifecycle})
            closing.send("t", b"acknowledged").result(HANG_GUARD)
            with broker.lock:  # it reads requests, and does not respond
                closing.send("t", b"lost")
                interrupting.start()
                with pytest.raises(KeyboardInterrupt):
                    closing.close()
                interrupting.join(HANG_GUARD)
                lifecycle.close_all(0.0)
    finally:
        signal.signal(signal.SIGINT, before)

    [line] = [each for each in caplog.messages if "the program ended without closing its producer" in each]
    assert "1 acknowledged, 1 failed, 0 pending" in line


def test_a_close_with_less_time_ends_one_that_waits(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    broker = SocketBroker(cluster.brokers[1])

    def close(timeout: float) -> None:
        with contextlib.suppress(UndeliveredError):
            made.close(timeout)

    with broker.serving() as servers:
        made = Producer(bootstrap_servers=servers)
        made.send("t", b"acknowledged").result(HANG_GUARD)
        with broker.lock:  # it reads requests, and does not respond
            made.send("t", b"lost")
            waiting = threading.Thread(target=close, args=(HANG_GUARD,))
            waiting.start()
            wait_until(lambda: made._lifecycle.refusal is not None, timeout=HANG_GUARD)
            close(0)
            waiting.join(HANG_GUARD / 2)
            assert not waiting.is_alive()

    assert "its I/O thread has not ended" not in caplog.text


@pytest.mark.parametrize("timeout", [-5.0, float("inf")])
def test_a_timeout_may_be_any_number(timeout: float) -> None:
    producer = Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=0)

    assert producer.flush(timeout).pending == 0
    assert producer.close(timeout).pending == 0


@pytest.mark.parametrize("method", ["send", "send_table"])
def test_each_call_of_a_closed_producer_gets_an_error_of_its_own(producer: Producer, method: str) -> None:
    producer.close(0)
    errors = []
    for _ in range(2):
        with pytest.raises(ProducerClosedError) as raised:
            getattr(producer, method)(*{"send": ("t", b"v"), "send_table": ("t", [])}.get(method, ()))
        errors.append(raised.value)
        raised.value.add_note("mine")

    assert errors[0] is not errors[1]
    assert all(error.__notes__ == ["mine"] for error in errors)
