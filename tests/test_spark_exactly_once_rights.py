"""Exactly-once from Spark by a user who may do what the page says and nothing else, over TLS and with a login.

What planner, tasks and commit ask of brokers is the same with and without Spark; here it is without.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not in its __all__
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AdminClient,
)
from confluent_kafka.admin import AclPermissionType as PermissionType  # type: ignore[attr-defined]
from confluent_kafka.admin import ResourcePatternType as PatternType  # type: ignore[attr-defined]
from confluent_kafka.admin import ResourceType as Kind  # type: ignore[attr-defined]

from ottla import Producer
from ottla.errors import OttlaError
from ottla.transactions import PreparedTransaction
from ottla_spark.errors import InvalidWriteError
from ottla_spark.exactly_once.attempt import Attempt
from ottla_spark.exactly_once.driver.commit import commit
from ottla_spark.exactly_once.driver.plan import plan
from ottla_spark.exactly_once.errors import BatchIncompleteError, BatchNotCommittedError
from ottla_spark.exactly_once.kafka.cluster_client import KafkaClusterClient
from ottla_spark.exactly_once.ledger.entry import Entry, Status, Step
from ottla_spark.exactly_once.ledger.lease import Lease
from ottla_spark.exactly_once.ledger.topic import CONFIG, LedgerTopic, own_topic
from ottla_spark.exactly_once.settings import EARLIER_TOPIC, Settings, read_settings
from ottla_spark.exactly_once.transactional_ids import task_id
from ottla_spark.options.options import read_options
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.topics import check_topics
from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.security import Security
from ottla_testkit.pytest_plugin import go_without
from secure_broker import PASSWORD, USERS
from transactions_kit import WAIT, committed, new_id, send

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PROCESS = "0" * 32


@attrs.frozen
class Right:
    """One line of an access list."""

    operation: AclOperation
    kind: Kind
    name: str
    pattern: PatternType = PatternType.LITERAL

    def filter(self) -> tuple[Any, ...]:
        """All of alice's lines with this right."""
        return self.kind, self.name, self.pattern, "User:alice", "*", self.operation, PermissionType.ALLOW

    def binding(self, user: str = "alice") -> AclBinding:
        """The same for a user, wherever they come from."""
        allow = PermissionType.ALLOW
        return AclBinding(self.kind, self.name, self.pattern, f"User:{user}", "*", self.operation, allow)


@attrs.frozen
class Query:
    """A query of alice's: no other user has its prefix, its ledger and its topic."""

    kafka: KafkaCluster
    security: Security
    prefix: str = attrs.Factory(new_id)
    topic: str = attrs.Factory(new_id)

    @property
    def ledger(self) -> str:
        """The ledger topic of the prefix."""
        return own_topic(self.prefix)

    def rights(self) -> dict[str, Right]:
        """Those that the page names."""
        prefixed, topic = PatternType.PREFIXED, Kind.TOPIC
        return {
            "transactions": Right(AclOperation.WRITE, Kind.TRANSACTIONAL_ID, f"{self.prefix}/", prefixed),
            "reading the ledger": Right(AclOperation.READ, topic, self.ledger),
            "writing the ledger": Right(AclOperation.WRITE, topic, self.ledger),
            "making the ledger": Right(AclOperation.CREATE, topic, self.ledger),
            "writing the topic": Right(AclOperation.WRITE, topic, self.topic),
        }

    def grant(self, *rights: Right, to: str = "alice") -> None:
        """Allow a user to do this."""
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        for granted in admin.create_acls([right.binding(to) for right in rights]).values():
            granted.result(WAIT)

    @contextmanager
    def may_see_access_lists(self) -> Iterator[None]:
        """Let alice see all of them for as long as the `with` block lasts: this right is not for one query alone."""
        describe = Right(AclOperation.DESCRIBE, Kind.BROKER, "kafka-cluster")
        self.grant(describe)
        yield
        self.take_away(describe)

    def take_away(self, right: Right) -> None:
        """Let alice do this no longer."""
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        [taken_away] = admin.delete_acls([AclBindingFilter(*right.filter())]).values()
        taken_away.result(WAIT)

    @property
    def settings(self) -> Settings:
        """The error that Spark would get."""
        login = {
            "bootstrap.servers": self.kafka.listener("SASL_SSL"),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.security.certificates.authority.read_text(),
        }
        problems: list[str] = []
        own = {"guarantee": "exactly-once", "transactional.id.prefix": self.prefix}
        found = read_options({**{f"kafka.{key}": value for key, value in login.items()}, **own}, problems=problems)
        assert problems == []
        return read_settings(found)

    def write(self, settings: Settings | None = None) -> Status | None:
        """One batch with one task; what the ledger says of it to the next start."""
        driver = KafkaClusterClient(settings or self.settings)
        try:
            commit(driver, [self.attempt(driver)], batch=0)
            last = plan(driver, self.prefix).last
            return last.status if last is not None else None
        finally:
            driver.close()

    def attempt(self, driver: KafkaClusterClient) -> Attempt:
        """Plan a batch, and write it with one task."""
        timeout_ms = driver.timeout_ms()
        given = plan(driver, self.prefix)
        return Attempt(
            lease=given.lease,
            query="q",
            batch=0,
            partition=0,
            step=Step.WRITE,
            prepared=self._prepared(timeout_ms),
            records=3,
        )

    def write_plainly(self, topic: str | None = None) -> None:
        """One record without a transaction, to the query's topic by default."""
        with Producer(self.settings.producer) as producer:
            producer.send(topic or self.topic, b"").result(WAIT)

    def write_to_the_ledger(self) -> None:
        """One record that is no entry."""
        self.write_plainly(self.ledger)

    def begin_another(self) -> None:
        """Take an id under the prefix that no task has."""
        other = self.settings.for_task(task_id(self.prefix, process="f" * 32, number=0), timeout_ms=60_000)
        with Producer(other) as producer:
            producer.init_transactions()

    def until_allowed(self, action: Callable[[], None]) -> None:
        """Return once alice may do this: a broker learns of a right with a delay."""
        assert any(self._allows(action) for _ in range(100)), "the right is not there"

    def lose(self, right: Right, *, checked_by: Callable[[], None]) -> None:
        """Take a right away, and return once alice may no longer do what needs it."""
        self.take_away(right)
        assert not all(self._allows(checked_by) for _ in range(100)), "the right is still there"

    def _allows(self, action: Callable[[], None]) -> bool:
        with contextlib.suppress(OttlaError):
            action()
            return True
        time.sleep(0.05)
        return False

    def _prepared(self, timeout_ms: int) -> PreparedTransaction:
        name = task_id(self.prefix, process=PROCESS, number=0)
        with Producer(self.settings.for_task(name, timeout_ms=timeout_ms)) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            send(producer, self.topic, [b"alice's"])
            return producer.prepare_transaction()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, Security]]:
    """A broker that asks who may do what; those who come in plain text, as its own controller does, may do all."""
    security = Security(folder=tmp_path_factory.mktemp("guarded"), users=USERS)
    config = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
    kafka = KafkaCluster(security=security, config=config)
    try:
        kafka.__enter__()
    except KafkaUnavailableError as error:
        go_without(error)
    try:
        yield kafka, security
    finally:
        kafka.close()


@pytest.fixture
def query(guarded: tuple[KafkaCluster, Security]) -> Query:
    query = Query(*guarded)
    query.kafka.create_topic(query.topic, partitions=3)
    return query


def test_the_rights_that_the_page_names_are_sufficient(query: Query, caplog: pytest.LogCaptureFixture) -> None:
    query.grant(*query.rights().values())

    assert query.write() is Status.DONE
    assert committed(query.kafka, query.topic) == [[b"alice's"]] * 3
    reported = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any("transaction.max.timeout.ms of 1 cannot be read" in line for line in reported)


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        ("transactions", r"TRANSACTIONAL_ID_AUTHORIZATION_FAILED.*right Write for transactional ids .* '{prefix}/'"),
        ("reading the ledger", r"TOPIC_AUTHORIZATION_FAILED.*right Read for topic '{ledger}'"),
        ("writing the ledger", r"TOPIC_AUTHORIZATION_FAILED.*right Write for topic '{ledger}'"),
        ("making the ledger", r"TOPIC_AUTHORIZATION_FAILED.*right Create for topic '{ledger}'"),
        ("writing the topic", r"topic '{topic}'.*TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_each_missing_right_is_named(query: Query, missing: str, why: str) -> None:
    query.grant(*(right for name, right in query.rights().items() if name != missing))
    with pytest.raises(OttlaError) as refused:
        query.write()

    names = {"prefix": query.prefix, "ledger": query.ledger, "topic": query.topic}
    assert re.search(why.format(**names), f"{refused.value} {refused.value.__cause__}")


def test_a_lost_right_to_the_ledger_leaves_no_transaction_open(query: Query) -> None:
    query.grant(*query.rights().values())
    driver = KafkaClusterClient(query.settings)
    attempt = query.attempt(driver)
    query.lose(query.rights()["writing the ledger"], checked_by=query.write_to_the_ledger)
    with pytest.raises(
        BatchNotCommittedError, match=rf"[^.]\. The user needs the right Write for topic '{query.ledger}'"
    ):
        commit(driver, [attempt], batch=0)
    left = driver.open_transactions(query.prefix)
    driver.close()

    assert left == []


def test_a_batch_whose_right_was_lost_after_its_entry_is_finished_later(query: Query) -> None:
    query.grant(*query.rights().values())
    right = query.rights()["transactions"]

    class Losing(KafkaClusterClient):
        def append(self, lease: Lease, entry: Entry | None) -> Lease:
            after = super().append(lease, entry)
            query.lose(right, checked_by=query.begin_another)
            return after

    driver = Losing(query.settings)
    attempt = query.attempt(driver)
    with pytest.raises(BatchIncompleteError) as incomplete:
        commit(driver, [attempt], batch=0)
    driver.close()
    query.grant(right)
    query.until_allowed(query.begin_another)
    later = KafkaClusterClient(query.settings)
    last = plan(later, query.prefix).last
    later.close()

    said = str(incomplete.value)
    assert f"the right Write for transactional ids that begin with '{query.prefix}/'" in said
    assert re.search(r"Start the query again within \d+ s, before they time out", said)
    assert last is not None
    assert last.status is Status.DONE
    assert committed(query.kafka, query.topic) == [[b"alice's"]] * 3


@pytest.mark.parametrize("others", [[], [AclOperation.DESCRIBE]])
def test_a_topic_without_the_right_to_write_is_refused_when_it_is_planned(
    query: Query, others: list[AclOperation]
) -> None:
    right = query.rights()["writing the topic"]
    if others:
        query.grant(*(attrs.evolve(right, operation=other) for other in others))
    options = WriteOptions(topic=query.topic, producer=query.settings.producer)
    with pytest.raises(InvalidWriteError, match=f"may not write to topic '{query.topic}'; give it the right Write"):
        check_topics(options)

    query.grant(right)
    query.until_allowed(query.write_plainly)
    check_topics(options)


@pytest.mark.parametrize("pattern", [PatternType.LITERAL, PatternType.PREFIXED])
def test_other_users_that_may_write_to_the_ledger_topic_are_named(
    query: Query, pattern: PatternType, caplog: pytest.LogCaptureFixture
) -> None:
    rights = query.rights()
    query.grant(*rights.values())
    query.grant(attrs.evolve(rights["writing the ledger"], pattern=pattern), to="mallory")
    query.grant(attrs.evolve(rights["reading the ledger"], pattern=pattern), to="reader")
    query.grant(rights["writing the ledger"], rights["transactions"], to="colleague")
    with query.may_see_access_lists():
        query.write()
    [named] = [line for line in caplog.messages if "may write to the ledger topic" in line]

    assert named.startswith(f"User:mallory may write to the ledger topic {query.ledger!r}, but not with the prefix")


def test_a_job_without_the_right_to_see_access_lists_continues(query: Query, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    query.grant(*query.rights().values())

    assert query.write() is Status.DONE
    assert any("the ACLs of the ledger topic" in line and "cannot be read" in line for line in caplog.messages)


def test_another_user_may_not_write_to_the_ledger_topic_of_a_prefix(query: Query) -> None:
    """The rights that the page names are given to one user, and the topic is made with no others."""
    query.grant(*query.rights().values())
    query.write()
    mallory = {**query.settings.producer, "sasl.username": "bob", "sasl.password": USERS["bob"], "max.block.ms": 10_000}
    with Producer(mallory) as producer, pytest.raises(OttlaError) as refused:
        producer.send(query.ledger, b"", query.prefix.encode()).result(60)

    assert "TOPIC_AUTHORIZATION_FAILED" in f"{refused.value} {refused.value.__cause__}"


def test_an_entry_can_be_taken_over_with_read_rights_at_its_old_place(
    query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    reading = Right(AclOperation.READ, Kind.TOPIC, EARLIER_TOPIC)
    writing = attrs.evolve(reading, operation=AclOperation.WRITE)
    query.kafka.create_topic(EARLIER_TOPIC, partitions=8, config=CONFIG)
    query.grant(*query.rights().values(), reading, writing)
    topic = LedgerTopic(name=EARLIER_TOPIC, partitions=8, replication=-1)
    query.write(attrs.evolve(query.settings, topic=topic, earlier=""))
    query.take_away(writing)
    driver = KafkaClusterClient(query.settings)
    first, second = (plan(driver, query.prefix).last for _ in range(2))
    driver.close()

    assert first is not None
    assert first == second
    assert first.status is Status.DONE
    assert "could not be marked as moved" in caplog.text
    assert "it would continue from that entry" in caplog.text
    assert f"right Write for topic '{EARLIER_TOPIC}'" in caplog.text


def test_an_unreadable_ledger_of_an_earlier_version_is_named(query: Query, caplog: pytest.LogCaptureFixture) -> None:
    query.grant(*query.rights().values())
    query.write(attrs.evolve(query.settings, earlier=new_id()))

    assert "in which earlier versions kept the ledger of every query, cannot be read" in caplog.text
