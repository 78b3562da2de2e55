"""The open transaction as a value, and the transitions of its producer's state."""

from __future__ import annotations

import itertools

import pytest

from ottla.accumulator.sequences import Sequences
from ottla.transactions.current_transaction import CurrentTransaction
from ottla.transactions.state_table import State
from ottla.transactions.transaction_state import TransactionState

NEW = CurrentTransaction()
ENDS_V1 = {"next_epoch_assigned": False}


def of_version(version: int) -> CurrentTransaction:
    """A transaction that has begun."""
    return NEW.begin(version)


@pytest.mark.parametrize(("version", "uses_v2"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_transaction_uses_the_version_of_the_cluster_at_its_beginning(version: int, uses_v2: bool) -> None:
    transaction = of_version(version)

    assert (transaction.version, transaction.uses_v2) == (version, uses_v2)
    assert transaction.start().begin(2 if version < 2 else 1).version == version


@pytest.mark.rule("producer.transactions.protocol")
@pytest.mark.parametrize(("version", "later"), [(0, 2), (1, 2), (1, 0)])
def test_a_transaction_that_brokers_may_have_keeps_its_version(version: int, later: int) -> None:
    maybe = of_version(version).after_lost_response().begin(later)

    assert (maybe.version, maybe.can_start, maybe.needs_end) == (version, True, True)


def test_before_it_begins_a_transaction_has_no_version() -> None:
    assert (NEW.version, NEW.uses_v2, NEW.can_start) == (None, False, True)


@pytest.mark.parametrize(
    ("before", "after", "can_start"), [(0, 1, True), (1, 0, True), (1, 2, False), (0, 2, False), (2, 1, True)]
)
def test_the_upgrade_to_version_2_needs_a_new_epoch(before: int, after: int, can_start: bool) -> None:
    ended = of_version(before).start().end(next_epoch_assigned=before >= 2).complete(uncertain=False)

    assert ended.begin(after).can_start == can_start
    assert ended.take_epoch().begin(after).can_start
    assert ended.take_epoch().begin(after).version == after


@pytest.mark.parametrize(("version", "assigned", "can_start"), [(1, False, True), (2, True, True), (2, False, False)])
def test_in_version_2_the_end_has_to_assign_the_next_epoch(version: int, assigned: bool, can_start: bool) -> None:
    ended = of_version(version).start().end(next_epoch_assigned=assigned).complete(uncertain=False)

    assert ended.begin(version).can_start == can_start
    assert not ended.started


@pytest.mark.parametrize("version", [1, 2])
def test_maybe_written_records_prevent_further_use_of_the_epoch(version: int) -> None:
    ended = of_version(version).start().end(next_epoch_assigned=version == 2)

    assert not ended.complete(uncertain=True).begin(version).can_start
    assert ended.complete(uncertain=False).begin(version).can_start


def test_a_transaction_maybe_known_to_a_coordinator_blocks_its_epoch() -> None:
    lost = of_version(1).after_lost_response()

    assert not lost.complete(uncertain=False).begin(1).can_start
    assert lost.start().end(**ENDS_V1).complete(uncertain=False).begin(1).can_start


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_transaction_that_has_ended_is_not_ended_again(version: int) -> None:
    """Also if its completion is interrupted: brokers would refuse another end, and the producer would fail."""
    begun = of_version(version).start().after_lost_response().after_lost_commit().after_refused_commit(1.0)
    ended = begun.end(next_epoch_assigned=version >= 2)

    assert not ended.needs_end
    assert not ended.maybe_committed
    assert ended.commit_refused_at is None


def test_a_lost_commit_concerns_one_transaction_only() -> None:
    lost = of_version(2).start().after_lost_commit().after_refused_commit(1.0)
    ended, completed = lost.end(next_epoch_assigned=True), lost.complete(uncertain=False)

    assert (lost.maybe_committed, lost.commit_refused_at) == (True, 1.0)
    assert lost.after_refused_commit(2.0).commit_refused_at == 1.0
    assert lost.after_lost_commit().after_refused_commit(2.0).commit_refused_at == 2.0
    assert (ended.maybe_committed, ended.commit_refused_at) == (False, None)
    assert (completed.maybe_committed, completed.commit_refused_at) == (False, None)


@pytest.mark.parametrize(("version", "can_start"), [(1, False), (2, True)])
def test_a_prepared_transaction_has_its_epoch_for_itself(version: int, can_start: bool) -> None:
    prepared = of_version(version).start().end_later(prepare=True).end_later()
    ended = prepared.end(next_epoch_assigned=version == 2).complete(uncertain=False)

    assert prepared.prepared
    assert not ended.prepared
    assert ended.begin(version).can_start == can_start


def test_an_end_waits_for_its_own_records() -> None:
    first = NEW.end_later().queue_all_records()

    assert first.all_records_queued
    assert not first.complete(uncertain=False).end_later().all_records_queued


def test_an_epoch_in_the_middle_of_a_commit_leaves_the_commit_as_it_is() -> None:
    committing = of_version(1).end_later().queue_all_records().after_lost_response()
    taken = committing.take_epoch()

    assert (taken.all_records_queued, taken.maybe_started, taken.version) == (True, True, None)


POSSIBLE = {
    (State.UNINITIALIZED, State.INITIALIZING),  # init_transactions
    (State.UNINITIALIZED, State.JOINED),  # join_transaction
    (State.INITIALIZING, State.READY),
    (State.INITIALIZING, State.PREPARED),  # a transaction that was kept (KIP-939)
    (State.INITIALIZING, State.UNINITIALIZED),  # it was refused, and may be tried again
    (State.READY, State.IN_TRANSACTION),  # begin_transaction
    (State.IN_TRANSACTION, State.PREPARED),  # prepare_transaction
    (State.IN_TRANSACTION, State.COMMITTING),
    (State.IN_TRANSACTION, State.ABORTING),
    (State.IN_TRANSACTION, State.ABORTABLE_ERROR),
    (State.PREPARED, State.COMMITTING),
    (State.PREPARED, State.ABORTING),
    (State.PREPARED, State.ABORTABLE_ERROR),
    (State.COMMITTING, State.READY),
    (State.COMMITTING, State.ABORTABLE_ERROR),
    (State.ABORTABLE_ERROR, State.ABORTING),
    (State.ABORTING, State.READY),
    (State.JOINED, State.LEAVING),  # leave_transaction
    (State.LEAVING, State.UNINITIALIZED),
}


@pytest.mark.parametrize("before", State, ids=lambda state: state.name)
def test_a_state_is_followed_only_by_states_of_a_call_or_response(before: State) -> None:
    for _, after in itertools.product([before], State):
        state = TransactionState(transactional_id="x", client_id="c", sequences=Sequences(transactional=True))
        state.state = before
        if (before, after) in POSSIBLE or (after is State.FATAL_ERROR and before is not State.FATAL_ERROR):
            state.transition_to(after)
            assert state.state is after
        else:
            with pytest.raises(AssertionError, match="cannot be followed by"):
                state.transition_to(after)
