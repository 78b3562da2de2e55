"""Java's Protobuf library reads what is written here, by the files' descriptors that were registered."""

from __future__ import annotations

import base64
import datetime
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_forms import LONG
from own_registry import own_registry
from protobuf_messages import KEYS, SCALARS, class_of_every_type, message_classes
from schemas_by_id import schema_by_id

from ottla_serializer_schema_registry.protobuf.serializer import protobuf_serializer
from ottla_serializer_schema_registry.registry.client import SchemaRegistry
from ottla_serializer_schema_registry.registry.exchange import Deadline
from ottla_serializer_schema_registry.registry.exchanges import Exchanges
from ottla_serializer_schema_registry.registry.references import fetch_references
from ottla_serializer_schema_registry.registry.schemas import PROTOBUF
from ottla_serializer_schema_registry.serializer import RegistrySerializer
from ottla_testkit.java.download import Artifact
from ottla_testkit.java.jars import fetched_jars
from ottla_testkit.java.runtime import java_command

VERSION: Final = "4.36.2"
ARTIFACT: Final = Artifact(group="com.google.protobuf", name="protobuf-java", version=VERSION, alone=True)
DIGESTS: Final = {
    f"protobuf-java-{VERSION}.jar": (
        "884b623537e8c05dea7bab426e786d7026476977cdad407d5686e10150f2bc11"
        "6b8014b5099c1fec5212082b339b18d530e50788ff77f534bafab30000760694"
    )
}

INTEGERS: Final = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
}
VALUES: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    **INTEGERS,
    "fixed64": INTEGERS["uint64"],
    "fixed32": INTEGERS["uint32"],
    "sfixed64": INTEGERS["int64"],
    "sint64": INTEGERS["int64"],
    "sfixed32": INTEGERS["int32"],
    "sint32": INTEGERS["int32"],
    "double": st.floats(allow_nan=False),
    "float": st.floats(width=32, allow_nan=False),
    "bool": st.booleans(),
    "string": st.text(),
    "bytes": st.binary(),
}
FIELDS: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    **{name: VALUES[name] for name in SCALARS},
    **{f"many_{name}": st.lists(VALUES[name], max_size=3) for name in SCALARS},
    **{f"maybe_{name}": VALUES[name] for name in SCALARS},
    **{
        f"by_{key}": st.dictionaries(VALUES[key], VALUES[name], max_size=3)
        for key, name in zip(KEYS, SCALARS, strict=False)
    },
    "color": st.sampled_from(["RED", "GREEN", "BLUE"]),
    "many_color": st.lists(st.sampled_from([0, 1000, 2000]), max_size=3),
    "at": st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31), timezones=st.just(datetime.UTC)),
}
ALONE: Final = st.lists(st.sampled_from(sorted(FIELDS)), unique=True, max_size=8).flatmap(
    lambda names: st.fixed_dictionaries({name: FIELDS[name] for name in names})
)
MESSAGES: Final = st.recursive(
    ALONE, lambda inner: st.tuples(ALONE, inner).map(lambda made: {**made[0], "self": made[1]}), max_leaves=3
)
CHOICES: Final[st.SearchStrategy[dict[str, Any]]] = st.one_of(
    st.just({}),
    INTEGERS["int32"].map(lambda number: {"chosen_int32": number}),
    st.text().map(lambda text: {"chosen_string": text}),
)

Echo = Callable[[list[bytes], bytes], tuple[str, bytes]]
"""Has Java read a value with files' descriptors, the last with its type; returns the type and what Java writes."""


@pytest.fixture(scope="module")
def java() -> Iterator[Echo]:
    program = Path(__file__).parent / "protobuf_echo" / "ProtobufEcho.java"
    jars = fetched_jars(f"protobuf-java-{VERSION}", [ARTIFACT], digests=DIGESTS)
    command = [java_command(), "-Xshare:auto", "-cp", f"{jars}/*", str(program)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        reading, writing = process.stdout, process.stdin
        assert reading is not None
        assert writing is not None

        def echo(files: list[bytes], value: bytes) -> tuple[str, bytes]:
            print(*(base64.b64encode(part).decode() for part in (*files, value)), file=writing, flush=True)
            answer = reading.readline().strip()
            assert not answer.startswith("error"), answer
            name, _space, data = answer.partition(" ")
            return name, base64.b64decode(data)

        try:
            yield echo
        finally:
            writing.close()
            process.wait(timeout=30)


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with own_registry() as address:
        yield SchemaRegistry(Exchanges([address]))


def files_of(registry: SchemaRegistry, value: bytes) -> list[bytes]:
    """The descriptors that a consumer gets for a value, each after those that it imports."""
    schema = schema_by_id(registry, int.from_bytes(value[1:5], "big"), kind=PROTOBUF)
    texts = [each.text for each in fetch_references(registry, schema, Deadline(30))]
    return [bytes(TIMESTAMP.serialized_pb), *map(base64.b64decode, (*texts, schema.text))]


def serialized(serializer: RegistrySerializer, topic: str, data: Any) -> bytes:
    made = serializer.serialize(topic, data, ())
    assert made is not None
    return made


@pytest.fixture(scope="module")
def every_type() -> Any:
    return class_of_every_type()


@pytest.fixture(scope="module")
def serializer(registry: SchemaRegistry, every_type: Any) -> RegistrySerializer:
    made = protobuf_serializer(registry, every_type)
    made.prepare("every", every_type(), (), timeout=30)
    return made


@pytest.fixture(scope="module")
def files(registry: SchemaRegistry, serializer: RegistrySerializer, every_type: Any) -> list[bytes]:
    return files_of(registry, serialized(serializer, "every", every_type()))


@settings(max_examples=10_000 if LONG else 60, deadline=None, suppress_health_check=list(HealthCheck))
@given(fields=MESSAGES, choice=CHOICES)
def test_java_reads_data_of_every_type(
    java: Echo, serializer: RegistrySerializer, files: list[bytes], every_type: Any, fields: Any, choice: Any
) -> None:
    message = every_type(**fields, **choice)
    for data in (message, {**fields, **choice}):
        name, again = java(files, serialized(serializer, "every", data))
        assert name == "every.Outer.All"
        assert every_type.FromString(again) == message


def test_java_reads_a_message_whose_file_imports_others(java: Echo, registry: SchemaRegistry) -> None:
    flight, _airport = message_classes()
    mine = protobuf_serializer(registry, flight)
    data = {"number": 7, "origin": {"code": "EWR"}, "stops": ["Z\u00fcrich"]}
    mine.prepare("flights", data, (), timeout=30)
    value = serialized(mine, "flights", data)
    name, again = java(files_of(registry, value), value)
    assert (name, flight.FromString(again)) == ("air.Plan.Flight", flight(**data))


def test_java_reads_rows_of_a_table(java: Echo, registry: SchemaRegistry) -> None:
    flight, _airport = message_classes()
    mine = protobuf_serializer(registry, flight)
    rows: list[dict[str, Any]] = [
        {"number": 7, "stops": ["EWR"]},
        {"number": -1, "stops": []},
        {"number": None, "stops": None},
    ]
    column = pa.array(rows, pa.struct([("number", pa.int32()), ("stops", pa.list_(pa.string()))]))
    mine.prepare("tables", column, (), timeout=30)
    values = mine.serialize_column("tables", column).to_pylist()
    files = files_of(registry, values[0])
    expected = [{name: cell for name, cell in row.items() if cell is not None} for row in rows]
    assert [flight.FromString(java(files, value)[1]) for value in values] == [flight(**row) for row in expected]
