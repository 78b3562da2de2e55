"""Batches of a table are compressed before they are queued, on some threads at once, and go on in the order they came.

The I/O thread then only writes them, and compresses nothing while brokers wait. The codecs let go of the interpreter's
lock, so the caller cuts the next batches meanwhile.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import attrs

from ottla.concurrency import signals
from ottla.concurrency.locks import Latch
from ottla.interfaces import Columns
from ottla.recordbatch.section import Section

MOST_THREADS: Final = 4
"""More would wait for the one that cuts: at 40 ns a row it keeps four busy that need 170."""


@attrs.frozen(eq=False)
class PartitionRows:
    """Rows of one partition that make a batch: its record *index* is the row `offset + rows[index]`."""

    partition: int
    offset: int
    rows: Sequence[int]
    columns: Columns


@attrs.frozen(eq=False)
class Sealed:
    """A piece whose turn has come, compressed, or why it cannot be; neither: there is no codec."""

    piece: PartitionRows
    section: Section | None = None
    error: Exception | None = None


class Ahead:
    """The pieces between being cut and being queued. *seal* is for any thread; None: there is nothing to compress."""

    def __init__(self, seal: Callable[[Columns], Section] | None, *, threads: int) -> None:
        self._seal = seal
        self._threads = threads
        self._most = threads + 1 if seal is not None else 0
        self._pool: ThreadPoolExecutor | None = None
        self._pending: deque[tuple[PartitionRows, _Work | None]] = deque()

    def put(self, piece: PartitionRows) -> Iterator[Sealed]:
        """Begin with one more; gives those that are ready, and waits for the first one when there are many."""
        alone = self._pool is None and not self._pending  # a table of one batch needs no thread
        self._pending.append((piece, None if alone else self._begun(piece.columns)))
        while len(self._pending) > self._most or (self._pending and _is_ready(self._pending[0][1])):
            yield self._next()

    def rest(self) -> Iterator[Sealed]:
        """All others, waiting for each."""
        while self._pending:
            yield self._next()

    def close(self) -> Sequence[PartitionRows]:
        """End the threads; the pieces that were not given."""
        pieces = [piece for piece, _work in self._pending]
        self._pending.clear()
        if self._pool is not None:
            # What waits in these pools are Conditions of Python, which handlers that raise leave taken for good.
            with signals.Deferred():
                self._pool.shutdown(cancel_futures=True)
        return pieces

    def _begun(self, columns: Columns) -> _Work | None:
        if self._seal is None or not self._threads:
            return None
        work = _Work(self._seal, columns)  # no Future: to wait for one is no more proof against handlers
        with signals.Deferred():
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="ottla-table")
            try:
                self._pool.submit(work.run)
            except RuntimeError:  # the system gives no more threads, or the interpreter, which ends
                if work.take():  # else a thread has it, although it was said that there is none
                    return None
        return work

    def _next(self) -> Sealed:
        sealed = self._sealed(*self._pending[0])
        self._pending.popleft()  # only now: the wait may be interrupted
        return sealed

    def _sealed(self, piece: PartitionRows, work: _Work | None) -> Sealed:
        if self._seal is None:
            return Sealed(piece)
        try:
            return Sealed(piece, self._seal(piece.columns) if work is None else work.result())
        except Exception as error:  # of a codec, perhaps somebody else's
            return Sealed(piece, error=error)


def threads() -> int:
    """How many threads help at most: what this process may run at once, and none where that is one."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, MOST_THREADS) if count > 1 else 0


class _Work:
    """One piece to be sealed, once, by whoever takes it first."""

    def __init__(self, seal: Callable[[Columns], Section], columns: Columns) -> None:
        self._seal = seal
        self._columns = columns
        self._untaken = [True]
        self._result: Section | BaseException | None = None
        self._done = Latch()

    @property
    def done(self) -> bool:
        """Whether there is a result."""
        return self._done.is_set

    def take(self) -> bool:
        """Whether nobody has taken it before."""
        try:
            return self._untaken.pop()
        except IndexError:
            return False

    def run(self) -> None:
        """Seal it, unless it was taken."""
        if not self.take():
            return
        try:
            self._result = self._seal(self._columns)
        except BaseException as error:  # raised again where the result is taken
            self._result = error
        self._done.set()

    def result(self) -> Section:
        """Wait for it. Raises what sealing raised."""
        self._done.wait(None)
        result = self._result
        if isinstance(result, BaseException):
            raise result
        assert result is not None, "it is done"
        return result


def _is_ready(work: _Work | None) -> bool:
    return work is not None and work.done
