"""Brokers that list brokers as it suits them: ids that none can have, one id twice, addresses where nothing can be."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from unittest.mock import Mock

import attrs
import pytest
from broker_on_a_socket import SocketBroker
from test_lying_leaders import LyingBroker

from machine import Machine
from ottla.errors import ErrorCode, TransactionTimeoutError
from ottla.network import metadata_messages
from ottla.protocol import (
    LeaderIdAndEpoch,
    MetadataResponse,
    MetadataResponseBroker,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.sender.produce_messages import PartitionRefusal, read_response
from ottla.transactions import OpenTransaction, abort
from ottla_testkit.simulation import SimulatedBroker, SimulatedCluster
from ottla_testkit.simulation.login import SimulatedLogin
from simulated_producer import Simulated
from third_party_mechanism import Plain

NO_BROKER = "a response to FindCoordinator names broker -1, which no broker can be"


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
    machine.network.names.unresolvable.add("")
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


def reported(caplog: pytest.LogCaptureFixture, *words: str) -> list[str]:
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
    return [message for message in messages if any(word in message for word in words)]


@pytest.mark.rule("network.metadata.ids")
def test_brokers_with_negative_ids_are_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="ottla")
    cluster, machine = lying_machine(lambda: [listed(-1, "seed\n"), listed(-(2**31))])
    delivery = machine.send(b"a")
    machine.run_until_idle()
    refresh(machine, times=12)

    assert delivery.exception() is None
    assert machine.metadata.cluster.brokers.keys() == {1}
    [warning] = reported(caplog, "cannot be used")
    assert "a broker at seed\\n:9092 with the id -1, which no broker can have" in warning
    assert "-2147483648" in warning

    cluster.lies = tuple
    refresh(machine, times=2)

    assert reported(caplog, "can be used again") == ["test: all brokers of the metadata can be used again"]


@pytest.mark.rule("network.metadata.ids")
def test_of_two_brokers_with_the_same_id_the_first_is_used(caplog: pytest.LogCaptureFixture) -> None:
    _cluster, machine = lying_machine(lambda: [listed(1), listed(1, "third")])
    delivery = machine.send(b"a")
    machine.run_until_idle()
    refresh(machine, times=3)

    assert delivery.exception() is None
    [warning] = reported(caplog, "cannot be used")
    assert "another broker 1 at elsewhere:9092; broker 1 at broker-1:9092 was listed before" in warning


@pytest.mark.rule("network.metadata.ids")
def test_a_broker_that_is_listed_twice_alike_is_used_once(caplog: pytest.LogCaptureFixture) -> None:
    _cluster, machine = lying_machine(lambda: [listed(1, "broker-1")])
    machine.send(b"a")
    machine.run_until_idle()

    assert reported(caplog, "cannot be used") == []


@pytest.mark.rule("network.metadata.empty")
def test_a_response_with_only_negative_ids_is_retried_after_the_backoff(caplog: pytest.LogCaptureFixture) -> None:
    cluster, machine = lying_machine(lambda: [listed(-1), listed(-2)], only_lies=True)

    machine.run(20.0)

    asked = [name for name, _version in cluster.brokers[1].requests].count("Metadata")
    assert 20 <= asked <= 24
    assert 4 <= machine.network.connects <= 7  # behind the address may be another broker
    assert "names no broker that can be used: a broker at elsewhere:9092 with the id -1" in caplog.text


@pytest.mark.rule("metadata.again.paced")
@pytest.mark.parametrize("numbers", [itertools.repeat(1), itertools.count(1)], ids=["one", "ever_others"])
def test_brokers_without_an_address_cost_one_connection_per_second(
    numbers: itertools.count[int], caplog: pytest.LogCaptureFixture
) -> None:
    _cluster, machine = lying_machine(lambda: [listed(next(numbers), "")], only_lies=True)
    machine.send(b"a")

    machine.run(60.0)

    assert 30 <= machine.network.connects <= 70
    assert len(reported(caplog, "asking bootstrap.servers again")) == 1


@pytest.mark.rule("metadata.again.paced")
def test_a_broker_that_gets_an_address_again_is_used_within_seconds() -> None:
    cluster, machine = lying_machine(lambda: [listed(1, "")], only_lies=True)
    delivery = machine.send(b"a")
    machine.run(60.0)
    cluster.only_lies, cluster.lies = False, tuple

    machine.run(2.5)

    assert delivery.done()
    assert delivery.exception() is None


@pytest.mark.rule("network.metadata.ids")
def test_warnings_about_ignored_brokers_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20,000 hosts of 5,000 control characters they took eight seconds, on the I/O thread."""
    quoted = Mock(side_effect=str)
    monkeypatch.setattr(metadata_messages, "printable", quoted)
    brokers = [*(listed(-n) for n in range(1, 500)), *(listed(n % 500, str(n)) for n in range(1_500))]

    answer = metadata_messages.read_response(MetadataResponse(brokers=brokers), [])

    assert len(answer.brokers) == 500
    assert quoted.call_count == len(answer.left_out) == 4


@pytest.mark.rule("network.metadata.ids")
def test_invented_brokers_slow_down_no_round() -> None:
    """After 2,000 of them a record took 22 times as long: each round checked a connection to every one."""
    _cluster, machine = lying_machine(lambda: [listed(number) for number in range(2, 500)])
    machine.send(b"a")
    machine.run_until_idle()

    refresh(machine, times=3)

    assert len(machine.metadata.cluster.brokers) == 499
    assert len(list(machine.client._connections)) == 1


@pytest.mark.rule("metadata.log")
def test_hundreds_of_invented_brokers_are_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="ottla")
    numbers = itertools.count(2)
    _cluster, machine = lying_machine(lambda: [listed(next(numbers)) for _ in range(100)])

    refresh(machine, times=2)

    [line] = reported(caplog, "joined")
    assert line == "test: brokers that have left the cluster: 100, that have joined it: 100; brokers now: 101"


def logins_in_a_minute(cluster: SimulatedCluster) -> tuple[int, int]:
    """The logins and connections of one minute, in which a topic has no leader."""
    broker = cluster.brokers[1]
    broker.require(SimulatedLogin(users={"ann": "the ducks fly south"}))
    machine = Machine(cluster, mechanism=Plain())
    machine.metadata.use("t", machine.clock())
    machine.run(60.0)
    assert broker.login is not None
    return broker.login.logins, machine.network.connects


@pytest.mark.rule("metadata.backoff.moves")
@pytest.mark.parametrize("where", ["other_ids", "other_ports"])
def test_brokers_that_move_in_each_response_do_not_set_the_login_rate(where: str) -> None:
    """It was ten logins in a second."""
    numbers = itertools.count(1)

    def moved() -> Sequence[MetadataResponseBroker]:
        number = next(numbers)
        return [listed(number, "broker-1") if where == "other_ids" else listed(1, "broker-1", 9092 + number % 2)]

    cluster = LyingCluster(lies=moved, only_lies=True)
    cluster.brokers[1] = SimulatedBroker(cluster=cluster, id=1)
    cluster.create("t", -1)

    assert max(logins_in_a_minute(cluster)) <= 70


@attrs.define(slots=False)
class RestlessCluster(SimulatedCluster):
    """Asks in every second answer to begin again."""

    answers: int = attrs.field(default=0, kw_only=True)

    restless: bool = attrs.field(default=True, kw_only=True)

    def metadata(self) -> MetadataResponse:
        self.answers += 1
        answer = super().metadata()
        if self.restless and self.answers % 2 == 0:
            answer.error_code = ErrorCode.REBOOTSTRAP_REQUIRED
        return answer


@pytest.mark.rule("metadata.again.asked")
def test_endless_rebootstrap_responses_do_not_set_the_login_rate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was ten logins in a second, and five warnings."""
    cluster = RestlessCluster()
    cluster.brokers[1] = SimulatedBroker(cluster=cluster, id=1)
    cluster.create("t", -1)

    assert max(logins_in_a_minute(cluster)) <= 130
    assert len(reported(caplog, "asking bootstrap.servers again")) == 1


@pytest.mark.rule("metadata.again.asked")
def test_a_rebootstrap_response_after_a_pause_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    cluster = RestlessCluster()
    cluster.brokers[1] = SimulatedBroker(cluster=cluster, id=1)
    cluster.create("t", -1)
    machine = Machine(cluster)
    machine.metadata.use("t", machine.clock())
    for seconds in (10.0, 15.0, 10.0):
        machine.run(seconds)
        cluster.restless = not cluster.restless

    assert len(reported(caplog, "asking bootstrap.servers again")) == 2


@pytest.mark.rule("network.metadata.ids")
def test_of_two_leaders_with_the_same_id_the_first_is_used() -> None:
    hint = LeaderIdAndEpoch(leader_id=2, leader_epoch=7)
    refusal = PartitionProduceResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=hint)
    answer = ProduceResponse(
        responses=[TopicProduceResponse(name="t", partition_responses=[refusal])],
        node_endpoints=[NodeEndpoint(node_id=2, host=host, port=9092) for host in ("broker-2", "elsewhere")],
    )

    found = read_response(answer, [], {})[("t", 0)]

    assert isinstance(found, PartitionRefusal)
    assert found.leader is not None
    assert found.leader.host == "broker-2"


@pytest.mark.rule("sender.answer.hint")
def test_a_leader_with_a_negative_id_is_no_leader() -> None:
    cluster = SimulatedCluster()
    leaders = iter([NodeEndpoint(node_id=-1, host="elsewhere", port=9092)])
    cluster.brokers[1] = LyingBroker(cluster=cluster, id=1, leaders=leaders)
    cluster.create("t", 1)
    machine = Machine(cluster)
    delivery = machine.send(b"a")
    machine.run_until_idle()

    assert delivery.exception() is None
    assert machine.metadata.cluster.brokers.keys() == {1}
    assert machine.metadata._hinted_broker._schedule.counted() == 0
    assert {link.broker.id for link in machine.network.links} == {1}
    assert machine.network.connects == 2


@pytest.mark.rule("sender.coordinator.negative")
def test_a_coordinator_with_a_negative_id_is_requested_again(caplog: pytest.LogCaptureFixture) -> None:
    simulation = Simulated(1, config={"transactional.id": "tx"})
    simulation.cluster.coordinator = -1
    simulation.network.schedule.later(5.0, lambda: setattr(simulation.cluster, "coordinator", 1))

    simulation.producer.init_transactions()

    assert NO_BROKER in caplog.text
    asked = [name for name, _version in simulation.cluster.brokers[1].requests].count("FindCoordinator")
    assert asked <= 15


@pytest.mark.rule("sender.coordinator.negative")
def test_the_admin_client_reports_a_coordinator_with_a_negative_id() -> None:
    cluster = SimulatedCluster.of(1)
    cluster.coordinator = -1
    transaction = OpenTransaction(
        transactional_id="tx", producer_id=1, epoch=0, started_ms=0, timeout_ms=1, partitions=()
    )
    with SocketBroker(cluster.brokers[1]).serving() as servers, pytest.raises(TransactionTimeoutError, match=NO_BROKER):
        abort({"bootstrap.servers": servers}, transaction, timeout=1.0)
