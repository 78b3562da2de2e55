"""The reason of a failed serialization: the caller's data, or a fault of the serializer."""

from __future__ import annotations

from typing import Any

from ottla.errors import OttlaError
from ottla.errors.plugin_origin import PluginOrigin, origin_of, text_of
from ottla.plugins.serializers.bytes import instead_of_bytes, plain_bytes


class WrongResultError(Exception):
    """A serializer returned something that is not bytes."""


def serialized_bytes(made: Any) -> bytes:
    """The actual content of what a serializer returned. Raises WrongResultError if it is not bytes."""
    try:
        return plain_bytes(made)
    except TypeError:
        raise WrongResultError(instead_of_bytes(made)) from None


def serialization_failure(serializer: object, cause: BaseException, *, option: str | None = None) -> str:
    """Describe the exception that a serializer raised, and name its plugin.

    TypeError and ValueError are for data that it refuses; any other exception is its own fault. *option* has chosen the
    serializer in place of a setting.
    """
    origin = origin_of("serializer", serializer)
    if option is not None:
        origin = PluginOrigin(origin.name, f"report it to the plugin's authors, or set {option} to another one")
    if isinstance(cause, TypeError | ValueError | OttlaError):
        return f"{text_of(cause) or type(cause).__name__} ({origin.name})"
    if isinstance(cause, WrongResultError):
        return f"the {origin.name} {cause}; {origin.remedy}"
    text = f": {text}" if (text := text_of(cause)) else ""
    return f"the {origin.name} failed: {type(cause).__name__}{text}; {origin.remedy}"
