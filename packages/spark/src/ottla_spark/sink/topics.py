"""The check of a write's topics while it is planned: they exist, and the user may write to them.

Only topics that options name are known then. The request for their metadata is that of a producer, so a broker with
`auto.create.topics.enable` creates a missing topic, as it does for Spark's own sink.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla import OttlaError
from ottla.errors import ErrorCode, error_code
from ottla.protocol.messages.metadata import (
    METADATA,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ottla.protocol.topic_rights import FIRST_WITH_RIGHTS, may_write
from ottla_spark.errors import InvalidWriteError
from ottla_spark.options.known_defaults import max_block_seconds
from ottla_spark.options.shipped_files import with_shipped_files
from ottla_spark.options.write_options import WriteOptions

_log = logging.getLogger(__name__)

REACH: Final = 5.0
"""Seconds for a broker's answer. Without one the tasks begin: executors may reach brokers that the driver cannot."""

EXIST: Final = 10.0
"""Seconds for a topic to exist, at most `max.block.ms`: a broker learns of a new topic with a delay."""

PAUSE: Final = 0.1
"""Seconds between two requests for a missing topic."""

VALID: Final = 60.0
"""Seconds after a check in which the same topics are not checked again, for streams with many micro-batches."""

UNREACHABLE: Final = 600.0
"""Seconds without another check after one that no broker answered: each delays a write or micro-batch by `REACH`."""

MAX_REMEMBERED: Final = 64
"""Maximum number of checks that a process remembers."""

_valid_until: Final[dict[Any, float]] = {}
_changing: Final = threading.Lock()
"""For `_valid_until`: a driver plans the micro-batches of several queries, in a thread each."""


def check_topics(options: WriteOptions, topics: Sequence[str] | None = None) -> None:
    """Raise InvalidWriteError if a topic is missing or the user may not write to it; by default, those in the options.

    Blocks for about `EXIST` seconds at most: the last request may take `REACH` seconds more.
    """
    topics = topics_of(options) if topics is None else topics
    key = (frozenset(options.producer.items()), frozenset(topics))
    if not topics or time.monotonic() < _valid_until.get(key, 0.0):
        return
    try:
        problems = _problems(options.producer, topics)
    except OttlaError as error:
        _log.warning("topics are not checked before the tasks begin: the driver could not ask a broker: %s", error)
        _remember(key, time.monotonic() + UNREACHABLE)
        return
    if problems:
        raise InvalidWriteError(problems)
    _remember(key, time.monotonic() + VALID)


def topics_of(options: WriteOptions) -> Sequence[str]:
    """Return the topics that the options name: that of the rows and that of dead letters."""
    letters = None if options.tolerance is None else options.tolerance.dead_letter_topic
    return [topic for topic in (options.topic, letters) if topic is not None]


def _remember(key: Any, until: float) -> None:
    with _changing:
        _valid_until.pop(key, None)
        while len(_valid_until) >= MAX_REMEMBERED:
            _valid_until.pop(next(iter(_valid_until)))
        _valid_until[key] = until


def _problems(producer: Mapping[str, Any], topics: Sequence[str]) -> list[str]:
    from ottla.transactions.admin.blocking_client import BlockingClient  # imports many modules
    from ottla.transactions.admin.connect import connect

    block = max_block_seconds(producer)
    connections = connect(with_shipped_files(producer))
    try:
        deadline = time.monotonic() + min(EXIST, block)
        while True:
            answer: MetadataResponse = BlockingClient(connections, timeout=min(REACH, block)).ask(
                None, METADATA, lambda version: _request(topics, version), floor=1
            )
            found = {topic.name: topic for topic in answer.topics}
            missing = [name for name in topics if _code(found.get(name)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            if not missing or time.monotonic() >= deadline:
                return [problem for name in topics for problem in _problem(name, found.get(name))]
            time.sleep(PAUSE)
    finally:
        connections.close()


def _request(topics: Sequence[str], version: int) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in topics],
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=version >= FIRST_WITH_RIGHTS,
    )


def _code(topic: MetadataResponseTopic | None) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else error_code(topic.error_code)


def _problem(name: str, topic: MetadataResponseTopic | None) -> list[str]:
    code = _code(topic)
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return [
            f"topic {name!r} does not exist, and the brokers do not create it; create it, or correct the name in the "
            "options"
        ]
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED or (topic is not None and not may_write(topic)):
        return [f"the user may not write to topic {name!r}; give it the right Write for this topic"]
    return []  # the producers of the tasks wait for what may pass, such as a missing leader
