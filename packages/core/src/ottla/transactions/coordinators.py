"""The known coordinators of a transactional id and of the groups whose offsets it commits."""

from __future__ import annotations

from typing import Any, assert_never

from ottla.errors import ProtocolError
from ottla.transactions.error_actions import CoordinatorRequestKind
from ottla.transactions.requests import CoordinatorRequest, Target
from ottla.transactions.transactional_requests import find_coordinator


class Coordinators:
    """The coordinators of one producer."""

    def __init__(self, transactional_id: str) -> None:
        self._transactional_id = transactional_id
        self._transaction: int | None = None
        self._groups: dict[str, int] = {}

    def node(self, request: CoordinatorRequest) -> int | None:
        """The broker to ask; None means any broker, or a coordinator that has to be found first."""
        match request.target:
            case Target.ANY:
                return None
            case Target.COORDINATOR:
                return self._transaction
            case Target.GROUP:
                return self._groups.get(request.key)
            case _:
                assert_never(request.target)

    def before(self, request: CoordinatorRequest) -> CoordinatorRequest:
        """Return the request, or the FindCoordinator request that has to come before it."""
        if request.target is Target.ANY or self.node(request) is not None:
            return request
        if request.target is Target.GROUP:
            return find_coordinator(request.key, group=True)
        return find_coordinator(self._transactional_id, group=False)

    def learn(self, request: CoordinatorRequest, node: int) -> None:
        """Note the coordinator that a FindCoordinator request found."""
        if request.kind is CoordinatorRequestKind.FIND_GROUP:
            self._groups[request.key] = node
        else:
            self._transaction = node

    def forget(self, request: CoordinatorRequest) -> None:
        """Forget a coordinator that did not answer or is no longer coordinator; the next attempt finds it again."""
        if request.target is Target.COORDINATOR:
            self._transaction = None
        elif request.target is Target.GROUP:
            self._groups.pop(request.key, None)


def found(request: CoordinatorRequest, answer: Any) -> Any:
    """The part of a FindCoordinator response for *request*; from version 4 a response has several keys."""
    if not answer.coordinators:
        return answer
    return next((each for each in answer.coordinators if each.key == request.key), answer.coordinators[0])


def nobody(coordinator: Any) -> ProtocolError | None:
    """The error if a response without an error code names an impossible broker; None if the broker is possible.

    Negative ids are those of our bootstrap servers, and -1 is Kafka's "no node".
    """
    if coordinator.node_id >= 0:
        return None
    return ProtocolError(f"an answer to FindCoordinator names broker {coordinator.node_id}, which no broker can be")
