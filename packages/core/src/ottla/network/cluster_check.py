"""The check that a connection leads to the cluster that metadata is from, before records go there.

An address may be another cluster's by then: behind a load balancer or a name, or of a broker that was set up again. Its
brokers have given the producer id to another producer, and would take a batch for a duplicate of that one's: it would
be acknowledged and not written.
"""

from __future__ import annotations

from functools import partial

from ottla.errors import NetworkError, UnsupportedVersionError, quoted
from ottla.network.client_context import ClientContext
from ottla.network.connection import Connection
from ottla.network.connection_closer import ConnectionCloser
from ottla.network.metadata_messages import metadata_request
from ottla.network.request import Completion
from ottla.network.request_writer import RequestWriter, version_for


class ClusterCheck:
    """Asks a broker for its cluster's id, and compares it with that of metadata."""

    def __init__(self, context: ClientContext, *, writer: RequestWriter, closer: ConnectionCloser) -> None:
        self._metadata = context.metadata
        self._writer = writer
        self._closer = closer

    def begin(self, connection: Connection, now: float) -> None:
        """Ask the broker of a new connection, if ids of clusters matter; the connection is unchecked until it answers.

        The request for a producer id follows without waiting: if it is another cluster, the connection ends before the
        response is read. Those of transactions wait. A bootstrap server gets no records.
        """
        if not self._metadata.checks_clusters or self._metadata.cluster_id is None or connection.broker.id < 0:
            return
        request = metadata_request((), on_complete=partial(self._complete, connection))
        try:
            version = version_for(connection, request)
        except UnsupportedVersionError:
            return
        connection.unchecked = True
        self._writer.write(connection, request, version, now)

    def _complete(self, connection: Connection, completion: Completion) -> None:
        if completion.error is not None or connection.closing:
            return  # the connection is lost
        found, known = completion.response.cluster_id, self._metadata.cluster_id
        if not found or found == known:  # brokers before 0.10.1 have none
            connection.unchecked = False
            return
        self._closer.close(
            connection,
            NetworkError(
                f"{connection.broker} is a broker of another cluster now, {quoted(found)}; the records are for "
                f"{quoted(known or '')}"
            ),
        )
