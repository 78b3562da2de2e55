"""Faults of transactions and their coordinator."""

from __future__ import annotations

import attrs

from ottla_testkit.simulation.outdated_coordinator import OutdatedCoordinator
from ottla_testkit.simulation.planned_faults.brokers import FrozenBroker
from ottla_testkit.simulation.planned_faults.fault import Fault
from ottla_testkit.simulation.simulation import Simulation
from ottla_testkit.simulation.transactions import TXN_V2


@attrs.frozen(kw_only=True)
class MovedCoordinator(Fault):
    """Another broker becomes the coordinator of all transactions. It loads their state for `seconds`."""

    broker: int

    def begin(self, simulation: Simulation) -> None:
        # A controller elects no frozen broker: requests that wait in it would come after those of the one before.
        if simulation.cluster.brokers[self.broker].up and self.broker not in simulation.network.hosts.frozen:
            simulation.cluster.outdated.pop(self.broker, None)  # it loads what the one before has written
            simulation.cluster.coordinator = self.broker
            simulation.cluster.coordinator_loads = self.seconds > 0

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.coordinator_loads = False


@attrs.frozen(kw_only=True)
class MovedGroupCoordinator(Fault):
    """A broker becomes the coordinator of all groups; that of transactions stays, perhaps another one."""

    broker: int

    def begin(self, simulation: Simulation) -> None:
        if simulation.cluster.brokers[self.broker].up:
            simulation.cluster.group_coordinator = self.broker


@attrs.frozen(kw_only=True)
class ReplacedCoordinator(FrozenBroker):
    """A broker freezes; if it is the coordinator of transactions, `next_coordinator` takes its place after `elected` s.

    When it goes on, it does not know that for `unaware` seconds, and answers from what it knew.
    """

    next_coordinator: int
    elected: float
    unaware: float

    def begin(self, simulation: Simulation) -> None:
        super().begin(simulation)
        cluster = simulation.cluster
        if cluster.coordinates != self.broker or not cluster.brokers[self.broker].up:
            return
        frozen = cluster.brokers[self.broker]

        def refuse() -> None:
            cluster.refused_by_outdated += 1

        state = OutdatedCoordinator(
            current=cluster.transactions, bumps=lambda: frozen.features[0] >= TXN_V2, on_refusal=refuse
        )

        def elect() -> None:
            if cluster.coordinates != self.broker:
                return
            cluster.outdated[self.broker] = state
            cluster.outdated.pop(self.next_coordinator, None)
            cluster.coordinator = self.next_coordinator
            if cluster.group_coordinator == self.broker:
                cluster.group_coordinator = self.next_coordinator
            for topic in cluster.topics.values():
                for partition, leader in enumerate(topic.leaders):
                    if leader == self.broker and partition not in topic.replicated:
                        topic.move_leader(partition, self.next_coordinator)

        simulation.network.schedule.later(self.elected, elect)

    def end(self, simulation: Simulation) -> None:
        simulation.network.schedule.later(self.unaware, lambda: simulation.cluster.outdated.pop(self.broker, None))
        super().end(simulation)


@attrs.frozen(kw_only=True)
class FencedProducer(Fault):
    """Another producer takes a transactional id over."""

    transactional_id: str

    def begin(self, simulation: Simulation) -> None:
        simulation.cluster.transactions.initialize(self.transactional_id, None)


@attrs.frozen(kw_only=True)
class ForgottenIds(Fault):
    """The coordinator forgets a transactional id if it has no transaction, as after `transactional.id.expiration.ms`.

    *lost*: it forgets it with its transaction, as after an unclean election of the log of transactions.
    """

    transactional_id: str
    lost: bool = False

    def begin(self, simulation: Simulation) -> None:
        transactions = simulation.cluster.transactions
        owner = transactions.ids.get(self.transactional_id)
        if owner is not None and (self.lost or not owner.busy):
            transactions.forget(self.transactional_id)


@attrs.frozen(kw_only=True)
class ChangedTransactionVersion(Fault):
    """The cluster's feature `transaction.version` has another level from now on, as new connections show."""

    level: int

    def begin(self, simulation: Simulation) -> None:
        cluster = simulation.cluster
        if cluster.transaction_version != self.level:
            cluster.transaction_version = self.level
            cluster.features_epoch += 1


@attrs.frozen(kw_only=True)
class TimedOutTransaction(Fault):
    """The coordinator aborts an open transaction, as after `transaction.timeout.ms`."""

    transactional_id: str

    def begin(self, simulation: Simulation) -> None:
        simulation.cluster.transactions.time_out(self.transactional_id)


@attrs.frozen(kw_only=True)
class RebalancedGroup(Fault):
    """A consumer group has a new generation, with the same members."""

    group: str

    def begin(self, simulation: Simulation) -> None:
        simulation.cluster.groups[self.group].generation_id += 1


@attrs.frozen(kw_only=True)
class SlowMarkers(Fault):
    """The markers of transactions that end are written after this number of seconds."""

    marker_seconds: float

    def begin(self, simulation: Simulation) -> None:
        simulation.cluster.transactions.marker_seconds = self.marker_seconds

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.transactions.marker_seconds = 0.0
