"""What records wait for, and the journal of a producer's waits: intervals in which something held its batches up.

The journal belongs to a producer, not to a batch: a batch keeps the intervals that the journal had when the
batch was completed, as one tuple that all batches of that time share.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

SHORTEST: Final = 0.01
"""Seconds. A wait that is shorter is not noted."""

NOTED: Final = 64
"""The maximum number of past waits that are kept."""

_NEVER: Final = float("inf")


class WaitKind(enum.Enum):
    """What a record waits for, from `send` until it is complete. The value is the text of a cause; {} is a detail."""

    TOPIC = "send to get the metadata of the topic"
    MEMORY = "send to get memory (buffer.memory)"
    LINGER = "more records (linger.ms)"
    CALLBACKS = "callbacks on the I/O thread, for {}"
    COMPRESSION = "the batch to be encoded and compressed"
    OTHER_COMPRESSION = "other batches to be encoded and compressed"
    PROCESS = "the I/O thread to run: the program held the interpreter's lock, or the processor was busy"
    THROTTLE = "the end of a quota's throttling by broker {}"
    NAME = "the name of broker {} to be looked up"
    CONNECTION = "a connection to broker {}"
    NO_LEADER = "the partition to have a leader"
    BOOTSTRAP = "a bootstrap server to answer, after every known broker was lost"
    METADATA = "metadata, before a request to broker {}"
    BUSY = "broker {} to answer earlier requests (max.in.flight.requests.per.connection)"
    ORDER = "the outcome of earlier batches of the partition, or for a producer id"
    EARLIER = "earlier batches of the partition to be sent"
    BROKER = "broker {} to answer"
    RETRY = "the next attempt after {}"


class Interval(NamedTuple):
    """A time in which the producer waited; node and topic None: it concerns all."""

    kind: WaitKind
    start: float
    end: float
    node: int | None
    topic: str | None
    detail: str


class Notes(NamedTuple):
    """What a story needs of its producer: the linger time in seconds, and the waits around the record's time."""

    linger: float
    intervals: tuple[Interval, ...]


NO_NOTES: Final = Notes(0.0, ())


class Journal:
    """The waits of one producer, past and present. For the I/O thread, except `add`, `notes` and `clock`."""

    def __init__(self, *, linger: float, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._past: list[Interval] = []  # no deque: another thread may add while this one is read
        self._open: dict[Hashable, Interval] = {}
        self.notes = Notes(linger, ())
        """The waits so far; it is replaced, never changed."""

    @property
    def waiting(self) -> bool:
        """Return whether a wait has begun and not ended."""
        return bool(self._open)

    def add(
        self,
        kind: WaitKind,
        start: float,
        end: float,
        *,
        node: int | None = None,
        topic: str | None = None,
        detail: str = "",
    ) -> None:
        """Note a wait that has ended, unless it was short."""
        if end - start >= SHORTEST:
            self._keep(Interval(kind, start, end, node, topic, detail))
            self._publish()

    def update(self, now: float, waiting: dict[Hashable, Interval]) -> None:
        """Note the waits that last now, by what they are for; those that are missing have ended.

        A wait goes on while its kind and its detail are the same.
        """
        if not waiting and not self._open:
            return
        lasting: dict[Hashable, Interval] = {}
        for key, interval in waiting.items():
            before = self._open.get(key)
            same = before is not None and before.kind is interval.kind and before.detail == interval.detail
            lasting[key] = before if same and before is not None else interval
        for key, interval in self._open.items():
            if lasting.get(key) is not interval and now - interval.start >= SHORTEST:
                self._keep(interval._replace(end=now))
        self._open = lasting
        self._publish()

    def _keep(self, interval: Interval) -> None:
        self._past.append(interval)
        del self._past[:-NOTED]

    def _publish(self) -> None:
        self.notes = Notes(self.notes.linger, (*self._past, *self._open.values()))


def lasting(
    kind: WaitKind, now: float, *, node: int | None = None, topic: str | None = None, detail: str = ""
) -> Interval:
    """A wait that begins now."""
    return Interval(kind, now, _NEVER, node, topic, detail)


def notes_and_clock(journal: Journal | Notes | None) -> tuple[Notes, Callable[[], float] | None]:
    """The waits of a batch's producer, and the producer's clock unless the batch is complete."""
    if isinstance(journal, Journal):
        return journal.notes, journal.clock
    return NO_NOTES if journal is None else journal, None
