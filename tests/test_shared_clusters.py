"""Clusters that tests share: what a test did to one is gone for the next, and a broken one is replaced."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from clusters_by_version import ClustersByVersion
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource  # type: ignore[attr-defined]
from long_forms import share
from restored_cluster import restore
from shared_clusters import SHARED, UNREACHABLE, Shared, in_turns, shared_names

from distance_kit import DISTANT, Generation
from ottla import Producer
from ottla_testkit.errors import ClusterError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.admin_requests import metadata
from ottla_testkit.kafka_cluster.features import TRANSACTION_VERSION, feature_level, set_feature
from ottla_testkit.proxy import CuttingProxy
from readback import read_back
from transactions_kit import await_in_sync, coordinator, new_id, transactional

WAIT = 60.0
THREADS = "num.io.threads"
NO_CALL = SimpleNamespace(params={})


class Fake:
    """A cluster that notes what is done to it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.broken = False
        self.nodes = [1]

    @contextlib.contextmanager
    def started(self) -> Iterator[Fake]:
        self.events.append("started")
        yield self
        self.events.append("closed")

    def restore(self) -> None:
        self.events.append("restored")
        if self.broken:
            raise ClusterError("node 1 is not ready")

    def log(self, node: int) -> str:
        return f"line of node {node}\n[{UNREACHABLE}] node 2 could not be reached\nlast line\n"


def shared(fake: Fake) -> Shared[Fake]:
    kafka: Any = fake
    return Shared("fake", fake.started, restore=Fake.restore, kafka=lambda _fake: kafka)


def test_a_shared_cluster_is_started_once_and_restored_after_each_test() -> None:
    fake = Fake()
    cluster = shared(fake)
    assert fake.events == []

    for _ in range(2):
        with cluster.lent() as lent:
            assert lent is fake
    cluster.close()

    assert fake.events == ["started", "restored", "restored", "closed"]


def test_a_cluster_that_cannot_be_restored_is_replaced_and_that_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    fake = Fake()
    cluster = shared(fake)
    fake.broken = True
    with cluster.lent():
        pass
    fake.broken = False
    with cluster.lent():
        pass
    cluster.close()

    assert fake.events == ["started", "restored", "closed", "started", "restored", "closed"]
    assert cluster.thrown_away == ["it could not be restored: node 1 is not ready"]
    assert "fake is closed, and the next test gets a new one: it could not be restored" in caplog.text


def test_a_failed_test_leaves_evidence_and_the_next_gets_a_new_cluster() -> None:
    fake = Fake()
    cluster = shared(fake)
    with cluster.lent(failed=lambda: True):
        assert cluster.evidence() == [("fake, node 1", "line of node 1\nlast line")]
    assert cluster.evidence() == []
    with pytest.raises(ZeroDivisionError), cluster.lent():
        raise ZeroDivisionError
    cluster.close()

    assert fake.events == ["started", "closed", "started", "closed"]
    assert len(cluster.thrown_away) == 2


def test_a_cluster_that_no_later_test_uses_is_closed_and_not_restored() -> None:
    fake = Fake()
    with shared(fake).lent(last=lambda: True):
        pass

    assert fake.events == ["started", "closed"]


def test_modules_that_share_clusters_run_one_after_the_other() -> None:
    three, spare = ["three_kafkas"], ["spare_kafka"]
    none: list[str] = []
    tests = [
        ("a", three), ("a", none), ("b", none), ("c", spare), ("d", ["kafka"]),
        ("e", three), ("f", three), ("f", spare), ("g", none), ("h", spare),
    ]  # fmt: skip
    items: list[Any] = [SimpleNamespace(nodeid=f"{name}::test", fixturenames=names) for name, names in tests]

    found = in_turns(items)

    assert [item.nodeid[0] for item in found] == list("chffaaebdg")
    assert [item for item in found if item.nodeid[0] == "f"] == [items[6], items[7]]
    assert in_turns(items[1:2]) == items[1:2]


def test_modules_with_brokers_of_other_versions_run_one_after_the_other() -> None:
    old = Generation("3.9.1")
    items: list[Any] = [
        SimpleNamespace(nodeid="a::test", fixturenames=["broker"], callspec=SimpleNamespace(params={"broker": old})),
        SimpleNamespace(nodeid="b::test", fixturenames=["kafka", "distance"]),
        SimpleNamespace(nodeid="c::test", fixturenames=["old_kafka"], callspec=SimpleNamespace(params={})),
        SimpleNamespace(nodeid="d::test", fixturenames=[], callspec=SimpleNamespace(params={"distance": DISTANT})),
        SimpleNamespace(nodeid="e::test", fixturenames=["old_kafka"]),
    ]

    assert [item.nodeid[0] for item in in_turns(items)] == list("adceb")


def test_a_broker_of_a_version_is_closed_after_its_last_test() -> None:
    closed: list[str] = []
    clusters: ClustersByVersion[str] = ClustersByVersion(key=lambda item: item.nodeid if item.nodeid in "ab" else None)
    items: list[Any] = [SimpleNamespace(nodeid=nodeid) for nodeid in "abxa"]
    clusters.count(items)
    for item in items:
        if item.nodeid != "x":
            clusters.running[item.nodeid] = cast(
                "KafkaCluster", SimpleNamespace(close=partial(closed.append, item.nodeid))
            )
        clusters.leave(item)
        closed.append(f"after {item.nodeid}")

    assert closed == ["after a", "b", "after b", "after x", "a", "after a"]


def test_a_broker_is_closed_if_what_is_expected_of_it_is_not_so() -> None:
    closed: list[str] = []

    def refuse(_key: str, _cluster: KafkaCluster) -> None:
        raise ZeroDivisionError

    clusters: ClustersByVersion[str] = ClustersByVersion(key=lambda item: item.nodeid, before_close=refuse)
    clusters.running["a"] = cast("KafkaCluster", SimpleNamespace(close=partial(closed.append, "a")))
    with pytest.raises(ZeroDivisionError):
        clusters.close()

    assert closed == ["a"]
    assert clusters.running == {}


def test_the_broker_of_the_session_has_no_parameter_that_would_restart_it(request: pytest.FixtureRequest) -> None:
    parametrized = [item for item in request.session.items if "kafka" in getattr(item, "callspec", NO_CALL).params]

    assert parametrized == []


@pytest.mark.kafka
def test_the_shared_clusters_of_this_test_are_known(request: pytest.FixtureRequest, spare_kafka: KafkaCluster) -> None:
    assert shared_names(request.node) == ["spare_kafka"]
    assert SHARED["spare_kafka"].starts >= 1
    [(title, log)] = SHARED["spare_kafka"].evidence()
    assert title == "spare_kafka, node 1"
    # The evidence leaves lines out, so it is no part of the log as a whole.
    assert log.splitlines()
    assert set(log.splitlines()) <= set(spare_kafka.log(1).splitlines())


def setting(kafka: KafkaCluster, node: int) -> str:
    """The number of a node's I/O threads."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    [described] = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(node))]).values()
    value: str = described.result(WAIT)[THREADS].value
    return value


def set_threads(kafka: KafkaCluster, node: int, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    entry = ConfigEntry(THREADS, str(count), incremental_operation=AlterConfigOpType.SET)
    place = ConfigResource(ConfigResource.Type.BROKER, str(node), incremental_configs=[entry])
    [done] = admin.incremental_alter_configs([place]).values()
    done.result(WAIT)


@pytest.mark.thorough("the gate restores one node")
@pytest.mark.kafka
@pytest.mark.slow
def test_every_change_to_three_nodes_is_undone(three_kafkas: KafkaCluster) -> None:
    name = new_id()
    before = setting(three_kafkas, 2)
    with transactional(three_kafkas, name) as producer:
        three_kafkas.create_topic("t", partitions=3, replication=3)
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"v")
        await_in_sync(three_kafkas, "t", "__transaction_state")
        set_threads(three_kafkas, 2, int(before) + 1)
    set_feature(three_kafkas.address(1), TRANSACTION_VERSION, 0)
    first, last = three_kafkas.address(1), three_kafkas.address(3)
    three_kafkas.kill(1)
    three_kafkas.move(1)
    three_kafkas.pause(3)

    restore(three_kafkas)

    assert three_kafkas.running == three_kafkas.nodes
    assert three_kafkas.address(1) != first
    assert three_kafkas.address(3) == last
    assert [setting(three_kafkas, 2), feature_level(three_kafkas.address(1), TRANSACTION_VERSION)] == [before, 2]
    for node in three_kafkas.nodes:
        known = metadata(three_kafkas.address(node), topic="t")
        assert known.brokers == set(three_kafkas.nodes)
        assert known.partitions == {}
        internal = metadata(three_kafkas.address(node), topic="__transaction_state").partitions.values()
        assert all(each.in_sync == each.replicas == set(three_kafkas.nodes) for each in internal)
        assert {each.leader for each in internal} == set(three_kafkas.nodes)
    assert coordinator(three_kafkas, name) in three_kafkas.nodes
    three_kafkas.create_topic("again", partitions=3, replication=3, config={"min.insync.replicas": 3})
    with Producer(bootstrap_servers=three_kafkas.bootstrap_servers) as producer:
        for partition in range(3):
            assert producer.send("again", b"again", partition=partition).result(WAIT).offset == 0
    assert len(read_back(three_kafkas.bootstrap_servers, "again", partitions=3)) == 3


@pytest.mark.kafka
@pytest.mark.parametrize("damage", share(["frozen", "killed", "stopped"], gate=1, why="the gate kills the node"))
def test_a_spare_node_serves_again_after_it_was(spare_kafka: KafkaCluster, damage: str) -> None:
    spare_kafka.create_topic("t")
    {"frozen": spare_kafka.pause, "stopped": spare_kafka.stop, "killed": spare_kafka.kill}[damage](1)

    restore(spare_kafka)

    assert spare_kafka.leader("t") == -1
    spare_kafka.create_topic("t")
    with Producer(bootstrap_servers=spare_kafka.bootstrap_servers) as producer:
        assert producer.send("t", b"v").result(WAIT).offset == 0


@pytest.mark.kafka
@pytest.mark.parametrize("number", [1, 2])
def test_each_test_has_a_proxy_of_its_own(proxied_kafka: tuple[KafkaCluster, CuttingProxy], number: int) -> None:
    """Also after one that refuses every connection."""
    kafka, proxy = proxied_kafka
    kafka.create_topic("t")
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        assert producer.send("t", b"%d" % number).result(WAIT).offset == 0
    assert proxy.cuts == 0
    proxy.hold()
    proxy.refuse()


@pytest.mark.thorough("a fake cluster fails in the gate")
@pytest.mark.kafka
def test_a_node_that_cannot_be_restored_is_an_error(spare_kafka: KafkaCluster) -> None:
    spare_kafka.kill(1)

    with pytest.MonkeyPatch.context() as patch:  # not a fixture, which would last until after the real restore
        patch.setattr("ottla_testkit.kafka_cluster.readiness.READY_WITHIN", 0.2)
        with pytest.raises(ClusterError, match="node 1 is not ready"):
            restore(spare_kafka)
