"""A simulated cluster behind sockets on 127.0.0.1, for producers of any language, in real time.

Each broker has an address. A test plans what happens to the next Produce requests of a broker, and reads afterwards
which requests came and what the brokers answered.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import attrs
from served_requests import RequestNames, contents, is_routine

from ottla.errors import ErrorCode
from ottla.protocol import PRODUCE
from ottla_testkit.simulation import (
    AfterAppend,
    Chance,
    OfPartitions,
    PendingResponse,
    RequestFault,
    Session,
    SimulatedBroker,
    SimulatedCluster,
)
from ottla_testkit.simulation.login import HangUpError
from ottla_testkit.simulation.pending_response import KnownResponse, Response, when_known
from ottla_testkit.simulation.planned_network import PlannedRequestFault
from ottla_testkit.simulation.schedule import Schedule

HANG_GUARD: Final = 30.0


@attrs.define(eq=False)
class RequestPlan:
    """What happens to the next requests of a kind, or to those with a record: *subject* is a name or a value.

    *before* and *after* change the cluster, before the broker processes the request and before it responds.
    """

    subject: str
    times: int
    refusal: ErrorCode | AfterAppend | None = None
    """With what the broker refuses the record's partition, or the whole request if it is not Produce."""
    fault: PlannedRequestFault | None = None
    before: Callable[[], object] = lambda: None
    after: Callable[[], object] = lambda: None


@attrs.define(eq=False)
class ServedBroker:
    """A broker, and what is planned for the next Produce requests to it."""

    broker: SimulatedBroker
    listener: socket.socket
    faults: deque[PlannedRequestFault | None] = attrs.field(factory=deque)
    cuts_inside: int = 0
    """How many of the next Produce requests are read in part, before the connection is closed."""
    held: bool = False
    """Whether the broker processes no Produce request for now. It still reads them."""
    produced: int = 0
    """How many Produce requests the broker has read."""
    peers: set[socket.socket] = attrs.field(factory=set)


class ServedCluster:
    """Brokers with the ids 1 to *count*. All that changes the cluster goes through `change`."""

    def __init__(self, count: int) -> None:
        self.cluster = SimulatedCluster.of(*range(1, count + 1))
        self.names = RequestNames()
        self.requests: list[str] = []
        """What came and what was answered, without ApiVersions and Metadata. Repeats in a row are one."""
        self.schedule = Schedule(time.monotonic)
        self.changed = threading.Condition(threading.RLock())
        self.brokers: dict[int, ServedBroker] = {}
        self.plans: list[RequestPlan] = []
        """In the order in which they apply to the requests with the same subject, at any broker."""
        self._threads: list[threading.Thread] = []
        self._ended = False

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        """The bootstrap servers, for as long as the block lasts."""
        self.cluster.wall_clock = time.time
        self.cluster.controller.begin(self.schedule, Chance(1), set())
        for node, broker in self.cluster.brokers.items():
            listener = socket.create_server(("127.0.0.1", 0))
            broker.address = listener.getsockname()
            self.brokers[node] = ServedBroker(broker, listener)
        for served in self.brokers.values():
            self._start(self._accept, served)
        self._start(self._keep_time)
        try:
            yield ",".join(f"{host}:{port}" for host, port in map(self.cluster.address_of, self.brokers))
        finally:
            self._end()

    def change(self, action: Callable[[], object]) -> None:
        """Change something between two requests."""
        with self.changed:
            action()
            self.changed.notify_all()

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Change something after a while."""
        self.change(lambda: self.schedule.later(seconds, lambda: self.change(action)))

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something is true that stays true."""
        with self.changed:
            assert self.changed.wait_for(condition, HANG_GUARD), f"this never came; the requests: {self.requests}"

    def stop(self, node: int) -> None:
        """Stop a broker: its connections end, and new ones, too."""
        served = self.brokers[node]
        served.broker.up = False
        for peer in served.peers:
            _shut_down(peer)

    def _start(self, work: Callable[..., object], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _end(self) -> None:
        with self.changed:
            self._ended = True
            self.changed.notify_all()
            for served in self.brokers.values():
                for peer in served.peers:
                    _shut_down(peer)
        for served in self.brokers.values():
            with contextlib.suppress(OSError):
                socket.create_connection(served.listener.getsockname()).close()
        for thread in self._threads:
            thread.join(HANG_GUARD)
        for served in self.brokers.values():
            served.listener.close()

    def _keep_time(self) -> None:
        with self.changed:
            while not self._ended:
                self.schedule.run()
                self.changed.wait(max(0.0, min(1.0, self.schedule.next_at - time.monotonic())))

    def _accept(self, served: ServedBroker) -> None:
        while True:
            peer, _address = served.listener.accept()
            with self.changed:
                if self._ended or not served.broker.up:
                    peer.close()
                    if self._ended:
                        return
                    continue
                served.peers.add(peer)
                self._start(self._serve, served, peer)

    def _serve(self, served: ServedBroker, peer: socket.socket) -> None:
        """Read the requests of a connection at once, and process them one after the other."""
        frames: deque[bytes | None] = deque()
        self._start(self._process, served, peer, frames)
        with contextlib.suppress(OSError, EOFError):
            while True:
                frame = self._read(served, peer)
                with self.changed:
                    served.produced += _is_produce(frame)
                    frames.append(frame)
                    self.changed.notify_all()
        with self.changed:
            frames.append(None)
            self.changed.notify_all()

    def _read(self, served: ServedBroker, peer: socket.socket) -> bytes:
        """Return the next request. Raises EOFError at the end of the connection."""
        size = int.from_bytes(_exactly(peer, 4), "big")
        beginning = _exactly(peer, 8)
        with self.changed:
            if _is_produce(beginning) and served.cuts_inside:
                served.cuts_inside -= 1
                self._note(f"{served.broker.id}: Produce, cut inside")
                _shut_down(peer)
        return beginning + _exactly(peer, size - 8)

    def _process(self, served: ServedBroker, peer: socket.socket, frames: deque[bytes | None]) -> None:
        session = Session()
        # A connection ends by `shutdown`: `close` alone sends nothing while the other thread waits for bytes.
        with contextlib.closing(peer), contextlib.ExitStack() as ending, contextlib.suppress(OSError, HangUpError):
            ending.callback(_shut_down, peer)
            while (frame := self._next(served, frames)) is not None:
                with self.changed:
                    response = self._answer(served, session, frame, peer)
                    self.changed.notify_all()
                    known = self._wait_until_known(response, frames)
                if known is None:
                    break
                if (content := known.content) is not None:
                    peer.sendall(len(content).to_bytes(4, "big") + content)
        with self.changed:
            served.peers.discard(peer)

    def _wait_until_known(self, response: Response, frames: deque[bytes | None]) -> KnownResponse | None:
        """Wait for a response. Return None if the connection ended before it."""
        known: list[KnownResponse] = []
        when_known(response, lambda each: self.change(lambda: known.append(each)))
        self.changed.wait_for(lambda: known or self._ended or None in frames)
        return known[0] if known else None

    def _next(self, served: ServedBroker, frames: deque[bytes | None]) -> bytes | None:
        def ready() -> bool:
            return self._ended or (bool(frames) and not (served.held and frames[0] and _is_produce(frames[0])))

        with self.changed:
            self.changed.wait_for(ready)
            return None if self._ended else frames.popleft()

    def _answer(self, served: ServedBroker, session: Session, frame: bytes, peer: socket.socket) -> Response:
        """Process a request as planned, and note it."""
        fault = served.faults.popleft() if served.faults and _is_produce(frame) else None
        plans = self._take_plans(frame) if self.plans else {}
        for plan in plans:
            plan.before()
        fault = self._planned_fault(served, frame, plans) or fault
        if fault is not None and fault.kind is RequestFault.LOST:
            number = served.broker.id
            what = f"{number}: {PRODUCE.name}" if _is_produce(frame) else self.names.request(number, frame)
            self._note(f"{what}, lost")
            raise HangUpError("the request is lost")
        if fault is not None and fault.kind is RequestFault.REFUSED:
            served.broker.codes.append(fault.code)
        noted = self.names.request(served.broker.id, frame)
        try:
            response = served.broker.respond(session, frame, time.monotonic())
        except HangUpError as error:
            self._note(f"{noted} -> hangs up: {error}")
            raise
        for plan in plans:
            plan.after()
        if not is_routine(frame):
            end = "" if fault is None or fault.kind is RequestFault.REFUSED else f", {fault.kind.name.lower()}"
            place = self._note(noted)
            when_known(response, lambda known: self._note_answer(place, frame, known.content, end))
        if fault is None:
            return response
        return self._with_fault(response, fault, peer)

    def _take_plans(self, frame: bytes) -> Mapping[RequestPlan, tuple[str, int] | None]:
        """The plans for this request, with the partitions of their records: the first one of each subject."""
        taken: dict[RequestPlan, tuple[str, int] | None] = {}
        for subject, place in contents(frame, self.names.topics).items():
            plan = next((plan for plan in self.plans if plan.subject == subject and plan.times), None)
            if plan is not None:
                plan.times -= 1
                taken[plan] = place
        return taken

    def _planned_fault(
        self, served: ServedBroker, frame: bytes, plans: Mapping[RequestPlan, tuple[str, int] | None]
    ) -> PlannedRequestFault | None:
        """Plan refusals at the broker, and return the fault of the whole request."""
        fault = None
        refused: dict[tuple[str, int], int | AfterAppend] = {}
        for plan, place in plans.items():
            fault = plan.fault or fault
            if plan.refusal is not None and place is not None:
                refused[place] = plan.refusal
            elif isinstance(plan.refusal, ErrorCode):
                served.broker.errors_by_request.setdefault(plan.subject, deque()).append(plan.refusal)
        if refused and (fault is None or fault.kind is not RequestFault.LOST):
            served.broker.codes.append(OfPartitions(refused))
        return fault

    def _with_fault(self, response: Response, fault: PlannedRequestFault, peer: socket.socket) -> Response:
        match fault.kind:
            case RequestFault.UNANSWERED:
                raise HangUpError("no response")
            case RequestFault.IGNORED:
                return PendingResponse()
            case RequestFault.TORN:
                if isinstance(response, PendingResponse) or response.content is None:
                    raise HangUpError("no response")
                framed = len(response.content).to_bytes(4, "big") + response.content
                peer.sendall(framed[: len(framed) // 2])
                raise HangUpError("half a response")
            case RequestFault.DELAYED:
                late = PendingResponse()
                when_known(response, lambda known: self.later(fault.seconds, lambda: late.give(known)))
                return late
            case _:
                return response

    def _note(self, what: str) -> int:
        self.requests.append(what)
        self.changed.notify_all()
        return len(self.requests) - 1

    def _note_answer(self, place: int, frame: bytes, content: bytes | None, end: str) -> None:
        self.requests[place] += f" -> {self.names.response(frame, content)}{end}"


def _is_produce(frame: bytes) -> bool:
    return int.from_bytes(frame[:2], "big") == PRODUCE.key


def _shut_down(peer: socket.socket) -> None:
    with contextlib.suppress(OSError):
        peer.shutdown(socket.SHUT_RDWR)


def _exactly(peer: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        more = peer.recv(size - len(got))
        if not more:
            raise EOFError
        got += more
    return bytes(got)
