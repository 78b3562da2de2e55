"""The serializers of a write's columns, as the tasks get them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ottla.config import PluginValues

if TYPE_CHECKING:
    from ottla.interfaces import Header  # the commit needs no plugins


@attrs.frozen(kw_only=True)
class ColumnFormat:
    """The serializer of a column, by its name.

    The driver adds `prepared`, the serializer itself, and `headers`, which all rows of the column get.
    """

    name: str
    prepared: bytes | None = attrs.field(default=None, repr=False)
    headers: tuple[Header, ...] = ()


JSON: Final = ColumnFormat(name="json")
"""The format that needs no serializer plugin: the tasks make it themselves."""


@attrs.frozen(kw_only=True)
class Formats:
    """The formats of a write, and the settings of their plugins, which stay on the driver."""

    value: ColumnFormat | None = None
    key: ColumnFormat | None = None
    settings: PluginValues = attrs.field(factory=lambda: PluginValues({}, certain=False))
