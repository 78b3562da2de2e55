"""Calls about transactions do not believe a broker that calls itself the coordinator if another broker can be asked."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import pytest
from broker_on_a_socket import SocketBroker
from test_other_cluster import made

from ottla.errors import TransactionTimeoutError
from ottla.transactions import Outcome, PreparedTransaction, SharedTransaction, complete, sharing
from ottla.transactions.admin import named_coordinators
from ottla.transactions.admin.blocking_client import blocking_client
from ottla_testkit.simulation import SimulatedCluster
from ottla_testkit.simulation.outdated_coordinator import OutdatedCoordinator
from wrong_peers import serving

LEVELS = pytest.mark.parametrize("level", [0, 1, 2])
ID = "mine"


@attrs.frozen(kw_only=True)
class Place:
    """A cluster on sockets, whose first broker is the coordinator at first."""

    cluster: SimulatedCluster
    servers: Mapping[int, str]
    brokers: Sequence[SocketBroker]

    def asked(self, node: int, name: str) -> int:
        """How many requests of this name a broker has got."""
        return [each for each, _version in self.cluster.brokers[node].requests].count(name)

    def replace(self) -> None:
        """Make broker 2 the coordinator; broker 1 does not know that, and answers from what it knows now."""
        bumps = self.cluster.transaction_version >= 2
        self.cluster.outdated[1] = OutdatedCoordinator(
            current=self.cluster.transactions, bumps=lambda: bumps, on_refusal=lambda: None
        )
        self.cluster.coordinator = 2

    def settings(self, *nodes: int) -> dict[str, Any]:
        return {"bootstrap.servers": ",".join(self.servers[node] for node in nodes)}


def _ignored(peer: socket.socket) -> None:
    """Take requests and answer none."""
    while peer.recv(65_536):
        pass


@contextlib.contextmanager
def placed(
    *, level: int = 2, brokers: int = 3, silent: Sequence[int] = (), down: Sequence[int] = ()
) -> Iterator[Place]:
    cluster = SimulatedCluster.of(*range(1, brokers + 1))
    cluster.transaction_version = level
    cluster.create("t", brokers)
    lock = threading.Lock()
    sockets = [SocketBroker(broker, lock=lock) for broker in cluster.brokers.values()]
    servers = {}
    with contextlib.ExitStack() as stack:
        for each in sockets:
            node = each.broker.id
            address = stack.enter_context(serving(_ignored if node in silent else each.serve))
            if node in down:
                address = ("127.0.0.1", 1)
            each.broker.address = address
            servers[node] = f"{address[0]}:{address[1]}"
        yield Place(cluster=cluster, servers=servers, brokers=sockets)


def opened(place: Place) -> SharedTransaction:
    with sharing(place.settings(1), timeout=20) as owner:
        return owner.open(ID)


def written(place: Place, shared: SharedTransaction) -> None:
    """Write a record to a transaction, at the coordinator."""
    with made(place.servers[3], **{"transactional.id": ID}) as producer:
        producer.join_transaction(shared)
        producer.send("t", b"row", partition=0)
        producer.leave_transaction()


def committed(place: Place) -> PreparedTransaction:
    """A transaction that was prepared and committed by a producer that knows the coordinator."""
    with made(place.servers[3], **{"transactional.id": ID}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"row", partition=0)
        prepared = producer.prepare_transaction()
        producer.commit_transaction()
    return prepared


@pytest.mark.rule("producer.transactions.named")
@LEVELS
def test_the_owner_commits_at_the_coordinator_that_others_name(level: int) -> None:
    with placed(level=level) as place:
        shared = opened(place)
        place.replace()
        written(place, shared)
        with sharing(place.settings(1), timeout=20) as owner:
            outcome = owner.end(shared, commit=True).outcome

        assert outcome is Outcome.COMMITTED
        assert place.cluster.transactions.ends[-1] == (ID, 1, True)
        assert list(place.cluster.topics["t"].committed(0)) == [b"row"]


@LEVELS
def test_an_owner_that_knew_the_coordinator_before_asks_again(level: int) -> None:
    with placed(level=level) as place, sharing(place.settings(1), timeout=20) as owner:
        shared = owner.open(ID)
        place.replace()
        written(place, shared)

        assert owner.end(shared, commit=True).outcome is Outcome.COMMITTED
        assert list(place.cluster.topics["t"].committed(0)) == [b"row"]


@pytest.mark.rule("producer.transactions.named")
@LEVELS
def test_a_committed_transaction_is_not_called_aborted(level: int) -> None:
    with placed(level=level) as place:
        opened(place)
        place.replace()
        prepared = committed(place)

        assert complete(place.settings(1), prepared, commit=True, timeout=20).committed


@pytest.mark.rule("producer.transactions.named")
@pytest.mark.parametrize("group", [False, True])
def test_a_broker_is_not_believed_what_it_says_of_itself(*, group: bool) -> None:
    with placed() as place:
        place.replace()
        with blocking_client(place.settings(1), timeout=20) as client:
            assert client.coordinator(ID, group=group) == 2


def test_many_coordinators_are_asked_of_another_broker_at_once() -> None:
    names = [f"{ID}-{number}" for number in range(20)]
    with placed() as place:
        place.replace()
        with blocking_client(place.settings(1), timeout=20) as client:
            client.find_coordinators(names)

            assert {client.coordinator(each) for each in names} == {2}
        assert place.asked(1, "FindCoordinator") >= 1


def test_another_broker_than_the_coordinator_is_asked_alone() -> None:
    with placed() as place:
        with blocking_client(place.settings(2), timeout=20) as client:
            assert client.coordinator(ID) == 1
        assert [place.asked(node, "FindCoordinator") for node in (1, 2, 3)] == [0, 1, 0]


def test_the_only_broker_is_believed() -> None:
    with placed(brokers=1) as place:
        with blocking_client(place.settings(1), timeout=20) as client:
            assert client.coordinator(ID) == 1
            client.find_coordinators(["a", "b"])
            assert [client.coordinator(each) for each in "ab"] == [1, 1]
        assert place.asked(1, "FindCoordinator") == 2


def test_a_broker_is_believed_once_the_others_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_coordinators, "WITHIN", 1_000.0)
    with placed(down=(2, 3)) as place, blocking_client(place.settings(1), timeout=1_000) as client:
        assert client.coordinator(ID) == 1
        client.find_coordinators(["a", "b"])
        assert [client.coordinator(each) for each in "ab"] == [1, 1]


def test_a_broker_is_believed_if_the_others_do_not_answer_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_coordinators, "WITHIN", 0.2)
    with placed(silent=(2, 3)) as place, blocking_client(place.settings(1), timeout=20) as client:
        assert client.coordinator(ID) == 1


def test_a_call_with_little_time_has_half_of_it_left_for_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_coordinators, "WITHIN", 4.0)
    with placed(silent=(2, 3)) as place, sharing(place.settings(1), timeout=4.0) as owner:
        assert owner.open(ID).epoch == 0


def test_others_that_have_no_time_left_to_answer_deny_nothing() -> None:
    """At the end of a call's time a broker is not believed because no other one has answered: the call fails."""
    with placed(silent=(2, 3)) as place, blocking_client(place.settings(1), timeout=2.0) as client:
        client.brokers()
        time.sleep(1.5)
        with pytest.raises(TransactionTimeoutError):
            client.coordinator(ID)


def test_the_first_answer_of_another_broker_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_coordinators, "WITHIN", 1_000.0)
    with placed(silent=(2,)) as place, blocking_client(place.settings(1), timeout=1_000) as client:
        assert client.coordinator(ID) == 1


def test_of_two_that_both_call_themselves_coordinator_none_is_asked() -> None:
    with placed(brokers=2) as place:
        place.replace()
        with blocking_client(place.settings(1), timeout=1.0) as client:
            client.find_coordinators(["a", "b"])
            with pytest.raises(TransactionTimeoutError, match="COORDINATOR_NOT_AVAILABLE"):
                client.coordinator("a")


def test_a_coordinator_that_two_have_claimed_to_be_is_not_believed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the other one does not answer then."""
    with placed(brokers=2) as place:
        place.replace()
        with blocking_client(place.settings(1), timeout=4.0) as client:
            client.find_coordinators(["a", "b"])
            monkeypatch.setattr(named_coordinators, "WITHIN", 0.0)
            client.find_coordinators(["a", "b"])
            with pytest.raises(TransactionTimeoutError, match="COORDINATOR_NOT_AVAILABLE"):
                client.coordinator("a")
