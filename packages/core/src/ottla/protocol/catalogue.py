"""All declared APIs, for code that needs all of them, such as tests.

A producer needs only a few of them, and importing the others would delay its start.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.protocol.message import Message
from ottla.protocol.messages.add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from ottla.protocol.messages.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from ottla.protocol.messages.api_versions import API_VERSIONS
from ottla.protocol.messages.create_topics import CREATE_TOPICS
from ottla.protocol.messages.delete_topics import DELETE_TOPICS
from ottla.protocol.messages.describe_configs import DESCRIBE_CONFIGS
from ottla.protocol.messages.describe_transactions import DESCRIBE_TRANSACTIONS
from ottla.protocol.messages.end_txn import END_TXN
from ottla.protocol.messages.fetch import FETCH
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR
from ottla.protocol.messages.get_telemetry_subscriptions import GET_TELEMETRY_SUBSCRIPTIONS
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla.protocol.messages.list_offsets import LIST_OFFSETS
from ottla.protocol.messages.list_transactions import LIST_TRANSACTIONS
from ottla.protocol.messages.metadata import METADATA
from ottla.protocol.messages.offset_fetch import OFFSET_FETCH
from ottla.protocol.messages.produce import PRODUCE
from ottla.protocol.messages.push_telemetry import PUSH_TELEMETRY
from ottla.protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from ottla.protocol.messages.sasl_handshake import SASL_HANDSHAKE
from ottla.protocol.messages.txn_offset_commit import TXN_OFFSET_COMMIT

MESSAGES: Final[tuple[Message[Any, Any], ...]] = (
    PRODUCE,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FETCH,
    FIND_COORDINATOR,
    SASL_HANDSHAKE,
    API_VERSIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    INIT_PRODUCER_ID,
    ADD_PARTITIONS_TO_TXN,
    ADD_OFFSETS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
    DESCRIBE_CONFIGS,
    SASL_AUTHENTICATE,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    GET_TELEMETRY_SUBSCRIPTIONS,
    PUSH_TELEMETRY,
)
"""Sorted by API key."""
