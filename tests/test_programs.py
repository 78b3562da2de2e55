"""Whole programs: how they end, how much memory they take, what becomes of a producer after a fork."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap

import pytest
from long_forms import share

from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

HANG_GUARD = 300.0
MEBIBYTE = 1024 * 1024


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; what it prints is kept."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=HANG_GUARD,
        check=False,
    )


@pytest.mark.rule("producer.exit.silent")
@pytest.mark.kafka
def test_a_program_without_close_loses_nothing_and_logs_nothing(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    done = run(
        """
        import sys
        from ottla import Producer
        producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=5000)
        for number in range(1000):
            producer.send(sys.argv[2], b"%d" % number)
        """,
        kafka.bootstrap_servers,
        topic,
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(read_back(kafka.bootstrap_servers, topic)) == 1_000


@pytest.mark.kafka
def test_a_dropped_producer_sends_its_records(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    done = run(
        """
        import gc, logging, sys, threading
        from ottla import Producer
        logging.basicConfig(level=logging.DEBUG)
        producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=5000)
        producer.send(sys.argv[2], b"kept")
        del producer
        gc.collect()
        for thread in threading.enumerate():
            if thread.name.startswith("ottla-io"):
                thread.join(60)
        """,
        kafka.bootstrap_servers,
        topic,
    )

    assert done.returncode == 0, done.stderr
    assert "a producer was dropped without being closed: 1 acknowledged" in done.stderr
    assert [record.value for record in read_back(kafka.bootstrap_servers, topic)] == [b"kept"]


def test_a_program_whose_cluster_is_gone_still_ends() -> None:
    done = run(
        """
        import sys
        from ottla import Producer, TopicUnavailableError
        producer = Producer(bootstrap_servers=sys.argv[1], max_block_ms=100)
        try:
            producer.send("t", b"v")
        except TopicUnavailableError:
            print("refused")
        """,
        "127.0.0.1:9",
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "refused\n"


@pytest.mark.rule("producer.fork")
@pytest.mark.kafka
def test_after_a_fork_the_child_gets_an_error_and_the_parent_continues(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()

    done = run(
        """
        import os, sys
        from ottla import Producer, ProducerClosedError
        producer = Producer(bootstrap_servers=sys.argv[1])
        producer.send(sys.argv[2], b"before").result(60)
        child = os.fork()
        if child == 0:
            assert producer.close().pending == 0  # does nothing
            for call in (lambda: producer.send(sys.argv[2], b"child"), producer.flush):
                try:
                    call()
                except ProducerClosedError as error:
                    assert "forked" in str(error) and "ottla.per_process" in str(error)
                else:
                    os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        producer.send(sys.argv[2], b"after").result(60)
        producer.close()
        sys.exit(os.waitstatus_to_exitcode(status))
        """,
        kafka.bootstrap_servers,
        topic,
    )

    assert done.returncode == 0, done.stderr
    assert [record.value for record in read_back(kafka.bootstrap_servers, topic)] == [b"before", b"after"]


MEMORY = """
    import os
    import sys
    from ottla import BufferExhaustedError, Producer

    def resident():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

    servers, topic, size, count, buffer_memory = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
    with Producer(bootstrap_servers=servers, buffer_memory=buffer_memory, max_block_ms=20_000) as producer:
        for _ in range(20_000):
            producer.send(topic, bytes(10))
        producer.flush(60)
        before = most = resident()
        print("ready", flush=True)
        sys.stdin.readline()
        sent = refused = 0
        try:
            for sent in range(count):
                producer.send(topic, bytes(bytearray(size)))
                if sent % 1_000 == 0:
                    most = max(most, resident())
        except BufferExhaustedError:
            refused = 1
        most = max(most, resident())
        print(most - before, sent + 1, refused, flush=True)
        if refused:
            os._exit(0)  # the broker is frozen: there is nothing to wait for
        producer.flush(120)
"""


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("size", share([10, 100, 10_000], gate=1, why="the gate has one size of records"))
def test_memory_is_bounded_by_buffer_memory_when_the_broker_hangs(spare_kafka: KafkaCluster, size: int) -> None:
    buffer_memory = 64 * MEBIBYTE
    spare_kafka.create_topic("t", partitions=4)
    program = textwrap.dedent(MEMORY).replace("max_block_ms=20_000", "max_block_ms=500")
    arguments = [spare_kafka.bootstrap_servers, "t", str(size), "100000000", str(buffer_memory)]
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        spare_kafka.pause(1)
        out, _err = child.communicate("go\n", timeout=HANG_GUARD)
        spare_kafka.resume(1)

    growth, sent, refused = map(int, out.split())
    assert refused == 1
    assert sent * size <= buffer_memory
    assert growth <= buffer_memory + 64 * MEBIBYTE


@pytest.mark.thorough("the gate has a broker that hangs")
@pytest.mark.kafka
@pytest.mark.slow
def test_memory_is_bounded_while_a_send_loop_is_faster_than_the_broker(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    buffer_memory = 32 * MEBIBYTE
    topic = make_topic(partitions=4)
    program = textwrap.dedent(MEMORY)
    arguments = [kafka.bootstrap_servers, topic, "1000", "300000", str(buffer_memory)]

    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        input="go\n",
        capture_output=True,
        text=True,
        timeout=HANG_GUARD,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    growth, sent, refused = map(int, re.findall(r"\d+", done.stdout))
    assert (sent, refused) == (300_000, 0)
    assert growth <= buffer_memory + 64 * MEBIBYTE
