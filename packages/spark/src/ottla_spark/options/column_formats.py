"""The serializers of a write's columns, as the tasks get them."""

from __future__ import annotations

from typing import Final

import attrs

from ottla.config import PluginValues


@attrs.frozen(kw_only=True)
class ColumnFormat:
    """The serializer of a column, by its name. `prepared`: the serializer itself, which the driver has prepared."""

    name: str
    prepared: bytes | None = attrs.field(default=None, repr=False)


JSON: Final = ColumnFormat(name="json")
"""The format that needs no serializer plugin: the tasks make it themselves."""


@attrs.frozen(kw_only=True)
class Formats:
    """The formats of a write, and the settings of their plugins, which stay on the driver."""

    value: ColumnFormat | None = None
    key: ColumnFormat | None = None
    settings: PluginValues = attrs.field(factory=lambda: PluginValues({}, certain=False))
