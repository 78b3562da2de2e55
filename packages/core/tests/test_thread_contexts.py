"""Threads of Ottla have contexts of their own, also where Python starts threads with a copy of the starter's context.

Python does that without the GIL from 3.14 on, and with `-X thread_inherit_context=1`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any

import pytest
from broker_on_a_socket import SocketBroker

from machine import wait_until
from ottla import Delivery, Producer
from ottla.aio.calls import start_thread
from ottla.errors.busy_handlers import _BusyHandler
from ottla_testkit.simulation import SimulatedCluster

REQUEST: ContextVar[str] = ContextVar("REQUEST", default="no request")


@pytest.fixture(autouse=True)
def inherited_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread begins with a copy of the context that starts it."""
    start = threading.Thread.start

    def start_with_context(thread: threading.Thread) -> None:
        run, context = thread.run, copy_context()
        thread.run = lambda: context.run(run)  # type: ignore[method-assign]
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_with_context)


def in_request(name: str, work: Callable[[], Any]) -> None:
    def request() -> None:
        REQUEST.set(name)
        work()

    copy_context().run(request)


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_callbacks_do_not_see_the_context_that_made_the_producer(encoder: str) -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    seen: list[tuple[str, str]] = []
    made: list[Producer] = []

    def called(_delivery: Delivery) -> None:
        seen.append((threading.current_thread().name.rpartition("-producer-")[0], REQUEST.get()))

    with SocketBroker(cluster.brokers[1]).serving() as servers:
        in_request("first", lambda: made.append(Producer(bootstrap_servers=servers, record_encoder=encoder)))
        with made[0] as producer:
            for name in ("first", "second"):
                in_request(name, lambda: producer.send("t", b"x", on_delivery=called))
            wait_until(lambda: len(seen) == 2, timeout=60)

    assert seen == [("ottla-io-ottla", "no request")] * 2


def test_a_handler_that_writes_later_sees_the_context_of_no_line() -> None:
    seen: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(REQUEST.get())

    waiting = _BusyHandler(Handler(), str)
    waiting.add(logging.makeLogRecord({"msg": "a line"}))
    in_request("first", waiting.thread.start)
    waiting.thread.join(60)

    assert seen == ["no request"]


def test_a_flush_for_several_tasks_sees_the_context_of_none() -> None:
    seen: list[str] = []

    in_request("first", lambda: start_thread("flush", lambda: seen.append(REQUEST.get())))
    wait_until(lambda: bool(seen), timeout=60)

    assert seen == ["no request"]
