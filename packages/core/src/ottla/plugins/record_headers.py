"""Headers of records, checked before they are queued."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.errors import InvalidRecordError
from ottla.interfaces import Header, Headers
from ottla.plugins.serializers.bytes import plain_bytes


def checked_headers(headers: Headers) -> tuple[Header, ...]:
    """The headers as the record format takes them: names are str, values bytes or None."""
    checked = tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers)
    plain = True
    for header in checked:
        try:
            name, content = header
        except (TypeError, ValueError):
            raise InvalidRecordError(f"a header is a pair of name and value, not {header!r}") from None
        if type(name) is str and (type(content) is bytes or content is None):
            continue
        if not isinstance(name, str) or not (content is None or isinstance(content, bytes)):
            raise InvalidRecordError(
                f"a header's name is str and its value bytes or None, not {type(name).__name__} and "
                f"{type(content).__name__}"
            )
        plain = False
    if plain:
        return checked
    return tuple((str.__str__(name), None if content is None else plain_bytes(content)) for name, content in checked)
