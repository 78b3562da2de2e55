"""The I/O thread of a producer: it runs rounds of the sender until the producer is closed, then ends in order.

`IoHandoff` may let another thread run the rounds for a while.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.concurrency import io_threads, signals
from ottla.concurrency.environment import Environment
from ottla.concurrency.locks import Latch
from ottla.concurrency.thread_positions import position_of
from ottla.errors import OttlaError, ProducerClosedError, ProducerFailedError, printable
from ottla.errors.robust_logger import log_robustly, robust_logger
from ottla.network import NetworkClient
from ottla.network.metadata import Metadata
from ottla.results.stories.tries import CloseReason
from ottla.sender.io_handoff import IoHandoff, NoHandoff
from ottla.sender.round_recovery import Rounds
from ottla.sender.sender import Sender

logger = robust_logger(__name__)


class IoThread:
    """A daemon thread that runs rounds, and calls `on_end` last. The methods are for other threads."""

    def __init__(
        self,
        *,
        sender: Sender,
        rounds: Rounds,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        metadata: Metadata,
        io_handoff: IoHandoff | NoHandoff,
        name: str,
        environment: Environment,
    ) -> None:
        self._sender = sender
        self._rounds = rounds
        self._accumulator = accumulator
        self._client = client
        self._metadata = metadata
        self._io_handoff = io_handoff
        self._name = name
        self._clock = environment.clock
        self.on_end: Callable[[], object] = lambda: None
        self._deadline: float | None = None  # of an orderly end, once one was asked for
        self._abandoned: float | None = None
        self._batches_closed = False  # by the I/O thread, before its first round with a deadline
        self._over = Latch(environment)
        self._thread = environment.thread(self._run, name)

    def start(self) -> None:
        """Start the thread. Raises RuntimeError when the system has no thread left."""
        try:
            self._thread.start()
        except RuntimeError:
            self._client.shutdown()
            raise

    def begin_close(self, timeout: float) -> None:
        """Refuse new records, send queued ones for at most *timeout* seconds, fail the rest; returns immediately."""
        self._refuse(ProducerClosedError("the producer is closed"))  # first, or a record might come after the end
        self._sender.begin_close()
        deadline = self._clock() + timeout
        self._deadline = deadline if self._deadline is None else min(self._deadline, deadline)
        self._rounds.end_sleep()
        self._io_handoff.wake()

    def abandon(self, timeout: float) -> None:
        """Have the thread itself call `begin_close`, soon. Takes no lock."""
        self._abandoned = timeout
        self._io_handoff.wake()

    def forget(self) -> None:
        """Use the thread no more: it does not exist in a forked child.

        The exception is a child that was forked on it, inside a callback or a method of a plugin, and returns from
        there: it must not go on with the connections of its parent.
        """
        self._rounds.forgotten = True
        self._io_handoff.forget()
        if io_threads.on_io_thread():
            self._client.shutdown(forked=True)

    def give_up(self) -> None:
        """Note that its records are failed without it, because a round does not return."""
        self._rounds.given_up = True

    def join(self, timeout: float) -> bool:
        """Wait for the end that `begin_close` asked for. Return False if it has not come after *timeout* seconds."""
        # Not only Thread.join: after Ctrl-C has interrupted a join, Python considers the thread ended.
        over = self._over.wait(timeout)
        if over:
            with signals.Deferred():  # a handler here that joins the thread, too, would wait for itself
                self._thread.join()
        return over

    def current_position(self) -> str:
        """The place in the code that keeps the thread with the rounds, for errors."""
        hanging = self._accumulator.hanging.thread()  # the place where another thread holds the lock
        return position_of(hanging or self._io_handoff.polling_thread or self._thread.ident or 0) or "its end"

    def _run(self) -> None:
        io_threads.enter()
        try:
            self._run_rounds()
            if self._rounds.forgotten:  # a child has no other thread, so its process ends
                log_robustly(
                    lambda: logger.error(
                        "%s: a child that was forked on the I/O thread has returned to it, and ends here", self._name
                    )
                )
                return
            self._flush_unacknowledged()
            self._read_last_responses()
            closed = ProducerClosedError("the producer was closed before they could be sent")
            self._sender.abort(closed, self._clock())
            self._push_last_telemetry()
            self._sender.end(ProducerClosedError("the producer is closed"))
        except BaseException as cause:
            failure = ProducerFailedError(f"the I/O thread {self._name} ended: {printable(repr(cause))}")
            failure.__cause__ = cause
            log_robustly(
                lambda: logger.critical(
                    "%s: the I/O thread cannot continue; every record fails", self._name, exc_info=failure.__cause__
                )
            )
            self._refuse(failure)
            self._accumulator.abort(failure)
            self._sender.end(failure)
        finally:
            if not self._rounds.forgotten:
                self._shut_down()

    def _shut_down(self) -> None:
        """Close the connections, then call `on_end`."""
        self._io_handoff.end_watch()
        try:
            self._client.shutdown()
        except Exception:
            log_robustly(lambda: logger.exception("%s: not every connection could be closed", self._name))
        io_threads.leave()
        try:
            self.on_end()
        finally:
            self._over.set()

    def _run_rounds(self) -> None:
        while not (self._ended() or self._rounds.forgotten):
            self._io_handoff.begin_round()
            if self._abandoned is not None:
                timeout, self._abandoned = self._abandoned, None
                self.begin_close(timeout)
            try:
                deadline = self._deadline
                if deadline is not None and not self._batches_closed:
                    self._batches_closed = True
                    self._accumulator.close_open_batches(CloseReason.CLOSE)
                self._rounds.run(self._clock(), float("inf") if deadline is None else deadline)
                if self._deadline is None and not self._rounds.failing:  # a caller's round would repair nothing
                    self._io_handoff.yield_to_callers()
            except BaseException as error:  # also one that ended a round on another thread, as Ctrl-C may
                self._rounds.failed(error)

    def _flush_unacknowledged(self) -> None:
        """Block until brokers have read the requests sent with `acks=0`, at most until the deadline of the close."""
        deadline, now = self._deadline, self._clock()
        assert deadline is not None, "the rounds end only once there is a deadline"
        try:
            while now < deadline and self._client.flush_unacknowledged(now):
                now = self._client.poll(deadline - now, now)
        except Exception:
            log_robustly(
                lambda: logger.exception(
                    "%s: could not confirm that brokers have read the records sent with acks=0", self._name
                )
            )

    def _read_last_responses(self) -> None:
        """Read what has arrived: the process may have been stopped until after the deadline."""
        try:
            self._sender.read_responses(self._clock())
        except Exception:
            log_robustly(lambda: logger.exception("%s: could not read the last responses", self._name))

    def _push_last_telemetry(self) -> None:
        """Push the last metrics, those after the last record, within the time that the close has left."""
        deadline = self._deadline
        assert deadline is not None, "the rounds end only once there is a deadline"
        try:
            self._sender.push_last_telemetry(self._clock(), deadline)
        except Exception:
            log_robustly(lambda: logger.exception("%s: could not push the last metrics", self._name))

    def _ended(self) -> bool:
        deadline = self._deadline
        return deadline is not None and (self._sender.idle or self._clock() >= deadline)

    def _refuse(self, refusal: OttlaError) -> None:
        self._accumulator.close(refusal)
        self._metadata.close(refusal)
