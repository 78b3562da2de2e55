"""The errors of a schema registry. `send` raises them as the cause of a SerializationError."""

from __future__ import annotations

from ottla.errors import OttlaError


class SchemaRegistryError(OttlaError):
    """The base class of these errors."""


class IncompatibleSchemaError(SchemaRegistryError):
    """The registry refuses a schema that is not compatible with former versions of its subject (409)."""


class InvalidSchemaError(SchemaRegistryError):
    """The registry refuses a schema as invalid (422), or has one of another format, or with rules."""


class SchemaNotFoundError(SchemaRegistryError):
    """The registry has no such subject or schema (404)."""


class RegistryAccessError(SchemaRegistryError):
    """The registry refuses the credentials (401), or what they may do (403)."""


class RegistryUnavailableError(SchemaRegistryError, TimeoutError):
    """No address of the registry gave an answer in time, or all attempts failed."""


class RegistryAnswerError(SchemaRegistryError):
    """The answer is not one of a schema registry: no JSON, too large, of another type, or for another subject."""
