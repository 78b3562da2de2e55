"""Rates, as commands show them."""

from __future__ import annotations

from typing import Final

MEGABYTE: Final = 1_000_000


def per_second(amount: float, seconds: float) -> float:
    """A rate; 0 before any time has passed."""
    return amount / seconds if seconds > 0 else 0.0
