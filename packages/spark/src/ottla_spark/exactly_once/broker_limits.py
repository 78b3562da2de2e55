"""Settings of brokers and topics that exactly-once depends on, as far as the user may see them."""

from __future__ import annotations

import logging
from typing import Any, Final

from ottla.errors import BrokerError, ErrorCode, TransactionError, error_code
from ottla.protocol.messages.describe_configs import (
    BROKER,
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.transactions.admin.blocking_client import BlockingClient

_log = logging.getLogger(__name__)

_REFUSED: Final = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
_MAXIMUM: Final = "transaction.max.timeout.ms"
_MAX_DIGITS: Final = 10


def longest_timeout_ms(client: BlockingClient, node: int) -> int | None:
    """Return a broker's `transaction.max.timeout.ms`; None if the broker returns no number for it."""
    text = setting(client, node, kind=BROKER, of=str(node), name=_MAXIMUM)
    # Kafka's value is a 32-bit int; a broker may return anything.
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    return int(text) if text is not None and is_number else None


def setting(client: BlockingClient, node: int | None, *, kind: int, of: str, name: str) -> str | None:
    """Return one setting of a topic or a broker, or None if it is unset or the user may not see it."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=of, configuration_keys=[name])
    request = DescribeConfigsRequest(resources=[resource])

    def one() -> Any:
        return client.ask(node, DESCRIBE_CONFIGS, lambda _version: request).results[0]

    found = client.until_answered("", one, lambda result: error_code(result.error_code))
    code = error_code(found.error_code)
    if code in _REFUSED:
        _log.warning("%s of %s cannot be read: %s", name, of, BrokerError(code))
        return None
    if code is not ErrorCode.NONE:
        raise TransactionError(f"{name} of {of} could not be read: {BrokerError(code)}") from BrokerError(code)
    return next((each.value for each in found.configs if each.name == name), None)
