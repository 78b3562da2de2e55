"""Details of layers above each other, for `ottla doctor`: they name proxies, and which details are those of a proxy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from ottla.interfaces import SupportsDetails, TransportLayer, supports

THROUGH: Final = "through"
"""The label of a detail that names a proxy on the way to the broker."""

WARNING: Final = "warning"
"""The label of a detail that is a warning."""

Details: TypeAlias = Sequence[tuple[str, str]]

_PROXYS: Final = "proxy's "


def details(layer: TransportLayer | None) -> Details:
    """Return the details of a layer; empty if it has none."""
    return tuple(layer.details()) if layer is not None and supports(layer, SupportsDetails) else ()


def lower_details(lower: TransportLayer) -> Details:
    """Return the details of the layer below another one; their labels say that they are a proxy's."""
    return [
        (label if label in (THROUGH, WARNING) or label.startswith(_PROXYS) else f"{_PROXYS}{label}", text)
        for label, text in details(lower)
    ]
