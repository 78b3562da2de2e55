"""The headers that a serializer sets for all rows of a column, checked."""

from __future__ import annotations

from typing import Any

from ottla.errors import InvalidPluginError, InvalidRecordError
from ottla.errors.plugin_origin import origin_of
from ottla.interfaces import Header, Serializer, SupportsColumnHeaders, SupportsSerializeColumn, supports
from ottla.plugins.record_headers import checked_headers


def column_headers(serializer: Serializer | SupportsSerializeColumn, topic: str, empty: Any) -> tuple[Header, ...]:
    """Return the headers for all rows of the type of *empty*, an Arrow array without rows that was serialized before.

    A serializer without `SupportsColumnHeaders` sets none. Raises what the serializer raises, and InvalidPluginError if
    it returns anything but headers.
    """
    if not supports(serializer, SupportsColumnHeaders):
        return ()
    made = serializer.column_headers(topic, empty)
    try:
        headers = checked_headers(made)
        for name, _value in headers:
            name.encode()
    except (InvalidRecordError, TypeError, UnicodeEncodeError) as cause:
        raise InvalidPluginError(
            f"column_headers of the {origin_of('serializer', serializer).name} returned no headers: {cause}; "
            "report it to the plugin's authors"
        ) from cause
    return headers
