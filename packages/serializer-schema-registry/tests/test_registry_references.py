"""Schemas that refer to others, schema ids in headers, and the files of TLS."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from google.protobuf.type_pb2 import Field
from hostile_registry import Hostile, hostile_server, says

from ottla import ConfigError
from ottla.errors import SerializationError
from ottla.interfaces import Secret
from ottla_serializer_schema_registry import InvalidSchemaError, SchemaNotFoundError, keys, trust_choice
from ottla_serializer_schema_registry.avro.schema import parsed_schema
from ottla_serializer_schema_registry.avro.serializer import avro_serializer
from ottla_serializer_schema_registry.protobuf.serializer import protobuf_serializer
from ottla_serializer_schema_registry.registry.client import SchemaRegistry
from ottla_serializer_schema_registry.registry.exchange import Deadline
from ottla_serializer_schema_registry.registry.exchanges import Exchanges
from ottla_serializer_schema_registry.registry.references import (
    MOST_SCHEMAS,
    LocalSchema,
    NamedText,
    fetch_references,
    registrable,
)
from ottla_serializer_schema_registry.registry.schemas import AVRO, Reference, Schema
from ottla_serializer_schema_registry.schema_ids import IdPlace
from ottla_serializer_schema_registry.serializer import SchemaOptions
from ottla_testkit.mock_producer import MockProducer

hostile = hostile_server

GUID = "00112233-4455-6677-8899-aabbccddeeff"
IN_HEADER = SchemaOptions(id_place=IdPlace.HEADER)


@pytest.fixture
def registry(hostile: Hostile) -> SchemaRegistry:
    return SchemaRegistry(Exchanges([hostile.address]))


def versions(needed: Callable[[str, int], Sequence[tuple[str, int]]]) -> Callable[[Any], None]:
    """Answers for any version of any subject, which needs those that the function says."""

    def answer(handler: Any) -> None:
        _, _, subject, *rest = handler.path.split("/")
        version = int(rest[1]) if len(rest) > 1 and rest[1].isdigit() else 1
        references = [{"name": name, "subject": name, "version": of} for name, of in needed(subject, version)]
        body = {"subject": subject, "id": 7, "version": version, "schema": f'"{subject}"', "references": references}
        says(body)(handler)

    return answer


def fetched(registry: SchemaRegistry, *needed: tuple[str, int]) -> list[str]:
    references = tuple(Reference(name=name, subject=name, version=version) for name, version in needed)
    top = Schema(kind=AVRO, text='"top"', references=references)
    return [each.name for each in fetch_references(registry, top, Deadline(30))]


def test_schemas_are_fetched_once_and_after_those_they_need(hostile: Hostile, registry: SchemaRegistry) -> None:
    below: Mapping[str, Sequence[tuple[str, int]]] = {"a": [("c", 1)], "b": [("c", 1), ("a", 1)]}
    hostile.last = versions(lambda subject, _version: below.get(subject, ()))
    assert fetched(registry, ("b", 1), ("a", 1)) == ["c", "a", "b"]
    assert len(hostile.requests) == 3


def test_schemas_that_need_each_other_in_a_circle_are_refused(hostile: Hostile, registry: SchemaRegistry) -> None:
    hostile.last = versions(lambda subject, _version: [("b", 1)] if subject == "a" else [("a", 1)])
    with pytest.raises(InvalidSchemaError, match="'a' refers to itself, through 2 others"):
        fetched(registry, ("a", 1))


def test_schemas_that_name_new_ones_for_ever_are_refused(hostile: Hostile, registry: SchemaRegistry) -> None:
    hostile.last = versions(lambda subject, version: [(subject, version + 1)])
    with pytest.raises(InvalidSchemaError, match=f"more than {MOST_SCHEMAS} others"):
        fetched(registry, ("a", 1))
    assert len(hostile.requests) == MOST_SCHEMAS


def test_one_schema_may_have_two_names() -> None:
    text = '{"type": "enum", "name": "E", "namespace": "shop", "symbols": ["A"]}'
    references = [NamedText(name=name, text=text) for name in ("E", "shop.E")]
    assert parsed_schema('{"type": "array", "items": "shop.E"}', references).encode(["A"]) == b"\2\0\0"


def test_a_union_of_other_schemas_takes_data_of_each() -> None:
    texts = [
        f'{{"type": "record", "name": "{name}", "namespace": "shop", "fields": [{{"name": "{field}", "type": "int"}}]}}'
        for name, field in (("Order", "id"), ("Refund", "of"))
    ]
    schema = parsed_schema('["shop.Order", "shop.Refund"]', [NamedText(name=text[:40], text=text) for text in texts])
    assert [schema.encode({"id": 1}), schema.encode({"of": 2})] == [b"\0\2", b"\2\4"]
    with pytest.raises(ValueError, match="does not fit its Avro schema"):
        schema.encode({"id": "x"})


def test_a_schema_that_two_others_import_is_registered_once(hostile: Hostile, registry: SchemaRegistry) -> None:
    hostile.last = versions(lambda _subject, _version: ())

    def local(name: str, *imports: LocalSchema) -> LocalSchema:
        return LocalSchema(schema=Schema(kind=AVRO, text=f'"{name}"'), name=name, imports=imports)

    both = local("z")
    made = registrable(registry, local("top", local("x", both), local("y", both)), register=True, deadline=Deadline(30))
    assert [each.name for each in made.references] == ["x", "y"]
    asked = [line for line, _headers, _body in hostile.requests]
    assert asked == [f"POST /subjects/{name}{end}" for name in "zxy" for end in ("/versions", "")]


def test_a_node_that_does_not_know_a_new_import_yet_is_asked_again(hostile: Hostile, registry: SchemaRegistry) -> None:
    hostile.answers = [says({"id": 7}), says({"error_code": 40403, "message": "Schema not found"}, status=404)]
    hostile.last = versions(lambda _subject, _version: ())
    z = LocalSchema(schema=Schema(kind=AVRO, text='"z"'), name="z")
    top = LocalSchema(schema=Schema(kind=AVRO, text='"top"'), name="top", imports=(z,))

    made = registrable(registry, top, register=True, deadline=Deadline(30))
    assert [each.name for each in made.references] == ["z"]
    assert len(hostile.requests) == 3


def test_a_node_that_does_not_know_a_new_schema_yet_is_asked_again(hostile: Hostile, registry: SchemaRegistry) -> None:
    hostile.answers = [says({"id": 7}), says({"error_code": 40403, "message": "Schema not found"}, status=404)]
    hostile.last = says({"id": 7, "guid": GUID, "subject": "orders-value", "version": 1})
    made = avro_serializer(registry, '"long"', options=IN_HEADER)
    made.prepare("orders", 1, (), timeout=30)
    assert made.serialize("orders", 1, []) == b"\2"


def test_a_header_of_a_former_schema_is_replaced(hostile: Hostile, registry: SchemaRegistry) -> None:
    hostile.last = says({"id": 7, "guid": GUID})
    made = avro_serializer(registry, '"long"', options=IN_HEADER)
    made.prepare("orders", 1, (), timeout=30)
    headers = [("__value_schema_id", b"former"), ("trace", b"1")]
    assert made.serialize("orders", 1, headers) == b"\2"
    assert headers == [("trace", b"1"), ("__value_schema_id", bytes.fromhex("01" + GUID.replace("-", "")))]


def test_a_new_schema_that_stays_unknown_has_the_error_of_the_registry(hostile: Hostile) -> None:
    refuses = says({"error_code": 40403, "message": "Schema not found"}, status=404)
    hostile.answers, hostile.last = [says({"id": 7}), says({}, status=503)], refuses
    registry = SchemaRegistry(Exchanges([hostile.address], sleep=lambda _seconds: None))
    made = avro_serializer(registry, '"long"', options=IN_HEADER)
    with pytest.raises(SchemaNotFoundError, match="Schema not found"):
        made.prepare("orders", 1, (), timeout=30)


def test_a_sent_record_has_the_guid_of_its_schema_in_a_header(hostile: Hostile) -> None:
    hostile.last = says({"id": 7, "guid": GUID})
    settings = {
        "bootstrap.servers": "127.0.0.1:9",
        "value.serializer": "avro",
        "value.schema": '"long"',
        "value.schema.id.serializer": "header",
        "schema.registry.url": hostile.address,
    }
    with MockProducer(settings) as producer:
        producer.send("orders", 1, headers=[("trace", b"1")])
    [record] = producer.history
    guid = bytes.fromhex("01" + GUID.replace("-", ""))
    assert (record.value, list(record.headers)) == (b"\2", [("trace", b"1"), ("__value_schema_id", guid)])


def test_a_pickled_serializer_sets_the_header_of_the_schema(hostile: Hostile, registry: SchemaRegistry) -> None:
    hostile.last = says({"id": 7, "guid": GUID})
    made = avro_serializer(registry, '"long"', options=IN_HEADER)
    made.prepare("orders", 1, (), timeout=30)
    again = pickle.loads(pickle.dumps(made))
    guid = bytes.fromhex("01" + GUID.replace("-", ""))
    with MockProducer({"bootstrap.servers": "127.0.0.1:9", "value.serializer": again}) as producer:
        producer.send("orders", 1, headers=[("__value_schema_id", b"former"), ("trace", b"1")])
        producer.send("orders", None)
    first, second = producer.history
    assert (first.value, list(first.headers)) == (b"\2", [("trace", b"1"), ("__value_schema_id", guid)])
    assert (second.value, list(second.headers)) == (None, [])


def test_a_header_has_the_place_of_a_protobuf_message(hostile: Hostile, registry: SchemaRegistry) -> None:
    hostile.last = says({"id": 7, "guid": GUID})
    made = protobuf_serializer(registry, Field, options=IN_HEADER)
    made.prepare("orders", {}, (), timeout=30)
    headers: list[tuple[str, bytes]] = []
    assert made.serialize("orders", {}, headers) == b""
    assert headers == [("__value_schema_id", bytes.fromhex("01" + GUID.replace("-", "")) + b"\2\2")]


def test_rows_of_a_table_have_the_guid_in_a_header(hostile: Hostile, registry: SchemaRegistry) -> None:
    hostile.last = says({"id": 7, "guid": GUID})
    made = avro_serializer(registry, options=attrs.evolve(IN_HEADER, part="key"))
    column = pa.array([1, None], pa.int64())
    made.prepare("orders", column, (), timeout=30)
    for serializer in (made, pickle.loads(pickle.dumps(made))):
        [(name, value)] = serializer.column_headers("orders", column[:0])
        assert (name, value) == ("__key_schema_id", bytes.fromhex("01" + GUID.replace("-", "")))
        assert serializer.serialize_column("orders", column).to_pylist() == [b"\2", None]


def test_columns_of_two_types_keep_their_schemas_in_another_process(hostile: Hostile, registry: SchemaRegistry) -> None:
    made = avro_serializer(registry)
    columns = [pa.array([1], pa.int64()), pa.array(["1"])]
    for number, column in enumerate(columns):
        hostile.last = says({"id": number})
        made.prepare("orders", column, (), timeout=30)
    again = pickle.loads(pickle.dumps(made))

    found = [
        [serializer.serialize_column("orders", column)[0].as_py() for column in columns] for serializer in (made, again)
    ]

    assert found == [[b"\0\0\0\0\0\2", b"\0\0\0\0\1\x021"]] * 2
    with pytest.raises(SerializationError, match="no schema was looked up for topic 'orders' and columns of type bool"):
        again.serialize_column("orders", pa.array([True]))


def test_the_setting_normalize_reaches_the_registry(hostile: Hostile) -> None:
    hostile.last = says({}, status=409)
    settings = {
        "bootstrap.servers": "127.0.0.1:9",
        "value.serializer": "avro",
        "value.schema": '"long"',
        "schema.registry.url": hostile.address,
        "normalize.schemas": True,
    }
    with MockProducer(settings) as producer, pytest.raises(SerializationError):
        producer.send("orders", 1)
    assert [line for line, _headers, _body in hostile.requests] == [
        "POST /subjects/orders-value/versions?normalize=true"
    ]


def files(**given: Any) -> dict[str, Any]:
    """The settings of a registry with TLS."""
    settings = dict.fromkeys((keys.CA, keys.CERTIFICATE, keys.PRIVATE_KEY, keys.PRIVATE_KEY_PASSWORD))
    return {**settings, keys.URL: ("https://registry",), **given}


def test_only_the_authorities_of_the_setting_are_trusted(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(file))
    context = trust_choice.tls_context(files(**{keys.CA: str(file)}))
    assert context.cert_store_stats()["x509_ca"] == 1
    assert context.check_hostname


def test_an_encrypted_key_without_its_password_is_an_error(tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("client")
    certificate, key = tmp_path / "client.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    plain = load_pem_private_key(issued.private_key_pem.bytes(), None)
    key.write_bytes(plain.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    given = files(**{keys.CERTIFICATE: str(certificate), keys.PRIVATE_KEY: str(key)})
    with pytest.raises(ConfigError, match=r"ssl\.key\.password cannot be used .*: (?!None)"):
        trust_choice.tls_context(given)
    assert trust_choice.tls_context({**given, keys.PRIVATE_KEY_PASSWORD: Secret("secret")}) is not None
