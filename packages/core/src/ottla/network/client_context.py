"""The objects and settings that several parts of a `NetworkClient` share."""

from __future__ import annotations

import attrs

from ottla.metrics import Counters
from ottla.network.completed_requests import CompletedRequests
from ottla.network.connection_log import ConnectionLog
from ottla.network.connections import Connections
from ottla.network.metadata import Metadata
from ottla.network.selector_interface import Selectable
from ottla.network.throttling import ThrottledBrokers


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClientContext:
    """The objects and settings for the parts of a client that open, read, time out and close its connections."""

    selector: Selectable
    metadata: Metadata
    connections: Connections
    completions: CompletedRequests
    throttled: ThrottledBrokers
    log: ConnectionLog
    counters: Counters
    client_id: str
    request_timeout: float
