"""The doctor and brokers that respond: their description of the cluster, and their advertised addresses."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from broker_on_a_socket import SocketBroker

from ottla.doctor import Examination, Finding, Status, Step, bootstrap, examine
from ottla.doctor.tcp import Attempt, Connected, connect
from ottla.errors import ErrorCode
from ottla.plugins.selection import Plugins
from ottla.protocol import (
    API_VERSIONS,
    METADATA,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla_testkit.simulation import SimulatedCluster
from plugin_site import Site, plugin_site
from wrong_peers import NEWEST, ScriptedBroker, serving, stays_silent

site = plugin_site

TIMEOUT = 60.0
WRITE, DESCRIBE = 1 << 4, 1 << 8
UNREACHABLE = MetadataResponseBroker(node_id=2, host="nowhere.invalid", port=9092)


def topic(
    *leaders: int, error: ErrorCode = ErrorCode.NONE, allowed: int = WRITE | DESCRIBE, name: str = "t"
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=name,
        error_code=error,
        topic_authorized_operations=allowed,
        partitions=[MetadataResponsePartition(partition_index=p, leader_id=leader) for p, leader in enumerate(leaders)],
    )


def cluster(
    *others: MetadataResponseBroker,
    topics: list[MetadataResponseTopic] | None = None,
    error: ErrorCode = ErrorCode.NONE,
    id: str | None = "c",
) -> Callable[[str, int], MetadataResponse]:
    """An answer of broker 1, which advertises the address that it was asked at."""

    def answer(host: str, port: int) -> MetadataResponse:
        me = MetadataResponseBroker(node_id=1, host=host, port=port)
        return MetadataResponse(
            cluster_id=id, controller_id=1, brokers=[me, *others], topics=topics or [], error_code=error
        )

    return answer


def examined(broker: ScriptedBroker, *, topic: str | None = "t", send: bool = False) -> Examination:
    with serving(broker) as (host, port):
        return examine({"bootstrap.servers": f"{host}:{port}"}, topic=topic, send=send, timeout=TIMEOUT)


def the(examination: Examination, step: Step) -> Finding:
    [finding] = [finding for finding in examination.findings if finding.step is step]
    return finding


def test_a_correct_broker_is_reported_as_healthy() -> None:
    examination = examined(ScriptedBroker(metadata=cluster(topics=[topic(1, 1, 1)])))

    assert examination.healthy
    assert examination.cause is None
    assert the(examination, Step.METADATA).message == "cluster c, 1 broker: 1; controller: 1"
    assert the(examination, Step.TOPIC).message == "3 partitions, led by broker 1"
    assert the(examination, Step.RECORD).message == "no test record was requested"


def test_steps_of_tls_and_login_are_skipped_for_plaintext() -> None:
    examination = examined(ScriptedBroker(metadata=cluster(topics=[topic(1)])))

    for step in (Step.TLS, Step.SASL):
        assert the(examination, step).status is Status.SKIPPED
        assert the(examination, step).message == "not used with security.protocol=PLAINTEXT"


def test_an_older_apiversions_is_used_if_the_newest_is_unsupported() -> None:
    broker = ScriptedBroker(metadata=cluster(topics=[topic(1)]), refuses_versions_above=0)

    assert examined(broker).healthy
    assert [version for key, version, _body in broker.asked if key == API_VERSIONS.key][:2] == [4, 0]


def test_the_metadata_request_forbids_auto_creation_and_asks_for_rights() -> None:
    broker = ScriptedBroker(metadata=cluster(topics=[topic(1)]))
    examined(broker)

    [(version, body), _other] = [(version, body) for key, version, body in broker.asked if key == METADATA.key]
    asked: MetadataRequest = METADATA.request(version).decode(body[1:])
    assert asked.allow_auto_topic_creation is False
    assert asked.include_topic_authorized_operations is True
    assert [wanted.name for wanted in asked.topics or []] == ["t"]


@pytest.mark.parametrize("newest", [0, 1, 3])
def test_a_broker_that_would_create_the_topic_is_asked_for_all_topics(newest: int) -> None:
    broker = ScriptedBroker(
        versions={**NEWEST, METADATA.key: (0, newest)}, metadata=cluster(topics=[topic(1, name="other"), topic(1)])
    )

    assert examined(broker).healthy
    [(version, body), _other] = [(version, body) for key, version, body in broker.asked if key == METADATA.key]
    asked: MetadataRequest = METADATA.request(version).decode(body)
    assert (version, asked.topics) == (newest, None if newest else [])


def test_without_a_topic_none_is_requested() -> None:
    broker = ScriptedBroker(metadata=cluster())
    examination = examined(broker, topic=None)

    for version, body in [(version, body) for key, version, body in broker.asked if key == METADATA.key]:
        asked: MetadataRequest = METADATA.request(version).decode(body[1:])
        assert asked.topics == []
    assert the(examination, Step.TOPIC).message == "no topic was named"


@pytest.mark.parametrize(
    ("answer", "said", "remedy"),
    [
        (topic(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "does not exist", "create 't'"),
        (topic(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), "may not describe the topic", "add an ACL for DESCRIBE"),
        (topic(error=ErrorCode.INVALID_TOPIC_EXCEPTION), "no topic can have this name", "a-z"),
        (topic(error=ErrorCode.UNKNOWN_SERVER_ERROR), "UNKNOWN_SERVER_ERROR", "log"),
        (topic(1, -1, 1, -1), "of 4 partitions, 2 without a leader: 1, 3", "start the brokers"),
        (topic(1, 7), "of 2 partitions, 1 without a leader: 1", "start the brokers"),
        (topic(*[-1] * 12), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more", "start the brokers"),
        (topic(1, allowed=DESCRIBE), "not write to it", "add an ACL for WRITE on 't'"),
        (topic(1, name="other"), "does not exist", "create 't'"),
    ],
)
def test_a_topic_that_takes_no_records_is_reported_with_the_reason(
    answer: MetadataResponseTopic, said: str, remedy: str
) -> None:
    examination = examined(ScriptedBroker(metadata=cluster(topics=[answer])), send=True)

    finding = the(examination, Step.TOPIC)
    assert finding.status is Status.FAILED
    assert said in finding.message
    assert remedy in finding.remedy
    assert the(examination, Step.RECORD).message == "no record can be written to the topic"
    assert examination.failures == [finding]


def test_missing_authorized_operations_of_an_old_broker_are_accepted() -> None:
    broker = ScriptedBroker(versions={**NEWEST, METADATA.key: (0, 7)}, metadata=cluster(topics=[topic(1)]))

    assert examined(broker).healthy


def test_an_unresolvable_advertised_name_is_reported_with_the_setting() -> None:
    examination = examined(ScriptedBroker(metadata=cluster(UNREACHABLE, topics=[topic(1, 2)])), send=True)

    assert examination.cause is not None
    assert examination.cause.subject == "broker 2 at nowhere.invalid:9092"
    # The second one if no name server can be reached from here.
    assert re.search("'nowhere.invalid' (has no address here|could not be looked up)", examination.cause.message)
    assert "set advertised.listeners of broker 2" in examination.cause.remedy
    assert the(examination, Step.RECORD).message == "broker 2 of this topic cannot be reached"
    assert len(examination.failures) == 1


def test_an_unreachable_broker_does_not_prevent_the_test_record() -> None:
    examination = examined(ScriptedBroker(metadata=cluster(UNREACHABLE, topics=[topic(1)])))

    assert the(examination, Step.TOPIC).status is Status.OK
    assert the(examination, Step.RECORD).message == "no test record was requested"


@pytest.mark.parametrize("port", [-1, 0, 70_000])
def test_an_invalid_advertised_port_is_reported(port: int) -> None:
    wrong = MetadataResponseBroker(node_id=2, host="127.0.0.1", port=port)
    examination = examined(ScriptedBroker(metadata=cluster(wrong)), topic=None)

    assert examination.cause is not None
    assert "its port is not from 1 to 65535" in examination.cause.message


def test_the_doctor_uses_the_first_of_two_brokers_with_the_same_id() -> None:
    second = MetadataResponseBroker(node_id=1, host="nowhere.invalid", port=9092)
    negative = MetadataResponseBroker(node_id=-1, host="nowhere.invalid", port=9092)
    examination = examined(ScriptedBroker(metadata=cluster(second, negative, topics=[topic(1)])))

    assert the(examination, Step.METADATA).status is Status.OK
    assert the(examination, Step.ADVERTISED).status is Status.OK
    assert "nowhere.invalid" not in str(examination.findings)


def test_an_advertised_address_that_refuses_connections_is_reported() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        wrong = MetadataResponseBroker(node_id=2, host="127.0.0.1", port=taken.getsockname()[1])
        examination = examined(ScriptedBroker(metadata=cluster(wrong)), topic=None)

    assert examination.cause is not None
    assert "does not work from here: nothing listens there" in examination.cause.message


def test_an_advertised_address_of_another_service_is_reported() -> None:
    with serving(lambda peer: peer.sendall(b"HTTP/1.1 400 Bad Request\r\n")) as (host, port):
        wrong = MetadataResponseBroker(node_id=2, host=host, port=port)
        examination = examined(ScriptedBroker(metadata=cluster(wrong)), topic=None)

    assert examination.cause is not None
    assert "answered in HTTP" in examination.cause.message


@pytest.mark.parametrize(
    ("broker", "said", "remedy"),
    [
        (ScriptedBroker(), "closed the connection without a response", "security.protocol=SASL_PLAINTEXT"),
        (ScriptedBroker(versions={18: (0, 4)}), "a controller's listener", "bootstrap.servers"),
        (ScriptedBroker(versions={**NEWEST, 3: (90, 91)}), "no version of Metadata fits", "upgrade ottla"),
        (
            ScriptedBroker(metadata=cluster(error=ErrorCode.REBOOTSTRAP_REQUIRED)),
            "REBOOTSTRAP_REQUIRED",
            "the broker's log",
        ),
        (
            ScriptedBroker(metadata=lambda _host, _port: MetadataResponse()),
            "the metadata lists no brokers",
            "wait until it has joined",
        ),
    ],
)
def test_a_broker_without_cluster_metadata_is_reported_with_the_reason(
    broker: ScriptedBroker, said: str, remedy: str
) -> None:
    examination = examined(broker)

    finding = the(examination, Step.METADATA)
    assert said in finding.message
    assert remedy in finding.remedy
    assert the(examination, Step.ADVERTISED).status is Status.SKIPPED


def test_one_working_bootstrap_server_is_enough_to_continue() -> None:
    with (
        serving(ScriptedBroker()) as (host, mute),
        serving(ScriptedBroker(metadata=cluster(topics=[topic(1)]))) as (_host, port),
        socket.socket() as taken,
    ):
        taken.bind(("127.0.0.1", 0))
        servers = f"{host}:{taken.getsockname()[1]},nowhere.invalid:1,{host}:{mute},{host}:{port}"
        examination = examine({"bootstrap.servers": servers}, topic="t", timeout=TIMEOUT)

    assert the(examination, Step.TOPIC).status is Status.OK
    assert [finding.step for finding in examination.failures] == [Step.NAMES, Step.TCP, Step.METADATA]


def test_bootstrap_servers_of_one_cluster_are_all_ok() -> None:
    with (
        serving(ScriptedBroker(metadata=cluster())) as (host, first),
        serving(ScriptedBroker(metadata=cluster())) as (_host, second),
        serving(ScriptedBroker(metadata=cluster(id=None))) as (_host, without_id),
    ):
        servers = f"{host}:{first},{host}:{second},{host}:{without_id}"
        examination = examine({"bootstrap.servers": servers}, timeout=TIMEOUT)

    assert examination.healthy
    assert [finding.subject for finding in examination.findings if finding.step is Step.METADATA] == servers.split(",")


def test_bootstrap_servers_of_several_clusters_are_the_cause() -> None:
    with (
        serving(ScriptedBroker(metadata=cluster(topics=[topic(1)], id="east"))) as (host, first),
        serving(ScriptedBroker(metadata=cluster(id="west"))) as (_host, second),
        serving(ScriptedBroker(metadata=cluster(id="east"))) as (_host, third),
        socket.socket() as taken,
    ):
        taken.bind(("127.0.0.1", 0))
        servers = ",".join(f"{host}:{port}" for port in (taken.getsockname()[1], first, second, third))
        examination = examine({"bootstrap.servers": servers}, topic="t", send=True, timeout=TIMEOUT)

    finding = the(examination, Step.METADATA)
    assert examination.cause == finding
    assert finding.sentence == (
        f"bootstrap.servers: these servers belong to 2 clusters: 'east' ({host}:{first}, {host}:{third}), "
        f"'west' ({host}:{second}); name servers of one cluster: a producer sends to the cluster whose server answers "
        "first."
    )
    for step in (Step.ADVERTISED, Step.TOPIC, Step.RECORD):
        assert the(examination, step).message == "bootstrap.servers names several clusters"


def test_an_advertised_address_of_another_cluster_is_reported() -> None:
    with serving(ScriptedBroker(metadata=cluster(id="west"))) as (host, port):
        elsewhere = MetadataResponseBroker(node_id=2, host=host, port=port)
        here = ScriptedBroker(metadata=cluster(elsewhere, topics=[topic(1, 2)]))
        examination = examined(here, send=True)

    assert examination.cause is not None
    assert examination.cause.sentence == (
        f"broker 2 at {host}:{port}: the broker advertises an address of another cluster, 'west'; it is in 'c'; set "
        "advertised.listeners of broker 2 to its own address, and check where its name or load balancer leads."
    )
    assert examination.failures == [examination.cause]
    assert the(examination, Step.RECORD).message == "broker 2 of this topic cannot be reached"


def test_an_advertised_listener_that_refuses_requests_is_reported() -> None:
    with serving(ScriptedBroker()) as (host, port):
        elsewhere = MetadataResponseBroker(node_id=2, host=host, port=port)
        examination = examined(ScriptedBroker(metadata=cluster(elsewhere)), topic=None)

    assert examination.cause is not None
    assert "closed the connection without a response" in examination.cause.message
    assert "set advertised.listeners of broker 2" in examination.cause.remedy


def test_the_test_record_asks_only_servers_that_passed() -> None:
    there = SimulatedCluster.of(1)
    there.create("t", 1)
    with contextlib.ExitStack() as stack:
        frozen = [stack.enter_context(serving(stays_silent)) for _ in range(9)]
        working = stack.enter_context(SocketBroker(there.brokers[1]).serving())
        servers = ",".join([*(f"{host}:{port}" for host, port in frozen), working])
        examination = examine({"bootstrap.servers": servers}, topic="t", send=True, timeout=21.0)

    assert the(examination, Step.RECORD).message == "acknowledged: partition 0, offset 0"
    assert {finding.step for finding in examination.failures} == {Step.API_VERSIONS}
    assert examination.cause is not None
    assert examination.cause.subject == "{}:{}".format(*frozen[0])


@pytest.mark.parametrize(
    "others", [{}, {"transaction.timeout.ms": 5_000}, {"transaction.two.phase.commit.enable": True}]
)
def test_the_test_record_is_not_part_of_a_transaction(others: dict[str, object]) -> None:
    there = SimulatedCluster.of(1)
    there.create("t", 1)
    broker = SocketBroker(there.brokers[1])
    with broker.serving() as servers:
        settings = {"bootstrap.servers": servers, "transactional.id": "orders", **others}
        examination = examine(settings, topic="t", send=True, timeout=TIMEOUT)

    assert examination.healthy
    assert the(examination, Step.RECORD).message == "acknowledged: partition 0, offset 0"
    assert not there.transactions.ids, "it would end the transaction of a running program"


@pytest.mark.parametrize(
    ("serializer", "sent"),
    [
        ("bytes", True),
        ("ottla:string", True),
        ("org.apache.kafka.common.serialization.StringSerializer", True),
        ("json", False),
        ("ottla:json", False),
        (str, False),
    ],
)
def test_no_test_record_is_sent_that_consumers_may_be_unable_to_read(serializer: object, sent: bool) -> None:
    there = SimulatedCluster.of(1)
    there.create("t", 1)
    with SocketBroker(there.brokers[1]).serving() as servers:
        settings = {"bootstrap.servers": servers, "value.serializer": serializer}
        examination = examine(settings, topic="t", send=True, timeout=TIMEOUT)

    record = the(examination, Step.RECORD)
    assert record.status is (Status.OK if sent else Status.SKIPPED)
    assert sent or "with value.serializer=bytes it is sent" in record.message
    assert len(there.topics["t"].log.get(0, [])) == sent


def test_settings_of_a_key_serializer_do_not_fail_the_test_record(site: Site) -> None:
    site.install(
        """
        from ottla.hookspecs import hookimpl
        from ottla.interfaces import ConfigKey

        class Good:
            def serialize(self, topic, data, headers):
                assert data is None
                return data

        @hookimpl
        def ottla_config_keys():
            return [ConfigKey(name="signing.salt", type=str, default="", meaning="a salt")]

        @hookimpl
        def ottla_serializer(config):
            return Good()
        """,
        kind="serializer",
        name="signed",
    )
    there = SimulatedCluster.of(1)
    there.create("t", 1)
    with SocketBroker(there.brokers[1]).serving() as servers:
        settings = {"bootstrap.servers": servers, "key.serializer": "signed", "signing.salt": "x"}
        examination = examine(settings, topic="t", send=True, timeout=TIMEOUT)

    assert the(examination, Step.RECORD).message == "acknowledged: partition 0, offset 0"


@pytest.mark.parametrize("step", [Step.CONFIGURATION, Step.TCP, Step.HANDSHAKE, Step.API_VERSIONS, Step.METADATA])
def test_nothing_stays_open_if_on_finding_raises(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error's traceback, which is kept here, has the frames of the examination."""
    attempts: list[Attempt] = []

    def recorded(*arguments: Any, **options: Any) -> Sequence[Attempt]:
        attempts.extend(connect(*arguments, **options))
        return attempts

    def stops(finding: Finding) -> None:
        if finding.step is step:
            raise InterruptedError("no more, please")

    monkeypatch.setattr(bootstrap, "connect", recorded)
    closed = closings(monkeypatch)
    with serving(ScriptedBroker(metadata=cluster(topics=[]))) as (host, port):
        with pytest.raises(InterruptedError) as caught:
            examine({"bootstrap.servers": f"{host}:{port}"}, timeout=TIMEOUT, on_finding=stops)

        assert all(isinstance(one, Connected) and one.sock.fileno() == -1 for one in attempts)
        assert len(attempts) == (step is not Step.CONFIGURATION)
        assert len(closed) == 1
    assert caught.value.__traceback__ is not None


def closings(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A list that gets an item each time plugins are closed."""
    closed: list[object] = []
    original = Plugins.close

    def close(plugins: Plugins) -> None:
        closed.append(plugins)
        original(plugins)

    monkeypatch.setattr(Plugins, "close", close)
    return closed


def test_a_silent_broker_lengthens_only_its_own_time() -> None:
    with serving(stays_silent) as (host, port):
        silent = MetadataResponseBroker(node_id=2, host=host, port=port)
        with serving(ScriptedBroker(metadata=cluster(silent))) as (own, own_port):
            examination = examine({"bootstrap.servers": f"{own}:{own_port}"}, timeout=14.0)

    first, second = (finding for finding in examination.findings if finding.step is Step.ADVERTISED)
    assert (first.status, second.status) == (Status.OK, Status.FAILED)
    assert first.seconds < 2.0 <= second.seconds
