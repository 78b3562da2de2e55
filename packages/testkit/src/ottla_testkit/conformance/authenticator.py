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
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import pytest

from ottla.errors import OttlaError
from ottla.interfaces import Mechanism, SupportsRefused
from ottla.network.authentication.exchange import MAX_TURNS
from ottla_testkit.conformance.authenticator_contract import MechanismContract
from ottla_testkit.conformance.authenticator_impostors import HOSTILE, ImpostorRequirements, needed
from ottla_testkit.conformance.harness.checked_layer import check, fail, has_ability
from ottla_testkit.conformance.harness.closing import close_plugin
from ottla_testkit.conformance.harness.concurrent_calls import NotBackError, within
from ottla_testkit.conformance.harness.login import Login, MakeBroker
from ottla_testkit.conformance.harness.secret_leaks import Secrets
from ottla_testkit.conformance.harness.thread_leaks import StartedThreads

HOSTS: Final = ("localhost", "127.0.0.1", "::1", "b-1.a-rather-long-name.of.some.cluster.example.com", "KAFKA")


class AuthenticatorConformance(ImpostorRequirements, MechanismContract):
    """Tests of an authenticator: derive a class `Test...` from it.

    Override the fixture `mechanism`; preferably `broker` and `secrets`, too.
    """

    secrets: ClassVar[Sequence[str]] = ()
    """Texts that must never appear in a log, an error or a repr: the mechanism's passwords, keys and tokens."""
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
        """A function that makes the broker's half of a login. If it is None, the suite does not log in."""
        return None

    @pytest.fixture
    def recorded_log(self, caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
        """The log from before the mechanism is made."""
        caplog.set_level(logging.DEBUG)
        return caplog

    @pytest.fixture(autouse=True)
    def _closing(
        self, started_threads: StartedThreads, recorded_log: pytest.LogCaptureFixture, mechanism: Mechanism
    ) -> Iterator[None]:
        self._closed = False
        yield
        if not self._closed and not self.usage.stopped_by:
            self._close(mechanism)

    def test_any_broker_name_is_accepted_or_refused_with_a_message(self, mechanism: Mechanism) -> None:
        for host, port in itertools.product(HOSTS, (1, 9092, 65535)):
            try:
                self._start(mechanism, self._begun(mechanism, host=host, port=port))
            except OttlaError as error:
                check(bool(str(error).strip()), f"start() for the host {host} raised {error!r}, which has no words")

    # Login

    def test_an_honest_broker_accepts_the_login(self, mechanism: Mechanism, broker: MakeBroker | None) -> None:
        self._log_in(mechanism, needed(broker))

    def test_consecutive_logins_do_not_disturb_each_other(
        self, mechanism: Mechanism, broker: MakeBroker | None
    ) -> None:
        for _ in range(3):
            self._log_in(mechanism, needed(broker))

    def test_concurrent_logins_do_not_disturb_each_other(self, mechanism: Mechanism, broker: MakeBroker | None) -> None:
        make = needed(broker)
        logins = [Login(self, mechanism, make()) for _ in range(3)]
        for _ in range(MAX_TURNS):
            for login in logins:
                login.advance()
        for login in logins:
            check(login.over, "of logins that take turns, one does not end")

    def test_an_interrupted_login_can_be_repeated(self, mechanism: Mechanism, broker: MakeBroker | None) -> None:
        make = needed(broker)
        for turns in range(len(self._log_in(mechanism, make))):
            delivery_failed = Login(self, mechanism, make())
            for _ in range(turns):
                delivery_failed.advance()
            self._log_in(mechanism, make)

    def test_a_refused_login_is_noted_at_once(self, mechanism: Mechanism) -> None:
        for certain in (True, False):
            exchange = self._begun(mechanism)
            self._start(mechanism, exchange)
            if not has_ability(exchange, SupportsRefused):
                pytest.skip("its exchanges lack SupportsRefused")
            self._refused(exchange, certain=certain)

    # Secrets

    def test_secrets_are_never_shown(
        self,
        mechanism: Mechanism,
        broker: MakeBroker | None,
        recorded_log: pytest.LogCaptureFixture,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        if not self.secrets:
            pytest.skip("`secrets` is empty: there is nothing to look for")
        secrets = Secrets(self.secrets)
        secrets.check_silent("the mechanism", mechanism)
        for ability in ("identity", "remedy"):
            secrets.check_text(f"`{ability}`", str(getattr(mechanism, ability, "")))
        for stage, data in itertools.product(range(self._stages(mechanism, broker)), HOSTILE):
            login = self._at(stage, mechanism, broker)
            secrets.check_silent("an exchange", login.exchange)
            for _ in range(3):
                outcome = self._outcome(mechanism, login.exchange, data)
                if isinstance(outcome, OttlaError):
                    break
            secrets.check_silent("an exchange", login.exchange)
        if broker is not None:
            self._log_in(mechanism, broker)
        secrets.check_silent("the mechanism", mechanism)
        logged = [each for phase in ("setup", "call") for each in recorded_log.get_records(phase)]
        secrets.check_text("the log", "\n".join(map(recorded_log.handler.format, logged)))
        secrets.check_text("what is printed", "".join(capsys.readouterr()))

    # End of a login

    def test_close_ends_background_work(
        self, started_threads: StartedThreads, mechanism: Mechanism, broker: MakeBroker | None
    ) -> None:
        with self._closed_after(mechanism, started_threads):
            if broker is not None:
                self._log_in(mechanism, broker)

    # Shared by the tests

    def _refused(self, exchange: SupportsRefused, *, certain: bool) -> None:
        call = f"refused(certain={certain})"
        try:
            # The I/O thread makes this call, also of a mechanism that is `blocking`.
            within(self.at_once, call, lambda: exchange.refused(certain=certain), remedy="the I/O thread waits for it")
        except Exception as error:
            Secrets(self.secrets).check_error(error)
            fail(f"{call} raised {error!r}; it only notes that the broker refused the login", error)

    def _close(self, mechanism: object, *, used: bool = True) -> None:
        self._closed = True
        try:
            close_plugin(mechanism, self.at_once, used=used)
        except NotBackError as error:
            self.usage.stopped_by = str(error)
            raise
