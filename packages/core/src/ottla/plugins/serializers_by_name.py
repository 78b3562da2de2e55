"""Serializers of whole columns, by the names that `send_table` gets: for values, and others for keys.

That of `value.serializer` is the one that the producer has already. Each other serializer is looked up, configured and
made when its name is used for the first time.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.errors import InvalidRecordError
from ottla.interfaces import Serializer, SupportsSerializeColumn, supports


class SerializersByName:
    """For any thread. *make* makes the serializer of a name; *named* exists already. *option* names it in errors."""

    def __init__(
        self,
        make: Callable[[str], Serializer],
        *,
        named: tuple[str, Serializer] | None = None,
        option: str = "value_format",
    ) -> None:
        self._make = make
        self._option = option
        self._made = {} if named is None else {_plain(named[0]): named[1]}

    def of(self, name: object) -> SupportsSerializeColumn:
        """The serializer that makes columns in this format.

        Raises InvalidRecordError, or PluginError if the plugin is missing.
        """
        if not isinstance(name, str):
            raise InvalidRecordError(
                f"{self._option}={name!r}: the name of a serializer plugin is a str, such as 'json'"
            )
        serializer = self._made.get(_plain(name))
        if serializer is None:  # two threads may make one each, and one is kept: no lock is held while a plugin runs
            serializer = self._made.setdefault(_plain(name), self._make(name))
        if not supports(serializer, SupportsSerializeColumn):
            raise InvalidRecordError(
                f"{self._option}={name!r}: this serializer makes one value at a time, because it has no "
                "serialize_column; send the rows by `send`, or encode the column to bytes first and leave "
                f"{self._option} out"
            )
        return serializer


def _plain(name: str) -> str:
    return name.strip().lower()
