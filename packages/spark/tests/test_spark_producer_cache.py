"""The lifetime of a producer in a Python worker. No broker: a producer connects only for its first record."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ottla import Producer, ProducerClosedError, TopicUnavailableError
from ottla_spark.worker import producer_cache
from ottla_spark.worker.producer_cache import BorrowedProducer, ProducerCache
from ottla_testkit.manual_clock import ManualClock
from spark_kit import without_producers

IDLE = 300.0
HANG_GUARD = 20.0


def settings(client_id: str = "") -> dict[str, str]:
    return {"bootstrap.servers": "127.0.0.1:1", "client.id": client_id, "max.block.ms": "0"}


def used(client_id: str = "", *, idle: float = IDLE) -> Producer:
    """The producer of a task that was through without a fault."""
    with BorrowedProducer(settings(client_id), idle=idle) as borrowed:
        return borrowed.producer()


def closed(producer: Producer) -> bool:
    try:
        producer.send("t", b"", partition=0)
    except ProducerClosedError:
        return True
    except TopicUnavailableError:
        return False
    raise AssertionError("there is no broker")


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_GUARD
    while not happened():
        assert time.monotonic() < deadline, "it has not happened"
        threading.Event().wait(0.001)


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    with without_producers():
        yield


def test_equal_settings_share_a_producer() -> None:
    assert used("a") is used("a")


def test_other_settings_get_another_producer() -> None:
    assert used("a") is not used("b")


def test_a_producer_is_used_by_one_task_at_a_time() -> None:
    with BorrowedProducer(settings(), idle=IDLE) as one, BorrowedProducer(settings(), idle=IDLE) as other:
        first, second = one.producer(), other.producer()

    assert first is not second
    assert [closed(first), closed(second)] == [False, True]  # the one that was given back last stays


def test_a_task_without_rows_creates_no_producer() -> None:
    with BorrowedProducer({"bootstrap.servers": "?"}, idle=IDLE):
        pass


def test_a_producer_stays_in_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    here = used()
    child = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: child)

    with BorrowedProducer(settings(), idle=IDLE) as borrowed:
        there = borrowed.producer()
    assert there is not here


def test_surplus_producers_are_closed_least_recently_used_first() -> None:
    made = {name: used(name) for name in "abcd"}
    used("a")

    used("e")

    assert [name for name, producer in made.items() if closed(producer)] == ["b"]
    assert used("a") is made["a"]


def test_after_a_failure_the_next_task_gets_a_new_producer() -> None:
    spoilt: list[Producer] = []

    def task() -> None:
        with BorrowedProducer(settings(), idle=IDLE) as borrowed:
            spoilt.append(borrowed.producer())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        task()

    assert closed(spoilt[0])
    assert used() is not spoilt[0]


def test_a_producer_that_is_idle_for_too_long_is_closed_automatically() -> None:
    producer = used(idle=0.01)

    until(lambda: closed(producer))
    until(lambda: producer_cache._cache_of_process()._thread is None)  # whatever other caches this process has


def test_the_idle_time_of_a_producer_restarts_with_each_task() -> None:
    clock = ManualClock()
    cache = ProducerCache(clock=clock)
    producer = cache.take(settings())
    cache.put_back(producer, settings(), idle=IDLE)

    clock.advance(IDLE - 1)
    cache.close_idle()
    assert cache.take(settings()) is producer

    clock.advance(IDLE + 1)  # borrowed, it may take as long as it takes
    cache.close_idle()
    assert not closed(producer)

    cache.put_back(producer, settings(), idle=IDLE)
    clock.advance(IDLE)
    cache.close_idle()
    assert closed(producer)
    cache.empty()


def test_a_producer_is_closed_at_once_if_no_thread_could_do_so_later(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "ottla-spark-idle-producers":
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert closed(used())  # and the task has not failed

    producer = used(idle=0.01)
    until(lambda: closed(producer))


def test_an_error_of_a_close_leaves_no_other_producer_open(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    close, failed = Producer.close, list[Producer]()

    def fail_once(producer: Producer, timeout: float | None = None) -> object:
        report = close(producer, timeout)
        if not failed:
            failed.append(producer)
            raise RuntimeError("a fault")
        return report

    monkeypatch.setattr(Producer, "close", fail_once)
    cache = ProducerCache()
    producers = [cache.take(settings(name)) for name in "ab"]
    for producer, name in zip(producers, "ab", strict=True):
        cache.put_back(producer, settings(name), idle=0.01)

    until(lambda: all(closed(each) for each in producers))
    until(lambda: cache._thread is None)
    assert "a producer that is no longer used failed to close" in caplog.text
