"""Headers of records, checked before they are queued."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.config.values import brief
from ottla.errors import InvalidRecordError
from ottla.interfaces import Header, Headers
from ottla.plugins.serializers.bytes import plain_bytes


def checked_headers(headers: Headers) -> tuple[Header, ...]:
    """The headers as the record format takes them: names are str, values bytes or None."""
    try:
        # `list`, because another thread may change a dict or a list meanwhile: it copies these in one step.
        checked = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    except TypeError as error:
        if isinstance(headers, Iterable):
            raise  # by what it iterates over
        raise InvalidRecordError(
            f"headers are pairs of name and value, or a mapping, not {type(headers).__name__}"
        ) from error
    pairs: list[Header] = []
    for header in checked:
        try:
            name, content = header
        except (TypeError, ValueError):
            raise InvalidRecordError(f"a header is a pair of name and value, not {brief(header)}") from None
        if type(name) is str and (type(content) is bytes or content is None) and type(header) is tuple:
            pairs.append(header)
            continue
        if not isinstance(name, str) or not (content is None or isinstance(content, bytes)):
            raise InvalidRecordError(
                f"a header's name is str and its value bytes or None, not {type(name).__name__} and "
                f"{type(content).__name__}"
            )
        # Not the object that was given: reading it again may give another pair, or none.
        pairs.append((str.__str__(name), None if content is None else plain_bytes(content)))
    return tuple(pairs)
