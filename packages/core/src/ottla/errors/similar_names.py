"""The known name that is most similar to an unknown one, for hints in errors."""

from __future__ import annotations

from collections.abc import Iterable


def most_similar(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The most similar of the known names; None if no similarity, as `difflib` measures it, reaches the cutoff."""
    import difflib  # imported late: only errors need it

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return close[0] if close else None
