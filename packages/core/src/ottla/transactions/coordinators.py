"""Which brokers look after a transactional id and the groups whose positions it commits, as far as that is known."""

from __future__ import annotations

from typing import Any, assert_never

from ottla.errors import ProtocolError
from ottla.transactions.error_actions import ErrandKind
from ottla.transactions.requests import Errand, Target
from ottla.transactions.transactional_requests import find_coordinator


class Coordinators:
    """The coordinators of one producer."""

    def __init__(self, transactional_id: str) -> None:
        self._transactional_id = transactional_id
        self._transaction: int | None = None
        self._groups: dict[str, int] = {}

    def node(self, errand: Errand) -> int | None:
        """Who is to be asked; None: any broker, or one that has to be found first."""
        match errand.target:
            case Target.ANY:
                return None
            case Target.COORDINATOR:
                return self._transaction
            case Target.GROUP:
                return self._groups.get(errand.key)
            case _:
                assert_never(errand.target)

    def before(self, errand: Errand) -> Errand:
        """The errand itself, or the search that has to come before it."""
        if errand.target is Target.ANY or self.node(errand) is not None:
            return errand
        if errand.target is Target.GROUP:
            return find_coordinator(errand.key, group=True)
        return find_coordinator(self._transactional_id, group=False)

    def learn(self, errand: Errand, node: int) -> None:
        """A search has found it."""
        if errand.kind is ErrandKind.FIND_GROUP:
            self._groups[errand.key] = node
        else:
            self._transaction = node

    def forget(self, errand: Errand) -> None:
        """Find it anew before the next try: it did not answer, or is it no more."""
        if errand.target is Target.COORDINATOR:
            self._transaction = None
        elif errand.target is Target.GROUP:
            self._groups.pop(errand.key, None)


def found(errand: Errand, answer: Any) -> Any:
    """The part of a FindCoordinator answer that is for *errand*: from version 4 on one answer tells of several keys."""
    if not answer.coordinators:
        return answer
    return next((each for each in answer.coordinators if each.key == errand.key), answer.coordinators[0])


def nobody(coordinator: Any) -> ProtocolError | None:
    """Why the broker that an answer without an error code names cannot be one; None: it can.

    Negative ids are those of our bootstrap servers, and -1 is Kafka's "no node".
    """
    if coordinator.node_id >= 0:
        return None
    return ProtocolError(f"an answer to FindCoordinator names broker {coordinator.node_id}, which no broker can be")
