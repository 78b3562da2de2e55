"""Brokers that list brokers as it suits them: ids that none can have, one id twice, addresses where nothing can be."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence

import attrs
import pytest
from broker_on_a_socket import SocketBroker
from test_lying_leaders import LyingBroker

from machine import Machine
from ottla.errors import TransactionTimeoutError
from ottla.protocol import MetadataResponse, MetadataResponseBroker
from ottla.protocol.messages.produce import NodeEndpoint
from ottla.transactions import Leftover, abort
from ottla_testkit.simulation import SimulatedBroker, SimulatedCluster
from simulated_producer import Simulated

NO_BROKER = "an answer to FindCoordinator names broker -1, which no broker can be"


@attrs.define(slots=False)
class LyingCluster(SimulatedCluster):
    """Lists these brokers in its metadata, besides its own or in place of them."""

    lies: Callable[[], Sequence[MetadataResponseBroker]] = attrs.field(default=tuple, kw_only=True)
    only_lies: bool = attrs.field(default=False, kw_only=True)

    def metadata(self) -> MetadataResponse:
        answer = super().metadata()
        answer.brokers = [*([] if self.only_lies else answer.brokers), *self.lies()]
        return answer


def lying_machine(
    lies: Callable[[], Sequence[MetadataResponseBroker]], *, only_lies: bool = False
) -> tuple[LyingCluster, Machine]:
    cluster = LyingCluster(lies=lies, only_lies=only_lies)
    cluster.brokers[1] = SimulatedBroker(cluster=cluster, id=1)
    cluster.create("t", 1)
    machine = Machine(cluster)
    machine.metadata.use("t", machine.clock())
    machine.network.unresolvable.add("")
    return cluster, machine


def listed(node: int, host: str = "elsewhere", port: int = 9092) -> MetadataResponseBroker:
    return MetadataResponseBroker(node_id=node, host=host, port=port)


def refresh(machine: Machine, *, times: int) -> None:
    """Ask for metadata every second."""
    for _ in range(times):
        machine.metadata.request_update()
        end = machine.clock() + 1.0
        while (now := machine.clock()) < end:
            machine.sender.run_once(now, until=end)


def told(caplog: pytest.LogCaptureFixture, *words: str) -> list[str]:
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
    return [message for message in messages if any(word in message for word in words)]


@pytest.mark.rule("network.metadata.ids")
def test_brokers_with_negative_ids_are_left_out_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="ottla")
    cluster, machine = lying_machine(lambda: [listed(-1, "seed\n"), listed(-(2**31))])
    delivery = machine.send(b"a")
    machine.settle()
    refresh(machine, times=12)

    assert delivery.exception() is None
    assert machine.metadata.cluster.brokers.keys() == {1}
    [warning] = told(caplog, "cannot be used")
    assert "a broker at seed\\n:9092 with the id -1, which no broker can have" in warning
    assert "-2147483648" in warning

    cluster.lies = tuple
    refresh(machine, times=2)

    assert told(caplog, "can be used again") == ["test: all brokers of the metadata can be used again"]


@pytest.mark.rule("network.metadata.ids")
def test_of_two_brokers_with_one_id_the_first_one_counts(caplog: pytest.LogCaptureFixture) -> None:
    _cluster, machine = lying_machine(lambda: [listed(1), listed(1, "third")])
    delivery = machine.send(b"a")
    machine.settle()
    refresh(machine, times=3)

    assert delivery.exception() is None
    [warning] = told(caplog, "cannot be used")
    assert "another broker 1 at elsewhere:9092; broker 1 at broker-1:9092 was listed before" in warning


@pytest.mark.rule("network.metadata.ids")
def test_a_broker_that_is_listed_twice_alike_is_one(caplog: pytest.LogCaptureFixture) -> None:
    _cluster, machine = lying_machine(lambda: [listed(1, "broker-1")])
    machine.send(b"a")
    machine.settle()

    assert told(caplog, "cannot be used") == []


@pytest.mark.rule("network.metadata.empty")
def test_an_answer_with_negative_ids_only_is_backed_off_from(caplog: pytest.LogCaptureFixture) -> None:
    cluster, machine = lying_machine(lambda: [listed(-1), listed(-2)], only_lies=True)

    machine.run(20.0)

    asked = [name for name, _version in cluster.brokers[1].requests].count("Metadata")
    assert 20 <= asked <= 24
    assert machine.network.connects == 1
    assert "names no broker that can be used: a broker at elsewhere:9092 with the id -1" in caplog.text


@pytest.mark.rule("metadata.again.paced")
@pytest.mark.parametrize("numbers", [itertools.repeat(1), itertools.count(1)], ids=["one", "ever_others"])
def test_brokers_without_an_address_cost_one_connection_each_second(
    numbers: itertools.count[int], caplog: pytest.LogCaptureFixture
) -> None:
    _cluster, machine = lying_machine(lambda: [listed(next(numbers), "")], only_lies=True)
    machine.send(b"a")

    machine.run(60.0)

    assert 30 <= machine.network.connects <= 70
    assert len(told(caplog, "asking bootstrap.servers again")) == 1


@pytest.mark.rule("metadata.again.paced")
def test_a_broker_that_gets_an_address_again_is_used_within_seconds() -> None:
    cluster, machine = lying_machine(lambda: [listed(1, "")], only_lies=True)
    delivery = machine.send(b"a")
    machine.run(60.0)
    cluster.only_lies, cluster.lies = False, tuple

    machine.run(2.5)

    assert delivery.done()
    assert delivery.exception() is None


@pytest.mark.rule("sender.answer.hint")
def test_a_leader_with_a_negative_id_is_no_leader() -> None:
    cluster = SimulatedCluster()
    leaders = iter([NodeEndpoint(node_id=-1, host="elsewhere", port=9092)])
    cluster.brokers[1] = LyingBroker(cluster=cluster, id=1, leaders=leaders)
    cluster.create("t", 1)
    machine = Machine(cluster)
    delivery = machine.send(b"a")
    machine.settle()

    assert delivery.exception() is None
    assert machine.metadata.cluster.brokers.keys() == {1}
    assert machine.metadata._strangers == 0
    assert {link.broker.id for link in machine.network.links} == {1}
    assert machine.network.connects == 2


@pytest.mark.rule("sender.coordinator.negative")
def test_a_coordinator_with_a_negative_id_is_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    world = Simulated(1, config={"transactional.id": "tx"})
    world.cluster.coordinator = -1
    world.network.later(5.0, lambda: setattr(world.cluster, "coordinator", 1))

    world.producer.init_transactions()

    assert NO_BROKER in caplog.text
    asked = [name for name, _version in world.cluster.brokers[1].requests].count("FindCoordinator")
    assert asked <= 15


@pytest.mark.rule("sender.coordinator.negative")
def test_who_asks_without_a_producer_is_told_of_such_a_coordinator() -> None:
    cluster = SimulatedCluster.of(1)
    cluster.coordinator = -1
    leftover = Leftover(transactional_id="tx", producer_id=1, epoch=0, started_ms=0, timeout_ms=1, partitions=())
    with SocketBroker(cluster.brokers[1]).serving() as servers, pytest.raises(TransactionTimeoutError, match=NO_BROKER):
        abort({"bootstrap.servers": servers}, leftover, timeout=1.0)
