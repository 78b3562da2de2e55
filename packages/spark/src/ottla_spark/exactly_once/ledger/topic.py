"""The topic of the ledger: made when it is missing, and looked at, because one that forgets would lose nothing loudly.

It is compacted, so that the last entry of every name stays. A name's entries are in one partition.
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
from ottla.transactions.admin.blocking_client import Asking
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
"""What the ledger topic of a prefix begins with, unless another one is named."""

_FIRST_WITH_DEFAULTS: Final = 4
_LONGEST: Final = 249
_DIGEST: Final = 16
_PLAIN: Final = re.compile("[A-Za-z0-9_-]*")


def partition_of(name: str, count: int) -> int:
    """The partition of a topic with *count* of them that has the entries of a name."""
    return positive(murmur2(name.encode())) % count


def own_topic(prefix: str) -> str:
    """The ledger topic of a prefix: its name, and a digest of it where a topic cannot be called so.

    A period counts as that: brokers refuse a topic whose name differs from another one's in a period for an underscore.
    """
    if _PLAIN.fullmatch(prefix) and len(OWN) + len(prefix) <= _LONGEST:
        return OWN + prefix
    digest = hashlib.sha256(prefix.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    readable = re.sub("[^A-Za-z0-9_-]", "-", prefix)[: _LONGEST - len(OWN) - _DIGEST - 1]
    return f"{OWN}{readable}-{digest}"


@attrs.frozen(kw_only=True)
class LedgerTopic:
    """Which topic it is, and how it is made: `partitions`, and `replication`, -1 for the brokers' default."""

    name: str
    partitions: int
    replication: int

    def partition(self, asked: Asking, name: str) -> LedgerPartition:
        """The partition of a name, after the topic was made if it was missing."""
        found = described(asked, self.name)
        if error_code(found.topics[0].error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._create(asked, controller=found.controller_id)
        else:
            self._check(asked)
        count = len(existing(asked, self.name).topics[0].partitions)
        return LedgerPartition(topic=self.name, partition=partition_of(name, count))

    def _check(self, asked: Asking) -> None:
        """Raise LedgerMismatchError for a topic whose entries would be deleted in time."""
        found = setting(asked, None, kind=TOPIC, of=self.name, name="cleanup.policy")
        if found is not None and found != "compact":
            raise LedgerMismatchError(
                f"the ledger topic {self.name!r} has cleanup.policy={printable(found)}: entries would be deleted, "
                "and batches come again. Set it to compact, or name another topic in the option ledger.topic"
            )

    def _create(self, asked: Asking, *, controller: int) -> None:
        topic = CreatableTopic(
            name=self.name,
            num_partitions=self.partitions,
            replication_factor=self.replication,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in CONFIG.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        node = [controller]

        def one() -> Any:
            answer = asked.ask(
                node[0] if node[0] >= 0 else None,
                CREATE_TOPICS,
                lambda _version: request,
                floor=_FIRST_WITH_DEFAULTS if self.replication < 0 else 0,
            )
            if error_code(answer.topics[0].error_code) is ErrorCode.NOT_CONTROLLER:
                node[0] = described(asked, self.name).controller_id
            return answer.topics[0]

        result = asked.until_answered("", one, lambda found: error_code(found.error_code))
        code = error_code(result.error_code)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            error = BrokerError(code)
            response = f" ({printable(result.error_message)})" if result.error_message else ""
            right = lacking(code, f"Create for topic {self.name!r}")
            raise TransactionError(
                f"the ledger topic {self.name!r} could not be made: {error}{response}{right}. Or make it yourself with "
                f"cleanup.policy=compact, or set the options ledger.topic and ledger.replication.factor"
            ) from error
        _log.info("created the ledger topic %r", self.name)
