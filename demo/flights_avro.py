"""The flights as Avro: the options of the job, and Confluent's deserializer, which reads what it wrote."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from flights_input import as_json


def avro_options(registry: str) -> Mapping[str, str]:
    """Return the sink's options. The schema is made of the columns, and registered when the write is planned."""
    # The driver takes addresses only from the one who started it: this program.
    os.environ["OTTLA_ALLOWED_URLS"] = registry
    return {"value.format": "avro", "schema.registry.url": registry}


@contextmanager
def decoder(registry: str, topic: str) -> Iterator[Callable[[bytes], bytes]]:
    """Yield a function that makes JSON of a record's value, without the fields that are null."""
    with SchemaRegistryClient({"url": registry}) as client:
        read, context = AvroDeserializer(client), SerializationContext(topic, MessageField.VALUE)

        def decode(value: bytes) -> bytes:
            flight: dict[str, Any] = read(value, context)
            return as_json({name: field for name, field in flight.items() if field is not None})

        yield decode
