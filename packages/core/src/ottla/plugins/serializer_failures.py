"""The reason of a failed serialization: the caller's data, or a fault of the serializer."""

from __future__ import annotations

from ottla.errors import OttlaError
from ottla.errors.plugin_origin import origin_of, text_of


def serialization_failure(serializer: object, cause: BaseException) -> str:
    """Describe the exception that a serializer raised, and name its plugin.

    TypeError and ValueError are for data that it refuses; any other exception is its own fault.
    """
    origin = origin_of("serializer", serializer)
    if isinstance(cause, TypeError | ValueError | OttlaError):
        return f"{text_of(cause) or type(cause).__name__} ({origin.name})"
    text = f": {text}" if (text := text_of(cause)) else ""
    return f"the {origin.name} failed: {type(cause).__name__}{text}; {origin.remedy}"
