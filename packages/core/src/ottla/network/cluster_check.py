"""The check that a new connection to a known broker leads to the same cluster, before records go there.

An address may be another cluster's by then: behind a load balancer or a name, or of a broker that was set up again. Its
brokers have given the producer id to another producer, and would take a batch for a duplicate of that one's: it would
be acknowledged and not written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ottla.errors import NetworkError, UnsupportedVersionError, quoted
from ottla.network.client_context import ClientContext
from ottla.network.connection import Connection
from ottla.network.connection_closer import ConnectionCloser
from ottla.network.connection_stage import Stage
from ottla.network.metadata_messages import metadata_request
from ottla.network.request import Completion
from ottla.network.request_writer import RequestWriter, version_for


class ClusterCheck:
    """Asks a broker for its cluster's id, and compares it with that of metadata."""

    def __init__(self, context: ClientContext, *, writer: RequestWriter, closer: ConnectionCloser) -> None:
        self._metadata = context.metadata
        self._writer = writer
        self._closer = closer

    def begin(self, connection: Connection, now: float, *, passed: Callable[[float], object]) -> bool:
        """Ask the broker if necessary; *passed* is called later. Return False if it is not necessary.

        A first connection needs no check: metadata has just named its address. Neither does a bootstrap server, which
        gets no records.
        """
        wanted = self._metadata.checks_clusters and self._metadata.cluster_id is not None
        if not wanted or not connection.reached or connection.broker.id < 0:
            return False
        request = metadata_request((), on_complete=partial(self._complete, connection, passed))
        try:
            version = version_for(connection, request)
        except UnsupportedVersionError:
            return False
        connection.stage = Stage.CHECKING
        self._writer.write(connection, request, version, now)
        return True

    def _complete(self, connection: Connection, passed: Callable[[float], object], completion: Completion) -> None:
        if completion.error is not None or connection.stage is not Stage.CHECKING or connection.closing:
            return  # the connection is lost
        found, known = completion.response.cluster_id, self._metadata.cluster_id
        if not found or found == known:  # brokers before 0.10.1 have none
            passed(completion.now)
            return
        self._closer.close(
            connection,
            NetworkError(
                f"{connection.broker} is a broker of another cluster now, {quoted(found)}; the records are for "
                f"{quoted(known or '')}"
            ),
        )
