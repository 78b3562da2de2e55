"""A transactional producer whose broker has forgotten it, as with its deleted records before Kafka 2.4, goes on."""

from __future__ import annotations

import pytest
from test_sequences import FIRST, answer, base, batch, epoch, known, leave, numbered

from history_plans import BEFORE_2_4
from ottla.accumulator.sequences import SequenceErrorAction, Sequences
from ottla.errors import NetworkError
from ottla_testkit.simulation import SimulatedCluster, Simulation
from ottla_testkit.simulation.planned_faults import DeletedRecords, plan

TOPIC = "t"


def between_transactions(count: int = 3) -> Sequences:
    """The numbers of a producer whose last transaction has written so many records."""
    sequences = numbered(transactional=True)
    sequences.begin_transaction()
    sequences.transaction_partitions.add([(TOPIC, 0)])
    known(sequences, count)
    sequences.begin_transaction()
    sequences.transaction_partitions.add([(TOPIC, 0)])
    return sequences


def test_numbers_begin_again_once_nothing_is_on_the_wire() -> None:
    sequences = between_transactions()
    first, second = batch(2), batch()
    leave(sequences, first, second)
    assert [base(first), base(second)] == [3, 5]
    sequences.mark_returned(first)

    assert sequences.on_sequence_error(first, forgotten=True) is SequenceErrorAction.RENUMBER
    sequences.resolve()
    assert not sequences.may_leave(first)  # the second could be written behind the new numbers

    sequences.mark_returned(second)
    assert sequences.on_sequence_error(second, forgotten=True) is SequenceErrorAction.RETRY
    sequences.resolve()

    assert [base(first), base(second)] == [0, 2]
    assert epoch(first) == epoch(second) == FIRST
    assert sequences.may_leave(first)
    assert not sequences.uncertain


def test_numbers_begin_again_after_an_abort_of_the_forgotten_batch() -> None:
    sequences = between_transactions()
    first, second = batch(), batch()
    leave(sequences, first)
    sequences.mark_returned(first)
    sequences.on_sequence_error(first, forgotten=True)
    sequences.fail(first, NetworkError("aborted"))
    sequences.resolve()
    sequences.begin_transaction()
    sequences.transaction_partitions.add([(TOPIC, 0)])

    assert sequences.may_leave(second)
    leave(sequences, second)
    assert base(second) == 0


def test_records_of_the_open_transaction_are_not_given_up() -> None:
    sequences = between_transactions()
    written, first = batch(), batch()
    leave(sequences, written)
    answer(sequences, written)
    leave(sequences, first)
    sequences.mark_returned(first)

    assert sequences.on_sequence_error(first, forgotten=True) is SequenceErrorAction.FAIL
    assert sequences.uncertain


def test_a_batch_with_the_first_number_is_not_sent_again_as_such() -> None:
    sequences = numbered(transactional=True)
    sequences.begin_transaction()
    first = batch()
    leave(sequences, first)
    sequences.mark_returned(first)

    assert sequences.on_sequence_error(first, forgotten=True) is SequenceErrorAction.FAIL


@pytest.mark.parametrize("later", [False, True])
def test_a_batch_that_may_be_written_does_not_begin_again(later: bool) -> None:
    sequences = between_transactions()
    first, second = batch(), batch()
    leave(sequences, first, second)
    (second if later else first).maybe_written = True
    sequences.mark_returned(first)

    assert sequences.on_sequence_error(first, forgotten=True) is SequenceErrorAction.FAIL


@pytest.mark.rule("sender.answer.sequence")
def test_transactions_go_on_after_the_deletion_of_all_records() -> None:
    cluster = SimulatedCluster.of(1)
    cluster.older_logs, cluster.transaction_version = True, 0
    cluster.create(TOPIC, 1)
    broker = cluster.brokers[1]
    broker.versions |= {key: (broker.versions[key][0], newest) for key, newest in BEFORE_2_4.items()}
    simulation = Simulation(cluster, seed=1)
    plan(simulation, [DeletedRecords(at=6.0, topic=TOPIC)])
    producer = simulation.producer(transactional_id="tx")

    def program() -> None:
        producer.init_transactions()
        for number in range(4):
            with producer.transaction():
                producer.send(TOPIC, b"%d" % number, timestamp_ms=number)
            simulation.sleep(4.0)
        producer.close()

    simulation.run(program)

    assert cluster.topics[TOPIC].log_starts == {0: 2}
    assert cluster.topics[TOPIC].committed(0) == [b"2", b"3"]
    assert cluster.topics[TOPIC].committed(0, deleted=True) == [b"0", b"1", b"2", b"3"]
