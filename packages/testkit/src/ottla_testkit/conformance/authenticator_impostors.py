"""The requirements for a mechanism that meets wrong and hostile brokers: a part of `AuthenticatorConformance`."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import ClassVar, Final, Literal, TypeAlias

import pytest

from ottla.errors import OttlaError
from ottla.interfaces import Authenticator, Mechanism
from ottla.network.authentication.exchange import MAX_TOKEN, MAX_TURNS
from ottla_testkit.conformance.harness.checked_layer import check, fail
from ottla_testkit.conformance.harness.login import CheckedMechanism, Login, MakeBroker, shown

HOSTILE: Final = (
    b"",
    b"\0",
    b"\x01",
    bytes(600),
    b"\xff" * 600,
    b"\xed\xa0\x80",
    b"e=other-error",
    b"r=,s=,i=",
    b"r=x,s=AAAA,i=99999999999999999999",
    b"v=AAAA",
    b'{"status":"invalid_token"}',
    b'{"version":[]}',
    b"[" * 100_000,
    b"a=b," * 50_000,
    b"A" * MAX_TOKEN,
)
_DRAWN: Final = 30
_DAMAGED: Final = 30
_FLIPPED: Final = 0x10
"""Bits that are flipped in a byte: with these, a digit in base64 or hexadecimal also gets another meaning."""
_Change: TypeAlias = Literal["first", "last", "any", "longer"] | float
_CHANGES: Final[Sequence[_Change]] = ("first", "last", *("any",) * 8, 0.0, 0.01, 0.5, 1.0, "longer")
"""Changes of a proof: one byte, a byte too many, or what remains of its length, at least a byte less."""
_MARKER: Final = "what-the-broker-has-sent"


class ImpostorRequirements(CheckedMechanism):
    """A part of `AuthenticatorConformance`."""

    mutual: ClassVar[bool] = False
    """Whether the broker has to authenticate itself, too: then only its correct messages complete a login."""
    checks_answers: ClassVar[bool] = False
    """Whether it refuses what no honest broker sends, although the broker proves nothing: each garbled answer."""

    def test_garbage_is_refused_with_a_message_at_every_stage(
        self, mechanism: Mechanism, broker: MakeBroker | None, chance: random.Random
    ) -> None:
        garbage = [*HOSTILE, *(chance.randbytes(chance.randrange(1, 300)) for _ in range(_DRAWN))]
        for stage in range(self._stages(mechanism, broker)):
            for data in garbage:
                login = self._at(stage, mechanism, broker)
                # After a broker's proof, its last message may be empty, and is then no garbage.
                if stage == 0 or broker is None or login.receive() != data:
                    self._run_out(login, mechanism, data)

    def test_damaged_messages_are_refused_with_a_message(
        self, mechanism: Mechanism, broker: MakeBroker | None, chance: random.Random
    ) -> None:
        make = needed(broker)
        for stage in range(len(self._log_in(mechanism, make))):
            for _ in range(_DAMAGED):
                login = self._at(stage, mechanism, make)
                received = bytearray(login.receive())
                for _ in range(chance.choice((1, 2, 5))):
                    if received:
                        received[chance.randrange(len(received))] = chance.randrange(256)
                self._outcome(mechanism, login.exchange, bytes(received))

    def test_a_changed_proof_completes_no_login(
        self, mechanism: Mechanism, broker: MakeBroker | None, chance: random.Random
    ) -> None:
        make = self._mutual(broker)
        said = self._log_in(mechanism, make)
        # After a broker's proof, its last messages may be empty.
        stage = max((number for number, message in enumerate(said) if message), default=0)
        for change in _CHANGES:
            login = self._at(stage, mechanism, make)
            received = login.receive()
            what, changed = _changed(change, received, self.proof_in(received), chance)
            why = "an impostor without the secret could pose as the broker"
            for data in (changed, *said[stage + 1 :]):
                if self._check_not_done(mechanism, login.exchange, data, f"the broker's proof {what}", why):
                    break

    def test_its_own_messages_complete_no_login(self, mechanism: Mechanism, broker: MakeBroker | None) -> None:
        make = self._mutual(broker)
        for stage in range(len(self._log_in(mechanism, make))):
            login = self._at(stage, mechanism, make)
            data = login.message
            for _ in range(MAX_TURNS):
                outcome = self._outcome(mechanism, login.exchange, data)
                if isinstance(outcome, OttlaError):
                    break
                check(
                    not outcome.done,
                    "the mechanism's own messages, sent back, ended a login well; an impostor without the secret could "
                    "pose as the broker: the two sides' proofs must differ",
                )
                data = outcome.reply or b""

    def test_data_of_a_broker_is_not_quoted(self, mechanism: Mechanism, broker: MakeBroker | None) -> None:
        for stage in range(self._stages(mechanism, broker)):
            outcome = self._outcome(mechanism, self._at(stage, mechanism, broker).exchange, _MARKER.encode())
            if isinstance(outcome, OttlaError):
                check(
                    _MARKER not in str(outcome),
                    f"an error quotes the broker's message {_MARKER!r}; anybody can be the broker, and the error is "
                    "logged: give its size, or what is wrong with it",
                )

    def test_an_old_login_cannot_be_replayed(self, mechanism: Mechanism, broker: MakeBroker | None) -> None:
        received = self._log_in(mechanism, needed(broker))
        self._expect_no_end(mechanism, received, "the messages of an earlier login")

    def test_messages_out_of_order_complete_no_login(self, mechanism: Mechanism, broker: MakeBroker | None) -> None:
        make = needed(broker)
        received = self._log_in(mechanism, make)
        self._expect_no_end(mechanism, received[::-1], "a broker's messages in the wrong order")
        login = self._at(0, mechanism, make)
        first = login.receive()
        self._outcome(mechanism, login.exchange, first)
        if len(received) > 1:
            self._check_not_done(mechanism, login.exchange, first, "a broker's first message twice")

    def test_after_any_broker_response_the_next_login_works(
        self, mechanism: Mechanism, broker: MakeBroker | None
    ) -> None:
        make = needed(broker)
        for data in HOSTILE:
            self._run_out(self._at(0, mechanism, make), mechanism, data)
            self._log_in(mechanism, make)

    def proof_in(self, message: bytes) -> range:
        """Return where the proof is in the last message of a broker; override it if some of its bytes prove nothing."""
        return range(len(message))

    def _mutual(self, broker: MakeBroker | None) -> MakeBroker:
        if not self.mutual:
            pytest.skip("`mutual` is False: brokers prove nothing")
        return needed(broker)

    def _run_out(self, login: Login, mechanism: Mechanism, data: bytes) -> None:
        """Send the same message until the mechanism refuses it or is done."""
        for _ in range(MAX_TURNS):
            outcome = self._outcome(mechanism, login.exchange, data)
            if isinstance(outcome, OttlaError):
                return
            if outcome.done:
                check(
                    not self.mutual,
                    f"{shown(data)} ended the login well; a broker that proves nothing may be an impostor",
                )
                check(
                    not (self.checks_answers and data),
                    f"{shown(data)} ended the login well, and no honest broker sends it: refuse what is not expected; "
                    "checks_answers = False allows it",
                )
                return

    def _expect_no_end(self, mechanism: Mechanism, messages: Sequence[bytes], what: str) -> None:
        exchange = self._begun(mechanism)
        self._start(mechanism, exchange)
        for data in messages:
            if self._check_not_done(mechanism, exchange, data, what):
                return

    def _check_not_done(
        self,
        mechanism: Mechanism,
        exchange: Authenticator,
        data: bytes,
        what: str,
        why: str = "an eavesdropper on one login could pose as the broker",
    ) -> bool:
        """Return whether the exchange has ended: refused, or done if the broker need not authenticate itself."""
        outcome = self._outcome(mechanism, exchange, data)
        if isinstance(outcome, OttlaError):
            return True
        check(
            not (self.mutual and outcome.done),
            f"{what} ended a login well; {why}",
        )
        return outcome.done


def needed(broker: MakeBroker | None) -> MakeBroker:
    if broker is None:
        pytest.skip("no fixture `broker` makes the other half of a login")
    return broker


def _changed(change: _Change, message: bytes, proof: range, chance: random.Random) -> tuple[str, bytes]:
    """Return what is done to the proof in a broker's message, and the message after it."""
    before, part, after = message[: proof.start], message[proof.start : proof.stop], message[proof.stop :]
    if not part:
        fail("the last message of the broker has no proof; a mechanism whose broker proves nothing is not `mutual`")
    match change:
        case "longer":
            return "with a byte appended", before + part + part[-1:] + after
        case float():
            size = min(math.ceil(len(part) * change), len(part) - 1)
            return f"cut from {len(part)} to {size} bytes", before + part[:size] + after
        case _:
            place = {"first": 0, "last": len(part) - 1}.get(change, chance.randrange(len(part)))
            flipped = bytes([part[place] ^ _FLIPPED])
            return f"with another byte {place}", before + part[:place] + flipped + part[place + 1 :] + after
