"""Programs that end in hard ways: in an error, with their broker gone, in a child."""

from __future__ import annotations

import textwrap

import pytest

from distance_kit import near_or_distant
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.mock_cluster import MockCluster
from ottla_testkit.pytest_plugin import MakeTopic
from program_runs import HANG_GUARD, program, run
from readback import read_back

kafka = near_or_distant

LOST = """
    import sys
    from ottla import Producer
    producer = Producer(
        bootstrap_servers=sys.argv[1],
        client_id="shop",
        delivery_timeout_ms=4000,
        request_timeout_ms=1000,
        undelivered_exit_code=int(sys.argv[2]),
    )
    producer.send("t", b"before").result(60)
    print("ready", flush=True)
    sys.stdin.readline()
    deliveries = [producer.send("t", b"lost") for _ in range(10)]
"""
CTRL_C = """
    import os, signal, threading
    signal.signal(signal.SIGINT, signal.default_int_handler)  # behind a terminal it is ignored
    ctrl_c = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    ctrl_c.daemon = True  # else the program's end would wait for it first
    ctrl_c.start()
"""


def without_brokers(mock_cluster: MockCluster, *parts: str, exit_code: int = 0) -> tuple[str, str, int]:
    """The output and log of a program and its exit code: it has ten records that cannot reach a broker."""
    mock_cluster.create_topic("t")
    text = "".join(map(textwrap.dedent, (LOST, *parts)))
    with program(text, mock_cluster.bootstrap_servers, str(exit_code)) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        for broker in mock_cluster.brokers:
            mock_cluster.broker_down(broker)
        out, log = child.communicate("go\n", timeout=HANG_GUARD)
    return out, log, child.returncode


@pytest.mark.distance
@pytest.mark.kafka
@pytest.mark.parametrize("last_words", ["raise ValueError('on purpose')", "sys.exit(3)"])
def test_a_program_that_ends_with_an_error_delivers_its_records(
    kafka: KafkaCluster, make_topic: MakeTopic, last_words: str
) -> None:
    topic = make_topic()

    log, code = run(
        f"""
        import sys
        from ottla import Producer
        with Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000) as producer:
            producer.send(sys.argv[2], b"kept")
            {last_words}
        """,
        kafka.bootstrap_servers,
        topic,
    )

    assert code == (3 if "exit" in last_words else 1)
    assert ("ValueError: on purpose" in log) == ("raise" in last_words)
    assert [record.value for record in read_back(kafka.bootstrap_servers, topic)] == [b"kept"]


@pytest.mark.rule("producer.exit.silent")
def test_a_program_without_brokers_ends_and_counts_lost_records(mock_cluster: MockCluster) -> None:
    _out, log, code = without_brokers(mock_cluster)

    reported = [line for line in log.splitlines() if "without closing" in line]
    assert code == 0
    assert len(reported) == 1
    assert reported[0].startswith("shop (made at <string>:4): the program ended without closing its producer: ")
    assert "1 acknowledged, 10 failed, 0 pending" in reported[0]
    assert "first error: a batch of 10 records for topic 't', partition 0 was not delivered" in reported[0]


@pytest.mark.kafka
def test_a_forked_child_may_create_its_own_producer(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    log, code = run(
        """
        import os, sys
        from ottla import Producer
        servers, topic = sys.argv[1:]
        parents = Producer(bootstrap_servers=servers, linger_ms=1000)
        parents.send(topic, b"parent")
        child = os.fork()
        if child == 0:
            with Producer(bootstrap_servers=servers) as own:
                own.send(topic, b"child").result(60)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        parents.close()
        sys.exit(os.waitstatus_to_exitcode(status))
        """,
        kafka.bootstrap_servers,
        topic,
    )

    assert (log, code) == ("", 0)
    found = {record.value for record in read_back(kafka.bootstrap_servers, topic)}
    assert found == {b"parent", b"child"}


@pytest.mark.kafka
def test_a_child_that_exits_neither_sends_nor_waits_for_parent_records(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()

    log, code = run(
        """
        import os, sys
        from ottla import Producer
        servers, topic = sys.argv[1:]
        producer = Producer(bootstrap_servers=servers, linger_ms=60_000)
        producer.send(topic, b"parent")
        child = os.fork()
        if child == 0:
            sys.exit(0)  # runs the child's atexit functions
        _, status = os.waitpid(child, 0)
        producer.close()
        sys.exit(os.waitstatus_to_exitcode(status))
        """,
        kafka.bootstrap_servers,
        topic,
    )

    assert (log, code) == ("", 0)
    assert [record.value for record in read_back(kafka.bootstrap_servers, topic)] == [b"parent"]


def test_close_after_an_interrupted_close_waits_again_and_reports(mock_cluster: MockCluster) -> None:
    out, _log, code = without_brokers(
        mock_cluster,
        CTRL_C,
        """
        from ottla import UndeliveredError
        try:
            producer.close()
        except KeyboardInterrupt:
            print("interrupted")
        try:
            producer.close()
        except UndeliveredError as undelivered:
            print(undelivered.report)
        """,
    )

    assert (out.splitlines(), code) == (["interrupted", "1 acknowledged, 10 failed, 0 pending"], 0)


def test_a_close_interrupted_by_ctrl_c_is_completed_at_exit(mock_cluster: MockCluster) -> None:
    _out, log, code = without_brokers(mock_cluster, CTRL_C, "producer.close()")

    assert code != 0
    assert "KeyboardInterrupt" in log
    assert "the program ended without closing its producer: 1 acknowledged, 10 failed, 0 pending" in log


def test_ctrl_c_at_exit_drops_records_and_reports_them(mock_cluster: MockCluster) -> None:
    _out, log, _code = without_brokers(mock_cluster, CTRL_C)

    reported = (
        "the program was interrupted while its producer had records to send: 1 acknowledged, 10 failed, 0 pending"
    )
    assert reported in log


def test_a_child_gets_an_error_for_records_of_its_parent(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")

    log, code = run(
        """
        import os, sys
        from ottla import DeliveryError, Producer
        with Producer(bootstrap_servers=sys.argv[1], linger_ms=1000) as producer:
            delivery = producer.send("t", b"parent")
            child = os.fork()
            if child == 0:
                try:
                    delivery.result()
                except DeliveryError as error:
                    sys.exit(0 if "forked" in str(error) else 1)  # through the end of the block
                sys.exit(2)
            _, status = os.waitpid(child, 0)
            delivery.result(60)
        sys.exit(os.waitstatus_to_exitcode(status))
        """,
        mock_cluster.bootstrap_servers,
    )

    assert (log, code) == ("", 0)


def test_a_producer_dropped_at_exit_is_reported_once(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")

    log, code = run(
        """
        import logging, sys
        from ottla import Producer
        logging.basicConfig(level=logging.DEBUG, format="%(message)s")
        logging.getLogger("ottla").setLevel(logging.ERROR)
        logging.getLogger("ottla.producer.lifecycle").setLevel(logging.DEBUG)
        def work():
            producer = Producer(bootstrap_servers=sys.argv[1], client_id="shop")
            producer.send("t", b"v")
        work()
        """,
        mock_cluster.bootstrap_servers,
    )

    dropped = "a producer was dropped without being closed: 1 acknowledged, 0 failed, 0 pending"
    assert (log, code) == (f"shop (made at <string>:8): {dropped}\n", 0)


@pytest.mark.rule("producer.exit.code")
def test_a_program_that_lost_records_ends_with_the_chosen_exit_code(mock_cluster: MockCluster) -> None:
    out, log, code = without_brokers(
        mock_cluster,
        """
        import atexit
        atexit.register(lambda: print("registered later, and so called before"))
        sys.exit(3)
        """,
        exit_code=7,
    )

    assert code == 7
    assert "1 acknowledged, 10 failed, 0 pending" in log
    assert out == "registered later, and so called before\n"


@pytest.mark.rule("producer.exit.code")
@pytest.mark.parametrize(
    ("handle", "ends"), [("for each in deliveries: each.exception(60)", 0), ("producer.close()", 1)]
)
def test_errors_that_the_program_has_seen_do_not_change_its_exit_code(
    mock_cluster: MockCluster, handle: str, ends: int
) -> None:
    _out, log, code = without_brokers(mock_cluster, handle, exit_code=7)

    assert code == ends
    assert "without closing" not in log


@pytest.mark.rule("producer.exit.code", "producer.close.exception")
@pytest.mark.parametrize("leaves", ["sys.exit(0)", "raise KeyError"])
def test_a_with_block_that_loses_records_sets_the_exit_code(mock_cluster: MockCluster, leaves: str) -> None:
    block = f"""
        import os
        try:
            with producer:
                {leaves}
        except KeyError:  # nothing prints it
            pass
        if os.fork() == 0:
            sys.exit(0)  # it has lost nothing
        print("the child ended with", os.waitstatus_to_exitcode(os.wait()[1]))
        """
    if leaves == "sys.exit(0)":
        block = f"""
        with producer:
            {leaves}
        """
    out, log, code = without_brokers(mock_cluster, block, exit_code=7)

    assert code == 7
    assert "an exception left the with block of the producer: 10 records failed and their errors were never" in log
    assert out == ("" if leaves == "sys.exit(0)" else "the child ended with 0\n")


@pytest.mark.rule("producer.exit.code")
def test_a_program_that_lost_nothing_keeps_its_exit_code(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")

    log, code = run(
        """
        import sys
        from ottla import Producer
        producer = Producer(bootstrap_servers=sys.argv[1], undelivered_exit_code=7)
        producer.send("t", b"v")
        sys.exit(3)
        """,
        mock_cluster.bootstrap_servers,
    )

    assert (log, code) == ("", 3)
