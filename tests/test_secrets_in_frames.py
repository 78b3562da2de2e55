"""No local variable of our frames holds a secret in plain when an error leaves us, whatever the error is."""

from __future__ import annotations

import base64
import itertools
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pyarrow as pa
import pytest
import trustme
from broker_on_a_socket import SECRET as DUCKS
from broker_on_a_socket import SocketBroker
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from frames import found_in_frames, our_frames
from hostile_registry import hostile_registry, says
from long_forms import LONG, share
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from ottla import OttlaError, Producer, check_config
from ottla.doctor import examine
from ottla.errors import ConfigError, PluginNotFoundError
from ottla.tables.sealed import TableSealer
from ottla.transactions import SharedTransaction
from ottla.transactions.admin.connect import ClientAndMetadata, connect
from ottla_serializer_schema_registry.registry.exchange import MAX_ANSWER
from ottla_spark import exactly_once, foreach_batch, write
from ottla_spark.atomic import atomically
from ottla_spark.atomic.partition_assignment import PartitionAssignment
from ottla_spark.atomic.sealed_rows import SEALED_BATCH_BYTES, RowSealing
from ottla_spark.atomic.task import TaskWrite
from ottla_spark.errors import InvalidWriteError
from ottla_spark.exactly_once.kafka import cluster_client
from ottla_spark.exactly_once.status import ledger_status
from ottla_spark.options.options import read_options
from ottla_spark.source import OttlaDataSource
from ottla_testkit.mock_producer import MockProducer
from ottla_testkit.simulation import SimulatedLogin

SECRET: Final = "hunter2SECRET"
PEM: Final = f"-----BEGIN PRIVATE KEY-----\nMIIB{SECRET}xxxx\n-----END PRIVATE KEY-----"
BASE: Final = {"bootstrap.servers": "localhost:1", "security.protocol": "SASL_SSL"}
URL: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT: Final = {
    "sasl.oauthbearer.client.credentials.client.id": "a",
    "sasl.oauthbearer.client.credentials.client.secret": SECRET,
}
SPARK_OPTIONS: Final = {
    "topic": "t",
    "transactional.id.prefix": "p",
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.allow.cleartext.credentials": "true",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "u",
    "kafka.sasl.password": SECRET,
}
FRAME: Final[Any] = SimpleNamespace(isStreaming=False, schema=StructType([StructField("value", StringType())]))
SPARK_CALLS: Final[Sequence[Callable[[Mapping[str, str]], object]]] = (
    lambda options: exactly_once.forget(options),
    lambda options: exactly_once.accept_loss(options, job_id="j"),
    lambda options: exactly_once.accept_other_rows(options),
    lambda options: exactly_once.adopt(options),
    lambda options: ledger_status(options, timeout=0.5),
    lambda options: exactly_once.write_once(None, options, job_id="j"),  # type: ignore[arg-type]
    lambda options: atomically(options, transactional_id="t"),
    lambda options: foreach_batch(options),
    lambda options: write(FRAME, options),
)
ASKING_BROKERS: Final = 6
"""The first of these calls connect to brokers."""


def wrong_settings() -> Iterator[Mapping[str, Any]]:
    """Configurations that are refused, with a secret somewhere."""
    mechanisms = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "NOPE")
    logins: list[dict[str, Any]] = [
        {"sasl.username": "u", "sasl.password": wrong}
        for wrong in (SECRET.encode(), [SECRET], {"a": SECRET}, SECRET + "\0", SECRET + "\ud800")
    ]
    logins += [
        {"sasl.jaas.config": wrong}
        for wrong in (
            f'org.x.PlainLoginModule required username="u" password="{SECRET}"',
            f'org.x.PlainLoginModule required username="u" password="{SECRET}\0";',
            f'org.x.PlainLoginModule required username="u" password={SECRET}!;',
            f'org.x.PlainLoginModule {SECRET} username="u";',
            f'org.x.ScramLoginModule required username="u" password="{SECRET}" tokenauth="true" x=;',
            f'org.x.OAuthBearerLoginModule required clientId="x" clientSecret="{SECRET}" extension_a="{SECRET}\u00e9";',
            f'org.x.Krb5LoginModule required principal="{SECRET}" x;',
            SECRET,
            f"a.{SECRET} required x=y;",
            {"a": SECRET},
        )
    ]
    logins += [
        {URL: f"https://u:{SECRET}@h/", **CLIENT},
        {URL: f"ftp://h/?s={SECRET}", **CLIENT},
        {URL: f"https://h:x{SECRET}/", **CLIENT},
        {URL: f"file://{SECRET}/x"},
        {URL: "https://h/", **CLIENT, "sasl.oauthbearer.client.credentials.client.secret": 5, "x": SECRET},
        {URL: "https://h/", **CLIENT, "sasl.oauthbearer.extensions": f"a={SECRET}\n\u00e9"},
        {"sasl.oauthbearer.token.provider": SECRET},
        {"sasl.oauthbearer.token.provider": lambda: SECRET, "sasl.oauthbearer.extensions": SECRET},
        {"sasl.oauthbearer.token.provider": lambda: SECRET, "sasl.oauthbearer.extensions": {"a": f"{SECRET}\n"}},
        {"sasl.password": SECRET},
        {"sasl.pasword": SECRET},
        {"my.secret.thing": SECRET},
        {"ssl.keystore.key": PEM},
        {"ssl.keystore.key": PEM, "ssl.keystore.certificate.chain": "x"},
        {"ssl.keystore.key": PEM.encode(), "ssl.keystore.certificate.chain": PEM},
        {"ssl.keystore.key": SECRET, "ssl.keystore.certificate.chain": SECRET},
        {"ssl.key.password": SECRET, "ssl.keystore.location": "/etc/passwd"},
        {"ssl.keystore.password": SECRET, "ssl.keystore.location": "/nonexistent"},
        {"ssl.truststore.certificates": PEM},
        {"linger.ms": -1, "sasl.username": "u", "sasl.password": SECRET},
    ]
    for mechanism, login in itertools.product(mechanisms, logins):
        yield {**BASE, "sasl.mechanism": mechanism, **login}


def refused_by(make: Callable[[], object]) -> BaseException | None:
    """The error of making it."""
    try:
        made = make()
    except BaseException as error:
        return error
    if isinstance(made, Producer):
        made.close(timeout=0)
    if isinstance(made, ClientAndMetadata):
        made.client.shutdown()
    return None


def keywords(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace(".", "_"): value for key, value in settings.items()}


WAYS: Final[Mapping[str, Callable[[Mapping[str, Any]], object]]] = {
    "a producer": Producer,
    "a producer of keywords": lambda settings: Producer(**keywords(settings)),
    "a check": check_config,
    "a check of keywords": lambda settings: check_config(**keywords(settings)),
    "a table sealer": lambda settings: TableSealer(settings, {"t": 1}),
    "connections of the command line": connect,
}


@pytest.mark.parametrize("way", share(WAYS, gate=3, why="the gate has each second way"))
def test_no_frame_of_a_refused_configuration_holds_a_secret(way: str) -> None:
    found: set[str] = set()
    refused = frames = 0
    every = 1 if LONG else 7 if way == "a producer" else 17  # each takes some 30 ms
    for settings in itertools.islice(wrong_settings(), 0, None, every):
        error = refused_by(lambda settings=settings: WAYS[way](settings))  # type: ignore[misc]
        if error is not None:
            assert isinstance(error, OttlaError), error
            refused, frames = refused + 1, frames + our_frames(error)
            found |= found_in_frames(error, [SECRET])
            assert SECRET not in str(error)

    assert refused > 150 / every
    assert frames >= refused
    assert found == set()


def test_no_frame_of_a_missing_plugin_holds_the_login_of_another_plugin() -> None:
    url = {"value.serializer": "avro", "schema.registry.url": f"http://u:{SECRET}@h:1"}
    error = refused_by(lambda: Producer({**BASE, **url, "security.protocol": "SSL", "partitioner.class": "none.such"}))

    assert isinstance(error, PluginNotFoundError)
    assert found_in_frames(error, [SECRET]) == set()


def test_settings_that_are_not_a_mapping_are_in_no_frame() -> None:
    error = refused_by(lambda: Producer(f"sasl.password={SECRET}"))  # type: ignore[arg-type]

    assert isinstance(error, ConfigError)
    assert found_in_frames(error, [SECRET]) == set()


def test_the_settings_of_the_caller_are_unchanged() -> None:
    settings = {**BASE, "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": SECRET, "x.y": [SECRET]}
    before = dict(settings)

    refused_by(lambda: Producer(settings))

    assert settings == before
    assert type(settings["sasl.password"]) is str


def test_no_frame_of_a_refused_spark_plan_holds_a_secret() -> None:
    found: set[str] = set()
    refused = 0
    schema = StructType([StructField("value", BinaryType()), StructField("topic", StringType())])
    for settings in itertools.islice(wrong_settings(), 0, None, 5 if LONG else 25):
        options = {f"kafka.{key}": value for key, value in settings.items() if isinstance(value, str)}
        for more in ({}, {"guarantee": "exactly-once", "transactional.id.prefix": "p"}, {"no.such.option": "x"}):
            source = OttlaDataSource({**options, **more})
            for plan in (source.writer, source.streamWriter):
                error = refused_by(lambda plan=plan: plan(schema, False))  # type: ignore[misc]
                if error is not None:
                    assert isinstance(error, OttlaError), error
                    refused += 1
                    found |= found_in_frames(error, [SECRET])

    assert refused > (50 if LONG else 9)
    assert found == set()


@pytest.mark.parametrize(
    "wrong",
    share(
        [{"no.such.option": "x"}, {"kafka.no.such": "x"}, {"kafka.bootstrap.servers": ""}],
        gate=1,
        why="the gate has one wrong option",
    ),
)
@pytest.mark.parametrize("call", SPARK_CALLS)
def test_no_frame_of_a_refused_spark_function_holds_a_secret(
    call: Callable[[Mapping[str, str]], object], wrong: Mapping[str, str]
) -> None:
    error = refused_by(lambda: call({**SPARK_OPTIONS, **wrong}))

    assert isinstance(error, InvalidWriteError)
    assert found_in_frames(error, [SECRET]) == set()


@pytest.mark.parametrize("call", SPARK_CALLS[:ASKING_BROKERS])
def test_no_frame_of_a_spark_function_without_brokers_holds_a_secret(
    call: Callable[[Mapping[str, str]], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_client, "RESPONSE_TIMEOUT", 0.5)
    error = refused_by(lambda: call(SPARK_OPTIONS))

    assert isinstance(error, OttlaError)
    assert found_in_frames(error, [SECRET]) == set()


def test_no_frame_of_a_task_of_a_shared_transaction_holds_a_secret() -> None:
    problems: list[str] = []
    options = read_options({key: SPARK_OPTIONS[key] for key in SPARK_OPTIONS if "prefix" not in key}, problems=problems)
    shared = SharedTransaction(transactional_id="t", producer_id=1, epoch=0, level=2)
    task = TaskWrite(shared=shared, assignment=PartitionAssignment.of({"t": 1}, tasks=1), options=options)
    rows = pa.RecordBatch.from_pydict({"slot": pa.array([1], pa.int32())})
    error = refused_by(lambda: task.write(iter([rows]), owner=1, attempt=0))
    packing = RowSealing(
        settings=frozenset({**options.producer, "record.encoder": "not installed here"}.items()),
        assignment=PartitionAssignment.of({"t": 1}, tasks=1),
        options=options,
        columns={"value": 0},
        max_bytes=SEALED_BATCH_BYTES,
    )
    not_packed = refused_by(lambda: next(packing.seal(iter([rows]), task="the task")))

    assert problems == []
    assert isinstance(error, OttlaError)
    assert isinstance(not_packed, OttlaError)
    assert found_in_frames(error, [SECRET]) | found_in_frames(not_packed, [SECRET]) == set()


# Keys


@pytest.fixture(scope="module")
def certificate() -> trustme.LeafCert:
    return trustme.CA().issue_cert("client.example.com")


def key_failures(certificate: trustme.LeafCert, folder: Path) -> Iterator[Mapping[str, Any]]:
    """Keys and key stores that cannot be used, by reasons that are found after they were read."""
    chain = b"".join(pem.bytes() for pem in certificate.cert_chain_pems)
    key = certificate.private_key_pem.bytes()
    locked = load_pem_private_key(key, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"right")
    )
    another = trustme.CA().issue_cert("x.example.com").private_key_pem.bytes()
    base = {"bootstrap.servers": "localhost:1", "security.protocol": "SSL"}
    for name, content in {
        "locked": chain + locked,
        "two keys": chain + key + another,
        "no certificate": key,
        "another's": chain + another,
        "damaged": chain + key.replace(b"\n", b"!\n", 2),
        "cut": chain + key[:200] + b"\n-----END PRIVATE KEY-----\n",
        "no store": b"x" + key[30:],
    }.items():
        file = folder / name
        file.write_bytes(content)
        yield {**base, "ssl.keystore.location": str(file), "ssl.key.password": SECRET}
        yield {**base, "ssl.keystore.location": str(file), "ssl.keystore.type": "PKCS12", "ssl.key.password": SECRET}
        inline = {"ssl.keystore.key": content.decode(), "ssl.keystore.certificate.chain": chain.decode()}
        yield {**base, **inline, "ssl.key.password": SECRET}
    (folder / "p12").write_bytes(b"\x30\x82garbage")
    yield {**base, "ssl.keystore.location": str(folder / "p12"), "ssl.keystore.password": SECRET}
    yield {**base, "ssl.keystore.location": str(folder / "p12"), "ssl.keystore.password": lambda: SECRET}
    yield {**base, "ssl.keystore.location": str(folder / "locked"), "ssl.key.password": lambda: [SECRET]}


def test_no_frame_of_an_unusable_key_holds_it(certificate: trustme.LeafCert, tmp_path: Path) -> None:
    lines = [line for line in certificate.private_key_pem.bytes().decode().splitlines()[1:-1] if len(line) > 40]
    found: set[str] = set()
    refused = 0
    for settings in key_failures(certificate, tmp_path):
        error = refused_by(lambda settings=settings: Producer(settings))  # type: ignore[misc]
        if error is not None:
            refused += 1
            found |= found_in_frames(error, [SECRET, *lines[:3]])

    assert refused >= 15
    assert found == set()


# Logins


@pytest.mark.parametrize("given", [DUCKS, lambda: DUCKS])
def test_no_frame_of_a_refused_login_holds_the_password(given: object) -> None:
    broker = SocketBroker.secured(SimulatedLogin(users={"ann": "another"}, mechanisms=["PLAIN"]))
    with broker.serving() as servers:
        settings: Mapping[str, Any] = {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ann",
            "sasl.password": given,
            "sasl.allow.cleartext.credentials": "true",
            "enable.idempotence": "false",
        }
        with Producer(settings) as producer, pytest.raises(OttlaError) as caught:
            producer.send("t", b"x").result(20)
        examination = examine(dict(settings), timeout=20.0)

    assert our_frames(caught.value) > 0
    assert found_in_frames(caught.value, [DUCKS]) == set()
    assert DUCKS not in repr(examination)


def test_no_frame_of_a_failing_function_holds_its_message() -> None:
    broker = SocketBroker.secured(SimulatedLogin(users={"ann": DUCKS}, mechanisms=["PLAIN"]))

    def password() -> str:
        raise RuntimeError(DUCKS)

    with broker.serving() as servers:
        settings: Mapping[str, Any] = {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ann",
            "sasl.password": password,
            "sasl.allow.cleartext.credentials": "true",
            "enable.idempotence": "false",
        }
        with Producer(settings) as producer, pytest.raises(OttlaError) as caught:
            producer.send("t", b"x").result(20)

    assert "RuntimeError" in str(caught.value)
    assert found_in_frames(caught.value, [DUCKS]) == set()


# Schema registries


REGISTRY: Final = {"value.serializer": "avro", "value.schema": '"long"', "max.block.ms": 3000}
REGISTRY_LOGINS: Final = ({"basic.auth.user.info": f"u:{SECRET}"}, {"bearer.auth.token": SECRET})


def sent_back(handler: Any) -> str:
    """The login as a registry got it, and as it reads it."""
    header = str(handler.headers["Authorization"])
    scheme, _, credentials = header.partition(" ")
    return f"{header} {base64.b64decode(credentials).decode() if scheme == 'Basic' else ''}"


REGISTRY_ANSWERS: Final[Mapping[str, Callable[[Any], None]]] = {
    "a refusal": lambda handler: says({"error_code": 401, "message": sent_back(handler)}, status=401)(handler),
    "no JSON": lambda handler: says(sent_back(handler).encode())(handler),
    "an id": lambda handler: says({"id": sent_back(handler)})(handler),
    "too much": lambda handler: says(sent_back(handler).encode() + b" " * MAX_ANSWER)(handler),
    "no HTTP": lambda handler: handler.wfile.write(sent_back(handler).encode() + b"\r\n\r\n"),
}


def error_with_registry(address: str, more: Mapping[str, str]) -> BaseException:
    """The error of a record whose schema this registry does not give."""
    settings = {"bootstrap.servers": "localhost:1", "schema.registry.url": address, **REGISTRY, **more}
    with MockProducer(settings) as producer, pytest.raises(OttlaError) as caught:
        producer.send("t", 1)
    return caught.value


@pytest.mark.parametrize("login", REGISTRY_LOGINS, ids=["password", "token"])
@pytest.mark.parametrize("answer", REGISTRY_ANSWERS)
def test_no_frame_of_a_failed_lookup_of_a_schema_holds_the_login(answer: str, login: Mapping[str, str]) -> None:
    with hostile_registry() as registry:
        registry.last = REGISTRY_ANSWERS[answer]
        error = error_with_registry(registry.address, login)

    assert registry.requests != []
    assert our_frames(error) > 0
    assert found_in_frames(error, [SECRET, f"u:{SECRET}"]) == set()


@pytest.mark.parametrize("login", REGISTRY_LOGINS, ids=["password", "token"])
def test_no_frame_of_an_untrusted_registry_holds_the_login(
    certificate: trustme.LeafCert, login: Mapping[str, str]
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    with hostile_registry(tls=context) as registry:
        error = error_with_registry(registry.address, login)

    assert "cannot be verified" in str(error)
    assert our_frames(error) > 0
    assert found_in_frames(error, [SECRET, f"u:{SECRET}"]) == set()


@pytest.mark.parametrize("login", REGISTRY_LOGINS, ids=["password", "token"])
def test_no_frame_of_refused_files_of_a_registry_holds_the_login(tmp_path: Path, login: Mapping[str, str]) -> None:
    (tmp_path / "empty.pem").write_bytes(b"")
    settings = {
        "bootstrap.servers": "localhost:1",
        "schema.registry.url": "https://localhost:1",
        "schema.registry.ssl.ca.location": str(tmp_path / "empty.pem"),
        **REGISTRY,
        **login,
    }
    error = refused_by(lambda: Producer(settings))

    assert isinstance(error, ConfigError)
    assert found_in_frames(error, [SECRET, f"u:{SECRET}"]) == set()
