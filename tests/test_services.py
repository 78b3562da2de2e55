"""The life of a service: signals that end it, servers that fork their workers, children of `multiprocessing`."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading

import pytest

import ottla
import ottla.aio
from distance_kit import near_or_distant
from ottla.errors import IllegalStateError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.mock_cluster import MockCluster
from ottla_testkit.pytest_plugin import MakeTopic
from program_runs import HANG_GUARD, program, run
from readback import read_back

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither fork nor SIGTERM")

kafka = near_or_distant

LATE = 3_600.0
"""The delay of a broker that does not respond while a test runs."""


def values(kafka: KafkaCluster, topic: str) -> list[bytes | None]:
    return [record.value for record in read_back(kafka.bootstrap_servers, topic)]


def until_ready(child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"


def terminated(text: str, *arguments: str) -> tuple[str, str, int]:
    """The output and log of a program that gets SIGTERM once it is ready, and its exit code."""
    with program(text, *arguments) as child:
        until_ready(child)
        child.terminate()
        out, log = child.communicate(timeout=HANG_GUARD)
    return out, log, child.returncode


# Signals

SERVICE = """
    import sys, time
    import ottla
    ottla.close_on_signals(timeout={timeout})
    producer = ottla.Producer(bootstrap_servers=sys.argv[1], linger_ms=3_600_000, delivery_timeout_ms=7_200_000)
    for number in range(100):
        producer.send(sys.argv[2], b"%d" % number)
    print("ready", flush=True)
    while True:
        time.sleep(0.1)
"""


@pytest.mark.rule("producer.signals.close")
@pytest.mark.distance
@pytest.mark.kafka
def test_sigterm_sends_queued_records_before_it_ends_the_process(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    _out, log, code = terminated(SERVICE.format(timeout=60), kafka.bootstrap_servers, topic)

    assert (log, code) == ("", -signal.SIGTERM)
    assert values(kafka, topic) == [b"%d" % number for number in range(100)]


@pytest.mark.rule("producer.signals.close")
def test_sigterm_ends_the_process_within_the_time_and_counts_the_rest(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    with program(SERVICE.format(timeout=0.5), mock_cluster.bootstrap_servers, "t") as child:
        until_ready(child)
        mock_cluster.broker_down(1)
        child.terminate()
        _out, log = child.communicate(timeout=HANG_GUARD)

    assert child.returncode == -signal.SIGTERM
    assert "(made at <string>:5): the program ended without closing its producer: 0 acknowledged, 100 failed" in log


@pytest.mark.rule("producer.signals.close")
def test_a_second_sigterm_ends_the_process_at_once(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    with program(SERVICE.format(timeout=LATE), mock_cluster.bootstrap_servers, "t") as child:
        until_ready(child)
        mock_cluster.broker_down(1)
        while child.poll() is None:
            child.terminate()
            try:
                child.wait(0.2)
            except subprocess.TimeoutExpired:
                continue

    assert child.returncode == -signal.SIGTERM


@pytest.mark.rule("producer.signals.close")
def test_a_process_that_the_signal_does_not_end_exits(mock_cluster: MockCluster) -> None:
    """The first process of a container is such a one."""
    mock_cluster.create_topic("t")
    ignoring = "\n    import signal; signal.raise_signal = lambda number: None" + SERVICE.format(timeout=60)

    out, log, code = terminated(ignoring, mock_cluster.bootstrap_servers, "t")

    assert (out, log, code) == ("", "", 128 + signal.SIGTERM)


@pytest.mark.rule("producer.signals.handlers")
@pytest.mark.parametrize("order", ["before", "after"])
def test_a_signal_that_the_program_handles_is_left_alone(mock_cluster: MockCluster, order: str) -> None:
    mock_cluster.create_topic("t")
    install = "signal.signal(signal.SIGTERM, stop)"
    before, after = (install, "") if order == "before" else ("", install)

    out, log, code = terminated(
        f"""
        import signal, sys, time
        import ottla
        stopped = []
        def stop(number, frame):
            stopped.append(number)
        {before}
        ottla.close_on_signals()
        {after}
        producer = ottla.Producer(bootstrap_servers=sys.argv[1])
        print("ready", flush=True)
        while not stopped:
            time.sleep(0.01)
        print(producer.send("t", b"v").result(60).topic)  # the producer is open until the program ends
        sys.exit(3)
        """,
        mock_cluster.bootstrap_servers,
    )

    assert (out, log, code) == ("t\n", "", 3)


@pytest.mark.rule("producer.signals.handlers")
def test_an_event_loop_that_handles_sigterm_ends_in_order(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")

    out, log, code = terminated(
        """
        import asyncio, signal, sys
        import ottla
        from ottla.aio import AsyncProducer

        async def main():
            stop = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
            async with AsyncProducer(bootstrap_servers=sys.argv[1], linger_ms=3_600_000) as producer:
                delivery = await producer.send("t", b"v")
                print("ready", flush=True)
                await stop.wait()
            print((await delivery).topic)

        ottla.close_on_signals()
        asyncio.run(main())
        """,
        mock_cluster.bootstrap_servers,
    )

    assert (out, log, code) == ("t\n", "", 0)


@pytest.mark.rule("producer.signals.close")
@pytest.mark.kafka
def test_sigterm_in_an_event_loop_without_a_handler_sends_records(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    _out, log, code = terminated(
        """
        import asyncio, sys
        import ottla
        from ottla.aio import AsyncProducer

        async def main():
            producer = AsyncProducer(bootstrap_servers=sys.argv[1], linger_ms=3_600_000, delivery_timeout_ms=7_200_000)
            await producer.send(sys.argv[2], b"v")
            print("ready", flush=True)
            await asyncio.sleep(3_600)

        ottla.close_on_signals(timeout=60)
        asyncio.run(main())
        """,
        kafka.bootstrap_servers,
        topic,
    )

    assert (log, code) == ("", -signal.SIGTERM)
    assert values(kafka, topic) == [b"v"]


def test_handlers_are_refused_outside_of_the_main_thread() -> None:
    errors: list[Exception] = []
    before = signal.getsignal(signal.SIGTERM)

    def call() -> None:
        try:
            ottla.close_on_signals()
        except IllegalStateError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()

    assert len(errors) == 1
    assert signal.getsignal(signal.SIGTERM) is before


# Forks


@pytest.mark.rule("producer.fork.per-process")
@pytest.mark.kafka
def test_forked_workers_have_a_producer_each(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    log, code = run(
        """
        import os, sys
        import ottla
        get = ottla.per_process(bootstrap_servers=sys.argv[1], linger_ms=3_600_000, delivery_timeout_ms=7_200_000)
        assert get.close().acknowledged == 0  # there is none yet
        parents = get()
        parents.send(sys.argv[2], b"parent")
        children = []
        for number in range(3):
            child = os.fork()
            if child == 0:
                own = get()
                assert own is not parents and own is get()
                own.send(sys.argv[2], b"child %d" % number)
                parents.close()
                sys.exit(0 if number else get.close().acknowledged - 1)  # else the program's end closes it
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert get() is parents
        sys.exit(max(map(abs, codes)))
        """,
        kafka.bootstrap_servers,
        topic,
    )

    assert (log, code) == ("", 0)
    assert sorted(map(bytes, filter(None, values(kafka, topic)))) == [b"child 0", b"child 1", b"child 2", b"parent"]


@pytest.mark.rule("producer.fork.per-process")
@pytest.mark.kafka
def test_forked_workers_have_an_asynchronous_producer_each(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    log, code = run(
        """
        import asyncio, os, sys
        from ottla.aio import per_process
        get = per_process(bootstrap_servers=sys.argv[1], linger_ms=3_600_000, delivery_timeout_ms=7_200_000)

        async def work(value):
            assert get() is get()
            await get().send(sys.argv[2], value)
            return (await get().close()).acknowledged

        assert asyncio.run(get.close()).acknowledged == 0  # there is none yet
        parents = get()
        children = []
        for number in range(3):
            child = os.fork()
            if child == 0:
                assert get() is not parents
                sys.exit(asyncio.run(work(b"child %d" % number)) - 1)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert asyncio.run(work(b"parent")) == 1
        sys.exit(max(map(abs, codes)))
        """,
        kafka.bootstrap_servers,
        topic,
    )

    assert (log, code) == ("", 0)
    assert sorted(map(bytes, filter(None, values(kafka, topic)))) == [b"child 0", b"child 1", b"child 2", b"parent"]


@pytest.mark.rule("producer.fork.per-process")
def test_threads_that_ask_for_a_producer_at_once_share_it() -> None:
    get = ottla.per_process({"bootstrap.servers": "127.0.0.1:1"})
    together = threading.Barrier(8)
    made: list[ottla.Producer] = []

    def ask() -> None:
        together.wait(60)
        made.append(get())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    get.close(0.0)

    assert len(made) == 8
    assert len(set(made)) == 1


@pytest.mark.rule("producer.fork.per-process")
def test_the_first_call_after_close_makes_a_new_producer(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    get = ottla.per_process(bootstrap_servers=mock_cluster.bootstrap_servers)
    for offset in range(2):  # a test may start an application twice, and both times its end closes the producer
        producer = get()
        assert producer.send("t", b"v", partition=0).result(60).offset == offset
        with pytest.raises(TypeError, match="timeout"):
            get.close("soon")  # type: ignore[arg-type]  # so it is not closed
        assert get() is producer
        assert get().metrics() is not None
        assert get.close().acknowledged == 1
        assert get.close().acknowledged == 0  # there is none


@pytest.mark.rule("producer.fork.per-process")
def test_the_first_call_after_close_makes_a_new_async_producer(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    get = ottla.aio.per_process(bootstrap_servers=mock_cluster.bootstrap_servers)

    async def serve(offset: int) -> None:
        assert (await get().send_and_wait("t", b"v", partition=0)).offset == offset
        assert (await get.close()).acknowledged == 1
        assert (await get.close()).acknowledged == 0  # there is none

    asyncio.run(serve(0))
    asyncio.run(serve(1))


@pytest.mark.rule("producer.fork.per-process")
def test_a_producer_whose_close_reports_lost_records_is_replaced(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    get = ottla.per_process(bootstrap_servers=mock_cluster.bootstrap_servers, linger_ms=60_000)
    first = get()
    first.send("t", b"v", partition=0)
    with pytest.raises(ottla.UndeliveredError):
        get.close(0)

    with get() as second:
        assert second is not first
        second.send("t", b"v", partition=0)


def test_wrong_settings_are_reported_by_the_first_call_for_a_producer() -> None:
    get = ottla.per_process({"bootstrap.server": "localhost:9092"})

    for _ in range(2):
        with pytest.raises(ottla.ConfigError, match=r"did you mean .bootstrap\.servers."):
            get()


@pytest.mark.rule("producer.fork.multiprocessing")
@pytest.mark.kafka
@pytest.mark.parametrize(
    "start",
    [
        "child = fork.Process(target=send, args=('child',)); child.start(); child.join(); code = child.exitcode",
        "with ProcessPoolExecutor(1, mp_context=fork) as pool: code = pool.submit(send, 'child').result()",
        "with fork.Pool(1) as pool: code = pool.apply(send, ('child',)); pool.close(); pool.join()",
        "with fork.Pool(1, initializer=ottla.close_on_signals) as pool: code = pool.apply(send, ('child',))",
    ],
    ids=["process", "executor", "pool", "pool that is terminated"],
)
def test_a_child_of_multiprocessing_sends_its_records_at_its_end(
    kafka: KafkaCluster, make_topic: MakeTopic, start: str
) -> None:
    topic = make_topic()

    log, code = run(
        f"""
        import multiprocessing, sys
        from concurrent.futures import ProcessPoolExecutor
        import ottla
        fork = multiprocessing.get_context("fork")

        def send(value):
            global producer
            producer = ottla.Producer(
                bootstrap_servers=sys.argv[1], linger_ms=3_600_000, delivery_timeout_ms=7_200_000
            )
            producer.send(sys.argv[2], value.encode())
            return 0

        {start}
        sys.exit(code)
        """,
        kafka.bootstrap_servers,
        topic,
    )

    assert (log, code) == ("", 0)
    assert values(kafka, topic) == [b"child"]
