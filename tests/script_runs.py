"""Runs a script of `producer_scripts` with Java's producer or with Ottla, in a simulated cluster of its own."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import attrs
from producer_scripts import Script
from served_cluster import RequestPlan, ServedCluster
from served_requests import collapsed

from ottla import Delivery, DeliveryError, Producer
from ottla.errors import (
    BrokerError,
    BufferExhaustedError,
    ConnectionFailedError,
    DeliveryTimeoutError,
    ErrorCode,
    OttlaError,
    ProducerFencedError,
    RecordTooLargeError,
    RequestTimeoutError,
    TopicUnavailableError,
    TransactionTimeoutError,
    UndeliveredError,
)
from ottla_testkit.java.jars import kafka_jars
from ottla_testkit.java.runtime import java_command
from ottla_testkit.simulation import AfterAppend, PlannedRequestFault, RequestFault

HANG_GUARD: Final = 25.0
BROKERS: Final = 3
BY_KEY: Final = "k"
"""In the place of a partition: the value is the key, too, and chooses the partition."""
SOURCE: Final = Path(__file__).parent / "java_producer" / "JavaProducer.java"

DEFAULTS: Final[Mapping[str, str]] = {
    "linger.ms": "0",
    "retry.backoff.ms": "20",
    "retry.backoff.max.ms": "40",
    "reconnect.backoff.ms": "20",
    "reconnect.backoff.max.ms": "40",
    "max.block.ms": "20000",
}
"""Settings of all producers: with short backoffs, scripts take less time."""


@attrs.frozen(kw_only=True)
class Run:
    """What a producer did with a script: outcomes of calls and records, what its brokers saw, and what they hold."""

    calls: Sequence[str]
    records: Sequence[str]
    requests: Sequence[str]
    logs: Sequence[str]
    misunderstood: Sequence[str]
    denied_in_vain: Sequence[str] = ()
    """Records that the log has, although the producer said that no broker may have them."""

    def lines(self) -> list[str]:
        """All of it as text."""
        parts = {"call": self.calls, "record": self.records, "log": self.logs, "request": self.requests}
        return [f"{name}: {line}" for name, lines in parts.items() for line in lines]


class Peer(Protocol):
    """A producer that a script drives."""

    def call(self, words: Sequence[str]) -> str:
        """Make a call, and return its outcome once it has returned."""

    def outcome(self, value: str) -> str:
        """Wait for the outcome of a record."""

    def outcomes(self) -> Sequence[str]:
        """The outcomes of records until now, in the order of their callbacks."""


class JavaProcess:
    """One Java for all scripts. Each producer in it has a name."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._peers: dict[str, JavaPeer] = {}
        self._writing = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[JavaProcess]:
        """Java, for as long as the block lasts."""
        # The program lives for seconds, so a faster start is worth more than faster code.
        options = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
        command = [java_command(), *options, "-cp", f"{kafka_jars()}/*", str(SOURCE)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            java = cls(process)
            try:
                yield java
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait(timeout=HANG_GUARD)
                java._reader.join(HANG_GUARD)

    def peer(self, name: str) -> JavaPeer:
        """Make a producer."""
        made = self._peers[name] = JavaPeer(lambda words: self._write(name, words))
        return made

    def _write(self, name: str, words: Sequence[str]) -> None:
        assert self._process.stdin is not None
        with self._writing:
            print(name, *words, file=self._process.stdin, flush=True)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            name, kind, rest = line.rstrip("\n").split(" ", 2)
            self._peers[name].take(kind, rest)


class JavaPeer:
    """One of Java's producers."""

    def __init__(self, write: Callable[[Sequence[str]], None]) -> None:
        self._write = write
        self._calls: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._records = _Outcomes()

    def take(self, kind: str, rest: str) -> None:
        """Take a line of Java's output."""
        if kind == "call":
            self._calls.put(rest)
        else:
            self._records.add(*rest.split(" ", 1))

    def call(self, words: Sequence[str]) -> str:
        self._write(words)
        return self._calls.get(timeout=HANG_GUARD)

    def outcome(self, value: str) -> str:
        return self._records.wait(value)

    def outcomes(self) -> Sequence[str]:
        # After a fatal error, Java may report a record twice: `send` does, and the thread that drops all batches.
        lines: dict[str, str] = {}
        for line in self._records.lines():
            value, kind, *_ = line.split()
            if value not in lines or kind == "refused":
                lines[value] = line
        return list(lines.values())


class OttlaPeer:
    """Ottla, which takes the same commands."""

    def __init__(self) -> None:
        self._producer: Producer
        self._records = _Outcomes()
        self.denied: list[str] = []
        """The values of records that no broker may have, as their errors say."""

    def call(self, words: Sequence[str]) -> str:
        command = words[0]
        try:
            self._execute(*words)
        except UndeliveredError:
            return "ok"  # Java's flush and close return, whatever became of the records
        except OttlaError as error:
            if command == "new":
                raise
            return f"error {_named(error)}"
        return "ok"

    def outcome(self, value: str) -> str:
        return self._records.wait(value)

    def outcomes(self) -> Sequence[str]:
        return self._records.lines()

    def _execute(self, command: str, *words: str) -> None:
        match command:
            case "new":
                self._producer = Producer(dict(word.split("=", 1) for word in words))
            case "send":
                self._send(*words)
            case "flush":
                self._producer.flush()
            case "init":
                self._producer.init_transactions()
            case "begin":
                self._producer.begin_transaction()
            case "commit":
                self._producer.commit_transaction()
            case "abort":
                self._producer.abort_transaction()
            case "offsets":
                group, topic, offset = words
                self._producer.send_offsets_to_transaction({(topic, 0): int(offset)}, group)
            case "close":
                self._producer.close(3)
            case _:
                raise ValueError(command)

    def _send(self, topic: str, partition: str, value: str, size: str) -> None:
        content = value.encode().ljust(int(size), b"\0")

        def note(delivery: Delivery) -> None:
            error = delivery.error
            if isinstance(error, DeliveryError) and not error.possibly_persisted:
                self.denied.append(value)
            metadata = delivery.metadata
            self._records.add(value, f"error {_named(error)}" if metadata is None else str(metadata.offset))

        try:
            self._producer.send(
                topic,
                content,
                key=value.encode() if partition == BY_KEY else None,
                partition=None if partition == BY_KEY else int(partition),
                timestamp_ms=1_700_000_000_000,
                on_delivery=note,
            )
        except OttlaError as error:
            # Java's `send` raises, too, or returns a failed future for what it calls an ApiException.
            self._records.add(value, f"refused {_named(error)}")


class _Outcomes:
    """The outcomes of records, in the order in which they came."""

    def __init__(self) -> None:
        self._came = threading.Condition()
        self._outcomes: list[tuple[str, str]] = []

    def add(self, value: str, outcome: str) -> None:
        with self._came:
            self._outcomes.append((value, outcome))
            self._came.notify_all()

    def wait(self, value: str) -> str:
        with self._came:
            assert self._came.wait_for(lambda: value in dict(self._outcomes), HANG_GUARD), f"{value} has no outcome"
            return dict(self._outcomes)[value]

    def lines(self) -> Sequence[str]:
        with self._came:
            return [f"{value} {outcome}" for value, outcome in self._outcomes]


def _named(error: BaseException | None) -> str:
    """Kafka's name of an error, as `JavaProducer.named` finds it for an exception of Java."""
    each = error
    while each is not None:
        match each:
            case ProducerFencedError():
                return ErrorCode.PRODUCER_FENCED.name
            case BrokerError():
                return each.code.name
            case DeliveryTimeoutError() | RequestTimeoutError() | TransactionTimeoutError() | BufferExhaustedError():
                return ErrorCode.REQUEST_TIMED_OUT.name
            case ConnectionFailedError():
                return ErrorCode.NETWORK_EXCEPTION.name
            case RecordTooLargeError():
                return ErrorCode.MESSAGE_TOO_LARGE.name
            case TopicUnavailableError() if each.__cause__ is None:
                return ErrorCode.REQUEST_TIMED_OUT.name
        each = each.__cause__
    return type(error).__name__.removesuffix("Error")


class ScriptRun:
    """One run of a script."""

    def __init__(self, script: Script, peer: Peer) -> None:
        self._script = script
        self._peer = peer
        self._served = ServedCluster(BROKERS)
        self._sent: list[str] = []
        self._calls: list[str] = []

    def run(self) -> Run:
        """Run all lines, and return what happened."""
        try:
            with self._served.serving() as servers:
                for line in self._script.lines:
                    self._do(line, servers)
                self._call(["close"], servers)
                self._settle()
        except BaseException:
            self._peer.call(["close"])
            raise
        denied = getattr(self._peer, "denied", ())
        logs = self._logs()
        held = {value for line in logs for value in line.split("[", 1)[1].rstrip("]").split()}
        return Run(
            calls=self._calls,
            records=self._peer.outcomes(),
            requests=collapsed(self._served.requests),
            logs=logs,
            misunderstood=[each for served in self._served.brokers.values() for each in served.broker.misunderstood],
            denied_in_vain=[value for value in denied if value in held],
        )

    def _do(self, line: str, servers: str) -> None:
        words = line.split()
        if words[0] == "*":
            self._disturb(words[1:])
        elif words[0] == "settle":
            self._settle()
        else:
            self._call(words, servers)

    def _settle(self) -> None:
        for value in self._sent:
            self._peer.outcome(value)

    def _call(self, words: list[str], servers: str) -> None:
        if words[0] == "new":
            given = dict(word.split("=", 1) for word in words[1:])
            settings = {**DEFAULTS, "bootstrap.servers": servers, **given}
            words = ["new", *(f"{key}={value}" for key, value in settings.items())]
        if words[0] == "send" and len(words) == 4:
            words = [*words, "0"]
        outcome = self._peer.call(words)
        assert words[0] != "new" or outcome == "ok", outcome
        if words[0] == "send":
            self._sent.append(words[3])
        if words[0] not in ("new", "send") or outcome != "ok":
            self._calls.append(f"{words[0]} {outcome}")

    def _disturb(self, words: list[str]) -> None:
        served = self._served
        command, *rest = words
        if command == "arrived":
            broker = served.brokers[int(rest[0])]
            served.wait_for(lambda: broker.produced >= int(rest[1]))
        elif command == "seen":
            served.wait_for(lambda: any(" ".join(rest) in line for line in served.requests))
        elif command == "later":
            served.later(float(rest[0]), lambda: self._change(*rest[1:]))
        elif command == "pause":
            time.sleep(float(rest[0]))
        elif command == "on":
            plan = self._plan(rest[0], int(rest[1]), rest[2], *rest[3:])
            served.change(lambda: served.plans.append(plan))
        else:
            served.change(lambda: self._change(*words))

    def _plan(self, subject: str, times: int, command: str, *words: str) -> RequestPlan:
        """What happens to the next requests of a name, or with a record."""
        plan = RequestPlan(subject, times)
        match command:
            case "before":
                plan.before = lambda: self._change(*words)
            case "after":
                plan.after = lambda: self._change(*words)
            case "refuse":
                plan.refusal = getattr(ErrorCode, words[0])
            case "refuse-after-append":
                plan.refusal = AfterAppend(getattr(ErrorCode, words[0]))
            case _:
                seconds = float(words[0]) if words else 0.0
                plan.fault = PlannedRequestFault(kind=RequestFault[command.upper()], seconds=seconds)
        return plan

    def _change(self, command: str, *words: str) -> None:
        cluster, names = self._served.cluster, self._served.names
        first = words[0] if words else ""
        served = self._served.brokers[int(first)] if first.isdigit() else self._served.brokers[1]
        match command:
            case "create" | "create-replicated":
                topic = cluster.create(
                    first, *map(int, words[1:]), min_insync=2 if command == "create-replicated" else None
                )
                names.topics = {**names.topics, topic.id: topic.name}
            case "refuse":
                code = getattr(ErrorCode, words[1])
                served.faults.extend([_refused(code)] * int(words[2] if len(words) > 2 else 1))
            case "refuse-after-append":
                served.faults.append(_refused(AfterAppend(getattr(ErrorCode, words[1]))))
            case "lost" | "unanswered" | "torn" | "ignored":
                served.faults.append(PlannedRequestFault(kind=RequestFault[command.upper()]))
            case "delayed":
                served.faults.append(PlannedRequestFault(kind=RequestFault.DELAYED, seconds=float(words[1])))
            case "accept":
                served.faults.extend([None] * int(words[1]))
            case "cut-inside":
                served.cuts_inside += 1
            case "hold" | "release":
                served.held = command == "hold"
            case "answer":
                self._answer_with(int(first), *words[1:])
            case "answer-once":
                shared = deque([getattr(ErrorCode, words[1])])
                for broker in cluster.brokers.values():
                    broker.errors_by_request[first] = shared
            case "lead":
                if cluster.brokers[int(words[2])].up:
                    cluster.topics[first].move_leader(int(words[1]), int(words[2]))
            case "hint":
                for broker in cluster.brokers.values():
                    broker.hints = True
            case "limit":
                cluster.topics[first].max_message_bytes = int(words[1])
            case "forget":
                cluster.topics[first].forget_producers()
            case "outdate":
                for entry in cluster.topics[first].log_of(0).producers.entries.values():
                    entry.epoch += 1
                    entry.batches.clear()
            case "recreate":
                leaders = list(cluster.topics[first].leaders)
                cluster.delete(first)
                self._change("create", first, *map(str, leaders))
            case "delete":
                cluster.delete(first)
            case "grow":
                cluster.add_partition(cluster.topics[first], int(words[1]))
            case "deny-topic":
                cluster.denied_topics.add(first)
            case "deny-id":
                cluster.denied_ids.add(first)
            case "stop":
                self._served.stop(int(first))
            case "away":
                self._stand_in(int(first))
            case "back":
                served.broker.up = True
            case "coordinator":
                if served.broker.up:
                    cluster.coordinator = int(first)
            case "load" | "loaded":
                cluster.coordinator_loads = command == "load"
            case "markers":
                cluster.transactions.marker_seconds = float(first)
            case "time-out":
                cluster.transactions.time_out(first)
            case "take-over":
                cluster.transactions.initialize(first, None)
                cluster.transactions.initialize(first, None)
            case "throttle":
                cluster.brokers[int(first)].throttle_ms = int(words[1])
            case "transactions":
                cluster.transaction_version = int(first)
            case "source":
                cluster.sources[first] = 1
            case "outdated":
                broker = cluster.brokers[int(first)]
                broker.outdated_metadata = cluster.answer_metadata(broker=int(first))
            case _:
                raise ValueError(command)

    def _stand_in(self, away: int) -> None:
        """Stop a broker, after others have taken over all that it does. One of the others stays up."""
        cluster = self._served.cluster
        others = [broker.id for broker in cluster.brokers.values() if broker.up and broker.id != away]
        if not others:
            return
        for topic in cluster.topics.values():
            for partition, leader in enumerate(topic.leaders):
                if leader == away:
                    topic.move_leader(partition, others[0])
        if cluster.coordinates == away:
            cluster.coordinator = others[0]
        self._served.stop(away)

    def _answer_with(self, broker: int, request: str, code: str) -> None:
        """Plan the error code of a request that is not Produce."""
        codes = self._served.cluster.brokers[broker].errors_by_request
        codes.setdefault(request, deque()).append(getattr(ErrorCode, code))

    def _logs(self) -> list[str]:
        """The batches of each partition, with those of deleted topics."""
        cluster = self._served.cluster
        lines = []
        for topic in [*cluster.deleted, *cluster.topics.values()]:
            for partition, log in sorted(topic.logs.items()):
                values = [(record.value or b"").rstrip(b"\0").decode() for record in log.records]
                marked = [
                    f"{value}{'(aborted)' * (place in log.aborted)}"
                    f"{'(open)' * any(place in each for each in log.open_transactions.values())}"
                    for place, value in enumerate(values)
                ]
                lines.append(f"{topic.name}-{partition} [{' '.join(marked)}]")
        offsets = cluster.transactions.committed_offsets
        lines += [f"{group} {topic}-{partition} [{offset}]" for (group, topic, partition), offset in offsets.items()]
        return lines


def _refused(code: Any) -> PlannedRequestFault:
    return PlannedRequestFault(kind=RequestFault.REFUSED, code=code)
