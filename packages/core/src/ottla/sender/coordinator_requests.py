"""Brings the errands of idempotence and transactions to the brokers they are for, and tells the queues what follows.

What is to be asked, and what an answer means, is the agenda's.
"""

from __future__ import annotations

from typing import assert_never

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.errors import AbortableError, ConnectionFailed, OttlaError, UnsupportedVersion
from ottla.network import Completion, NetworkClient, Request
from ottla.network.metadata import Metadata
from ottla.sender.coordinator_log import CoordinationLog
from ottla.transactions.request_source import Agenda, Stance
from ottla.transactions.requests import Errand


class Coordination:
    """One errand at a time. For the I/O thread."""

    def __init__(
        self,
        *,
        agenda: Agenda,
        client: NetworkClient,
        metadata: Metadata,
        accumulator: RecordAccumulator,
        client_id: str = "",
    ) -> None:
        self._agenda = agenda
        self._client = client
        self._metadata = metadata
        self._accumulator = accumulator
        self._log = CoordinationLog(client_id=client_id)
        self._under_way: Errand | None = None

    @property
    def idle(self) -> bool:
        """Whether an orderly end has nothing to wait for here."""
        return self._agenda.idle

    def close(self) -> None:
        """The producer closes. For any thread."""
        self._agenda.close()

    def shut(self, error: OttlaError) -> None:
        """No round will follow."""
        self._agenda.shut(error)

    def recover(self, error: OttlaError, now: float) -> None:
        """After a round that failed: what was asked is asked again, unless its answer was taken."""
        errand = self._under_way
        if errand is not None:
            self._agenda.lose(errand, error, now)
            self._under_way = None
        self._agenda.recover()

    def run(self, now: float) -> float:
        """Ask what is to be asked now, judge what is queued; returns when to come again at the latest."""
        agenda = self._agenda
        if self._log.active:
            self._log.write(now)
        agenda.note_level(self._client.features.levels.get("transaction.version", 0))
        if self._metadata.hopeless is not None:
            agenda.lose_hope(self._metadata.hopeless)
        if agenda.stance is Stance.DROP:
            self._judge_queued()  # an abort may be asked for as soon as nothing is left of its transaction
        errand = agenda.next_errand(now, settled=not self._accumulator.incomplete)
        self._judge_queued()  # what it found may have ended the transaction
        due_at = agenda.due_at() if errand is None else self._ask(errand, now)
        return min(due_at, self._log.due_at()) if self._log.active else due_at

    def _judge_queued(self) -> None:
        stance, cause = self._agenda.stance, self._agenda.cause
        match stance:
            case Stance.SEND:
                pass
            case Stance.DROP:
                self._accumulator.drop_queued(cause or AbortableError("the transaction was aborted"))
            case Stance.FAIL:
                assert cause is not None
                self._accumulator.fail_queued(cause)
            case _:
                assert_never(stance)

    def _ask(self, errand: Errand, now: float) -> float:
        node = self._agenda.node(errand)
        if node is None:
            node = self._client.least_loaded(now)
            if node is None:
                return self._client.next_try(now)
        elif not self._client.ready(node, now):
            if node in self._metadata.cluster.brokers and not self._client.down(node):
                return self._client.ready_at(node, now)
            self._metadata.request_update()
            self._agenda.lose(errand, ConnectionFailed(f"broker {node} cannot be reached"), now)
            self._log.note(errand.message.name, self._agenda, now)
            return self._agenda.due_at()
        if self._client.offered(node, errand.message) is None:
            self._agenda.reject(
                errand, UnsupportedVersion(f"broker {node} does not offer {errand.message.name} requests")
            )
            return now
        self._under_way = errand
        self._agenda.begin(errand)
        request = Request(
            message=errand.message,
            body=lambda version: [errand.message.request(version).encode(errand.content(version))],
            on_complete=lambda completion: self._take(errand, completion),
            floor=errand.floor,
            ceiling=errand.ceiling,
        )
        self._client.send(node, request, now)
        return float("inf")

    def _take(self, errand: Errand, completion: Completion) -> None:
        if isinstance(completion.error, UnsupportedVersion):
            self._agenda.reject(errand, completion.error)
        elif completion.error is not None:
            self._agenda.lose(errand, completion.error, completion.now)
        else:
            self._agenda.answer(errand, completion.answer, completion.now)
        self._log.note(errand.message.name, self._agenda, completion.now)
        self._under_way = None
