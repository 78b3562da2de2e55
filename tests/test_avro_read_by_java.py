"""Java's Avro library reads what is written here, and writes the same bytes again."""

from __future__ import annotations

import base64
import io
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyspark
import pytest
from avro_columns import CASES, Case, for_fastavro
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_forms import LONG

from ottla_accel.avro_rows import avro_rows
from ottla_accel.plugin import NativeEncoder
from ottla_serializer_schema_registry.avro.format import AvroFormat
from ottla_serializer_schema_registry.avro.rows import ColumnWriter
from ottla_serializer_schema_registry.avro.schema import parsed_schema
from ottla_testkit.java.runtime import java_command

Echo = Callable[[str, bytes], bytes]
"""Has Java read data of a schema, and returns what it writes."""

JARS = Path(pyspark.__file__).parent / "jars"
"""PySpark has Avro's jar, and those that it needs."""


@pytest.fixture(scope="module")
def java() -> Iterator[Echo]:
    program = Path(__file__).parent / "avro_echo" / "AvroEcho.java"
    command = [java_command(), "-Xshare:auto", "-cp", str(JARS / "*"), str(program)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        reading, writing = process.stdout, process.stdin
        assert reading is not None
        assert writing is not None

        def echo(schema: str, data: bytes) -> bytes:
            print(*(base64.b64encode(part).decode() for part in (schema.encode(), data)), file=writing, flush=True)
            answer = reading.readline().strip()
            assert not answer.startswith("error"), answer
            return base64.b64decode(answer)

        try:
            yield echo
        finally:
            writing.close()
            process.wait(timeout=30)


def has_map(schema: Any) -> bool:
    """Whether Java may write the entries of a map in another order."""
    return '"map"' in json.dumps(schema)


def read(schema: Any, data: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(data), schema, schema)


@settings(max_examples=10_000 if LONG else 120, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=CASES, data=st.data())
def test_java_reads_rows_and_data_and_writes_the_same_bytes(java: Echo, case: Case, data: st.DataObject) -> None:
    cell = data.draw(case.cells)
    text = json.dumps(case.schema)
    schema = parsed_schema(text)
    native = AvroFormat()
    native.use_encoder(NativeEncoder())
    written = [native.parse(text, ()).encode(for_fastavro(cell, case.kind), b"")]
    if cell is not None:  # a null row has no Avro
        [row] = ColumnWriter(schema).rows(pa.array([cell], case.kind), b"", avro_rows).to_pylist()
        written.append(row)
    if schema.is_bytes:  # Confluent's format has no length before bytes alone
        return
    for made in written:
        again = java(text, made)
        assert again == made or (has_map(case.schema) and read(schema.schema, again) == read(schema.schema, made))
