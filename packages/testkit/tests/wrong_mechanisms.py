"""Mechanisms that each break one promise, all made from one that keeps them, and the broker that they log in to."""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
import time
from typing import Any

from ottla.errors import AuthenticationError
from ottla.interfaces import Authenticator, Step

PASSWORD = "the ducks fly south"


def proof(who: str, ours: bytes, theirs: bytes) -> bytes:
    """A proof that the client knows the password."""
    return hmac.digest(PASSWORD.encode(), who.encode() + ours + theirs, "sha256").hex().encode()


class Broker:
    """Says a nonce, then its proof for the right one."""

    def __init__(self) -> None:
        self.satisfied = False
        self.theirs: bytes | None = None
        self.ours = secrets.token_hex(8).encode()

    def answer(self, data: bytes) -> bytes:
        if self.theirs is None:
            self.theirs = data
            return self.ours
        if data != proof("user", self.theirs, self.ours):
            raise ValueError("the proof is wrong")
        self.satisfied = True
        return proof("broker", self.theirs, self.ours)


class Exchange:
    """Nonce, proof, and a check of the broker's."""

    def __init__(self, mechanism: Right) -> None:
        self.mechanism = mechanism
        self.ours = mechanism.nonce()
        self.theirs: bytes | None = None

    def start(self) -> bytes:
        return self.ours

    def challenge(self, data: bytes) -> Step:
        if self.theirs is None:
            if len(data) != 16:
                raise AuthenticationError(f"the broker's nonce has {len(data)} bytes, not 16")
            self.theirs = data
            return Step(reply=proof("user", self.ours, data), done=False)
        return self.verify(data)

    def verify(self, data: bytes) -> Step:
        assert self.theirs is not None
        if not hmac.compare_digest(data, proof("broker", self.ours, self.theirs)):
            raise AuthenticationError("the broker does not know the password")
        return Step(reply=None, done=True)


class Right:
    """Keeps all promises."""

    name = "X-PROOF"
    blocking = False
    identity = "ann"
    remedy = "check the password"
    exchange: type[Exchange] = Exchange

    def nonce(self) -> bytes:
        return secrets.token_hex(8).encode()

    def authenticator(self, host: str, port: int) -> Authenticator:
        return self.exchange(self)


class TokenBroker:
    """Answers the password with nothing."""

    def __init__(self) -> None:
        self.satisfied = False

    def answer(self, data: bytes) -> bytes:
        self.satisfied = data == PASSWORD.encode()
        return b""


class SendsAToken(Right):
    """One message, and whatever the broker answers: it proves nothing."""

    class OfAToken(Exchange):
        def start(self) -> bytes:
            return PASSWORD.encode()

        def challenge(self, data: bytes) -> Step:
            return Step(reply=None, done=True)

    exchange = OfAToken


class HasABlankInItsName(Right):
    name = "proof of x"


class DoesNotSayWhetherItBlocks(Right):
    blocking = None  # type: ignore[assignment]


class DoesNotSayWhetherItIsConcurrent(Right):
    concurrent_logins = "yes"


class WaitsAsALoginBegins(Right):
    blocking = True
    concurrent_logins = True

    def authenticator(self, host: str, port: int) -> Authenticator:
        time.sleep(0.8)  # what is caught is just this
        return super().authenticator(host, port)


class IsItsOwnExchange(Right):
    """One for all connections."""

    def __init__(self) -> None:
        self.only = Exchange(self)

    def authenticator(self, host: str, port: int) -> Authenticator:
        return self.only


class SharesItsNonce(Right):
    """The broker's, with all exchanges."""

    class Sharing(Exchange):
        def challenge(self, data: bytes) -> Step:
            if self.theirs is None:
                step = super().challenge(data)
                SharesItsNonce.last = data
                return step
            self.theirs = SharesItsNonce.last
            return super().challenge(data)

    exchange = Sharing
    last = b""


class NeedsAHostWithDots(Right):
    def authenticator(self, host: str, port: int) -> Authenticator:
        assert host.split(".")[1]
        return super().authenticator(host, port)


class SaysText(Right):
    class Saying(Exchange):
        def start(self) -> Any:
            return self.ours.decode()

    exchange = Saying


class ReturnsAPair(Right):
    class Returning(Exchange):
        def challenge(self, data: bytes) -> Any:
            return super().challenge(data).reply, False

    exchange = Returning


class HasNothingToSay(Right):
    class Silent(Exchange):
        def verify(self, data: bytes) -> Step:
            return Step(reply=None, done=False)

    exchange = Silent


class SaysTooMuch(Right):
    class Saying(Exchange):
        def challenge(self, data: bytes) -> Step:
            return Step(reply=bytes(1 << 20), done=False)

    exchange = Saying


class NeverEnds(Right):
    class Endless(Exchange):
        def verify(self, data: bytes) -> Step:
            super().verify(data)
            return Step(reply=proof("user", self.ours, self.theirs or b""), done=False)

    exchange = Endless


class IsDoneTooEarly(Right):
    class Hasty(Exchange):
        def challenge(self, data: bytes) -> Step:
            super().challenge(data)
            return Step(reply=None, done=True)

    exchange = Hasty


class ForgetsThePassword(Right):
    class Forgetful(Exchange):
        def challenge(self, data: bytes) -> Step:
            step = super().challenge(data)
            return step if step.reply is None else Step(reply=b"?", done=False)

    exchange = Forgetful


class CrashesOnGarbage(Right):
    class Crashing(Exchange):
        def challenge(self, data: bytes) -> Step:
            bytes.fromhex(data.decode("ascii"))
            return super().challenge(data)

    exchange = Crashing


class TrustsAnybody(Right):
    class Trusting(Exchange):
        def verify(self, data: bytes) -> Step:
            return Step(reply=None, done=True)

    exchange = Trusting


class HasOneNonce(Right):
    def nonce(self) -> bytes:
        return b"0123456789abcdef"


class RemembersThatItWasFooled(Right):
    class Remembering(Exchange):
        def challenge(self, data: bytes) -> Step:
            if self.mechanism.remedy == "despair":
                raise AuthenticationError("never again")
            try:
                return super().challenge(data)
            except AuthenticationError:
                self.mechanism.remedy = "despair"
                raise

    exchange = Remembering


class TakesTheFirstForTheSecond(Right):
    """Ends well when the broker's nonce comes twice."""

    class Taking(Exchange):
        def verify(self, data: bytes) -> Step:
            return Step(reply=None, done=True) if data == self.theirs else super().verify(data)

    exchange = Taking


class ShowsItselfWhole(Right):
    def __repr__(self) -> str:
        return f"<mechanism with {PASSWORD}>"


class ShowsItInAnExchange(Right):
    class Showing(Exchange):
        def __repr__(self) -> str:
            return f"<exchange with {PASSWORD.encode().hex()}>"

    exchange = Showing


class TellsItAsARemedy(Right):
    remedy = f"is {PASSWORD!r} right?"


class TellsItInAnError(Right):
    class Telling(Exchange):
        def challenge(self, data: bytes) -> Step:
            try:
                return super().challenge(data)
            except AuthenticationError as error:
                raise AuthenticationError("refused") from ValueError(f"{error}, although {PASSWORD}")

    exchange = Telling


class LogsIt(Right):
    class Logging(Exchange):
        def start(self) -> bytes:
            logging.getLogger("mechanism").debug("the password is %s", PASSWORD)
            return super().start()

    exchange = Logging


class PrintsIt(Right):
    class Printing(Exchange):
        def start(self) -> bytes:
            print("the password is", PASSWORD)
            return super().start()

    exchange = Printing


class WaitsWithoutSaying(Right):
    class Waiting(Exchange):
        def start(self) -> bytes:
            time.sleep(1)  # what is caught is just this
            return super().start()

    exchange = Waiting


class ComputesForEver(Right):
    blocking = True

    class Computing(Exchange):
        def challenge(self, data: bytes) -> Step:
            if len(data) > 1000:
                time.sleep(3)  # what is caught is just this
            return super().challenge(data)

    exchange = Computing


class RaisesInClose(Right):
    def close(self) -> None:
        raise AuthenticationError("there is something left")


class LeavesAThread(Right):
    def __init__(self) -> None:
        self.over = threading.Event()
        threading.Thread(target=self.over.wait, args=(5,), name="left-behind", daemon=True).start()

    def close(self) -> None:
        pass


class EndsItsThread(LeavesAThread):
    """As it should be."""

    def close(self) -> None:
        self.over.set()


class TakesAShortenedProof(Right):
    class Taking(Exchange):
        def verify(self, data: bytes) -> Step:
            right = proof("broker", self.ours, self.theirs or b"")
            return Step(reply=None, done=True) if data and right.startswith(data) else super().verify(data)

    exchange = Taking


class ComparesHalfOfTheProof(Right):
    class Comparing(Exchange):
        def verify(self, data: bytes) -> Step:
            right = proof("broker", self.ours, self.theirs or b"")
            return Step(reply=None, done=True) if data[:32] == right[:32] else super().verify(data)

    exchange = Comparing


class TakesALongerProof(Right):
    class Taking(Exchange):
        def verify(self, data: bytes) -> Step:
            return super().verify(data[:64])

    exchange = Taking


class TakesItsOwnProof(Right):
    class Taking(Exchange):
        def verify(self, data: bytes) -> Step:
            own = proof("user", self.ours, self.theirs or b"")
            return Step(reply=None, done=True) if data == own else super().verify(data)

    exchange = Taking


class TellsItAfterAWrongProof(Right):
    """Only for a proof of the right length."""

    class Telling(Exchange):
        def verify(self, data: bytes) -> Step:
            try:
                return super().verify(data)
            except AuthenticationError:
                if len(data) != 64:
                    raise
                raise AuthenticationError(f"the broker does not know {PASSWORD}") from None

    exchange = Telling


class LogsItWhenItIsMade(Right):
    def __init__(self) -> None:
        logging.getLogger("mechanism").info("made with %s", PASSWORD)


class QuotesTheBroker(Right):
    class Quoting(Exchange):
        def verify(self, data: bytes) -> Step:
            if len(data) != 64:
                raise AuthenticationError(f"the broker's proof is {data!r}")
            return super().verify(data)

    exchange = Quoting


class NotesRefusals(Right):
    """As it should be."""

    class Noting(Exchange):
        def refused(self, *, certain: bool) -> None:
            self.mechanism.remedy = "renew the password" if certain else "is it the password?"

    exchange = Noting


class NotesRefusalsWithoutCertain(Right):
    class Noting(Exchange):
        def refused(self) -> None:
            """It lacks the argument."""

    exchange = Noting


class RaisesForARefusal(Right):
    class Raising(Exchange):
        def refused(self, *, certain: bool) -> None:
            raise RuntimeError(PASSWORD)

    exchange = Raising


class WaitsAfterARefusal(Right):
    blocking = True

    class Waiting(Exchange):
        def refused(self, *, certain: bool) -> None:
            time.sleep(1)  # what is caught is just this

    exchange = Waiting


class RefusesByAnotherName(Right):
    class Refusing(Exchange):
        def on_refused(self, *, certain: bool) -> None:
            """The core does not call it."""

    exchange = Refusing


class NotesRefusalsItself(Right):
    def refused(self, *, certain: bool) -> None:
        """The core calls the exchange."""
