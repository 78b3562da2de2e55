"""Completed requests that wait for the call of their `on_complete`, which comes after all other work of a round."""

from __future__ import annotations

from collections import deque

from ottla.errors import OttlaError, with_article
from ottla.errors.robust_logger import robust_logger
from ottla.network.connection import Connection
from ottla.network.request import Completion, Request

logger = robust_logger(__name__)


class CompletedRequests(deque[tuple[Request, Completion]]):
    """The completions that are still to be run, in order."""

    def __init__(self, *, client_id: str) -> None:
        super().__init__()
        self._client_id = client_id

    def answered(self, request: Request, connection: Connection, response: object, now: float) -> None:
        """Add a request with its response."""
        completion = Completion(
            node=connection.broker.id,
            response=response,
            error=None,
            now=now,
            throttled_until=connection.throttled_until,
        )
        self.append((request, completion))

    def written(self, request: Request, connection: Connection, now: float) -> None:
        """Add a written request that expects no response."""
        self.append((request, Completion(node=connection.broker.id, response=None, error=None, now=now)))

    def failed(
        self, request: Request, connection: Connection, error: OttlaError, now: float, *, written: bool = True
    ) -> None:
        """Add a request with its error; *written*: it may have reached the broker."""
        completion = Completion(node=connection.broker.id, response=None, error=error, now=now, written=written)
        self.append((request, completion))

    def fail_all(self, connection: Connection, error: OttlaError, now: float) -> None:
        """Note that all requests in flight on a connection have failed with this error; `run` completes them."""
        while connection.in_flight:
            self.failed(connection.in_flight.popleft().request, connection, error, now)

    def run(self) -> None:
        """Complete the requests. If one raises an exception, the others are completed before it is raised."""
        fault: Exception | None = None
        while self:
            request, completion = self.popleft()
            try:
                request.on_complete(completion)
            except Exception as error:
                if fault is not None:
                    logger.exception(
                        "%s: completing %s request failed", self._client_id, with_article(request.message.name)
                    )
                fault = fault or error
        if fault is not None:
            raise fault

    def run_all(self) -> None:
        """Complete the requests when the producer closes: an exception is logged, and the rest is completed."""
        while self:
            try:
                self.run()
            except Exception:  # every batch has its outcome by now; the sockets must be closed anyway
                logger.exception("%s: completing a request failed while the producer was closing", self._client_id)
