"""The end of a transaction whose response is lost, and whose transactional id is taken over before it is sent again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from test_other_cluster import made
from test_transactions_of_clusters import Place, begun, opened, placed

from ottla import Producer
from ottla.cli.send.columns import InputError
from ottla.cli.send.resumable import recover
from ottla.cli.send.state import Position, Prepared, State
from ottla.cli.send.target import Target
from ottla.errors import ConnectionFailedError, ErrorCode, ProducerClosedError, ProducerFencedError, TransactionError
from ottla.network.backoff import Backoff
from ottla.protocol.messages.end_txn import END_TXN
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.transactions import Outcome, complete, sharing
from ottla.transactions.admin.blocking_client import BlockingClient, LastResponse, _ConnectionLostError
from ottla.transactions.admin.completion import outcome_of
from ottla.transactions.coordinator_request import CoordinatorRequest
from ottla.transactions.transaction_requests import EndTxn

pytestmark = pytest.mark.parametrize("version", [0, 1, 2])


@attrs.define
class TakenOver:
    """The response to the first EndTxn is lost, after which another producer takes the transactional id over."""

    place: Place
    lost: int = 0

    def __call__(self, frame: bytes) -> bool:
        if int.from_bytes(frame[:2], "big") != END_TXN.key or self.lost:
            return False
        self.lost += 1
        with made(self.place.servers, **{"transactional.id": "mine"}) as other:
            other.init_transactions()
        return True


@pytest.fixture
def place(version: int) -> Iterator[Place]:
    with placed("only", version) as place:
        yield place


@pytest.mark.rule("producer.transactions.in-doubt")
@pytest.mark.parametrize(("commit", "outcome"), [(True, Outcome.UNKNOWN), (False, Outcome.FENCED)])
def test_a_lost_commit_of_an_id_that_was_taken_over_is_unknown(place: Place, commit: bool, outcome: Outcome) -> None:
    """It was committed, and the coordinator cannot say so any more. An abort can only have aborted."""
    with begun(place) as producer:
        prepared = producer.prepare_transaction()
        place.broker.loses = TakenOver(place)

        assert complete(place.settings, prepared, commit=commit, timeout=20) is outcome

    assert place.broker.loses.lost == 1
    assert list(place.cluster.topics["t"].committed(0)) == [b"of only"] * commit


@pytest.mark.rule("producer.transactions.in-doubt")
def test_an_id_that_was_taken_over_before_the_first_request_is_fenced(place: Place) -> None:
    with begun(place) as producer:
        prepared = producer.prepare_transaction()
        with made(place.servers, **{"transactional.id": "mine"}) as other:
            other.init_transactions()

        assert complete(place.settings, prepared, commit=True, timeout=20) is Outcome.FENCED


@pytest.mark.rule("producer.transactions.in-doubt")
def test_a_producer_whose_commit_was_lost_is_not_assured_that_it_failed(place: Place) -> None:
    with begun(place) as producer:
        place.broker.loses = TakenOver(place)
        with pytest.raises(ProducerFencedError, match="; the transaction may have been committed before; close"):
            producer.commit_transaction()

    assert list(place.cluster.topics["t"].committed(0)) == [b"of only"]


@pytest.mark.rule("producer.transactions.in-doubt")
def test_a_producer_that_is_fenced_before_its_commit_has_no_doubt(place: Place) -> None:
    with begun(place) as producer:
        with made(place.servers, **{"transactional.id": "mine"}) as other:
            other.init_transactions()
        with pytest.raises(ProducerFencedError) as fenced:
            producer.commit_transaction()

    assert "may have been committed" not in str(fenced.value)


@attrs.define
class ClosedMeanwhile:
    """Loses the responses to EndTxn; with the first one another thread closes the producer, which ends its wait.

    *late*: the connection stays until the producer is closed.
    """

    producer: Producer
    late: bool
    closer: Thread | None = None

    def __call__(self, frame: bytes) -> bool:
        lost = int.from_bytes(frame[:2], "big") == END_TXN.key
        if lost and self.closer is None:
            self.closer = Thread(target=lambda: self.producer.close(0.2))
            self.closer.start()
            if self.late:
                self.closer.join(20)
        return lost


@pytest.mark.rule("producer.transactions.in-doubt")
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("commit", [True, False])
def test_a_close_during_a_commit_says_that_it_may_be_committed(place: Place, commit: bool, late: bool) -> None:
    with begun(place) as producer:
        place.broker.loses = closing = ClosedMeanwhile(producer, late=late)
        with pytest.raises(ProducerClosedError) as closed:
            producer.commit_transaction() if commit else producer.abort_transaction()
        assert closing.closer is not None
        closing.closer.join(20)

    assert ("; the transaction may have been committed" in str(closed.value)) == commit
    assert list(place.cluster.topics["t"].committed(0)) == [b"of only"] * commit


@pytest.mark.rule("producer.transactions.in-doubt")
def test_an_owner_whose_commit_was_lost_is_not_assured_that_it_failed(place: Place) -> None:
    shared = opened(place)
    with made(place.servers, **{"transactional.id": "mine"}) as producer:
        producer.join_transaction(shared)
        producer.send("t", b"v").result(20)
        place.broker.loses = TakenOver(place)
        with (
            sharing(place.settings, timeout=20) as owner,
            pytest.raises(ProducerFencedError, match="the transaction may have been committed before"),
        ):
            owner.end(shared, commit=True)


@pytest.mark.rule("producer.transactions.in-doubt")
@pytest.mark.parametrize("commit", [True, False])
def test_an_owner_that_was_fenced_before_its_request_has_no_doubt(place: Place, commit: bool) -> None:
    shared = opened(place)
    with made(place.servers, **{"transactional.id": "mine"}) as other:
        other.init_transactions()
    with sharing(place.settings, timeout=20) as owner, pytest.raises(ProducerFencedError) as fenced:
        owner.end(shared, commit=commit)

    assert "may have been committed" not in str(fenced.value)


@attrs.define
class Answering(BlockingClient):
    """Sends nothing, and gets these codes; a ConnectionFailedError is a broker that cannot be reached."""

    _answers: list[ErrorCode | ConnectionFailedError]
    _coordinators: dict[tuple[str, bool], int] = attrs.field(factory=dict)
    _backoff: Backoff = attrs.field(factory=lambda: Backoff(initial=0.0, maximum=0.0))

    def coordinator(self, key: str, *, group: bool = False) -> int:
        return 1

    def send(self, node: int | None, request: CoordinatorRequest) -> Any:
        answer = self._answers.pop(0)
        if isinstance(answer, ConnectionFailedError):
            raise _ConnectionLostError(answer, sent=str(answer) == "sent")
        return SimpleNamespace(error_code=answer)

    def _wait(self, seconds: float) -> None:
        assert seconds == 0.0


@pytest.mark.rule("producer.transactions.in-doubt")
@pytest.mark.parametrize(
    ("before", "in_doubt"),
    [
        ([], False),
        ([ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS], False),
        ([ConnectionFailedError("not sent")], False),
        ([ConnectionFailedError("sent"), ErrorCode.CONCURRENT_TRANSACTIONS], True),
        ([ErrorCode.COORDINATOR_NOT_AVAILABLE], True),
        ([ErrorCode.NOT_COORDINATOR], True),
    ],
)
def test_an_end_that_may_have_been_carried_out_is_noted(
    version: int, before: list[ErrorCode | ConnectionFailedError], in_doubt: bool
) -> None:
    mine = ProducerIdAndEpoch(id=1, epoch=1)
    request = EndTxn(transactional_id="mine", producer_id_and_epoch=mine, commit=True, txn_v2=version == 2)
    last = Answering([*before, ErrorCode.PRODUCER_FENCED]).run(request, "mine")

    assert (last.code, last.in_doubt) == (ErrorCode.PRODUCER_FENCED, in_doubt)


def test_a_refusal_after_a_lost_response_claims_nothing(version: int) -> None:
    refused = LastResponse(None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, in_doubt=version > 0)
    words = "an earlier request may have ended it" if version > 0 else "it has not changed"
    with pytest.raises(TransactionError, match=words):
        outcome_of(refused, commit=True, open_before=True)


def test_a_doubt_is_kept_for_the_next_run_of_a_command(place: Place, tmp_path: Path) -> None:
    """A supervisor repeats `ottla send --resume`, and then the transactional id is only fenced."""
    path, subject = tmp_path / "state", {"topic": "t"}
    with begun(place) as producer:
        prepared = Prepared(transaction=producer.prepare_transaction(), position=Position(0, 1))
        target = Target.asked(place.settings, "t", exists=False)
        State(subject=subject, target=target, transactional_id="mine", prepared=prepared).save(path)
        place.broker.loses = TakenOver(place)
        for _run in range(3):
            with pytest.raises(InputError, match="it is unknown whether it was"):
                recover(path, subject, place.settings)
