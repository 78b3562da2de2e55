"""The states of a transactional producer, the legal transitions, and a caller's next step in each: tables."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


class State(enum.Enum):
    """The state of a producer; the value is its name in errors."""

    UNINITIALIZED = "not initialized"
    INITIALIZING = "being initialized"
    READY = "ready, no transaction open"
    IN_TRANSACTION = "in a transaction"
    PREPARED = "holding a prepared transaction"
    JOINED = "in a shared transaction, which its owner ends"
    LEAVING = "leaving a shared transaction, which its owner ends"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "in a transaction that failed"
    FATAL_ERROR = "failed for good"


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = MappingProxyType(
    {
        State.UNINITIALIZED: frozenset({State.INITIALIZING, State.JOINED, State.FATAL_ERROR}),
        State.INITIALIZING: frozenset({State.READY, State.PREPARED, State.UNINITIALIZED, State.FATAL_ERROR}),
        State.READY: frozenset({State.IN_TRANSACTION, State.FATAL_ERROR}),
        State.IN_TRANSACTION: frozenset(
            {State.COMMITTING, State.ABORTING, State.PREPARED, State.ABORTABLE_ERROR, State.FATAL_ERROR}
        ),
        State.PREPARED: frozenset({State.COMMITTING, State.ABORTING, State.ABORTABLE_ERROR, State.FATAL_ERROR}),
        State.JOINED: frozenset({State.LEAVING, State.FATAL_ERROR}),
        State.LEAVING: frozenset({State.UNINITIALIZED, State.FATAL_ERROR}),
        State.COMMITTING: frozenset({State.READY, State.ABORTABLE_ERROR, State.FATAL_ERROR}),
        State.ABORTING: frozenset({State.READY, State.FATAL_ERROR}),
        State.ABORTABLE_ERROR: frozenset({State.ABORTING, State.FATAL_ERROR}),
        State.FATAL_ERROR: frozenset(),
    }
)
"""The states that may follow each state."""

NEXT_STEPS: Final[Mapping[State, str]] = MappingProxyType(
    {
        State.UNINITIALIZED: "call init_transactions first",
        State.INITIALIZING: "call init_transactions again to wait for it",
        State.READY: "call begin_transaction",
        State.IN_TRANSACTION: "send, or call commit_transaction or abort_transaction",
        State.PREPARED: "call commit_transaction or abort_transaction, or complete it from elsewhere",
        State.JOINED: "send, or call leave_transaction; the transaction's owner ends it",
        State.LEAVING: "call leave_transaction again to wait for it",
        State.COMMITTING: "call commit_transaction again to wait for it",
        State.ABORTING: "call abort_transaction again to wait for it",
        State.ABORTABLE_ERROR: "call abort_transaction, then begin another one",
        State.FATAL_ERROR: "close this producer and make a new one",
    }
)
"""A caller's possible next steps, for error messages."""

CAN_SEND: Final = frozenset({State.IN_TRANSACTION, State.JOINED})
"""The states in which records may be queued."""

HAS_RECORDS: Final = CAN_SEND | {State.ABORTABLE_ERROR, State.FATAL_ERROR}
"""The states in which a record that is refused counts among those of the transaction; later on, it is in none."""

CAN_FAIL: Final = frozenset({State.IN_TRANSACTION, State.COMMITTING, State.PREPARED, State.JOINED, State.LEAVING})
"""The states in which a transaction can still fail."""
