"""All requirements for a `Transport` and its layers.

```python
class TestMine(TransportConformance):
    @pytest.fixture
    def transport(self):
        return MyTransport()

    @pytest.fixture
    def peer(self):
        return MyPeer  # takes a connected socket; PlainPeer where nothing changes the bytes
```

The suite moves the bytes between the two itself, so that it can stop them, cut them and insert others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Final

import pytest

from ottla.interfaces import HostTarget, Interest, SupportsOpenOver, Target, Transport, TransportLayer
from ottla_testkit.conformance.harness.bounded_suite import check_contract
from ottla_testkit.conformance.harness.checked_layer import check, fail, has_ability
from ottla_testkit.conformance.harness.session import LayerSession
from ottla_testkit.conformance.harness.thread_leaks import StartedThreads
from ottla_testkit.conformance.harness.transport_connections import Begin, MakePeer
from ottla_testkit.conformance.harness.wire import PIECE, Wire
from ottla_testkit.conformance.transport_data import DataRequirements
from ottla_testkit.conformance.transport_handshake import HandshakeRequirements
from ottla_testkit.conformance.transport_refusals import RefusalRequirements

_SMALL_PIECE: Final = 512


class TransportConformance(HandshakeRequirements, RefusalRequirements, DataRequirements):
    """Tests of a transport: derive a class `Test...` from it.

    Override `transport` and `peer`; preferably `refusing_peer` and `secrets`, too.
    """

    # The transport

    def test_targets_are_none_or_a_sequence_of_targets(self, transport: Transport) -> None:
        for host in (self.host, "another.example.com"):
            targets: Any = transport.targets(host, self.port)
            check(
                targets is None
                or (isinstance(targets, Sequence) and all(isinstance(each, Target | HostTarget) for each in targets)),
                f"targets({host!r}, {self.port}) returned {targets!r}; it must be None or a sequence of Target or "
                "HostTarget",
            )
            check(
                targets is None or len(targets) > 0,
                f"targets({host!r}, {self.port}) returned no address at all; None resolves the broker's name as usual",
            )

    def test_it_has_every_method_of_the_contract(self, transport: Transport, peer: MakePeer) -> None:
        check_contract(transport, Transport)
        check(
            self.over_layers or not has_ability(transport, SupportsOpenOver),
            "over_layers is False, and the transport has `open_over`, which would not be tested",
        )
        wire = Wire(self.socket_pair, large_buffers=True)
        with contextlib.closing(wire):
            layer = transport.open(wire.layer_end, self.host, self.port)
            check_contract(layer, TransportLayer, made_by="open()")

    def test_two_connections_do_not_disturb_each_other(self, begin: Begin) -> None:
        one, other = begin(), begin()
        one.turn()
        other.open()
        one.open()
        one.peer.write(b"for one")
        one.turn_of_the_wire()
        other.exchange(b"by the other", b"for the other")
        one.send(b"by one")
        one.until(
            lambda: one.all_taken and one.peer.received == b"by one" and one.received == b"for one",
            "of two connections of one transport, the first does not get its own bytes, or not only those",
        )

    # An idle connection

    def test_an_idle_connection_causes_no_wakeups(self, begin: Begin) -> None:
        session = begin()
        session.open()
        session.exchange(b"ping", b"pong")
        while session.read(1000):
            pass
        interest = session.layer.interest()
        check(
            not interest & Interest.WRITE,
            f"nothing waits to be written, and interest() is {interest!r}: a socket that can be written to would wake "
            "the I/O thread all the time",
        )
        check(not session.events, "nothing happens, and the socket is ready for what the layer waits for")

    def test_details_for_the_doctor_are_pairs_of_texts(self, begin: Begin) -> None:
        session = begin()
        session.open()
        session.layer.details()
        session.layer.cipher()

    # Closing

    @pytest.mark.parametrize("stage", ["opened", "begun", "half-way", "ready", "full", "hung up", "failed"])
    def test_closing_is_possible_at_any_stage_and_more_than_once(self, begin: Begin, stage: str) -> None:
        session = begin()
        _bring_to(stage, session)
        session.layer.close()
        check(session.wire.layer_end.fileno() == -1, f"close() left the socket open (stage: {stage})")
        session.layer.close()

    def test_the_peer_notices_a_close(self, begin: Begin) -> None:
        session = begin()
        session.open()
        session.exchange(b"ping", b"pong")
        session.layer.close()
        session.ended = True
        session.until(lambda: session.peer.ended, "the peer did not see that the layer has closed", ends=True)

    def test_flushed_data_arrives_although_the_layer_closes(self, begin: Begin) -> None:
        session = begin()
        session.open()
        written = session.fill()
        session.send(b"!")
        session.piece = _SMALL_PIECE  # so that the last bytes have left the layer, but not the system
        session.until(lambda: session.all_taken, "flush() never says that everything has left")
        session.piece = PIECE
        session.layer.close()
        if not session.comes_alone(lambda: len(session.peer.received) > written):
            fail(
                f"close() threw away {written + 1 - len(session.peer.received)} bytes that flush() said had left: "
                "a reset does that"
            )

    def test_close_ends_background_work(
        self, started_threads: StartedThreads, transport: Transport, begin: Begin
    ) -> None:
        with self._closed_after(transport, started_threads):
            session = begin()
            session.open()
            session.exchange(b"ping", b"pong")
            session.layer.close()


def _bring_to(stage: str, session: LayerSession) -> None:
    if stage == "begun":
        session.turn()
    elif stage == "half-way":
        session.piece = 1
        for _ in range(20):
            session.turn()
    elif stage in ("ready", "full"):
        session.open()
        if stage == "full":
            session.fill()
    elif stage in ("hung up", "failed"):
        session.turn()
        session.wire.reset()
        if stage == "failed":
            session.until_over("the peer has crashed, and the layer does not report it")
