"""Values of transactions know their cluster: in another one the same ids may be those of another transaction."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final

import attrs
import pytest
from broker_on_a_socket import SocketBroker
from hypothesis import given
from hypothesis import strategies as st
from test_other_cluster import LoadBalancer, made

from ottla import DeliveryError, FatalTransactionError, Producer, UndeliveredError
from ottla.errors import InvalidRecordError, TransactionError, TransactionTimeoutError
from ottla.transactions import (
    OpenTransaction,
    Outcome,
    PreparedTransaction,
    SharedTransaction,
    abort,
    complete,
    sharing,
)
from ottla_testkit.simulation import SimulatedCluster
from wrong_peers import serving

OTHER = (
    "the transaction of transactional id 'mine' is in the cluster 'first', but these brokers are those of 'second', "
    "where its ids may be those of another one; nothing was changed there"
)
INT64 = st.integers(0, 2**63 - 1)


@attrs.frozen(kw_only=True)
class Place:
    """A cluster, and the address of its broker."""

    cluster: SimulatedCluster
    broker: SocketBroker
    servers: str

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"bootstrap.servers": self.servers}

    def count(self, name: str) -> int:
        """The requests of one kind."""
        return [each for each, _version in self.broker.broker.requests].count(name)

    def state(self) -> tuple[Any, ...]:
        """What requests about transactions change."""
        with self.broker.lock:
            ids = {name: attrs.asdict(owner) for name, owner in self.cluster.transactions.ids.items()}
            return ids, list(self.cluster.transactions.ends), self.cluster.topics["t"].committed(0)


@contextlib.contextmanager
def placed(name: str | None, version: int = 2) -> Iterator[Place]:
    cluster = SimulatedCluster.of(1)
    cluster.id = name
    cluster.create("t", 1)
    cluster.transaction_version = version
    broker = SocketBroker(cluster.brokers[1])
    with broker.serving() as servers:
        yield Place(cluster=cluster, broker=broker, servers=servers)


@pytest.fixture(params=[0, 1, 2])
def places(request: pytest.FixtureRequest) -> Iterator[tuple[Place, Place]]:
    """Two clusters, which give the same producer ids and epochs."""
    with placed("first", request.param) as first, placed("second", request.param) as second:
        yield first, second


@contextlib.contextmanager
def begun(place: Place) -> Iterator[Producer]:
    """A producer with an open transaction, which it forgets at the end."""
    with contextlib.suppress(UndeliveredError, TransactionError), made(place.servers, **MINE) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"of %s" % (place.cluster.id or "").encode()).result(20)
        yield producer


MINE = {"transactional.id": "mine", "request.timeout.ms": 2_000}


def opened(place: Place) -> SharedTransaction:
    with sharing(place.settings, timeout=20) as owner:
        return owner.open("mine")


def found(prepared: PreparedTransaction) -> OpenTransaction:
    """The same transaction, as `find_open_transactions` returns it."""
    fields = attrs.asdict(prepared)
    del fields["level"], fields["written"]
    return OpenTransaction(**fields, started_ms=0, timeout_ms=60_000, partitions=())


ENDS: Mapping[str, Callable[[Mapping[str, Any], PreparedTransaction], object]] = {
    "commit": lambda settings, prepared: complete(settings, prepared, commit=True, timeout=5),
    "abort": lambda settings, prepared: complete(settings, prepared, commit=False, timeout=5),
    "abort a found one": lambda settings, prepared: abort(settings, found(prepared), timeout=5),
}


@pytest.mark.rule("metadata.again.values")
@pytest.mark.parametrize("end", ENDS)
def test_a_prepared_transaction_is_not_ended_in_another_cluster(places: tuple[Place, Place], end: str) -> None:
    first, second = places
    with begun(first) as producer, begun(second) as other:
        prepared = producer.prepare_transaction()
        before = second.state()
        with pytest.raises(TransactionError, match=OTHER):
            ENDS[end](second.settings, prepared)

        assert prepared.cluster_id == "first"
        assert second.state() == before
        other.commit_transaction()
        assert complete(first.settings, prepared, commit=True).committed
    assert first.cluster.topics["t"].committed(0) == [b"of first"]
    assert second.cluster.topics["t"].committed(0) == [b"of second"]


@pytest.mark.rule("metadata.again.values")
@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_that_names_no_cluster_is_ended(places: tuple[Place, Place], commit: bool) -> None:
    """As one of a version before, or of brokers that have no id of their cluster."""
    place, _other = places
    with begun(place) as producer:
        prepared = attrs.evolve(producer.prepare_transaction(), cluster_id=None)
        assert complete(place.settings, prepared, commit=commit, timeout=20).committed is commit

    assert place.cluster.topics["t"].committed(0) == ([b"of first"] if commit else [])


OFFSET: Final = SimpleNamespace(topic="t", partition=0, offset=1)  # as those of confluent-kafka

OWNERS: Mapping[str, Callable[[Any, SharedTransaction], object]] = {
    "open the next": lambda owner, shared: owner.open("mine", after=shared),
    "offsets": lambda owner, shared: owner.commit_offsets(shared, {("t", 0): 1}, "group"),
    "offsets of another client": lambda owner, shared: owner.commit_offsets(shared, [OFFSET], "group"),
    "commit": lambda owner, shared: owner.end(shared, commit=True),
    "abort": lambda owner, shared: owner.end(shared, commit=False),
}


@pytest.mark.rule("metadata.again.values")
@pytest.mark.parametrize("call", OWNERS)
def test_a_shared_transaction_is_not_changed_in_another_cluster(places: tuple[Place, Place], call: str) -> None:
    first, second = places
    shared, other = opened(first), opened(second)
    before = second.state()
    with sharing(second.settings, timeout=20) as owner, pytest.raises(TransactionError, match=OTHER):
        OWNERS[call](owner, shared)

    assert shared == attrs.evolve(other, cluster_id="first")
    assert second.state() == before
    with sharing(first.settings, timeout=20) as owner:
        OWNERS[call](owner, shared)


@pytest.mark.rule("metadata.again.values")
def test_no_record_of_a_shared_transaction_goes_to_another_cluster(places: tuple[Place, Place]) -> None:
    first, second = places
    shared = opened(first)
    with made(second.servers, **MINE) as producer:
        producer.partitions_for("t")
        with pytest.raises(TransactionError, match=OTHER):
            producer.join_transaction(shared)

    assert second.count("Produce") == second.count("AddPartitionsToTxn") == 0


@pytest.mark.rule("metadata.again.values")
def test_a_producer_that_joined_before_it_knew_its_cluster_fails(places: tuple[Place, Place]) -> None:
    first, second = places
    shared = opened(first)
    with contextlib.ExitStack() as stack:
        with second.broker.lock:  # the broker does not respond
            stack.enter_context(contextlib.suppress(UndeliveredError))
            producer = stack.enter_context(made(second.servers, **MINE))
            producer.join_transaction(shared)
        with contextlib.suppress(TransactionError, DeliveryError):
            producer.send("t", b"lost").result(20)
        with pytest.raises(FatalTransactionError, match=OTHER):
            producer.leave_transaction(20)

    assert second.count("Produce") == second.count("AddPartitionsToTxn") == 0


@pytest.mark.rule("metadata.again.values")
def test_a_refused_join_leaves_the_producer_as_it_was(places: tuple[Place, Place]) -> None:
    first, second = places
    shared, its = opened(first), opened(second)
    with made(second.servers, **MINE) as producer:
        producer.partitions_for("t")
        with pytest.raises(TransactionError, match=OTHER):
            producer.join_transaction(shared)
        producer.join_transaction(its)
        producer.send("t", b"joined")
        producer.leave_transaction(20)
        with sharing(second.settings, timeout=20) as owner:
            owner.end(its, commit=True)
        with pytest.raises(TransactionError, match=OTHER):
            producer.join_transaction(shared)
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"its own")

    assert second.cluster.topics["t"].committed(0) == [b"joined", b"its own"]


@pytest.mark.rule("metadata.again.values")
@pytest.mark.parametrize("places", [2], indirect=True)
@pytest.mark.parametrize(("end", "strategy"), [*((end, "rebootstrap") for end in ENDS), ("commit", "none")])
def test_a_connection_that_leads_to_another_cluster_ends_nothing(
    places: tuple[Place, Place], end: str, strategy: str
) -> None:
    """The bootstrap server is of the right cluster, and each later connection to the broker's address of the other."""
    first, second = places
    found_by = (TransactionError, OTHER)
    if strategy == "none":
        found_by = (TransactionTimeoutError, "is a broker of another cluster")
    with begun(first) as producer, begun(second):
        prepared = producer.prepare_transaction()
        before = second.state()
        balancer = LoadBalancer({"A": first.broker, "B": second.broker}, "AB")
        with serving(balancer.serve) as (host, port):
            for place in places:
                place.cluster.address = (host, port)
            # Another name than the broker's, so that it is not the broker's connection.
            settings = {"bootstrap.servers": f"localhost:{port}", "metadata.recovery.strategy": strategy}
            with pytest.raises(found_by[0], match=found_by[1]):
                ENDS[end](settings, prepared)

        assert second.state() == before


@pytest.mark.rule("metadata.again.values")
@pytest.mark.parametrize("names", [("first", None), (None, "second")], ids=["brokers have none", "value has none"])
def test_without_an_id_a_transaction_is_not_checked(names: tuple[str | None, str | None]) -> None:
    """A value of an earlier version has none, and brokers before 0.10.1."""
    with placed(names[0]) as first, placed(names[1]) as second, begun(first) as producer, begun(second):
        prepared = producer.prepare_transaction()

        assert complete(second.settings, prepared, commit=True, timeout=20) is Outcome.COMMITTED


def test_the_check_costs_no_connection_and_no_request() -> None:
    with placed("first") as place, begun(place) as producer:
        prepared = producer.prepare_transaction()
        made_before, asked_before = place.broker.connections, len(place.broker.broker.requests)
        complete(place.settings, prepared, commit=True, timeout=20)
        asked = [name for name, _version in place.broker.broker.requests[asked_before:]]

        assert place.broker.connections == made_before + 1  # the bootstrap server's is the coordinator's
        assert sorted(asked) == ["ApiVersions", "EndTxn", "FindCoordinator", "Metadata"]


@given(
    prepared=st.builds(
        PreparedTransaction,
        transactional_id=st.text(),
        producer_id=INT64,
        epoch=st.integers(0, 2**15 - 1),
        level=st.integers(0, 2**15 - 1),
        written=st.booleans(),
        cluster_id=st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    )
)
def test_every_prepared_transaction_is_what_its_bytes_say(prepared: PreparedTransaction) -> None:
    assert PreparedTransaction.from_bytes(prepared.to_bytes()) == prepared
    assert PreparedTransaction.from_string(str(prepared)) == prepared


@given(
    fields=st.dictionaries(
        st.sampled_from(["form", "transactional_id", "producer_id", "epoch", "level", "written", "cluster_id", "more"]),
        st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers()) | st.floats(),
    )
)
def test_values_of_other_types_are_never_a_prepared_transaction(fields: Mapping[str, object]) -> None:
    """A field that is not known is of a later version, and does not count."""
    whole: dict[str, object] = {"form": 1, "transactional_id": "t", "producer_id": 1, "epoch": 2, "level": 2}
    types = {"transactional_id": str, "producer_id": int, "epoch": int, "level": int, "written": bool}
    whole |= {"written": True, **fields}
    data = json.dumps(whole).encode()
    right = all(type(whole[name]) is kind for name, kind in types.items())
    if right and whole["form"] == 1 and isinstance(whole.get("cluster_id"), str | None):
        assert PreparedTransaction.from_bytes(data).cluster_id == whole.get("cluster_id")
    else:
        with pytest.raises(InvalidRecordError, match="not a prepared transaction"):
            PreparedTransaction.from_bytes(data)


def test_bytes_of_earlier_versions_have_no_cluster() -> None:
    earlier = b'{"form": 1, "transactional_id": "t", "producer_id": 1, "epoch": 2, "level": 2, "written": true}'

    assert PreparedTransaction.from_bytes(earlier) == PreparedTransaction(
        transactional_id="t", producer_id=1, epoch=2, level=2, written=True
    )
