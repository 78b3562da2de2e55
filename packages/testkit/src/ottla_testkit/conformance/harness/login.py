"""A mechanism called as the core calls it, and step-by-step logins at a broker of the suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

from ottla.errors import OttlaError, with_article
from ottla.interfaces import Authenticator, Mechanism, Step
from ottla.network.authentication.exchange import MAX_TOKEN, MAX_TURNS
from ottla_testkit.conformance.harness.bounded_suite import BoundedSuite, check_contract
from ottla_testkit.conformance.harness.checked_layer import check, fail
from ottla_testkit.conformance.harness.concurrent_calls import within
from ottla_testkit.conformance.harness.sasl_broker import SaslBroker
from ottla_testkit.conformance.harness.secret_leaks import Secrets

MakeBroker: TypeAlias = Callable[[], SaslBroker]


class CheckedMechanism(BoundedSuite):
    """Make each call and check its result; the suite gives the broker's address and the time limit."""

    subject: ClassVar[str] = "mechanism"
    contract: ClassVar[type] = Mechanism
    host: ClassVar[str]
    port: ClassVar[int]
    at_once: ClassVar[float]
    secrets: ClassVar[Sequence[str]]

    def _begun(self, mechanism: Mechanism, *, host: str | None = None, port: int | None = None) -> Authenticator:
        host, port = host or self.host, port or self.port
        made: object = self._called(
            "authenticator()",
            mechanism,
            lambda: mechanism.authenticator(host, port),
            raises="nothing",
            on_io_thread=getattr(mechanism, "concurrent_logins", False) is True,
        )
        check_contract(made, Authenticator, made_by="authenticator()")
        assert isinstance(made, Authenticator)
        return made

    def _start(self, mechanism: Mechanism, exchange: Authenticator) -> bytes:
        said: Any = self._called("start()", mechanism, exchange.start)
        check(isinstance(said, bytes), f"start() returned {with_article(kind(said))}; it must be bytes")
        self._check_size("start()", said)
        return bytes(said)

    def _challenge(self, mechanism: Mechanism, exchange: Authenticator, data: bytes) -> Step:
        step: Any = self._called(shown(data), mechanism, lambda: exchange.challenge(data))
        check(isinstance(step, Step), f"{shown(data)} returned {with_article(kind(step))}, which is not a Step")
        assert isinstance(step, Step)
        reply: object = step.reply
        check(
            reply is None or isinstance(reply, bytes),
            f"{shown(data)} replied with {with_article(kind(reply))}, not bytes",
        )
        check(isinstance(step.done, bool), f"{shown(data)} said done={step.done!r}, which is neither True nor False")
        check(
            step.done or reply is not None,
            f"{shown(data)} has nothing to reply and is not done either: both sides would wait for each other",
        )
        self._check_size(shown(data), step.reply or b"")
        return step

    def _outcome(self, mechanism: Mechanism, exchange: Authenticator, data: bytes) -> Step | OttlaError:
        try:
            return self._challenge(mechanism, exchange, data)
        except OttlaError as error:
            check(bool(str(error).strip()), f"{shown(data)} raised {error!r}, which has no words")
            return error

    def _called(
        self,
        call: str,
        mechanism: Mechanism,
        work: Callable[[], Any],
        *,
        raises: str = "",
        on_io_thread: bool = False,
    ) -> Any:
        """Return the call's result; every call is on another thread, as the core may do it, too."""
        limit, remedy = self.timeout, "no other connection can log in meanwhile"
        if not mechanism.blocking:
            limit = self.at_once
            remedy = "the I/O thread waits for it, and with it every connection: do not wait, or say blocking = True"
        elif on_io_thread:
            limit = self.at_once
            remedy = "with concurrent_logins = True the I/O thread waits for it, and with it every connection"
        try:
            return within(limit, call, work, remedy=remedy)
        except OttlaError as error:
            Secrets(self.secrets).check_error(error)
            if raises == "nothing":
                fail(f"{call} raised {error!r}; what can fail belongs into start() or challenge()", error)
            raise
        except Exception as error:
            fail(
                f"{call} raised {type(error).__name__}; what it refuses must be an AuthenticationError, and any other "
                "exception is a fault",
                error,
            )

    def _check_size(self, call: str, said: bytes) -> None:
        check(len(said) <= MAX_TOKEN, f"{call} gave {len(said)} bytes to send; no broker takes more than {MAX_TOKEN}")

    def _log_in(self, mechanism: Mechanism, make: MakeBroker) -> list[bytes]:
        """Log in at an honest broker, to the end; return the broker's messages."""
        login = Login(self, mechanism, make())
        for _ in range(MAX_TURNS):
            login.advance()
            if login.over:
                return login.said
        fail(f"the login did not end after {MAX_TURNS} messages, at an honest broker")

    def _stages(self, mechanism: Mechanism, broker: MakeBroker | None) -> int:
        return 1 if broker is None else len(self._log_in(mechanism, broker))

    def _at(self, stage: int, mechanism: Mechanism, broker: MakeBroker | None) -> Login:
        """Return a login after this number of an honest broker's messages."""
        login = Login(self, mechanism, None if broker is None else broker())
        for _ in range(stage):
            login.advance()
        return login


class Login:
    """One exchange with one broker, one message at a time.

    `said` lists the broker's messages, and `message` is the mechanism's last one.
    """

    def __init__(self, calls: CheckedMechanism, mechanism: Mechanism, broker: SaslBroker | None) -> None:
        self._calls = calls
        self._mechanism = mechanism
        self._broker = broker
        self.exchange = calls._begun(mechanism)
        self.message = calls._start(mechanism, self.exchange)
        self.said: list[bytes] = []
        self.over = False

    def receive(self) -> bytes:
        """Return the broker's response to the mechanism's last message."""
        assert self._broker is not None, "there is no broker to ask"
        try:
            return self._broker.answer(self.message)
        except ValueError as error:
            fail(f"an honest broker refused message {len(self.said) + 1} of {self._mechanism.name}: {error}")

    def advance(self) -> None:
        """Send one message of the mechanism to the broker, and the broker's response back."""
        if self.over:
            return
        response = self.receive()
        self.said.append(response)
        try:
            step = self._calls._challenge(self._mechanism, self.exchange, response)
        except OttlaError as error:
            fail(f"message {len(self.said)} of an honest broker was refused: {error}", error)
        if step.reply is not None:
            self.message = step.reply
        if step.done:
            self._end(step)

    def _end(self, step: Step) -> None:
        assert self._broker is not None, "there is no broker to ask"
        self.over = True
        if step.reply is not None:
            self.receive()
        check(
            self._broker.satisfied,
            f"the mechanism is done after {len(self.said)} messages of the broker, which does not know yet who it is",
        )


def kind(thing: object) -> str:
    """Return the type's name alone: the contents may be secret."""
    return type(thing).__name__


def shown(data: bytes) -> str:
    """Return the call as text, for messages."""
    return f"challenge() with {data[:24]!r}{'...' if len(data) > 24 else ''} ({len(data)} bytes)"
