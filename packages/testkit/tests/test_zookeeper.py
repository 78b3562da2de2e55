import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla_testkit.kafka_cluster import KafkaCluster, admin_requests
from ottla_testkit.kafka_cluster.zookeeper import ZooKeeper
from ottla_testkit.processes.free_ports import HOST

Serve = Callable[[bytes], ZooKeeper]
DUMP = b"""\
SessionTracker dump:
Session Sets (3):
0 expire at Thu Jan 01 00:00:01 UTC 1970:
ephemeral nodes dump:
Sessions with Ephemerals (2):
0x1000:
\t/controller
\t/brokers/ids/1
0x1001:
\t/brokers/ids/12
"""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Makes a ZooKeeper whose port answers one question with these bytes."""
    with socket.create_server((HOST, 0)) as listener:
        threads: list[threading.Thread] = []

        def answer(dumped: bytes) -> None:
            connection, _ = listener.accept()
            with connection:
                if connection.recv(4) == b"dump":
                    connection.sendall(dumped)

        def start(dumped: bytes) -> ZooKeeper:
            threads.append(threading.Thread(target=answer, args=(dumped,)))
            threads[-1].start()
            return ZooKeeper(folder=tmp_path, port=listener.getsockname()[1], java=["java"])

        yield start
        for thread in threads:
            thread.join()


def test_zookeeper_reports_the_registered_brokers(serve: Serve) -> None:
    assert serve(DUMP).registered() == {1, 12}


@pytest.mark.parametrize("answer", [b"", b"This ZooKeeper instance is not currently serving requests\n"])
def test_an_unavailable_zookeeper_differs_from_one_without_brokers(serve: Serve, answer: bytes) -> None:
    with pytest.raises(ConnectionError, match="not serving yet"):
        serve(answer).registered()


@pytest.mark.thorough("the gate sends to the oldest broker in test_records_on_old_brokers.py")
@pytest.mark.kafka
@pytest.mark.slow
def test_the_oldest_broker_works_with_its_zookeeper_and_keeps_its_data() -> None:
    with KafkaCluster(version="0.10.2.2") as cluster:
        settings, folder = (cluster.folder / "zookeeper.properties").read_text(), cluster.folder
        cluster.create_topic("t", partitions=2, config={"retention.ms": 3_600_000})

        assert [cluster.leader("t", partition) for partition in (0, 1, 2)] == [1, 1, -1]
        assert cluster.end_offset("t", 1) == 0
        assert "Starting offset: 0" in cluster.dump_log("t")
        assert "started (kafka.server.KafkaServer)" in cluster.log(1)

        cluster.kill(1)
        cluster.start(1)

        assert cluster.leader("t") == 1
        assert cluster.end_offset("t") == 0

    assert not folder.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, int(re.findall(r"clientPort=(\d+)", settings)[0])))


@pytest.mark.thorough("three old nodes")
@pytest.mark.kafka
@pytest.mark.slow
def test_topics_are_created_by_another_node_without_the_controller() -> None:
    with KafkaCluster(version="2.8.2", nodes=2) as cluster:
        cluster.create_topic("before", replication=2)
        controller = admin_requests.metadata(cluster.address(1)).controller
        cluster.kill(controller)

        cluster.create_topic("after")

        assert {controller, cluster.leader("after")} == {1, 2}
