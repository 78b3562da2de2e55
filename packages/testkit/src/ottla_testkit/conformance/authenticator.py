"""All requirements for a `Mechanism` and its authenticators.

```python
class TestMine(AuthenticatorConformance):
    secrets = ("the password",)
    mutual = True

@pytest.fixture
def mechanism(self):
    return MyMechanism(user="ann", password="the password")

    @pytest.fixture
    def broker(self):
        return MyBroker  # makes a SaslBroker for each login
```

Without a `broker` the suite tests no login: only the mechanism's first message, and its reaction to garbage.
"""

from __future__ import annotations

import itertools
import logging
import random
import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import pytest

from ottla.errors import OttlaError
from ottla.interfaces import Authenticator, Mechanism
from ottla.network.authentication.exchange import MAX_TOKEN, MAX_TURNS
from ottla_testkit.conformance.harness.bounded_suite import check_contract
from ottla_testkit.conformance.harness.checked_layer import check
from ottla_testkit.conformance.harness.closing import close_plugin
from ottla_testkit.conformance.harness.concurrent_calls import NotBackError
from ottla_testkit.conformance.harness.login import CheckedMechanism, Login, MakeBroker, kind, shown
from ottla_testkit.conformance.harness.secret_leaks import Secrets
from ottla_testkit.conformance.harness.thread_leaks import StartedThreads

HOSTS: Final = ("localhost", "127.0.0.1", "::1", "b-1.a-rather-long-name.of.some.cluster.example.com", "KAFKA")

_NAME: Final = re.compile(r"[A-Z0-9_-]{1,20}")
_HOSTILE: Final = (
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


class AuthenticatorConformance(CheckedMechanism):
    """Subclass it as `Test...`, and override the fixture `mechanism`; preferably `broker` and `secrets`, too."""

    secrets: ClassVar[Sequence[str]] = ()
    """Texts that must never appear in a log, an error or a repr: the mechanism's passwords, keys and tokens."""
    mutual: ClassVar[bool] = False
    """Whether the broker has to authenticate itself, too: then only its correct messages complete a login."""
    entry_point: ClassVar[str] = ""
    """The name that users set as `sasl.mechanism`, which brokers know; empty: the suite does not compare it."""
    host: ClassVar[str] = "localhost"
    """Host name of the broker that the login is for."""
    port: ClassVar[int] = 9092
    at_once: ClassVar[float] = 2.0
    """Seconds after which a call of a mechanism that is not `blocking` fails as blocking."""
    timeout: ClassVar[float] = 10.0
    """Seconds after which a call of a `blocking` mechanism fails as stuck."""

    @pytest.fixture
    def mechanism(self) -> Mechanism:
        """The mechanism under test; a new one for each test."""
        raise NotImplementedError("give a fixture `mechanism` that returns your Mechanism")

    @pytest.fixture
    def broker(self) -> MakeBroker | None:
        """A function that makes the broker's half of a login, or None: then the suite logs in nowhere."""
        return None

    @pytest.fixture(autouse=True)
    def _closing(self, started_threads: StartedThreads, mechanism: Mechanism) -> Iterator[None]:
        self._closed = False
        yield
        if not self._closed and not self.usage.stopped_by:
            self._close(mechanism)

    def test_it_has_all_attributes_of_the_contract(self, mechanism: Mechanism) -> None:
        check_contract(mechanism, Mechanism)
        name: object = mechanism.name
        check(
            isinstance(name, str) and _NAME.fullmatch(name) is not None,
            f"name is {name!r}; the name of a SASL mechanism has 1 to 20 of A-Z 0-9 - _, such as SCRAM-SHA-512",
        )
        check(
            self.entry_point in ("", name),
            f"name is {name!r}, and the entry point's is {self.entry_point!r}: brokers are asked for another mechanism "
            "than sasl.mechanism says; a suite of the plugin's own with entry_point = '' allows it",
        )
        blocking: object = mechanism.blocking
        check(isinstance(blocking, bool), f"blocking is {blocking!r}, which is neither True nor False")
        identity: object = getattr(mechanism, "identity", None)
        check(identity is None or isinstance(identity, str), f"identity is a {kind(identity)}; it is a name, or None")
        remedy: object = getattr(mechanism, "remedy", "")
        check(isinstance(remedy, str), f"remedy is a {kind(remedy)}; it is what helps, in words")

    def test_every_connection_has_its_own_exchange(self, mechanism: Mechanism) -> None:
        one, other = self._begun(mechanism), self._begun(mechanism)
        check(one is not other, "authenticator() returned the same exchange twice; each connection needs a new one")

    def test_any_broker_name_is_accepted_or_refused_with_a_message(self, mechanism: Mechanism) -> None:
        for host, port in itertools.product(HOSTS, (1, 9092, 65535)):
            try:
                self._start(mechanism, self._begun(mechanism, host=host, port=port))
            except OttlaError as error:
                check(bool(str(error).strip()), f"start() for the host {host} raised {error!r}, which has no words")

    # Login

    def test_an_honest_broker_accepts_the_login(self, mechanism: Mechanism, broker: MakeBroker | None) -> None:
        self._log_in(mechanism, _needed(broker))

    def test_consecutive_logins_do_not_disturb_each_other(
        self, mechanism: Mechanism, broker: MakeBroker | None
    ) -> None:
        for _ in range(3):
            self._log_in(mechanism, _needed(broker))

    def test_concurrent_logins_do_not_disturb_each_other(self, mechanism: Mechanism, broker: MakeBroker | None) -> None:
        make = _needed(broker)
        logins = [Login(self, mechanism, make()) for _ in range(3)]
        for _ in range(MAX_TURNS):
            for login in logins:
                login.advance()
        for login in logins:
            check(login.over, "of logins that take turns, one does not end")

    def test_an_interrupted_login_can_be_repeated(self, mechanism: Mechanism, broker: MakeBroker | None) -> None:
        make = _needed(broker)
        for turns in range(len(self._log_in(mechanism, make))):
            delivery_failed = Login(self, mechanism, make())
            for _ in range(turns):
                delivery_failed.advance()
            self._log_in(mechanism, make)

    # Wrong and hostile brokers

    def test_garbage_is_refused_with_a_message_at_every_stage(
        self, mechanism: Mechanism, broker: MakeBroker | None, chance: random.Random
    ) -> None:
        garbage = [*_HOSTILE, *(chance.randbytes(chance.randrange(1, 300)) for _ in range(_DRAWN))]
        for stage in range(self._stages(mechanism, broker)):
            for data in garbage:
                login = self._at(stage, mechanism, broker)
                # After a broker's proof, its last message may be empty, and is then no garbage.
                if stage == 0 or broker is None or login.heard() != data:
                    self._run_out(login, mechanism, data)

    def test_damaged_messages_are_refused_with_a_message(
        self, mechanism: Mechanism, broker: MakeBroker | None, chance: random.Random
    ) -> None:
        make = _needed(broker)
        for stage in range(len(self._log_in(mechanism, make))):
            for _ in range(_DAMAGED):
                login = self._at(stage, mechanism, make)
                heard = bytearray(login.heard())
                for _ in range(chance.choice((1, 2, 5))):
                    if heard:
                        heard[chance.randrange(len(heard))] = chance.randrange(256)
                self._outcome(mechanism, login.exchange, bytes(heard))

    def test_an_old_login_cannot_be_replayed(self, mechanism: Mechanism, broker: MakeBroker | None) -> None:
        heard = self._log_in(mechanism, _needed(broker))
        self._expect_no_end(mechanism, heard, "the messages of an earlier login")

    def test_messages_out_of_order_complete_no_login(self, mechanism: Mechanism, broker: MakeBroker | None) -> None:
        make = _needed(broker)
        heard = self._log_in(mechanism, make)
        self._expect_no_end(mechanism, heard[::-1], "a broker's messages in the wrong order")
        login = self._at(0, mechanism, make)
        first = login.heard()
        self._outcome(mechanism, login.exchange, first)
        if len(heard) > 1:
            self._check_not_done(mechanism, login.exchange, first, "a broker's first message twice")

    def test_after_any_broker_response_the_next_login_works(
        self, mechanism: Mechanism, broker: MakeBroker | None
    ) -> None:
        make = _needed(broker)
        for data in _HOSTILE:
            self._run_out(self._at(0, mechanism, make), mechanism, data)
            self._log_in(mechanism, make)

    # Secrets

    def test_secrets_are_never_shown(
        self,
        mechanism: Mechanism,
        broker: MakeBroker | None,
        caplog: pytest.LogCaptureFixture,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        if not self.secrets:
            pytest.skip("`secrets` is empty: there is nothing to look for")
        caplog.set_level(logging.DEBUG)
        secrets = Secrets(self.secrets)
        secrets.check_silent("the mechanism", mechanism)
        for ability in ("identity", "remedy"):
            secrets.check_text(f"`{ability}`", str(getattr(mechanism, ability, "")))
        for stage, data in itertools.product(range(self._stages(mechanism, broker)), _HOSTILE):
            login = self._at(stage, mechanism, broker)
            secrets.check_silent("an exchange", login.exchange)
            for _ in range(3):
                outcome = self._outcome(mechanism, login.exchange, data)
                if isinstance(outcome, OttlaError):
                    secrets.check_error(outcome)
                    break
            secrets.check_silent("an exchange", login.exchange)
        if broker is not None:
            self._log_in(mechanism, broker)
        secrets.check_silent("the mechanism", mechanism)
        secrets.check_text("the log", caplog.text)
        secrets.check_text("what is printed", "".join(capsys.readouterr()))

    # End of a login

    def test_close_ends_background_work(
        self, started_threads: StartedThreads, mechanism: Mechanism, broker: MakeBroker | None
    ) -> None:
        with self._closed_after(mechanism, started_threads):
            if broker is not None:
                self._log_in(mechanism, broker)

    # Shared by the tests

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
                return

    def _expect_no_end(self, mechanism: Mechanism, messages: Sequence[bytes], what: str) -> None:
        exchange = self._begun(mechanism)
        self._start(mechanism, exchange)
        for data in messages:
            if self._check_not_done(mechanism, exchange, data, what):
                return

    def _check_not_done(self, mechanism: Mechanism, exchange: Authenticator, data: bytes, what: str) -> bool:
        """Return whether the exchange has ended: refused, or done if the broker need not authenticate itself."""
        outcome = self._outcome(mechanism, exchange, data)
        if isinstance(outcome, OttlaError):
            return True
        check(
            not (self.mutual and outcome.done),
            f"{what} ended a login well; an eavesdropper on one login could pose as the broker",
        )
        return outcome.done

    def _close(self, mechanism: object, *, used: bool = True) -> None:
        self._closed = True
        try:
            close_plugin(mechanism, self.at_once, used=used)
        except NotBackError as error:
            self.usage.stopped_by = str(error)
            raise


def _needed(broker: MakeBroker | None) -> MakeBroker:
    if broker is None:
        pytest.skip("no fixture `broker` makes the other half of a login")
    return broker
