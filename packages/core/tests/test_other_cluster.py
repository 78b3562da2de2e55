"""Brokers that belong to another cluster at once: what is acknowledged is in the log that records go to."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat

import attrs
import pytest
from broker_on_a_socket import SocketBroker

from machine import wait_until
from ottla import (
    Delivery,
    DeliveryError,
    FatalTransactionError,
    Producer,
    TransactionTimeoutError,
    UndeliveredError,
)
from ottla.errors import TransactionError
from ottla.network.cluster import NO_LEADER
from ottla.protocol import METADATA, PRODUCE
from ottla_testkit.simulation import SimulatedBroker, SimulatedCluster
from wrong_peers import serving

HANG_GUARD = 20.0

OTHERS = 12
"""Records of another producer in the second cluster: as many numbers of its producer id are taken there."""


def cluster(name: str | None, *, topics_before: int = 0, broker: int = 1, topic: str = "t") -> SimulatedCluster:
    """A cluster of one broker with one topic, whose id depends on the number of topics before it."""
    made = SimulatedCluster.of(broker)
    made.id = name
    for number in range(topics_before):
        made.create(f"before-{number}", broker)
    made.create(topic, broker)
    return made


def taken(cluster: SimulatedCluster, *, topic: str = "t", records: int = OTHERS) -> SocketBroker:
    """Its one broker, whose first producer id has sent records."""
    [broker] = cluster.brokers.values()
    with SocketBroker(broker).serving() as servers, Producer(bootstrap_servers=servers) as other:
        for number in range(records):
            other.send(topic, b"other %d" % number).result(20)
    return SocketBroker(broker)


@attrs.define
class Moved:
    """An address whose broker is that of cluster "first", and of cluster "second" from `move` on."""

    address: SocketBroker
    second: SimulatedCluster

    def move(self) -> None:
        """End all connections: those that are made again lead to the other cluster."""
        self.second.address = self.address.broker.cluster.address
        with self.address.lock:
            [self.address.broker] = self.second.brokers.values()
        for peer in self.address.sockets:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)

    @property
    def values(self) -> list[bytes | None]:
        with self.address.lock:
            return [record.value for record in self.second.topics["t"].log[0]]


class LoadBalancer:
    """Each connection leads to the next of the clusters, and the last one again and again."""

    def __init__(self, brokers: Mapping[str, SocketBroker], leads: str) -> None:
        self._brokers = brokers
        self._leads = chain(leads, repeat(leads[-1]))
        self._peers: list[socket.socket] = []

    def serve(self, peer: socket.socket) -> None:
        self._peers.append(peer)
        self._brokers[next(self._leads)].serve(peer)

    def cut(self) -> None:
        """End all connections."""
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def moved(request: pytest.FixtureRequest) -> Iterator[tuple[Moved, str]]:
    """The address, whose second cluster has given the same producer id to another producer.

    With the parameter "same id" the second one is named as the first one, and only its topics have other ids.
    """
    second = cluster("first" if getattr(request, "param", None) == "same id" else "second", topics_before=1)
    taken(second)
    address = SocketBroker(cluster("first").brokers[1])
    with address.serving() as servers:
        yield Moved(address, second), servers


def made(servers: str, **settings: object) -> Producer:
    return Producer(
        {"bootstrap.servers": servers, "delivery.timeout.ms": 20_000, "request.timeout.ms": 5_000, **settings}
    )


def until_in_flight(producer: Producer) -> None:
    """Wait until a request waits for its response."""
    wait_until(lambda: producer.metrics("requests-in-flight") > 0, timeout=HANG_GUARD)


def send(producer: Producer, prefix: bytes, count: int = 10, *, topic: str = "t") -> list[Delivery]:
    """Records one after the other, each in its own batch."""
    deliveries = []
    for number in range(count):
        deliveries.append(producer.send(topic, prefix + b"%d" % number))
        deliveries[-1].result(20)
    return deliveries


@pytest.mark.rule("metadata.again.other", "metadata.again.topics")
@pytest.mark.parametrize(
    ("moved", "said"),
    [
        ("another id", "of another cluster now, 'second', and were those of 'first'"),
        ("same id", "no topic in use has kept its id (t): their cluster was set up again"),
    ],
    indirect=["moved"],
)
@pytest.mark.parametrize("pause", [0.0, 0.3])
def test_every_acknowledged_record_is_in_the_log_of_the_other_cluster(
    moved: tuple[Moved, str], said: str, pause: float, caplog: pytest.LogCaptureFixture
) -> None:
    place, servers = moved
    with caplog.at_level("WARNING"), made(servers) as producer:
        send(producer, b"before ")
        place.move()
        time.sleep(pause)
        deliveries = send(producer, b"after ")

    assert place.values[OTHERS:] == [b"after %d" % number for number in range(10)]
    assert [delivery.result(0).offset for delivery in deliveries] == list(range(OTHERS, OTHERS + 10))
    lines = [record.getMessage() for record in caplog.records]
    assert sum(said in line for line in lines) == 1


@pytest.mark.rule("metadata.again.other", "metadata.again.topics")
@pytest.mark.parametrize("name", ["second", "first"])
def test_a_broker_with_the_id_0_is_asked_for_its_cluster_too(name: str) -> None:
    second = cluster(name, topics_before=1, broker=0)
    taken(second)
    address = SocketBroker(cluster("first", broker=0).brokers[0])
    with address.serving() as servers, made(servers) as producer:
        send(producer, b"before ")
        Moved(address, second).move()
        send(producer, b"after ")

    assert [record.value for record in second.topics["t"].log[0]][OTHERS:] == [b"after %d" % n for n in range(10)]


@pytest.mark.rule("metadata.again.unused")
@pytest.mark.parametrize("moved", ["same id"], indirect=True)
def test_a_producer_id_without_records_ends_with_the_connections(moved: tuple[Moved, str]) -> None:
    place, servers = moved
    first = place.address.broker.cluster.transactions
    given = first.next_id
    with made(servers) as producer:
        wait_until(lambda: first.next_id > given and not producer.metrics("requests-in-flight"), timeout=HANG_GUARD)
        place.move()  # no topic is known that would have another id there
        send(producer, b"after ")

    assert place.values[OTHERS:] == [b"after %d" % number for number in range(10)]


@pytest.mark.rule("metadata.again.unused")
def test_a_producer_id_without_records_is_kept_with_the_connection() -> None:
    living = cluster("first")
    given = living.transactions.next_id
    with SocketBroker(living.brokers[1]).serving() as servers, made(servers) as producer:
        wait_until(lambda: living.transactions.next_id > given, timeout=HANG_GUARD)
        send(producer, b"after ", count=3)

    assert living.transactions.next_id == given + 1


@pytest.mark.rule("metadata.again.only-new")
@pytest.mark.parametrize("pause", [0.0, 0.3])
def test_records_of_a_new_topic_are_in_the_cluster_that_has_no_other(pause: float) -> None:
    second = cluster("first", topic="new")  # the topic before is created later, or never
    taken(second, topic="new", records=3)
    address = SocketBroker(cluster("first").brokers[1])
    with address.serving() as servers, made(servers) as producer:
        send(producer, b"before ")
        Moved(address, second).move()
        time.sleep(pause)
        send(producer, b"after ", topic="new")

    assert [record.value for record in second.topics["new"].log[0]][3:] == [b"after %d" % n for n in range(10)]


@pytest.mark.rule("metadata.again.only-new")
def test_new_topics_of_a_known_cluster_need_no_new_producer_id() -> None:
    living = cluster("first")
    with (
        SocketBroker(living.brokers[1]).serving() as servers,
        made(servers, **{"metadata.max.age.ms": 200}) as producer,
    ):
        send(producer, b"before ", count=1)
        given = living.transactions.next_id
        living.create("new", 1)
        living.deleted.append(living.topics.pop("t"))
        send(producer, b"after ", count=3, topic="new")

    assert living.transactions.next_id == given


@pytest.mark.rule("metadata.again.topics")
def test_new_topics_in_a_living_cluster_need_no_new_producer_id(
    caplog: pytest.LogCaptureFixture,
) -> None:
    living = cluster("first")
    with (
        SocketBroker(living.brokers[1]).serving() as servers,
        made(servers, **{"metadata.max.age.ms": 200}) as producer,
    ):
        send(producer, b"before ")
        given = living.transactions.next_id
        living.deleted.append(living.topics.pop("t"))
        living.create("t", 1)
        send(producer, b"after ", count=3)

    assert [record.value for record in living.topics["t"].log[0]] == [b"after 0", b"after 1", b"after 2"]
    assert living.transactions.next_id == given
    assert "has kept its id" not in caplog.text


@pytest.mark.rule("metadata.again.topics")
@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("commits_at_once", [True, False])
def test_an_open_transaction_fails_in_a_new_cluster_with_the_same_id(version: int, commits_at_once: bool) -> None:
    """It knows the same transactional id, with the same producer id and the same numbers."""
    first, second = cluster("first"), cluster("first", topics_before=1)
    first.transaction_version = second.transaction_version = version
    settings = {"transactional.id": "mine", "delivery.timeout.ms": 6_000, "request.timeout.ms": 2_000}
    with SocketBroker(second.brokers[1]).serving() as servers, made(servers, **settings) as other:
        other.init_transactions()
        for _ in range(2):
            with other.transaction():
                other.send("t", b"other")
    address = SocketBroker(first.brokers[1])
    with address.serving() as servers, made(servers, **settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"lost").result(20)
        Moved(address, second).move()
        more = producer.send("t", b"more")
        if commits_at_once:
            with pytest.raises(TransactionError, match="its topics were deleted and created again meanwhile"):
                producer.commit_transaction(20)
        assert isinstance(more.exception(20), DeliveryError)
        with pytest.raises(TransactionError, match="its topics were deleted and created again meanwhile"):
            producer.commit_transaction(20)

    assert second.topics["t"].committed(0) == [b"other", b"other"]


@pytest.mark.rule("metadata.again.topics")
@pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 0), (0, 2), (0, 0)])
def test_transactions_go_on_in_a_cluster_of_another_release(before: int, after: int) -> None:
    """It has forgotten the transactional id, and its epochs of features begin at 0 again."""
    first, second = cluster("first"), cluster("first", topics_before=1)
    first.transaction_version, first.features_epoch = before, 40
    second.transaction_version = after
    if after < before:
        second.brokers[1].versions[PRODUCE.key] = (3, 11)  # as of Kafka 3.9, which adds no partitions when records come
    address = SocketBroker(first.brokers[1])
    settings = {"transactional.id": "mine", "delivery.timeout.ms": 6_000, "request.timeout.ms": 2_000}
    with address.serving() as servers, made(servers, **settings) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"before")
        Moved(address, second).move()
        with pytest.raises(DeliveryError, match="its topics were deleted"), producer.transaction():
            producer.send("t", b"lost").result(20)
        with producer.transaction():
            producer.send("t", b"after")

    assert second.topics["t"].committed(0) == [b"after"]


@pytest.mark.rule("metadata.again.topics")
def test_no_prepared_transaction_is_committed_in_a_new_cluster(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = cluster("first"), cluster("first", topics_before=1)
    address = SocketBroker(first.brokers[1])
    settings = {"transactional.id": "mine", "delivery.timeout.ms": 6_000, "request.timeout.ms": 2_000}
    with address.serving() as servers, made(servers, **settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"lost")
        producer.prepare_transaction(20)
        Moved(address, second).move()
        wait_until(lambda: "has kept its id" in caplog.text, timeout=HANG_GUARD)
        with pytest.raises(TransactionError, match="its topics were deleted and created again meanwhile"):
            producer.commit_transaction(20)


@pytest.mark.rule("metadata.again.topics")
def test_a_transaction_after_topics_were_created_again_has_another_epoch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    again = cluster("first")
    address = SocketBroker(again.brokers[1])
    settings = {"transactional.id": "mine", "metadata.max.age.ms": 100, "metadata.max.idle.ms": 5_000}
    with address.serving() as servers, made(servers, **settings) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"before")
        epoch = again.transactions.ids["mine"].epoch
        with address.lock:
            again.deleted.append(again.topics.pop("t"))
            again.create("t", 1)
        Moved(address, again).move()
        wait_until(lambda: "has kept its id" in caplog.text, timeout=HANG_GUARD)
        with producer.transaction():
            producer.send("t", b"after")

    assert again.topics["t"].committed(0) == [b"after"]
    assert again.transactions.ids["mine"].epoch > epoch + 1  # of the transaction, and of what came before it


@pytest.mark.rule("metadata.again.other")
def test_records_that_were_queued_before_go_to_the_other_cluster_once(moved: tuple[Moved, str]) -> None:
    place, servers = moved
    before = place.address.broker.cluster.topics["t"]
    queued = [b"queued %d" % number for number in range(50)]
    has_moved = threading.Event()

    def of_queued(values: Sequence[bytes | None]) -> Sequence[bytes]:
        return [value for value in values if value in queued]

    def loses(_frame: bytes) -> bool:
        """The connection ends without the response for the second record."""
        return not has_moved.is_set() and len(of_queued(before.committed(0))) > 1 and has_moved.wait(HANG_GUARD)

    with made(servers, **{"batch.size": 100}) as producer:
        send(producer, b"before ")
        place.address.loses = loses
        deliveries = [producer.send("t", value) for value in queued]
        wait_until(lambda: len(of_queued(before.committed(0))) > 1, timeout=HANG_GUARD)
        place.move()
        has_moved.set()
        offsets = [delivery.result(20).offset for delivery in deliveries]

    stayed, went = of_queued(before.committed(0)), of_queued(place.values)
    assert went
    acknowledged_before = 50 - len(went)
    assert stayed == queued[: len(stayed)]
    assert went == queued[acknowledged_before:]  # each of them once, also those whose response was lost
    assert [before.committed(0)[offset] for offset in offsets[:acknowledged_before]] == queued[:acknowledged_before]
    assert [place.values[offset] for offset in offsets[acknowledged_before:]] == went


@pytest.mark.rule("metadata.again.other", "metadata.again.keeps")
def test_a_bootstrap_server_gets_no_records_of_leaderless_partitions(
    moved: tuple[Moved, str], caplog: pytest.LogCaptureFixture
) -> None:
    place, seed = moved
    first = place.address.broker.cluster
    never = threading.Event()

    def is_late(frame: bytes) -> bool:
        """Leave time for records that do not wait for the response to the metadata request."""
        return int.from_bytes(frame[:2], "big") == METADATA.key and never.wait(0.3)

    for each in (first, place.second):
        each.brokers[1].versions[PRODUCE.key] = (3, 12)  # without ids of topics
    with contextlib.ExitStack() as until_moved:
        until_moved.enter_context(SocketBroker(first.brokers[1]).serving())  # where metadata says that broker 1 is
        with caplog.at_level("WARNING"), made(seed) as producer:
            send(producer, b"before ")
            first.topics["t"].leaders[0] = NO_LEADER
            waiting = producer.send("t", b"waits")
            wait_until(lambda: "has no leader" in caplog.text, timeout=HANG_GUARD)
            first.address = seed.split(":")[0], int(seed.split(":")[1])
            place.address.loses = is_late
            place.move()
            until_moved.close()
            offset = waiting.result(20).offset

    assert place.values[OTHERS:] == [b"waits"]
    assert offset == OTHERS
    assert "broker -1" not in caplog.text


@pytest.mark.rule("metadata.again.other")
def test_a_broker_that_got_no_records_yet_is_asked_for_its_cluster(moved: tuple[Moved, str]) -> None:
    place, at_first = moved
    first = place.address.broker.cluster
    first.brokers[2] = SimulatedBroker(cluster=first, id=2)
    first.create("u", 2)
    place.second.create("u", 1)
    with (
        SocketBroker(first.brokers[2]).serving() as servers,
        made(servers, **{"delivery.timeout.ms": 6_000}) as producer,
    ):
        for node, address in ((1, at_first), (2, servers)):
            host, port = address.rsplit(":", 1)
            first.brokers[node].address = (host, int(port))
        producer.send("u", b"to the other broker").result(20)
        producer.partitions_for("t")
        place.move()
        with pytest.raises(DeliveryError, match="is a broker of another cluster, 'second'"):
            producer.send("t", b"lost").result(20)

    assert len(place.values) == OTHERS


@pytest.mark.parametrize("leads", ["ABA", "ABABABAB", "ABBABAAB"])
def test_connections_that_lead_to_two_clusters_acknowledge_no_lost_record(leads: str) -> None:
    clusters = {name: cluster(name) for name in "AB"}
    balancer = LoadBalancer({name: taken(each) for name, each in clusters.items()}, leads)
    acknowledged: list[bytes] = []
    with serving(balancer.serve) as (host, port):
        for each in clusters.values():
            each.address = (host, port)
        with made(f"{host}:{port}", **{"delivery.timeout.ms": 8_000}) as producer:
            for number in range(10):
                if number % 3 == 1:
                    balancer.cut()
                with contextlib.suppress(DeliveryError):
                    producer.send("t", b"%d" % number).result(20)
                    acknowledged.append(b"%d" % number)

    written = [record.value for each in clusters.values() for record in each.topics["t"].log[0]]
    assert acknowledged
    assert [value for value in acknowledged if value not in written] == []


@pytest.mark.rule("metadata.again.other")
@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("last", ["written", "queued", "none"])
def test_no_transaction_is_committed_in_another_cluster(version: int, last: str) -> None:
    """That cluster knows the same transactional id, with the same producer id and the same numbers."""
    first, second = cluster("first"), cluster("second")
    settings = {"transactional.id": "mine", "delivery.timeout.ms": 6_000, "request.timeout.ms": 2_000}
    for each in (first, second):
        each.transaction_version = version
    with SocketBroker(second.brokers[1]).serving() as servers, made(servers, **settings) as other:
        other.init_transactions()
        for _ in range(2):
            with other.transaction():
                other.send("t", b"other")
    address = SocketBroker(first.brokers[1])
    unread = contextlib.suppress(UndeliveredError)  # of the record that the commit has failed with
    with address.serving() as servers, unread, made(servers, **settings) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"before")
        producer.begin_transaction()
        if last != "none":
            delivery = producer.send("t", b"last")
        if last == "written":
            delivery.result(20)
        Moved(address, second).move()
        if last == "none":
            with pytest.raises(DeliveryError, match="those of another cluster now"):
                producer.send("t", b"more").result(20)
        with pytest.raises(FatalTransactionError, match="those of another cluster now"):
            producer.commit_transaction(20)

    assert second.topics["t"].committed(0) == [b"other"] * 2
    assert first.topics["t"].committed(0) == [b"before"]


def test_without_ids_of_clusters_no_connection_is_refused(moved: tuple[Moved, str]) -> None:
    place, servers = moved
    place.address.broker.cluster.id = place.second.id = None
    requests = place.second.brokers[1].requests
    before = len(requests)
    with made(servers) as producer:
        send(producer, b"before ")
        place.move()
        send(producer, b"after ", count=1)

    assert [name for name, _version in requests[before:]].count("ApiVersions") == 1


def test_a_broker_that_names_no_cluster_gets_records(moved: tuple[Moved, str]) -> None:
    """As one before 0.10.1."""
    place, servers = moved
    with made(servers) as producer:
        send(producer, b"before ")
        with place.address.lock:
            place.address.broker.cluster.id = None
        for peer in place.address.sockets:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)

        assert send(producer, b"after ", count=1)[0].result(0).offset >= 0


def test_a_producer_without_rebootstrap_goes_on_where_its_address_leads(moved: tuple[Moved, str]) -> None:
    place, servers = moved
    with made(servers, **{"metadata.recovery.strategy": "none"}) as producer:
        send(producer, b"before ")
        place.move()
        time.sleep(0.3)

        assert send(producer, b"after ", count=1)[0].result(0).offset >= 0


@pytest.mark.rule("metadata.again.other")
def test_an_address_that_another_cluster_has_taken_gets_no_records() -> None:
    """One of two brokers: the other one still names this cluster, and so the address stays wrong."""
    first = SimulatedCluster.of(1, 2)
    first.create("t", 1, 2)
    lost_address = SocketBroker(first.brokers[2])
    second = SimulatedCluster.of(1)
    second.id = "second"
    second.create("t", 1, 1)  # its partition 1 would take the record
    with SocketBroker(first.brokers[1]).serving() as servers, lost_address.serving() as other:
        first.address = None
        for node, address in ((1, servers), (2, other)):
            host, port = address.rsplit(":", 1)
            first.brokers[node].address = (host, int(port))
        with made(servers, **{"delivery.timeout.ms": 2_000, "request.timeout.ms": 1_000, "linger.ms": 0}) as producer:
            for partition in (0, 1):
                producer.send("t", b"before", partition=partition).result(20)
            Moved(lost_address, second).move()
            lost = producer.send("t", b"lost", partition=1)
            assert producer.send("t", b"kept", partition=0).result(20).offset == 1
            with pytest.raises(DeliveryError, match="is a broker of another cluster, 'second'") as raised:
                lost.result(20)

    assert not raised.value.possibly_persisted
    assert [second.topics["t"].log_of(partition).records for partition in (0, 1)] == [[], []]
    # Its topics have other ids, so it refused the batch; once it is known, it gets none.
    assert [name for name, _version in second.brokers[1].requests].count("Produce") <= 1


def of_connections(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "ottla.network.connection_log"]


@contextlib.contextmanager
def misdirecting() -> Iterator[str]:
    """A broker that advertises the address of a broker of another cluster."""
    first, second = cluster("first"), cluster("second")
    with SocketBroker(first.brokers[1]).serving() as servers, SocketBroker(second.brokers[1]).serving() as wrong:
        host, port = wrong.rsplit(":", 1)
        first.address = None
        first.brokers[1].address = (host, int(port))
        yield servers


@pytest.mark.rule("metadata.again.other")
def test_an_advertised_address_of_another_cluster_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    unread = contextlib.suppress(UndeliveredError)
    settings = {"delivery.timeout.ms": 3_000, "request.timeout.ms": 1_000, "linger.ms": 0}
    with caplog.at_level("INFO", "ottla"), misdirecting() as servers, unread, made(servers, **settings) as producer:
        delivery = producer.send("t", b"lost")
        with pytest.raises(DeliveryError, match=r"check advertised\.listeners of its broker 1, "):
            delivery.result(20)

    [line] = [record.getMessage() for record in of_connections(caplog)]
    assert "is a broker of another cluster, 'second'; the records are for 'first', whose metadata names" in line
    assert "check advertised.listeners of its broker 1, " in line


def test_init_transactions_names_the_other_cluster_as_the_last_error() -> None:
    settings = {"transactional.id": "mine", "max.block.ms": 4_000, "request.timeout.ms": 1_000}
    said = r"last error: broker 1 at .* is a broker of another cluster"
    with (
        misdirecting() as servers,
        made(servers, **settings) as producer,
        pytest.raises(TransactionTimeoutError, match=said),
    ):
        producer.init_transactions()


def test_a_broker_of_the_right_cluster_answers_again_after_a_failure(
    moved: tuple[Moved, str], caplog: pytest.LogCaptureFixture
) -> None:
    place, servers = moved
    with caplog.at_level("INFO", "ottla"), made(servers) as producer:
        send(producer, b"before ", count=1)
        with place.address.lock:  # the broker reads requests, and does not respond
            delivery = producer.send("t", b"in flight")
            until_in_flight(producer)
            for peer in place.address.sockets:
                with contextlib.suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)
            wait_until(lambda: of_connections(caplog), timeout=HANG_GUARD)
        delivery.result(20)
        send(producer, b"after ", count=1)

    assert [record.levelname for record in of_connections(caplog)] == ["WARNING", "INFO"]
    assert "answers again" in of_connections(caplog)[1].getMessage()
