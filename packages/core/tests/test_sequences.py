"""Sequence numbers of batches, step by step: which batch may leave, and what each outcome changes."""

from __future__ import annotations

import pytest

from machine import columns
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.idempotent_epoch_bump import LAST_EPOCH
from ottla.accumulator.sequences import SequenceErrorAction, Sequences
from ottla.errors import BrokerError, DeliveryError, ErrorCode, NetworkError
from ottla.network.backoff import Backoff
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.recordbatch.batch_sequence import SEQUENCES, BatchSequence, ProducerIdAndEpoch
from ottla.transactions.producer_id_request_source import ProducerIdRequestSource

FIRST = ProducerIdAndEpoch(id=7, epoch=0)
NEXT = ProducerIdAndEpoch(id=7, epoch=1)
OTHER = ProducerIdAndEpoch(id=8, epoch=0)
LOST = NetworkError("lost")


def batch(count: int = 1, *, partition: int = 0) -> ProducerBatch:
    made = ProducerBatch(topic="t", partition=partition, columns=columns(1_000_000), now=0.0)
    for _ in range(count):
        made.append(None, b"v", (), None, None)
    return made


def numbered(*, transactional: bool = False, current: ProducerIdAndEpoch = FIRST) -> Sequences:
    made = Sequences(transactional=transactional)
    made.take_producer_id(current)
    return made


def leave(sequences: Sequences, *batches: ProducerBatch) -> None:
    """Send batches in a request each."""
    for each in batches:
        sequences.assign(each)
        sequences.mark_sent(each)


def known(sequences: Sequences, count: int = 1) -> ProducerBatch:
    """A partition whose broker has acknowledged one batch of so many records."""
    first = batch(count)
    leave(sequences, first)
    answer(sequences, first)
    return first


def answer(sequences: Sequences, *batches: ProducerBatch) -> None:
    """Acknowledge batches that were sent."""
    for each in batches:
        sequences.mark_returned(each)
        sequences.acknowledge(each)


def base(made: ProducerBatch) -> int:
    assert made.sequence is not None
    return made.sequence.base_sequence


def epoch(made: ProducerBatch) -> ProducerIdAndEpoch:
    assert made.sequence is not None
    return made.sequence.producer_id_and_epoch


# Which batch may leave


def test_without_a_producer_id_nothing_leaves_unless_numbers_are_off() -> None:
    assert not Sequences().may_leave(batch())
    assert Sequences(off=True).may_leave(batch())
    assert numbered().may_leave(batch())


def test_numbers_that_are_off_are_not_assigned() -> None:
    sequences, first = Sequences(off=True), batch()
    sequences.take_producer_id(FIRST)
    leave(sequences, first)

    assert first.sequence is None
    answer(sequences, first)
    sequences.fail(first, LOST)


def test_the_second_batch_leaves_once_the_first_is_acknowledged() -> None:
    sequences, first = numbered(), batch()
    leave(sequences, first)
    assert not sequences.may_leave(batch())

    answer(sequences, first)
    second = batch()
    assert sequences.may_leave(second)
    leave(sequences, second)
    assert sequences.may_leave(batch())


def test_of_two_numbered_batches_only_the_first_may_leave_again() -> None:
    sequences = numbered()
    known(sequences)
    first, second = batch(), batch()
    leave(sequences, first, second)
    for each in (first, second):
        sequences.mark_returned(each)

    assert sequences.may_leave(first)
    assert not sequences.may_leave(second)


def test_partitions_do_not_wait_for_each_other() -> None:
    sequences, first, other = numbered(), batch(), batch(partition=1)
    leave(sequences, first)

    assert sequences.may_leave(other)
    leave(sequences, other)
    assert (base(first), base(other)) == (0, 0)


def test_five_batches_are_in_flight_at_most() -> None:
    sequences = numbered()
    known(sequences)
    leave(sequences, *(batch() for _ in range(4)))

    assert sequences.may_leave(batch())
    leave(sequences, batch())
    assert not sequences.may_leave(batch())


def test_acknowledged_batches_behind_an_open_one_count_to_the_five() -> None:
    sequences = numbered()
    known(sequences)
    sent = [batch() for _ in range(5)]
    leave(sequences, *sent)
    answer(sequences, *sent[1:])

    assert not sequences.may_leave(batch())
    answer(sequences, sent[0])
    assert sequences.may_leave(batch())


def test_only_later_acknowledgements_count_to_the_five() -> None:
    sequences = numbered()
    known(sequences)
    sent = [batch() for _ in range(5)]
    leave(sequences, *sent)
    answer(sequences, sent[2], sent[4], sent[0])

    assert sequences.may_leave(batch())  # the second and the fourth are open, the third and the fifth are remembered
    leave(sequences, batch())
    assert not sequences.may_leave(batch())
    answer(sequences, sent[1])
    leave(sequences, batch())
    assert sequences.may_leave(batch())  # three are open, and of the acknowledged ones only the fifth is behind them


def test_nothing_new_leaves_while_the_response_of_the_first_is_lost() -> None:
    sequences = numbered()
    known(sequences)
    first = batch()
    leave(sequences, first)
    first.response_lost = True

    assert not sequences.may_leave(batch())


def test_no_other_batch_leaves_before_a_returned_one_is_sent_again() -> None:
    sequences, first = numbered(), batch()
    leave(sequences, first)
    sequences.mark_returned(first)

    assert not sequences.may_leave(batch())


def test_refused_batches_do_not_count_to_the_five() -> None:
    sequences = numbered()
    known(sequences)
    sent = [batch() for _ in range(5)]
    leave(sequences, *sent)
    sequences.fail(sent[4], LOST)

    assert sequences.may_leave(batch())


def test_a_refused_batch_in_an_unanswered_request_keeps_none_back() -> None:
    sequences = numbered()
    known(sequences)
    refused = batch()
    leave(sequences, refused)
    sequences.fail(refused, LOST)

    assert sequences.may_leave(batch())


def test_in_a_new_epoch_a_batch_waits_for_those_of_the_old_one() -> None:
    sequences = numbered()
    known(sequences)
    old = batch()
    leave(sequences, old)
    sequences.take_producer_id(NEXT)

    assert not sequences.may_leave(batch())
    answer(sequences, old)
    new = batch()
    assert sequences.may_leave(new)
    leave(sequences, new)
    assert (epoch(new), base(new)) == (NEXT, 0)
    assert sequences.may_leave(batch())  # the broker knows the producer id


def test_in_a_new_epoch_a_batch_waits_for_a_request_that_was_given_up() -> None:
    sequences, first = numbered(), batch()
    leave(sequences, first)
    first.maybe_written = True
    sequences.fail(first, LOST)
    sequences.take_producer_id(NEXT)
    assert not sequences.may_leave(batch())

    sequences.mark_returned(first)
    assert sequences.may_leave(batch())


def test_an_equal_producer_id_that_is_another_object_changes_nothing() -> None:
    sequences = numbered()
    known(sequences)
    sequences.take_producer_id(ProducerIdAndEpoch(id=7, epoch=0))
    second = batch()
    leave(sequences, second)

    assert base(second) == 1
    assert sequences.may_leave(batch())


def test_with_a_new_id_the_first_batch_leaves_alone_again() -> None:
    sequences = numbered()
    known(sequences)
    sequences.take_producer_id(OTHER)
    leave(sequences, batch())

    assert not sequences.may_leave(batch())


def test_a_batch_in_a_request_that_was_given_up_keeps_others_back() -> None:
    sequences = numbered()
    known(sequences)
    failed = batch()
    leave(sequences, failed)
    failed.maybe_written = True
    sequences.fail(failed, LOST)

    assert not sequences.may_leave(batch())


# Numbers


def test_numbers_count_the_records_and_wrap_around() -> None:
    sequences, first, second = numbered(), batch(3), batch(2)
    leave(sequences, first)
    answer(sequences, first)
    leave(sequences, second)
    assert (base(first), base(second)) == (0, 3)

    answer(sequences, second)
    sequences._partitions["t", 0].last_acknowledged = SEQUENCES - 2
    third, fourth = batch(2), batch()
    leave(sequences, third)
    leave(sequences, fourth)
    assert (base(third), base(fourth)) == (SEQUENCES - 1, 1)


def test_a_numbered_batch_keeps_its_number() -> None:
    sequences, first = numbered(), batch()
    leave(sequences, first)
    number = first.sequence
    sequences.take_producer_id(NEXT)
    leave(sequences, first)

    assert first.sequence is number


def test_numbers_of_a_refused_batch_are_used_again() -> None:
    sequences = numbered()
    known(sequences, 2)
    refused = batch(3)
    leave(sequences, refused)
    sequences.mark_returned(refused)
    sequences.fail(refused, LOST)
    later = batch()
    assert sequences.may_leave(later)
    leave(sequences, later)

    assert (base(refused), base(later)) == (2, 2)
    assert not sequences.uncertain


def test_late_acknowledgements_out_of_order_do_not_turn_numbers_back() -> None:
    sequences = numbered()
    known(sequences)
    first, second = batch(), batch(2)
    leave(sequences, first, second)
    answer(sequences, second, first)
    third = batch()
    leave(sequences, third)

    assert base(third) == 4


def test_an_acknowledgement_of_an_earlier_epoch_does_not_count() -> None:
    sequences, late = numbered(), batch(5)
    leave(sequences, late)
    sequences.fail(late, LOST)
    sequences.mark_returned(late)
    sequences.take_producer_id(OTHER)
    new = batch()
    leave(sequences, new)
    sequences.acknowledge(late)
    assert not sequences.may_leave(batch())  # no broker has acknowledged a batch of the new id

    sequences.mark_returned(new)
    sequences.fail(new, LOST)
    again = batch()
    leave(sequences, again)
    assert base(again) == 0


def test_transactional_batches_are_marked() -> None:
    sequences, first = numbered(transactional=True), batch()
    leave(sequences, first)

    assert first.sequence == BatchSequence(producer_id_and_epoch=FIRST, base_sequence=0, transactional=True)


# Splits


def test_parts_take_the_place_and_the_numbers_of_the_whole() -> None:
    sequences = numbered()
    known(sequences)
    whole, later = batch(5), batch()
    leave(sequences, whole, later)
    for each in (whole, later):
        sequences.mark_returned(each)
    parts = [batch(2), batch(2), batch(1)]
    sequences.split(whole, parts)

    assert [base(part) for part in parts] == [1, 3, 5]
    assert base(later) == 6
    assert [sequences.may_leave(each) for each in (*parts, later)] == [True, False, False, False]
    for part in parts:
        sequences.mark_sent(part)
        answer(sequences, part)
    assert sequences.may_leave(later)


def test_a_split_that_is_repeated_changes_nothing() -> None:
    sequences, whole = numbered(), batch(2)
    leave(sequences, whole)
    parts, again = [batch(), batch()], [batch(), batch()]
    sequences.split(whole, parts)
    sequences.split(whole, again)

    assert sequences._partitions["t", 0].in_flight == parts
    assert [part.sequence for part in again] == [None, None]


def test_a_split_without_numbers_gives_none() -> None:
    sequences, part = numbered(), batch()
    sequences.split(batch(), [part])

    assert part.sequence is None


@pytest.mark.parametrize("earlier", [False, True])
def test_a_split_remembers_that_the_whole_may_be_written(earlier: bool) -> None:
    sequences, whole = numbered(), batch(2)
    leave(sequences, whole)
    whole.maybe_written = True
    parts = [batch(2)]
    sequences.split(whole, parts)
    if earlier:  # a later split of a batch that is not written does not change that
        part = parts[0]
        parts = [batch(), batch()]
        sequences.split(part, parts)
    parts[0].maybe_written = True

    assert sequences.on_sequence_error(parts[0]) is SequenceErrorAction.FAIL


# Responses that a number is wrong


def test_a_later_batch_is_sent_again_unchanged() -> None:
    sequences = numbered()
    known(sequences)
    first, second = batch(), batch()
    leave(sequences, first, second)

    assert sequences.on_sequence_error(second) is SequenceErrorAction.RETRY
    assert sequences.on_sequence_error(first) is SequenceErrorAction.RENUMBER


def test_renumbered_batches_wait_for_the_wire_and_get_the_next_epoch() -> None:
    sequences = numbered()
    known(sequences)
    first, second = batch(2), batch()
    leave(sequences, first, second)
    sequences.mark_returned(first)
    sequences.on_sequence_error(first)
    sequences.resolve()
    assert epoch(first) == FIRST  # the second is on the wire
    assert not sequences.may_leave(first)
    assert not sequences.may_leave(batch())

    sequences.mark_returned(second)
    sequences.resolve()
    assert (epoch(first), base(first), epoch(second), base(second)) == (NEXT, 0, NEXT, 2)
    assert sequences.producer_id_and_epoch == NEXT
    assert sequences.may_leave(first)
    sequences.resolve()
    assert sequences.producer_id_and_epoch == NEXT


def test_another_partition_keeps_its_numbers_until_it_is_idle() -> None:
    sequences, other = numbered(), batch(partition=1)
    known(sequences)
    leave(sequences, other)
    first = batch()
    leave(sequences, first)
    sequences.mark_returned(first)
    sequences.on_sequence_error(first)
    sequences.resolve()

    assert (epoch(first), epoch(other)) == (NEXT, FIRST)
    answer(sequences, other)
    new = batch(partition=1)
    leave(sequences, new)
    assert (epoch(new), base(new)) == (NEXT, 0)


def test_a_refused_batch_is_renumbered_after_a_later_acknowledgement() -> None:
    sequences = numbered()
    known(sequences)
    first, later = batch(), batch()
    leave(sequences, first, later)
    answer(sequences, later)
    sequences.mark_returned(first)
    assert sequences.on_sequence_error(first) is SequenceErrorAction.RENUMBER
    sequences.resolve()

    assert (epoch(first), base(first)) == (NEXT, 0)
    assert sequences.may_leave(first)
    first.maybe_written = True  # the acknowledgement of the old epoch says nothing about this attempt
    leave(sequences, first)
    sequences.mark_returned(first)
    assert sequences.on_sequence_error(first) is SequenceErrorAction.RENUMBER


def test_two_uncertain_partitions_share_one_new_epoch() -> None:
    sequences = numbered()
    known(sequences)
    first, other = batch(), batch(partition=1)
    leave(sequences, first, other)
    for each in (first, other):
        sequences.mark_returned(each)
        sequences.on_sequence_error(each)
    sequences.resolve()

    assert (epoch(first), epoch(other)) == (NEXT, NEXT)


def test_used_up_epochs_need_a_new_id_before_batches_are_numbered() -> None:
    sequences = numbered(current=ProducerIdAndEpoch(id=7, epoch=LAST_EPOCH))
    known(sequences)
    first = batch()
    leave(sequences, first)
    sequences.mark_returned(first)
    sequences.on_sequence_error(first)
    sequences.resolve()
    assert sequences.producer_id_and_epoch is None
    assert not sequences.may_leave(first)

    sequences.take_producer_id(OTHER)
    sequences.resolve()
    assert (epoch(first), base(first)) == (OTHER, 0)
    assert sequences.may_leave(first)


@pytest.mark.parametrize("doubt", ["next", "later", "none"])
def test_a_maybe_written_batch_is_renumbered_only_without_doubt(doubt: str) -> None:
    sequences = numbered()
    known(sequences)
    earlier, first, later = batch(), batch(), batch()
    leave(sequences, earlier, first, later)
    if doubt == "later":
        answer(sequences, later)
    earlier.maybe_written = doubt == "next"
    sequences.mark_returned(earlier)
    sequences.fail(earlier, LOST)
    assert sequences.on_sequence_error(first) is SequenceErrorAction.RENUMBER  # it is not written
    first.maybe_written = True

    expected = SequenceErrorAction.RENUMBER if doubt == "none" else SequenceErrorAction.FAIL
    assert sequences.on_sequence_error(first) is expected


def test_in_a_transaction_a_gap_after_acknowledged_records_is_a_loss() -> None:
    sequences = numbered(transactional=True)
    sequences.transaction_partitions.add([("t", 0)])
    known(sequences, 2)
    first = batch()
    leave(sequences, first)

    assert sequences.on_sequence_error(first) is SequenceErrorAction.FAIL
    assert sequences.uncertain


def test_in_a_transaction_a_gap_after_a_failed_batch_is_expected() -> None:
    sequences = numbered(transactional=True)
    sequences.transaction_partitions.add([("t", 0)])
    known(sequences, 2)
    first, second = batch(), batch()
    leave(sequences, first, second)
    sequences.mark_returned(first)
    sequences.fail(first, LOST)

    assert sequences.on_sequence_error(second) is SequenceErrorAction.RETRY
    assert not sequences.uncertain


def test_uncertainty_of_a_transaction_lasts_until_a_new_epoch() -> None:
    sequences = numbered(transactional=True)
    known(sequences)
    first, second = batch(), batch()
    leave(sequences, first, second)
    first.maybe_written = True
    sequences.fail(first, LOST)
    assert sequences.uncertain

    assert sequences.on_sequence_error(second) is SequenceErrorAction.RETRY
    assert sequences.uncertain
    sequences.take_producer_id(NEXT)
    assert not sequences.uncertain


# Failures


def test_after_a_maybe_written_failure_the_next_epoch_begins() -> None:
    sequences = numbered()
    known(sequences)
    failed = batch()
    leave(sequences, failed)
    failed.maybe_written = True
    sequences.fail(failed, LOST)
    assert sequences.uncertain
    sequences.resolve()
    assert sequences.producer_id_and_epoch == FIRST  # its request may still be answered

    sequences.mark_returned(failed)
    assert not sequences.may_leave(batch())
    sequences.resolve()
    assert sequences.producer_id_and_epoch == NEXT
    new = batch()
    assert sequences.may_leave(new)
    leave(sequences, new)
    assert (epoch(new), base(new)) == (NEXT, 0)


def test_uncertain_numbers_last_until_retried_batches_are_done() -> None:
    sequences = numbered()
    known(sequences)
    failed, retried = batch(), batch()
    leave(sequences, failed, retried)
    for each in (failed, retried):
        each.maybe_written = True
        sequences.mark_returned(each)
    sequences.fail(failed, LOST)
    sequences.resolve()
    assert sequences.producer_id_and_epoch == FIRST
    assert epoch(retried) == FIRST

    sequences.acknowledge(retried)  # so the one before it was written, too
    sequences.resolve()
    assert sequences.producer_id_and_epoch == FIRST
    assert sequences.may_leave(batch())


def test_a_doubt_is_resolved_once() -> None:
    sequences = numbered()
    known(sequences)
    first = batch()
    leave(sequences, first)
    sequences.mark_returned(first)
    sequences.on_sequence_error(first)
    sequences.resolve()
    sequences.fail(first, LOST)  # refused, and not written
    sequences.resolve()

    assert sequences.producer_id_and_epoch == NEXT


def test_a_partition_on_the_wire_delays_no_other_renumbering() -> None:
    sequences = numbered()
    waiting, ready = batch(), batch(partition=1)
    leave(sequences, waiting, ready)
    for each in (waiting, ready):
        sequences.on_sequence_error(each)
    sequences.mark_returned(ready)
    sequences.resolve()

    assert (epoch(waiting), epoch(ready)) == (FIRST, NEXT)


def test_the_next_batch_leaves_after_a_first_one_that_was_refused() -> None:
    sequences, refused = numbered(), batch()
    leave(sequences, refused)
    sequences.mark_returned(refused)
    sequences.fail(refused, LOST)

    assert sequences.may_leave(batch())


def test_a_late_acknowledgement_of_a_failed_batch_needs_no_epoch() -> None:
    sequences = numbered()
    known(sequences)
    failed = batch(2)
    leave(sequences, failed)
    failed.maybe_written = True
    sequences.fail(failed, LOST)
    answer(sequences, failed)
    sequences.resolve()

    assert sequences.producer_id_and_epoch == FIRST
    new = batch()
    assert sequences.may_leave(new)
    leave(sequences, new)
    assert base(new) == 3


def test_a_batch_that_failed_already_leaves_no_doubt() -> None:
    sequences = numbered()
    known(sequences)
    failed = batch()
    leave(sequences, failed)
    sequences.mark_returned(failed)
    sequences.fail(failed, LOST)
    failed.maybe_written = True
    sequences.fail(failed, LOST)

    assert not sequences.uncertain
    assert sequences.may_leave(batch())


def test_a_failure_without_a_number_leaves_no_doubt() -> None:
    sequences, failed = numbered(), batch()
    failed.maybe_written = True
    sequences.fail(failed, LOST)

    assert not sequences.uncertain


def test_a_transaction_keeps_the_error_of_its_first_failed_batch() -> None:
    sequences, later = numbered(transactional=True), NetworkError("later")
    sequences.fail(batch(), LOST)
    sequences.fail(batch(), later)
    assert sequences.failure is LOST

    sequences.begin_transaction()
    assert sequences.failure is None
    plain = numbered()
    plain.fail(batch(), LOST)
    assert plain.failure is None


def test_transactional_numbers_are_not_resolved_by_the_producer_itself() -> None:
    sequences = numbered(transactional=True)
    known(sequences)
    failed = batch()
    leave(sequences, failed)
    failed.maybe_written = True
    sequences.mark_returned(failed)
    sequences.fail(failed, LOST)
    sequences.resolve()

    assert sequences.producer_id_and_epoch == FIRST


# Transactions


def test_a_partition_joins_a_transaction_before_its_first_batch() -> None:
    sequences, first = numbered(transactional=True), batch()
    assert not sequences.may_leave(first)
    assert list(sequences.transaction_partitions.wanted) == [("t", 0)]

    sequences.transaction_partitions.add([("t", 0)])
    assert sequences.may_leave(first)


def test_writing_may_add_the_partition_to_the_transaction() -> None:
    sequences, first = numbered(transactional=True), batch()
    sequences.transaction_partitions.add_by_writing()
    assert sequences.may_leave(first)
    assert not sequences.transaction_partitions.wanted

    sequences.begin_transaction()
    assert not sequences.may_leave(first)
    assert list(sequences.transaction_partitions.wanted) == [("t", 0)]
    sequences.begin_transaction()
    assert not sequences.transaction_partitions.wanted


# A round that failed


def test_recovery_completes_numbers_that_were_half_renewed() -> None:
    sequences = numbered()
    known(sequences)
    first, second = batch(2), batch()
    leave(sequences, first, second)
    partition = sequences._partitions["t", 0]
    partition.begin(NEXT)
    sequences.producer_id_and_epoch = NEXT
    sequences._number(first, partition)  # and then the round failed
    sequences.recover()

    assert (epoch(first), base(first), epoch(second), base(second)) == (NEXT, 0, NEXT, 2)
    assert sequences.may_leave(first)
    answer(sequences, first, second)
    partition.on_the_wire = 0
    third = batch()
    leave(sequences, third)
    assert base(third) == 3


def test_recovery_keeps_numbers_that_are_complete() -> None:
    sequences = numbered()
    known(sequences)
    first = batch()
    leave(sequences, first)
    sequences.recover()

    assert base(first) == 1


def test_after_recovery_nothing_is_on_the_wire() -> None:
    sequences, first = numbered(), batch()
    leave(sequences, first)
    sequences.recover()
    sequences.fail(first, LOST)

    assert sequences.may_leave(batch())


def test_without_memory_a_batch_has_its_number_and_its_place_or_neither() -> None:
    """Wherever memory ends. One with a number alone blocked its partition, or the next one got the same number."""
    testcapi = pytest.importorskip("_testcapi")
    failures = 0
    for fails in range(30):
        sequences, first, second = numbered(), batch(1000), batch()
        known(sequences, 1000)  # for numbers that are not small: Python keeps those ready
        testcapi.set_nomemory(fails, fails + 1)
        try:
            sequences.assign(first)
        except MemoryError:
            failures += 1
        finally:
            testcapi.remove_mem_hooks()
        sequences.recover()

        assert sequences.may_leave(first)
        leave(sequences, first, second)
        assert (base(first), base(second)) == (1000, 2000)
        assert sequences._partitions["t", 0].in_flight == [first, second]
    assert failures >= 2  # since Python 3.14, a new number may take memory that Python has kept


def test_without_memory_numbers_are_renewed_completely_or_again() -> None:
    testcapi = pytest.importorskip("_testcapi")
    for fails in range(40):
        sequences, first, second = numbered(), batch(1000), batch(1000)
        known(sequences)
        leave(sequences, first, second)
        sequences._in_doubt["t", 0] = sequences._partitions["t", 0]
        sequences._partitions["t", 0].out_of_order = True
        sequences.recover()  # nothing is on the wire
        testcapi.set_nomemory(fails, fails + 1)
        try:
            sequences.resolve()
        except MemoryError:
            testcapi.remove_mem_hooks()
            sequences.recover()
            sequences.resolve()
        finally:
            testcapi.remove_mem_hooks()

        assert (epoch(first), base(first), epoch(second), base(second)) == (NEXT, 0, NEXT, 1000)
        third = batch()
        sequences.assign(third)
        assert (epoch(third), base(third)) == (NEXT, 2000)


def test_in_another_cluster_partitions_begin_again_with_a_new_id() -> None:
    sequences = numbered()
    known(sequences, 3)

    sequences.renew()
    sequences.leave_earlier_ids()

    assert sequences.producer_id_and_epoch is None
    following = batch()
    assert not sequences.may_leave(following)
    sequences.take_producer_id(OTHER)
    assert sequences.may_leave(following)
    leave(sequences, following)
    assert (epoch(following), base(following)) == (OTHER, 0)
    assert not sequences.may_leave(batch())  # the broker would take any first number


@pytest.mark.parametrize("new", [OTHER, FIRST])
def test_in_another_cluster_batches_without_an_outcome_are_numbered_again(new: ProducerIdAndEpoch) -> None:
    sequences = numbered()
    known(sequences, 3)
    first, second = batch(2), batch()
    leave(sequences, first, second)
    sequences.mark_returned(second)

    sequences.renew()
    sequences.leave_earlier_ids()
    sequences.take_producer_id(new)
    sequences.resolve()

    assert not sequences.may_leave(first)  # its response may still arrive
    sequences.mark_returned(first)
    sequences.resolve()
    assert sequences.may_leave(first)
    assert [base(first), base(second)] == [0, 2]
    assert epoch(first) == epoch(second) != FIRST
    leave(sequences, first)
    assert not sequences.may_leave(second)
    answer(sequences, first)
    assert sequences.may_leave(second)


@pytest.mark.rule("metadata.again.other")
def test_an_id_that_the_old_cluster_assigns_late_is_not_used() -> None:
    sequences = Sequences(client_id="c")
    source = ProducerIdRequestSource(sequences=sequences, backoff=Backoff(initial=0.1, maximum=1.0), client_id="c")
    request = source.next_request(0.0, all_complete=lambda: False)
    assert request is not None
    source.begin(request)
    source.begin_in_other_cluster()
    source.on_response(request, InitProducerIdResponse(producer_id=FIRST.id, producer_epoch=FIRST.epoch), 1.0)
    assert sequences.producer_id_and_epoch is None

    again = source.next_request(1.0, all_complete=lambda: False)
    assert again is not None
    source.begin(again)
    source.on_response(again, InitProducerIdResponse(producer_id=OTHER.id, producer_epoch=OTHER.epoch), 2.0)
    assert sequences.producer_id_and_epoch == OTHER


def test_lost_requests_for_a_producer_id_come_less_and_less_often() -> None:
    backoff = Backoff(initial=1.0, maximum=60.0, random=lambda: 0.5)
    source = ProducerIdRequestSource(sequences=Sequences(client_id="c"), backoff=backoff, client_id="c")
    now, waits = 0.0, []
    for _ in range(3):
        request = source.next_request(now, all_complete=lambda: False)
        assert request is not None
        assert source.next_request(now, all_complete=lambda: False) is not None  # no broker has taken it yet
        source.begin(request)
        source.on_disconnect(request, LOST, now)
        waits.append(source.due_at() - now)
        now = source.due_at()

    assert waits == sorted(set(waits))
    assert waits[-1] >= 2 * waits[0]


def with_first_id() -> tuple[Sequences, ProducerIdRequestSource]:
    """The numbers of a producer that has requested its id at 5.0, and the source of the request."""
    sequences = Sequences(client_id="c")
    source = ProducerIdRequestSource(sequences=sequences, backoff=Backoff(initial=0.1, maximum=1.0), client_id="c")
    request = source.next_request(5.0, all_complete=lambda: False)
    assert request is not None
    source.begin(request)
    source.on_response(request, InitProducerIdResponse(producer_id=FIRST.id, producer_epoch=FIRST.epoch), 5.0)
    return sequences, source


@pytest.mark.rule("metadata.again.other")
@pytest.mark.parametrize("use", ["unused", "used", "older than the connection"])
def test_only_an_unused_id_from_before_a_connection_is_requested_again(use: str) -> None:
    """One that batches have would make them lose their numbers; one that came over this connection is the cluster's."""
    sequences, source = with_first_id()
    if use == "used":
        leave(sequences, batch())

    source.renew_unused(4.0 if use == "older than the connection" else 6.0)

    assert (sequences.producer_id_and_epoch is None) == (use == "unused")


@pytest.mark.rule("metadata.again.only-new")
@pytest.mark.parametrize("opened_at", [4.0, 6.0])
def test_a_batch_in_flight_keeps_its_id_while_others_get_a_new_one(opened_at: float) -> None:
    sequences, source = with_first_id()
    in_flight, other = batch(), batch(partition=1)
    leave(sequences, in_flight)

    source.renew(opened_at)

    assert (sequences.producer_id_and_epoch is None) == (opened_at > 5.0)  # an older connection asked the same cluster
    if opened_at > 5.0:
        assert not sequences.may_leave(other)
        sequences.take_producer_id(OTHER)
    leave(sequences, other)
    ids = [each.sequence and each.sequence.producer_id_and_epoch for each in (in_flight, other)]
    assert ids == [FIRST, OTHER if opened_at > 5.0 else FIRST]
    assert sequences.may_leave(in_flight)  # again, if its connection is lost


@pytest.mark.rule("metadata.again.topics")
@pytest.mark.parametrize("same_since", [4.0, 6.0])
def test_an_id_of_this_cluster_is_kept_if_topics_were_created_again(same_since: float) -> None:
    """A batch that may be written would be written twice with another one."""
    sequences, source = with_first_id()
    in_flight = batch()
    leave(sequences, in_flight)

    assert source.begin_with_other_topics(same_since) == (same_since > 5.0)

    assert (sequences.producer_id_and_epoch is None) == (same_since > 5.0)


@pytest.mark.rule("metadata.again.topics")
@pytest.mark.parametrize("again", [FIRST, OTHER], ids=["the same id again", "another id"])
def test_batches_that_have_kept_an_earlier_id_get_the_one_of_this_cluster(again: ProducerIdAndEpoch) -> None:
    """The cluster was set up again; its first metadata had only new topics, so the batch in flight kept its id."""
    sequences, source = with_first_id()
    in_flight = batch()
    leave(sequences, in_flight)
    source.renew(6.0)
    assert source.next_request(7.0, all_complete=lambda: False) is not None
    sequences.take_producer_id(again)
    sequences.mark_returned(in_flight)  # its connection is lost

    assert source.begin_with_other_topics(6.0)

    sequences.resolve()
    assert (epoch(in_flight), base(in_flight)) == (NEXT if again == FIRST else OTHER, 0)


def test_an_id_that_was_never_requested_is_not_in_question() -> None:
    source = ProducerIdRequestSource(sequences=Sequences(), backoff=Backoff(initial=0.1, maximum=1.0), client_id="c")

    source.renew_unused(1.0)

    assert source.next_request(1.0, all_complete=lambda: False) is not None


def test_a_lost_request_is_repeated_although_one_before_it_failed() -> None:
    """The failure was that of earlier records; those that wait now have only the time of the next attempt."""
    source = ProducerIdRequestSource(
        sequences=Sequences(client_id="c"), backoff=Backoff(initial=1.0, maximum=60.0), client_id="c"
    )
    denied = source.next_request(0.0, all_complete=lambda: False)
    assert denied is not None
    source.begin(denied)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    source.on_response(denied, InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1), 0.0)
    assert source.cause is not None
    assert source.next_request(10.0, all_complete=lambda: True) is None  # the records that were queued fail

    lost = source.next_request(20.0, all_complete=lambda: False)
    assert lost is not None
    source.begin(lost)
    source.on_disconnect(lost, LOST, 20.0)

    assert 20.0 < source.due_at() < 22.0


def test_a_response_of_the_old_cluster_still_acknowledges_its_batch() -> None:
    sequences = numbered()
    known(sequences, 3)
    late = batch()
    leave(sequences, late)

    sequences.renew()
    sequences.leave_earlier_ids()
    answer(sequences, late)
    sequences.take_producer_id(OTHER)
    sequences.resolve()

    following = batch()
    assert sequences.may_leave(following)
    leave(sequences, following)
    assert (epoch(following), base(following)) == (OTHER, 0)


def test_a_later_epoch_at_the_leader_outlasts_the_next_failure() -> None:
    sequences = numbered()
    known(sequences)
    refused, lost = batch(), batch()
    leave(sequences, refused, lost)
    lost.maybe_written = True
    error = DeliveryError("refused", topic="t", partition=0, attempts=1, possibly_persisted=False)
    error.__cause__ = BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH)
    for each, why in ((refused, error), (lost, LOST)):
        sequences.mark_returned(each)
        sequences.fail(each, why)
    sequences.resolve()

    assert sequences.producer_id_and_epoch is None  # in its next epoch, both producers would be one


@pytest.mark.rule("sender.answer.doubt")
@pytest.mark.parametrize(
    ("earlier", "last", "expected"),
    [
        ([(1, 5)], (1, 5), True),
        ([(1, 5)], (2, 6), True),
        ([(1, 5)], (2, 5), False),
        ([(1, 5)], (2, 4), False),
        ([(1, -1)], (2, -1), False),
        ([(1, -1)], (2, 7), False),
        ([(1, 5), (2, 6)], (3, 7), True),
        ([(1, 5), (2, 7)], (3, 6), False),
        ([], (2, -1), True),
    ],
)
def test_a_broker_leads_last_if_all_leaders_before_had_smaller_epochs(
    earlier: list[tuple[int, int]], last: tuple[int, int], expected: bool
) -> None:
    made = batch()
    for made.last_node, made.leader_epoch in earlier:
        made.note_maybe_written()
    made.last_node, made.leader_epoch = last

    assert made.has_newest_leader() is expected


@pytest.mark.rule("sender.answer.doubt")
def test_a_batch_that_another_leader_may_have_is_sent_again_unchanged() -> None:
    sequences = numbered()
    known(sequences)
    first = batch()
    leave(sequences, first)
    first.maybe_written = True
    sequences.mark_returned(first)

    assert sequences.on_sequence_error(first, certain=False) is SequenceErrorAction.RETRY
    sequences.resolve()
    assert (base(first), epoch(first)) == (1, FIRST)
    assert sequences.may_leave(first)
