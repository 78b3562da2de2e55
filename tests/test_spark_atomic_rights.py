"""All-or-nothing batches on a broker with TLS, a login and ACLs: the rights that are documented are exactly enough.

Each one that is missing is named by the error, and nothing of the batch is visible then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from spark_atomic_tasks_kit import Query

from ottla.errors import OttlaError
from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.pytest_plugin import go_without
from secure_broker import SecureBroker, secure_broker
from transactions_kit import new_id, read

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.thorough("test_spark_exactly_once_rights.py has the rights of the other guarantee"),
]

PARTITIONS = 2
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # who comes by the listener without a login
}
RIGHTS = {
    "write the id": (ResourceType.TRANSACTIONAL_ID, "{id}", AclOperation.WRITE),
    "read the group": (ResourceType.GROUP, "{id}", AclOperation.READ),
    "write the topic": (ResourceType.TOPIC, "{topic}", AclOperation.WRITE),
    "read the topic": (ResourceType.TOPIC, "{topic}", AclOperation.READ),
}
MISSING = {
    "write the id": r"This user needs Write for transactional id '{id}'",
    "read the group": r"This user needs Read for group '{id}'",
    "write the topic": r"topic '{topic}', partition \d: .*This user lacks a right for the topic",
    "read the topic": r"To commit offsets, this user needs Read for topic '{topic}'",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """A broker that lets alice do what she was given a right to."""
    manager = secure_broker(tmp_path_factory.mktemp("guarded"), config=AUTHORIZER)
    try:
        broker = manager.__enter__()
    except KafkaUnavailableError as error:
        go_without(error)
    yield broker
    manager.__exit__(None, None, None)


def give(broker: SecureBroker, names: set[str], query: Query) -> None:
    """Let alice do this much with what is the query's, and nothing else: all its names are new."""
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    wanted = []
    for kind, pattern, operation in (RIGHTS[name] for name in names):
        resource = pattern.format(id=query.transactional_id, topic=query.topic)
        wanted.append(AclBinding(kind, resource, literal, "User:alice", "*", operation, allow))
    admin = AdminClient({"bootstrap.servers": broker.kafka.bootstrap_servers, "log_level": 0})
    for done in admin.create_acls(wanted).values():
        done.result()


@pytest.fixture
def query(guarded: SecureBroker, monkeypatch: pytest.MonkeyPatch) -> Query:
    topic = new_id()
    guarded.kafka.create_topic(topic, partitions=PARTITIONS)
    settings = guarded.sasl("SCRAM-SHA-512", encrypted=True)
    monkeypatch.setenv("OTTLA_ALLOWED_FILES", str(settings["ssl.truststore.location"]))
    return Query.writing(
        topic, settings, transactional_id=new_id(), partitions=PARTITIONS, owners=2, rows=10, timeout=10.0
    )


def write_as_the_sink_does(query: Query) -> None:
    query.owner.partitions([query.topic])
    query.driver(attempts=1).write(0, query.batch(0))


def test_the_documented_rights_are_sufficient(guarded: SecureBroker, query: Query) -> None:
    give(guarded, set(RIGHTS), query)
    driver = query.driver()
    for batch in range(2):
        driver.write(batch, query.batch(batch))
    again = query.driver()
    again.write(1, query.batch(1))
    found = read(guarded.kafka.bootstrap_servers, query.topic, partitions=PARTITIONS)

    assert Counter(value for values in found for value in values) == Counter(query.values(2))


@pytest.mark.parametrize("missing", RIGHTS)
def test_a_missing_right_is_named(guarded: SecureBroker, query: Query, missing: str) -> None:
    give(guarded, set(RIGHTS) - {missing}, query)
    says = MISSING[missing].format(id=query.transactional_id, topic=query.topic)

    with pytest.raises(OttlaError, match=says):
        write_as_the_sink_does(query)
    assert read(guarded.kafka.bootstrap_servers, query.topic, partitions=PARTITIONS) == [[], []]
