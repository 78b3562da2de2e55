"""Faults of logins and permissions."""

from __future__ import annotations

import attrs

from ottla_testkit.simulation.planned_faults.fault import Fault
from ottla_testkit.simulation.simulation import Simulation


@attrs.frozen(kw_only=True)
class DeniedTopic(Fault):
    """The client may neither describe nor write a topic."""

    topic: str

    def begin(self, simulation: Simulation) -> None:
        simulation.cluster.denied_topics.add(self.topic)

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.denied_topics.discard(self.topic)


@attrs.frozen(kw_only=True)
class DeniedTransactionalId(Fault):
    """The client may not use a transactional id."""

    transactional_id: str

    def begin(self, simulation: Simulation) -> None:
        simulation.cluster.denied_ids.add(self.transactional_id)

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.denied_ids.discard(self.transactional_id)


@attrs.frozen(kw_only=True)
class RefusedLogin(Fault):
    """A broker refuses the logins of all users."""

    broker: int

    def begin(self, simulation: Simulation) -> None:
        login = simulation.cluster.brokers[self.broker].login
        if login is not None:
            login.refusing = True

    def end(self, simulation: Simulation) -> None:
        login = simulation.cluster.brokers[self.broker].login
        if login is not None:
            login.refusing = False
