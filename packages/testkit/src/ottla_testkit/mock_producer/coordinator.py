"""The transactions of a mock producer: a real state machine; a simulated coordinator answers immediately."""

from __future__ import annotations

from typing import Any, Final

from ottla.accumulator.sequences import Sequences
from ottla.errors import ErrorCode, IllegalStateError
from ottla.transactions.coordinator_request import CoordinatorRequest
from ottla.transactions.manager import TransactionManager
from ottla.transactions.request_source import RequestSource
from ottla.transactions.state_table import State
from ottla_testkit.simulation.coordinator_requests import coordinate
from ottla_testkit.simulation.transactions import TransactionCoordinator

_NODE = 0
_ABORTED_BY_CLOSE: Final = (State.IN_TRANSACTION, State.ABORTABLE_ERROR)
_OPEN: Final = (*_ABORTED_BY_CLOSE, State.PREPARED, State.COMMITTING, State.ABORTING)


class MockCoordinator:
    """Send the requests of one producer's transactions and respond to them, in place of I/O thread and broker."""

    def __init__(self, manager: TransactionManager, requests: RequestSource, sequences: Sequences) -> None:
        self.manager = manager
        self.requests = requests
        self.sequences = sequences
        self.fenced = False
        self._transactions = TransactionCoordinator(mark=lambda *_marker: None)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open. Prepared and failed transactions count as open."""
        return self.manager.state in _OPEN

    @property
    def aborts_at_close(self) -> bool:
        """Whether closing the producer aborts a transaction."""
        return self.manager.state in _ABORTED_BY_CLOSE

    def join(self, topic: str, partition: int) -> None:
        """Add a record's partition to the open transaction."""
        self.sequences.transaction_partitions.admits((topic, partition))

    def fence(self) -> None:
        """Let another producer take the transactional id over; IllegalStateError if this one does not have it yet."""
        if self.manager.state is State.UNINITIALIZED:
            raise IllegalStateError(
                "fence needs a producer that has its transactional.id; call init_transactions first"
            )
        self._transactions.initialize(self.manager.transactional_id, None)
        self.fenced = True

    def advance(self, now: float, *, all_complete: bool) -> None:
        """Send every request that is due, and process its response."""
        while (request := self.requests.next_request(now, all_complete=lambda: all_complete)) is not None:
            self.requests.begin(request)
            self.requests.on_response(request, self._answer(request), now)

    def _answer(self, coordinator_request: CoordinatorRequest) -> Any:
        newest = (
            coordinator_request.message.max_version
            if coordinator_request.ceiling is None
            else coordinator_request.ceiling
        )
        version = max(min(newest, coordinator_request.message.max_version), coordinator_request.floor)
        request = coordinator_request.build(version)
        return coordinate(
            self._transactions,
            coordinator_request.message,
            request,
            version=version,
            node=_NODE,
            coordinates=_NODE,
            address=("localhost", 9092),
            partitions=None,
            groups=None,
            code=ErrorCode.NONE,
        )
