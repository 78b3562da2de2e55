"""Which errors of a failed batch the program has read, and which it is expected to read.

An expected error counts as read until the expectation is given up. There is no lock, because finalizers give
expectations up: a method may be interrupted between its steps.
"""

from __future__ import annotations

from collections.abc import Callable


class ErrorReads:
    """The errors of a failed batch of *count* records by their indexes. For any thread.

    Waits of tasks and callbacks of loops share the expectation of a record. What may give it up later than they do
    expects the error *by* an object of its own.
    """

    __slots__ = ("_expected", "_read", "count", "when_given_up")

    def __init__(self, count: int) -> None:
        self.count = count
        self._read: set[int] = set()
        self._expected: set[tuple[int, object]] = set()  # also of errors that were read since
        self.when_given_up: Callable[[], object] | None = None
        """Called when errors become unread again; set once the batch is gone, which would have them logged."""

    @property
    def unread(self) -> int:
        """The number of errors that were neither read nor are expected to be."""
        expected = self._expected
        return self.count - (len(self._read | _indexes(expected)) if expected else len(self._read))

    @property
    def expects(self) -> bool:
        """Return whether something is expected to read errors, or was until it read them."""
        return bool(self._expected)

    def read(self, index: int) -> None:
        """Note that the program has the error of a record, or that a report has it."""
        self._read.add(index)

    def read_all(self) -> None:
        """Do what `read` does for every record."""
        self._read.update(range(self.count))

    def expect(self, index: int, *, by: object = None) -> None:
        """Note that something is expected to pass the error of a record to the program."""
        self._expected.add((index, by))

    def expect_all(self) -> None:
        """Do what `expect` does for every record."""
        self._expected.update((index, None) for index in range(self.count))

    def give_up(self, index: int, *, by: object = None) -> None:
        """Undo `expect`: unless it was read, or something else expects it, the error is for others."""
        self._expected.discard((index, by))
        self._notify()

    def give_up_all(self) -> None:
        """Undo `expect_all`, and all that was expected besides."""
        self._expected.clear()
        self._notify()

    def report(self) -> tuple[int, bool]:
        """Note that a report has the errors that nothing is expected to read.

        Return how many of them were unread, and whether there are others: if those expectations are given up, the next
        report has them, or the log.
        """
        # Once: an expectation that is given up meanwhile is for the next report.
        expected = _indexes(self._expected) if self._expected else set()
        unread = self.count - len(self._read | expected)
        others = expected - self._read
        if others:
            self._read.update(index for index in range(self.count) if index not in others)
        return unread, bool(others)

    def _notify(self) -> None:
        notify = self.when_given_up
        if notify is not None and self.unread:
            notify()


def _indexes(expected: set[tuple[int, object]]) -> set[int]:
    return {index for index, _by in expected.copy()}  # a copy is made at once, whatever other threads give up
