"""The topic of the ledger: created when it is missing, and checked, because deleted entries would be lost unnoticed.

The topic is compacted, so that the last entry of every name stays. A name's entries are in one partition.
"""

from __future__ import annotations

import hashlib
import logging
import re
from typing import Any, Final

import attrs

from ottla.errors import BrokerError, ErrorCode, TransactionError, error_code, printable
from ottla.plugins.partitioners.murmur2 import positive
from ottla.plugins.partitioners.murmur2_hash import murmur2
from ottla.protocol.messages.create_topics import (
    CREATE_TOPICS,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.describe_configs import TOPIC
from ottla.transactions.admin.blocking_client import BlockingClient
from ottla_spark.exactly_once.acl_hints import lacking
from ottla_spark.exactly_once.broker_limits import setting
from ottla_spark.exactly_once.errors import LedgerMismatchError
from ottla_spark.exactly_once.ledger.partition import LedgerPartition, described, existing

_log = logging.getLogger(__name__)

CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 * 1024 * 1024),  # only closed segments are compacted, and a start reads all of the rest
    "min.cleanable.dirty.ratio": "0.1",
    "compression.type": "producer",
}
OWN: Final = "ottla-exactly-once-"
"""Prefix of the default name of a ledger topic."""

_FIRST_WITH_DEFAULTS: Final = 4
_LONGEST: Final = 249
_DIGEST: Final = 16
_PLAIN: Final = re.compile("[A-Za-z0-9_-]*")


def partition_of(name: str, count: int) -> int:
    """Return the partition with a name's entries, in a topic of *count* partitions."""
    return positive(murmur2(name.encode())) % count


def own_topic(prefix: str) -> str:
    """Return the name of a prefix's ledger topic, with a digest if a topic name cannot contain the prefix.

    A period is replaced, too: brokers refuse two topics whose names are equal once periods are underscores.
    """
    if _PLAIN.fullmatch(prefix) and len(OWN) + len(prefix) <= _LONGEST:
        return OWN + prefix
    digest = hashlib.sha256(prefix.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    readable = re.sub("[^A-Za-z0-9_-]", "-", prefix)[: _LONGEST - len(OWN) - _DIGEST - 1]
    return f"{OWN}{readable}-{digest}"


@attrs.frozen(kw_only=True)
class LedgerTopic:
    """A ledger topic and its settings for creation: `partitions`, and `replication`, -1 for the brokers' default."""

    name: str
    partitions: int
    replication: int

    def partition(self, client: BlockingClient, name: str) -> LedgerPartition:
        """Return the partition of a name; create the topic if it is missing."""
        found = described(client, self.name)
        if error_code(found.topics[0].error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._create(client, controller=found.controller_id)
        else:
            self._check(client)
        count = len(existing(client, self.name).topics[0].partitions)
        return LedgerPartition(topic=self.name, partition=partition_of(name, count))

    def _check(self, client: BlockingClient) -> None:
        """Raise LedgerMismatchError for a topic that deletes entries after some time."""
        found = setting(client, None, kind=TOPIC, of=self.name, name="cleanup.policy")
        if found is not None and found != "compact":
            raise LedgerMismatchError(
                f"the ledger topic {self.name!r} has cleanup.policy={printable(found)}: entries would be deleted, "
                "and their batches written again. Set it to compact, or set the option ledger.topic to another topic"
            )

    def _create(self, client: BlockingClient, *, controller: int) -> None:
        topic = CreatableTopic(
            name=self.name,
            num_partitions=self.partitions,
            replication_factor=self.replication,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in CONFIG.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        node = [controller]

        def one() -> Any:
            answer = client.ask(
                node[0] if node[0] >= 0 else None,
                CREATE_TOPICS,
                lambda _version: request,
                floor=_FIRST_WITH_DEFAULTS if self.replication < 0 else 0,
            )
            if error_code(answer.topics[0].error_code) is ErrorCode.NOT_CONTROLLER:
                node[0] = described(client, self.name).controller_id
            return answer.topics[0]

        result = client.until_answered("", one, lambda found: error_code(found.error_code))
        code = error_code(result.error_code)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            error = BrokerError(code)
            response = f" ({printable(result.error_message)})" if result.error_message else ""
            right = lacking(code, f"Create for topic {self.name!r}")
            raise TransactionError(
                f"the ledger topic {self.name!r} could not be created: {error}{response}{right}. Create it yourself "
                "with cleanup.policy=compact, or set the options ledger.topic and ledger.replication.factor"
            ) from error
        _log.info("created the ledger topic %r", self.name)
