"""Avro as a producer's serializer: schemas, subjects, settings, and data without an Avro form."""

from __future__ import annotations

import json
import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hostile_registry import Hostile, hostile_server, says

from ottla import ConfigError, Producer
from ottla.errors import NotPreparedError, SerializationError
from ottla.interfaces import Secret
from ottla_serializer_schema_registry import IncompatibleSchemaError, InvalidSchemaError, RegistryUnavailableError
from ottla_serializer_schema_registry.avro.schema import parsed_schema
from ottla_serializer_schema_registry.avro.serializer import avro_serializer
from ottla_serializer_schema_registry.prepared import PreparedSchema
from ottla_serializer_schema_registry.registry.authorization import Authorization
from ottla_serializer_schema_registry.registry.client import SchemaRegistry
from ottla_serializer_schema_registry.registry.exchanges import Exchanges
from ottla_serializer_schema_registry.serializer import REFUSAL_STAYS, Lookup, RegistrySerializer, SchemaOptions, _Ready
from ottla_serializer_schema_registry.subjects import SubjectStrategy
from ottla_testkit.mock_producer import MockProducer

hostile = hostile_server

SCHEMA = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "int"}]}
TEXT = json.dumps(SCHEMA)

UNCHECKED = [
    *(f'{{"type": "fixed", "name": "F", "size": {size}}}' for size in ("-1", '"x"', "true", "1e3", str(2**31))),
    '{"type": "enum", "name": "E", "symbols": "AB"}',
]
"""Schemas that fastavro takes, and cannot use."""


def serialized(serializer: RegistrySerializer, topic: str, data: Any) -> bytes | None:
    """The bytes, after the lookup that a producer would make."""
    try:
        return serializer.serialize(topic, data, ())
    except NotPreparedError:
        serializer.prepare(topic, data, (), timeout=30)
        return serializer.serialize(topic, data, ())


def serializer(hostile: Hostile, **arguments: Any) -> RegistrySerializer:
    return avro_serializer(SchemaRegistry(Exchanges([hostile.address])), TEXT, options=SchemaOptions(**arguments))


def lines(hostile: Hostile) -> list[str]:
    return [line for line, _headers, _body in hostile.requests]


def settings(hostile: Hostile, **others: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": "127.0.0.1:9",
        "value.serializer": "avro",
        "value.schema": TEXT,
        "schema.registry.url": hostile.address,
        **others,
    }


def problem(hostile: Hostile, **others: Any) -> str:
    with pytest.raises(ConfigError) as caught, Producer(settings(hostile, **others)):
        pass
    return str(caught.value)


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("topic", "orders-value"), ("record", "shop.Order"), ("topic-record", "orders-shop.Order")],
)
def test_a_strategy_names_the_subject(hostile: Hostile, strategy: str, subject: str) -> None:
    made = serializer(hostile, strategy=SubjectStrategy(strategy))
    assert serialized(made, "orders", {"id": -1}) == b"\0\0\0\0\7\1"
    assert lines(hostile) == [f"POST /subjects/{subject}/versions"]


@pytest.mark.parametrize("strategy", [SubjectStrategy.RECORD, SubjectStrategy.TOPIC_RECORD])
@pytest.mark.parametrize(("text", "lookup"), [('"long"', Lookup.REGISTER), (None, Lookup.NEWEST)])
def test_subjects_of_records_need_a_schema_with_a_name(
    hostile: Hostile, strategy: SubjectStrategy, text: str | None, lookup: Lookup
) -> None:
    registry = SchemaRegistry(Exchanges([hostile.address]))
    with pytest.raises(InvalidSchemaError, match=f"strategy {strategy} need a schema that has a name"):
        avro_serializer(registry, text, options=SchemaOptions(strategy=strategy, lookup=lookup))


def test_a_column_without_a_name_has_no_subject_of_records(hostile: Hostile) -> None:
    registry = SchemaRegistry(Exchanges([hostile.address]))
    made = avro_serializer(registry, options=SchemaOptions(strategy=SubjectStrategy.RECORD))
    with pytest.raises(InvalidSchemaError, match="need a schema that has a name"):
        made.prepare("orders", pa.array([1]), (), timeout=30)
    assert hostile.requests == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")  # since Python 3.12
def test_a_child_forked_during_a_lookup_looks_up_itself(hostile: Hostile) -> None:
    made, asked, ended = serializer(hostile), threading.Event(), threading.Event()

    def waits(handler: Any) -> None:
        asked.set()
        ended.wait(60)
        says({"id": 7})(handler)

    hostile.answers = [waits]
    with ThreadPoolExecutor() as pool:
        parents = pool.submit(serialized, made, "orders", {"id": 0})
        try:
            assert asked.wait(60)
            child = os.fork()
            if not child:
                with suppress(BaseException):
                    os._exit(0 if serialized(made, "orders", {"id": 0}) == b"\0\0\0\0\7\0" else 1)
                os._exit(2)
            status = os.waitpid(child, 0)[1]
        finally:
            ended.set()

        assert os.waitstatus_to_exitcode(status) == 0
        assert parents.result() == b"\0\0\0\0\7\0"


def test_a_subject_is_looked_up_once(hostile: Hostile) -> None:
    made = serializer(hostile, strategy=SubjectStrategy.RECORD)
    for topic in ("a", "b", "a"):
        serialized(made, topic, {"id": 1})
    assert len(hostile.requests) == 1


def test_without_registration_the_schema_must_exist(hostile: Hostile) -> None:
    hostile.last = says({"subject": "orders-value", "id": 9, "version": 1})
    made = serializer(hostile, lookup=Lookup.LOOK_UP)
    assert serialized(made, "orders", {"id": 0}) == b"\0\0\0\0\x09\0"
    assert lines(hostile) == ["POST /subjects/orders-value"]


def test_the_newest_version_may_differ_from_the_given(hostile: Hostile) -> None:
    newer = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "n", "type": "int", "default": 1}]}
    hostile.last = says({"subject": "orders-value", "id": 9, "version": 2, "schema": json.dumps(newer)})
    made = serializer(hostile, lookup=Lookup.NEWEST)
    assert serialized(made, "orders", {"id": 0}) == b"\0\0\0\0\x09\0\2"


def test_a_schema_that_cannot_be_had_fails_its_record_alone(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    made = serializer(hostile)
    hostile.answers = [says({"error_code": 409, "message": "no"}, status=409)]
    with pytest.raises(IncompatibleSchemaError, match="'no'"):
        serialized(made, "orders", {"id": 0})
    monkeypatch.setattr(made, "_clock", lambda: time.monotonic() + REFUSAL_STAYS)
    assert serialized(made, "orders", {"id": 0}) == b"\0\0\0\0\7\0"


def test_records_that_are_refused_ask_the_registry_once_a_second(hostile: Hostile) -> None:
    made = serializer(hostile)
    hostile.last = says({"error_code": 409, "message": "no"}, status=409)
    for _ in range(5):
        with pytest.raises(IncompatibleSchemaError, match="'no'"):
            serialized(made, "orders", {"id": 0})
    assert len(hostile.requests) == 1


def test_send_raises_the_refusal_of_the_registry(hostile: Hostile) -> None:
    hostile.last = says({"error_code": 409, "message": "id is missing"}, status=409)
    with (
        MockProducer(settings(hostile)) as producer,
        pytest.raises(SerializationError, match=r"lookup failed: .*'id is missing'") as caught,
    ):
        producer.send("orders", {"id": 1})
    assert isinstance(caught.value.__cause__, IncompatibleSchemaError)


def test_a_lookup_waits_for_the_registry_at_most_its_timeout(hostile: Hostile) -> None:
    hostile.last = says({}, status=503)
    with pytest.raises(RegistryUnavailableError):
        serializer(hostile).prepare("orders", {"id": 1}, (), timeout=0.3)


@pytest.mark.parametrize(
    "text", ["", "{", "{}", '"nothing"', "[" * 100_000, '{"type": "record"}', "7", "[1]", *UNCHECKED]
)
def test_a_schema_that_is_not_avro_has_one_error(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        parsed_schema(text)


@pytest.mark.parametrize("data", [{"id": 2**31}, {"id": "7"}, {"id": None}, {}, 7])
def test_data_that_does_not_fit_is_refused_before_it_is_sent(hostile: Hostile, data: Any) -> None:
    made = serializer(hostile)
    with pytest.raises(ValueError, match="does not fit its Avro schema"):
        serialized(made, "orders", data)


def test_settings_that_lack_something_are_refused(hostile: Hostile) -> None:
    assert "needs the address of a schema registry" in problem(hostile, **{"schema.registry.url": None})
    assert "cannot both be true" in problem(hostile, **{"auto.register.schemas": True, "use.latest.version": True})
    assert "needs a value.schema that has a name" in problem(
        hostile, **{"value.schema": '"long"', "subject.name.strategy": "record"}
    )
    assert "it is no Avro schema" in problem(hostile, **{"value.schema": "{}"})


def test_a_password_in_the_address_is_refused_unseen(hostile: Hostile) -> None:
    text = problem(hostile, **{"schema.registry.url": "http://me:hunter2@registry:8081"})
    assert "basic.auth.user.info" in text
    assert "hunter2" not in text


def test_a_private_key_needs_its_certificate(hostile: Hostile) -> None:
    for key in ("schema.registry.ssl.key.location", "schema.registry.ssl.key.password"):
        text = problem(hostile, **{key: "hunter2"})
        assert f"{key} belongs to a schema.registry.ssl.certificate.location" in text
        assert "hunter2" not in text


@pytest.mark.parametrize("host", ["a..b", ".example", "a" * 64, "a\x7fb", "ä"])
def test_a_host_name_that_cannot_be_looked_up_is_refused(hostile: Hostile, host: str) -> None:
    assert "schema.registry.url: an address has" in problem(hostile, **{"schema.registry.url": f"http://{host}:8081"})


def test_the_wait_for_another_thread_is_part_of_the_time(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    made = serializer(hostile)
    remaining: list[float] = []

    def ready(*arguments: Any) -> Any:
        remaining.append(arguments[-1].remaining())
        raise RegistryUnavailableError("down")

    class HeldByAnother:
        def acquire(self, *, timeout: float) -> bool:
            time.sleep(0.2)
            return True

        def release(self) -> None:
            """It is this thread's for the lookup."""

    monkeypatch.setattr(made, "_ready", ready)
    monkeypatch.setitem(made._locks, (os.getpid(), ("orders-value", None)), HeldByAnother())
    with pytest.raises(RegistryUnavailableError, match="down"):
        made.prepare("orders", None, (), timeout=30)
    assert remaining[0] <= 29.8


def test_a_time_without_end_is_one_that_sockets_take(hostile: Hostile) -> None:
    made = serializer(hostile)
    made.prepare("orders", None, (), timeout=float(2**63))
    assert made.serialize("orders", {"id": 0}, ()) == b"\0\0\0\0\7\0"


def test_a_schema_may_be_a_file_or_python_data(hostile: Hostile, tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(TEXT, encoding="utf-8")
    hostile.last = says({}, status=409)
    for given in (str(file), SCHEMA, TEXT):
        with MockProducer(settings(hostile, **{"value.schema": given})) as producer, pytest.raises(SerializationError):
            producer.send("orders", {"id": 1})
    assert {json.loads(body)["schema"] for _line, _headers, body in hostile.requests} == {TEXT}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pipe", "no file of that name can be read: it is not a regular file"),
        ("/dev/zero", "no file of that name can be read: it is not a regular file"),
        ("large", "no file of that name can be read: it is larger than 4 MB"),
        ("none", "no file of that name can be read: No such file or directory"),
        ("latin", "the file of that name is not UTF-8"),
    ],
)
def test_a_file_that_is_no_schema_is_refused_at_once(hostile: Hostile, tmp_path: Path, name: str, said: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "latin").write_bytes(b"\xff")
    with open(tmp_path / "large", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConfigError, match=f"value.schema: it is no JSON, and {said}"):
        Producer(settings(hostile, **{"value.schema": str(tmp_path / name)}))


def test_credentials_are_sent_as_the_settings_say(hostile: Hostile) -> None:
    hostile.last = says({}, status=401)
    for credentials in ({"basic.auth.user.info": "me:pass"}, {"bearer.auth.token": "t0ken"}):
        with MockProducer(settings(hostile, **credentials)) as producer, pytest.raises(SerializationError):
            producer.send("orders", {"id": 1})
    assert [headers["Authorization"] for _line, headers, _body in hostile.requests] == [
        "Basic bWU6cGFzcw==",
        "Bearer t0ken",
    ]


def test_a_serializer_is_pickled_while_another_thread_prepares_a_topic(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = avro_serializer(SchemaRegistry(Exchanges([hostile.address])), TEXT)
    made.prepare("orders", None, (), timeout=30)
    prepared = _Ready.prepared

    def meanwhile(ready: _Ready) -> PreparedSchema:
        made.prepare("others", None, (), timeout=30)
        return prepared(ready)

    monkeypatch.setattr(_Ready, "prepared", meanwhile)
    again = pickle.loads(pickle.dumps(made))

    assert again.serialize("orders", {"id": 0}, ()) == b"\0\0\0\0\7\0"


def test_a_pickled_serializer_has_its_schemas_and_no_secret(hostile: Hostile) -> None:
    exchanges = Exchanges([hostile.address], authorization=Authorization.bearer(Secret("hunter2")))
    made = avro_serializer(SchemaRegistry(exchanges), TEXT)
    made.prepare("orders", None, (), timeout=30)
    pickled = pickle.dumps(made)
    assert b"hunter2" not in pickled
    again = pickle.loads(pickle.dumps(pickle.loads(pickled)))
    assert again.serialize("orders", {"id": 0}, ()) == b"\0\0\0\0\7\0"
    assert again.serialize_column("orders", pa.array([{"id": 0}])).to_pylist() == [b"\0\0\0\0\7\0"]
    with pytest.raises(SerializationError, match="no schema was looked up for topic 'others'"):
        again.serialize("others", {"id": 0}, ())
    assert len(hostile.requests) == 1
