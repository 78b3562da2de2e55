"""The type of settings that are on or off."""

from __future__ import annotations

from typing import Any


def flag(written: Any) -> bool:
    """Return whether a setting is on. Raises ValueError."""
    match str(written).strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("write true or false")
