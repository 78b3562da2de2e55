"""The check that a connection leads to the cluster that metadata is from, before records go there.

It compares the cluster's id, and the ids of a few topics, because clusters that are set up again often keep their id.

An address may be another cluster's by then: behind a load balancer or a name, or of a broker that was set up again. Its
brokers have given the producer id to another producer, and would take a batch for a duplicate of that one's: it would
be acknowledged and not written.

Records do not wait for the check if the request names topics by their ids, as it does from Kafka 4.1 on: no other
cluster knows these ids, so it refuses the batches.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from ottla.errors import NetworkError, UnsupportedVersionError, quoted
from ottla.network.client_context import ClientContext
from ottla.network.connection import Connection
from ottla.network.connection_closer import ConnectionCloser
from ottla.network.metadata_log import MetadataLog
from ottla.network.metadata_messages import cluster_request
from ottla.network.request import Completion
from ottla.network.request_writer import RequestWriter, version_for
from ottla.network.topic_ids import CheckResult
from ottla.protocol import PRODUCE
from ottla.protocol.notation import ZERO_UUID
from ottla.protocol.produce_request import FIRST_WITH_TOPIC_IDS


class ClusterCheck:
    """Asks a broker for its cluster's id and those of topics, and compares them with those of metadata."""

    def __init__(
        self, context: ClientContext, *, writer: RequestWriter, closer: ConnectionCloser, log: MetadataLog
    ) -> None:
        self._metadata = context.metadata
        self._log = context.log
        self._metadata_log = log
        self._writer = writer
        self._closer = closer

    def begin(self, connection: Connection, now: float) -> None:
        """Ask the broker of a new connection, if ids of clusters matter; the connection is unchecked until it answers.

        The request for a producer id follows without waiting: if it is another cluster, the connection ends before the
        response is read. Those of transactions wait. A bootstrap server gets no records.
        """
        if not self._metadata.checks_clusters:
            return
        if not self._metadata.topic_ids.any_known:
            self._metadata.on_uncheckable(now)
        if self._metadata.cluster_ids.current is None or connection.broker.id < 0:
            return
        topics = self._metadata.topic_ids.sample(self._metadata.cluster.topics)
        request = cluster_request(topics, on_complete=partial(self._complete, connection))
        try:
            version = version_for(connection, request)
        except UnsupportedVersionError:
            return
        connection.unchecked = True
        self._writer.write(connection, request, version, now)

    def takes_records(self, connection: Connection) -> bool:
        """Return whether records may be sent before the broker has said which cluster it belongs to.

        Not after a failure: it may have been this one, which would be met again with each connection.
        """
        offered = connection.versions.get(PRODUCE.key)
        topics = self._metadata.cluster.topics.values()
        return (
            not connection.failures
            and offered is not None
            and offered[1] >= FIRST_WITH_TOPIC_IDS
            and not any(topic.leaders and topic.id == ZERO_UUID for topic in topics)
        )

    def _close(self, connection: Connection, error: NetworkError) -> None:
        """Close the connection to another cluster, which has refused the batches in flight.

        Without its responses, they could be written, for all that is known. Only batches may be answered: a producer id
        would be one of the other cluster.
        """
        if all(sent.request.message is PRODUCE for sent in connection.in_flight):
            self._closer.close_after_responses(connection, error)
        else:
            self._closer.close(connection, error)

    def _complete(self, connection: Connection, completion: Completion) -> None:
        if completion.error is not None or connection.closing:
            return  # the connection is lost
        response, known = completion.response, self._metadata.cluster_ids.current
        topics = {topic.name: topic.topic_id for topic in response.topics if topic.topic_id != ZERO_UUID}
        if response.cluster_id and response.cluster_id != known:  # brokers before 0.10.1 have none
            self._close(
                connection,
                NetworkError(
                    f"{connection.broker} is a broker of another cluster, {quoted(response.cluster_id)}; the records "
                    f"are for {quoted(known or '')}, whose metadata names this address; check advertised.listeners of "
                    f"its broker {connection.broker.id}, where the name or load balancer of that address leads, and "
                    "that bootstrap.servers names one cluster"
                ),
            )
        else:
            result = self._metadata.topic_ids.check(topics, completion.now)
            self._act_on(connection, topics, result, completion.now)

    def _act_on(self, connection: Connection, topics: Collection[str], result: CheckResult, now: float) -> None:
        if result is CheckResult.OTHER:
            self._close(
                connection,
                NetworkError(
                    f"{connection.broker} has other topics of the names that are in use, with ids that metadata does "
                    "not have yet: its cluster was set up again, or they were deleted and created again"
                ),
            )
            return
        if result is CheckResult.LEARNED:
            self._metadata.on_other_topics(float("inf"))
            self._metadata_log.note_other_topics(topics)
        connection.unchecked = False
        if connection.note_working():
            self._log.answered(connection, now)
