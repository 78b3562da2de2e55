"""Methods of plugins that hang under the lock of a producer's queues: `flush` and `close` end in time all the same.

Real threads, and a broker in this process.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from documents import ROOT, blocks
from ottla import DeliveryError, FlushTimeoutError, Producer, UndeliveredError
from ottla.concurrency.environment import SYSTEM
from ottla.errors.own_threads import OwnThread
from ottla.producer.interceptors import Interceptors
from ottla.producer.table_interceptors import TableInterceptors
from ottla_testkit.mock_cluster import MockCluster

pytestmark = pytest.mark.slow

WAIT: Final = 60.0
LEEWAY: Final = 8.0  # for a busy machine
SHORT: Final = 0.3

Made = Callable[..., Producer]


class Hanging:
    """A place in a plugin that hangs once it is armed, until the end of the test."""

    def __init__(self) -> None:
        self.armed = False
        self.entered = threading.Event()
        self.released = threading.Event()

    def pause(self) -> None:
        """Hang if it is armed."""
        if self.armed:
            self.entered.set()
            assert self.released.wait(WAIT)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.released.set()


@pytest.fixture
def make(mock_cluster: MockCluster, hanging: Hanging) -> Iterator[Made]:
    """Make producers, which have sent a record before the plugin is armed."""
    mock_cluster.create_topic("t", partitions=4)
    made: list[Producer] = []

    def make(**settings: Any) -> Producer:
        producer = Producer({"bootstrap.servers": mock_cluster.bootstrap_servers, **settings})
        made.append(producer)
        producer.send("t", b"before", b"k")
        producer.flush(WAIT)  # it does not wait for linger.ms
        hanging.armed = True
        return producer

    yield make
    hanging.released.set()
    for producer in made:
        producer._lifecycle._io_thread.join(WAIT)


def columns_of(hanging: Hanging) -> Any:
    """A partitioner of columns that hangs."""

    class Columns:
        def partition(self, topic: str, key: bytes | None, view: Any) -> int:
            return 0

        def partition_column(self, topic: str, keys: Sequence[bytes], view: Any) -> Sequence[int]:
            hanging.pause()
            return [0] * len(keys)

    return Columns()


def encoder_of(hanging: Hanging) -> Any:
    """The encoder of the guide, whose `append` hangs."""
    [code] = (block.text for block in blocks(ROOT / "docs" / "plugins-encoder.md") if "class ListColumns" in block.text)
    names: dict[str, Any] = {}
    exec(code, names)

    columns: Any = names["ListColumns"]
    encoder: Any = names["ListEncoder"]

    class Columns(columns):  # type: ignore[misc]  # of the guide
        def append(self, *record: Any) -> Any:
            hanging.pause()
            return super().append(*record)

    class Encoder(encoder):  # type: ignore[misc]  # of the guide
        def columns(self, kind: object, limit: int) -> Any:
            return Columns(limit)

    return Encoder()


def ends_in_time(call: Callable[[float], object]) -> BaseException | None:
    """Call it with a short time-out, in which it has to end; return what it raised."""
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(call, SHORT).exception(WAIT)
    assert time.monotonic() - began < SHORT + LEEWAY
    return error


@pytest.mark.rule("producer.plugins.hanging")
def test_a_producer_closes_while_a_partitioner_hangs(
    make: Made, hanging: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    producer = make(**{"partitioner.class": columns_of(hanging), "record.encoder": "python", "linger.ms": 1})
    failed: list[Exception | None] = []
    delivery = producer.send("t", b"value", b"k", on_delivery=lambda each: failed.append(each.exception()))
    assert hanging.entered.wait(WAIT)

    flushed = ends_in_time(producer.flush)
    assert isinstance(flushed, FlushTimeoutError)
    assert ends_in_time(producer.close) is None  # the callback has retrieved the error
    assert isinstance(delivery.exception(WAIT), DeliveryError)
    until(lambda: failed)
    assert f"its I/O thread has not ended and is at {threading.__file__}" in caplog.text
    assert re.search(f"in wait, called from {re.escape(__file__)}:[0-9]+ in pause", caplog.text)


@pytest.mark.rule("producer.plugins.hanging")
def test_a_close_reports_records_whose_callbacks_get_no_thread(
    make: Made, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the interpreter's exit, where CPython 3.12 starts no thread."""
    start = OwnThread.start

    def refuse_callbacks(thread: OwnThread) -> None:
        if thread.name in ("ottla-callbacks", "ottla-interceptors"):
            raise RuntimeError("can't create new thread at interpreter shutdown")
        start(thread)

    monkeypatch.setattr(OwnThread, "start", refuse_callbacks)
    producer = make()
    producer.send("t", b"value", partition=0, on_delivery=lambda _delivery: hanging.pause())
    assert hanging.entered.wait(WAIT)
    later = [producer.send("t", b"value", partition=p % 4, on_delivery=lambda _delivery: None) for p in range(10)]

    error = ends_in_time(producer.close)
    assert isinstance(error, UndeliveredError)
    assert "10 records failed and their errors were never retrieved" in str(error)
    assert all(delivery.exception(0) for delivery in later)


@pytest.mark.rule("producer.plugins.hanging")
@pytest.mark.parametrize("where", ["interceptor", "callback"])
def test_callbacks_get_their_errors_while_an_interceptor_hangs(make: Made, hanging: Hanging, where: str) -> None:
    class Interceptor:
        outcomes = 0

        def on_send(self, record: Any) -> Any:
            return record

        def on_acknowledgement(self, metadata: Any, error: Exception | None, context: Any) -> None:
            self.outcomes += 1
            hanging.pause()

    interceptor = Interceptor()
    producer = make(**{"interceptor.classes": [interceptor]})
    on_delivery = (lambda _delivery: hanging.pause()) if where == "callback" else None
    producer.send("t", b"value", partition=0, on_delivery=on_delivery)
    assert hanging.entered.wait(WAIT)
    failed: list[str] = []
    for partition in (1, 1, 2):
        producer.send("t", b"later", partition=partition, on_delivery=lambda each: failed.append(str(each.error)))
    calls = interceptor.outcomes

    assert ends_in_time(producer.close) is None  # the callbacks retrieve the errors
    until(lambda: len(failed) == 3)
    assert all("its I/O thread was blocked at" in error for error in failed)
    assert interceptor.outcomes <= calls + 1  # it hangs in that call, too

    hanging.released.set()
    until(lambda: interceptor.outcomes == calls + 3)


@pytest.mark.rule("producer.plugins.hanging")
def test_outcomes_of_tables_are_given_apart_from_callbacks_too() -> None:
    threads: list[str] = []

    class Interceptor:
        def on_send(self, record: Any) -> Any:
            return record

        def on_acknowledgement(self, metadata: Any, error: Exception | None, context: Any) -> None:
            raise AssertionError("there are no records")

        def on_send_table(self, rows: Any) -> Any:
            return rows

        def on_table_acknowledgement(self, *outcome: Any) -> None:
            threads.append(threading.current_thread().name)

    interceptors = Interceptors({"mine": Interceptor()}, environment=SYSTEM)
    table = TableInterceptors(interceptors, "t", formatted=False)
    table.report(None, ValueError("the table cannot be read"))
    interceptors.set_apart()
    table.report(None, ValueError("the table cannot be read"))

    until(lambda: threads == [threading.current_thread().name, "ottla-interceptors"])


@pytest.mark.rule("producer.plugins.hanging")
def test_a_close_calls_no_partitioner_itself(make: Made, hanging: Hanging) -> None:
    producer = make(**{"partitioner.class": columns_of(hanging), "record.encoder": "python", "linger.ms": 2_000})
    delivery = producer.send("t", b"value", b"k")

    assert isinstance(ends_in_time(producer.close), UndeliveredError)
    assert isinstance(delivery.exception(WAIT), DeliveryError)


@pytest.mark.rule("producer.plugins.hanging")
def test_a_producer_closes_while_an_encoder_hangs_in_another_send(
    make: Made, hanging: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    producer = make(**{"record.encoder": encoder_of(hanging), "linger.ms": 5_000, "batch.size": 1_000_000})
    hanging.armed = False
    queued = producer.send("t", b"value", b"k")
    hanging.armed = True
    sender = threading.Thread(target=lambda: producer.send("t", b"value", b"k"), daemon=True)
    sender.start()
    assert hanging.entered.wait(WAIT)

    assert isinstance(ends_in_time(producer.close), UndeliveredError)
    assert isinstance(queued.exception(WAIT), DeliveryError)
    assert re.search(f"in wait, called from {re.escape(__file__)}:[0-9]+ in pause", caplog.text)


@pytest.mark.rule("producer.plugins.hanging")
def test_a_round_that_returns_after_the_close_is_no_fault_of_its_own(
    make: Made, hanging: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    class Watching:
        def start(self, registry: Any) -> None:
            registry.subscribe(lambda *_value: hanging.pause())

        def close(self) -> None:
            """Nothing."""

    producer = make(**{"metric.reporters": [Watching()], "linger.ms": 5})
    for partition in range(4):
        producer.send("t", b"value", partition=partition)
    assert hanging.entered.wait(WAIT)

    assert isinstance(ends_in_time(producer.close), UndeliveredError)
    hanging.released.set()
    producer._lifecycle._io_thread.join(WAIT)
    assert [each.name for each in caplog.records if each.levelname == "ERROR"] == ["ottla.producer.lifecycle"]


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)
