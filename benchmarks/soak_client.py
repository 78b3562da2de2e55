"""The producer of a soak, in a process of its own: `python soak_client.py SETTINGS`, a JSON object of `Soak`.

Each second it prints a line of JSON, a `Second`; the first lines are at full speed, the others at a share of that rate.
After the last second it closes the producer and prints a `Total`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import threading
import time
from collections.abc import Callable
from statistics import quantiles
from typing import TYPE_CHECKING, Final

import attrs
import psutil

if TYPE_CHECKING:
    from ottla import Delivery, Producer

BUNCHES_PER_SECOND: Final = 100
HEADER: Final = 12  # bytes of a value before its padding: the thread and the number of the record
CALLS: Final = ("send: ", "close: ")
BEHIND: Final = 1.0  # seconds; a thread that is further behind its rate does not catch up


@attrs.frozen(kw_only=True)
class Soak:
    """What to send, and for how long."""

    servers: str
    topic: str
    partitions: int
    threads: int
    size: int
    encoder: str
    full_seconds: float
    seconds: float
    share: float


@attrs.frozen(kw_only=True)
class Second:
    """One second of the soak. Times are milliseconds from `send` to the callback; memory is in bytes.

    `used` is what C code has allocated and not freed; objects of up to 512 bytes are not part of it, because Python has
    memory of its own for them. `rss` has also what the allocator keeps for later: it grows with the largest need so
    far, and with gaps between what is in use. A leak lets both grow.
    """

    at: float
    phase: str
    sent: int
    acknowledged: int
    failed: int
    p50: float
    p99: float
    longest: float
    rss: int
    used: int
    threads: int
    descriptors: int
    processor: float


@attrs.frozen(kw_only=True)
class Total:
    """Records that each thread sent, those acknowledged and failed, and errors by their text.

    Those of `send` and `close` begin with `CALLS`.
    """

    sent: list[int]
    acknowledged: int
    failed: int
    errors: dict[str, int]
    rate: float

    @property
    def unknown(self) -> int:
        """Records whose callback was never called."""
        return sum(self.sent) - self.acknowledged - self.failed


class _Allocated(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _names: Final = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


def used_memory() -> int:
    """Bytes that the C allocator has handed out; 0 where it cannot be asked (only glibc since 2.33 can)."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):
        return 0
    ask.restype = _Allocated
    found = ask()
    return int(found.uordblks + found.hblkhd)


def value_of(thread: int, number: int, size: int) -> bytes:
    """The value of a record."""
    return thread.to_bytes(2, "big") + number.to_bytes(10, "big") + bytes(size - HEADER)


def number_of(value: bytes) -> tuple[int, int]:
    """The thread and the number of a record."""
    return int.from_bytes(value[:2], "big"), int.from_bytes(value[2:HEADER], "big")


class Load:
    """Threads that send records in turns to all partitions, at a rate that may change."""

    def __init__(self, producer: Producer, soak: Soak) -> None:
        self.rate = float("inf")
        self.sent = [0] * soak.threads
        self.acknowledged = 0
        self.failed = 0
        self.errors: dict[str, int] = {}
        self._producer = producer
        self._soak = soak
        self._took: list[float] = []
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(soak.threads)]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Wait for the threads to send their last record."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def take_times(self) -> list[float]:
        """The times of the records that were acknowledged since the last call."""
        took, self._took = self._took, []
        return took

    def _run(self, thread: int) -> None:
        soak, send, clock = self._soak, self._producer.send, time.monotonic
        padding = bytes(soak.size - HEADER)
        head = thread.to_bytes(2, "big")
        number, due = 0, clock()
        try:
            while not self._ended.is_set():
                rate = self.rate / soak.threads
                bunch = 100 if rate == float("inf") else max(round(rate / BUNCHES_PER_SECOND), 1)
                for _ in range(bunch):
                    value = head + number.to_bytes(10, "big") + padding
                    send(soak.topic, value, partition=number % soak.partitions, on_delivery=self._done(clock()))
                    number += 1
                self.sent[thread] = number
                if rate == float("inf"):
                    due = clock()
                    continue
                due = max(due + bunch / rate, clock() - BEHIND)
                self._ended.wait(max(due - clock(), 0.0))
        except Exception as error:  # a problem of the soak; the other threads go on
            self._note(f"send: {type(error).__name__}: {error}")
        finally:
            self.sent[thread] = number

    def _done(self, sent_at: float) -> Callable[[Delivery], None]:
        def done(delivery: Delivery) -> None:
            error = delivery.error
            if error is None:
                self.acknowledged += 1
                self._took.append(time.monotonic() - sent_at)
            else:
                self.failed += 1
                self._note(f"{type(error).__name__}: {error}")

        return done

    def _note(self, text: str) -> None:
        self.errors[text] = self.errors.get(text, 0) + 1


def second(load: Load, process: psutil.Process, at: float, phase: str, before: tuple[int, int, int]) -> Second:
    """What happened since the counts *before*, and what the process uses now."""
    took = sorted(load.take_times()) or [0.0]
    parts = quantiles(took, n=100, method="inclusive") if len(took) > 1 else [took[0]] * 99
    with process.oneshot():
        processor = process.cpu_times()
        return Second(
            at=round(at, 2),
            phase=phase,
            sent=sum(load.sent) - before[0],
            acknowledged=load.acknowledged - before[1],
            failed=load.failed - before[2],
            p50=round(parts[49] * 1e3, 2),
            p99=round(parts[98] * 1e3, 2),
            longest=round(took[-1] * 1e3, 1),
            rss=process.memory_info().rss,
            used=used_memory(),
            threads=process.num_threads(),
            descriptors=process.num_fds(),
            processor=round(processor.user + processor.system, 2),
        )


def run(soak: Soak) -> Total:
    """Send for the whole time, and print each second."""
    from ottla import Producer

    producer = Producer(
        bootstrap_servers=soak.servers,
        enable_idempotence=True,
        acks="all",
        linger_ms=5,
        record_encoder=soak.encoder,
        delivery_timeout_ms=300_000,
        request_timeout_ms=15_000,
        max_block_ms=300_000,
    )
    load, process = Load(producer, soak), psutil.Process()
    rates: list[int] = []
    gc.freeze()
    load.start()
    began = time.monotonic()
    for tick in range(1, int(soak.full_seconds + soak.seconds) + 1):
        phase = "full speed" if tick <= soak.full_seconds else "soak"
        if phase == "soak" and load.rate == float("inf"):
            load.rate = soak.share * sorted(rates)[len(rates) // 2]
        before = sum(load.sent), load.acknowledged, load.failed
        time.sleep(max(began + tick - time.monotonic(), 0.0))
        line = second(load, process, time.monotonic() - began, phase, before)
        rates.append(line.acknowledged)
        print(json.dumps(attrs.asdict(line)), flush=True)
    load.end()
    try:
        producer.close(timeout=300)
    except Exception as error:  # the total has what failed
        load.errors[f"close: {type(error).__name__}: {error}"] = 1
    return Total(sent=load.sent, acknowledged=load.acknowledged, failed=load.failed, errors=load.errors, rate=load.rate)


if __name__ == "__main__":
    print(json.dumps(attrs.asdict(run(Soak(**json.loads(sys.argv[1]))))), flush=True)
