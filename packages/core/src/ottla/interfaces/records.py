"""Parts of records, as plugins get them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
Header: TypeAlias = tuple[str, bytes | None]
Headers: TypeAlias = Iterable[Header] | Mapping[str, bytes | None]
"""The headers that `send` takes."""
