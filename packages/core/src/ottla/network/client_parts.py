"""The parts and settings that several parts of a `NetworkClient` use."""

from __future__ import annotations

import attrs

from ottla.metrics import Counters
from ottla.network.completions import Completions
from ottla.network.connection_log import ConnectionLog
from ottla.network.connections import Connections
from ottla.network.metadata import Metadata
from ottla.network.selector_interface import Selectable
from ottla.network.throttling import ThrottledBrokers


@attrs.frozen(kw_only=True)
class ClientParts:
    """What a client shares with those that open, read, time and close its connections."""

    selector: Selectable
    metadata: Metadata
    connections: Connections
    completions: Completions
    throttled: ThrottledBrokers
    log: ConnectionLog
    counters: Counters
    client_id: str
    request_timeout: float
