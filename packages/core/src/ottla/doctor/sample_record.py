"""One record through a real producer, with the user's own configuration and short timeouts."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.config.hosts import with_port
from ottla.doctor.bounds import Bounds
from ottla.doctor.findings import Finding, Problem, Status, Step
from ottla.doctor.names import Server
from ottla.errors import BrokerError, OttlaError
from ottla.producer.producer import Producer

VALUE: Final = b"a test record of ottla doctor"
_NO_OFFSET: Final = -1
_LEAST_MS: Final = 1_000
_WAITS: Final = 2
"""`send` may wait for metadata, then the record for its response."""

_ADDRESSES: Final = 4
"""In each of these waits, so many addresses can be tried that are silent."""


def send_record(topic: str, settings: Mapping[str, Any], *, servers: Sequence[Server], bounds: Bounds) -> Finding:
    """Send the record, and wait until it is acknowledged.

    The producer asks *servers* alone, those that have passed: by chance it could begin with one that is known to fail,
    and wait longer for that than it may.
    """
    started = bounds.clock()
    working = ",".join(with_port(server.host, server.port) for server in servers)
    try:
        message = _send(topic, {**settings, "bootstrap.servers": working}, bounds)
    except Exception as error:  # including those of the producer's plugins
        return Finding.failed(Step.RECORD, topic, _problem(error), seconds=bounds.clock() - started)
    return Finding(step=Step.RECORD, subject=topic, status=Status.OK, seconds=bounds.clock() - started, message=message)


def _send(topic: str, settings: Mapping[str, Any], bounds: Bounds) -> str:
    within = max(math.floor(bounds.remaining() * 1000 / _WAITS), _LEAST_MS)
    producer = Producer({**settings, **_replaced_settings(within)})
    try:
        metadata = producer.send(topic, VALUE).result()  # the delivery timeout ends it, with a better error message
    finally:
        with contextlib.suppress(OttlaError):
            producer.close(within / 1000)
    where = f"partition {metadata.partition}"
    if metadata.offset == _NO_OFFSET:
        return f"sent to {where}; with acks=0 no broker confirms it"
    return f"acknowledged: {where}, offset {metadata.offset}"


def _replaced_settings(within: int) -> Mapping[str, Any]:
    """Settings that replace the user's: timeouts, the value's serializer, as it is bytes, and those of transactions.

    The record needs no transaction, and `init_transactions` would end the one of a running program with this id. It has
    no key, so the key's serializer stays: without it, nothing would know the settings of a third-party one.
    """
    setup = max(within // _ADDRESSES, _LEAST_MS)
    return {
        "linger.ms": 0,
        "request.timeout.ms": within,
        "delivery.timeout.ms": within,
        "max.block.ms": within,
        "socket.connection.setup.timeout.ms": setup,
        "socket.connection.setup.timeout.max.ms": setup,
        "value.serializer": "bytes",
        "transactional.id": None,
        "transaction.timeout.ms": None,
        "transaction.two.phase.commit.enable": None,
    }


def _problem(error: Exception) -> Problem:
    refusal = error.__cause__
    if isinstance(refusal, BrokerError):
        return Problem(
            f"the broker refused the record: {refusal}".rstrip("."),
            "look this error code up in Ottla's documentation",
        )
    return Problem.of_error(error, remedy="check the broker's log")
