"""Keeps metadata fresh: whom to ask and when, what an answer changes, when to begin again with the bootstrap servers.

Connections are the client's business, and what is wanted of the cluster is the metadata's.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

from ottla.errors import BrokerError, ErrorCode, OttlaError
from ottla.network.backoff import Backoff
from ottla.network.cluster import Broker
from ottla.network.connection import Connection, Stage
from ottla.network.connections import Connections
from ottla.network.metadata import Metadata, Wanted
from ottla.network.metadata_log import MetadataLog
from ottla.network.metadata_messages import metadata_request, read_answer
from ottla.network.request import Completion, Request

logger = logging.getLogger(__name__)

_RARE: Final = 10.0
"""Seconds after which a broker's wish to begin again has nothing to do with the one before."""


class MetadataTransport(Protocol):
    """What the upkeep needs of the client that it belongs to."""

    def takes(self, connection: Connection, now: float) -> bool:
        """Whether a connection takes a request now; it is begun where there is none."""

    def send(self, node: int, request: Request, now: float) -> None:
        """Send a request to a broker that takes one."""

    def forget_gone(self) -> None:
        """The cluster has changed: close the connections to what is no part of it."""


class Upkeep:
    """One producer's metadata requests, at most one at a time.

    `reached`: a broker was ready at the address that it advertises, ever.
    """

    def __init__(
        self,
        *,
        metadata: Metadata,
        connections: Connections,
        transport: MetadataTransport,
        client_id: str,
        rebootstraps: bool,
        rebootstrap_trigger: float,
        backoff: Backoff,
    ) -> None:
        self._metadata = metadata
        self._connections = connections
        self._transport = transport
        self._client_id = client_id
        self._rebootstraps = rebootstraps
        self._rebootstrap_trigger = rebootstrap_trigger
        self._asked = False
        self._backoff = backoff
        self._losses = 0  # of all brokers, since one was ready
        self._began_again_at = float("-inf")
        self._again_at = float("-inf")  # when it may begin again once more
        self._wishes = 0  # of brokers that it begin again, each soon after the one before
        self._wish_at = float("-inf")  # when the next one is heeded
        self.reached = False
        self.log = MetadataLog(client_id=client_id)

    def note_ready(self, broker: Broker) -> None:
        """A broker takes requests, at the address that it advertises unless it is one of the bootstrap servers."""
        if broker.id >= 0:
            self.reached = True
            self._losses = 0

    def forget_request(self) -> None:
        """The request under way, if there is one, is lost; ask once more."""
        self._asked = False
        self._metadata.request_update()

    def due(self, now: float) -> bool:
        """Whether metadata is to be asked for now, before anything else."""
        return not self._asked and now >= self._metadata.due_at()

    def due_at(self, now: float) -> float:
        """When metadata is to be asked for, if nothing happens before."""
        if self._asked:
            return float("inf")
        metadata_at = self._metadata.due_at()
        if metadata_at > now:
            return metadata_at
        # No connection could be asked. A throttled one can be after its time, and a lost one be tried after its
        # backoff, unless another is being made: Java, too, waits for that first, for as long as setting it up may take.
        connections = self._connections
        making = any(connection.setting_up for connection in connections)
        changes = [
            max(connection.retry_at, connection.throttled_until)
            for connection in connections
            if not making or connection.stage is Stage.READY
        ]
        return min((at for at in [*changes, self._again_at] if at > now), default=float("inf"))

    def ask(self, now: float) -> bool:
        """Ask if it is due, and somebody can be asked; True: the question is out."""
        if not self.due(now):
            return False
        self._rebootstrap_if_lost(now)
        connection = self._connections.least_loaded(self._metadata.cluster.brokers.values(), now)
        if connection is None or not self._transport.takes(connection, now):
            self.log.wanted(self._metadata.last_error, now)
            return False
        wanted = self._metadata.begin(now)
        request = metadata_request(wanted.topics, on_complete=lambda completion: self._take(completion, wanted))
        self._asked = True
        self._transport.send(connection.broker.id, request, now)
        return True

    def _rebootstrap_if_lost(self, now: float) -> None:
        """Turn to the bootstrap servers when no broker that we know is left, or none has told us anything for long."""
        cluster = self._metadata.cluster
        if cluster.bootstrap or not self._rebootstraps:
            return
        # Brokers that the bootstrap servers name are tried first, each after its own backoff, and there is a backoff
        # for all as well: an answer may name others each time that have no address or cannot be reached.
        tried = now >= self._again_at and self._connections.none_left(
            cluster.brokers.values(), since=self._began_again_at
        )
        if tried:
            why = "every known broker was lost or cannot be reached"
        elif self._metadata.seconds_without_update(now) >= self._rebootstrap_trigger:
            why = f"no metadata came for metadata.recovery.rebootstrap.trigger.ms ({self._rebootstrap_trigger:g} s)"
        else:
            return
        self._rebootstrap(why, now, known=self._losses > 0)

    def _begin_again_as_asked(self, now: float) -> None:
        """Do what a broker asks for, but not as often as it likes: each time is a login at a bootstrap server."""
        if now < self._wish_at:
            return  # metadata is asked for again after its own backoff
        if now - self._wish_at > _RARE:
            self._wishes = 0
        self._wish_at = now + self._backoff.delay(self._wishes)
        self._wishes += 1
        self._rebootstrap("a broker asked for it", now, known=self._wishes > 1)

    def _rebootstrap(self, why: str, now: float, *, known: bool) -> None:
        # Once for each outage: where the bootstrap servers answer and no broker does, this happens every second.
        if known:
            logger.debug("%s: %s; asking bootstrap.servers again", self._client_id, why)
        else:
            logger.warning("%s: %s; asking bootstrap.servers again", self._client_id, why)
        self._began_again_at, self._again_at = now, now + self._backoff.delay(self._losses)
        self._losses += 1
        self._metadata.rebootstrap(now)
        self._transport.forget_gone()

    def _take(self, completion: Completion, wanted: Wanted) -> None:
        self._asked = False
        if completion.error is not None:
            self._metadata.fail(completion.error, completion.now)
            return
        try:
            answer = read_answer(completion.answer, wanted.topics)
        except OttlaError as error:
            self._metadata.fail(error, completion.now)
            self.log.failed(error, completion.now)
            refused = isinstance(error, BrokerError) and error.code is ErrorCode.REBOOTSTRAP_REQUIRED
            if refused and self._rebootstraps and not self._metadata.cluster.bootstrap:
                self._begin_again_as_asked(completion.now)
            return
        self._metadata.update(answer.brokers, answer.topics, completion.now, partial=wanted.partial)
        self.log.answered(answer.topics, completion.now)
        self.log.cluster_is(answer.brokers)
        self.log.left_out(answer.left_out, completion.now)
        self._transport.forget_gone()
