"""The error for columns where pyarrow is missing."""

from __future__ import annotations

from ottla.errors import PluginNotFoundError


def need_pyarrow(what: str) -> None:
    """Raise PluginNotFoundError without pyarrow."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as cause:
        raise PluginNotFoundError(f"{what} needs pyarrow; try: pip install 'ottla[arrow]'") from cause
