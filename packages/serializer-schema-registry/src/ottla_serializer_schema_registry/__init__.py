"""Avro with a schema registry for Ottla's producers."""

from ottla_serializer_schema_registry.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegistryAccessError,
    RegistryAnswerError,
    RegistryUnavailableError,
    SchemaNotFoundError,
    SchemaRegistryError,
)

__all__ = [
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "RegistryAccessError",
    "RegistryAnswerError",
    "RegistryUnavailableError",
    "SchemaNotFoundError",
    "SchemaRegistryError",
]

__version__ = "0.1.0"
