"""The rule that decides whether new records may be queued. It never waits: a record is refused or it is not."""

from __future__ import annotations

from collections.abc import Callable

from ottla.errors import OttlaError


class AppendPermission:
    """Refuses records once the producer is closed, or while *admit* raises: outside of a transaction, for instance."""

    def __init__(self, admit: Callable[[], object] | None) -> None:
        self._admit = admit
        self.refusal: OttlaError | None = None
        """The error to raise for new records, or None while the producer is not closed."""

    def check(self) -> None:
        """Raise if no record may be queued."""
        if self.refusal is not None:
            raise self.refusal
        if self._admit is not None:
            self._admit()
