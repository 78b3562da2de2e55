"""Lookups of serializers, such as of a schema's id: `serialize` says that it needs one, and `prepare` waits for it.

`serialize` never waits, so a caller that must not be blocked can have `prepare` called on another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from ottla.concurrency import io_threads
from ottla.config.wait_limit import WaitLimit
from ottla.errors import SerializationError
from ottla.errors.plugin_origin import faults, origin_of
from ottla.interfaces import Header, SupportsPrepare
from ottla.plugins.serializer_failures import serialization_failure

MAX_LOOKUPS: Final = 5
"""Lookups for one record or column: a serializer that needs more of them would need them for ever."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Lookup:
    """The arguments for `prepare` of a serializer.

    `what` describes the data for errors, such as "the value for topic 't'".
    """

    serializer: SupportsPrepare
    what: str
    topic: str
    data: Any = attrs.field(repr=False)
    headers: Sequence[Header] = attrs.field(repr=False)

    def prepare(self, timeout: float) -> None:
        """Wait at most *timeout* seconds, if the serializer keeps its promise. Raises SerializationError."""
        try:
            self.serializer.prepare(self.topic, self.data, self.headers, timeout=timeout)
        except faults() as cause:
            reason = serialization_failure(self.serializer, cause)
            raise SerializationError(f"{self.what} could not be serialized: its lookup failed: {reason}") from cause


class LookupLimit:
    """The limits of the lookups of one record or column: their number, and the seconds that their call may wait."""

    def __init__(self, limit: WaitLimit) -> None:
        self._limit = limit
        self._count = 0

    def begin(self, lookup: Lookup, *, waited: float) -> float:
        """The seconds that a lookup may take, after *waited* seconds of the call. Raises SerializationError."""
        name = origin_of("serializer", lookup.serializer).name
        if waited >= self._limit.seconds:
            raise SerializationError(
                f"{lookup.what} needs a lookup of its serializer, which did not finish within {self._limit.name}: "
                f"{self._limit.seconds} s ({name})"
            )
        if self._count == MAX_LOOKUPS:
            raise SerializationError(
                f"{lookup.what} was not prepared by {MAX_LOOKUPS} lookups of its serializer ({name})"
            )
        self._count += 1
        return self._limit.seconds - waited


class LookupWait:
    """Waits for the lookups of one record or column on the thread of the caller.

    *waited* are the seconds that the call has waited before.
    """

    def __init__(self, limit: WaitLimit, *, clock: Callable[[], float], waited: float = 0.0) -> None:
        self.waited = waited
        self._limit = LookupLimit(limit)
        self._clock = clock

    def wait(self, lookup: Lookup) -> None:
        """Have the serializer prepare. Raises SerializationError, also inside a callback, which cannot wait."""
        if io_threads.on_io_thread():
            raise SerializationError(
                f"the {origin_of('serializer', lookup.serializer).name} has to look something up for {lookup.what}, "
                "and a callback cannot wait for that; "
                "send the record from another thread"
            )
        seconds = self._limit.begin(lookup, waited=self.waited)
        started_at = self._clock()
        try:
            lookup.prepare(seconds)
        finally:
            self.waited += self._clock() - started_at
