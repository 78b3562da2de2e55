"""What keeps a connection from taking a request.

`Delivery.story()` reports it for the records that wait for the connection.
"""

from __future__ import annotations

from ottla.errors import NameResolutionError
from ottla.network.connection import Connection
from ottla.network.connection_stage import Stage
from ottla.results.stories import WaitKind


def wait_of(connection: Connection, now: float) -> tuple[WaitKind, str] | None:
    """Return the wait and a detail, or None if the connection takes records.

    The detail is the broker's id, with the last error of a connection that fails.
    """
    node = str(connection.broker.id)
    if connection.unchecked:
        return WaitKind.CONNECTION, node
    if connection.may_send(now):
        return None
    if connection.stage is Stage.RESOLVING:
        return WaitKind.NAME, node
    if connection.stage is not Stage.READY:
        failure = connection.obstacle
        if isinstance(failure, NameResolutionError):
            return WaitKind.NAME, f"{node} ({failure})"
        return WaitKind.CONNECTION, node if failure is None else f"{node} ({failure})"
    if now < connection.throttled_until:
        return WaitKind.THROTTLE, node
    return WaitKind.BUSY, node
