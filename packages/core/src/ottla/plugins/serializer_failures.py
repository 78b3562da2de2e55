"""The reason of a failed serialization: the caller's data, or a fault of the serializer."""

from __future__ import annotations

from typing import Any

from ottla.errors import OttlaError
from ottla.errors.plugin_origin import origin_of, text_of
from ottla.plugins.serializers.bytes import plain_bytes


class WrongResultError(Exception):
    """A serializer returned something that is not bytes."""


def serialized_bytes(made: Any) -> bytes:
    """The actual content of what a serializer returned. Raises WrongResultError if it is not bytes."""
    try:
        return plain_bytes(made)
    except TypeError:
        raise WrongResultError(f"returned {type(made).__name__}, not bytes") from None


def serialization_failure(serializer: object, cause: BaseException) -> str:
    """Describe the exception that a serializer raised, and name its plugin.

    TypeError and ValueError are for data that it refuses; any other exception is its own fault.
    """
    origin = origin_of("serializer", serializer)
    if isinstance(cause, TypeError | ValueError | OttlaError):
        return f"{text_of(cause) or type(cause).__name__} ({origin.name})"
    if isinstance(cause, WrongResultError):
        return f"the {origin.name} {cause}; {origin.remedy}"
    text = f": {text}" if (text := text_of(cause)) else ""
    return f"the {origin.name} failed: {type(cause).__name__}{text}; {origin.remedy}"
