"""The rights that docs/security.md lists are enough for a producer, and an error names one that is missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import attrs
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not in its __all__
    AclBinding,
    AclOperation,
    AdminClient,
)
from confluent_kafka.admin import AclPermissionType as PermissionType  # type: ignore[attr-defined]
from confluent_kafka.admin import ResourcePatternType as PatternType  # type: ignore[attr-defined]
from confluent_kafka.admin import ResourceType as Kind  # type: ignore[attr-defined]

from ottla import Producer, transactions
from ottla.errors import AbortableTransactionError, OttlaError, TopicUnavailableError, TransactionError
from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.security import Security
from ottla_testkit.pytest_plugin import go_without
from secure_broker import PASSWORD, USERS
from transactions_kit import LOOK_AGAIN, WAIT, new_id

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

T = TypeVar("T")

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@attrs.frozen
class Guarded:
    """A broker whose user alice has the rights that a test grants."""

    kafka: KafkaCluster
    security: Security

    def settings(self, **more: Any) -> dict[str, Any]:
        """Alice's settings; further ones as keywords with underscores."""
        return {
            "bootstrap.servers": self.kafka.listener("SASL_SSL"),
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": str(self.security.certificates.authority),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
        } | {key.replace("_", "."): value for key, value in more.items()}

    def grant(
        self, operation: AclOperation, kind: Kind, name: str, *, user: str = "alice", prefix: bool = False
    ) -> None:
        """Give a user a right; brokers apply it soon after this returns."""
        pattern = PatternType.PREFIXED if prefix else PatternType.LITERAL
        right = AclBinding(kind, name, pattern, f"User:{user}", "*", operation, PermissionType.ALLOW)
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        for future in admin.create_acls([right]).values():
            future.result(WAIT)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Who comes in plain text, as its own controller does, may do all; topics are created if alice may create them."""
    security = Security(folder=tmp_path_factory.mktemp("guarded"), users=USERS)
    kafka = KafkaCluster(
        security=security,
        config={
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:ANONYMOUS",
            "auto.create.topics.enable": "true",
        },
    )
    try:
        kafka.__enter__()
    except KafkaUnavailableError as error:
        go_without(error)
    try:
        yield Guarded(kafka, security)
    finally:
        kafka.close()


@pytest.fixture
def topic(guarded: Guarded) -> str:
    name = new_id()
    guarded.kafka.create_topic(name)
    return name


def once_allowed(call: Callable[[], T], *, deadline: float = WAIT) -> T:
    """The result of a call, which is repeated until the broker has applied the rights."""
    end = time.monotonic() + deadline
    while True:
        try:
            return call()
        except OttlaError as error:
            if "AUTHORIZATION_FAILED" not in str(error) or time.monotonic() > end:
                raise
        time.sleep(LOOK_AGAIN)


def send_one(settings: dict[str, Any], topic: str) -> int:
    with Producer(settings) as producer:
        return producer.send(topic, b"v").result(WAIT).offset


def test_write_for_a_topic_is_enough_to_send(guarded: Guarded, topic: str) -> None:
    guarded.grant(AclOperation.WRITE, Kind.TOPIC, topic)

    assert once_allowed(lambda: send_one(guarded.settings(), topic)) == 0


def test_the_rights_of_a_transaction_are_enough(guarded: Guarded, topic: str) -> None:
    transactional_id, group, source = new_id(), new_id(), new_id()
    guarded.kafka.create_topic(source)
    settings = guarded.settings(transactional_id=transactional_id)
    guarded.grant(AclOperation.WRITE, Kind.TOPIC, topic)
    guarded.grant(AclOperation.WRITE, Kind.TRANSACTIONAL_ID, transactional_id[:-1], prefix=True)
    guarded.grant(AclOperation.READ, Kind.GROUP, group)
    guarded.grant(AclOperation.READ, Kind.TOPIC, source)

    def commit_one() -> None:
        with Producer(settings) as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send(topic, b"v")
                producer.send_offsets_to_transaction({(source, 0): 7}, group)

    once_allowed(commit_one)
    offset = once_allowed(lambda: transactions.committed_offset(settings, group, source, 0))
    assert offset is not None
    assert offset.offset == 7


def test_missing_rights_of_a_transaction_are_named(guarded: Guarded, topic: str) -> None:
    transactional_id, group = new_id(), new_id()
    settings = guarded.settings(transactional_id=transactional_id)
    with Producer(settings) as producer:
        with pytest.raises(TransactionError, match=f"needs Write for transactional id '{transactional_id}'"):
            producer.init_transactions()
        guarded.grant(AclOperation.WRITE, Kind.TRANSACTIONAL_ID, transactional_id)
        once_allowed(producer.init_transactions)
        with (
            pytest.raises(AbortableTransactionError, match=f"needs Read for group '{group}'"),
            producer.transaction(),
        ):
            producer.send_offsets_to_transaction({(topic, 0): 7}, group)


def test_transactions_are_listed_without_a_right_to_the_groups(guarded: Guarded) -> None:
    transactional_id = new_id()
    settings = guarded.settings(transactional_id=transactional_id)
    guarded.grant(AclOperation.WRITE, Kind.TRANSACTIONAL_ID, transactional_id)
    with Producer(settings) as producer:
        once_allowed(producer.init_transactions)
    [listed] = transactions.list_transactions(settings, transactional_id)
    assert (listed.state, listed.offsets, listed.offsets_denied) == ("Empty", (), True)
    guarded.grant(AclOperation.DESCRIBE, Kind.GROUP, transactional_id)
    end = time.monotonic() + WAIT
    while listed.offsets_denied and time.monotonic() < end:
        [listed] = transactions.list_transactions(settings, transactional_id)

    assert not listed.offsets_denied


def test_a_topic_that_the_user_may_not_create_is_reported_as_that(guarded: Guarded) -> None:
    topic = new_id()
    guarded.grant(AclOperation.WRITE, Kind.TOPIC, topic[:-1], prefix=True)
    with pytest.raises(TopicUnavailableError, match="it needs Write, and Create if the topic does not exist"):
        send_one(guarded.settings(), topic)
    guarded.grant(AclOperation.CREATE, Kind.TOPIC, topic[:-1], prefix=True)

    assert once_allowed(lambda: send_one(guarded.settings(), topic)) == 0


def test_a_user_that_may_write_nothing_is_advised_to_get_the_right(guarded: Guarded, topic: str) -> None:
    """Bob has no other right; brokers give a producer id to users that may write to a topic, whichever it is."""
    guarded.grant(AclOperation.DESCRIBE, Kind.TOPIC, topic, user="bob")
    settings = guarded.settings(sasl_username="bob", sasl_password=USERS["bob"])
    end = time.monotonic() + WAIT
    while True:
        with pytest.raises(OttlaError) as caught:
            send_one(settings, topic)
        if not isinstance(caught.value, TopicUnavailableError) or time.monotonic() > end:
            break

    assert "CLUSTER_AUTHORIZATION_FAILED" in str(caught.value)
    assert "it needs Write for a topic" in str(caught.value)
    assert "enable.idempotence" not in str(caught.value)
