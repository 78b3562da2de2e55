"""The topic of the ledger: created when it is missing, and checked, because deleted entries would be lost unnoticed.

The topic is compacted, so that the last entry of every name stays.
"""

from __future__ import annotations

import hashlib
import logging
import re
from typing import Any, Final

import attrs

from ottla.errors import BrokerError, ErrorCode, TransactionError, error_code, printable
from ottla.protocol.messages.create_topics import (
    CREATE_TOPICS,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.describe_configs import TOPIC
from ottla.transactions.admin.blocking_client import BlockingClient
from ottla_spark.exactly_once.acl_hints import naming_right
from ottla_spark.exactly_once.broker_limits import setting
from ottla_spark.exactly_once.errors import LedgerMismatchError
from ottla_spark.exactly_once.ledger.batches import LARGEST_ENTRY
from ottla_spark.exactly_once.ledger.partition import described, existing

_log = logging.getLogger(__name__)

_POLICY: Final = "cleanup.policy"
_COMPRESSION: Final = "compression.type"
_READABLE: Final = frozenset({"producer", "gzip", "uncompressed"})

CONFIG: Final = {
    _POLICY: "compact",
    "segment.bytes": str(4 * 1024 * 1024),  # only closed segments are compacted, and a start reads all of the rest
    "min.cleanable.dirty.ratio": "0.1",
    _COMPRESSION: "producer",
    "max.message.bytes": str(LARGEST_ENTRY),  # an entry of many tasks is hardly compressible: their ids are random
}
OWN: Final = "ottla-exactly-once-"
"""Prefix of the default name of a ledger topic."""

_FIRST_WITH_DEFAULTS: Final = 4
_LONGEST: Final = 249
_DIGEST: Final = 16
_PLAIN: Final = re.compile("[A-Za-z0-9_-]*")


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

    def ensure(self, client: BlockingClient) -> bool:
        """Check the topic; create it if it is missing. Return whether the user may see its settings."""
        found = described(client, self.name)
        if error_code(found.topics[0].error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._create(client, controller=found.controller_id)
            visible = True  # unless a check later finds that it is not
        else:
            visible = self.check(client)
        existing(client, self.name)
        return visible

    def check(self, client: BlockingClient) -> bool:
        """Return whether the user may see the settings of the topic.

        Raises LedgerMismatchError for a topic that deletes entries after some time, or makes them unreadable.
        """
        found = setting(client, None, kind=TOPIC, of=self.name, name=_POLICY)
        if found is None:
            return False
        if found != CONFIG[_POLICY]:
            raise LedgerMismatchError(
                f"the ledger topic {self.name!r} has {_POLICY}={printable(found)}: entries would be deleted, "
                "and their batches written again. Set it to compact, or set the option ledger.topic to another topic"
            )
        codec = setting(client, None, kind=TOPIC, of=self.name, name=_COMPRESSION)
        if codec is not None and codec not in _READABLE:
            raise LedgerMismatchError(
                f"the ledger topic {self.name!r} has {_COMPRESSION}={printable(codec)}: brokers would compress entries "
                f"again, and drivers could not read them. Set it to {CONFIG[_COMPRESSION]} for this topic"
            )
        return True

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
            reason = f" ({printable(result.error_message)})" if result.error_message else ""
            message = f"the ledger topic {self.name!r} could not be created: {error}{reason}"
            message = naming_right(message, code, f"Create for topic {self.name!r}")
            raise TransactionError(
                f"{message.rstrip('.')}. Create it yourself with {_POLICY}=compact and {_COMPRESSION}=producer, or set "
                "the options ledger.topic and ledger.replication.factor"
            ) from error
        _log.info("created the ledger topic %r", self.name)
