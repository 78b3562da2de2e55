"""Words of a stranger inside an error: printable, short, and without what we keep secret."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

LONGEST: Final = 300


def quoted(text: str | bytes, *, secrets: Collection[str] = ()) -> str:
    """The text in quotes, as `repr` writes it, with the end of a long one cut off."""
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    for secret in filter(None, secrets):
        shown = shown.replace(secret, "[hidden]")
    return repr(shown if len(shown) <= LONGEST else shown[:LONGEST] + "...")
