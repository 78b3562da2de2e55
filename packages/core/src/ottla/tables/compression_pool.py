"""Compression of a table's batches on several threads, before they are queued in their order.

So the I/O thread only writes them, and compresses nothing while brokers wait. The codecs release the GIL, so the caller
cuts the next batches meanwhile.
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
from ottla.recordbatch.sealed_records import SealedRecords

MAX_THREADS: Final = 4
"""More would wait for the thread that cuts: at 40 ns a row it keeps four threads busy that need 170 ns."""


@attrs.frozen(eq=False)
class PartitionRows:
    """Rows of one partition for one batch: the batch's record *index* is the row `offset + rows[index]`."""

    topic: str
    partition: int
    offset: int
    rows: Sequence[int]
    columns: Columns


@attrs.frozen(eq=False)
class SealedPiece:
    """The next piece in order, with its sealed records or the error, or with neither if there is no codec."""

    piece: PartitionRows
    sealed: SealedRecords | None = None
    error: Exception | None = None


class CompressionPool:
    """The pieces that are cut and not queued yet. *seal* runs on any thread; it is None if there is no codec."""

    def __init__(self, seal: Callable[[Columns], SealedRecords] | None, *, threads: int) -> None:
        self._seal = seal
        self._threads = threads
        self._max_pending = threads + 1 if seal is not None else 0
        self._pool: ThreadPoolExecutor | None = None
        self._pending: deque[tuple[PartitionRows, _Work | None]] = deque()

    def put(self, piece: PartitionRows) -> Iterator[SealedPiece]:
        """Begin to seal one more piece. Yields finished pieces, and waits for the first one if too many are pending."""
        alone = self._pool is None and not self._pending  # a table of one batch needs no thread
        self._pending.append((piece, None if alone else self._begun(piece.columns)))
        while len(self._pending) > self._max_pending or (self._pending and _is_ready(self._pending[0][1])):
            yield self._next()

    def rest(self) -> Iterator[SealedPiece]:
        """Yield all other pieces, waiting for each."""
        while self._pending:
            yield self._next()

    def close(self) -> Sequence[PartitionRows]:
        """End the threads, and return the pieces that were not yielded."""
        pieces = [piece for piece, _work in self._pending]
        self._pending.clear()
        if self._pool is not None:
            # `shutdown` waits for a Condition, whose lock is never released if a signal handler raises.
            with signals.Deferred():
                self._pool.shutdown(cancel_futures=True)
        return pieces

    def _begun(self, columns: Columns) -> _Work | None:
        if self._seal is None or not self._threads:
            return None
        work = _Work(self._seal, columns)  # not a Future: a signal handler that raises breaks waits for it, too
        with signals.Deferred():
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="ottla-table")
            try:
                self._pool.submit(work.run)
            except RuntimeError:  # the system has no more threads, or the interpreter exits
                if work.take():  # else a thread has the work in spite of the error
                    return None
        return work

    def _next(self) -> SealedPiece:
        finished = self._finished(*self._pending[0])
        self._pending.popleft()  # last: a signal handler may interrupt the wait
        return finished

    def _finished(self, piece: PartitionRows, work: _Work | None) -> SealedPiece:
        if self._seal is None:
            return SealedPiece(piece)
        try:
            return SealedPiece(piece, self._seal(piece.columns) if work is None else work.result())
        except Exception as error:  # of a faulty codec
            return SealedPiece(piece, error=error)


def threads() -> int:
    """The number of threads to use: one per CPU of this process, at most `MAX_THREADS`; 0 if it has one CPU."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, MAX_THREADS) if count > 1 else 0


class _Work:
    """One piece to be sealed, once, by the thread that takes it first."""

    def __init__(self, seal: Callable[[Columns], SealedRecords], columns: Columns) -> None:
        self._seal = seal
        self._columns = columns
        self._untaken = [True]
        self._result: SealedRecords | BaseException | None = None
        self._done = Latch()

    @property
    def done(self) -> bool:
        """Return whether there is a result."""
        return self._done.is_set

    def take(self) -> bool:
        """Take the work. Return False if another thread has taken it: it must not be done twice."""
        try:
            return self._untaken.pop()
        except IndexError:
            return False

    def run(self) -> None:
        """Seal the piece on this thread, unless the work was taken. Raises nothing: `result` raises the error."""
        if not self.take():
            return
        try:
            self._result = self._seal(self._columns)
        except BaseException as error:  # raised again where the result is taken
            self._result = error
        self._done.set()

    def result(self) -> SealedRecords:
        """Wait for the sealed records and return them. Raises the exception that sealing raised."""
        self._done.wait(None)
        result = self._result
        if isinstance(result, BaseException):
            raise result
        assert result is not None, "it is done"
        return result


def _is_ready(work: _Work | None) -> bool:
    return work is not None and work.done
