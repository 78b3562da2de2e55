"""Users that may write to a ledger topic but not under its prefix, as far as brokers show ACLs.

A user that can write entries decides which batches count as written. So the topic's ACLs should allow no user that the
ACLs of the transactional ids do not allow. ACLs do not list super users.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from ottla.errors import BrokerError, ErrorCode, OttlaError, error_code, printable
from ottla.transactions.admin.blocking_client import BlockingClient
from ottla_spark.exactly_once.describe_acls import (
    ALL,
    ALLOW,
    DESCRIBE_ACLS,
    MATCH,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from ottla_spark.exactly_once.ledger.lease import lease_id
from ottla_spark.exactly_once.settings import Settings

_log = logging.getLogger(__name__)

_ALL_PRINCIPALS: Final = "User:*"


def check_writers(client: BlockingClient, settings: Settings) -> Sequence[str]:
    """Log which other users may write to a name's ledger topic, and return them; none if ACLs cannot be read."""
    topic = settings.topic.name
    if settings.shared:
        _log.warning(
            "the ledger topic %r of %r is shared: any other client that may write to it can stop this query, or make "
            "it write rows twice. Leave ledger.topic out: then the query has its own topic, which can have its own "
            "ACLs",
            topic,
            settings.name,
        )
        return ()
    found = other_writers(client, topic, transactional_id=lease_id(settings.name))
    if found:
        _log.warning(
            "%s may write to the ledger topic %r, but not with the prefix of %r: their entries could make this query "
            "skip rows or write them twice. Remove their right Write for the topic",
            ", ".join(found),
            topic,
            settings.name,
        )
    return found


def other_writers(client: BlockingClient, topic: str, *, transactional_id: str) -> Sequence[str]:
    """Return the principals that may write to the topic but not with the transactional id; none if not readable."""
    try:
        mine = _writers(client, TRANSACTIONAL_ID, transactional_id)
        writers = _writers(client, TOPIC, topic)
    except OttlaError as error:
        _log.info("the ACLs of the ledger topic %r cannot be read: %s", topic, error)
        return ()
    if _ALL_PRINCIPALS in mine:
        return ()
    return sorted(printable(each) for each in writers - mine)


def _writers(client: BlockingClient, kind: int, name: str) -> frozenset[str]:
    request = DescribeAclsRequest(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=MATCH,
        principal_filter=None,
        host_filter=None,
        permission_type=ALLOW,
    )

    def one() -> DescribeAclsResponse:
        answer: DescribeAclsResponse = client.ask(None, DESCRIBE_ACLS, lambda _version: request)
        return answer

    answer = client.until_answered("", one, lambda answer: error_code(answer.error_code))
    code = error_code(answer.error_code)
    if code is ErrorCode.SECURITY_DISABLED:
        return frozenset()  # no authorizer: every user may do everything
    if code is not ErrorCode.NONE:
        raise BrokerError(code)
    acls = [acl for resource in answer.resources for acl in resource.acls]
    return frozenset(acl.principal for acl in acls if acl.operation in (ALL, WRITE))
