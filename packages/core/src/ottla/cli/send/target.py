"""The cluster and the topic that a STATE file is for, by their ids."""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Self

import attrs

from ottla.errors import BrokerError, ErrorCode, TransactionError, error_code, quoted
from ottla.network.metadata_messages import cluster_question
from ottla.protocol.messages.metadata import METADATA, MetadataResponse, MetadataResponseTopic
from ottla.protocol.notation import ZERO_UUID
from ottla.transactions.admin.blocking_client import (
    DEFAULT_TIMEOUT,
    FIRST_WITH_CLUSTER_ID,
    BlockingClient,
    blocking_client,
)

_PAUSES: Final = (0.5, 1.0, 2.0, 4.0)
"""Seconds between the questions for a topic that has to exist: a broker that has just started may not know it yet."""


@attrs.frozen(kw_only=True)
class Target:
    """The id of the cluster, and that of the topic as `kafka-topics` shows it.

    The topic's is None if it does not exist yet, or if its brokers have none (before Kafka 2.8).
    """

    cluster: str | None
    topic_id: str | None

    @classmethod
    def asked(cls, settings: Mapping[str, Any], topic: str, *, exists: bool) -> Self:
        """Ask a broker. A topic that *exists* is asked for again before it counts as deleted."""
        with blocking_client(settings, timeout=DEFAULT_TIMEOUT) as client:
            found = cls._asked_once(client, topic, exists=exists)
            for pause in _PAUSES if exists else ():
                if found.topic_id is not None:
                    break
                time.sleep(pause)
                found = cls._asked_once(client, topic, exists=exists)
            return found

    @classmethod
    def _asked_once(cls, client: BlockingClient, topic: str, *, exists: bool) -> Self:
        response: MetadataResponse = client.ask(
            None, METADATA, partial(cluster_question, [topic]), floor=FIRST_WITH_CLUSTER_ID
        )
        found = next((each for each in response.topics if each.name == topic), MetadataResponseTopic())
        code = error_code(found.error_code)
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED and exists:
            error = BrokerError(code)
            raise TransactionError(f"topic {quoted(topic)} cannot be described: {error}") from error
        known = found.topic_id != ZERO_UUID
        text = urlsafe_b64encode(found.topic_id).rstrip(b"=").decode() if known else None
        return cls(cluster=response.cluster_id, topic_id=text)
