"""The known coordinators of a transactional id and of the groups whose offsets it commits."""

from __future__ import annotations

from typing import assert_never

from ottla.transactions.coordinator_request import CoordinatorRequest, Target
from ottla.transactions.transaction_error_actions import CoordinatorRequestKind
from ottla.transactions.transaction_requests import FindCoordinator


class Coordinators:
    """The coordinators of one producer."""

    def __init__(self, transactional_id: str) -> None:
        self._transactional_id = transactional_id
        self._transaction: int | None = None
        self._groups: dict[str, int] = {}
        self._doubted: int | None = None

    def node(self, request: CoordinatorRequest) -> int | None:
        """The receiver of a request, or None for any broker, or for a coordinator that has to be found first."""
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
            return FindCoordinator(key=request.key, group=True, doubted=self._doubted)
        return FindCoordinator(key=self._transactional_id, group=False, doubted=self._doubted)

    def learn(self, request: CoordinatorRequest, node: int) -> None:
        """Note the coordinator that a FindCoordinator request found."""
        if request.kind is CoordinatorRequestKind.FIND_GROUP:
            self._groups[request.key] = node
        else:
            self._transaction = node
        if node == self._doubted:
            self._doubted = None

    def doubt(self, request: CoordinatorRequest) -> None:
        """Note that the coordinator that answered may have been replaced: who it is, another broker is asked.

        Until another one names it, or `end_doubt`.
        """
        if request.target is not Target.ANY:
            self._doubted = self.node(request)

    def end_doubt(self) -> None:
        """Ask any broker again who a coordinator is."""
        self._doubted = None

    def forget(self, request: CoordinatorRequest) -> None:
        """Forget a coordinator that did not answer or is no longer coordinator; the next attempt finds it again."""
        if request.target is Target.COORDINATOR:
            self._transaction = None
        elif request.target is Target.GROUP:
            self._groups.pop(request.key, None)
